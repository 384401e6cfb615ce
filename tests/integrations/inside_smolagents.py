"""smolagents: agents whose memory is shown as a view, streamed and not, with code and with calls, after a restart."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from PIL import Image  # type: ignore[import-not-found]
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool
from smolagents.monitoring import LogLevel

from clew.integrations.smolagents import ClewMemory
from clew.messages import text_of
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer, UpstreamRules
from tests.integrations.scenario import (
    KEY,
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


def agent_for(upstream: Any, kind: Any = ToolCallingAgent, **more: Any) -> Any:
    model = OpenAIModel("mock-model", api_base=upstream.base_url, api_key=KEY)
    return kind(tools=[read_part], model=model, max_steps=100, verbosity_level=LogLevel.OFF, **more)


def reader() -> Any:
    return running(final_tool="final_answer")


class CodeWriter:
    """A model that reads parts by code."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, _: ReceivedRequest) -> UpstreamAnswer:
        self.asked += 1
        code = f"print(read_part({self.asked}))" if self.asked <= 50 else "final_answer('The sum is known.')"
        return UpstreamAnswer(f"Thought: the next one.\n<code>\n{code}\n</code>", number=self.asked)


def test_a_view_folds_twice_and_the_memory_keeps_every_step() -> None:
    with reader() as upstream:
        agent = agent_for(upstream)
        clew = ClewMemory(agent, context_length=WINDOW)
        assert agent.run(TASK) == "The sum after 60 parts is known."
        assert_it_went_well(upstream)
        assert len(agent.memory.steps) > 40
        (view,) = clew.conversations.projections
        assert len(view.compactions) == folds_between(requests_of(upstream))
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


def test_an_agent_that_writes_code() -> None:
    with running(Upstream(answers=CodeWriter(), rules=UpstreamRules(WINDOW))) as upstream:
        agent = agent_for(upstream, CodeAgent)
        clew = ClewMemory(agent, context_length=WINDOW)
        assert agent.run(TASK) == "The sum is known."
        assert_it_went_well(upstream)
        assert len(clew.conversations.projections[0].compactions) == folds_between(requests_of(upstream))


@pytest.mark.parametrize("stream", [False, True])
def test_going_on_after_a_restart(tmp_path: Path, stream: bool) -> None:
    store = tmp_path / "clew.db"
    with reader() as upstream, reader() as later:
        agent = agent_for(upstream, stream_outputs=stream)
        ClewMemory(agent, name="reader", context_length=WINDOW, store=store)
        agent.run(TASK)
        assert_it_went_well(upstream)
        again = agent_for(later, stream_outputs=stream)
        ClewMemory(again, name="reader", context_length=WINDOW, store=store)
        again.memory.steps = copy.deepcopy(agent.memory.steps)
        again.run("And once more.", reset=False)
        assert_it_goes_on(upstream, later)
        assert_it_went_well(later)


def test_messages_that_were_not_changed_are_the_very_objects() -> None:
    with reader() as upstream:
        agent = agent_for(upstream)
        history: list[Any] = []
        plain = agent.write_memory_to_messages

        def remembering(summary_mode: bool = False) -> list[Any]:
            history[:] = plain(summary_mode)
            return list(history)

        agent.write_memory_to_messages = remembering
        clew = ClewMemory(agent, context_length=WINDOW)
        for number in range(3):
            agent.run(TASK if number == 0 else "Go on.", reset=number == 0, images=[Image.new("RGB", (8, 8))])
            shown = agent.write_memory_to_messages()
            known = {id(message) for message in history}
            assert shown[0] is history[0] and shown[-1] is history[-1]
            assert len(shown) < len(history)
            assert sum(id(message) not in known for message in shown) < 20
        assert len(clew.conversations.projections) == 1
        plan = agent.write_memory_to_messages(summary_mode=True)
        assert len(plan) < len(history)
        assert len(clew.conversations.projections) == 2


def test_the_example_runs_as_it_stands() -> None:
    assert_the_example_runs("with_smolagents.py")
