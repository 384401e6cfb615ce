"""Splits text into pieces that can be quoted whole: sentences, list items, table rows, lines; and finds their terms.

A piece begins and ends where a line, a sentence or a value does. A term is a word or an exact string (path, name,
number, hash) in lower case. Nothing here knows what a message is.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence, Set
from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from clew.lazy import lazy_pattern

if TYPE_CHECKING:
    import re

COLOUR = lazy_pattern(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
_SENTENCE_END = lazy_pattern(r"[.!?。！？](?:(?<=[。！？])|(?<=[^\s.].[.!?])[\"'`)\]*]*\s+(?=[^\sa-z)\]]))")
"""The mark at the end of a sentence, and what is between it and the next one. Begins with a character of a few: the
search for a position that lies behind one takes five times as long."""
_BULLET = lazy_pattern(r"\s*(?:[-*•+]|\d{1,3}[.)])\s+")
_GUTTER = lazy_pattern(r"\s*\d+(?:→|\t|[:|-] ?)")
_FILE_GUTTER = lazy_pattern(r"\s*\d+(?:→|\t|[:|-] ?|  )")
_CLOSING_TAG = lazy_pattern(r"</([\w-]+)>")
_TERM = lazy_pattern(r"[\w./:@#%+~$\\*=-]{2,}")
_BLANKS = dict.fromkeys(
    (code for code in range(128) if not chr(code).isalnum() and chr(code) not in "\n_./:@#%+~$\\*=-"), " "
)
"""For ASCII text: blanks in place of all characters that are in no term."""
_FIRST_WIDE = "\u3040"
_WIDE = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_INNER = lazy_pattern(r"[\w-]+\.[a-z]{1,5}\b|\w+")
_FILE_NAME = lazy_pattern(r"[\w-]+\.[A-Za-z]{1,5}")
_EDGES = ".,:;-/'*=\\"
_EXACT_MARKS = frozenset("0123456789_/.@#:\\$")
_WHOLE_MARKS = frozenset("/\\-")
_ABBREVIATIONS = ("e.g.", "i.e.", "etc.", "vs.", "cf.", "approx.", "no.", "fig.")
LONGEST_PIECE_CHARS = 420
_WRAPPER_KEYS = ("output", "stdout", "stderr", "content", "result", "error", "text")
_WRAPPER_CHARS = 200
_MOST_WRAPPER_KEYS = 6
_SHORTEST_WRAPPED = 50
_MOST_WRAPPED = 12
_LONGEST_TERM_CHARS = 120
CUT = "…"
STOP_WORDS = frozenset(
    "the a an of to in on for and or with was were is are be by at from as it its that this these those not no only all"
    " any each which what how who why when where still must should has have had do does did into than then also but"
    " one two three four five six first second last before after via per plus etc done will would can could may might"
    " i you we he she they me my your our their his her them us if so just now here there out up down off over about"
    " been being more most some such other very let lets get got use using used make made need needs see like yes ok"
    " im ive ill dont doesnt didnt isnt cant wont".split()
)


class Block(NamedTuple):
    """A text between an opening tag and its closing tag."""

    name: str
    start: int
    inside: int
    """Where the text behind the opening tag begins."""
    inside_stop: int
    stop: int


def tagged_blocks(text: str, opening: re.Pattern[str]) -> Iterator[Block]:
    """The blocks of which `opening` matches the opening tag and its name, in order; none is within another.

    The time is linear, also where many tags are never closed.
    """
    if "</" not in text:
        return
    closings: dict[str, list[int]] = {}
    for found in _CLOSING_TAG.finditer(text):
        closings.setdefault(found[1].lower(), []).append(found.start())
    stop = 0
    for found in opening.finditer(text):
        places = closings.get(found[1].lower(), [])
        at = bisect_left(places, found.end())
        if found.start() >= stop and at < len(places):
            stop = places[at] + len(found[1]) + 3
            yield Block(found[1].lower(), found.start(), found.end(), places[at], stop)


def without_blocks(text: str, blocks: Iterable[Block], mark: str = "") -> str:
    """The text with a mark in place of each block."""
    kept: list[str] = []
    at = 0
    for block in blocks:
        kept.append(text[at : block.start])
        at = block.stop
    return mark.join([*kept, text[at:]]) if kept else text


class TermKind(IntEnum):
    """How a term could be guessed: a plain word easily, an exact string not at all."""

    WORD = 0
    EXACT = 1


# Members of an enumeration are looked up slowly.
_WORD, _EXACT = TermKind


def has_one(text: str, literals: Iterable[str]) -> bool:
    """Whether one of the literals is in the text."""
    for literal in literals:  # noqa: SIM110 (a generator takes three times as long)
        if literal in text:
            return True
    return False


def strip_colours(text: str) -> str:
    return COLOUR.sub("", text) if "\x1b" in text else text


def result_text(text: str) -> str:
    """The text of a result that a tool wrapped into a JSON object, such as {"output": "..."}; else the text itself."""
    start = text[:_WRAPPER_CHARS].lstrip()
    if not start.startswith("{") or not any(f'"{key}"' in start for key in _WRAPPER_KEYS):
        return text
    try:
        wrapped = json.loads(text)
    except (ValueError, RecursionError):
        return text
    inside = [wrapped[key] for key in _WRAPPER_KEYS if isinstance(wrapped.get(key), str) and wrapped[key]]
    others = [
        f"{key}: {value}" for key, value in wrapped.items() if key not in _WRAPPER_KEYS and isinstance(value, int | str)
    ]
    # An object with much beside its text is data and not a wrapper.
    return "\n".join((*others, *inside)) if inside and len(wrapped) <= _MOST_WRAPPER_KEYS else text


def flatten(text: str) -> str:
    """The text on one line, with single blanks."""
    return " ".join(text.split())


def shorten(text: str, most: int) -> str:
    """The text on one line, cut at a word with the cut marked."""
    text = flatten(text)
    if len(text) <= most:
        return text
    end = text.rfind(" ", max(1, most * 2 // 3), most)
    return text[: end if end > 0 else most].rstrip(" ,;:") + CUT


def sentences(line: str) -> list[str]:
    """The sentences of a line of prose."""
    if len(line) < 60:
        return [line]
    joined: list[str] = []
    at = 0
    ends = [(end.start() + 1, end.end()) for end in _SENTENCE_END.finditer(line)]
    for stop, following in (*ends, (len(line), 0)):
        piece, at = line[at:stop].strip(), following
        if not piece:
            continue
        if joined and joined[-1].lower().endswith(_ABBREVIATIONS):
            joined[-1] += f" {piece}"
        else:
            joined.append(piece)
    return joined


def prose_pieces(text: str) -> Iterator[str]:
    """Sentences of paragraphs, whose lines may be wrapped; list items and table rows whole."""
    for is_blank, run in groupby(map(_without_quote_mark, text.split("\n")), lambda line: not line):
        if not is_blank:
            yield from _run_pieces(list(run))


def _without_quote_mark(line: str) -> str:
    """A line without the space around it, and without the marks of a quoted paragraph; `>=3` and `>>> f()` stay."""
    line = line.strip()
    while line.startswith("> "):
        line = line[2:].lstrip()
    return "" if line == ">" else line


def _run_pieces(lines: Sequence[str]) -> Iterator[str]:
    """The pieces of lines without a blank one between them."""
    width = max(map(len, lines))
    paragraph: list[str] = []
    for line in lines:
        starts = line[0] in "|#" or bool(_BULLET.match(line)) or len(paragraph) > _MOST_WRAPPED
        if paragraph and (starts or not _is_wrapped(paragraph[-1], line, width)):
            yield from _paragraph_pieces(" ".join(paragraph))
            paragraph = []
        if any(map(str.isalnum, line)):
            paragraph.append(line)
    if paragraph:
        yield from _paragraph_pieces(" ".join(paragraph))


def _is_wrapped(line: str, following: str, width: int) -> bool:
    """Whether a sentence continues in the following line: its first word had no room at the end of this one."""
    if len(line) < _SHORTEST_WRAPPED or line[0] in "|#" or line.endswith((".", "!", "?", ":", "。")):
        return False
    if following[0].islower() or line[-1] == "," or following[0] in "`\"'(*_":
        return True
    return len(line) + 1 + len(following.split(None, 1)[0]) > width


def _paragraph_pieces(text: str) -> Iterator[str]:
    if text[0] in "|#" or (_BULLET.match(text) and len(text) <= LONGEST_PIECE_CHARS):
        yield text
    else:
        yield from sentences(text)


def code_pieces(text: str) -> Iterator[str]:
    """Lines of code; the lines of one comment are one piece as long as it is short."""
    comment = ""
    for line in text.split("\n"):
        line = line.strip()
        is_comment = line.startswith(("//", "#", "* ", "--", ";;")) and not line.startswith(("#!", "#include", "---"))
        if comment and (
            not is_comment
            or len(comment) + len(line) > LONGEST_PIECE_CHARS
            or line.split(None, 1)[0] != comment.split(None, 1)[0]
        ):
            yield comment
            comment = ""
        if is_comment:
            # The mark of a comment is quoted once.
            comment = f"{comment} {line.lstrip('/#*-; ')}" if comment else line
        elif len(line) > 1:
            yield line
    if comment:
        yield comment


def clip_piece(piece: str) -> str:
    """The piece, cut at a word where it is longer than a quote may be."""
    return piece if len(piece) <= LONGEST_PIECE_CHARS else shorten(piece, LONGEST_PIECE_CHARS)


def without_gutter(lines: list[str], *, of_file: bool = False) -> list[str]:
    """The lines without line numbers, where most of them have one. In a file, two blanks may be behind the number."""
    gutter = _FILE_GUTTER if of_file else _GUTTER
    sample = [line for line in lines[:40] if line.strip()]
    if len(sample) < 2 or sum(1 for line in sample if gutter.match(line)) < 0.7 * len(sample):
        return lines
    return [line[found.end() :] if (found := gutter.match(line)) else line for line in lines]


class Terms:
    """Finds the terms of texts. Remembers each word and text it has seen, so one instance serves one fold."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        """The first term of each word; empty where it has none."""
        self._more: dict[str, tuple[str, ...]] = {}
        """The other terms of the few words that have several."""
        self._found: dict[str, Set[str]] = {}
        """By text: a third of the lines of a session occur in it before."""
        self.kinds: dict[str, TermKind] = {}

    def of(self, text: str) -> Set[str]:
        """The distinct terms of a text."""
        found = self._found.get(text)
        if found is None:
            words = _TERM.findall(text)
            self._learn_all(words)
            found = self._found[text] = self._terms_of(words)
        return found

    def of_each(self, texts: Sequence[str]) -> Iterator[Set[str]]:
        """The terms of each text, in order: faster than one by one for lines of ASCII."""
        plain, known = [text for text in texts if text.isascii()], self._found
        words = "\n".join(plain).translate(_BLANKS)
        lines = words.split("\n")
        if len(lines) == len(plain):
            self._learn_all(words.split())
            for text, line in zip(plain, lines, strict=True):
                if text not in known:
                    known[text] = self._terms_of(line.split())
        return map(known.__getitem__ if len(lines) == len(texts) == len(plain) else self.of, texts)

    def _learn_all(self, words: Iterable[str]) -> None:
        first, more = self._first, self._more
        for word in set(words).difference(first):
            terms = self._learn(word)
            first[word] = terms[0] if terms else ""
            if len(terms) > 1:
                more[word] = terms[1:]

    def _terms_of(self, words: Sequence[str]) -> Set[str]:
        """The terms of words that were learned."""
        found = set(map(self._first.__getitem__, words))
        found.discard("")
        more = self._more
        if not more.keys().isdisjoint(words):
            for word in words:
                found.update(more.get(word, ()))
        return found

    def of_all(self, texts: Iterable[str]) -> set[str]:
        return set().union(*map(self.of, texts))

    def _learn(self, word: str) -> tuple[str, ...]:
        """The terms of a word: itself, and the names inside a path or an expression."""
        stripped = word.strip(_EDGES)
        plain = stripped.lower()
        if stripped.isalpha() and stripped.isascii():
            if not 2 < len(plain) <= _LONGEST_TERM_CHARS or plain in STOP_WORDS:
                return ()
            if plain != stripped and plain[1:] != stripped[1:] and _has_inner_capital(stripped):
                self.kinds[plain] = _EXACT
            else:
                self.kinds.setdefault(plain, _WORD)
            return (plain,)
        # Most that is not ASCII is no wide character, and the expression takes a millisecond to compile.
        if plain and max(plain) >= _FIRST_WIDE and (wide := _WIDE.findall(plain)):
            terms = tuple(run[at : at + 2] for run in wide for at in range(max(1, len(run) - 1)))
            for term in terms:
                self._note(term, is_exact=False)
            return terms
        if not 1 < len(plain) <= _LONGEST_TERM_CHARS or plain in STOP_WORDS:
            return ()
        inner = _INNER.findall(stripped) if not stripped.isalnum() else ()
        names = [name.lower() for name in inner if name != stripped and _is_exact_name(name)]
        # An expression such as `this.list.addChild` is as exact as the names in it; a path or an id is exact itself.
        is_exact = _is_exact_name(stripped) or (
            not _EXACT_MARKS.isdisjoint(plain) and (not names or not _WHOLE_MARKS.isdisjoint(plain))
        )
        if not is_exact and len(plain) <= 2:
            return ()
        self._note(plain, is_exact=is_exact)
        for name in names:
            self._note(name, is_exact=True)
        return (plain, *names)

    def _note(self, term: str, *, is_exact: bool) -> None:
        """A term is exact if one of its spellings is, in whichever order they are read."""
        if is_exact:
            self.kinds[term] = _EXACT
        else:
            self.kinds.setdefault(term, _WORD)


def _is_exact_name(word: str) -> bool:
    """snake_case, camelCase, PascalCase, a file name, or a number of some length."""
    if "_" in word or ("." in word and _FILE_NAME.fullmatch(word)):
        return len(word) > 3
    return _has_inner_capital(word) or (len(word) > 2 and word[0].isdigit())


def _has_inner_capital(word: str) -> bool:
    """camelCase and PascalCase; not a word in capitals."""
    inner = word[1:]
    return not inner.islower() and inner != inner.upper() and word.isalnum()
