"""The parts of a turn by themselves: windows, caps, pictures, what waits, what is let go."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from clew.engines import Fate
from clew.events import CompactionFinished, CompactionStarted, Notice
from clew.messages import Message, Part, images_of, text_of
from clew.providers import ErrorClass
from clew.store import NewSession, open_store
from clew.summaries import SYSTEM_NOTE
from clew.testing import PlainEngine, assistant, call, tool, user
from clew.testing.runtime import SESSION, Flow, answers, flow_with
from clew.testing.scripted import ScriptedProvider, calls, refuses, says
from clew.testing.summaries import handoff_text
from clew.tokens import LearntLimits
from clew.turn import (
    Ask,
    Target,
    answer,
    apply_draft,
    compact_now,
    follow_sync,
    preview_compaction,
    receive,
)
from clew.turn.costs import call_of
from clew.turn.media import PLACEHOLDER, without_media
from clew.turn.recover import Recovery, _lower_cap
from clew.turn.target import window_for
from clew.usage import CanonicalUsage

PICTURE: Part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


async def talk(flow: Flow, turns: int = 15) -> None:
    said = [
        m for n in range(turns) for m in (user(f"Part {n}. " + "of the plan we made " * 80), assistant(f"Did {n}."))
    ]
    await receive(flow.runtime, SESSION, said)


# -- windows -----------------------------------------------------------------------------------------------------------


async def test_the_smallest_limit_that_was_ever_stated_wins_over_a_larger_configured_window(tmp_path: Path) -> None:
    learnt = LearntLimits(tmp_path / "limits.json")
    learnt.remember("m", None, 30_000)
    async with open_store(":memory:") as store:
        await store.learn_window("m", "", 20_000)
        target = Target(ScriptedProvider(), "m", context_length=100_000)
        window = await window_for(target, store, learnt)
        assert (window.tokens, window.source) == (20_000, "stated")
        assert window.notice is not None
        assert (await window_for(replace(target, context_length=8_000), store, learnt)).tokens == 8_000


# -- output caps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "fault", "expected"),
    [
        (8_000, ErrorClass("output_cap_too_large", available_output=3_000), 3_000),
        (8_000, ErrorClass("output_cap_too_large"), 4_000),
        (None, ErrorClass("output_cap_too_large", requested_output=2_000), 1_000),
        (None, ErrorClass("output_cap_too_large"), 4_096),
        (2_000, ErrorClass("output_cap_too_large", available_output=5_000), 1_000),
        (8_000, ErrorClass("output_cap_too_large", available_output=3_000, input_is_at_least=True), 1_500),
        (8_000, ErrorClass("output_cap_too_large", available_output=3), None),
    ],
)
def test_the_output_cap_is_what_there_is_room_for_or_half(
    asked: int | None, fault: ErrorClass, expected: int | None
) -> None:
    assert _lower_cap(Recovery(asked), fault) == expected


def test_a_cap_is_lowered_three_times_at_most() -> None:
    assert _lower_cap(Recovery(8_000, lowered=3), ErrorClass("output_cap_too_large")) is None


# -- pictures ----------------------------------------------------------------------------------------------------------


def test_pictures_become_placeholders_and_everything_else_is_the_same_object() -> None:
    messages: list[Message] = [
        user([PICTURE, {"type": "text", "text": "old"}]),
        assistant("seen"),
        user([{"type": "text", "text": "new"}, PICTURE]),
    ]
    done = without_media(messages, 100, keep_newest=True)
    assert done.fates == (Fate.PRUNED, Fate.KEPT, Fate.KEPT)
    assert text_of(done.messages[0]) == f"{PLACEHOLDER}\nold"
    assert done.messages[1] is messages[1]
    assert done.messages[2] is messages[2]
    assert not any(images_of(message) for message in without_media(messages, 100, keep_newest=False).messages)


def test_without_pictures_nothing_changes() -> None:
    assert not without_media([user("a"), assistant("b")], 100, keep_newest=False).changed


# -- the live conversation ---------------------------------------------------------------------------------------------


async def test_a_live_conversation_shows_what_the_store_shows(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(call("terminal", {}, id="c1")), answers("ok"))
    async with flow_with(provider, tmp_path) as flow:
        await flow.turn(user("go"))
        await flow.turn(tool("c1", "done"))
        live = await flow.runtime.conversation(SESSION)
        view = await flow.store.view(SESSION)
        assert tuple(live.messages) == view.messages
        assert tuple(live.places) == view.places
        assert live.next_seq == view.next_seq
        assert live.considered() == view


async def test_calls_that_wait_are_not_in_what_may_be_compacted(tmp_path: Path) -> None:
    asked = [call("terminal", {}, id="c1"), call("terminal", {}, id="c2")]
    async with flow_with(ScriptedProvider(calls(*asked)), tmp_path) as flow:
        await talk(flow)
        await flow.turn(user("run both"))
        await receive(flow.runtime, SESSION, [tool("c2", "second first")])
        live = await flow.runtime.conversation(SESSION)
        assert live.open_group() == len(live.messages) - 2
        assert live.considered().next_seq == live.next_seq - 2
        done = await compact_now(flow.runtime, SESSION)
        assert done is not None
        assert done.changed
        assert [message["role"] for message in live.messages[-2:]] == ["assistant", "tool"]
        assert tuple(live.messages) == tuple(await flow.view())


async def test_the_note_stands_behind_the_system_prompt_as_a_block_where_there_are_blocks(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("ok"), name="anthropic")
    async with flow_with(provider, tmp_path, model="claude-sonnet-4-5") as flow:
        await talk(flow)
        await compact_now(flow.runtime, SESSION)
        await flow.turn(user("go"))
        content = provider.requests[0].messages[0]["content"]
        assert isinstance(content, list)
        assert [part["text"] for part in content] == ["You are a careful assistant.", SYSTEM_NOTE]


async def test_a_session_of_before_leads_to_its_continuation(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        live = await flow.runtime.conversation(SESSION)
        await compact_now(flow.runtime, SESSION)
        assert live.session != SESSION
        assert await flow.runtime.conversation(live.session) is live
        assert await flow.runtime.conversation(SESSION) is live
        await flow.runtime.forget(SESSION)
        again = await flow.runtime.conversation(SESSION)
        assert again is not live
        assert again.messages == live.messages


async def test_the_longest_unused_conversations_are_let_go(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        flow.runtime.host = replace(flow.runtime.host, most_live=2)
        lives = []
        for name in ("a", "b", "c"):
            await flow.store.start_session(NewSession(id=name))
            lives.append(await flow.runtime.conversation(name))
        assert await flow.runtime.conversation("c") is lives[2]
        assert await flow.runtime.conversation("a") is not lives[0]


async def test_hosts_are_told_before_and_after_a_session_is_continued(tmp_path: Path) -> None:
    heard: list[tuple[str, ...]] = []

    async def before(old: str) -> str | None:
        heard.append(("before", old))
        return None

    async def after(old: str, new: str) -> None:
        heard.append(("after", old, new))

    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        flow.runtime.host = replace(flow.runtime.host, before_switch=before, after_switch=after)
        await talk(flow)
        await compact_now(flow.runtime, SESSION)
        live = await flow.runtime.conversation(SESSION)
        assert heard == [("before", SESSION), ("after", SESSION, live.session)]


async def test_a_client_that_sends_its_whole_history_each_time_is_followed_without_reading_it_again(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider(says("one", prompt_tokens=30), says("two", prompt_tokens=40))
    async with flow_with(provider, tmp_path) as flow:
        history: list[Message] = [user("a")]
        for _ in range(2):
            synced = await flow.store.sync(history, session=SESSION)
            live = await follow_sync(flow.runtime, synced, history)
            view = live.view
            async with live.busy:
                reply = await answer(flow.runtime, live, Ask())
            history += [reply.message, user("b")]
            assert live.view is view
        assert [text_of(message) for message in live.messages] == ["a", "one", "b", "two"]
        assert flow.witness.checked == 1


async def test_a_lease_that_another_holds_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await asyncio.sleep(0)

    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        flow.runtime.host = replace(flow.runtime.host, sleep=sleep)
        await talk(flow)
        before = await flow.view()
        await flow.store.take_lease(SESSION, "somebody else", 3_600)
        assert await compact_now(flow.runtime, SESSION) is None
        assert len(waited) == 60
        assert await flow.view() == before


async def test_a_client_may_bring_its_own_system_prompt_as_blocks(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("one"), answers("two"))
    blocks: Message = {"role": "system", "content": [{"type": "text", "text": "Mine."}]}
    async with flow_with(provider, tmp_path) as flow:
        await talk(flow)
        live = await flow.runtime.conversation(SESSION)
        async with live.busy:
            await answer(flow.runtime, live, Ask(prompt=blocks))
        await compact_now(flow.runtime, SESSION)
        async with live.busy:
            await answer(flow.runtime, live, Ask(prompt=blocks))
        assert provider.requests[0].messages[0] == blocks
        assert text_of(provider.requests[1].messages[0]) == f"Mine.\n{SYSTEM_NOTE}"


async def test_any_engine_that_keeps_the_contract_serves_a_turn(tmp_path: Path) -> None:
    provider = ScriptedProvider(*[answers(f"answer {n}") for n in range(12)])
    async with flow_with(provider, tmp_path, window=8_000, new_engine=PlainEngine) as flow:
        for number in range(12):
            await flow.turn(user(f"Part {number}. " + "of the plan we made " * 150))
        assert flow.told(CompactionStarted)
        assert tuple((await flow.runtime.conversation(SESSION)).messages) == tuple(await flow.view())
        assert (await flow.store.compactions(SESSION))[0].entry.engine == "plain"
        assert len(await flow.store.messages(SESSION)) == 24


async def test_a_prompt_that_leaves_no_room_for_output_is_compacted_and_no_window_is_changed(tmp_path: Path) -> None:
    full = refuses("output_cap_too_large", limit=20_000, available_output=3)
    provider = ScriptedProvider(full, answers("ok"))
    async with flow_with(provider, tmp_path, max_tokens=4_000) as flow:
        await talk(flow)
        await flow.turn(user("go"))
        assert [event.reason for event in flow.told(CompactionStarted)] == ["overflow"]
        assert provider.requests[1].max_tokens == 4_000
        assert (await flow.runtime.conversation(SESSION)).window.tokens == 20_000


async def test_what_a_preview_shows_is_exactly_what_is_then_applied(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        before = await flow.view()
        drawn = await preview_compaction(flow.runtime, SESSION, "the plan")
        assert await flow.view() == before
        live = await flow.runtime.conversation(SESSION)
        assert live.engine.get_status().compactions == 0
        await receive(flow.runtime, SESSION, [user("meanwhile")])
        assert await apply_draft(flow.runtime, SESSION, drawn)
        assert list(await flow.view()) == [*drawn.compaction.messages, user("meanwhile")]
        # It was made for a view that is gone now.
        assert not await apply_draft(flow.runtime, SESSION, drawn)


async def test_a_host_that_does_not_settle_answers_first_and_fits_the_next_request(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("one", grows=9_000), answers("two"))
    async with flow_with(provider, tmp_path) as flow:
        await talk(flow)
        live = await flow.runtime.conversation(SESSION)
        async with live.busy:
            await answer(flow.runtime, live, Ask(), settles=False)
        assert not flow.told(CompactionStarted)
        await flow.turn(user("and?"))
        assert [event.reason for event in flow.told(CompactionStarted)] == ["usage"]


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_a_price_that_is_not_known_stays_unknown() -> None:
    usage = CanonicalUsage(input_tokens=1_000_000, output_tokens=1_000)
    known = call_of(usage, Target(ScriptedProvider(name="openai"), "gpt-4o"), "library")
    assert known.cost_micros is not None
    assert known.cost_micros > 0
    assert call_of(usage, Target(ScriptedProvider(), "nobody-knows-it"), "library").cost_micros is None


async def test_a_reply_that_no_provider_would_take_back_is_mended_before_it_is_kept(tmp_path: Path) -> None:
    broken = says("", prompt_tokens=20)
    provider = ScriptedProvider(replace(broken, message={"role": "assistant", "content": None}), answers("better"))
    async with flow_with(provider, tmp_path) as flow:
        await flow.turn(user("go"))
        await flow.turn(user("go on"))
        assert all(isinstance(message.get("content"), str) for message in provider.requests[1].messages)


async def test_the_main_model_writes_the_summaries_where_no_other_is_configured(tmp_path: Path) -> None:
    text = handoff_text(goal="Finish the plan.", completed_actions="1. Went through the parts.")
    provider = ScriptedProvider(answers("first"), says(text, prompt_tokens=4_000), answers("second"))
    async with flow_with(provider, tmp_path, summarizes=True) as flow:
        await talk(flow)
        await flow.turn(user("one"))
        done = await compact_now(flow.runtime, SESSION)
        assert done is not None
        assert done.written_by == "scripted-model"
        await flow.turn(user("two"))
        assert "Finish the plan." in str(provider.requests[2].messages)
        totals = await flow.store.usage(("source",))
        assert {total.group["source"]: total.calls for total in totals} == {"auxiliary": 1, "library": 2}


async def test_strikes_are_not_forgotten_by_a_restart(tmp_path: Path) -> None:
    huge = user("All of this is the task. " + "word by word " * 6_000)
    provider = ScriptedProvider(*[answers("ok") for _ in range(6)])
    async with flow_with(provider, tmp_path) as flow:
        await talk(flow, turns=2)
        await flow.turn(huge)
        for _ in range(3):
            await flow.turn(user("go on"))
        started = len(flow.told(CompactionStarted))
        assert (await flow.runtime.conversation(SESSION)).engine.get_status().paused is not None
        assert any("the system prompt" in notice.text for notice in flow.told(Notice))
        warned = " ".join(warning for done in flow.told(CompactionFinished) for warning in done.warnings)
        assert "System prompt, tools and what else is sent take" in warned
    async with flow_with(provider, tmp_path) as flow:
        assert (await flow.runtime.conversation(SESSION)).engine.get_status().paused is not None
        await flow.turn(user("go on"))
        assert started <= 3
        assert not flow.told(CompactionStarted)


async def test_an_engine_counts_a_previewed_compaction_when_it_is_applied_and_not_before(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        drawn = await preview_compaction(flow.runtime, SESSION)
        engine = (await flow.runtime.conversation(SESSION)).engine
        assert engine.get_status().compactions == 0
        assert await apply_draft(flow.runtime, SESSION, drawn)
        assert engine.get_status().compactions == 1
