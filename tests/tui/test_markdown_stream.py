"""Markdown while it streams: blocks come out whole, once and in order, however the reply is cut into pieces."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.cli.tui.markdown import MAX_BLOCK_ROWS, MarkdownBlock, MarkdownStream

REPLY = """# A heading
A paragraph that goes on
over two lines.

- one
- two

  more of two
- three

After the list:

```python
def late() -> int:

    return 3
```
| a | b |
|---|---|
| 1 | 2 |

The end"""


def all_blocks(text: str, size: int) -> list[MarkdownBlock]:
    stream = MarkdownStream()
    blocks = [block for at in range(0, len(text), size) for block in stream.feed(text[at : at + size])]
    return blocks + stream.finish()


def test_each_kind_of_block_comes_out_as_one() -> None:
    assert [(block.kind, block.text.split("\n")[0]) for block in all_blocks(REPLY, 7)] == [
        ("markdown", "# A heading"),
        ("markdown", "A paragraph that goes on"),
        ("markdown", "- one"),
        ("markdown", "After the list:"),
        ("code", "def late() -> int:"),
        ("markdown", "| a | b |"),
        ("markdown", "The end"),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1_000])
def test_the_pieces_do_not_matter(size: int) -> None:
    assert all_blocks(REPLY, size) == all_blocks(REPLY, len(REPLY))


def test_a_block_comes_out_when_it_is_finished_and_not_before() -> None:
    stream = MarkdownStream()
    assert stream.feed("half a line") == []
    assert stream.tail == "half a line"
    assert stream.feed(" and its end\n") == []
    assert stream.feed("\n") == [MarkdownBlock("markdown", "half a line and its end")]
    assert stream.tail == ""


def test_code_keeps_its_empty_lines_and_its_language() -> None:
    code = next(block for block in all_blocks(REPLY, 5) if block.kind == "code")
    assert code.text == "def late() -> int:\n\n    return 3"
    assert code.language == "python"


def test_code_inside_a_list_loses_the_indent_of_the_list() -> None:
    blocks = all_blocks("1. Run:\n   ```sh\n   ls\n     -la\n   ```\n2. Look.\n", 4)
    assert [(block.kind, block.text) for block in blocks] == [
        ("markdown", "1. Run:"),
        ("code", "ls\n  -la"),
        ("markdown", "2. Look."),
    ]


def test_a_fence_of_four_is_not_closed_by_three() -> None:
    (block,) = all_blocks("````md\n```\nx\n```\n````\n", 3)
    assert block.text == "```\nx\n```"


def test_code_that_never_ends_is_shown_all_the_same() -> None:
    assert all_blocks("```\nls", 2) == [MarkdownBlock("code", "ls")]


def test_long_code_comes_out_in_parts_that_belong_together() -> None:
    lines = [f"line {number}" for number in range(MAX_BLOCK_ROWS * 2 + 5)]
    blocks = all_blocks("```\n" + "\n".join(lines) + "\n```\nEnd.", 11)
    assert [block.continues for block in blocks] == [False, True, True, False]
    assert "\n".join(block.text for block in blocks[:3]).split("\n") == lines


def test_a_long_list_comes_out_in_parts_at_its_items() -> None:
    text = "".join(f"{number}. item\n   of two lines\n" for number in range(1, 31))
    blocks = all_blocks(text, 9)
    assert len(blocks) > 1
    assert all(block.text[0].isdigit() for block in blocks)
    assert "\n".join(block.text for block in blocks) + "\n" == text


def test_a_table_stays_whole_however_long_it_is() -> None:
    rows = "".join(f"| {number} | x |\n" for number in range(MAX_BLOCK_ROWS * 3))
    assert len(all_blocks(f"| n | x |\n|---|---|\n{rows}", 13)) == 1


def test_a_reply_without_an_empty_line_does_not_wait_for_its_end() -> None:
    stream = MarkdownStream()
    blocks = stream.feed("".join(f"log line {number}\n" for number in range(MAX_BLOCK_ROWS * 3)))
    assert len(blocks) == 2


def test_a_finished_stream_is_as_new() -> None:
    stream = MarkdownStream()
    stream.feed("```\nopen")
    stream.finish()
    assert stream.feed("words\n\n") == [MarkdownBlock("markdown", "words")]


LINES = st.sampled_from(
    [*"|words|# heading|- item|  - nested|1. one|   more|```|```py|~~~|---|    deep".split("|"), "| a | b |", "|--|--|"]
)
REPLIES = st.lists(LINES | st.text(alphabet=st.characters(exclude_characters="\n"), max_size=8), max_size=60)


def streamed_in(text: str, cuts: list[int]) -> list[MarkdownBlock]:
    stream, blocks, at = MarkdownStream(), list[MarkdownBlock](), 0
    for cut in cuts:
        blocks += stream.feed(text[at : at + cut])
        at += cut
    return blocks + stream.feed(text[at:]) + stream.finish()


@given(REPLIES, st.lists(st.integers(1, 30), max_size=60))
def test_the_cuts_between_pieces_do_not_matter(lines: list[str], cuts: list[int]) -> None:
    text = "\n".join(lines)
    assert streamed_in(text, cuts) == streamed_in(text, [])


@given(REPLIES)
def test_no_word_is_lost_or_comes_twice(lines: list[str]) -> None:
    blocks = streamed_in("\n".join(lines), [])
    fence = re.compile(r"\s*(`{3,}|~{3,})")
    given = [line.strip() for line in lines if line.strip() and not fence.match(line)]
    shown = [line.strip() for block in blocks for line in block.text.split("\n")]
    assert [line for line in shown if line and not fence.match(line)] == given


@given(REPLIES)
def test_the_tail_and_the_blocks_never_overlap(lines: list[str]) -> None:
    stream = MarkdownStream()
    for line in lines:
        stream.feed(f"{line}\n")
        assert len(stream.tail.split("\n")) <= len(lines) + 1
    stream.finish()
    assert stream.tail == ""
