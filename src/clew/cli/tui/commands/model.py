"""`/model`: who answers, how large the window is and what a token costs; or another one from the next question on."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from clew.cli.output import Console, printable
from clew.cli.tui.commands import learn_names
from clew.cli.tui.commands.here import conversation_of, window_source
from clew.cli.tui.commands.page import MARGIN, facts, show, tell
from clew.cli.tui.commands.window_page import SOURCES
from clew.turn import cache_policy
from clew.usage import price_of

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.turn import LiveConversation


async def run(state: ChatState, words: str) -> None:
    if words:
        await _switch(state, words)
        return
    live = await conversation_of(state)
    told = [*_told(live), ("caching", _caching(state, live))]

    def draw(console: Console) -> None:
        console.say(MARGIN + console.paint(printable(live.target.model), "bold"))
        for line in facts(told, console):
            console.say(MARGIN + line)

    show(state, draw)


async def _switch(state: ChatState, name: str) -> None:
    desk = state.desk
    live = await conversation_of(state)
    before, window = live.target.model, live.window.tokens
    if name == before:
        tell(state, f"{name} answers already.")
        return
    await desk.use_model(state.session, name)
    live = await conversation_of(state)
    await learn_names(state)
    told = [f"{live.target.model} answers from the next question on, here and in new conversations."]
    size = "the same window" if live.window.tokens == window else f"a window of {live.window.tokens:,} tokens"
    told.append(f"It has {size} ({SOURCES[window_source(live)]}), where {before} has {window:,}.")
    if live.engine.should_compress(live.size.tokens):
        told.append(
            f"This conversation has {live.size.tokens:,} tokens, above its threshold of "
            f"{live.engine.get_status().threshold_tokens:,}: the next question begins with a compaction."
        )
    tell(state, *told)


def _caching(state: ChatState, live: LiveConversation) -> str:
    return cache_policy(state.desk.runtime, live.target).describe().removeprefix("prompt caching: ")


def _told(live: LiveConversation) -> Iterator[tuple[str, str]]:
    target, window = live.target, live.window
    through = target.provider.name or "a provider without a name"
    yield "through", through
    yield "window", f"{window.tokens:,} tokens, {SOURCES[window_source(live)]}; {live.size.tokens:,} are in use"
    if target.max_tokens or window.max_output:
        yield "output", f"up to {target.max_tokens or window.max_output:,} tokens for a reply"
    price = price_of(target.model, target.provider.name or None, prompt_tokens=live.size.tokens)
    if price is None:
        yield "price", "unknown"
        return
    cached = f", {_dollars(price.cache_read)} from the cache" if price.cache_read is not None else ""
    checked = f" (looked up {price.checked})" if price.checked else ""
    costs = f"{_dollars(price.input)} in{cached}, {_dollars(price.output)} out"
    yield "price", f"for a million tokens {costs}{checked}" if price.input or price.output else "free: it runs here"


def _dollars(amount: Decimal) -> str:
    cents = amount.quantize(Decimal("0.01"))
    return f"${cents:,}" if cents == amount else f"${amount.normalize():f}"
