"""`clew import [FILE... | FOLDER] [--watch]`: import sessions of other programs into the store."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.console import Console
from clew.cli.options import FILE, OneOf, command, one_or_more, option, store_options
from clew.cli.pages import json_fields, plural
from clew.cli.store_access import StoreLocation, configured_store
from clew.cli.text import clip, printable
from clew.config import clew_home
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.importers.follow import FollowState
    from clew.importers.import_files import ImportReport, SkippedSource
    from clew.importers.import_session import ImportedSession
    from clew.store import Store

KINDS = ("claude-code", "codex", "gemini-cli", "opencode", "hermes", "pi", "json", "jsonl")
EXAMPLES = """\
FILE is a session file of Claude Code, Codex, Gemini CLI, opencode, Hermes or pi, the
database of opencode or Hermes, a JSON list of messages, a JSON object with messages,
or JSONL with one message or one conversation a line; gzipped or not; - is standard
input. Of a FOLDER, every session file in it and below is read. Without FILE, the
usual session folders of these programs are read, where they exist.

Importing again adds only new messages. A session that was changed before its end becomes
a branch of what was imported before. The files are never changed.

--watch runs until Ctrl-C: every few seconds it looks for files that are new or have
grown. A reply that may still be incomplete is imported after two minutes. Unchanged files
are not read again, also after a restart.

examples:
  clew import                                all sessions found here
  clew import --watch                        and new ones from now on
  clew import ~/.claude/projects
  clew import ~/.codex/sessions --dry-run
  clew import ~/.gemini/tmp
  clew import ~/.hermes/state.db
  opencode export SESSION | clew import -
"""
MAX_SESSIONS = 20
MAX_SKIPPED = 5
_STATES = (("new", "new"), ("grown", "grown"), ("branch", "as branches"), ("unchanged", "unchanged"))


@command(EXAMPLES, exclusive=("dry_run", "watch"))
@click.argument("files", metavar="FILE", nargs=-1, type=FILE)
@option("--from kind", "KIND", f"only this: {', '.join(KINDS)}", type=OneOf(KINDS))
@click.option("--dry-run", is_flag=True, help="show what would be added, and add nothing")
@click.option("--watch", is_flag=True, help="keep running, and import what is added later; Ctrl-C ends it")
@option("--every", "SECONDS", "with --watch: how often it looks (default: 5)", type=one_or_more)
@store_options
async def import_command(
    console: Console,
    files: Sequence[str],
    kind: str | None,
    dry_run: bool,
    watch: bool,
    every: int | None,
) -> int:
    location = configured_store(console)
    names = files or usual_places(console, empty=watch)
    kind = kind.replace("-", "_") if kind else None
    if watch:
        await _watch([_followed(name) for name in names], kind, every, location, console)
        return 0
    report = await _import_all(names, kind, location, console, dry_run=dry_run)
    console.show(import_json(report), lambda: print_import(report, console))
    return 1 if report.has_failed else 0


def _followed(name: str) -> Path:
    if name == "-" or not Path(name).exists():
        raise InvalidArgument(f"{name}: --watch follows files and folders that are there", remedy="name one")
    return Path(name)


def usual_places(console: Console, *, empty: bool) -> list[str]:
    """The session folders of known programs; with `empty` also those without sessions."""
    from clew.importers import session_files
    from clew.importers.program_folders import program_folders

    paths = (folder.path for folder in program_folders(console.environ))
    found = [str(path) for path in paths if empty or not path.is_dir() or session_files(path)]
    if not found:
        raise InvalidArgument(
            "no FILE is given, and no known program has sessions in its usual folder here",
            remedy="name a file or a folder",
        )
    console.note(printable(f"reading {', '.join(found)}"))
    return found


async def _import_all(
    names: Sequence[str], kind: str | None, location: StoreLocation, console: Console, *, dry_run: bool
) -> ImportReport:
    from clew.importers.import_files import ImportReport, ImportRun, import_sources

    report = ImportReport(location.label, dry_run)
    sources = list(import_sources(names))
    async with _ImportTarget(location, dry_run) as target:
        importing = ImportRun(target.store, report, kind)
        for number, source in enumerate(sources, 1):
            line = f"[{number:,}/{len(sources):,}] {printable(source.name)}"
            console.progress(f"{line} ...")
            await importing.take(source, partial(_show_progress, console, line))
        if target.is_open and not dry_run:
            console.progress("indexing ...")
            await (await target.store()).index_waiting()
    console.clear_progress()
    return report


def _show_progress(console: Console, line: str, count: int) -> None:
    console.progress(f"{line}: {count:,} messages")


class _ImportTarget(AsyncExitStack):
    """The store, opened for the first session: neither an empty import nor a dry run creates a database."""

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
            # No need to wait for the disk after each batch: after a power failure, the next import adds the rest again.
            self._store = await self.enter_async_context(open_store(self._url, flush="normal"))
        return self._store


async def _watch(
    places: list[Path], kind: str | None, every: int | None, location: StoreLocation, console: Console
) -> None:
    """Follow files and folders until Ctrl-C, and print a line for each changed session."""
    from clew.importers.follow import POLL_SECONDS, FolderFollower
    from clew.importers.program_folders import ImportedFiles

    # With --from, files of other programs are skipped, which is not recorded as imported.
    known = ImportedFiles(None, "") if kind else ImportedFiles.noted(console.environ, location.label)
    shown = _WatchScreen(console)
    async with location.open() as store:
        follower = FolderFollower(store, places, known, kind=kind, on_session=shown.session, on_state=shown.state)
        for number in (signal.SIGINT, signal.SIGTERM):
            # Windows has no such handlers; Ctrl-C ends it all the same.
            with suppress(NotImplementedError):
                asyncio.get_running_loop().add_signal_handler(number, follower.stop)
        console.note("following; Ctrl-C ends it")
        await follower.follow(clew_home(console.environ), every or POLL_SECONDS)
    console.clear_progress()
    if not console.as_json:
        state = follower.state
        done = f"{plural(state.sessions, 'session')}: {plural(state.messages, 'message')} added"
        console.print(f"{done}; kept in {printable(location.label)}")


class _WatchScreen:
    """Prints the progress of a follower."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown_problems: tuple[str, ...] = ()
        self._was_waiting = False

    def session(self, each: ImportedSession) -> None:
        self._console.clear_progress()
        if self._console.as_json:
            self._console.print_json_line(_session_json(each))
            return
        at = datetime.now().astimezone().strftime("%H:%M")
        line = f"{at}  {_state(each):<6}  {each.added:>6,}  {each.kind.replace('_', '-')}  {each.title or '-'}"
        self._console.print(clip(printable(line), self._console.width))
        self._console.out.flush()

    def state(self, state: FollowState) -> None:
        if state.is_waiting and not self._was_waiting:
            self._console.note("another Clew imports these files already; this one starts when that one has ended")
        self._was_waiting = state.is_waiting
        for problem in state.problems:
            if problem not in self._shown_problems:
                self._console.error(problem)
        self._shown_problems = state.problems
        if state.is_reading:
            place = f"[{min(state.done + 1, state.files):,}/{state.files:,}]"
            self._console.progress(f"{place} {printable(state.current)} ...")


def print_import(report: ImportReport, console: Console) -> None:
    """Print failures and notices to stderr, imported and skipped sources to stdout."""
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
    named = json_fields(each, "session", "source", "kind", "title")
    return {**named, "state": _state(each), **json_fields(each, "added", "known", "calls")}


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
    console.print_all(console.headed_table(rows, "<>><<", console.width))
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
