"""OpenAI Agents SDK: runs with the filter and with the session, sync and async, streamed, over both wires."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from clew.integrations.openai_agents import ClewInputFilter, ClewSession
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

set_tracing_disabled(True)
MODELS = [OpenAIChatCompletionsModel, OpenAIResponsesModel]


@function_tool  # type: ignore[untyped-decorator]
def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


def agent_for(upstream: Any, model: Any) -> Agent[Any]:
    client = AsyncOpenAI(base_url=upstream.base_url, api_key=KEY)
    settings = ModelSettings(include_usage=True)
    return Agent(
        "reader", instructions=SYSTEM, tools=[read_part], model=model("mock-model", client), model_settings=settings
    )


def options(clew: Any, **more: Any) -> dict[str, Any]:
    return {"run_config": RunConfig(call_model_input_filter=clew), "max_turns": 200, **more}


@pytest.mark.parametrize("model", MODELS)
def test_a_view_folds_twice_and_the_run_keeps_every_item(model: Any) -> None:
    with running() as upstream:
        clew = ClewInputFilter(context_length=WINDOW)
        done = Runner.run_sync(agent_for(upstream, model), TASK, **options(clew, hooks=clew))
        assert_it_went_well(upstream)
        assert len(done.to_input_list()) > 2 * len(requests_of(upstream)[-1])
        (view,) = clew.conversations.projections
        assert len(view.compactions) == folds_between(requests_of(upstream))
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


@pytest.mark.parametrize("model", MODELS)
async def test_streamed_and_going_on_after_a_restart(tmp_path: Path, model: Any) -> None:
    store = tmp_path / "clew.db"
    with running() as upstream, running() as later:
        clew = ClewInputFilter(context_length=WINDOW, store=store)
        run = Runner.run_streamed(agent_for(upstream, model), TASK, **options(clew, hooks=clew))
        async for _ in run.stream_events():
            pass
        assert_it_went_well(upstream)
        again = ClewInputFilter(context_length=WINDOW, store=store)
        asked = [*copy.deepcopy(run.to_input_list()), {"role": "user", "content": "And once more."}]
        await Runner.run(agent_for(later, model), asked, **options(again, hooks=again))
        assert_it_goes_on(upstream, later)
        assert_it_went_well(later)


@pytest.mark.parametrize("model", MODELS)
async def test_a_session_keeps_the_items_and_its_filter_shows_a_view_also_after_a_restart(
    tmp_path: Path, model: Any
) -> None:
    store = tmp_path / "clew.db"
    with running() as upstream, running() as later:
        session = ClewSession("customer-17", context_length=WINDOW, store=store)
        await Runner.run(agent_for(upstream, model), TASK, **options(session.input_filter, session=session))
        assert_it_went_well(upstream)
        items = await session.get_items()
        assert len(items) > 2 * len(requests_of(upstream)[-1])
        assert len(session.projection.history) < len(items)
        session.close()
        again = ClewSession("customer-17", context_length=WINDOW, store=store)
        assert await again.get_items() == items
        assert await again.get_items(3) == items[-3:]
        await Runner.run(agent_for(later, model), "And once more.", **options(again.input_filter, session=again))
        assert_it_goes_on(upstream, later)
        assert_it_went_well(later)
        assert "value_3 = 111" in text_of(again.projection.recall("value_3")[0].message)
        assert len(again.projection.compactions) >= 4


async def test_a_session_is_rewound_and_cleared(tmp_path: Path) -> None:
    store = tmp_path / "clew.db"
    items: list[Any] = [{"role": "user", "content": "one"}]
    items += [{"type": "reasoning", "id": "rs_1", "summary": []}]
    for number in (1, 2):
        called = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"c{number}",
            "name": "f",
            "arguments": "{}",
        }
        items.append(called)
    items += [{"type": "function_call_output", "call_id": f"c{number}", "output": "ok"} for number in (1, 2)]
    session = ClewSession("s", store=store)
    assert await session.pop_item() is None
    for item in items:  # one by one: calls that follow each other are one message
        await session.add_items([item])
    assert await session.get_items() == items
    for count in range(len(items) - 1, 1, -1):
        assert await session.pop_item() == items[count]
        session.close()
        session = ClewSession("s", store=store)
        assert await session.get_items() == items[:count]
    await session.add_items([{"role": "user", "content": "two"}])
    assert (await session.get_items())[-1]["content"] == "two"
    await session.clear_session()
    assert await session.get_items() == []
    session.close()
    session = ClewSession("s", store=store)
    assert await session.get_items() == []
    await session.add_items(items[:1])
    assert await session.get_items() == items[:1]
    assert len(session.projection.history) == 1
    session.close()


async def test_items_that_were_not_changed_are_the_very_objects() -> None:
    clew = ClewInputFilter(context_length=WINDOW)
    history: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": TASK}]}]
    for number in range(60):
        called = {"name": "read_part", "arguments": f'{{"number": {number}}}', "call_id": f"c{number}"}
        history.append({"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "x"})
        history.append({"type": "function_call", "id": f"fc_{number}", **called})
        history.append({"type": "function_call_output", "call_id": f"c{number}", "output": part(number)})
        shown = (await clew.conversations.afit(history)).messages
        known = {id(item) for item in history}
        assert shown[-1] is history[-1]
        assert sum(id(item) not in known for item in shown) < 20
        called_ids = [item["call_id"] for item in shown if item.get("type") == "function_call"]
        assert [item["call_id"] for item in shown if item.get("type") == "function_call_output"] == called_ids
    assert len(clew.conversations.projections[0].compactions) >= 2


def test_the_example_runs_as_it_stands() -> None:
    assert_the_example_runs("with_openai_agents.py")
