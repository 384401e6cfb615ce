"""Pydantic AI: agents with the capability, sync and async, streamed, and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryContent, UsageLimits
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from clew.integrations.pydantic_ai import ClewCapability
from clew.messages import text_of
from tests.integrations.scenario import (
    KEY,
    SYSTEM,
    TASK,
    WINDOW,
    assert_it_goes_on,
    assert_it_went_well,
    assert_the_example_runs,
    part,
    requests_of,
    running,
)

NO_LIMIT = UsageLimits(request_limit=None)


def agent_with(capability: Any, upstream: Any) -> Any:
    model = OpenAIChatModel("mock-model", provider=OpenAIProvider(base_url=upstream.base_url, api_key=KEY))
    return Agent(model, instructions=SYSTEM, capabilities=[capability], tools=[read_part])


def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


async def read_events(ctx: Any, events: Any) -> None:
    """Having one, the agent streams."""
    async for _ in events:
        pass


def test_a_view_folds_twice_and_the_run_keeps_every_message() -> None:
    with running() as upstream:
        clew = ClewCapability(context_length=WINDOW)
        done = agent_with(clew, upstream).run_sync(TASK, usage_limits=NO_LIMIT)
        assert_it_went_well(upstream)
        assert len(done.all_messages()) > 1.5 * len(requests_of(upstream)[-1])
        (view,) = clew.conversations.projections
        assert len(view.compactions) >= 2
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


@pytest.mark.parametrize("persistent", [False, True])
async def test_async_and_after_a_restart(tmp_path: Path, persistent: bool) -> None:
    store = tmp_path / "clew.db"
    with running() as upstream, running() as later:
        agent = agent_with(ClewCapability(context_length=WINDOW, store=store, persistent=persistent), upstream)
        kept = (await agent.run(TASK, usage_limits=NO_LIMIT)).all_messages_json()
        assert_it_went_well(upstream)
        again = agent_with(ClewCapability(context_length=WINDOW, store=store, persistent=persistent), later)
        history = ModelMessagesTypeAdapter.validate_json(kept)
        assert (len(history) < 1.5 * len(requests_of(upstream)[-1])) is persistent
        await again.run("And once more.", message_history=history, usage_limits=NO_LIMIT)
        # It is sent empty on the turns behind the last user message, and that is another one then.
        assert_it_goes_on(upstream, later, leaving_out="reasoning_content")
        assert_it_went_well(later)


async def test_streamed_and_going_on_in_the_same_process() -> None:
    with running() as upstream:
        agent = agent_with(ClewCapability(context_length=WINDOW), upstream)
        done = await agent.run(TASK, usage_limits=NO_LIMIT, event_stream_handler=read_events)
        more = {"message_history": done.all_messages(), "usage_limits": NO_LIMIT}
        await agent.run("And once more.", event_stream_handler=read_events, **more)
        assert_it_went_well(upstream, folds=4)


def test_objects_that_were_not_changed_are_the_very_objects() -> None:
    clew = ClewCapability(context_length=WINDOW)
    picture = BinaryContent(bytes(10), media_type="image/png")
    history: list[Any] = [ModelRequest([SystemPromptPart(SYSTEM), UserPromptPart([TASK, picture])])]
    for number in range(0, 60, 2):
        calls = [ToolCallPart("read_part", {"number": at}, f"c{at}") for at in (number, number + 1)]
        history.append(ModelResponse([ThinkingPart("Hm.", signature="s"), *calls]))
        results = [ToolReturnPart("read_part", part(at), f"c{at}") for at in (number, number + 1)]
        history.append(ModelRequest([*results, UserPromptPart("Go on.")] if number % 6 == 0 else results))
        history += [ModelResponse([]), ModelRequest([])] if number % 9 == 0 else []
        shown = clew.conversations.fit(history).messages
        known = {id(message) for message in history}
        written = [message for message in shown if id(message) not in known]
        assert shown[-1] is history[-1]
        assert len(written) < 20
        parts = [it for message in shown for it in message.parts]
        called = [it.tool_call_id for it in parts if isinstance(it, ToolCallPart)]
        assert [it.tool_call_id for it in parts if isinstance(it, ToolReturnPart)] == called
        for message in written:
            kinds = [type(it) for it in message.parts]
            if isinstance(message, ModelResponse) and ToolCallPart in kinds:
                assert kinds[0] is ThinkingPart
                assert set(kinds[1:]) <= {TextPart, ToolCallPart}
    assert len(clew.conversations.projections[0].compactions) >= 2


def test_two_runs_of_one_agent_are_two_conversations() -> None:
    with running() as upstream:
        clew = ClewCapability(context_length=WINDOW)
        agent = agent_with(clew, upstream)
        agent.run_sync(TASK, usage_limits=NO_LIMIT)
        agent.run_sync("TASK-4711 in other words.", usage_limits=NO_LIMIT)
        assert [it.status for it in upstream.calls if it.status != 200] == []
        one, two = clew.conversations.projections
        assert one.session != two.session


def test_the_example_runs_as_it_stands() -> None:
    assert_the_example_runs("with_pydantic_ai.py")
