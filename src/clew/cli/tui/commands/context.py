"""`/context`: what fills the window of this conversation now, part by part, as the next request will be counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clew.cli.console import Console
from clew.cli.context import WindowShare, largest_lines, share_bar, share_lines
from clew.cli.models import WINDOW_SOURCES
from clew.cli.pages import (
    BarStyle,
    fact_lines,
    format_dollars,
    plural,
    print_blocks,
)
from clew.cli.tui.commands.page import count_tools, show_page, window_source
from clew.messages import text_of
from clew.tokens import counter_for
from clew.tokens.window_shares import LargeMessage, measure_window
from clew.turn import ContextPart, NextMessageCost, RecallCounts, context_parts, recall_counts, share_of

if TYPE_CHECKING:
    from clew.cli.tui.commands import ChatState

MAX_LARGEST = 5
PART_STYLES = {
    "system": BarStyle("blue", "S"),
    "memory": BarStyle("yellow", "M"),
    "pinned": BarStyle("red", "P"),
    "tools": BarStyle("cyan", "t"),
    "head": BarStyle("green", "H"),
    "summary": BarStyle("magenta", "#"),
    "middle": BarStyle("white", "-", "▒"),
    "tail": BarStyle("green", "T"),
}
PART_TEXTS = {
    "system": "rules, project, skills",
    "memory": "MEMORY.md and USER.md",
    "pinned": "kept word for word",
    "tools": "what the model may call",
    "head": "how it began",
    "summary": "the handoff",
    "middle": "what a compaction would fold",
    "tail": "the newest messages",
}
_MEMORY_BLOCK = re.compile(r'<data-(\w+) from="(?:MEMORY|USER)\.md">.*?</data-\1>', re.DOTALL)
"""As the agent's prompt fences what the memory says."""


@dataclass(frozen=True, slots=True)
class ContextSnapshot:
    """The next request, and the window it goes into."""

    model: str
    parts: tuple[ContextPart, ...]
    tokens: int
    """The sum of the parts, as preflight counts the request."""
    counted: int
    """Our own count of the same, before what was learnt from real figures."""
    reported: int
    """The prompt of the newest reply as its provider counted it; 0 where there is none."""
    is_measured: bool
    """The provider has counted a prompt of this conversation."""
    window: int
    window_source: str
    threshold: int | None
    reserve: int | None
    paused: str | None
    largest: tuple[LargeMessage, ...]
    numbers: tuple[int | None, ...]
    """What the messages of the view are called."""
    recalled: RecallCounts
    """What was recalled automatically, each time for one turn."""
    cost: NextMessageCost | None
    """Of the next prompt; None where no price is known."""
    cache_seconds: float | None
    """For how long the provider still has what was sent, below 0 where it has not; None where nothing was sent."""

    @property
    def free(self) -> int:
        return self.window - self.tokens


async def run_context(state: ChatState, words: str) -> None:
    del words
    snapshot = await read_context(state)
    show_page(state, lambda console: print_snapshot(snapshot, console))


async def read_context(state: ChatState) -> ContextSnapshot:
    """What the next request consists of."""
    conversation = await state.app.runtime.conversation(state.session)
    await count_tools(state, conversation)
    status, compression = conversation.engine.get_status(), state.app.settings.compression
    size, window, model = conversation.size, conversation.window, conversation.target.model
    largest = measure_window(conversation.messages, size.counts, counter_for(model).message, top=MAX_LARGEST).largest
    prompt = text_of(conversation.view.prompt) if conversation.view.prompt else ""
    return ContextSnapshot(
        model=model,
        parts=context_parts(conversation, _memory_in(prompt)),
        tokens=size.tokens,
        counted=size.counted,
        reported=conversation.view.last_prompt_tokens,
        is_measured=size.is_measured,
        window=window.tokens,
        window_source=window_source(conversation),
        threshold=status.threshold_tokens if compression.enabled else None,
        reserve=conversation.target.max_tokens or window.max_output,
        paused=status.paused,
        largest=tuple(replace(each, tokens=share_of(each.tokens, size.counted, size.tokens)) for each in largest),
        numbers=tuple(conversation.view.seqs),
        recalled=await recall_counts(state.app.store, conversation.session),
        cost=conversation.next_message_cost,
        cache_seconds=conversation.cache_seconds_left,
    )


def _memory_in(prompt: str) -> str:
    """The memory as the system prompt shows it; the files may have changed since."""
    return "\n".join(found[0] for found in _MEMORY_BLOCK.finditer(prompt))


def print_snapshot(snapshot: ContextSnapshot, console: Console) -> None:
    """The bar, its parts, the largest messages and remarks."""
    tokens, window = snapshot.tokens, snapshot.window
    shares = [WindowShare(PART_STYLES[it.name], it.name, it.tokens, window, _part_text(it)) for it in snapshot.parts]
    about = f"{tokens:,} of {window:,} tokens"
    blocks = [
        share_bar(shares, tokens, window, snapshot.threshold, about, console),
        share_lines(shares, snapshot.free, window, console, "/compress, or a larger window"),
    ]
    if snapshot.largest:
        names = ["handoff" if number is None else f"m{number}" for number in snapshot.numbers]
        blocks.append(largest_lines(snapshot.largest, names, window, console))
    print_blocks([*blocks, fact_lines(_remarks(snapshot), console)], console)


def _part_text(part: ContextPart) -> str:
    if not part.tokens:
        return "nothing yet"
    text = PART_TEXTS[part.name]
    return f"{text}, {plural(part.messages, 'message')}" if part.messages else text


def _remarks(snapshot: ContextSnapshot) -> Iterator[tuple[str, str]]:
    sources = {**WINDOW_SOURCES, "file": "as it is run here"}
    yield "window", f"{snapshot.window:,} tokens of {snapshot.model}, {sources[snapshot.window_source]}"
    if snapshot.reserve:
        yield "output", f"up to {min(snapshot.reserve, snapshot.window):,} tokens for a reply, which must fit in too"
    yield "counted", _counting_text(snapshot)
    if snapshot.cost is not None and snapshot.cost.cold:
        yield "next prompt", _cost_text(snapshot.cost, snapshot.cache_seconds)
    if snapshot.recalled.passages:
        passages = plural(snapshot.recalled.passages, "passage")
        yield (
            "recalled",
            f"{passages} recalled automatically so far, {snapshot.recalled.tokens:,} tokens, each for one turn only",
        )
    if snapshot.threshold is None:
        yield "compaction", "switched off in the config (compression.enabled)"
    elif snapshot.paused:
        yield "compaction", f"paused: {snapshot.paused}; /compress compacts now"
    elif snapshot.tokens < snapshot.threshold:
        yield "compaction", f"automatic after another {snapshot.threshold - snapshot.tokens:,} tokens"
    else:
        yield "compaction", "with the next question"


def _cost_text(cost: NextMessageCost, seconds: float | None) -> str:
    """What the next question costs, and for how long."""
    warm, cold = format_dollars(cost.warm), format_dollars(cost.cold)
    if seconds is None or seconds <= 0:
        return f"about {cold}, since no provider has it in its cache; {warm} from a cache"
    minutes, rest = divmod(int(seconds), 60)
    left = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"about {warm} from the provider's cache for another {left}, then {cold}"


def _counting_text(snapshot: ContextSnapshot) -> str:
    """Whose figures these are."""
    if snapshot.reported:
        real = f"the provider counted {snapshot.reported:,} for the last prompt"
    elif snapshot.is_measured:
        real = "the provider has counted earlier prompts, none since the view changed"
    else:
        return f"{snapshot.counted:,} by Clew's count; the provider has not reported a figure yet"
    if snapshot.counted == snapshot.tokens:
        return f"{real}; our count agrees"
    return f"{real}; our count of this request was {snapshot.counted:,}, and all parts are scaled to it"
