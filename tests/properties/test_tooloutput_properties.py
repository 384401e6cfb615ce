"""Whatever tools say: what is spilled can be read back, what stays fits, and nothing else changes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.messages import Message, text_of
from clew.testing import assistant, call, tool
from clew.tooloutput import (
    PersistedOutput,
    SpillFolder,
    SpillPart,
    ToolOutputLimits,
    bound_result,
    bound_turn,
    is_persisted_block,
    limits_for_window,
)
from clew.tooloutput.block import head_and_tail
from clew.tooloutput.bound import _shortest_block_chars

pieces = st.text(st.characters(), min_size=1, max_size=20)
outputs = st.builds(lambda piece, times: piece * times, pieces, st.integers(0, 400))
names = st.sampled_from(["terminal", "read_file", "search_files"])


@contextmanager
def a_folder() -> Iterator[SpillFolder]:
    with tempfile.TemporaryDirectory() as path:
        yield SpillFolder(Path(path) / "spill")


@given(outputs, st.integers(1, 60_000))
@settings(max_examples=60)
def test_one_result_fits_or_can_be_read_back_whole(text: str, window: int) -> None:
    limits = limits_for_window(window)
    message = tool("c1", text)
    with a_folder() as folder:
        bound = bound_result(message, folder, limits)
        if bound.outcome is None:
            assert bound.message is message
            assert len(text) <= max(limits.per_result_chars, _shortest_block_chars(folder)) or is_persisted_block(
                text, 1_500
            )
            return
        assert isinstance(bound.outcome, PersistedOutput)
        part = folder.read(bound.outcome.spilled.id, 0, len(text))
        assert isinstance(part, SpillPart)
        assert part.text == text
        assert len(text_of(bound.message)) <= max(limits.per_result_chars, _shortest_block_chars(folder))
        assert bound_result(bound.message, folder, limits).message is bound.message


@given(st.lists(st.tuples(names, outputs), max_size=6))
@settings(max_examples=60)
def test_a_turn_fits_or_nothing_more_could_go(results: list[tuple[str, str]]) -> None:
    limits = ToolOutputLimits(per_result_chars=2_000, per_turn_chars=4_000, preview_chars=200)
    calls = [call(name, {}, id=f"c{number}") for number, (name, _) in enumerate(results)]
    messages: list[Message] = [
        assistant("working", calls),
        *(tool(f"c{number}", text) for number, (_, text) in enumerate(results)),
    ]
    with a_folder() as folder:
        bound = bound_turn(messages, folder, limits)
        touched = {outcome.call_id for outcome in bound.outcomes}
        for new, old in zip(bound.messages, messages, strict=True):
            assert (new is old) == (old.get("tool_call_id") not in touched)
            assert len(text_of(new)) <= len(text_of(old))
        whole = {f"c{number}": text for number, (_, text) in enumerate(results)}
        for outcome in bound.persisted:
            part = folder.read(outcome.spilled.id, 0, outcome.chars)
            assert isinstance(part, SpillPart)
            assert part.text == whole[outcome.call_id or ""]
        again = bound_turn(bound.messages, folder, limits)
        assert again.outcomes == ()


@given(outputs, st.integers(0, 3_000))
def test_a_preview_is_the_true_start_and_end_within_its_size(text: str, chars: int) -> None:
    if len(text) <= chars:
        return
    head, tail = head_and_tail(text, chars)
    assert len(head) + len(tail) <= chars
    assert text.startswith(head)
    assert text.endswith(tail)
    assert 2 * (len(head) + len(tail) + 1) >= chars // 4
