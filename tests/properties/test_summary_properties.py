"""With any conversation, window and model: every message is read once, every prompt fits, required facts stay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from clew.handoff import ACTIVE_TASK, Entry, Handoff, ModelSummarizer, ModelSummary, Summary, SummaryInput
from clew.handoff.chunks import MessageSpan
from clew.messages import Message
from clew.testing import assistant, call, tool, user
from clew.tokens import counter_for
from tests.support.summaries import RecordedSleep, ScriptedSummaryModel, handoff_text, summary_input_of

SMALLEST_WINDOW = 2_000

texts = st.one_of(
    st.text(max_size=60),
    st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=40), st.integers(1, 300)),
    st.sampled_from(["把上传改成异步，不要动 prod.db。" * 80, "x" * 9_000, "a b\n" * 2_000, "{record} @@ \ud800", ""]),
)
messages = st.lists(
    st.one_of(
        st.builds(user, texts),
        st.builds(assistant, texts),
        st.builds(lambda text: assistant(None, [call("terminal", {"command": text}, "c1")]), texts),
        st.builds(lambda text: tool("c1", text), texts),
    ),
    min_size=1,
    max_size=12,
)
counts: st.SearchStrategy[Callable[[str], int]] = st.sampled_from(
    [
        lambda text: -(-len(text) // 4),
        lambda text: -(-len(text.encode("utf-8", "replace")) // 3),
        lambda text: len(text.split()) * 2,
    ]
)


def wordy(prompt: str) -> str:
    """More than it was asked for, without a figure that the source would have to show."""
    del prompt
    steps = [f"Went on with thing {chr(97 + number % 26) * (1 + number // 26)}." for number in range(60)]
    return handoff_text(goal="All of it.", completed_actions=steps)


@settings(max_examples=60, deadline=None)
@given(messages, st.integers(SMALLEST_WINDOW, 20_000), st.integers(100, 3_000), counts, st.booleans(), texts)
def test_every_message_is_read_once_and_every_prompt_fits(
    history: list[Message], window: int, budget: int, count: Callable[[str], int], has_previous: bool, task: str
) -> None:
    previous = Handoff({"Goal": [Entry(f"line {number} of the earlier handoff") for number in range(200)]})
    source = summary_input_of(history, previous=previous if has_previous else None, task=task, task_number=len(history))
    model = ScriptedSummaryModel(wordy, context_length=window)
    summary = asyncio.run(ModelSummarizer([model.model], count=count)(source, budget))
    for prompt, max_tokens in zip(model.prompts, model.max_tokens, strict=True):
        assert count(prompt) + max_tokens <= window
    assert_read_whole(summary, source, model)


def assert_read_whole(summary: Summary, source: SummaryInput, model: ScriptedSummaryModel) -> None:
    assert isinstance(summary, ModelSummary), summary.warnings
    assert summary.coverage is not None
    assert (summary.coverage.first, summary.coverage.last) == (source.first, source.last)
    for number in range(source.first, source.last):
        holding = [prompt for prompt in model.prompts if f" m{number} " in prompt]
        assert len(holding) == 1 or number in summary.coverage.split


def test_a_span_knows_whether_it_is_complete() -> None:
    assert MessageSpan(0, 0, 0, 0).is_complete
    assert not MessageSpan(0, 1, 2, 2).is_complete


count = counter_for(None).text
RULES = ("Never touch prod.db.", "Always answer in German.", "不要改数据库结构。")
BUDGET = 4_000

replies = st.sampled_from(
    [
        handoff_text(goal="Something else.", completed_actions=["Did some work."], critical_context="Nothing."),
        handoff_text(active_task="Wrong task.", completed_actions=[f"{number}. Step." for number in (1, 4, 9)]),
        handoff_text(constraints_and_preferences="- be nice", blocked="- nothing at all", critical_context="x"),
    ]
)


def work() -> list[Message]:
    return [
        message
        for number, rule in enumerate(RULES)
        for message in (
            user(f"Do step {number}. {rule}"),
            assistant(None, [call("write_file", {"path": f"src/part_{number}.py", "content": "x"}, f"w{number}")]),
            tool(f"w{number}", "ok"),
            assistant(None, [call("terminal", {"command": f"make part_{number}"}, f"c{number}")]),
            tool(f"c{number}", f"error: broken joint in part_{number}\nexit code: 2"),
        )
    ]


@settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(replies)
def test_a_models_text_stays_whole_and_what_is_certain_and_missing_is_added(written: str) -> None:
    source = summary_input_of(work(), task="Do step 2.", task_number=10)
    model = ScriptedSummaryModel(written)
    summary = asyncio.run(ModelSummarizer([model.model], count=count, sleep=RecordedSleep())(source, BUDGET))
    assert count(summary.text) <= BUDGET
    lines = [line for line in written.splitlines() if line.strip()]
    assert [line for line in summary.text.splitlines() if line in lines][: len(lines)] == lines
    for number, rule in enumerate(RULES):
        assert rule in summary.text
        assert f"src/part_{number}.py" in summary.text
        assert f"broken joint in part_{number}" in summary.text
    assert all("Wrong task." in task.text for task in Handoff.of_text(summary.text).entries(ACTIVE_TASK))
    assert "Do step 2." in summary.text or "Wrong task." in summary.text
