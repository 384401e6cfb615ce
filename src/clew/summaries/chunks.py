"""Cuts a transcript into chunks that fit, and proves that together they are the whole of it.

A chunk ends where a message ends; a message that is larger than a chunk is cut inside. Knows how to count tokens, and
nothing of prompts and models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from clew.errors import SummaryFailed
from clew.summaries.story import CountTokens
from clew.summaries.transcript import EARLIER, Transcript

# More chars than this a token never has, but for blanks; so much of a long message is looked at for one chunk.
_CHARS_PER_TOKEN = 12
# A long message begins in the chunk before its own where at least this share of the chunk is still free.
_WORTH_FILLING = 0.5
# A cut goes back to a line's end when that costs at most this share of the stretch.
_GIVEN_UP_FOR_LINE_END = 0.2
_WELL_FILLED = 0.9
_GUESSES = 6


@dataclass(frozen=True, slots=True)
class Place:
    """Where reading goes on: a message, and how many chars of it were read."""

    number: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of one message: chars `start` to `end` of `whole`."""

    number: int
    start: int
    end: int
    whole: int

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.end == self.whole


@dataclass(frozen=True, slots=True)
class Entry:
    """A piece with its header and its text, as it goes into a prompt."""

    piece: Piece
    header: str
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one prompt reads, and where the next one goes on."""

    entries: tuple[Entry, ...]
    next: Place

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return tuple(entry.piece for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The proof that messages `first` to `last` (not included) were all read, each char once."""

    first: int
    last: int
    prompts: int
    split: tuple[int, ...]
    """Messages that were read in more than one piece."""


def cut_chunk(transcript: Transcript, place: Place, room: int, count: CountTokens) -> Chunk:
    """The next chunk from `place` on, of at most `room` tokens; empty when not one char fits."""
    entries: list[Entry] = []
    left = room
    while place.number < transcript.last:
        passage = transcript.passage(place.number)
        rest = len(passage.text) - place.offset
        is_long = rest > _CHARS_PER_TOKEN * room
        entry = _entry(transcript, place, len(passage.text))
        cost = room + 1 if is_long else _cost(entry, count)
        if cost <= left:
            entries.append(entry)
            left -= cost
            place = Place(transcript.after(place.number))
            continue
        if cost > room and (not entries or left > _WORTH_FILLING * room):
            entry = _fitting_start(transcript, place, left, count)
            if entry.piece.end > place.offset:
                entries.append(entry)
                place = Place(place.number, entry.piece.end)
        break
    return Chunk(tuple(entries), place)


def prove_coverage(first: int, last: int, prompts: Sequence[Sequence[Piece]]) -> Coverage:
    """The account of what was read, or a failure that names the first message that was not, or was twice."""
    expected, offset = first, 0
    split: dict[int, None] = {}
    for piece in chain.from_iterable(prompts):
        if piece.number == EARLIER:
            continue
        if (piece.number, piece.start) != (expected, offset):
            raise _not_covered(expected, offset, piece)
        if not piece.is_whole:
            split[piece.number] = None
        expected, offset = (expected + 1, 0) if piece.end == piece.whole else (expected, piece.end)
    if (expected, offset) != (last, 0):
        raise _not_covered(expected, offset, None)
    return Coverage(first, last, len(prompts), tuple(split))


def _not_covered(number: int, offset: int, piece: Piece | None) -> SummaryFailed:
    read = f"m{piece.number} from char {piece.start} on was read instead" if piece else "nothing was read after it"
    return SummaryFailed(f"message m{number} was not read from char {offset} on: {read}", kind="coverage")


def _entry(transcript: Transcript, place: Place, end: int) -> Entry:
    passage = transcript.passage(place.number)
    piece = Piece(place.number, place.offset, end, len(passage.text))
    name = passage.speaker if piece.number == EARLIER else f"m{piece.number} {passage.speaker}"
    cut = "" if piece.is_whole else f", chars {piece.start:,} to {piece.end:,} of {piece.whole:,}"
    return Entry(piece, f"{name}{cut}", passage.text[piece.start : piece.end])


def _cost(entry: Entry, count: CountTokens) -> int:
    # The fence and the line ends around an entry are some tokens too.
    return count(f"@@000000 {entry.header}\n{entry.text}\n") + 2


def _fitting_start(transcript: Transcript, place: Place, room: int, count: CountTokens) -> Entry:
    """As much of the rest of a message as fits, cut at a line's end where one is near."""
    text = transcript.passage(place.number).text
    end = _fitting_end(transcript, place, room, count)
    near = end - int((end - place.offset) * _GIVEN_UP_FOR_LINE_END)
    line_end = text.rfind("\n", near, end) + 1
    return _entry(transcript, place, line_end if place.offset < line_end and end < len(text) else end)


def _fitting_end(transcript: Transcript, place: Place, room: int, count: CountTokens) -> int:
    """About the last char that still fits: guessed from chars per token, then halved between what does and does not."""
    fits = place.offset
    over = min(len(transcript.passage(place.number).text), place.offset + _CHARS_PER_TOKEN * max(0, room)) + 1
    guess = place.offset + 3 * room
    for attempt in range(64):
        middle = min(max(guess, fits + 1), over - 1) if attempt < _GUESSES else (fits + over) // 2
        if over - fits <= 1:
            break
        cost = _cost(_entry(transcript, place, middle), count)
        fits, over = (middle, over) if cost <= room else (fits, middle)
        if fits > place.offset and cost <= room and cost >= _WELL_FILLED * room:
            break
        guess = place.offset + int((middle - place.offset) * 0.98 * room / max(1, cost))
    return fits
