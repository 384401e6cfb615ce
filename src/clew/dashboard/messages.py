"""Messages of a session in pages, with what became of each, and the handoff of a compaction beside what it replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from clew.dashboard.catalog import SessionCatalog
from clew.dashboard.handoff_view import handoff_view
from clew.dashboard.sign_in import DashboardRefusal
from clew.dashboard.timeline import CompactionEffect, compaction_effects, plain_effect
from clew.handoff import Handoff
from clew.messages import Message, calls_of, images_of, name_of_call, reasoning_of, text_of
from clew.store import (
    CommittedCompaction,
    ConversationOverview,
    Rows,
    StoredMessage,
    ViewItem,
    WrittenMessage,
)
from clew.turn import handoff_of, handoff_text_of

MessageFate: TypeAlias = Literal["view", "shortened", "folded"]
MAX_TEXT_CHARS = 4_000
MAX_WHOLE_CHARS = 1_000_000
MAX_ARGUMENT_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """Which messages of a session."""

    after: int | None = None
    before: int | None = None
    around: int | None = None
    limit: int = 50
    chars: int = MAX_TEXT_CHARS
    compaction: int | None = None
    """Only those that this compaction replaced."""


class MessageFates:
    """What the model sees of each message, by the items of a view."""

    def __init__(self, items: Sequence[ViewItem]) -> None:
        self._kept = [item for item in items if isinstance(item, Rows)]
        self._written: Mapping[int, Message] = {
            item.seq: item.message for item in items if isinstance(item, WrittenMessage) and item.seq is not None
        }

    def fate(self, seq: int) -> MessageFate:
        if seq in self._written:
            return "shortened"
        return "view" if any(rows.start <= seq < rows.stop for rows in self._kept) else "folded"

    def now(self, seq: int) -> Message | None:
        """How a shortened message looks to the model."""
        return self._written.get(seq)

    @property
    def shortened(self) -> int:
        return len(self._written)

    @property
    def kept(self) -> int:
        return sum(map(len, self._kept))


async def message_page(catalog: SessionCatalog, overview: ConversationOverview, query: MessageQuery) -> dict[str, Any]:
    """A page of messages, oldest first: the newest ones, or those behind, before or around a number."""
    ranges: Sequence[Rows] = (Rows(0, overview.next_seq),)
    if query.compaction is None:
        fates = MessageFates((await catalog.store.view_outline(overview.newest)).items)
    else:
        compaction = await find_compaction(catalog, overview, query.compaction)
        ranges, fates = compaction.entry.replaced, MessageFates(compaction.entry.view)
    chosen = _chosen(ranges, query)
    rows: list[StoredMessage] = []
    for part in chosen:
        rows += await catalog.store.messages(overview.newest, part.start, part.stop, keep_damaged=True)
    first, stop = (ranges[0].start, ranges[-1].stop) if ranges else (0, 0)
    return {
        "messages": [plain_message(row, fates, query.chars) for row in rows],
        "first": first,
        "stop": stop,
        "more_before": bool(chosen) and chosen[0].start > first,
        "more_after": bool(chosen) and chosen[-1].stop < stop,
    }


async def whole_message(catalog: SessionCatalog, overview: ConversationOverview, seq: int) -> dict[str, Any]:
    """One message, as much of it as a page can show."""
    rows = await catalog.store.messages(overview.newest, seq, seq + 1, keep_damaged=True)
    if not rows:
        raise DashboardRefusal(404, "not_found", f"the session has no message m{seq}")
    outline = await catalog.store.view_outline(overview.newest)
    return {"message": plain_message(rows[0], MessageFates(outline.items), MAX_WHOLE_CHARS)}


def _chosen(ranges: Sequence[Rows], query: MessageQuery) -> list[Rows]:
    """The part of some ranges that a page shows."""
    if query.after is not None:
        return _first(_above(ranges, query.after + 1), query.limit)
    if query.around is not None:
        half = query.limit // 2
        before = _last(_below(ranges, query.around), half)
        return _joined([*before, *_first(_above(ranges, query.around), query.limit - half)])
    below = ranges if query.before is None else _below(ranges, query.before)
    return _last(below, query.limit)


def _above(ranges: Sequence[Rows], seq: int) -> list[Rows]:
    return [Rows(max(rows.start, seq), rows.stop) for rows in ranges if rows.stop > seq]


def _below(ranges: Sequence[Rows], seq: int) -> list[Rows]:
    return [Rows(rows.start, min(rows.stop, seq)) for rows in ranges if rows.start < seq]


def _first(ranges: Sequence[Rows], count: int) -> list[Rows]:
    chosen: list[Rows] = []
    for rows in ranges:
        taken = min(len(rows), count)
        if taken > 0:
            chosen.append(Rows(rows.start, rows.start + taken))
            count -= taken
    return chosen


def _last(ranges: Sequence[Rows], count: int) -> list[Rows]:
    chosen: list[Rows] = []
    for rows in reversed(ranges):
        taken = min(len(rows), count)
        if taken > 0:
            chosen.insert(0, Rows(rows.stop - taken, rows.stop))
            count -= taken
    return chosen


def _joined(ranges: Sequence[Rows]) -> list[Rows]:
    joined: list[Rows] = []
    for rows in ranges:
        if joined and joined[-1].stop == rows.start:
            joined[-1] = Rows(joined[-1].start, rows.stop)
        else:
            joined.append(rows)
    return joined


def plain_message(row: StoredMessage, fates: MessageFates, chars: int) -> dict[str, Any]:
    message, now = row.message, fates.now(row.seq)
    return {
        "seq": row.seq,
        "at": row.at.isoformat(),
        "role": str(message.get("role")),
        "tool": row.tool,
        "tokens": row.tokens,
        **_excerpt(message, chars),
        "calls": [_plain_call(call, chars) for call in calls_of(message)],
        "reasoning": len(reasoning_of(message)),
        "images": len(images_of(message)),
        "fate": fates.fate(row.seq),
        "is_damaged": row.damage is not None,
        "now": None if now is None else _excerpt(now, chars),
    }


def _excerpt(message: Message, chars: int) -> dict[str, Any]:
    text = text_of(message)
    return {"text": text[:chars], "left_out_chars": max(0, len(text) - chars)}


def _plain_call(call: Any, chars: int) -> dict[str, Any]:
    function = call.get("function") or {}
    arguments = str(function.get("arguments", "")) if isinstance(function, Mapping) else ""
    most = max(MAX_ARGUMENT_CHARS, chars) if chars > MAX_TEXT_CHARS else min(MAX_ARGUMENT_CHARS, chars)
    return {"name": name_of_call(call), "arguments": arguments[:most]}


# -- compactions -------------------------------------------------------------------------------------------------------


async def find_compaction(catalog: SessionCatalog, overview: ConversationOverview, id: int) -> CommittedCompaction:
    found = await catalog.store.compaction(overview.newest, id)
    if found is None:
        raise DashboardRefusal(404, "not_found", f"the session has no compaction {id}")
    return found


async def handoff_page(catalog: SessionCatalog, overview: ConversationOverview, id: int) -> dict[str, Any]:
    """The handoff of a compaction, with its references as numbers of messages."""
    compaction = await find_compaction(catalog, overview, id)
    effects = await session_effects(catalog, overview)
    effect = next((each for each in effects if each.account.id == id), None)
    handoff = handoff_of(compaction.entry) or Handoff()
    fates = MessageFates(compaction.entry.view)
    counted = {"shortened": fates.shortened, "kept": fates.kept}
    fields = {} if effect is None else plain_effect(effect)
    return {
        "compaction": {"id": id, **fields, **counted, "unverified": compaction.entry.details.get("unverified", [])},
        "text": handoff_text_of(compaction.entry),
        **handoff_view(handoff, range(overview.next_seq)),
    }


async def session_effects(catalog: SessionCatalog, overview: ConversationOverview) -> list[CompactionEffect]:
    """The compactions of a session with what each cost and saved."""
    accounts = await catalog.store.compaction_accounts(overview.newest)
    return compaction_effects(accounts, await catalog.calls(overview) if accounts else ())
