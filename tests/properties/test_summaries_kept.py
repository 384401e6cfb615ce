"""Kept for certain, whatever a model writes: after 1, 5 and 20 summaries, each made out of the one before."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from clew.messages import Message
from clew.summaries import Handoff, Story, Summary, model_summarizer, parse_handoff
from clew.summaries.handoff import ACTIVE_TASK, COMPLETED
from clew.testing import assistant, call, tool, user
from clew.testing.summaries import ScriptedModel, Waits, handoff_text, story_of
from clew.tokens import counter_for

count = counter_for(None).text
RULES = ("Never touch prod.db.", "Always answer in German.", "不要改数据库结构。")
BUDGET = 4_000

forgetful = handoff_text(goal="Something else.", completed_actions=["Did some work."], critical_context="Nothing.")
replies = st.sampled_from(
    [
        forgetful,
        handoff_text(active_task="Wrong task.", completed_actions=[f"{number}. Step." for number in (1, 4, 9)]),
        handoff_text(constraints_and_preferences="- be nice", blocked="- nothing at all", critical_context="x"),
    ]
)


def round_of(number: int) -> list[Message]:
    id = f"c{number}"
    return [
        user(f"Do step {number}. {RULES[number % len(RULES)]}"),
        assistant(None, [call("write_file", {"path": f"src/part_{number}.py", "content": "x"}, f"w{id}")]),
        tool(f"w{id}", "ok"),
        assistant(None, [call("terminal", {"command": f"make part_{number}"}, id)]),
        tool(id, f"error: broken joint in part_{number}\nexit code: 2"),
    ]


def summarized_again(times: int, written: list[str]) -> tuple[Story, Summary]:
    history: list[Message] = []
    previous: Handoff | None = None
    first = 0
    for turn in range(times):
        history += round_of(turn)
        story = story_of(history, first=first, previous=previous, task=f"Task {turn}.", task_at=len(history))
        model = ScriptedModel(written[turn % len(written)])
        summary = asyncio.run(model_summarizer([model.model], count=count, sleep=Waits())(story, BUDGET))
        previous, first = parse_handoff(summary.text), len(history)
    return story, summary


@pytest.mark.parametrize("times", [1, 5, 20])
@settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(st.lists(replies, min_size=1, max_size=3))
def test_rules_files_errors_goal_and_task_survive_any_number_of_summaries(times: int, written: list[str]) -> None:
    story, summary = summarized_again(times, written)
    assert count(summary.text) <= BUDGET
    handoff = parse_handoff(summary.text)
    assert f"Task {times - 1}." in handoff.lines(ACTIVE_TASK)[0]
    assert "Do step 0." in summary.text
    for turn in range(times):
        assert RULES[turn % len(RULES)] in summary.text
        assert f"src/part_{turn}.py" in summary.text
        assert f"broken joint in part_{turn}" in summary.text
    actions = summary.text.split(f"## {COMPLETED}\n")[-1].split("\n\n")[0].splitlines()
    numbers = [line.split(".")[0] for line in actions if line[:1].isdigit()]
    assert numbers == [str(number + 1) for number in range(len(numbers))]
    assert story.last == 5 * times
