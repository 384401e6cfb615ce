"""The chunks in which a model reads a long conversation: every message once, cut at line ends."""

from __future__ import annotations

import pytest

from clew.errors import SummaryFailed
from clew.handoff.chunks import (
    PREVIOUS_HANDOFF,
    MessageSpan,
    ReadPosition,
    SummaryTranscript,
    check_coverage,
    next_chunk,
)
from clew.messages import Message
from clew.testing import user


def chunks_of(messages: list[Message], room: int, previous: str = "") -> list[tuple[MessageSpan, ...]]:
    transcript = SummaryTranscript(lambda number: messages[number], 0, len(messages), previous)
    position = ReadPosition(transcript.first)
    found = []
    while position.number < len(messages):
        chunk = next_chunk(transcript, position, room, len)
        assert chunk.entries
        found.append(chunk.spans)
        position = chunk.next
    return found


def test_chunks_end_where_messages_end() -> None:
    chunks = chunks_of([user("x" * 60)] * 10, room=250)
    assert len(chunks) > 1
    assert all(span.is_complete for chunk in chunks for span in chunk)
    assert check_coverage(0, 10, chunks).prompts == len(chunks)


def test_a_message_larger_than_a_chunk_is_read_in_pieces_cut_at_line_ends() -> None:
    text = "".join(f"line {number:04d}\n" for number in range(200))
    chunks = chunks_of([user("short"), user(text), user("end")], room=400)
    coverage = check_coverage(0, 3, chunks)
    assert coverage.split == (1,)
    spans = [span for chunk in chunks for span in chunk if span.number == 1]
    assert all(text[span.end - 1] == "\n" for span in spans)


def test_a_huge_message_costs_what_its_pieces_cost() -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return len(text) // 4

    messages = [user("0123456789abcde\n" * 60_000)]
    transcript = SummaryTranscript(lambda number: messages[number], 0, 1)
    position, prompts = ReadPosition(0), []
    while position.number < 1:
        chunk = next_chunk(transcript, position, 20_000, count)
        prompts.append(chunk.spans)
        position = chunk.next
    check_coverage(0, 1, prompts)
    assert counted < 5 * len(messages[0]["content"] or "")


def test_an_earlier_handoff_that_is_too_long_is_read_before_the_messages() -> None:
    chunks = chunks_of([user("new")], room=200, previous="told before\n" * 50)
    assert chunks[0][0].number == PREVIOUS_HANDOFF
    assert check_coverage(0, 1, chunks).last == 1


def test_empty_messages_are_covered_too() -> None:
    messages: list[Message] = [{"role": "user", "content": None}, {"role": "assistant", "content": []}, user("")]
    assert check_coverage(0, 3, chunks_of(messages, room=200)).split == ()


def test_no_room_gives_an_empty_chunk() -> None:
    messages = [user("text")]
    assert not next_chunk(SummaryTranscript(lambda number: messages[number], 0, 1), ReadPosition(0), 5, len).entries


COMPLETE = [MessageSpan(0, 0, 5, 5), MessageSpan(1, 0, 3, 3)]


@pytest.mark.parametrize(
    ("spans", "named"),
    [
        ([COMPLETE[0]], "m1 was not read"),
        ([COMPLETE[1]], "m0 was not read"),
        ([COMPLETE[0], COMPLETE[0], COMPLETE[1]], "m1 was not read"),
        ([MessageSpan(0, 0, 2, 5), MessageSpan(0, 3, 5, 5), COMPLETE[1]], "m0 was not read from char 2"),
        ([MessageSpan(0, 0, 4, 5), COMPLETE[1]], "m0 was not read from char 4"),
        ([*COMPLETE, MessageSpan(2, 0, 1, 1)], "m3 was not read"),
    ],
)
def test_a_gap_or_a_repetition_is_found(spans: list[MessageSpan], named: str) -> None:
    with pytest.raises(SummaryFailed, match=named) as failure:
        check_coverage(0, 2, [spans])
    assert failure.value.kind == "coverage"
