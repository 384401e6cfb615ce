"""How `clew doctor` looks: one line for each check, what is wrong below it, and what to do; and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.cli.console import Console
from clew.cli.views.text import pad, printable, wrap

CHECKS: tuple[str, ...] = ("files", "database", "chain", "orphans", "views", "index")
PASSED = {
    "files": "only their owner may read them",
    "database": "finds nothing wrong with itself",
    "chain": "no gap, and every message is what it was",
    "orphans": "none",
    "views": "every compaction refers to messages that are there",
    "index": "in step with the rows",
}


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A check that failed."""

    check: str
    what: str
    is_repairable: bool


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What was checked, what failed, and what was repaired."""

    store: str
    findings: tuple[DoctorFinding, ...]
    checked: tuple[str, ...]
    repaired: tuple[str, ...] = ()
    backup: Path | None = None
    older_backups: tuple[Path, ...] = ()

    @property
    def is_ok(self) -> bool:
        return not self.findings


def print_doctor(report: DoctorReport, console: Console, *, repairing: bool) -> None:
    """The findings for people."""
    console.print(console.style(printable(report.store), "bold"))
    for line in _check_lines(report, console):
        console.print(line)
    for repaired in report.repaired:
        console.print(console.style(f"mended: {printable(repaired)}", "yellow"))
    if report.backup:
        console.print(f"copy made before: {printable(str(report.backup))}")
    for line in wrap(_verdict(report, repairing), console.width):
        console.print(console.style(line, "green" if report.is_ok else "red"))


def doctor_json(report: DoctorReport) -> dict[str, Any]:
    return {
        "store": report.store,
        "ok": report.is_ok,
        "exists": True,
        "checks": [
            {
                "name": name,
                "checked": name in report.checked,
                "ok": name in report.checked and not any(it.check == name for it in report.findings),
                "problems": [
                    {"what": it.what, "repairable": it.is_repairable} for it in report.findings if it.check == name
                ],
            }
            for name in CHECKS
        ],
        "mended": list(report.repaired),
        "backup": None if report.backup is None else str(report.backup),
        "older_copies": [str(backup) for backup in report.older_backups],
    }


def _check_lines(report: DoctorReport, console: Console) -> Iterator[str]:
    good, bad, open_ = ("✓", "✗", "·") if console.unicode else ("+", "x", "-")
    for name in CHECKS:
        wrong = [finding.what for finding in report.findings if finding.check == name]
        if wrong:
            for number, what in enumerate(wrong):
                sign = f"{console.style(bad, 'red')} {pad(name, 9)}" if not number else " " * 11
                first, *more = wrap(what, console.width - 14) or [""]
                yield f"{sign} {first}"
                yield from (f"{'':11} {line}" for line in more)
        elif name in report.checked:
            yield f"{console.style(good, 'green')} {pad(name, 9)} {PASSED[name]}"
        else:
            yield console.style(f"{open_} {pad(name, 9)} not checked", "dim")


def _verdict(report: DoctorReport, repairing: bool) -> str:
    if report.is_ok:
        return "All is well now." if report.repaired else "All is well."
    if not repairing and any(finding.is_repairable for finding in report.findings):
        return "`clew doctor --repair` mends what is derived, after making a copy."
    copies = f" The newest copy is {report.older_backups[0]}." if report.older_backups else ""
    return (
        "This cannot be mended here, because the rows themselves are the truth: "
        f"put a copy of the database back, or keep the file and ask for help.{copies}"
    )
