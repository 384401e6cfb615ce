"""A check of requests: each begins with the one before, unless there was a compaction between them."""

from __future__ import annotations

import json
from typing import Any

from clew.events import CompactionFinished, CompactionUndone, Event
from clew.handoff import is_instruction
from clew.messages import Message, without_cache_markers
from clew.providers import OnDelta, Provider, Reply, Request
from clew.turn import is_recall


class PrefixBroken(AssertionError):  # noqa: N818 (reads as what it says)
    """A request that does not begin with the one before it, although nothing was compacted between them."""


class PrefixChecker(Provider):
    """Passes requests on to a provider; raises `PrefixBroken` where one does not begin with the one before."""

    def __init__(self, provider: Provider) -> None:
        self.name = provider.name
        self.provider = provider
        self.injected = 0
        """How many messages at the end of the next request are for its turn only, and are not compared."""
        self.checked = 0
        self._last: Request | None = None

    def on_event(self, event: Event) -> None:
        """Forget the last request after a compaction or an undo: only these may change the prefix."""
        is_done = isinstance(event, CompactionFinished) and event.continued_as is not None
        if is_done or isinstance(event, CompactionUndone):
            self._last = None

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        if self._last is not None and len(request.messages) == 1:
            # A request for a summary is not part of the conversation.
            return await self.provider.send(request, on_delta)
        is_summary = is_instruction(request.messages[-1])
        # Recalled passages are for this turn only, like what the caller injects.
        recalled = is_recall(request.messages[-1])
        stored = request.messages[: len(request.messages) - (1 if is_summary else self.injected + recalled)]
        if self._last is not None:
            if difference := _first_difference(self._last, Request(request.model, stored, request.tools)):
                raise PrefixBroken(difference)
            self.checked += 1
        if not is_summary:
            self._last = Request(request.model, stored, request.tools)
        return await self.provider.send(request, on_delta)

    async def close(self) -> None:
        await self.provider.close()


def _first_difference(before: Request, after: Request) -> str:
    """The first place where `after` does not repeat `before`, cache markers aside; empty if it repeats all of it."""
    if list(before.tools) != list(after.tools):
        return "the tools differ from those of the request before"
    for index, old in enumerate(before.messages):
        if index >= len(after.messages):
            return f"messages[{index}] is missing; the request before had {len(before.messages)} messages"
        new = after.messages[index]
        if old is not new and json.dumps(plain_content(old)) != json.dumps(plain_content(new)):
            return f"messages[{index}] was {old!r:.500} and is {new!r:.500}"
    return ""


def plain_content(message: Message) -> Message:
    """The message without cache markers; one text block becomes a string, because marking turns a string into one."""
    plain = without_cache_markers(message)
    content: Any = plain.get("content")
    if (
        isinstance(content, list)
        and len(content) == 1
        and content[0] == {"type": "text", "text": content[0].get("text")}
    ):
        return {**plain, "content": content[0]["text"]}
    return plain
