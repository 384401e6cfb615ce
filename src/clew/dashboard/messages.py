"""Pages of the messages of a session with the fate of each, and the handoff of a compaction."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from clew.dashboard.catalog import SessionCatalog
from clew.dashboard.queries import Number, PageSize
from clew.dashboard.sign_in import DashboardRefusal
from clew.dashboard.timeline import plain_effect
from clew.handoff import Entry, Handoff, Span, list_style, read_line, references_in
from clew.messages import Message, calls_of, images_of, name_of_call, text_of
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

    after: Number | None = None
    before: Number | None = None
    around: Number | None = None
    limit: PageSize = 50
    chars: Annotated[int, Meta(ge=40, le=MAX_TEXT_CHARS)] = MAX_TEXT_CHARS
    compaction: Number | None = None
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
    numbers = list(chain.from_iterable(range(rows.start, rows.stop) for rows in ranges))
    chosen = _chosen(numbers, query)
    rows: list[StoredMessage] = []
    for _, run in groupby(enumerate(chosen), key=lambda placed: placed[1] - placed[0]):
        part = [number for _, number in run]
        rows += await catalog.store.messages(overview.newest, part[0], part[-1] + 1, keep_damaged=True)
    return {
        "messages": [plain_message(row, fates, query.chars) for row in rows],
        "first": numbers[0] if numbers else 0,
        "stop": numbers[-1] + 1 if numbers else 0,
        "more_before": bool(chosen) and chosen[0] > numbers[0],
        "more_after": bool(chosen) and chosen[-1] < numbers[-1],
    }


async def whole_message(catalog: SessionCatalog, overview: ConversationOverview, seq: int) -> dict[str, Any]:
    """One message, as much of it as a page can show."""
    rows = await catalog.store.messages(overview.newest, seq, seq + 1, keep_damaged=True)
    if not rows:
        raise DashboardRefusal(404, "not_found", f"the session has no message m{seq}")
    outline = await catalog.store.view_outline(overview.newest)
    return {"message": plain_message(rows[0], MessageFates(outline.items), MAX_WHOLE_CHARS)}


def _chosen(numbers: Sequence[int], query: MessageQuery) -> Sequence[int]:
    """The numbers that a page shows, of ascending ones."""
    if query.after is not None:
        start = bisect_right(numbers, query.after)
        return numbers[start : start + query.limit]
    if query.around is not None:
        half, at = query.limit // 2, bisect_left(numbers, query.around)
        return numbers[max(0, at - half) : at + query.limit - half]
    stop = len(numbers) if query.before is None else bisect_left(numbers, query.before)
    return numbers[max(0, stop - query.limit) : stop]


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


async def find_compaction(catalog: SessionCatalog, overview: ConversationOverview, id: int) -> CommittedCompaction:
    found = await catalog.store.compaction(overview.newest, id)
    if found is None:
        raise DashboardRefusal(404, "not_found", f"the session has no compaction {id}")
    return found


async def handoff_page(catalog: SessionCatalog, overview: ConversationOverview, id: int) -> dict[str, Any]:
    """The handoff of a compaction, with its references as numbers of messages."""
    compaction = await find_compaction(catalog, overview, id)
    effect = next((each for each in await catalog.effects(overview) if each.account.id == id), None)
    handoff = handoff_of(compaction.entry) or Handoff()
    fates = MessageFates(compaction.entry.view)
    counted = {"shortened": fates.shortened, "kept": fates.kept}
    fields = {} if effect is None else plain_effect(effect)
    return {
        "compaction": {"id": id, **fields, **counted, "unverified": compaction.entry.details.get("unverified", [])},
        "text": handoff_text_of(compaction.entry),
        **handoff_view(handoff, range(overview.next_seq)),
    }


def handoff_view(handoff: Handoff, known: Container[int]) -> dict[str, Any]:
    """The sections of a handoff and the messages it refers to, as far as these are `known`."""
    return {
        "sections": [
            {
                "heading": heading,
                "list": list_style(heading),
                "entries": [
                    {**_plain_line(entry, known), "lines": [_plain_line(line, known) for line in entry.lines]}
                    for entry in entries
                ],
            }
            for heading, entries in handoff.ordered_sections()
        ],
        "references": sorted(number for number in references_in(handoff) if number in known),
    }


def _plain_line(entry: Entry, known: Container[int]) -> dict[str, Any]:
    line = read_line(entry)
    return {
        "verb": line.verb,
        "spans": _plain_spans(line.spans, known),
        "source": _plain_spans(line.source, known),
        "is_quote": line.is_quote,
    }


def _plain_spans(spans: Iterable[Span], known: Container[int]) -> list[dict[str, Any]]:
    return [
        {"text": span.text, "style": span.style}
        | ({"seq": span.number} if span.number is not None and span.number in known else {})
        for span in spans
    ]
