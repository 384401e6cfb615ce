"""Cache breakpoints: which messages of a request get a marker, and how a marker is added, read and removed.

Only the list and the marked messages are copied, and a bounded number of messages is read, so that 100,000 messages
cost no more than copying a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from clew.errors import InvalidArgument
from clew.messages import CACHE_MARKER, Message, Part, as_sequence, plain_message, refuse_unusable

Ttl: TypeAlias = Literal["5m", "1h"]
TTLS = get_args(Ttl)

MARKER = CACHE_MARKER
WHOLE_MESSAGE = 1 << 30
"""Instead of the index of a part: the marker is on the message itself, or on the part and not inside it. It is larger
than any index, because such a marker follows every part."""

# Anthropic refuses a marker on these. They are cached with what follows them.
UNMARKABLE_TYPES = ("thinking", "redacted_thinking")

MOST_BREAKPOINTS = 4
NEWEST_MARKED = 3
"""How many messages at the end get a breakpoint."""

SEARCHED_FIRST = 4
SEARCHED_LAST = 36
"""The caller's own markers are searched for in so many first and last messages, because searching all would take
longer than everything else. Callers with markers elsewhere say how many with `taken`."""

SYSTEM_ROLES = frozenset({"system", "developer"})


class MarkerPosition(NamedTuple):
    """Where a marker is. Positions sort in the order of the wire."""

    message: int
    part: int = WHOLE_MESSAGE
    inner: int = WHOLE_MESSAGE
    """The index of a block inside a tool_result."""


def apply_cache_control(messages: Iterable[Any], ttl: str = "5m", native: bool = False, *, taken: int = 0) -> list[Any]:
    """A new list with breakpoints on the system prompt and on the last three messages that can have one.

    The input is not changed; messages that get no marker are the same objects, also those of an SDK, and those that do
    are dicts. `InvalidMessage` for a message that is looked at and cannot be read. The result has at most four markers,
    the caller's own included: first come the system prompt and the newest message, then the caller's from the newest
    back, then the other two. Markers beyond the fourth are removed.

    `native`: an Anthropic dialect follows, so a tool message, or one without content, gets the marker itself.
    `taken`: breakpoints that are not searched for: in `tools`, in a separate system prompt, or between the first 4 and
    the last 36 messages.
    """
    chosen = checked_ttl(ttl)
    if not isinstance(taken, int) or taken < 0:
        raise InvalidArgument(f"taken = {taken!r:.80} breakpoints is not a count", remedy="pass 0 or more")
    marked = list(as_sequence(messages))
    back = max(SEARCHED_FIRST, len(marked) - SEARCHED_LAST)
    objects = _read_objects(marked, _searched(marked))
    newest = _newest_positions(marked, native, back)
    if len(newest) < NEWEST_MARKED:
        objects |= _read_objects(marked, range(SEARCHED_FIRST, back))
        newest = _newest_positions(marked, native)
    has_prompt = bool(marked) and marked[0].get("role") in SYSTEM_ROLES
    first = position_for_marker(marked[0], 0, native) if has_prompt else None
    required = [first, *newest[:1]] if first else newest[:1]
    _place_markers(marked, required, newest[1:], max(0, MOST_BREAKPOINTS - taken), chosen)
    for index, (original, read) in objects.items():
        if marked[index] is read:
            marked[index] = original
    return marked


def _read_objects(messages: list[Any], indexes: Iterable[int]) -> dict[int, tuple[Any, Message]]:
    """Put dicts in place of objects at these indexes; the original and what was read, by index."""
    objects: dict[int, tuple[Any, Message]] = {}
    for index in indexes:
        original = messages[index]
        if type(original) is not dict or type(original.get("content")) is not str:
            read = plain_message(original, index)
            if read is not original:
                objects[index] = (original, read)
                messages[index] = read
        if "role" in messages[index] or "type" not in messages[index]:
            refuse_unusable(messages[index], index)
    return objects


def _newest_positions(messages: list[Message], on_message: bool, start: int = 0) -> list[MarkerPosition]:
    """The newest positions for markers, from the last message back to the one at `start`."""
    spoken = (at for at in range(len(messages) - 1, start - 1, -1) if messages[at].get("role") not in SYSTEM_ROLES)
    found = (position_for_marker(messages[at], at, on_message) for at in spoken)
    return list(islice(filter(None, found), NEWEST_MARKED))


def _place_markers(
    messages: list[Message], required: list[MarkerPosition], optional: list[MarkerPosition], room: int, ttl: Ttl
) -> None:
    """Mark the required positions, then those marked already, then the optional ones, as long as there is room."""
    existing = _existing_markers(messages)
    order = dict.fromkeys([*required, *sorted(existing, reverse=True), *optional])
    chosen = list(order)[:room]
    kept = {position: existing[position] for position in chosen if position in existing}
    for position in existing:
        if position not in kept:
            messages[position.message] = without_marker(messages[position.message], position)
    for position in chosen:
        if position not in kept:
            messages[position.message] = with_marker(
                messages[position.message], position, _allowed_ttl(ttl, position, kept)
            )


def _searched(messages: list[Any]) -> list[int]:
    """The indexes of the messages in which markers are searched for."""
    count = len(messages)
    return [*range(min(SEARCHED_FIRST, count)), *range(max(SEARCHED_FIRST, count - SEARCHED_LAST), count)]


def _existing_markers(messages: list[Message]) -> dict[MarkerPosition, Ttl]:
    """The markers among the first and last messages, with their TTLs."""
    # Most messages are a plain string without a marker, and are passed over quickly.
    return {
        position: ttl
        for index in _searched(messages)
        if MARKER in messages[index] or type(messages[index].get("content")) is list
        for position, ttl in markers_in(messages[index], index)
    }


def _allowed_ttl(ttl: Ttl, position: MarkerPosition, kept: Mapping[MarkerPosition, Ttl]) -> Ttl:
    """The TTL, unless the caller's markers do not allow it: the wire refuses 1h after 5m."""
    if any(other > position and theirs == "1h" for other, theirs in kept.items()):
        return "1h"
    if any(other < position and theirs == "5m" for other, theirs in kept.items()):
        return "5m"
    return ttl


def checked_ttl(ttl: str) -> Ttl:
    """The TTL, if it is one that Anthropic has."""
    if ttl not in TTLS:
        raise InvalidArgument(
            f"prompt_caching.cache_ttl = {ttl!r} is no cache lifetime",
            remedy="use '5m' (five minutes) or '1h' (one hour)",
        )
    return cast(Ttl, ttl)


def marker_for(ttl: Ttl) -> dict[str, str]:
    """The value of `cache_control`. Five minutes is the default of the wire and is left out."""
    return {"type": "ephemeral", "ttl": ttl} if ttl == "1h" else {"type": "ephemeral"}


def ttl_of(marker: object) -> Ttl:
    return "1h" if isinstance(marker, dict) and marker.get("ttl") == "1h" else "5m"


def position_for_marker(message: Message, index: int, on_message: bool) -> MarkerPosition | None:
    """Where this message would get a marker; None if it cannot have one.

    `on_message`: a dialect follows that moves a marker on the message itself to a block.
    """
    if on_message and message.get("role") == "tool":
        return MarkerPosition(index)
    content: Any = message.get("content")
    if not content:
        return MarkerPosition(index) if on_message else None
    if isinstance(content, str):
        return MarkerPosition(index, 0)
    parts = content if isinstance(content, list) else []
    return next((MarkerPosition(index, at) for at in range(len(parts) - 1, -1, -1) if can_be_marked(parts[at])), None)


def can_be_marked(part: object) -> bool:
    """Whether the wire accepts a marker on this part, block or tool definition."""
    if not isinstance(part, dict):
        return False
    kind = part.get("type")
    if kind in UNMARKABLE_TYPES or part.get("defer_loading") is True:
        return False
    return kind != "text" or bool(part.get("text"))


def markers_in(message: Message, index: int) -> Iterator[tuple[MarkerPosition, Ttl]]:
    """Every marker that the message has already, in the order of the wire."""
    content: Any = message.get("content")
    if isinstance(content, list):
        for at, part in enumerate(content):
            if not isinstance(part, dict):
                continue
            if part.get("type") == "tool_result" and isinstance(part.get("content"), list):
                yield from _markers_inside(part["content"], index, at)
            if part.get(MARKER) is not None:
                yield MarkerPosition(index, at), ttl_of(part[MARKER])
    marker = cast("dict[str, Any]", message).get(MARKER)
    if marker is not None:
        yield MarkerPosition(index), ttl_of(marker)


def _markers_inside(blocks: list[Any], index: int, part: int) -> Iterator[tuple[MarkerPosition, Ttl]]:
    for inner, block in enumerate(blocks):
        if isinstance(block, dict) and block.get(MARKER) is not None:
            yield MarkerPosition(index, part, inner), ttl_of(block[MARKER])


def with_marker(message: Message, position: MarkerPosition, ttl: Ttl) -> Message:
    """A copy with a marker at a position that `position_for_marker` gave."""
    marker = marker_for(ttl)
    if position.part == WHOLE_MESSAGE:
        return cast(Message, {**message, MARKER: marker})
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content, MARKER: marker}]}
    parts = list(content or ())
    parts[position.part] = {**parts[position.part], MARKER: marker}
    return {**message, "content": parts}


def without_marker(message: Message, position: MarkerPosition) -> Message:
    """A copy without the marker at this position."""
    if position.part == WHOLE_MESSAGE:
        return cast(Message, _unmarked(cast(Part, message)))
    parts = list(cast("list[Part]", message.get("content")))
    part = parts[position.part]
    if position.inner == WHOLE_MESSAGE:
        parts[position.part] = _unmarked(part)
    else:
        blocks = list(part["content"])
        blocks[position.inner] = _unmarked(blocks[position.inner])
        parts[position.part] = {**part, "content": blocks}
    return {**message, "content": parts}


def _unmarked(holder: Part) -> Part:
    return {key: value for key, value in holder.items() if key != MARKER}
