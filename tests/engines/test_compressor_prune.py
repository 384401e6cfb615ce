"""What a message says in one line once nobody needs all of it."""

from __future__ import annotations

import json

import pytest

from clew.engines.compressor.prune import (
    cut_text,
    prune,
    prune_arguments,
    prune_result,
    result_line,
    without_pictures,
)
from clew.messages import Message, Part, ToolCall, arguments_of_call
from clew.testing import assistant, call, tool, user

PICTURE: Part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
LOG = "".join(f"line {number}\n" for number in range(2_999))


def custom_call(text: str) -> ToolCall:
    made: dict[str, object] = {"id": "x", "type": "custom", "custom": {"name": "apply_patch", "input": text}}
    return made  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("name", "arguments", "text", "line"),
    [
        (
            "terminal",
            {"command": "pytest tests/"},
            f"{LOG}exit code 1",
            '[terminal] ran "pytest tests/" -> exit 1, 3,000 lines: line 2998 (whole: m18)',
        ),
        ("bash", {"command": "ls"}, f"{LOG}exit code: 0", '[bash] ran "ls" -> 3,000 lines (whole: m18)'),
        ("read_file", {"path": "a.py"}, LOG, '[read_file] read "a.py" -> 3,000 lines (whole: m18)'),
        ("write_file", {"path": "a.py"}, "x" * 300, '[write_file] wrote "a.py" -> 300 chars (whole: m18)'),
        ("patch", {"path": "a.py"}, "x" * 300, '[patch] changed "a.py" -> 300 chars (whole: m18)'),
        ("grep", {"pattern": "x y"}, LOG, '[grep] searched for "x y" -> 3,000 lines (whole: m18)'),
        ("ls", {"path": "src"}, LOG, '[ls] listed "src" -> 3,000 lines (whole: m18)'),
        ("web_fetch", {"url": "https://a.b"}, LOG, '[web_fetch] fetched "https://a.b" -> 3,000 lines (whole: m18)'),
        ("todo_write", {}, "x" * 300, "[todo_write] updated the plan -> 300 chars (whole: m18)"),
        ("task", {"description": "look"}, LOG, '[task] delegated "look" -> 3,000 lines (whole: m18)'),
        ("weigh", {"name": "an apple"}, LOG, '[weigh] was called with "an apple" -> 3,000 lines (whole: m18)'),
        ("weigh", {}, LOG, "[weigh] was called -> 3,000 lines (whole: m18)"),
        (
            "read_file",
            {"path": f"/home/dev/{'deep/' * 30}src/upload/retry.py"},
            LOG,
            f'[read_file] read "…/{"deep/" * 19}src/upload/retry.py" -> 3,000 lines (whole: m18)',
        ),
    ],
)
def test_each_tool_has_a_line_that_says_what_happened(
    name: str, arguments: dict[str, object], text: str, line: str
) -> None:
    assert result_line(text, call(name, arguments), 18) == line


def test_a_result_without_a_known_call_still_says_its_size_and_where_it_is() -> None:
    assert result_line("x" * 5_000, None, 7) == "[tool] 5,000 chars (whole: m7)"


def test_a_line_names_the_error_of_a_call_that_failed() -> None:
    text = f"{LOG}ValueError: 41 rows are missing\nexit code 1"
    line = result_line(text, call("terminal", {"command": "make"}), 9)
    assert line == '[terminal] ran "make" -> exit 1, 3,001 lines: ValueError: 41 rows are missing (whole: m9)'


def test_a_file_that_tells_of_errors_is_no_failure() -> None:
    text = f"{LOG}ValueError: 41 rows are missing\nexit code 1"
    assert result_line(text, call("read_file", {"path": "old.log"}), 9) == (
        '[read_file] read "old.log" -> 3,001 lines (whole: m9)'
    )


def test_only_results_over_200_chars_are_pruned() -> None:
    short, long = tool("c", "x" * 200), tool("c", "x" * 201)
    assert prune_result(short, call("ls", id="c"), 3) is short
    assert "(whole: m3)" in str(prune_result(long, call("ls", id="c"), 3)["content"])


def test_the_same_result_again_points_to_the_newest_copy() -> None:
    messages: list[Message] = [user("go")]
    for number in range(3):
        messages += [assistant(None, [call("read_file", {"path": "a"}, id=f"c{number}")]), tool(f"c{number}", LOG)]
    contents = [message["content"] for message in prune(messages, range(7)) if message["role"] == "tool"]
    assert contents == [
        "[the same as m6, which is newer]",
        "[the same as m6, which is newer]",
        '[read_file] read "a" -> 3,000 lines (whole: m6)',
    ]


def test_a_copy_that_stays_whole_behind_the_pruned_ones_is_the_newest() -> None:
    messages = [assistant(None, [call("read_file", {"path": "a"}, id="c0")]), tool("c0", LOG)]
    assert prune(messages, [0, 1], [(90, tool("c9", LOG))])[1]["content"] == "[the same as m90, which is newer]"


def test_long_arguments_are_shortened_inside_json_that_stays_valid() -> None:
    arguments = {"path": "a.py", "content": "é" * 900, "edits": [{"new": "y" * 600, "n": 1}], "flag": None}
    message = assistant("I write.", [call("write_file", arguments), call("ls", {"path": "src"}, id="call_2")])
    pruned = prune_arguments(message)
    shorter = arguments_of_call(pruned["tool_calls"][0])
    assert shorter["path"] == "a.py" and shorter["flag"] is None
    assert shorter["content"] == "é" * 200 + "[... 700 chars]"
    assert shorter["edits"] == [{"new": "y" * 200 + "[... 400 chars]", "n": 1}]
    assert pruned["tool_calls"][1] is message["tool_calls"][1]
    assert pruned["content"] == "I write."


def test_arguments_without_a_long_text_are_left_alone() -> None:
    many = assistant(None, [call("t", {f"key{number}": number for number in range(200)})])
    broken = assistant(None, [call("t", '{"path": "' + "x" * 900)])
    free = assistant(None, [custom_call("*** Begin Patch" + "x" * 900)])
    for message in (many, broken, free):
        assert prune_arguments(message) is message


def test_half_a_surrogate_pair_in_arguments_stays_an_escape() -> None:
    message = assistant(None, [call("t", '{"a": "\\ud83d", "b": "' + "x" * 900 + '"}')])
    shorter = prune_arguments(message)["tool_calls"][0]["function"]["arguments"]
    assert shorter.encode()
    assert json.loads(shorter)["a"] == "\ud83d"


def test_pictures_become_placeholders_and_their_text_stays() -> None:
    message = user([{"type": "text", "text": "look"}, PICTURE])
    assert without_pictures(message, 4)["content"] == [
        {"type": "text", "text": "look"},
        {"type": "text", "text": "[picture; whole: m4]"},
    ]
    plain = user("look")
    assert without_pictures(plain, 4) is plain


def test_a_result_with_a_picture_keeps_its_few_words() -> None:
    shot: Message = {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "the page"}, PICTURE]}
    assert prune_result(shot, call("look", id="c"), 5)["content"] == [
        {"type": "text", "text": "the page"},
        {"type": "text", "text": "[picture; whole: m5]"},
    ]


def test_a_cut_text_keeps_both_ends_and_is_not_cut_again() -> None:
    message = user("begin " + "x" * 5_000 + " end")
    for most in (10, 200, 1_000):
        once = cut_text(message, 2, most)
        text = str(once["content"])
        assert text.startswith("begin ") and text.endswith(" end") and "chars left out; whole: m2" in text
        assert len(text) <= max(140, most)
        assert cut_text(once, 2, most) is once


def test_what_needs_no_pruning_comes_back_as_the_same_object() -> None:
    messages = [user("go"), assistant("ok", [call("ls", {"path": "src"})]), tool("call_1", "a\nb"), assistant("done")]
    assert all(new is old for new, old in zip(prune(messages, range(4)), messages, strict=True))


def test_a_pruned_result_tells_of_the_nearest_call_before_it() -> None:
    messages: list[Message] = []
    for name in ("first", "second"):
        messages += [assistant(None, [call("terminal", {"command": name})]), tool("call_1", f"{name}\n{LOG}")]
    pruned = prune(messages, range(4))
    assert ['"first"' in str(pruned[1]["content"]), '"second"' in str(pruned[3]["content"])] == [True, True]
