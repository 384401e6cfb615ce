"""Strands Agents: agents with the conversation manager, sync and async, with a session manager, and after a restart."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.session.file_session_manager import FileSessionManager

from clew.integrations.strands import ClewConversation
from clew.messages import text_of
from tests.integrations.scenario import (
    KEY,
    SYSTEM,
    TASK,
    WINDOW,
    assert_it_goes_on,
    assert_it_went_well,
    assert_the_example_runs,
    folds_between,
    part,
    requests_of,
    running,
)


@tool  # type: ignore[untyped-decorator]
def read_part(number: int) -> str:
    """Read a part of the project.

    Args:
        number: Of the part.
    """
    return part(number)


def agent_for(upstream: Any, clew: Any, **more: Any) -> Any:
    model = OpenAIModel(client_args={"base_url": upstream.base_url, "api_key": KEY}, model_id="mock-model")
    return Agent(
        model, tools=[read_part], system_prompt=SYSTEM, conversation_manager=clew, callback_handler=None, **more
    )


def test_messages_are_folded_twice_and_the_store_has_every_one() -> None:
    with running() as upstream:
        clew = ClewConversation(context_length=WINDOW)
        agent = agent_for(upstream, clew)
        agent(TASK)
        assert_it_went_well(upstream)
        (view,) = clew.conversations.projections
        assert len(view.compactions) == folds_between(requests_of(upstream))
        assert len(agent.messages) < len(view.history) // 2
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


async def test_async_and_streamed_and_after_a_restart_by_name(tmp_path: Path) -> None:
    store = tmp_path / "clew.db"
    with running() as upstream, running() as later:
        agent = agent_for(upstream, ClewConversation(name="reader", context_length=WINDOW, store=store))
        async for _ in agent.stream_async(TASK):
            pass
        assert_it_went_well(upstream)
        clew = ClewConversation(name="reader", context_length=WINDOW, store=store)
        again = agent_for(later, clew, messages=copy.deepcopy(agent.messages))
        await again.invoke_async("And once more.")
        assert_it_goes_on(upstream, later)
        assert_it_went_well(later)
        (view,) = clew.conversations.projections
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


def test_a_session_manager_restores_what_was_folded(tmp_path: Path) -> None:
    store = tmp_path / "clew.db"

    def agent_of(upstream: Any) -> tuple[Any, Any]:
        clew = ClewConversation(context_length=WINDOW, store=store)
        kept = FileSessionManager("s-1", storage_dir=str(tmp_path / "sessions"))
        return agent_for(upstream, clew, session_manager=kept, agent_id="reader"), clew

    with running() as upstream, running() as later:
        agent, first = agent_of(upstream)
        agent(TASK)
        assert_it_went_well(upstream)
        assert first.removed_message_count > 60
        again, clew = agent_of(later)
        assert [it["content"] for it in again.messages] == [it["content"] for it in agent.messages]
        again("And once more.")
        assert_it_goes_on(upstream, later)
        assert_it_went_well(later)
        (view,) = clew.conversations.projections
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


def test_an_overflow_folds_and_is_raised_where_nothing_is_left_to_fold() -> None:
    with running() as upstream:
        clew = ClewConversation(context_length=200_000)  # more than the model really has
        agent = agent_for(upstream, clew)
        agent(TASK)
        assert {it.status for it in upstream.calls} == {200, 400}
        assert len(clew.conversations.projections[0].compactions) >= 1


def test_messages_that_were_not_changed_are_the_very_objects() -> None:
    clew = ClewConversation(context_length=WINDOW)
    picture = {"image": {"format": "png", "source": {"bytes": bytes(10)}}}
    history: list[Any] = [{"role": "user", "content": [{"text": TASK}, picture]}]
    for number in range(0, 60, 2):
        uses = [{"toolUseId": f"c{at}", "name": "read_part", "input": {"number": at}} for at in (number, number + 1)]
        thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}
        history.append({"role": "assistant", "content": [thought, *({"toolUse": use} for use in uses)]})
        results = [
            {"toolUseId": f"c{at}", "status": "success", "content": [{"text": part(at)}]} for at in (number, number + 1)
        ]
        history.append({"role": "user", "content": [{"toolResult": result} for result in results]})
        shown = clew.conversations.fit(history).messages
        known = {id(message) for message in history}
        written = [message for message in shown if id(message) not in known]
        assert shown[-1] is history[-1]
        assert len(written) < 20
        blocks = [block for message in shown for block in message["content"]]
        called = [block["toolUse"]["toolUseId"] for block in blocks if "toolUse" in block]
        assert [block["toolResult"]["toolUseId"] for block in blocks if "toolResult" in block] == called
        for message in written:
            if any("toolUse" in block for block in message["content"]):
                assert message["content"][0] == thought
    assert len(clew.conversations.projections[0].compactions) >= 2


def test_the_example_runs_as_it_stands() -> None:
    assert_the_example_runs("with_strands.py")
