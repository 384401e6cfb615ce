"""`clew import FILE... | FOLDER`: sessions of other programs into the store, and the account of what was new in them.

Finds files, reads them one session at a time, and tells. What becomes of a session is for `clew.importers.into_store`.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from clew.cli.open_store import StorePlace, add_store_flags, configured_place
from clew.cli.output import Console, printable
from clew.errors import InvalidArgument, InvalidMessage, UnreadableTranscript

if TYPE_CHECKING:
    from clew.importers import Session
    from clew.importers.into_store import ImportedSession
    from clew.store import Store

KINDS = ("claude-code", "codex", "opencode", "hermes", "pi", "json", "jsonl")
EXAMPLES = """\
FILE is a session file of Claude Code, Codex, opencode, Hermes or pi, the database of
opencode or Hermes, a JSON list of messages, a JSON object with messages, or JSONL with
one message or one conversation a line; gzipped or not; - is standard input. Of a
FOLDER, every session file in it and below is read.

Importing again adds only what is new: nothing, where nothing is. A session that was
changed before its end becomes a branch of what was imported before. Nothing in the
files is changed.

examples:
  clew import ~/.claude/projects
  clew import ~/.codex/sessions --dry-run
  clew import ~/.hermes/state.db
  opencode export SESSION | clew import -
"""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file, or a session in one, that was not taken in."""

    source: str
    reason: str
    is_failure: bool
    """Whether it was asked for by name, or broke in the middle; a stranger in a folder is none."""


@dataclass(slots=True)
class Account:
    """What an import did, or with a dry run would do."""

    store: str
    is_dry_run: bool
    sessions: list[ImportedSession] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)
    """Each with the file it is about."""

    @property
    def has_failed(self) -> bool:
        return any(skipped.is_failure for skipped in self.skipped)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to look into."""

    source: str
    is_named: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("files", metavar="FILE", nargs="+", help="a session file, or a folder of them")
    parser.add_argument("--from", metavar="KIND", dest="kind", choices=KINDS, help=f"only this: {', '.join(KINDS)}")
    parser.add_argument("--dry-run", action="store_true", help="say what would be added, and add nothing")
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.import_view import account_json, say_account

    place = configured_place(arguments, console)
    account = asyncio.run(_imported(arguments, place, console))
    for source, notice in account.notices:
        console.note(printable(f"{source}: {notice}"))
    for skipped in account.skipped:
        if skipped.is_failure:
            console.fail(f"{skipped.source}: {skipped.reason}")
    if arguments.json:
        console.say_json(account_json(account))
    else:
        say_account(account, console)
    return 1 if account.has_failed else 0


async def _imported(arguments: argparse.Namespace, place: StorePlace, console: Console) -> Account:
    account = Account(place.shown, arguments.dry_run)
    kind = arguments.kind.replace("-", "_") if arguments.kind else None
    candidates = list(_candidates(arguments.files))
    async with _opened(place, arguments.dry_run) as store:
        for number, candidate in enumerate(candidates, 1):
            progress = f"[{number:,}/{len(candidates):,}] {printable(candidate.source)}"
            await _take_file(candidate, kind, store, account, console, progress)
        if not arguments.dry_run:
            console.progress("indexing ...")
            await store.index_waiting()
    console.wipe()
    return account


@asynccontextmanager
async def _opened(place: StorePlace, dry_run: bool) -> AsyncIterator[Store]:
    """The store; with a dry run, nothing is made where there is none."""
    from clew.store import open_store

    url = ":memory:" if dry_run and not place.is_there else place.url
    # What a power cut takes back, the next import brings again: no need to wait for the disk after each batch.
    async with open_store(url, flush="normal") as store:
        yield store


def _candidates(names: Sequence[str]) -> Iterator[Candidate]:
    from clew.importers import session_files

    if names.count("-") > 1:
        raise InvalidArgument("- is given twice: standard input can be read once")
    for name in dict.fromkeys(names):
        if name != "-" and Path(name).is_dir():
            found = session_files(Path(name))
            if not found:
                raise InvalidArgument(f"{name}: there is no .jsonl, .json or .db file in this folder or below")
            yield from (Candidate(str(path), is_named=False) for path in found)
        else:
            yield Candidate(name, is_named=True)


async def _take_file(
    candidate: Candidate, kind: str | None, store: Store, account: Account, console: Console, progress: str
) -> None:
    from clew.importers import open_sessions

    shown = "standard input" if candidate.source == "-" else candidate.source
    console.progress(f"{progress} ...")
    try:
        with open_sessions(candidate.source) as file:
            for session in file.sessions:
                await _take_session(session, candidate, kind, store, account, console, progress)
            account.notices += [(shown, notice) for notice in file.notices.sentences()]
    except UnreadableTranscript as error:
        account.skipped.append(Skipped(error.source, error.problem, candidate.is_named))


async def _take_session(
    session: Session,
    candidate: Candidate,
    kind: str | None,
    store: Store,
    account: Account,
    console: Console,
    progress: str,
) -> None:
    from clew.importers.into_store import import_session

    if kind not in (None, session.kind):
        reason = f"is of {session.kind.replace('_', '-')}, and --from asks for {(kind or '').replace('_', '-')}"
        account.skipped.append(Skipped(session.name, reason, candidate.is_named))
        return
    try:
        done = await import_session(
            store,
            session,
            dry_run=account.is_dry_run,
            progress=lambda count: console.progress(f"{progress}: {count:,} messages"),
        )
    except InvalidMessage as error:
        account.skipped.append(Skipped(session.name, str(error), is_failure=True))
        return
    if done.session is None:
        account.skipped.append(Skipped(session.name, "holds no messages", is_failure=False))
    else:
        account.sessions.append(done)
    account.notices += [(session.name, notice) for notice in done.notices]
