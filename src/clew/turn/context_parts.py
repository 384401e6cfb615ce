"""The parts of the next request of a conversation, in the tokens of its provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from clew.engines import CompactionRegion, ContextCompressor
from clew.handoff import unwrap
from clew.messages import Message
from clew.tokens import counter_for
from clew.turn.conversation import Conversation

ALWAYS_SHOWN = ("system", "memory", "tools", "head", "summary", "tail")
"""Parts that are returned even if they are empty."""


@dataclass(frozen=True, slots=True)
class ContextPart:
    """One part of the request."""

    name: str
    """`system`, `memory`, `pinned`, `tools`, `head`, `summary`, `middle` (which a compaction would fold) or `tail`."""
    tokens: int
    messages: int = 0


def context_parts(conversation: Conversation, memory: str = "") -> tuple[ContextPart, ...]:
    """The parts of the next request; they add up to its size. `memory` is the part of the system prompt from memory."""
    return _scaled(list(_parts(conversation, memory)), conversation.size.counted, conversation.size.tokens)


def share_of(counted: int, whole_counted: int, whole: int) -> int:
    """A part of a request in the tokens of its provider, from our counts of part and request and its size there."""
    return round(counted * whole / whole_counted) if whole_counted else 0


def _parts(conversation: Conversation, memory_text: str) -> Iterator[ContextPart]:
    size, view, counter = conversation.size, conversation.view, counter_for(conversation.target.model)
    memory = min(size.system, counter.text(memory_text))
    pinned = min(size.system - memory, counter.text(view.pinned_text))
    # The fixed overhead of a request counts with the system prompt.
    framing = size.counted - size.system - size.tools - sum(size.counts)
    yield ContextPart("system", size.system - memory - pinned + framing)
    yield ContextPart("memory", memory)
    yield ContextPart("pinned", pinned)
    yield ContextPart("tools", size.tools)
    sums = {name: [0, 0] for name in ("head", "summary", "middle", "tail")}
    for message, tokens, region in zip(conversation.messages, size.counts, _regions(conversation), strict=True):
        summary = _summary_tokens(message, tokens, counter.message)
        for name, share in (("summary", summary), (region, tokens - summary)):
            if share:
                sums[name][0] += share
                sums[name][1] += 1
    yield from (ContextPart(name, tokens, messages) for name, (tokens, messages) in sums.items())


def _regions(conversation: Conversation) -> list[str]:
    """The region of each message in the next compaction: head, tail, summary or middle."""
    names = {CompactionRegion.HEAD: "head", CompactionRegion.TAIL: "tail", CompactionRegion.HANDOFF: "summary"}
    messages, engine = conversation.messages, conversation.engine
    if isinstance(engine, ContextCompressor):
        return [names.get(region, "middle") for region in engine.preview(messages).regions]
    handoff = next((at for at, message in enumerate(messages) if unwrap(message) is not None), 0)
    return ["head" if at < handoff else "tail" for at in range(len(messages))]


def _summary_tokens(message: Message, tokens: int, count: Callable[[Message], int]) -> int:
    """The tokens of a message that are a handoff: all, none, or all but the merged text."""
    wrapped = unwrap(message) if message["role"] in ("user", "assistant") else None
    if wrapped is None:
        return 0
    return tokens if wrapped.message is None else min(tokens, max(0, tokens - count(wrapped.message)))


def _scaled(parts: Sequence[ContextPart], counted: int, tokens: int) -> tuple[ContextPart, ...]:
    """The parts corrected by real figures: they add up to `tokens`, in the same proportions as before."""
    given = [share_of(part.tokens, counted, tokens) for part in parts[1:]]
    # The rounding error goes to the system prompt, so that the others have the figures of other pages.
    scaled = map(lambda part, share: replace(part, tokens=share), parts, [tokens - sum(given), *given])
    return tuple(part for part in scaled if part.tokens or part.name in ALWAYS_SHOWN)
