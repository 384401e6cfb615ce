"""Google ADK: runners with the plugin, sync and async, streamed, with several agents, and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.google_llm import Gemini
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from clew.integrations.google_adk import ClewPlugin
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


def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


def runner_for(upstream: Any, clew: Any, sessions: Any = None) -> Runner:
    model = Gemini(model="mock-model", base_url=upstream.origin, client_kwargs={"api_key": KEY})
    agent = LlmAgent(name="reader", model=model, instruction=SYSTEM, tools=[read_part])
    kept = sessions or InMemorySessionService()
    return Runner(agent=agent, app_name="app", session_service=kept, plugins=[clew], auto_create_session=True)


def said(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def asking(text: str, session: str = "s-1") -> dict[str, Any]:
    return {"user_id": "u", "session_id": session, "new_message": said(text)}


def test_a_view_folds_twice_and_the_session_keeps_every_event() -> None:
    with running() as upstream:
        clew = ClewPlugin(context_length=WINDOW)
        events = list(runner_for(upstream, clew).run(**asking(TASK)))
        assert_it_went_well(upstream)
        assert len(events) > 2 * len(requests_of(upstream)[-1])
        (view,) = clew.conversations.projections
        assert len(view.compactions) == folds_between(requests_of(upstream))
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


@pytest.mark.parametrize("mode", [StreamingMode.NONE, StreamingMode.SSE])
async def test_async_and_after_a_restart(tmp_path: Path, mode: StreamingMode) -> None:
    sessions, store = InMemorySessionService(), tmp_path / "clew.db"
    config = RunConfig(streaming_mode=mode)
    with running() as upstream, running() as later:
        runner = runner_for(upstream, ClewPlugin(context_length=WINDOW, store=store), sessions)
        async for _ in runner.run_async(**asking(TASK), run_config=config):
            pass
        assert_it_went_well(upstream)
        again = runner_for(later, ClewPlugin(context_length=WINDOW, store=store), sessions)
        async for _ in again.run_async(**asking("And once more."), run_config=config):
            pass
        assert_it_goes_on(upstream, later)
        assert_it_went_well(later)


def test_two_sessions_of_one_plugin_are_two_conversations() -> None:
    with running() as upstream, running() as other:
        clew = ClewPlugin(context_length=WINDOW)
        for number, each in enumerate([upstream, other]):
            list(runner_for(each, clew).run(**asking(TASK, f"s-{number}")))
            assert_it_went_well(each)
        assert len({it.session for it in clew.conversations.projections}) == 2


def test_contents_that_were_not_changed_are_the_very_objects() -> None:
    clew = ClewPlugin(context_length=WINDOW)
    picture = types.Part(inline_data=types.Blob(data=bytes(10), mime_type="image/png"))
    history: list[Any] = [types.Content(role="user", parts=[types.Part(text=TASK), picture])]
    for number in range(0, 60, 2):
        calls, results = [], []
        for at in (number, number + 1):
            called = types.FunctionCall(name="read_part", args={"number": at})
            calls.append(types.Part(function_call=called, thought_signature=b"s"))
            answered = types.FunctionResponse(name="read_part", response={"result": part(at)})
            results.append(types.Part(function_response=answered))
        thought = types.Part(text="Hm.", thought=True)
        history.append(types.Content(role="model", parts=[thought, *calls]))
        history.append(types.Content(role="user", parts=results))
        shown = clew.conversations.fit(history).messages
        known = {id(content) for content in history}
        assert shown[-1] is history[-1]
        assert all(isinstance(content, types.Content) for content in shown)
        assert sum(id(content) not in known for content in shown) < 20
        parts = [it for content in shown for it in content.parts or ()]
        assert sum(it.function_call is not None for it in parts) == sum(
            it.function_response is not None for it in parts
        )
        assert all(it.thought_signature == b"s" for it in parts if it.function_call is not None)
    assert len(clew.conversations.projections[0].compactions) >= 2


def test_the_example_runs_as_it_stands() -> None:
    assert_the_example_runs("with_google_adk.py")
