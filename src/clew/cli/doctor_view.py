"""How `clew doctor` looks: one line for each check, what is wrong below it, and what to do; and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from clew.cli.doctor import CHECKS, Diagnosis
from clew.cli.output import Console, padded, printable

SOUND = {
    "files": "only their owner may read them",
    "database": "finds nothing wrong with itself",
    "chain": "no gap, and every message is what it was",
    "orphans": "none",
    "views": "every compaction refers to messages that are there",
    "index": "in step with the rows",
}


def say_diagnosis(found: Diagnosis, console: Console, *, repairing: bool) -> None:
    """The findings for people."""
    console.say(console.paint(printable(found.where), "bold"))
    for line in _checks(found, console):
        console.say(line)
    for mended in found.mended:
        console.say(console.paint(f"mended: {printable(mended)}", "yellow"))
    if found.backup:
        console.say(f"copy made before: {printable(str(found.backup))}")
    for line in wrap(_verdict(found, repairing), console.width):
        console.say(console.paint(line, "green" if found.is_sound else "red"))


def diagnosis_json(found: Diagnosis) -> dict[str, Any]:
    return {
        "store": found.where,
        "ok": found.is_sound,
        "exists": True,
        "checks": [
            {
                "name": name,
                "checked": name in found.checked,
                "ok": name in found.checked and not any(it.check == name for it in found.findings),
                "problems": [
                    {"what": it.what, "repairable": it.is_repairable} for it in found.findings if it.check == name
                ],
            }
            for name in CHECKS
        ],
        "mended": list(found.mended),
        "backup": None if found.backup is None else str(found.backup),
        "older_copies": [str(copy) for copy in found.older_copies],
    }


def _checks(found: Diagnosis, console: Console) -> Iterator[str]:
    good, bad, open_ = ("✓", "✗", "·") if console.unicode else ("+", "x", "-")
    for name in CHECKS:
        wrong = [finding.what for finding in found.findings if finding.check == name]
        if wrong:
            for number, what in enumerate(wrong):
                sign = f"{console.paint(bad, 'red')} {padded(name, 9)}" if not number else " " * 11
                first, *more = wrap(printable(what), console.width - 14) or [""]
                yield f"{sign} {first}"
                yield from (f"{'':11} {line}" for line in more)
        elif name in found.checked:
            yield f"{console.paint(good, 'green')} {padded(name, 9)} {SOUND[name]}"
        else:
            yield console.paint(f"{open_} {padded(name, 9)} not checked", "dim")


def _verdict(found: Diagnosis, repairing: bool) -> str:
    if found.is_sound:
        return "All is well now." if found.mended else "All is well."
    if not repairing and any(finding.is_repairable for finding in found.findings):
        return "`clew doctor --repair` mends what is derived, after making a copy."
    copies = f" The newest copy is {found.older_copies[0]}." if found.older_copies else ""
    return (
        "This cannot be mended here, because the rows themselves are the truth: "
        f"put a copy of the database back, or keep the file and ask for help.{copies}"
    )
