"""One marker on one message: where it may stand, how it is put there, read and taken away.

Knows nothing of which messages deserve one. Never changes what it is given: a marked message is a new dict that
shares everything but the path to its marker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

from clew.errors import InvalidArgument
from clew.messages import Message, Part

Ttl: TypeAlias = Literal["5m", "1h"]
TTLS = get_args(Ttl)

MARKER = "cache_control"
WHOLE = 1 << 30
"""Instead of the index of a part: the marker stands on the message, or on the part and not inside it. It is larger
than any index, since a marker on the whole ends after every part of it."""

# Anthropic refuses a marker on these: their text is signed, and cached along with what follows them.
CANNOT_CARRY = frozenset({"thinking", "redacted_thinking"})


class Place(NamedTuple):
    """Where a marker stands. Places sort in the order in which the wire reads them."""

    message: int
    part: int = WHOLE
    inner: int = WHOLE
    """Inside a tool_result, the index of the block of its content."""


def checked_ttl(ttl: str) -> Ttl:
    """The TTL, if it is one that Anthropic has."""
    if ttl not in TTLS:
        raise InvalidArgument(
            f"prompt_caching.cache_ttl = {ttl!r} is no cache lifetime; use '5m' (five minutes) or '1h' (one hour)"
        )
    return cast(Ttl, ttl)


def marker_for(ttl: Ttl) -> dict[str, str]:
    """What is written under `cache_control`. Five minutes is the wire's default and is left unsaid."""
    return {"type": "ephemeral", "ttl": ttl} if ttl == "1h" else {"type": "ephemeral"}


def ttl_of(marker: object) -> Ttl:
    return "1h" if isinstance(marker, dict) and marker.get("ttl") == "1h" else "5m"


def place_in(message: Message, index: int, on_message: bool) -> Place | None:
    """Where this message would carry a marker, or None if it cannot.

    `on_message` says that a dialect follows which knows what to do with a marker on the message itself.
    """
    if on_message and message.get("role") == "tool":
        return Place(index)
    content: Any = message.get("content")
    if not content:
        return Place(index) if on_message else None
    if isinstance(content, str):
        return Place(index, 0)
    if isinstance(content, list):
        return next((Place(index, at) for at in range(len(content) - 1, -1, -1) if can_carry(content[at])), None)
    return None


def can_carry(part: object) -> bool:
    """Whether the wire accepts a marker on this part, block or tool definition."""
    if not isinstance(part, dict):
        return False
    kind = part.get("type")
    if kind in CANNOT_CARRY or part.get("defer_loading") is True:
        return False
    return kind != "text" or bool(part.get("text"))


def markers_in(message: Message, index: int) -> Iterator[tuple[Place, Ttl]]:
    """Every marker that the message carries already, in the order of the wire."""
    content: Any = message.get("content")
    if isinstance(content, list):
        for at, part in enumerate(content):
            if not isinstance(part, dict):
                continue
            if part.get("type") == "tool_result" and isinstance(part.get("content"), list):
                yield from _markers_inside(part["content"], index, at)
            if part.get(MARKER) is not None:
                yield Place(index, at), ttl_of(part[MARKER])
    marker = cast("dict[str, Any]", message).get(MARKER)
    if marker is not None:
        yield Place(index), ttl_of(marker)


def _markers_inside(blocks: list[Any], index: int, part: int) -> Iterator[tuple[Place, Ttl]]:
    for inner, block in enumerate(blocks):
        if isinstance(block, dict) and block.get(MARKER) is not None:
            yield Place(index, part, inner), ttl_of(block[MARKER])


def with_marker(message: Message, place: Place, ttl: Ttl) -> Message:
    """A copy that carries a marker at a place that `place_in` gave."""
    marker = marker_for(ttl)
    if place.part == WHOLE:
        return cast(Message, {**message, MARKER: marker})
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content, MARKER: marker}]}
    parts = list(content or ())
    parts[place.part] = {**parts[place.part], MARKER: marker}
    return {**message, "content": parts}


def without_marker(message: Message, place: Place) -> Message:
    """A copy without the marker at this place; everything else is shared."""
    if place.part == WHOLE:
        return cast(Message, _lacking(cast(Part, message)))
    parts = list(cast("list[Part]", message.get("content")))
    part = parts[place.part]
    if place.inner == WHOLE:
        parts[place.part] = _lacking(part)
    else:
        blocks = list(part["content"])
        blocks[place.inner] = _lacking(blocks[place.inner])
        parts[place.part] = {**part, "content": blocks}
    return {**message, "content": parts}


def _lacking(holder: Part) -> Part:
    return {key: value for key, value in holder.items() if key != MARKER}
