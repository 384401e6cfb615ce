"""`/context`: what fills the window of this conversation now, part by part, as the next request will be counted.

Adds up; how it looks is in `window_page`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clew.cli.tui.commands.here import weigh_tools, window_source
from clew.cli.tui.commands.page import show
from clew.cli.window_use import LargeMessage, weigh
from clew.engines import ContextCompressor, Place
from clew.messages import Message, text_of
from clew.summaries import unwrap
from clew.tokens import counter_for

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.turn import LiveConversation

LARGEST = 5
ALWAYS = ("system", "memory", "tools", "head", "summary", "tail")
"""Parts that are told even where there is nothing of them."""
_REMEMBERED = re.compile(r'<data-(\w+) from="(?:MEMORY|USER)\.md">.*?</data-\1>', re.DOTALL)
"""As the agent's prompt fences what the memory says."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the request."""

    name: str
    tokens: int
    messages: int = 0


@dataclass(frozen=True, slots=True)
class Filling:
    """The next request, and the window it goes into."""

    model: str
    parts: tuple[Part, ...]
    tokens: int
    """The sum of the parts, as preflight counts the request."""
    counted: int
    """Our own count of the same, before what was learnt from real figures."""
    reported: int
    """The prompt of the newest reply as its provider counted it; 0 where there is none."""
    is_anchored: bool
    window: int
    window_source: str
    threshold: int | None
    reserve: int | None
    paused: str | None
    largest: tuple[LargeMessage, ...]
    numbers: tuple[int | None, ...]
    """What the messages of the view are called."""

    @property
    def free(self) -> int:
        return self.window - self.tokens


async def run(state: ChatState, words: str) -> None:
    del words
    from clew.cli.tui.commands.window_page import say_filling

    filling = await filling_of(state)
    show(state, lambda console: say_filling(filling, console))


async def filling_of(state: ChatState) -> Filling:
    """What the next request consists of."""
    desk = state.desk
    live = await desk.runtime.conversation(state.session)
    await weigh_tools(state, live)
    status, compression = live.engine.get_status(), desk.settings.compression
    sizes = live.size.counts
    return Filling(
        model=live.target.model,
        parts=_scaled(list(_parts(live, sizes)), live.size.tokens),
        tokens=live.size.tokens,
        counted=live.size.counted,
        reported=live.last_prompt_tokens,
        is_anchored=live.size.is_anchored,
        window=live.window.tokens,
        window_source=window_source(live),
        threshold=status.threshold_tokens if compression.enabled else None,
        reserve=live.target.max_tokens or live.window.max_output,
        paused=status.paused,
        largest=weigh(live.messages, sizes, counter_for(live.target.model).message, top=LARGEST).largest,
        numbers=tuple(live.places),
    )


def _parts(live: LiveConversation, sizes: Sequence[int]) -> Iterator[Part]:
    counter = counter_for(live.target.model)
    prompt = text_of(live.prompt) if live.prompt else ""
    memory = min(live.size.system, counter.text(_memory_in(prompt)))
    pinned = min(live.size.system - memory, counter.text(live.standing))
    # What every request has, whatever is in it, stands with the system prompt.
    framing = live.size.counted - live.size.system - live.size.tools - sum(sizes)
    yield Part("system", live.size.system - memory - pinned + framing)
    yield Part("memory", memory)
    yield Part("pinned", pinned)
    yield Part("tools", live.size.tools)
    sums = {name: [0, 0] for name in ("head", "summary", "middle", "tail")}
    for message, size, place in zip(live.messages, sizes, _places(live), strict=True):
        summary = _summary_share(message, size, counter.message)
        for name, tokens in (("summary", summary), (place, size - summary)):
            if tokens:
                sums[name][0] += tokens
                sums[name][1] += 1
    yield from (Part(name, tokens, messages) for name, (tokens, messages) in sums.items())


def _memory_in(prompt: str) -> str:
    """What a system prompt shows of the memory, which may have changed since: the blocks it stands in."""
    return "\n".join(found[0] for found in _REMEMBERED.finditer(prompt))


def _places(live: LiveConversation) -> list[str]:
    """Where each message stands: what the next compaction would leave as head and tail, and what lies between."""
    names = {Place.HEAD: "head", Place.TAIL: "tail", Place.HANDOFF: "summary"}
    if isinstance(live.engine, ContextCompressor):
        seen = live.engine.preview(live.messages)
        known = {id(message): place for message, place in zip(seen.messages, seen.places, strict=True)}
        return [names.get(known.get(id(message), Place.FOLDED), "middle") for message in live.messages]
    handoff = next((at for at, message in enumerate(live.messages) if unwrap(message) is not None), 0)
    return ["head" if at < handoff else "tail" for at in range(len(live.messages))]


def _summary_share(message: Message, size: int, count: Callable[[Message], int]) -> int:
    """How much of a message is a handoff: all, none, or what was merged into it."""
    wrapped = unwrap(message) if message["role"] in ("user", "assistant") else None
    if wrapped is None:
        return 0
    return size if wrapped.message is None else min(size, max(0, size - count(wrapped.message)))


def _scaled(parts: Sequence[Part], tokens: int) -> tuple[Part, ...]:
    """The parts in the measure of real figures: they add up to `tokens`, each as large beside the others as before."""
    counted = sum(part.tokens for part in parts)
    if counted == tokens or not counted:
        return tuple(part for part in parts if part.tokens or part.name in ALWAYS)
    exact = [part.tokens * tokens / counted for part in parts]
    given = [int(share) for share in exact]
    for index in sorted(range(len(parts)), key=lambda at: given[at] - exact[at])[: tokens - sum(given)]:
        given[index] += 1
    return tuple(
        replace(part, tokens=share) for part, share in zip(parts, given, strict=True) if share or part.name in ALWAYS
    )
