"""LangChain and LangGraph: agents with the middleware, sync and async, with and without a checkpointer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from clew.integrations.langchain import ClewMiddleware, ClewPreModelHook, ClewStateMiddleware
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

LIMIT = {"recursion_limit": 200}


def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


def agent_with(middleware: Any, upstream: Any, **more: Any) -> Any:
    model = ChatOpenAI(model="mock-model", base_url=upstream.base_url, api_key=KEY, stream_usage=True)
    return create_agent(model, [read_part], system_prompt=SYSTEM, middleware=[middleware], **more)


def test_a_view_folds_twice_and_the_state_keeps_every_message() -> None:
    with running() as upstream:
        clew = ClewMiddleware(context_length=WINDOW)
        done = agent_with(clew, upstream).invoke({"messages": [HumanMessage(TASK)]}, LIMIT)
        assert_it_went_well(upstream)
        assert len(done["messages"]) > 2 * len(requests_of(upstream)[-1])
        (view,) = clew.conversations.projections
        assert len(view.compactions) >= 2
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


async def test_async_and_streamed_and_after_a_restart(tmp_path: Path) -> None:
    saver, store = InMemorySaver(), tmp_path / "clew.db"
    thread = {"configurable": {"thread_id": "t-1"}, **LIMIT}
    with running() as upstream:
        agent = agent_with(ClewMiddleware(context_length=WINDOW, store=store), upstream, checkpointer=saver)
        async for _ in agent.astream({"messages": [HumanMessage(TASK)]}, thread, stream_mode="messages"):
            pass
        assert_it_went_well(upstream)
        with running() as later:
            again = agent_with(ClewMiddleware(context_length=WINDOW, store=store), later, checkpointer=saver)
            await again.ainvoke({"messages": [HumanMessage("And once more.")]}, thread)
            assert_it_goes_on(upstream, later)
            assert_it_went_well(later)


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_state_itself_is_folded(tmp_path: Path, is_async: bool) -> None:
    saver, store = InMemorySaver(), tmp_path / "clew.db"
    thread = {"configurable": {"thread_id": "t-1"}, **LIMIT}
    with running() as upstream, running() as later:
        clew = ClewStateMiddleware(context_length=WINDOW, store=store)
        agent = agent_with(clew, upstream, checkpointer=saver)
        asked = {"messages": [HumanMessage(TASK)]}
        done = await agent.ainvoke(asked, thread) if is_async else agent.invoke(asked, thread)
        assert_it_went_well(upstream)
        assert len(done["messages"]) < 2 * len(requests_of(upstream)[-1])
        (view,) = clew.conversations.projections
        assert len(view.compactions) >= 2
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)
        again = agent_with(ClewStateMiddleware(context_length=WINDOW, store=store), later, checkpointer=saver)
        await again.ainvoke({"messages": [HumanMessage("And once more.")]}, thread)
        assert_it_goes_on(upstream, later)
        assert_it_went_well(later)


def test_objects_that_were_not_changed_are_the_very_objects() -> None:
    clew = ClewMiddleware(context_length=WINDOW)
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    history: list[Any] = [SystemMessage(SYSTEM), HumanMessage([{"type": "text", "text": TASK}, picture])]
    for number in range(60):
        called = {"name": "read_part", "args": {"number": number}, "id": f"c{number}"}
        history.append(
            AIMessage([thinking, {"type": "tool_use", **called, "input": called["args"]}], tool_calls=[called])
        )
        history.append(
            ToolMessage(part(number), tool_call_id=f"c{number}", status="error" if number == 7 else "success")
        )
        history += [AIMessage(""), HumanMessage("")] if number % 9 == 0 else []
        shown = clew.conversations.fit(history).messages
        known = {id(message) for message in history}
        written = [message for message in shown if id(message) not in known]
        assert shown[0] is history[0] and shown[-1] is history[-1]
        assert len(written) < 20
        called_ids = [it["id"] for message in shown if isinstance(message, AIMessage) for it in message.tool_calls]
        assert [message.tool_call_id for message in shown if isinstance(message, ToolMessage)] == called_ids
        for message in written:
            if isinstance(message, AIMessage) and message.tool_calls:
                assert message.content[0] == thinking
                assert message.content[-1]["type"] == "tool_use"
    assert len(clew.conversations.projections[0].compactions) >= 2


def test_two_threads_of_one_middleware_are_two_conversations() -> None:
    with running() as upstream, running() as other:
        clew = ClewMiddleware(context_length=WINDOW)
        saver = InMemorySaver()
        for number, each in enumerate([upstream, other]):
            agent = agent_with(clew, each, checkpointer=saver)
            agent.invoke({"messages": [HumanMessage(TASK)]}, {"configurable": {"thread_id": f"t-{number}"}, **LIMIT})
            assert_it_went_well(each)
        one, two = clew.conversations.projections
        assert one.session != two.session


def test_the_hook_of_a_prebuilt_graph() -> None:
    from langgraph.prebuilt import create_react_agent

    with running() as upstream:
        model = ChatOpenAI(model="mock-model", base_url=upstream.base_url, api_key=KEY)
        hook = ClewPreModelHook(context_length=WINDOW)
        agent = create_react_agent(model, [read_part], prompt=SYSTEM, pre_model_hook=hook)
        done = agent.invoke({"messages": [HumanMessage(TASK)]}, LIMIT)
        assert_it_went_well(upstream)
        assert len(done["messages"]) > 2 * len(requests_of(upstream)[-1])
        assert folds_between(requests_of(upstream)) == len(hook.conversations.projections[0].compactions)


def test_the_example_runs_as_it_stands() -> None:
    assert_the_example_runs("with_langchain.py")
