"""An open conversation: what it shows, how it is compacted, previewed and followed, and when it is closed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from dataclasses import replace
from pathlib import Path

from clew.events import CompactionFinished, CompactionStarted, Notice
from clew.handoff import SYSTEM_NOTE
from clew.messages import Message, text_of
from clew.store import AUXILIARY, CallFilter, NewSession
from clew.testing import assistant, call, system, tool, user
from clew.testing.scripted import ScriptedProvider, calls, refuses, says
from clew.turn import TurnOptions, answer, call_of, receive
from clew.usage import CanonicalUsage
from tests.support.engines import PlainEngine
from tests.support.flow import SESSION, Flow, answers, flow_with
from tests.support.summaries import handoff_text


async def talk(flow: Flow, turns: int = 15) -> None:
    said = [
        m for n in range(turns) for m in (user(f"Part {n}. " + "of the plan we made " * 80), assistant(f"Did {n}."))
    ]
    await receive(flow.runtime, SESSION, said)


async def test_an_open_conversation_shows_what_the_store_shows(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(call("terminal", {}, id="c1")), answers("ok"))
    async with flow_with(provider, tmp_path) as flow:
        await flow.turn(user("go"))
        await flow.turn(tool("c1", "done"))
        conversation = await flow.runtime.conversation(SESSION)
        view = await flow.store.view(SESSION)
        assert tuple(conversation.messages) == view.messages
        assert tuple(conversation.view.seqs) == view.seqs
        assert conversation.view.next_seq == view.next_seq
        assert conversation.view.compactable() == view


async def test_calls_that_wait_are_not_in_what_may_be_compacted(tmp_path: Path) -> None:
    asked = [call("terminal", {}, id="c1"), call("terminal", {}, id="c2")]
    async with flow_with(ScriptedProvider(calls(*asked)), tmp_path) as flow:
        await talk(flow)
        await flow.turn(user("run both"))
        await receive(flow.runtime, SESSION, [tool("c2", "second first")])
        conversation = await flow.runtime.conversation(SESSION)
        assert conversation.view.open_group() == len(conversation.messages) - 2
        assert conversation.view.compactable().next_seq == conversation.view.next_seq - 2
        done = await flow.compact()
        assert done is not None
        assert done.changed
        assert [message["role"] for message in conversation.messages[-2:]] == ["assistant", "tool"]
        assert tuple(conversation.messages) == tuple(await flow.view())


async def test_the_note_stands_behind_the_system_prompt_as_a_block_where_there_are_blocks(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("ok"), name="anthropic")
    async with flow_with(provider, tmp_path, model="claude-sonnet-4-5") as flow:
        await talk(flow)
        await flow.compact()
        await flow.turn(user("go"))
        content = provider.requests[0].messages[0]["content"]
        assert isinstance(content, list)
        assert [part["text"] for part in content] == ["You are a careful assistant.", SYSTEM_NOTE]


async def test_a_session_of_before_leads_to_its_continuation(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        conversation = await flow.runtime.conversation(SESSION)
        await flow.compact()
        assert conversation.session != SESSION
        assert await flow.runtime.conversation(conversation.session) is conversation
        assert await flow.runtime.conversation(SESSION) is conversation
        await flow.runtime.forget(SESSION)
        again = await flow.runtime.conversation(SESSION)
        assert again is not conversation
        assert again.messages == conversation.messages


async def test_the_conversations_that_were_opened_first_are_closed(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        flow.runtime.options = replace(flow.runtime.options, max_open=2)
        opened = []
        for name in ("a", "b", "c"):
            await flow.store.start_session(NewSession(id=name))
            opened.append(await flow.runtime.conversation(name))
        assert await flow.runtime.conversation("c") is opened[2]
        assert await flow.runtime.conversation("a") is not opened[0]


async def test_hosts_are_told_before_and_after_a_session_is_continued(tmp_path: Path) -> None:
    heard: list[tuple[str, ...]] = []

    async def before(old: str) -> str | None:
        heard.append(("before", old))
        return None

    async def after(old: str, new: str) -> None:
        heard.append(("after", old, new))

    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        flow.runtime.options = replace(flow.runtime.options, before_switch=before, after_switch=after)
        await talk(flow)
        await flow.compact()
        conversation = await flow.runtime.conversation(SESSION)
        assert heard == [("before", SESSION), ("after", SESSION, conversation.session)]


async def test_a_client_that_sends_its_whole_history_each_time_is_followed_without_reading_it_again(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider(says("one", prompt_tokens=30), says("two", prompt_tokens=40))
    async with flow_with(provider, tmp_path) as flow:
        history: list[Message] = [user("a")]
        for _ in range(2):
            synced = await flow.store.sync(history, session=SESSION)
            conversation = await flow.runtime.conversation(synced.session)
            await conversation.follow_sync(synced, history)
            view = conversation.view.stored
            async with conversation.locks.turn:
                reply = await answer(conversation, TurnOptions())
            history += [reply.message, user("b")]
            assert conversation.view.stored is view
        assert [text_of(message) for message in conversation.messages] == ["a", "one", "b", "two"]
        assert flow.checker.checked == 1


async def test_a_lease_that_another_holds_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        await asyncio.sleep(0)

    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        flow.runtime.options = replace(flow.runtime.options, sleep=sleep)
        await talk(flow)
        before = await flow.view()
        await flow.store.take_lease(SESSION, "somebody else", 3_600)
        assert await flow.compact() is None
        assert len(waited) == 60
        assert await flow.view() == before


async def test_a_client_may_bring_its_own_system_prompt_as_blocks(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("one"), answers("two"))
    blocks: Message = {"role": "system", "content": [{"type": "text", "text": "Mine."}]}
    async with flow_with(provider, tmp_path) as flow:
        await talk(flow)
        conversation = await flow.runtime.conversation(SESSION)
        async with conversation.locks.turn:
            await answer(conversation, TurnOptions(prompt=blocks))
        await flow.compact()
        async with conversation.locks.turn:
            await answer(conversation, TurnOptions(prompt=blocks))
        assert provider.requests[0].messages[0] == blocks
        assert text_of(provider.requests[1].messages[0]) == f"Mine.\n{SYSTEM_NOTE}"


async def test_any_engine_that_keeps_the_contract_serves_a_turn(tmp_path: Path) -> None:
    provider = ScriptedProvider(*[answers(f"answer {n}") for n in range(12)])
    async with flow_with(provider, tmp_path, window=8_000, new_engine=PlainEngine) as flow:
        for number in range(12):
            await flow.turn(user(f"Part {number}. " + "of the plan we made " * 150))
        assert flow.events_of(CompactionStarted)
        assert tuple((await flow.runtime.conversation(SESSION)).messages) == tuple(await flow.view())
        assert (await flow.store.compactions(SESSION))[0].entry.engine == "plain"
        assert len(await flow.store.messages(SESSION)) == 24


async def test_a_prompt_that_leaves_no_room_for_output_is_compacted_and_no_window_is_changed(tmp_path: Path) -> None:
    full = refuses("output_cap_too_large", limit=20_000, available_output=3)
    provider = ScriptedProvider(full, answers("ok"))
    async with flow_with(provider, tmp_path, max_tokens=4_000) as flow:
        await talk(flow)
        await flow.turn(user("go"))
        assert [event.reason for event in flow.events_of(CompactionStarted)] == ["overflow"]
        assert provider.requests[1].max_tokens == 4_000
        assert (await flow.runtime.conversation(SESSION)).window.tokens == 20_000


async def test_what_a_preview_shows_is_exactly_what_is_then_applied(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        before = await flow.view()
        prepared = await (await flow.conversation()).preview_compaction("the plan")
        assert await flow.view() == before
        conversation = await flow.runtime.conversation(SESSION)
        assert conversation.engine.get_status().compactions == 0
        await receive(flow.runtime, SESSION, [user("meanwhile")])
        assert await (await flow.conversation()).apply_compaction(prepared)
        assert list(await flow.view()) == [*prepared.compaction.messages, user("meanwhile")]
        # It was made for a view that is gone now.
        assert not await (await flow.conversation()).apply_compaction(prepared)


async def test_a_compaction_that_was_prepared_ahead_is_not_used_once_another_one_has_shortened_the_view(
    tmp_path: Path,
) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        conversation = await flow.conversation()
        prepared = await conversation.prepare_ahead()
        assert prepared is not None and await conversation.compact_now()
        assert len(conversation.messages) < len(prepared.view.messages)
        assert not await conversation.use_prepared(prepared, conversation.size.tokens)


async def test_a_prepared_compaction_is_not_used_where_another_process_turns_out_to_have_compacted(
    tmp_path: Path,
) -> None:
    async with (
        flow_with(ScriptedProvider(), tmp_path) as flow,
        flow_with(ScriptedProvider(), tmp_path, store=flow.store) as other,
    ):
        await talk(flow)
        conversation = await flow.conversation()
        prepared = await conversation.prepare_ahead()
        assert prepared is not None and await other.compact()
        # Until it is stored nobody knows here.
        writing = conversation.append_beside([user("go on")])
        assert not await conversation.use_prepared(prepared, conversation.size.tokens)
        await writing
        assert list(await flow.view()) == list(conversation.messages)
        assert conversation.messages[-1] == user("go on")


async def test_calls_of_the_summariser_are_stored_once_each_while_a_conversation_is_closed(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        conversation = await flow.conversation()
        usage = CanonicalUsage(input_tokens=100, output_tokens=10)
        conversation.pending_calls += [call_of(usage, conversation.target, AUXILIARY) for _ in range(3)]
        await asyncio.gather(conversation.drop_prepared(), flow.runtime.forget(SESSION), conversation.compact_now())
        (stored,) = await flow.store.usage(which=CallFilter())
        assert (stored.calls, stored.usage.input_tokens) == (3, 300)


async def test_a_host_that_does_not_compact_after_a_reply_answers_first_and_fits_the_next_request(
    tmp_path: Path,
) -> None:
    provider = ScriptedProvider(answers("one", grows=9_000), answers("two"))
    async with flow_with(provider, tmp_path) as flow:
        await talk(flow)
        conversation = await flow.runtime.conversation(SESSION)
        async with conversation.locks.turn:
            await answer(conversation, TurnOptions(), compact_after=False)
        assert not flow.events_of(CompactionStarted)
        await flow.turn(user("and?"))
        assert [event.reason for event in flow.events_of(CompactionStarted)] == ["usage"]


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
        done = await flow.compact()
        assert done is not None
        assert done.written_by == "scripted-model"
        await flow.turn(user("two"))
        assert "Finish the plan." in str(provider.requests[2].messages)
        totals = await flow.store.usage(("source",))
        assert {total.group["source"]: total.calls for total in totals} == {"auxiliary": 1, "library": 2}


async def test_strikes_are_not_forgotten_by_a_restart(tmp_path: Path) -> None:
    # A rule in the middle has an authority that no handoff has: it stays whole, however long.
    huge = system("All of this is the rule. " + "word by word " * 6_000)
    provider = ScriptedProvider(*[answers("ok") for _ in range(6)])
    async with flow_with(provider, tmp_path) as flow:
        await talk(flow, turns=2)
        await flow.turn(huge, user("go on"))
        for _ in range(3):
            await flow.turn(user("go on"))
        started = len(flow.events_of(CompactionStarted))
        assert (await flow.runtime.conversation(SESSION)).engine.get_status().paused is not None
        assert any("the system prompt" in notice.text for notice in flow.events_of(Notice))
        warned = " ".join(warning for done in flow.events_of(CompactionFinished) for warning in done.warnings)
        assert "The system prompt takes 18,845 tokens" in warned
    async with flow_with(provider, tmp_path) as flow:
        assert (await flow.runtime.conversation(SESSION)).engine.get_status().paused is not None
        await flow.turn(user("go on"))
        assert started <= 3
        assert not flow.events_of(CompactionStarted)


async def test_an_engine_counts_a_previewed_compaction_when_it_is_applied_and_not_before(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        prepared = await (await flow.conversation()).preview_compaction()
        engine = (await flow.runtime.conversation(SESSION)).engine
        assert engine.get_status().compactions == 0
        assert await (await flow.conversation()).apply_compaction(prepared)
        assert engine.get_status().compactions == 1


async def test_the_memory_of_a_closed_conversation_is_free_at_once(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(answers("ok")), tmp_path) as flow:
        await flow.turn(user("go"))
        opened = weakref.ref(await flow.runtime.conversation(SESSION))
        gc.disable()
        try:
            await flow.runtime.forget(SESSION)
            await asyncio.sleep(0)  # the task that read the store ends
            assert opened() is None
        finally:
            gc.enable()
