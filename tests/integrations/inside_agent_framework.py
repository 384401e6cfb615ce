"""Microsoft Agent Framework: agents with the middleware, streamed and not, over both wires, and after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, Content, Message
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

from clew.integrations.agent_framework import ClewChatMiddleware
from clew.messages import text_of
from tests.integrations.scenario import (
    KEY,
    PICTURE,
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

CLIENTS = [OpenAIChatCompletionClient, OpenAIChatClient]


def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


def agent_for(upstream: Any, clew: Any, client: Any = OpenAIChatCompletionClient) -> Any:
    limits = {"max_iterations": 200}
    made = client("mock-model", base_url=upstream.base_url, api_key=KEY, function_invocation_configuration=limits)
    return Agent(made, SYSTEM, tools=[read_part], middleware=[clew], default_options={"store": False})


@pytest.mark.parametrize("client", CLIENTS)
def test_a_view_folds_twice_and_the_run_keeps_every_message(client: Any) -> None:
    with running() as upstream:
        clew = ClewChatMiddleware(context_length=WINDOW)
        done = asyncio.run(agent_for(upstream, clew, client).run(TASK))
        assert_it_went_well(upstream)
        assert len(done.messages) > 2 * len(requests_of(upstream)[-1])
        (view,) = clew.conversations.projections
        assert len(view.compactions) == folds_between(requests_of(upstream))
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


@pytest.mark.parametrize("client", CLIENTS)
async def test_streamed_and_after_a_restart(tmp_path: Path, client: Any) -> None:
    session, store = AgentSession(session_id="s-1"), tmp_path / "clew.db"
    with running() as upstream, running() as later:
        agent = agent_for(upstream, ClewChatMiddleware(context_length=WINDOW, store=store), client)
        async for _ in agent.run(TASK, session=session, stream=True):
            pass
        assert_it_went_well(upstream)
        kept = AgentSession.from_dict(session.to_dict())
        again = agent_for(later, ClewChatMiddleware(context_length=WINDOW, store=store), client)
        async for _ in again.run("And once more.", session=kept, stream=True):
            pass
        # The framework names the author of a reply once its run has ended.
        assert_it_goes_on(upstream, later, leaving_out="name")
        assert_it_went_well(later)


async def test_two_sessions_of_one_agent_are_two_conversations() -> None:
    with running() as upstream:
        clew = ClewChatMiddleware(context_length=WINDOW)
        agent = agent_for(upstream, clew)
        for number in range(2):
            await agent.run(TASK, session=AgentSession(session_id=f"s-{number}"))
        assert [it.status for it in upstream.calls if it.status != 200] == []
        one, two = clew.conversations.projections
        assert one.session != two.session


def test_messages_that_were_not_changed_are_the_very_objects() -> None:
    clew = ClewChatMiddleware(context_length=WINDOW)
    picture = Content.from_uri(f"data:image/png;base64,{PICTURE}", media_type="image/png")
    history: list[Any] = [Message("system", [SYSTEM]), Message("user", [TASK, picture])]
    for number in range(0, 60, 2):
        thinking = Content.from_text_reasoning(text="Hm.", protected_data="s")
        calls = [
            Content.from_function_call(f"c{at}", "read_part", arguments={"number": at}) for at in (number, number + 1)
        ]
        results = [Content.from_function_result(f"c{at}", result=part(at)) for at in (number, number + 1)]
        history += [Message("assistant", [thinking, *calls]), Message("tool", results)]
        history += [Message("assistant", []), Message("user", [""])] if number % 9 == 0 else []
        shown = clew.conversations.fit(history).messages
        known = {id(message) for message in history}
        written = [message for message in shown if id(message) not in known]
        assert shown[0] is history[0] and shown[-1] is history[-1]
        assert len(written) < 20
        contents = [it for message in shown for it in message.contents]
        called = [it.call_id for it in contents if it.type == "function_call"]
        assert [it.call_id for it in contents if it.type == "function_result"] == called
        for message in written:
            if any(it.type == "function_call" for it in message.contents):
                assert message.contents[0].protected_data == "s"
    assert len(clew.conversations.projections[0].compactions) >= 2


def test_the_example_runs_as_it_stands() -> None:
    assert_the_example_runs("with_agent_framework.py")
