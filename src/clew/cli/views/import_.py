"""How `clew import` looks: for people the sessions that changed and the totals, for programs everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.cli.console import Console
from clew.cli.views.amounts import plural
from clew.cli.views.tables import table_lines
from clew.cli.views.text import Align, clip, printable

if TYPE_CHECKING:
    from clew.importers.into_store import ImportedSession

MAX_SESSIONS = 20
MAX_SKIPPED = 5
_STATES = (("new", "new"), ("grown", "grown"), ("branch", "as branches"), ("unchanged", "unchanged"))


@dataclass(frozen=True, slots=True)
class SkippedSource:
    """A file, or a session in one, that was not imported."""

    source: str
    reason: str
    is_failure: bool
    """It was named, or broke in the middle; a file in a folder that is no session file is no failure."""


@dataclass(slots=True)
class ImportReport:
    """What an import did, or with a dry run would do."""

    store: str
    is_dry_run: bool
    sessions: list[ImportedSession] = field(default_factory=list)
    skipped: list[SkippedSource] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)
    """Each with the file it is about."""

    @property
    def has_failed(self) -> bool:
        return any(skipped.is_failure for skipped in self.skipped)


def print_import(report: ImportReport, console: Console) -> None:
    changed = [each for each in report.sessions if each.added or each.is_new]
    _print_sessions(changed, console)
    console.print(_totals_line(report.sessions, report.is_dry_run))
    if report.skipped:
        _print_skipped(report.skipped, console)
    if report.is_dry_run:
        console.print(f"nothing was written to {report.store}")
    elif any(each.added for each in report.sessions):
        console.print(f"kept in {report.store}")


def import_json(report: ImportReport) -> dict[str, Any]:
    return {
        "store": report.store,
        "dry_run": report.is_dry_run,
        "messages_added": sum(each.added for each in report.sessions),
        "messages_known": sum(each.known for each in report.sessions),
        "calls_added": sum(each.calls for each in report.sessions),
        "sessions": [_session_json(each) for each in report.sessions],
        "skipped": [{"source": each.source, "reason": each.reason} for each in report.skipped],
        "notices": [{"source": source, "notice": notice} for source, notice in report.notices],
    }


def _session_json(each: ImportedSession) -> dict[str, Any]:
    return {
        "session": each.session,
        "source": each.source,
        "kind": each.kind,
        "title": each.title,
        "state": _state(each),
        "added": each.added,
        "known": each.known,
        "calls": each.calls,
    }


def _state(each: ImportedSession) -> str:
    if each.is_branch:
        return "branch"
    if each.is_new:
        return "new"
    return "grown" if each.added else "unchanged"


def _print_sessions(changed: Sequence[ImportedSession], console: Console) -> None:
    if not changed:
        return
    rows = [("", "added", "known", "from", "title")]
    rows += [
        (_state(each), f"{each.added:,}", f"{each.known:,}", each.kind.replace("_", "-"), printable(each.title or "-"))
        for each in changed[:MAX_SESSIONS]
    ]
    aligns: list[Align] = ["<", ">", ">", "<", "<"]
    heading, *lines = table_lines(rows, aligns, console.width)
    console.print(console.style(heading, "dim"))
    for line in lines:
        console.print(line)
    if len(changed) > MAX_SESSIONS:
        console.print(f"... and {len(changed) - MAX_SESSIONS:,} more; --json lists all")
    console.print()


def _totals_line(sessions: Sequence[ImportedSession], dry_run: bool) -> str:
    states = Counter(map(_state, sessions))
    counts = ", ".join(f"{states[state]:,} {words}" for state, words in _STATES if states[state])
    added, known = sum(each.added for each in sessions), sum(each.known for each in sessions)
    verb = "would be added" if dry_run else "added"
    line = f"{plural(len(sessions), 'session')}{f' ({counts})' if counts else ''}: {plural(added, 'message')} {verb}"
    calls = sum(each.calls for each in sessions)
    usage = f"; usage of {plural(calls, 'call')}" if calls else ""
    return f"{line}, {known:,} already there{usage}"


def _print_skipped(skipped: Sequence[SkippedSource], console: Console) -> None:
    console.print(f"{len(skipped):,} skipped:")
    for each in skipped[:MAX_SKIPPED]:
        console.print(clip(printable(f"  {each.source}: {each.reason}"), console.width))
    if len(skipped) > MAX_SKIPPED:
        console.print(f"  ... and {len(skipped) - MAX_SKIPPED:,} more; --json lists all")
