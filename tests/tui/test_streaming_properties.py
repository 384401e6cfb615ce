"""Whatever a model writes, and however it is cut into pieces: every line comes out once, in order."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from clew.cli.tui.markdown import MarkdownBlock, MarkdownStream

LINES = st.sampled_from(
    [*"|words|# heading|- item|  - nested|1. one|   more|```|```py|~~~|---|    deep".split("|"), "| a | b |", "|--|--|"]
)
REPLIES = st.lists(LINES | st.text(alphabet=st.characters(exclude_characters="\n"), max_size=8), max_size=60)


def streamed(text: str, cuts: list[int]) -> list[MarkdownBlock]:
    stream, blocks, at = MarkdownStream(), list[MarkdownBlock](), 0
    for cut in cuts:
        blocks += stream.feed(text[at : at + cut])
        at += cut
    return blocks + stream.feed(text[at:]) + stream.finish()


@given(REPLIES, st.lists(st.integers(1, 30), max_size=60))
def test_the_cuts_between_pieces_do_not_matter(lines: list[str], cuts: list[int]) -> None:
    text = "\n".join(lines)
    assert streamed(text, cuts) == streamed(text, [])


@given(REPLIES)
def test_no_word_is_lost_or_comes_twice(lines: list[str]) -> None:
    blocks = streamed("\n".join(lines), [])
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
