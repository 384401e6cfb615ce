"""Events come out the same, however the bytes were cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.providers.http import connection
from clew.providers.http.connection import EventTooLong, SseEvent, SseReader


def read(*pieces: bytes) -> list[SseEvent]:
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)] + list(reader.end())


def test_names_and_data_of_several_lines_are_read() -> None:
    assert read(b"event: a\ndata: one\ndata: two\n\ndata:three\n\n") == [
        SseEvent("a", "one\ntwo"),
        SseEvent("", "three"),
    ]


def test_comments_ids_and_blank_lines_say_nothing() -> None:
    assert read(b": ping\n\n\n\nid: 7\nretry: 5\n\ndata: x\n\n: bye\n\n") == [SseEvent("", "x")]


def test_an_event_without_its_blank_line_still_counts_at_the_end() -> None:
    assert read(b"data: a\n\ndata: [DONE]") == [SseEvent("", "a"), SseEvent("", "[DONE]")]


def test_a_byte_order_mark_and_bytes_that_are_no_text_do_not_break_it() -> None:
    assert read(b"\xef\xbb\xbfdata: a\xff\n\n") == [SseEvent("", "a\ufffd")]


def test_an_event_is_given_as_soon_as_it_is_there() -> None:
    assert list(SseReader().feed(b"data: a\n\ndata: b")) == [SseEvent("", "a")]


def test_an_event_that_does_not_end_is_refused() -> None:
    reader = SseReader()
    piece = b"x" * (connection.MAX_EVENT_CHARS // 2)
    list(reader.feed(b"data: " + piece))
    with pytest.raises(EventTooLong):
        list(reader.feed(piece))


@given(
    texts=st.lists(st.text(st.characters(exclude_characters="\r\n\x00", codec="utf-8"), max_size=12), min_size=1),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    cuts=st.lists(st.integers(0, 400), max_size=30),
)
def test_where_the_bytes_are_cut_does_not_matter(texts: list[str], line_end: str, cuts: list[int]) -> None:
    stream = "".join(f"event: e{line_end}data: {text}{line_end}{line_end}" for text in texts).encode()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(places)]
    assert read(*pieces) == [SseEvent("e", text) for text in texts]
