"""/context: every part of the next request, and together exactly what preflight counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clew.agent import Agent, AgentTool, Approvals, CallContext, Toolbox, ToolResult
from clew.agent.tools import Arguments, function_schema
from clew.cli.context import ContextSnapshot, read_context
from clew.testing import assistant, user
from clew.turn import TurnOptions, receive
from tests.support.flow import request_tokens


class Kiln(AgentTool):
    """A tool with something to say about itself."""

    name = "kiln"
    schema = function_schema(name, "Fire the kiln at a heat. " * 30, {"heat": {"type": "integer"}}, "heat")

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del arguments, call
        return ToolResult("fired")


async def filled(chat: Any) -> ContextSnapshot:
    """What the command shows, held against what preflight counts at the same moment."""
    filling = await read_context(chat.state)
    live = await chat.runtime.conversation(chat.state.session)
    assert sum(part.tokens for part in filling.parts) == filling.page.tokens == live.request_tokens(TurnOptions())
    assert filling.page.free == filling.page.window - filling.page.tokens
    return filling


def sizes(filling: ContextSnapshot) -> dict[str, int]:
    return {part.name: part.tokens for part in filling.parts}


def give_tool(chat: Any) -> None:
    chat.app.agent = Agent(chat.runtime, Toolbox([Kiln()]), Approvals("deny"))


async def test_a_fresh_conversation_has_its_prompt_its_memory_and_its_tools(chat: Any) -> None:
    give_tool(chat)
    filling = await filled(chat)
    parts = sizes(filling)
    assert [name for name, tokens in parts.items() if tokens] == ["system", "memory", "tools"]
    assert parts["tools"] > 100
    shown = await chat.type("/context")
    assert f"{filling.page.tokens:,} of 20,000 tokens" in shown
    assert all(f" {name} " in shown for name in ("system", "memory", "tools", "head", "summary", "tail", "free"))
    assert "compaction begins at 10,000" in shown


async def test_a_long_conversation_shows_what_a_compaction_would_fold(long_chat: Any) -> None:
    parts = {part.name: part for part in (await filled(long_chat)).parts}
    assert [parts[name].messages for name in ("head", "middle", "tail")] == [3, 40, 20]
    shown = await long_chat.type("/context")
    assert "what a compaction would fold, 40 messages" in shown
    assert "with the next question" in shown


async def test_after_a_compaction_the_summary_is_a_part_of_its_own(long_chat: Any) -> None:
    await long_chat.type("/compress")
    parts = sizes(await filled(long_chat))
    assert parts["summary"] > 500
    assert "middle" not in parts
    shown = await long_chat.type("/context")
    assert "the handoff, 1 message" in shown


async def test_the_parts_are_those_of_the_very_next_request(long_chat: Any) -> None:
    give_tool(long_chat)
    await long_chat.type("/compress")
    filling = await filled(long_chat)
    await long_chat.app.agent.ask(long_chat.state.session, user("Go on."))
    live = await long_chat.runtime.conversation(long_chat.state.session)
    question = live.view.count([user("Go on.")])[0]
    assert request_tokens(long_chat.provider.requests[-1]) == filling.page.tokens + question


async def test_a_real_figure_puts_every_part_right(chat: Any) -> None:
    give_tool(chat)
    question = user("What is in the oven? " * 40)
    await chat.app.agent.ask(chat.state.session, question)
    before = await filled(chat)
    assert before.counted == before.page.tokens
    chat.provider.unseen = 500
    await chat.app.agent.ask(chat.state.session, question)
    filling = await filled(chat)
    reported = (await chat.runtime.conversation(chat.state.session)).view.last_prompt_tokens
    assert reported
    assert filling.page.tokens == pytest.approx(filling.counted + 500, abs=60)
    assert sizes(filling)["tools"] > sizes(before)["tools"]
    assert f"the provider counted {reported:,} for the last" in " ".join((await chat.type("/context")).split())


async def test_pins_that_were_folded_have_their_part(long_chat: Any) -> None:
    await long_chat.type("/pin m10")
    assert "pinned" not in sizes(await filled(long_chat))
    await long_chat.type("/compress")
    parts = sizes(await filled(long_chat))
    assert parts["pinned"] > 300
    assert "kept word for word" in await long_chat.type("/context")


async def test_the_five_largest_messages_are_named_by_their_numbers(long_chat: Any) -> None:
    await receive(long_chat.runtime, long_chat.state.session, [assistant("flour " * 900)])
    shown = await long_chat.type("/context")
    largest = shown.partition("largest messages\n")[2].partition("\n\n")[0].splitlines()
    assert len(largest) == 6  # a heading, and five
    assert largest[1].split()[:2] == ["m63", "assistant"]


async def test_more_than_the_window_holds_is_said_loudly(long_chat: Any) -> None:
    await receive(long_chat.runtime, long_chat.state.session, [user("rye " * 15_000)])
    assert (await filled(long_chat)).page.free < 0
    shown = await long_chat.type("/context")
    assert "too much" in shown
    assert "the window ends here" in shown


async def test_it_fits_from_60_to_120_columns_and_in_colour(long_chat: Any) -> None:
    await long_chat.type("/context")
    await long_chat.type("/compress")
    await long_chat.type("/context")
    for width in (50, 60, 80, 120):
        lines = [line for text in long_chat.drawn(width) for line in text.splitlines()]
        bars = [line for line in lines if line.startswith("  S") and "░░" in line]
        assert {len(bar) for bar in bars} == {width - 2}


async def test_a_conversation_that_was_just_loaded_weighs_its_tools_too(chat: Any) -> None:
    await chat.hear(user("hello"))
    give_tool(chat)
    await chat.type("/engine compressor")
    live = await chat.runtime.conversation(chat.state.session)
    assert live.size.tools > 100
    await chat.type("/new")
    await chat.type("/model")
    live = await chat.runtime.conversation(chat.state.session)
    assert live.size.tools > 100


@pytest.mark.parametrize("rounds", range(20, 26))
async def test_wherever_the_handoff_stands_it_is_the_summary(chat: Any, rounds: int) -> None:
    talk = [
        user(f"Shift {at}? " + "why " * 80) if at % 2 == 0 else assistant("Fine. " * 90) for at in range(2 * rounds)
    ]
    await chat.hear(*talk[: 2 * rounds - rounds % 2])
    shown = await chat.type("/compress --preview")
    handoff = int(shown.partition("the handoff  ")[2].split()[0].replace(",", ""))
    await chat.type("/compress --apply")
    filling = await filled(chat)
    assert sizes(filling)["summary"] == handoff


async def test_the_next_prompt_has_its_price_while_the_cache_is_warm_and_after(chat: Any) -> None:
    shown = await chat.type("/context")
    assert "next prompt" not in shown  # the model has no price
    conversation = await chat.runtime.conversation(chat.state.session)
    conversation.set_model(replace(conversation.model, target=replace(conversation.target, model="claude-sonnet-4-5")))
    assert "no provider has it in its cache" in " ".join((await chat.type("/context")).split())
    conversation.note_sent()
    assert "from the provider's cache for another 4 min 5" in " ".join((await chat.type("/context")).split())
