"""`/model`, `/engine`, `/mode` and `/plan`: which model answers, which engine compacts, how files are edited."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from clew.cli.console import Console
from clew.cli.models import WINDOW_SOURCES
from clew.cli.pages import NO_PRICE, fact_lines, page_width, plural
from clew.cli.text import printable, wrap, wrap_all
from clew.cli.tui.commands import EDIT_MODES, learn_names
from clew.cli.tui.commands.page import current_conversation, show_lines, show_text, window_source
from clew.errors import InvalidArgument
from clew.usage import price_of

if TYPE_CHECKING:
    from clew.agent import EditMode
    from clew.cli.tui.commands import ChatState
    from clew.plugins import Plugin
    from clew.turn import Conversation


async def run_model(state: ChatState, words: str) -> None:
    if words:
        await _switch_model(state, words)
        return
    conversation = await current_conversation(state)
    target = conversation.target
    caching = state.app.runtime.cache_policy(target).describe().removeprefix("prompt caching: ")
    facts = [*_model_facts(conversation), ("caching", caching)]

    def lines(console: Console) -> Iterator[str]:
        yield console.style(printable(target.model), "bold")
        yield from fact_lines(facts, console)

    show_lines(state, lines)


async def _switch_model(state: ChatState, name: str) -> None:
    conversation = await current_conversation(state)
    before, window = conversation.target.model, conversation.window.tokens
    if name == before:
        show_text(state, f"{name} answers already.")
        return
    await state.app.use_model(state.session, name)
    conversation = await current_conversation(state)
    await learn_names(state)
    now, tokens = conversation.window.tokens, conversation.size.tokens
    size = "the same window" if now == window else f"a window of {now:,} tokens"
    sentences = [
        f"{conversation.target.model} answers from the next question on, here and in new conversations.",
        f"It has {size} ({_window_source_text(conversation)}), where {before} has {window:,}.",
    ]
    if conversation.engine.should_compress(tokens):
        sentences.append(
            f"This conversation has {tokens:,} tokens, above its threshold of "
            f"{conversation.engine.get_status().threshold_tokens:,}: the next question begins with a compaction."
        )
    show_text(state, *sentences)


def _model_facts(conversation: Conversation) -> Iterator[tuple[str, str]]:
    target, window, tokens = conversation.target, conversation.window, conversation.size.tokens
    yield "through", target.served_by or "a provider without a name"
    yield "window", f"{window.tokens:,} tokens, {_window_source_text(conversation)}; {tokens:,} are in use"
    if target.max_tokens or window.max_output:
        yield "output", f"up to {target.max_tokens or window.max_output:,} tokens for a reply"
    price = price_of(target.model, target.served_by or None, prompt_tokens=tokens)
    if price is None:
        yield "price", f"{NO_PRICE} is known"
        return
    cached = f", {_format_price(price.cache_read)} from the cache" if price.cache_read is not None else ""
    checked = f" (looked up {price.checked})" if price.checked else ""
    costs = f"{_format_price(price.input)} in{cached}, {_format_price(price.output)} out"
    yield "price", f"for a million tokens {costs}{checked}" if price.input or price.output else "free: it runs here"


def _window_source_text(conversation: Conversation) -> str:
    source = window_source(conversation)
    return "as it is run here" if source == "file" else WINDOW_SOURCES[source]


def _format_price(amount: Decimal) -> str:
    cents = amount.quantize(Decimal("0.01"))
    return f"${cents:,}" if cents == amount else f"${amount.normalize():f}"


async def run_engine(state: ChatState, words: str) -> None:
    if words:
        await _switch_engine(state, words)
        return
    conversation = await current_conversation(state)
    active, status = conversation.engine.name, conversation.engine.get_status()
    made = [
        each for each in await state.app.store.compactions(conversation.session, keep_damaged=True) if each.is_in_effect
    ]
    in_effect = plural(len(made), "compaction") if made else "no compaction is"
    sentences = [
        f"{active} serves here: it compacts at {status.threshold_tokens:,} of {status.context_length:,} tokens; "
        f"{in_effect} in effect here.",
        "/engine NAME chooses another.",
    ]
    plugins = state.app.engines.catalog.plugins()

    def lines(console: Console) -> Iterator[str]:
        for plugin in plugins:
            yield from _engine_lines(plugin, active, console)
        for line in wrap_all(sentences, page_width(console)):
            yield console.style(line, "dim")

    show_lines(state, lines)


def _engine_lines(plugin: Plugin, active: str, console: Console) -> Iterator[str]:
    about = plugin.description
    if plugin.problem:
        about = f"cannot serve: {plugin.problem}"
    elif plugin.shadowed:
        about = f"hidden by another of its name; {about}"
    mark = "*" if plugin.name == active and not plugin.shadowed else " "
    yield f"{mark} {console.style(printable(plugin.name), 'cyan', 'bold')}  {plugin.origin.value}"
    yield from (f"  {line}" for line in wrap(about, page_width(console) - 4))


async def _switch_engine(state: ChatState, name: str) -> None:
    notices = await state.app.use_engine(state.session, name)
    await current_conversation(state)
    state.previewed = None
    chosen = state.app.engine_name
    show_text(state, *notices, f"{chosen} serves from now on: here, in new conversations and after a restart.")


EDIT_MODE_TEXTS: dict[EditMode, str] = {
    "allow": "Files are edited without a question; /undo puts them back.",
    "ask": "Each edit of a file is shown and asked for before it is made.",
    "plan": "Only reading: nothing is changed until you approve the plan.",
}


async def run_mode(state: ChatState, words: str) -> None:
    approvals = state.app.agent.approvals
    if not words:
        others = ", ".join(f"/mode {name}" for name in EDIT_MODES if name != approvals.edits)
        show_text(
            state, EDIT_MODE_TEXTS[approvals.edits], f"{others} or Shift-Tab changes it; agent.edits sets it for good."
        )
        return
    chosen: EditMode | None = next((mode for mode in EDIT_MODE_TEXTS if mode == words), None)
    if chosen is None:
        raise InvalidArgument(f"/mode {words} is not known; it takes {', '.join(EDIT_MODES)}")
    if chosen == "plan" and approvals.edits != "plan":
        state.edits_after_plan = approvals.edits
    approvals.edits = chosen
    show_text(state, EDIT_MODE_TEXTS[chosen])


async def run_plan(state: ChatState, words: str) -> None:
    await run_mode(state, "plan")
    if words:
        state.questions.append(words)
