"""Figures for lists and pages, read without the texts of messages: conversations, sizes, calls, compactions.

A page asks for these many times, while other processes write: each is one short read whose time does not grow
with the texts, and `change_mark` says cheaply whether anything was written since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clew.errors import InvalidArgument
from clew.messages import Message
from clew.store.base import CommittedCompaction, ViewItem
from clew.store.calls import AUXILIARY, CLIENT_OF, WINDOW_STATE, client_name
from clew.store.compactions import compaction_at, items_of_view, read_bases_in_effect
from clew.store.database import (
    NO_END,
    Operations,
    Row,
    RowDamage,
    Steps,
    as_datetime,
    as_micros,
    fetch_all,
    fetch_one,
    marks,
    read_json,
    reads,
)
from clew.store.history import base_in_effect, end_of, parts_of, segments_of
from clew.store.rows import BODY, read_messages
from clew.store.sessions import SessionRow, find
from clew.usage import CanonicalUsage

# In the order of the fields of `ConversationOverview`.
_CONVERSATIONS = f"""
SELECT c.id, c.owner, f.name, n.name, n.title, f.source, n.model, f.kind, p.conversation, c.origin_seq, f.created,
    n.ended,
    COALESCE((SELECT m.at FROM messages m WHERE m.conversation = c.id ORDER BY m.seq DESC LIMIT 1), n.created),
    COALESCE((SELECT m.seq + 1 FROM messages m WHERE m.conversation = c.id ORDER BY m.seq DESC LIMIT 1), c.origin_seq),
    COALESCE((SELECT max(k.id) FROM calls k WHERE k.conversation = c.id), 0),
    COALESCE((SELECT max(e.id) FROM entries e WHERE e.conversation = c.id), 0),
    (SELECT max(e.at) FROM entries e WHERE e.conversation = c.id),
    COALESCE((SELECT sum(CASE kind WHEN 'compaction' THEN 1 ELSE -1 END) FROM entries WHERE conversation = c.id), 0),
    COALESCE((SELECT length(t.body) FROM texts t WHERE t.id = n.system), 0),
    COALESCE({CLIENT_OF.format("c.id")}, f.source),
    (SELECT st.value FROM states st WHERE st.conversation = c.id AND st.name = '{WINDOW_STATE}')
FROM conversations c
JOIN sessions f ON f.id = (SELECT min(s.id) FROM sessions s WHERE s.conversation = c.id)
JOIN sessions n ON n.id = (SELECT max(s.id) FROM sessions s WHERE s.conversation = c.id)
LEFT JOIN sessions p ON p.id = f.parent
WHERE CAST(? AS TEXT) IS NULL OR c.owner = ?
ORDER BY c.id DESC LIMIT ?
"""  # noqa: S608 (fixed texts)
_CALLS = """
SELECT k.seq, k.at, k.model, k.source, k.input_tokens, k.output_tokens, k.cache_read_tokens, k.cache_write_tokens,
    k.reasoning_tokens, k.cost_micros, k.cost_direct_micros, k.provider
FROM calls k WHERE k.conversation = ?
"""
_LAST_ASKED_FOR = " AND k.source <> 'auxiliary' ORDER BY k.id DESC LIMIT 1"
_ENTRIES = """
SELECT e.id, s.name, e.at, e.until, e.account, e.view FROM entries e JOIN sessions s ON s.id = e.session
WHERE e.conversation = ? AND e.kind = 'compaction' ORDER BY e.id
"""
# What was undone is the `previous` of the undo.
_COMPACTED = f"""
SELECT e.at, s.model, s.source, COALESCE({CLIENT_OF.format("e.conversation")}, s.source), e.account
FROM entries e JOIN sessions s ON s.id = e.session JOIN conversations c ON c.id = e.conversation
WHERE e.kind = 'compaction' AND e.at >= ? AND e.at < ? AND NOT EXISTS (
    SELECT 1 FROM entries u WHERE u.conversation = e.conversation AND u.kind = 'undo' AND u.previous = e.id)
AND (CAST(? AS TEXT) IS NULL OR c.owner = ?)
ORDER BY e.at, e.id
"""  # noqa: S608 (fixed texts)
_DAY_SECONDS = 86_400
_OPENING_MESSAGES = 8
_NEWEST_MESSAGES = 40
"""The newest message of the user or the model is looked for among so many; others are tool results."""


@dataclass(frozen=True, slots=True)
class StoredWindow:
    """The window of a conversation as the gateway that served it last used it."""

    tokens: int
    threshold: int | None
    """None where it is not folded."""
    basis: str


@dataclass(frozen=True, slots=True)
class ConversationOverview:
    """A conversation as a list shows it, without its texts."""

    conversation: int
    owner: str
    id: str
    """The id of its first session."""
    newest: str
    """The id of its newest session."""
    title: str | None
    source: str
    model: str | None
    kind: str
    parent: int | None
    """The conversation that it branched off from, or whose subagent it is."""
    shared: int
    """Messages that it shares with the one it branched off from."""
    created: datetime
    ended: datetime | None
    updated: datetime
    """The time of the newest message, or of the start of the newest session."""
    next_seq: int
    last_call: int
    last_entry: int
    """Ids that rise with each call, and with each compaction and undo."""
    view_changed: datetime | None
    """When the newest of those was."""
    compactions: int
    """In effect."""
    system_chars: int
    """The length of the system prompt as it is stored."""
    client: str
    """The client program, if it is stored; else the source."""
    window: StoredWindow | None = None
    """None where none was stored."""


@dataclass(frozen=True, slots=True)
class MessageSize:
    """The size of a message, and its role."""

    seq: int
    role: str
    tool: str | None
    tokens: int | None
    """As counted when it was stored; None if it was not counted."""
    bytes: int
    """Of its JSON."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A model call as it was recorded."""

    seq: int | None
    """The message that it brought."""
    at: datetime
    model: str
    source: str
    usage: CanonicalUsage
    cost_micros: int | None
    cost_direct_micros: int | None
    provider: str

    @property
    def is_auxiliary(self) -> bool:
        return self.source == AUXILIARY


@dataclass(frozen=True, slots=True)
class ConversationDigest:
    """The size of a conversation and of its view."""

    newest: Message | None
    """The newest message of the user or the model."""
    last_call: RecordedCall | None
    """The newest call that was not auxiliary."""


@dataclass(frozen=True, slots=True)
class CompactionAccount:
    """A compaction without the texts it wrote."""

    id: int
    session: str
    at: datetime
    is_in_effect: bool
    first: int
    """The handoff replaces the messages from this number to below `stop`."""
    stop: int
    tokens_before: int
    tokens_after: int
    engine: str
    written_by: str
    focus_topic: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CompactionStats:
    """One compaction: when, of which model and source, and its sizes in tokens."""

    at: datetime
    model: str
    source: str
    before: int
    after: int
    client: str = ""
    """As `ConversationOverview.client`."""

    @property
    def day(self) -> int:
        """Since 1970, as `Grouping` counts days."""
        return int(self.at.timestamp()) // _DAY_SECONDS


@dataclass(frozen=True, slots=True)
class ViewOutline:
    """What a view consists of, without the messages that it refers to."""

    base: CommittedCompaction | None
    """The compaction in effect."""
    items: tuple[ViewItem, ...]
    next_seq: int


class OverviewStore(Operations):
    """Reads for the lists and pages of a database."""

    async def change_mark(self) -> str:
        """A text that changes whenever any process has written something; reading it is cheap."""
        return await self._database.change_mark()

    @property
    def unwritable(self) -> str | None:
        """Why the store is read-only, as a phrase; None where it can be written."""
        return self._database.unwritable

    @reads
    def conversations(self, limit: int, *, owner: str | None = None) -> Steps[list[ConversationOverview]]:
        """The newest conversations of an owner; None: of all."""
        found = yield from fetch_all(_CONVERSATIONS, owner, owner, limit)
        return [_overview(row) for row in found]

    @reads
    def message_sizes(self, session: str, start: int = 0, *, owner: str | None = None) -> Steps[list[MessageSize]]:
        """The sizes of a session's messages from a number on."""
        found = yield from find(session, owner)
        sizes: list[MessageSize] = []
        for part in parts_of((yield from segments_of(found)), start):
            rows = yield from fetch_all(
                f"SELECT m.seq, m.role, m.tool, m.tokens, COALESCE({self._database.bytes_sql}, 0) FROM messages m"  # noqa: S608 (fixed text)
                " WHERE m.conversation = ? AND m.seq >= ? AND m.seq < ? ORDER BY m.seq",
                *part,
            )
            sizes += [MessageSize(*row) for row in rows]
        return sizes

    @reads
    def counted_messages(self, conversations: Sequence[int]) -> Steps[dict[int, tuple[int, int]]]:
        """Of each conversation the tokens of its own messages, and the bytes of those without a count."""
        rows = yield from fetch_all(
            "SELECT m.conversation, COALESCE(sum(m.tokens), 0),"  # noqa: S608 (fixed texts)
            f" COALESCE(sum(CASE WHEN m.tokens IS NULL THEN {self._database.bytes_sql} ELSE 0 END), 0) FROM messages m"
            f" WHERE m.conversation IN ({marks(conversations)}) GROUP BY m.conversation",
            *conversations,
        )
        return {row[0]: (int(row[1]), int(row[2])) for row in rows}

    @reads
    def digests(self, sessions: Sequence[str]) -> Steps[list[ConversationDigest]]:
        """The sizes of the conversations of some sessions, in the order of the sessions."""
        made: list[ConversationDigest] = []
        for name in sessions:
            found = yield from find(name)
            newest = yield from _newest_words(found)
            last = yield from fetch_one(_CALLS + _LAST_ASKED_FOR, found.conversation)
            made.append(ConversationDigest(newest, None if last is None else _call(last)))
        return made

    @reads
    def openings(self, conversations: Sequence[int]) -> Steps[dict[int, Message]]:
        """The first user message of each conversation that has one, without messages shared with its origin."""
        rows = yield from fetch_all(
            f"SELECT {BODY}, m.dialect, m.part, m.conversation FROM messages m"  # noqa: S608 (fixed texts)
            f" JOIN conversations c ON c.id = m.conversation"
            f" WHERE m.conversation IN ({marks(conversations)})"
            " AND m.seq < c.origin_seq + ? AND m.role = 'user' ORDER BY m.conversation, m.seq",
            *conversations,
            _OPENING_MESSAGES,
        )
        first = [row for at, row in enumerate(rows) if not at or rows[at - 1][3] != row[3]]
        read = zip(first, read_messages(row[:3] for row in first), strict=True)
        return {row[3]: message for row, message in read if not isinstance(message, RowDamage)}

    @reads
    def calls(self, session: str, *, owner: str | None = None) -> Steps[list[RecordedCall]]:
        """The calls of a session's conversation, oldest first."""
        found = yield from find(session, owner)
        rows = yield from fetch_all(_CALLS + " ORDER BY k.id", found.conversation)
        return [_call(row) for row in rows]

    @reads
    def compaction_accounts(self, session: str, *, owner: str | None = None) -> Steps[list[CompactionAccount]]:
        """The compactions of a session's conversation, oldest first, undone ones included."""
        found = yield from find(session, owner)
        active = yield from read_bases_in_effect(found)
        rows = yield from fetch_all(_ENTRIES, found.conversation)
        return [_account(row, active) for row in rows]

    @reads
    def compaction(self, session: str, id: int, *, owner: str | None = None) -> Steps[CommittedCompaction | None]:
        """One compaction of a session's conversation; None where it has none of this id."""
        found = yield from find(session, owner)
        try:
            made = yield from compaction_at(id, keep_damaged=True)
        except InvalidArgument:
            return None
        active = yield from read_bases_in_effect(found)
        # A branch begins with a compaction of its origin.
        if made.conversation != found.conversation and id not in active:
            return None
        return CommittedCompaction(
            made.id, made.session, made.conversation, made.at, made.entry, id in active, made.previous
        )

    @reads
    def compaction_stats(
        self, since: datetime, before: datetime | None = None, *, owner: str | None = None
    ) -> Steps[list[CompactionStats]]:
        """The compactions of a period that are in effect, with the model and the source of their sessions."""
        end = NO_END if before is None else as_micros(before)
        made = []
        for at, model, source, client, account in (
            yield from fetch_all(_COMPACTED, as_micros(since), end, owner, owner)
        ):
            fields = read_json(account)
            if isinstance(fields, dict):
                sizes = [int(fields.get(name) or 0) for name in ("tokens_before", "tokens_after")]
                named = (as_datetime(at), model or "", source)
                made.append(CompactionStats(*named, sizes[0], sizes[1], client_name(client)))
        return made

    @reads
    def view_outline(self, session: str, *, owner: str | None = None) -> Steps[ViewOutline]:
        """What the view of a session consists of."""
        found = yield from find(session, owner)
        stop, _ = yield from end_of(found)
        base = yield from base_in_effect(found)
        compaction = None if base is None else (yield from compaction_at(base, keep_damaged=True))
        return ViewOutline(compaction, items_of_view(compaction, stop), stop)


def _overview(row: Row) -> ConversationOverview:
    created, ended, updated, *counted, changed, compactions, system, client, window = row[10:]
    fields = (
        *row[:10],
        as_datetime(created),
        None if ended is None else as_datetime(ended),
        as_datetime(updated),
        *counted,
        None if changed is None else as_datetime(changed),
        max(0, int(compactions)),
        system,
        client_name(client),
        None if window is None else _window(json.loads(window)),
    )
    return ConversationOverview(*fields)


def _window(kept: Any) -> StoredWindow:
    return StoredWindow(kept["tokens"], kept["threshold"], kept["basis"])


def _newest_words(found: SessionRow) -> Steps[Message | None]:
    stop, _ = yield from end_of(found)
    for part in reversed(parts_of((yield from segments_of(found)), stop - _NEWEST_MESSAGES, stop)):
        rows = yield from fetch_all(
            f"SELECT {BODY}, m.dialect, m.part FROM messages m"  # noqa: S608 (fixed text)
            " WHERE m.conversation = ? AND m.seq >= ? AND m.seq < ? AND m.role IN ('user', 'assistant')"
            " ORDER BY m.seq DESC LIMIT 1",
            *part,
        )
        for message in read_messages(rows):
            return None if isinstance(message, RowDamage) else message
    return None


def _call(row: Row) -> RecordedCall:
    return RecordedCall(row[0], as_datetime(row[1]), row[2], row[3], CanonicalUsage(*row[4:9]), *row[9:12])


def _account(row: Row, active: set[int]) -> CompactionAccount:
    read = read_json(row[4])
    fields: dict[str, Any] = read if isinstance(read, dict) else {}
    first, stop = _replaced(fields, row[5], row[3])
    return CompactionAccount(
        id=row[0],
        session=row[1],
        at=as_datetime(row[2]),
        is_in_effect=row[0] in active,
        first=first,
        stop=stop,
        tokens_before=int(fields.get("tokens_before") or 0),
        tokens_after=int(fields.get("tokens_after") or 0),
        engine=str(fields.get("engine") or ""),
        written_by=str(fields.get("written_by") or ""),
        focus_topic=fields.get("focus_topic"),
        warnings=tuple(map(str, fields.get("warnings") or ())),
    )


def _replaced(account: dict[str, Any], view: Any, until: int) -> tuple[int, int]:
    """The messages that the handoff replaces: as the engine says, else from the first to the last missing one."""
    replaced = (account.get("details") or {}).get("replaced")
    if isinstance(replaced, list) and len(replaced) == 2 and replaced[0] < replaced[1]:
        return replaced[0], replaced[1]
    items = read_json(view)
    kept = sorted(map(tuple, (item for item in items if isinstance(item, list)))) if isinstance(items, list) else []
    first, stop = 0, until
    for start, end in kept:
        first = end if start == first else first
    for start, end in reversed(kept):
        stop = start if end == stop else stop
    return (first, stop) if first < stop else (0, 0)
