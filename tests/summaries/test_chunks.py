from __future__ import annotations

import pytest

from clew.errors import SummaryFailed
from clew.messages import Message
from clew.summaries.chunks import Piece, Place, cut_chunk, prove_coverage
from clew.summaries.transcript import EARLIER, Transcript
from clew.testing import user


def chunks_of(messages: list[Message], room: int, earlier: str = "") -> list[tuple[Piece, ...]]:
    transcript = Transcript(lambda number: messages[number], 0, len(messages), earlier)
    place = Place(transcript.first)
    found = []
    while place.number < len(messages):
        chunk = cut_chunk(transcript, place, room, len)
        assert chunk.entries
        found.append(chunk.pieces)
        place = chunk.next
    return found


def test_chunks_end_where_messages_end() -> None:
    chunks = chunks_of([user("x" * 60)] * 10, room=250)
    assert len(chunks) > 1
    assert all(piece.is_whole for chunk in chunks for piece in chunk)
    assert prove_coverage(0, 10, chunks).prompts == len(chunks)


def test_a_message_larger_than_a_chunk_is_read_in_pieces_cut_at_line_ends() -> None:
    text = "".join(f"line {number:04d}\n" for number in range(200))
    chunks = chunks_of([user("short"), user(text), user("end")], room=400)
    coverage = prove_coverage(0, 3, chunks)
    assert coverage.split == (1,)
    pieces = [piece for chunk in chunks for piece in chunk if piece.number == 1]
    assert all(text[piece.end - 1] == "\n" for piece in pieces)


def test_a_huge_message_costs_what_its_pieces_cost() -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return len(text) // 4

    messages = [user("0123456789abcde\n" * 60_000)]
    transcript = Transcript(lambda number: messages[number], 0, 1)
    place, prompts = Place(0), []
    while place.number < 1:
        chunk = cut_chunk(transcript, place, 20_000, count)
        prompts.append(chunk.pieces)
        place = chunk.next
    prove_coverage(0, 1, prompts)
    assert counted < 5 * len(messages[0]["content"] or "")


def test_an_earlier_handoff_that_is_too_long_is_read_before_the_messages() -> None:
    chunks = chunks_of([user("new")], room=200, earlier="told before\n" * 50)
    assert chunks[0][0].number == EARLIER
    assert prove_coverage(0, 1, chunks).last == 1


def test_empty_messages_are_covered_too() -> None:
    messages: list[Message] = [{"role": "user", "content": None}, {"role": "assistant", "content": []}, user("")]
    assert prove_coverage(0, 3, chunks_of(messages, room=200)).split == ()


def test_no_room_gives_an_empty_chunk() -> None:
    messages = [user("text")]
    assert not cut_chunk(Transcript(lambda number: messages[number], 0, 1), Place(0), 5, len).entries


WHOLE = [Piece(0, 0, 5, 5), Piece(1, 0, 3, 3)]


@pytest.mark.parametrize(
    ("pieces", "named"),
    [
        ([WHOLE[0]], "m1 was not read"),
        ([WHOLE[1]], "m0 was not read"),
        ([WHOLE[0], WHOLE[0], WHOLE[1]], "m1 was not read"),
        ([Piece(0, 0, 2, 5), Piece(0, 3, 5, 5), WHOLE[1]], "m0 was not read from char 2"),
        ([Piece(0, 0, 4, 5), WHOLE[1]], "m0 was not read from char 4"),
        ([*WHOLE, Piece(2, 0, 1, 1)], "m3 was not read"),
    ],
)
def test_a_gap_or_a_repetition_is_found(pieces: list[Piece], named: str) -> None:
    with pytest.raises(SummaryFailed, match=named) as failure:
        prove_coverage(0, 2, [pieces])
    assert failure.value.kind == "coverage"
