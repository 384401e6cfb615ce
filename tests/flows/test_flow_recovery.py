"""Providers that say a request is too large: what is made smaller, how often, and what is said in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.events import CompactionFinished, CompactionStarted, Notice, OutputCapLowered, Overflowed, WindowLearnt
from clew.messages import Part, images_of, text_of
from clew.providers import ProviderRefused, classify_error
from clew.store import NewSession
from clew.testing import assistant, user
from clew.testing.scripted import ScriptedProvider, overflow, refuses, says
from clew.tokens import LearntLimits
from clew.turn import ContextExhausted, receive
from tests.support.flow import MODEL, SESSION, Flow, answers, flow_with, request_tokens

WORDS = "the parser walks each node of the tree and asks the visitor before it goes on to the children "


async def past(flow: Flow, turns: int = 20, words: int = 20) -> None:
    """A conversation that was had before, without asking the model."""
    said = [m for n in range(turns) for m in (user(f"Part {n}. " + WORDS * words), assistant(f"Part {n} is done."))]
    await receive(flow.runtime, SESSION, said)


def says_no(body: str, status: int = 400) -> ProviderRefused:
    """A refusal as a provider words it."""
    return ProviderRefused("scripted", classify_error(status, body), body)


def picture(name: str) -> Part:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{name * 40}"}}


async def test_an_overflow_compacts_once_and_then_answers(tmp_path: Path) -> None:
    provider = ScriptedProvider(overflow(limit=16_000), answers("done"))
    async with flow_with(provider, tmp_path, window=200_000) as flow:
        await past(flow)
        reply = await flow.turn(user("go"))
        assert text_of(reply.message) == "done"
        assert request_tokens(provider.requests[1]) < request_tokens(provider.requests[0])
        assert [event.reason for event in flow.events_of(CompactionStarted)] == ["overflow"]
        assert flow.events_of(Overflowed)[0].limit == 16_000


async def test_a_limit_that_a_provider_states_is_adopted_told_and_remembered_over_a_restart(tmp_path: Path) -> None:
    provider = ScriptedProvider(overflow(limit=16_000), answers("done"))
    async with flow_with(provider, tmp_path, window=200_000) as flow:
        await past(flow)
        await flow.turn(user("go"))
        assert flow.events_of(WindowLearnt) == [WindowLearnt(SESSION, MODEL, 16_000, is_stated=True)]
        (told,) = flow.events_of(Overflowed)
        assert (told.limit, told.window, told.configured) == (16_000, 16_000, 200_000)
        assert not flow.events_of(Notice)
        assert LearntLimits(tmp_path / "limits.json").limit(MODEL) == 16_000
        assert await flow.store.learnt_windows() == []
    async with flow_with(ScriptedProvider(), tmp_path, window=None) as flow:
        conversation = await flow.runtime.conversation(SESSION)
        assert (conversation.window.tokens, conversation.window.source) == (16_000, "stated")
        assert conversation.engine.get_status().context_length == 16_000


async def test_a_configured_window_wins_over_a_learnt_one_with_one_notice_and_an_error_still_recovers(
    tmp_path: Path,
) -> None:
    LearntLimits(tmp_path / "limits.json").remember(MODEL, None, 16_000)
    provider = ScriptedProvider(overflow(limit=16_000), answers("done"))
    async with flow_with(provider, tmp_path, window=200_000) as flow:
        await flow.store.start_session(NewSession(id="another", model=MODEL))
        for session in (SESSION, "another"):
            assert (await flow.runtime.conversation(session)).window.tokens == 200_000
        assert [notice.text for notice in flow.events_of(Notice)] == [
            f"The provider of {MODEL} once stated a limit of 16,000 tokens; the configured 200,000 are used. "
            f"`clew models forget {MODEL}` ends this notice."
        ]
        await past(flow)
        assert text_of((await flow.turn(user("go"))).message) == "done"
        await flow.store.start_session(NewSession(id="third", model=MODEL))
        assert (await flow.runtime.conversation("third")).window.tokens == 16_000


async def test_without_a_number_the_window_is_guessed_down_a_ladder_and_never_written_down(tmp_path: Path) -> None:
    provider = ScriptedProvider(overflow(), overflow(), answers("done"))
    async with flow_with(provider, tmp_path, window=200_000) as flow:
        await past(flow, turns=60)
        await flow.turn(user("go"))
        guesses = flow.events_of(WindowLearnt)
        assert [guess.is_stated for guess in guesses] == [False, False]
        assert guesses[0].tokens > guesses[1].tokens
        sizes = [request_tokens(request) for request in provider.requests]
        assert sizes == sorted(sizes, reverse=True)
        assert LearntLimits(tmp_path / "limits.json").limit(MODEL) is None
        assert await flow.store.learnt_windows() == []


async def test_a_limit_above_ours_changes_no_window(tmp_path: Path) -> None:
    provider = ScriptedProvider(overflow(limit=64_000), answers("done"))
    async with flow_with(provider, tmp_path, window=40_000) as flow:
        await past(flow)
        await flow.turn(user("go"))
        assert not flow.events_of(WindowLearnt)
        assert (await flow.runtime.conversation(SESSION)).window.tokens == 40_000


async def test_the_ladder_ends_with_what_was_tried_what_is_large_and_what_to_do(tmp_path: Path) -> None:
    provider = ScriptedProvider(*[overflow() for _ in range(9)])
    async with flow_with(provider, tmp_path, window=200_000) as flow:
        await past(flow, turns=100)
        before = await flow.store.messages(SESSION)
        with pytest.raises(ContextExhausted) as stopped:
            await flow.turn(user("go"))
        assert len(provider.requests) <= 4
        assert 1 <= len(stopped.value.tried) <= 3
        for told in ("the system prompt", "the tools", "a new conversation", "compact"):
            assert told in str(stopped.value)
        rows = await flow.store.messages(SESSION)
        assert [row.message for row in rows] == [*(row.message for row in before), user("go")]


async def test_when_nothing_can_be_made_smaller_the_call_is_not_repeated(tmp_path: Path) -> None:
    provider = ScriptedProvider(overflow(), overflow())
    async with flow_with(provider, tmp_path) as flow:
        with pytest.raises(ContextExhausted):
            await flow.turn(user("go"))
        assert len(provider.requests) == 1


async def test_too_much_output_lowers_the_cap_for_this_call_and_compacts_nothing(tmp_path: Path) -> None:
    refused = refuses("output_cap_too_large", limit=16_000, available_output=3_000)
    provider = ScriptedProvider(refused, says("short", prompt_tokens=7_000), says("next", prompt_tokens=7_100))
    async with flow_with(provider, tmp_path, max_tokens=12_000) as flow:
        await past(flow, turns=12)
        await flow.turn(user("go"))
        await flow.turn(user("again"))
        assert [request.max_tokens for request in provider.requests] == [12_000, 3_000, 12_000]
        assert flow.events_of(OutputCapLowered) == [OutputCapLowered(SESSION, 3_000)]
        assert not flow.events_of(CompactionStarted)
        assert not flow.events_of(WindowLearnt)
        assert flow.checker.checked == 2


async def test_a_cap_without_a_number_is_halved_a_few_times_and_then_it_ends(tmp_path: Path) -> None:
    provider = ScriptedProvider(*[refuses("output_cap_too_large") for _ in range(9)])
    async with flow_with(provider, tmp_path, max_tokens=8_000) as flow:
        with pytest.raises(ContextExhausted):
            await flow.turn(user("go"))
        assert [request.max_tokens for request in provider.requests] == [8_000, 4_000, 2_000, 1_000]


async def test_a_413_drops_older_pictures_then_the_newest_and_then_compacts(tmp_path: Path) -> None:
    too_large = [refuses("payload_too_large") for _ in range(3)]
    provider = ScriptedProvider(*too_large, answers("seen"))
    async with flow_with(provider, tmp_path, window=40_000) as flow:
        await past(flow)
        await receive(flow.runtime, SESSION, [user([picture("old"), {"type": "text", "text": "before"}])])
        await receive(flow.runtime, SESSION, [assistant("I saw it.")])
        await flow.turn(user([{"type": "text", "text": "and this?"}, picture("new")]))
        shown = [sum(len(images_of(m)) for m in request.messages) for request in provider.requests]
        assert shown == [2, 1, 0, 0]
        assert len(provider.requests[3].messages) < len(provider.requests[2].messages)
        assert len(provider.requests[2].messages) == len(provider.requests[0].messages)
        rows = await flow.store.messages(SESSION)
        assert sum(len(images_of(row.message)) for row in rows) == 2


async def test_a_limit_on_the_number_of_pictures_keeps_that_many_of_the_newest(tmp_path: Path) -> None:
    provider = ScriptedProvider(says_no("At most 2 image(s) may be provided in one request."), answers("seen"))
    async with flow_with(provider, tmp_path, window=40_000) as flow:
        for name in ("a", "b", "c"):
            await receive(flow.runtime, SESSION, [user([picture(name)]), assistant("I saw it.")])
        await flow.turn(user([{"type": "text", "text": "and this?"}, picture("d")]))
        shown = [[part for m in request.messages for part in images_of(m)] for request in provider.requests]
        assert shown == [[picture(n) for n in "abcd"], [picture("c"), picture("d")]]
        assert [notice.text for notice in flow.events_of(Notice)] == [
            "The request had more pictures or documents than scripted takes: "
            "the older ones were left out. `undo` brings them back."
        ]


async def test_a_picture_of_the_wrong_shape_leaves_out_older_ones_and_never_the_newest(tmp_path: Path) -> None:
    wrong = [says_no("At least one of the image dimensions exceed max allowed size: 8000 pixels") for _ in range(2)]
    provider = ScriptedProvider(*wrong)
    async with flow_with(provider, tmp_path, window=40_000) as flow:
        await receive(flow.runtime, SESSION, [user([picture("old")]), assistant("I saw it.")])
        with pytest.raises(ProviderRefused):
            await flow.turn(user([{"type": "text", "text": "and this?"}, picture("new")]))
        shown = [[part for m in request.messages for part in images_of(m)] for request in provider.requests]
        assert shown == [[picture("old"), picture("new")], [picture("new")]]
        assert not flow.events_of(WindowLearnt)


async def test_a_deadline_compacts_nothing(tmp_path: Path) -> None:
    provider = ScriptedProvider(says_no("context deadline exceeded", status=500))
    async with flow_with(provider, tmp_path) as flow:
        await past(flow, turns=12)
        with pytest.raises(ProviderRefused):
            await flow.turn(user("go"))
        assert len(provider.requests) == 1
        assert not flow.events_of(CompactionStarted)


async def test_pictures_that_were_left_out_stay_out_and_come_back_by_undo(tmp_path: Path) -> None:
    provider = ScriptedProvider(refuses("payload_too_large"), answers("ok"), answers("still ok"))
    async with flow_with(provider, tmp_path) as flow:
        await receive(flow.runtime, SESSION, [user([picture("old"), {"type": "text", "text": "look"}])])
        await receive(flow.runtime, SESSION, [assistant("I saw it.")])
        await flow.turn(user("what now?"))
        await flow.turn(user("and now?"))
        assert not any(images_of(message) for message in provider.requests[2].messages)
        assert flow.checker.checked == 1
        assert await flow.undo()
        assert any(images_of(message) for message in await flow.view())


async def test_another_refusal_on_the_way_is_told_as_what_it_is(tmp_path: Path) -> None:
    provider = ScriptedProvider(overflow(limit=16_000), refuses("overloaded"), answers("now"))
    async with flow_with(provider, tmp_path, window=200_000) as flow:
        await past(flow)
        with pytest.raises(ProviderRefused) as stopped:
            await flow.turn(user("go"))
        assert stopped.value.fault.kind == "overloaded"
        reply = await flow.turn()
        assert text_of(reply.message) == "now"
        assert len(flow.events_of(CompactionStarted)) == 1


async def test_a_figure_that_can_be_no_window_is_not_adopted(tmp_path: Path) -> None:
    provider = ScriptedProvider(overflow(limit=12), answers("done"))
    async with flow_with(provider, tmp_path, window=200_000) as flow:
        await past(flow)
        await flow.turn(user("go"))
        assert [learnt.is_stated for learnt in flow.events_of(WindowLearnt)] == [False]
        assert await flow.store.learnt_windows() == []


async def test_a_rate_limit_that_speaks_of_tokens_is_no_overflow(tmp_path: Path) -> None:
    refused = refuses("rate_limit", "Limit 30,000 tokens per minute", retry_after=20.0)
    provider = ScriptedProvider(refused, answers("now"))
    async with flow_with(provider, tmp_path) as flow:
        await past(flow, turns=12)
        view = await flow.view()
        with pytest.raises(ProviderRefused) as stopped:
            await flow.turn(user("go"))
        assert stopped.value.fault.retry_after == 20.0
        assert not flow.events_of(CompactionFinished)
        assert list(await flow.view()) == [*view, user("go")]
        # The message is kept: asking again needs nothing new.
        await flow.turn()
        assert flow.checker.checked == 1
        assert text_of((await flow.view())[-1]) == "now"
