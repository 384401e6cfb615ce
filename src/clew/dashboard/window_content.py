"""What is in the window of a session now, by kind: computed from stored sizes, without reading the texts.

The newest request gives the total, and the messages in view most of its parts. The rest is what every request adds to
them, mostly the definitions of tools.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from clew.store import ConversationOverview, MessageSize, RecordedCall, Rows, Store, ViewOutline, WrittenMessage

PART_LABELS: Final[Mapping[str, str]] = {
    "system": "system prompt",
    "tools": "tool definitions and framing",
    "handoff": "handoff",
    "user": "messages of the person",
    "assistant": "answers and calls",
    "results": "tool results",
}
_PART_OF_ROLE: Final[Mapping[str, str]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "results",
}
BYTES_PER_TOKEN: Final = 4.0
"""The bytes of JSON per token, for messages without a count."""
RESULT_BOUND: Final = 2_000
"""In tokens; longer results are mostly read only in part."""
_MAX_KEPT_SIZES: Final = 400_000
MeterBasis: TypeAlias = Literal["last request", "after a compaction", "counted"]


@dataclass(frozen=True, slots=True)
class WindowLimits:
    """How large the window of a session is, and from where on it is compacted."""

    tokens: int
    threshold: int | None
    """None where compression is off."""
    basis: str
    """The source of the size, as a phrase."""
    cache_ttl: str = "5m"
    """How long its provider keeps a prefix, unless the session says otherwise."""


class WindowFinder(Protocol):
    """Finds the window of a session and its threshold."""

    def limits(self, overview: ConversationOverview) -> WindowLimits: ...


@dataclass(frozen=True, slots=True)
class WindowPart:
    """What one kind of content takes."""

    name: str
    tokens: int
    messages: int
    largest: int = 0
    """The tokens of the largest message."""
    above: int = 0
    """Tokens above `RESULT_BOUND`, of all messages."""


@dataclass(frozen=True, slots=True)
class WindowContent:
    """What is in a window: parts that add up to `tokens`, the tools whose results it holds, the largest messages."""

    tokens: int
    basis: MeterBasis
    is_exact: bool
    parts: tuple[WindowPart, ...]
    tools: tuple[WindowPart, ...]
    largest: tuple[MessageSize, ...]


class SizeCache:
    """Keeps the sizes of messages; since messages never change, only new ones are read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[int, list[MessageSize]] = OrderedDict()

    async def sizes(self, overview: ConversationOverview) -> Sequence[MessageSize]:
        """Of all messages of a conversation, by their numbers."""
        known = self._kept.pop(overview.conversation, [])
        if len(known) < overview.next_seq:
            known = [*known, *(await self._store.message_sizes(overview.newest, len(known)))]
        self._kept[overview.conversation] = known
        while len(self._kept) > 1 and sum(map(len, self._kept.values())) > _MAX_KEPT_SIZES:
            self._kept.popitem(last=False)
        return known


def tokens_of(size: MessageSize) -> int:
    """The counted tokens of a message, or an estimate by its bytes."""
    return size.tokens if size.tokens is not None else round(size.bytes / BYTES_PER_TOKEN)


def measure_content(
    outline: ViewOutline, sizes: Sequence[MessageSize], system: int, last_request: RecordedCall | None, largest: int = 8
) -> WindowContent:
    """What is in a window whose view is this; `system` is the size of the system prompt.

    `last_request` is the newest call, unless the view has been another one since.
    """
    shown = list(_shown(outline, sizes))
    sums: dict[str, list[int]] = {"system": [system]}
    tools: dict[str, list[int]] = {}
    for part, size in shown:
        sums.setdefault(part, []).append(tokens_of(size))
        if part == "results":
            tools.setdefault(size.tool or "(no name)", []).append(tokens_of(size))
    counted = sum(map(sum, sums.values()))
    basis, total = _total(outline, counted, last_request)
    factor = min(1.0, total / counted) if counted else 1.0
    parts = [_part(name, sizes, factor) for name, sizes in sums.items()]
    rest = total - sum(part.tokens for part in parts)
    if basis == "last request" and rest > 0:
        parts.append(WindowPart("tools", rest, 0))
    ordered = sorted(parts, key=lambda part: list(PART_LABELS).index(part.name))
    by_tool = [_part(name, sizes, factor) for name, sizes in tools.items()]
    biggest = sorted((size for _, size in shown), key=tokens_of, reverse=True)
    return WindowContent(
        tokens=sum(part.tokens for part in parts),
        basis=basis,
        is_exact=basis == "last request",
        parts=tuple(part for part in ordered if part.tokens or part.messages),
        tools=tuple(sorted(by_tool, key=lambda part: -part.tokens)),
        largest=tuple(biggest[:largest]),
    )


def _shown(outline: ViewOutline, sizes: Sequence[MessageSize]) -> Iterator[tuple[str, MessageSize]]:
    """Each message of a view with the part that it belongs to."""
    for item in outline.items:
        if isinstance(item, Rows):
            for size in sizes[item.start : item.stop]:
                yield _PART_OF_ROLE.get(size.role, "user"), size
        else:
            yield _written(item, sizes)


def _written(item: WrittenMessage, sizes: Sequence[MessageSize]) -> tuple[str, MessageSize]:
    """A message that a compaction wrote: a shorter form of a row, or the handoff."""
    length = len(msgspec.json.encode(item.message))
    if item.seq is not None and item.seq < len(sizes):
        row = sizes[item.seq]
        return _PART_OF_ROLE.get(row.role, "user"), MessageSize(row.seq, row.role, row.tool, None, length)
    return "handoff", MessageSize(-1, str(item.message.get("role")), None, None, length)


def _total(outline: ViewOutline, counted: int, last_request: RecordedCall | None) -> tuple[MeterBasis, int]:
    if last_request is not None:
        return "last request", last_request.usage.total_tokens
    return ("after a compaction" if outline.base is not None else "counted"), counted


def is_current(last_call: RecordedCall | None, overview: ConversationOverview) -> bool:
    """Whether the newest call shows what the window holds: no compaction or undo followed it."""
    return last_call is not None and (overview.view_changed is None or overview.view_changed <= last_call.at)


def _part(name: str, sizes: Sequence[int], factor: float) -> WindowPart:
    above = sum(size - RESULT_BOUND for size in sizes if size > RESULT_BOUND)
    # The system prompt is not a message.
    count = len(sizes) - (name == "system")
    return WindowPart(name, round(sum(sizes) * factor), count, max(sizes), above)
