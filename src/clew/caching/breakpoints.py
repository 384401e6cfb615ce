"""Which messages of a request carry a cache breakpoint: the system prompt and the last three that can.

Decides where; `markers` knows how one is written. Copies the list and the few messages it touches, and looks at a
bounded number of messages, so the cost at 100,000 messages is that of copying a list of pointers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from clew.caching.markers import MARKER, Place, Ttl, checked_ttl, markers_in, place_in, with_marker, without_marker
from clew.errors import InvalidArgument
from clew.messages import Message

MOST_BREAKPOINTS = 4
NEWEST = 3
"""How many messages at the end get a breakpoint."""

LOOK_FRONT = 4
LOOK_BACK = 36
"""Markers that the caller put among the first and last messages are seen. A scan of the whole list would cost
more than everything else together; who marks deeper inside says how many with `taken`."""

SYSTEM_ROLES = frozenset({"system", "developer"})


def apply_cache_control(
    messages: Sequence[Message], ttl: str = "5m", native: bool = False, *, taken: int = 0
) -> list[Message]:
    """A new list with breakpoints on the system prompt and on the last three messages that can carry one.

    Nothing given is changed; messages that get no marker are the same objects. At most four markers stand in the
    result. Those that the caller put there count, and stay while there is room: the system prompt and the newest
    message come first, then the caller's from the newest back, then the other two; what finds no room is taken away.

    `native`: an Anthropic dialect follows, so a tool message, or one without content, carries its marker itself.
    `taken`: breakpoints that stand outside of what is seen here: in `tools`, in a system prompt beside the messages,
    or further inside than the first 4 and the last 36 messages.
    """
    chosen = checked_ttl(ttl)
    if taken < 0:
        raise InvalidArgument(f"taken = {taken} breakpoints is not a count; pass 0 or more")
    marked = list(messages)
    first = _system_place(marked, native)
    newest = _newest_places(marked, native)
    _settle(marked, first + newest[:1], newest[1:], max(0, MOST_BREAKPOINTS - taken), chosen)
    return marked


def mark_anthropic_request(request: Mapping[str, Any], ttl: str = "5m") -> dict[str, Any]:
    """A new request body of the Anthropic wire with breakpoints in `system` and in the last three messages.

    Markers stand on blocks only, as the wire wants it. The tools need none of their own, since the system prompt's
    entry covers them; without a system prompt the last tool gets it. A body that asks for automatic caching (a
    `cache_control` of its own) comes back as it is: the provider then moves the marker itself.
    """
    chosen = checked_ttl(ttl)
    if request.get(MARKER) is not None:
        return dict(request)
    tools = request.get("tools")
    pretended = [{"role": "tools", "content": tools}, {"role": "system", "content": request.get("system")}]
    marked = cast("list[Message]", [*pretended, *request.get("messages", ())])
    first = [place for place in (place_in(marked[1], 1, False), place_in(marked[0], 0, False)) if place][:1]
    newest = _newest_places(marked, on_message=False, start=2)
    _settle(marked, first + newest[:1], newest[1:], MOST_BREAKPOINTS, chosen)
    sections = {"tools": marked[0]["content"], "system": marked[1]["content"], "messages": marked[2:]}
    return {**request, **{name: value for name, value in sections.items() if name in request}}


def clear_cache_control(messages: Sequence[Message]) -> list[Message]:
    """A new list without any marker; messages that carried none are the same objects. Reads every message."""
    cleared = list(messages)
    for index, message in enumerate(cleared):
        for place, _ in markers_in(message, index):
            cleared[index] = without_marker(cleared[index], place)
    return cleared


def _system_place(messages: list[Message], on_message: bool) -> list[Place]:
    if not messages or messages[0].get("role") not in SYSTEM_ROLES:
        return []
    place = place_in(messages[0], 0, on_message)
    return [place] if place else []


def _newest_places(messages: list[Message], on_message: bool, start: int = 0) -> list[Place]:
    places: list[Place] = []
    for index in range(len(messages) - 1, start - 1, -1):
        if messages[index].get("role") in SYSTEM_ROLES:
            continue
        place = place_in(messages[index], index, on_message)
        if place:
            places.append(place)
            if len(places) == NEWEST:
                break
    return places


def _settle(messages: list[Message], must: list[Place], may: list[Place], room: int, ttl: Ttl) -> None:
    """Make the list carry the most wanted breakpoints that fit, counting those that stand there already."""
    standing = _standing(messages)
    if not standing:
        for place in (must + may)[:room]:
            messages[place.message] = with_marker(messages[place.message], place, ttl)
        return
    order = dict.fromkeys([*must, *sorted(standing, reverse=True), *may])
    chosen = list(order)[:room]
    kept = {place: standing[place] for place in chosen if place in standing}
    for place in standing:
        if place not in kept:
            messages[place.message] = without_marker(messages[place.message], place)
    for place in chosen:
        if place not in kept:
            messages[place.message] = with_marker(messages[place.message], place, _fitting(ttl, place, kept))


def _standing(messages: list[Message]) -> dict[Place, Ttl]:
    """The markers in sight, with their TTLs."""
    back = max(LOOK_FRONT, len(messages) - LOOK_BACK)
    # Most messages hold a plain string and no marker: those cost one look, in a comprehension, and no more.
    suspects = [
        (index, message)
        for start, some in ((0, messages[:LOOK_FRONT]), (back, messages[back:]))
        for index, message in enumerate(some, start)
        if MARKER in message or type(message.get("content")) is list
    ]
    return {place: ttl for index, message in suspects for place, ttl in markers_in(message, index)}


def _fitting(ttl: Ttl, place: Place, kept: Mapping[Place, Ttl]) -> Ttl:
    """Our TTL, unless the caller's markers rule it out: the wire refuses 1h after 5m."""
    if any(other > place and theirs == "1h" for other, theirs in kept.items()):
        return "1h"
    if any(other < place and theirs == "5m" for other, theirs in kept.items()):
        return "5m"
    return ttl
