"""Whatever the story and the window: every message is read once, and no prompt is larger than the window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.messages import Message
from clew.summaries import Handoff, ModelSummary, Story, Summary, model_summarizer
from clew.summaries.chunks import Piece
from clew.testing import assistant, call, tool, user
from clew.testing.summaries import ScriptedModel, handoff_text, story_of

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
    """More than it was asked for, without a figure that the story would have to show."""
    del prompt
    steps = [f"Went on with thing {chr(97 + number % 26) * (1 + number // 26)}." for number in range(60)]
    return handoff_text(goal="All of it.", completed_actions=steps)


@settings(max_examples=60, deadline=None)
@given(messages, st.integers(SMALLEST_WINDOW, 20_000), st.integers(100, 3_000), counts, st.booleans(), texts)
def test_every_message_is_read_once_and_every_prompt_fits(
    history: list[Message], window: int, budget: int, count: Callable[[str], int], has_previous: bool, task: str
) -> None:
    previous = Handoff({"Goal": [f"line {number} of the earlier handoff" for number in range(200)]})
    story = story_of(history, previous=previous if has_previous else None, task=task, task_at=len(history))
    model = ScriptedModel(wordy, context_length=window)
    summary = asyncio.run(model_summarizer([model.model], count=count)(story, budget))
    for prompt, max_tokens in zip(model.prompts, model.max_tokens, strict=True):
        assert count(prompt) + max_tokens <= window
    assert_read_whole(summary, story, model)


def assert_read_whole(summary: Summary, story: Story, model: ScriptedModel) -> None:
    assert isinstance(summary, ModelSummary), summary.warnings
    assert summary.coverage is not None
    assert (summary.coverage.first, summary.coverage.last) == (story.first, story.last)
    for number in range(story.first, story.last):
        holding = [prompt for prompt in model.prompts if f" m{number} " in prompt]
        assert len(holding) == 1 or number in summary.coverage.split


def test_a_piece_knows_whether_it_is_whole() -> None:
    assert Piece(0, 0, 0, 0).is_whole
    assert not Piece(0, 1, 2, 2).is_whole
