"""Folds before the threshold: while a conversation is idle, behind a finished task, and once the cache has expired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clew.config import Settings
from clew.events import CompactionStarted
from clew.messages import Message
from clew.providers import Reply
from clew.store import NewMessage
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import ScriptedProvider, refuses, says
from clew.turn import ModelTarget, handoff_pays, next_message_cost, receive, reports_finished
from tests.support.flow import Flow, flow_with
from tests.support.summaries import handoff_text

PRICED = "claude-sonnet-4-5"
WINDOW = 60_000
HANDOFF = says(handoff_text(goal="Mend the clock.", key_decisions="The blue lantern.", critical_context="Gear 12."))
DONE = "The clock in hall 3 runs again; all 12 gears were cleaned."


class Clock:
    """Shows the time that a test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def talk(
    folder: Path,
    clock: Clock,
    *replies: Any,
    share: float,
    last: str = "Ok.",
    fold_idle: bool = True,
    is_returned_to: bool = True,
    **more: Any,
) -> AsyncIterator[Flow]:
    """A conversation that fills this share of the window after one turn, and the replies that follow.

    Its person was away for an hour near the beginning, unless told otherwise.
    """
    settings = Settings()
    settings = replace(settings, prompt_caching=replace(settings.prompt_caching, fold_idle=fold_idle))
    provider = ScriptedProvider(says(last, prompt_tokens=int(share * WINDOW)), *replies)
    given = {"window": WINDOW, "model": PRICED, "summarizes": True, "settings": settings, "clock": clock, **more}
    async with flow_with(provider, folder, **given) as flow:
        conversation = await flow.conversation()
        before = datetime.now(UTC) - timedelta(hours=1) if is_returned_to else None
        hello = [NewMessage(user("Hello."), before), NewMessage(assistant("Hello."), before)]
        await conversation.append(hello)
        while conversation.size.tokens < share * WINDOW:
            at = len(conversation.messages)
            asked: list[Message] = [user(f"Read part {at}."), assistant(None, [call("read", {"part": at}, f"c{at}")])]
            await receive(flow.runtime, flow.session, [*asked, tool(f"c{at}", f"part {at} " + "gears turn " * 300)])
        await flow.turn()
        yield flow


def reasons(flow: Flow) -> list[str]:
    return [it.reason for it in flow.events if isinstance(it, CompactionStarted)]


async def prepared(flow: Flow) -> None:
    task = (await flow.conversation()).preparer.task
    if task is not None:
        await asyncio.wait({task})


async def test_an_idle_conversation_is_folded_with_a_handoff_by_the_model(tmp_path: Path) -> None:
    clock = Clock()
    async with talk(tmp_path, clock, HANDOFF, says("Late."), share=0.42) as flow:
        conversation = await flow.conversation()
        before = conversation.size.tokens
        assert conversation.cache_seconds_left == 300
        clock.now += 275
        assert await conversation.fold_before_expiry()
        assert reasons(flow) == ["idle"] and conversation.size.tokens < before / 2
        assert not await conversation.fold_before_expiry()
        await flow.turn(user("Which one?"))


@pytest.mark.parametrize(
    ("share", "more"),
    [
        (0.3, {}),
        (0.42, {"is_returned_to": False}),
        (0.42, {"fold_idle": False}),
        (0.42, {"model": "a-model-without-a-price"}),
    ],
    ids=["small", "never returned to", "switched off", "no price"],
)
async def test_an_idle_conversation_stays_where_a_fold_is_not_wanted(
    tmp_path: Path, share: float, more: dict[str, Any]
) -> None:
    async with talk(tmp_path, Clock(), share=share, **more) as flow:
        assert not await (await flow.conversation()).fold_before_expiry()
        assert not reasons(flow)


async def test_it_stays_where_the_model_refuses_or_a_call_is_open(tmp_path: Path) -> None:
    refused = [refuses("auth") for _ in range(4)]
    async with talk(tmp_path, Clock(), *refused, share=0.42) as flow:
        conversation = await flow.conversation()
        assert not await conversation.fold_before_expiry()
        await receive(flow.runtime, flow.session, [user("More."), assistant(None, [call("read", {}, "open")])])
        assert not await conversation.is_worth_folding_idle("5m")
        assert not reasons(flow)


async def test_it_stays_where_another_process_has_continued_it(tmp_path: Path) -> None:
    async with talk(tmp_path, Clock(), HANDOFF, share=0.42) as flow:
        conversation = await flow.conversation()
        await flow.store.append(flow.session, [user("From another window.")])
        assert not await conversation.fold_before_expiry()
        assert not reasons(flow)


async def test_what_was_prepared_is_used_earlier_once_the_cache_has_expired(tmp_path: Path) -> None:
    clock = Clock()
    async with talk(tmp_path, clock, HANDOFF, says("Warm."), says("Cold."), share=0.44) as flow:
        await prepared(flow)
        await flow.turn(user("Which one?"))
        assert not reasons(flow)
        clock.now += 301
        await flow.turn(user("And now?"))
        assert reasons(flow) == ["cold"]


async def test_without_a_model_a_conversation_is_folded_earlier_once_the_cache_has_expired(tmp_path: Path) -> None:
    clock = Clock()
    async with talk(tmp_path, clock, says("Warm."), says("Cold."), share=0.42, summarizes=False) as flow:
        await flow.turn(user("Which one?"))
        assert not reasons(flow)
        clock.now += 301
        await flow.turn(user("And now?"))
        assert reasons(flow) == ["cold"]


@pytest.mark.parametrize(("minutes", "expected"), [(4, []), (6, ["cold"])])
async def test_after_a_restart_the_newest_stored_reply_says_whether_the_cache_has_expired(
    tmp_path: Path, minutes: int, expected: list[str]
) -> None:
    at = datetime.now(UTC) - timedelta(minutes=minutes)
    given: dict[str, Any] = {"window": WINDOW, "model": PRICED}
    async with flow_with(ScriptedProvider(says("Late.")), tmp_path, **given) as flow:
        conversation = await flow.conversation()
        while conversation.size.tokens < 0.44 * WINDOW:
            part = [user(f"Read part {conversation.size.tokens}. " + "gears turn " * 300), assistant("Read.")]
            await conversation.append([NewMessage(message, at) for message in part])
        await flow.runtime.forget(flow.session)
        await flow.turn(user("Which one?"))
        assert reasons(flow) == expected


@pytest.mark.parametrize(("last", "expected"), [(DONE, ["finished"]), ("Shall I go on?", [])])
async def test_a_finished_task_is_folded_before_the_next_question(
    tmp_path: Path, last: str, expected: list[str]
) -> None:
    after: list[Reply] = [HANDOFF, says("Late.")] if expected else [says("Late.")]
    async with talk(tmp_path, Clock(), *after, share=0.38, last=last) as flow:
        await prepared(flow)
        assert not reasons(flow)
        await flow.turn(user("Which one is next?"))
        assert reasons(flow) == expected


@pytest.mark.parametrize(
    ("messages", "is_finished"),
    [
        ([user("Go."), assistant(None, [call("read", {}, "c")]), tool("c", "x"), assistant(DONE)], True),
        ([user("Go."), assistant(None, [call("read", {}, "c")]), tool("c", "x"), assistant("Shall I?")], False),
        ([user("Go."), assistant(DONE)], False),
        ([user("Go."), assistant(DONE, [call("read", {}, "c")])], False),
        ([user("Go.")], False),
        ([], False),
    ],
)
def test_a_task_is_finished_where_words_follow_work(messages: list[Message], is_finished: bool) -> None:
    assert reports_finished(messages) is is_finished


def test_the_next_message_costs_more_once_the_cache_has_expired() -> None:
    cost = next_message_cost(100_000, PRICED, "anthropic")
    assert cost is not None
    assert (round(cost.warm, 4), round(cost.cold, 4)) == (0.03, 0.375)
    assert next_message_cost(100_000, "a-model-without-a-price", None) is None


def test_a_model_is_asked_where_the_turns_of_the_observed_size_pay_for_its_handoff() -> None:
    priced, unpriced = ModelTarget(None, PRICED, host_name="anthropic"), ModelTarget(None, "a-model-nobody-priced")
    free = ModelTarget(None, "llama3", host_name="ollama")
    for target in (priced, unpriced):
        assert handoff_pays(45_000, 10_000, 30, 1_900, target)
        assert not handoff_pays(28_000, 8_000, 7, 1_200, target)
        assert not handoff_pays(28_000, 280_000, 1, 1_200, target)
    assert handoff_pays(28_000, 8_000, 1, 1_200, free)


async def test_turns_that_a_compaction_shortened_do_not_count_as_small_ones(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path, window=WINDOW) as flow:

        async def work(turns: int) -> None:
            for _ in range(turns):
                at = len((await flow.conversation()).messages)
                asked: list[Message] = [user(f"Read {at}."), assistant(None, [call("read", {"part": at}, f"c{at}")])]
                await receive(flow.runtime, flow.session, [*asked, tool(f"c{at}", f"part {at} " + "gears turn " * 300)])

        await work(30)
        conversation = await flow.conversation()
        assert conversation.turns_by_growth == 30
        assert await conversation.compact_now()
        assert conversation.turns_by_growth == conversation.turns
        await work(4)
        size = conversation.size.tokens / conversation.turns_by_growth
        assert 500 < size < 1_200 and conversation.turns != conversation.turns_by_growth
