"""Results made to fit, one by one and turn by turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.errors import InvalidArgument
from clew.messages import Message, text_of
from clew.testing import assistant, call, tool
from clew.tooloutput import (
    CutOutput,
    PersistedOutput,
    SpillFolder,
    SpillPart,
    ToolOutputLimits,
    bound_result,
    bound_turn,
    is_persisted_block,
    limits_for_window,
)

LIMITS = ToolOutputLimits(per_result_chars=10_000, per_turn_chars=20_000, preview_chars=300)


@pytest.fixture
def folder(tmp_path: Path) -> SpillFolder:
    return SpillFolder(tmp_path / "spill")


def lines(chars: int) -> str:
    return ("all tests passed in module\n" * (chars // 27 + 1))[:chars]


def whole(folder: SpillFolder, outcome: object) -> str:
    assert isinstance(outcome, PersistedOutput)
    part = folder.read(outcome.spilled.id, 0, 10_000_000)
    assert isinstance(part, SpillPart)
    return part.text


def turn(*sizes: int, name: str = "terminal") -> list[Message]:
    calls = [call(name, {}, id=f"c{number}") for number in range(len(sizes))]
    return [assistant(None, calls), *(tool(f"c{number}", lines(size)) for number, size in enumerate(sizes))]


def test_a_result_at_the_limit_stays_the_same_object(folder: SpillFolder) -> None:
    message = tool("c1", "x" * 10_000)
    bound = bound_result(message, folder, LIMITS)
    assert bound.message is message
    assert bound.outcome is None
    assert not folder.folder.exists()


def test_a_result_over_the_limit_is_written_whole_and_a_block_stands_for_it(folder: SpillFolder) -> None:
    message: Message = {"role": "tool", "tool_call_id": "c1", "content": lines(50_000), "is_error": True}
    bound = bound_result(message, folder, LIMITS, tool="terminal")
    assert whole(folder, bound.outcome) == lines(50_000)
    assert bound.message["tool_call_id"] == "c1"
    assert bound.message["is_error"]
    text = text_of(bound.message)
    assert is_persisted_block(text, LIMITS.preview_chars)
    assert len(text) < 1_500
    assert isinstance(bound.outcome, PersistedOutput)
    assert (bound.outcome.call_id, bound.outcome.tool, bound.outcome.chars) == ("c1", "terminal", 50_000)
    assert message["content"] == lines(50_000)


def test_reading_a_persisted_result_does_not_persist_it_again(folder: SpillFolder) -> None:
    message = tool("c1", lines(50_000))
    assert bound_result(message, folder, LIMITS, tool="read_file").message is message
    assert bound_result({**message, "name": "read_file"}, folder, LIMITS).outcome is None
    assert bound_result(message, folder, LIMITS, tool="view", exempt={"view"}).message is message


def test_a_block_is_never_put_into_a_block_even_when_the_window_shrank(folder: SpillFolder) -> None:
    block = bound_result(tool("c1", lines(300_000)), folder, ToolOutputLimits()).message
    again = bound_result(block, folder, limits_for_window(2_000))
    assert again.message is block


def test_pictures_stay_where_they_are_and_text_parts_become_one_block(folder: SpillFolder) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}}
    message: Message = {
        "role": "tool",
        "tool_call_id": "c1",
        "content": [{"type": "text", "text": lines(9_000)}, picture, {"type": "text", "text": lines(9_000)}],
    }
    bound = bound_result(message, folder, LIMITS)
    content = bound.message["content"]
    assert isinstance(content, list)
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert content[1] is picture
    assert whole(folder, bound.outcome) == lines(9_000) + "\n" + lines(9_000)


def test_a_picture_alone_is_not_measured_in_chars(folder: SpillFolder) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}}
    message: Message = {"role": "tool", "tool_call_id": "c1", "content": [picture]}
    assert bound_result(message, folder, LIMITS).message is message


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text"}], [{"type": "odd", "text": None}]])
def test_content_that_says_nothing_stays(folder: SpillFolder, content: object) -> None:
    message: Message = {"role": "tool", "tool_call_id": "c1", "content": content}  # type: ignore[typeddict-item]
    assert bound_result(message, folder, LIMITS).message is message
    assert bound_turn([message], folder, LIMITS).messages == [message]


@pytest.mark.parametrize("window", [2_000, 4_000, 8_000, 32_000])
def test_a_block_is_shorter_than_what_it_stands_for_on_every_window(folder: SpillFolder, window: int) -> None:
    limits = limits_for_window(window)
    for chars in (limits.per_result_chars + 1, limits.per_result_chars * 3):
        text = text_of(bound_result(tool("c1", lines(chars)), folder, limits).message)
        assert len(text) <= chars


def test_a_turn_that_fits_is_left_alone(folder: SpillFolder) -> None:
    messages = turn(9_000, 9_000, 2_000)
    bound = bound_turn(messages, folder, LIMITS)
    assert bound.outcomes == ()
    assert all(new is old for new, old in zip(bound.messages, messages, strict=True))


def test_the_largest_results_of_a_turn_go_until_the_rest_fits(folder: SpillFolder) -> None:
    messages = turn(6_000, 9_000, 8_000, 7_000)
    bound = bound_turn(messages, folder, LIMITS)
    assert [outcome.call_id for outcome in bound.outcomes] == ["c1", "c2"]
    assert [outcome.tool for outcome in bound.outcomes] == ["terminal", "terminal"]
    assert [outcome.spilled.chars for outcome in bound.persisted] == [9_000, 8_000]
    unchanged = [new is old for new, old in zip(bound.messages, messages, strict=True)]
    assert unchanged == [True, True, False, False, True]
    assert sum(len(text_of(message)) for message in bound.messages) <= LIMITS.per_turn_chars


def test_of_two_results_of_one_length_the_earlier_goes_first(folder: SpillFolder) -> None:
    bound = bound_turn(turn(9_000, 9_000, 9_000), folder, LIMITS)
    assert [outcome.call_id for outcome in bound.outcomes] == ["c0"]


def test_what_is_persisted_already_is_not_written_again(folder: SpillFolder) -> None:
    messages = turn(50_000, 9_000, 9_000, 9_000)
    messages[1] = bound_result(messages[1], folder, LIMITS).message
    bound = bound_turn(messages, folder, LIMITS)
    assert [outcome.call_id for outcome in bound.outcomes] == ["c1"]


def test_results_of_exempt_tools_go_last_and_one_always_stays(folder: SpillFolder) -> None:
    read = bound_turn(turn(15_000, 15_000, name="read_file"), folder, LIMITS)
    assert [outcome.call_id for outcome in read.outcomes] == ["c0"]
    alone = turn(50_000, name="read_file")
    assert bound_turn(alone, folder, LIMITS).messages[1] is alone[1]
    mixed = turn(9_000, 8_000)
    mixed[0] = assistant(None, [call("read_file", {}, id="c0"), call("terminal", {}, id="c1")])
    assert [o.call_id for o in bound_turn(mixed, folder, ToolOutputLimits(10_000, 12_000, 300)).outcomes] == ["c1"]


def test_small_results_are_left_even_if_there_are_too_many(folder: SpillFolder) -> None:
    messages = turn(*[200] * 200)
    assert bound_turn(messages, folder, LIMITS).outcomes == ()


def test_a_turn_whose_results_cannot_be_written_is_cut_to_fit(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    bound = bound_turn(turn(18_000, 9_000), SpillFolder(tmp_path / "file" / "spill"), LIMITS)
    [outcome] = bound.outcomes
    assert isinstance(outcome, CutOutput)
    assert outcome.chars == 18_000
    assert outcome.kept_chars == len(text_of(bound.messages[1]))
    assert sum(len(text_of(message)) for message in bound.messages) <= LIMITS.per_turn_chars


def test_a_quota_too_small_for_a_turn_never_drops_what_the_turn_just_wrote(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path / "spill", quota_bytes=20_000)
    bound = bound_turn(turn(18_000, 17_000, 16_000), folder, LIMITS)
    for outcome in bound.persisted:
        assert len(whole(folder, outcome)) == outcome.chars
    assert [type(outcome) for outcome in bound.outcomes] == [PersistedOutput, CutOutput]


def test_calls_without_id_or_function_do_not_break_a_turn(folder: SpillFolder) -> None:
    broken: Message = {"role": "assistant", "content": None, "tool_calls": [{}, {"id": "c0"}]}  # type: ignore[typeddict-item]
    bound = bound_turn([broken, tool("c0", lines(30_000))], folder, LIMITS)
    assert [outcome.tool for outcome in bound.outcomes] == [None]


def test_a_window_of_200k_has_the_full_limits() -> None:
    assert limits_for_window(200_000) == ToolOutputLimits(100_000, 200_000, 1_500)
    assert limits_for_window(1_000_000) == ToolOutputLimits()


def test_an_unknown_window_has_the_full_limits() -> None:
    assert limits_for_window(None) == ToolOutputLimits()


def test_a_small_window_has_small_limits() -> None:
    assert limits_for_window(32_000) == ToolOutputLimits(16_000, 32_000, 1_500)
    assert limits_for_window(2_000) == ToolOutputLimits(1_000, 2_000, 250)


def test_configured_limits_are_never_exceeded() -> None:
    configured = ToolOutputLimits(per_result_chars=5_000, per_turn_chars=6_000, preview_chars=300)
    assert limits_for_window(200_000, configured) == configured
    assert limits_for_window(4_000, configured) == ToolOutputLimits(2_000, 4_000, 300)


def test_limits_grow_with_the_window_and_never_shrink() -> None:
    sizes = [limits_for_window(window) for window in range(1, 300_000, 997)]
    for name in ("per_result_chars", "per_turn_chars", "preview_chars"):
        values = [getattr(limits, name) for limits in sizes]
        assert values == sorted(values)


@pytest.mark.parametrize("window", [0, -1])
def test_a_window_of_nothing_is_refused(window: int) -> None:
    with pytest.raises(InvalidArgument, match=f"window_tokens = {window}"):
        limits_for_window(window)


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="per_turn_chars = 0"):
        ToolOutputLimits(per_turn_chars=0)
