"""Opening a source to be read message by message: the one session in it, or all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice

from clew.importers.databases import SIGN, open_database
from clew.importers.entries import Margin
from clew.importers.hermes import hermes_document, is_hermes
from clew.importers.hermes_database import HermesDatabase
from clew.importers.notices import Notices
from clew.importers.opencode import is_opencode, opencode_entries
from clew.importers.opencode_database import OpencodeDatabase
from clew.importers.recognise import EXPECTED, opening_of, plain_session, recognised
from clew.importers.records import BadLine, Line, Record, lines_of
from clew.importers.session import Session
from clew.importers.source import ReadLimits, Source, TranscriptSource

_DATABASE_KINDS: tuple[tuple[str, type[HermesDatabase] | type[OpencodeDatabase]], ...] = (
    ("hermes", HermesDatabase),
    ("opencode", OpencodeDatabase),
)


@contextmanager
def open_session(
    source: TranscriptSource, *, name: str | None = None, limits: ReadLimits | None = None
) -> Iterator[Session]:
    """Open a transcript to be read message by message, in the memory of one turn where its format allows."""
    opened = Source(source, name, limits or ReadLimits())
    with closing(opened), ExitStack() as held:
        yield _newest_in_database(opened, held) if _is_database(opened) else recognised(opened)


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A source with all the sessions in it; each is to be read before the next one is asked for."""

    sessions: Iterator[Session]
    notices: Notices
    """What was found beside the sessions; full when they have been gone through."""


@contextmanager
def open_sessions(
    source: TranscriptSource, *, name: str | None = None, limits: ReadLimits | None = None
) -> Iterator[SessionFile]:
    """Open everything in a source: an export or a database can hold many sessions.

    Each is read message by message, in the memory of one turn; only a JSON document has to be held whole.
    """
    opened = Source(source, name, limits or ReadLimits())
    notices = Notices()
    with closing(opened), ExitStack() as held:
        yield SessionFile(_sessions(opened, notices, held), notices)


def _sessions(source: Source, notices: Notices, held: ExitStack) -> Iterator[Session]:
    if _is_database(source):
        yield from _in_database(source, held)
    elif _has_a_session_a_line(source):
        yield from _session_lines(source, notices)
    else:
        yield recognised(source, by_line=True)


def _is_database(source: Source) -> bool:
    return source.path is not None and opening_of(source).startswith(SIGN)


def _in_database(source: Source, held: ExitStack) -> Iterator[Session]:
    assert source.path is not None
    database = held.enter_context(open_database(source.path))
    found = next(((kind, reader(database)) for kind, reader in _DATABASE_KINDS if reader.recognises(database)), None)
    if found is None:
        raise database.unreadable("is a database, but not one of Hermes or opencode")
    kind, program = found
    for row in program.sessions():
        margin = Margin()
        yield Session(f"{source.name}, session {row['id']}", kind, margin, partial(program.entries, row, margin))


def _newest_in_database(source: Source, held: ExitStack) -> Session:
    sessions = list(_in_database(source, held))
    if not sessions:
        raise source.unreadable("is a database without sessions", EXPECTED)
    if len(sessions) > 1:
        sessions[-1].margin.notices.add(f"the database holds {len(sessions)} sessions; this is the newest")
    return sessions[-1]


def _has_a_session_a_line(source: Source) -> bool:
    """Whether this is JSONL whose lines are whole conversations."""
    if not opening_of(source).startswith(b"{"):
        return False
    first, *second = islice(lines_of(source, Notices()), 2)
    return bool(second) and isinstance(first, Line) and _is_whole_session(first.record)


def _is_whole_session(record: Record) -> bool:
    return "role" not in record and (is_hermes(record) or isinstance(record.get("messages"), list))


def _session_lines(source: Source, notices: Notices) -> Iterator[Session]:
    for line in lines_of(source, notices):
        if isinstance(line, BadLine):
            notices.add("broken lines were left out", line.number)
        elif not _is_whole_session(line.record):
            notices.add("lines that hold no conversation were left out", line.number)
        else:
            yield _session_in_line(source, line)


def _session_in_line(source: Source, line: Line) -> Session:
    named, margin, record = f"{source.name}, line {line.number}", Margin(), line.record
    if is_opencode(record):
        return Session(named, "opencode", margin, partial(opencode_entries, record, margin))
    if is_hermes(record):
        return Session(named, "hermes", margin, partial(hermes_document, record, margin))
    own = record.get("session_id") or record.get("id")
    margin.session = own if isinstance(own, str) else None
    return plain_session(source, "jsonl", record, margin, named)
