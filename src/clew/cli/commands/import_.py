"""`clew import FILE... | FOLDER`: sessions of other programs into the store, and a report of what was new in them."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.cli.arguments import add_store_flags
from clew.cli.console import Console
from clew.cli.store_access import StoreLocation, configured_store
from clew.cli.views.amounts import plural
from clew.cli.views.tables import table_lines
from clew.cli.views.text import Align, clip, printable
from clew.errors import InvalidArgument, InvalidMessage, UnreadableTranscript

if TYPE_CHECKING:
    from clew.importers import SourceSession
    from clew.importers.into_store import ImportedSession
    from clew.store import Store

KINDS = ("claude-code", "codex", "gemini-cli", "opencode", "hermes", "pi", "json", "jsonl")
EXAMPLES = """\
FILE is a session file of Claude Code, Codex, Gemini CLI, opencode, Hermes or pi, the
database of opencode or Hermes, a JSON list of messages, a JSON object with messages,
or JSONL with one message or one conversation a line; gzipped or not; - is standard
input. Of a FOLDER, every session file in it and below is read.

Importing again adds only what is new: nothing, where nothing is. A session that was
changed before its end becomes a branch of what was imported before. Nothing in the
files is changed.

examples:
  clew import ~/.claude/projects
  clew import ~/.codex/sessions --dry-run
  clew import ~/.gemini/tmp
  clew import ~/.hermes/state.db
  opencode export SESSION | clew import -
"""
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


@dataclass(frozen=True, slots=True)
class ImportSource:
    """A file to read."""

    name: str
    is_named: bool
    """On the command line, not found in a folder."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("files", metavar="FILE", nargs="+", help="a session file, or a folder of them")
    parser.add_argument("--from", metavar="KIND", dest="kind", choices=KINDS, help=f"only this: {', '.join(KINDS)}")
    parser.add_argument("--dry-run", action="store_true", help="say what would be added, and add nothing")
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    location = configured_store(arguments, console)
    report = asyncio.run(_import_all(arguments, location, console))
    if arguments.json:
        console.print_json(import_json(report))
    else:
        print_import(report, console)
    return 1 if report.has_failed else 0


async def _import_all(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> ImportReport:
    report = ImportReport(location.label, arguments.dry_run)
    kind = arguments.kind.replace("-", "_") if arguments.kind else None
    sources = list(_sources(arguments.files))
    async with _ImportTarget(location, arguments.dry_run) as target:
        importing = _ImportRun(target, kind, report, console)
        for number, source in enumerate(sources, 1):
            await importing.take(source, f"[{number:,}/{len(sources):,}] {printable(source.name)}")
        if target.is_open and not arguments.dry_run:
            console.progress("indexing ...")
            await (await target.store()).index_waiting()
    console.clear_progress()
    return report


class _ImportTarget(AsyncExitStack):
    """The store, opened for the first session: an import that finds none creates no database, and no dry run does."""

    def __init__(self, location: StoreLocation, dry_run: bool) -> None:
        super().__init__()
        self._url = ":memory:" if dry_run and not location.exists else location.url
        self._store: Store | None = None

    @property
    def is_open(self) -> bool:
        return self._store is not None

    async def store(self) -> Store:
        from clew.store import open_store

        if self._store is None:
            # What a power cut takes back, the next import brings again: no need to wait for the disk after each batch.
            self._store = await self.enter_async_context(open_store(self._url, flush="normal"))
        return self._store


def _sources(names: Sequence[str]) -> Iterator[ImportSource]:
    from clew.importers import session_files

    if names.count("-") > 1:
        raise InvalidArgument("- is given twice, and standard input can be read once; leave one out")
    for name in dict.fromkeys(names):
        if name != "-" and Path(name).is_dir():
            found = session_files(Path(name))
            if not found:
                raise InvalidArgument(
                    f"{name}: there is no .jsonl, .json or .db file in this folder or below; name another"
                )
            yield from (ImportSource(str(path), is_named=False) for path in found)
        else:
            yield ImportSource(name, is_named=True)


@dataclass(frozen=True, slots=True)
class _ImportRun:
    """Imports one source after the other, and adds to the report."""

    target: _ImportTarget
    kind: str | None
    """Only sessions of this program; None for all."""
    report: ImportReport
    console: Console

    async def take(self, source: ImportSource, progress: str) -> None:
        """Import every session of a file; `progress` is shown while it is read."""
        from clew.importers import open_sessions

        label = "standard input" if source.name == "-" else source.name
        self.console.progress(f"{progress} ...")
        try:
            with open_sessions(source.name) as file:
                for session in file.sessions:
                    await self._take_session(session, source, progress)
                self.report.notices += [(label, notice) for notice in file.notices.sentences()]
        except UnreadableTranscript as error:
            reason = f"{error.problem}. {error.remedy}" if source.is_named else error.problem
            self._skip(error.source, reason, is_failure=source.is_named)

    async def _take_session(self, session: SourceSession, source: ImportSource, progress: str) -> None:
        from clew.importers.into_store import import_session

        if self.kind not in (None, session.kind):
            wanted = (self.kind or "").replace("_", "-")
            reason = f"is of {session.kind.replace('_', '-')}, and --from asks for {wanted}"
            self._skip(session.name, reason, is_failure=source.is_named)
            return
        try:
            imported = await import_session(
                await self.target.store(),
                session,
                dry_run=self.report.is_dry_run,
                progress=lambda count: self.console.progress(f"{progress}: {count:,} messages"),
            )
        except InvalidMessage as error:
            self._skip(session.name, str(error), is_failure=True)
            return
        if imported.session is None:
            self._skip(session.name, "holds no messages", is_failure=False)
        else:
            self.report.sessions.append(imported)
        self.report.notices += [(session.name, notice) for notice in imported.notices]

    def _skip(self, source: str, reason: str, *, is_failure: bool) -> None:
        self.report.skipped.append(SkippedSource(source, reason, is_failure))


# -- how it looks ------------------------------------------------------------------------------------------------------


def print_import(report: ImportReport, console: Console) -> None:
    """What failed and what was odd to stderr, each once; what was done and what was passed over to stdout."""
    for source, notice in report.notices:
        console.note(printable(f"{source}: {notice}"))
    for failed in (each for each in report.skipped if each.is_failure):
        console.error(f"{failed.source}: {failed.reason}")
    if not report.sessions and report.has_failed:
        return
    changed = [each for each in report.sessions if each.added or each.is_new]
    _print_sessions(changed, console)
    console.print(_totals_line(report.sessions, report.is_dry_run))
    if passed_over := [each for each in report.skipped if not each.is_failure]:
        _print_skipped(passed_over, console)
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
        "skipped": [
            {"source": each.source, "reason": each.reason, "failed": each.is_failure} for each in report.skipped
        ],
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
