"""How `clew doctor --gateway` looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.cli.console import Console
from clew.cli.views.text import pad, printable, wrap
from clew.gateway import ProbeFinding


def print_probe(address: str, findings: Sequence[ProbeFinding], problems: Sequence[str], console: Console) -> None:
    """For people: a line for each thing that was looked at, and one for each setting that should be another."""
    good, bad, warning = ("✓", "✗", "!") if console.unicode else ("+", "x", "!")
    console.print(console.style(printable(address), "bold"))
    signs = [
        (console.style(good, "green") if it.is_ok else console.style(bad, "red"), it.name, it.what) for it in findings
    ]
    signs += [(console.style(warning, "yellow"), "clients", problem) for problem in problems]
    if not problems:
        signs.append((console.style(good, "green"), "clients", "no setting that makes one compact by itself"))
    for sign, name, what in signs:
        first, *more = wrap(printable(what), console.width - 12) or [""]
        console.print(f"{sign} {pad(name, 9)} {first}")
        for line in more:
            console.print(f"{'':11} {line}")


def probe_json(address: str, findings: Sequence[ProbeFinding], problems: Sequence[str]) -> dict[str, Any]:
    """For programs."""
    return {
        "gateway": address,
        "ok": all(it.is_ok for it in findings),
        "checks": [{"name": it.name, "ok": it.is_ok, "what": it.what} for it in findings],
        "clients": list(problems),
    }
