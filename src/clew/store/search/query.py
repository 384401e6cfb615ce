"""A query as terms, and where these terms are in a text.

Every text is a valid query. A term is a word with its forms, a name with its parts, a quoted phrase, or a run of
characters of a script without spaces.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias

from clew.store.search.base import Clause, Phrase
from clew.store.search.days import DayRange, days_named
from clew.store.search.forms import forms_of
from clew.store.search.words import (
    case_folded,
    is_stop_word,
    is_unspaced,
    normalized_text,
    split_camel_case,
    words_of,
)

Role: TypeAlias = Literal["user", "assistant"]
TermKind: TypeAlias = Literal["word", "name", "phrase", "run"]
MOST_TERMS = 24
MOST_MATCHES = 32
_QUERY_CHARS = 2_000
_SENTENCE_WORDS, _STOP_WORDS = 9, 3
"""A query of so many words, so many of them like `the`, is a sentence that asks for something, with or without "?"."""
_piece = re.compile(r'"([^"]*)"|“([^”]*)”|(\S+)')
_PHRASE_WORDS = 24
_PART_WEIGHT = 0.6
_item_label = re.compile(r"[(]?[\da-z][.):]+")
# The name of a file behind its folders, without its ending.
_file = re.compile(r"[/\\]([^/\\]+?)(?:\.[a-z]{1,5})?\W*$")
_lower_run = re.compile("[a-z0-9]+")
_ASKING = frozenset(
    """are can could did do does had has have how is should was were what when where which who whom whose why will
    would""".split()
)
_ASKING_UNSPACED = re.compile(
    "[？吗呢]|什么|怎么|为什|哪|谁|几|多少|なぜ|どこ|いつ|だれ|誰|何|ですか|ますか|무엇|누구|언제|어디|왜"
)
_asks_first = re.compile(rf"\W*(?:{'|'.join(_ASKING)})\b", re.IGNORECASE)
_OF_USER = re.compile(
    r"\b(?:i|me|my|mine|myself|we|our|us|ich|mein\w*|mir|je|mon|mes|mi|mis|yo)\b|我|咱|私の|私は|僕|俺|제가|내가|나의|저의"
)
_OF_ASSISTANT = re.compile(
    r"\byou (?:\w+ ){0,2}(?:told|said|mention|recommend|suggest|gave|provid|list|wrote|explain|describ|shar|creat|show)"
    r"|\b(?:did|had|have) you (?:\w+ )?(?:tell|told|say|said|mention|recommend|suggest|give|given|explain|describe)"
    r"|\bremind me\b|\b(?:our|last|previous|earlier) (?:\w+ )?(?:chat|conversation|discussion|exchange)\b"
    r"|你(?:说|提|推荐|建议)"
)
# An agent that searches for what its user said names the user in the third person.
_NAMES_USER = re.compile(
    r"\bthe (?:user|person|human|customer)(?:['’]s)?\b|\b(?:user|person) (?:asked|said|wants?|wanted)\b"
)

# Mel's, don't, they're: the part after the apostrophe is not searched for.
_shortened = re.compile(r"(\W*\w+?)(?:n['’]t|['’](?:s|t|re|ve|ll|d|m))(\W*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class QueryTerm:
    """One thing to look for, in any of its spellings; the first is how it was written.

    Compared by identity: terms are keys all through a search, and hashing their spellings would take too long.
    """

    kind: TermKind
    any_of: Clause
    weight: float = 1.0
    stems: tuple[tuple[str, Mapping[str, int]], ...] = field(init=False, repr=False)
    """The forms of a word in groups that begin alike: what each group begins with, and the number of each form."""

    def __post_init__(self) -> None:
        is_plain = self.kind == "word" and not any(phrase.is_prefix for phrase in self.any_of)
        object.__setattr__(self, "stems", _stems_of(self.any_of) if is_plain else ())


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The terms to look for, and pairs of words that are neighbours in the query."""

    terms: tuple[QueryTerm, ...]
    neighbours: tuple[Phrase, ...]
    is_question: bool = False
    """Whether it is a question, whose answer may be near its words. Other queries look for their words."""
    days: DayRange | None = None
    """The days that it names."""
    speaker: Role | None = None
    """The role whose turns answer it: the user for "my keys", the assistant for "you suggested"."""

    @property
    def has_plain_words(self) -> bool:
        """Whether it has several words, and no path or other name of several parts."""
        return len(self.terms) > 1 and all(term.kind == "word" for term in self.terms)


def parse_query(text: str, today: int | None = None) -> ParsedQuery:
    """The terms of a query; none where it has no letter and no digit. `today` is the day on which it is asked."""
    text = normalized_text(text[:_QUERY_CHARS])
    pieces = _pieces_of(text)
    days, is_question = None, _is_question(text, pieces)
    if is_question and today is not None:
        days, at = days_named(case_folded(text), today)
        # The words of a date are seldom those of the message; they would find other dates.
        pieces = (_pieces_of(f"{text[: at.start]} {text[at.stop :]}") if days else []) or pieces
    plain = [(written, words[0]) for quoted, written, words in pieces if not quoted and len(words) == 1]
    drop_stop_words = (
        days is not None
        or any(not _says_nothing(*word) for word in plain)
        or any(quoted or len(words) > 1 for quoted, _, words in pieces)
    )
    terms: dict[Clause, QueryTerm] = {}
    parts: dict[Clause, QueryTerm] = {}
    row: list[str] = []
    for quoted, written, words in pieces:
        if drop_stop_words and not quoted and len(words) == 1 and _says_nothing(written, words[0]):
            continue
        row += words
        for term in _terms_of(quoted, written, words):
            terms.setdefault(term.any_of, term)
        for term in _parts_of(written) if len(pieces) > 1 and not quoted and written.isascii() else ():
            parts.setdefault(term.any_of, term)
    if len(terms) > 1:
        terms |= {clause: term for clause, term in parts.items() if clause not in terms}
    chosen = tuple(list(terms.values())[:MOST_TERMS])
    pairs = tuple(Phrase(pair) for pair in pairwise(row)) if len(chosen) > 1 else ()
    pairs = tuple(dict.fromkeys(pairs))[:MOST_TERMS]
    if not is_question:
        return ParsedQuery(chosen, pairs)
    return ParsedQuery(chosen, pairs, is_question, days, _speaker_of(case_folded(text)))


def _says_nothing(written: str, word: str) -> bool:
    """Whether it is a stop word or the label of a list item."""
    return is_stop_word(word) or _item_label.fullmatch(written) is not None


def may_ask(text: str) -> bool:
    """Whether a query may be a question; a cheap check that never misses one."""
    is_long = text.count(" ") + 1 >= _SENTENCE_WORDS
    return is_long or "?" in text or _asks_first.match(text) is not None or _asks_unspaced(text)


def _speaker_of(folded: str) -> Role | None:
    if _OF_ASSISTANT.search(folded):
        return "assistant"
    return "user" if _OF_USER.search(folded) or _NAMES_USER.search(folded) else None


def _is_question(text: str, pieces: list[tuple[bool, str, list[str]]]) -> bool:
    is_sentence = len(pieces) > 1 and not any(quoted for quoted, _, _ in pieces)
    if is_sentence and len(pieces) >= _SENTENCE_WORDS and sum(is_stop_word(it[2][0]) for it in pieces) >= _STOP_WORDS:
        return True
    return (is_sentence and (text.rstrip().endswith("?") or pieces[0][2][0] in _ASKING)) or _asks_unspaced(text)


def _asks_unspaced(text: str) -> bool:
    return not text.isascii() and _ASKING_UNSPACED.search(text) is not None


def _pieces_of(text: str) -> list[tuple[bool, str, list[str]]]:
    """Each piece of a query that has words: whether it was quoted, how it was written, its words."""
    pieces: list[tuple[bool, str, list[str]]] = []
    for match in _piece.finditer(text):
        quoted = match[3] is None
        written = match[1] or match[2] or match[3] or ""
        if not quoted and not written.isalnum() and (shortened := _shortened.fullmatch(written)) is not None:
            written = shortened[1] + shortened[2]
        words = words_of(case_folded(written))
        if words:
            pieces.append((quoted, written, words))
    return pieces


def _terms_of(quoted: bool, written: str, words: list[str]) -> list[QueryTerm]:
    if quoted and len(words) > 1:
        return [QueryTerm("phrase", (Phrase(tuple(words[:_PHRASE_WORDS])),), 2.0)]
    if quoted:
        return [QueryTerm("word", (Phrase((words[0],)),), 1.5)]
    if any(is_unspaced(word) for word in words):
        return _run_terms(words)
    if len(words) > 1:
        return [QueryTerm("name", _spellings(words), 1.5)]
    return [_word_term(written, words[0])]


def _word_term(written: str, word: str) -> QueryTerm:
    bare = written if written.isalnum() else "".join(character for character in written if character.isalnum())
    if bare.isascii() and not bare[1:].islower() and not bare.isupper():
        parts = [part.lower() for part in split_camel_case(bare)]
        if len(parts) > 1 and any(character.isupper() for character in bare[1:]):
            return QueryTerm("name", (Phrase((word,)), Phrase(tuple(parts))), 1.5)
    forms = forms_of(word) if word.isalpha() or not any(map(str.isdigit, word)) else (word,)
    return QueryTerm("word", tuple([Phrase((form,)) for form in forms]))


def _parts_of(written: str) -> list[QueryTerm]:
    """Parts of a long name that other texts may use: a file without folders and suffix, a name without its end."""
    file = _file.search(written)
    name = file[1] if file else written
    words = words_of(case_folded(name))
    if len(words) == 1 and file is None:
        words = [part.lower() for part in split_camel_case(name)]
    if file is None:
        words = words[:-1] if "/" not in written else []
    return [QueryTerm("name", _spellings(words), _PART_WEIGHT)] if len(words) > 1 else []


def _spellings(words: list[str]) -> Clause:
    """get_user_name as it is written, and as getUserName."""
    as_written = Phrase(tuple(words[:_PHRASE_WORDS]))
    return (as_written, Phrase(("".join(words),))) if len(words) <= 6 else (as_written,)


def _run_terms(words: list[str]) -> list[QueryTerm]:
    """A run of characters, and its pairs: a question is rarely in the text word for word."""
    terms: list[QueryTerm] = []
    run: list[str] = []
    for word in [*words, ""]:
        if word and is_unspaced(word):
            run.append(word)
            continue
        if len(run) > 2:
            terms.append(QueryTerm("run", (Phrase(tuple(run[:_PHRASE_WORDS])),), 1.5))
            terms += [QueryTerm("run", (Phrase(pair),), 0.5) for pair in pairwise(run)]
        elif run:
            terms.append(QueryTerm("run", (Phrase(tuple(run)),)))
        run = []
        if word:
            terms.append(_word_term(word, word))
    return terms


@dataclass(frozen=True, slots=True)
class TermMatch:
    """Where a term is in a text."""

    start: int
    stop: int
    spelling: int
    """Which spelling of the term: 0 is how it was written."""


class FoldedText:
    """A text and its case-folded form, in which every character has the same index."""

    __slots__ = ("folded", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.folded = case_folded(text)

    def matches(self, term: QueryTerm, most: int = MOST_MATCHES) -> list[TermMatch]:
        """Where a term is in the text, in order, the first `most`: the same matches as the index finds."""
        found: list[TermMatch] = []
        if term.stems:
            for shared, forms in term.stems:
                self._match_forms(shared, forms, found, most)
            is_sorted = len(term.stems) == 1
        else:
            for spelling, phrase in enumerate(term.any_of):
                found += (TermMatch(start, stop, spelling) for start, stop in self.find_phrase(phrase, most))
            is_sorted = len(term.any_of) == 1
        if not is_sorted:
            found.sort(key=lambda match: match.start)
        return found

    def _match_forms(self, shared: str, forms: Mapping[str, int], found: list[TermMatch], most: int) -> None:
        """Add where any of these forms of one word is. They begin alike, so that one pass finds them all."""
        folded, find = self.folded, self.folded.find
        start = find(shared)
        while start >= 0 and len(found) < most:
            stop = start + len(shared)
            if not start or not folded[start - 1].isalnum() or self._is_word_border(start):
                stop = self._word_end(stop)
                number = forms.get(folded[start:stop])
                if number is not None:
                    found.append(TermMatch(start, stop, number))
            start = find(shared, stop)

    def _word_end(self, index: int) -> int:
        found = _lower_run.match(self.text, index)
        if found is not None:
            index = found.end()
        # Most words end at a space or a sign, where this loop does not run.
        while index < len(self.text) and self.text[index].isalnum() and not self._is_word_border(index):
            index += 1
        return index

    def is_followed_by(self, stop: int, starts: Collection[int]) -> bool:
        """Whether the next word after an index begins at one of these indexes."""
        return self._next_word(stop) in starts

    def find_phrase(self, phrase: Phrase, most: int = MOST_MATCHES) -> list[tuple[int, int]]:
        """Where a phrase is: its whole words, with nothing but spaces and signs between them."""
        find, found = _phrase_pattern(phrase.words).search, list[tuple[int, int]]()
        match = find(self.folded)
        while match is not None and len(found) < most:
            is_whole = all(self._is_whole(match, number, phrase) for number in range(len(phrase.words)))
            if is_whole:
                found.append(match.span())
            match = find(self.folded, match.end() if is_whole else match.start() + 1)
        return found

    def _is_whole(self, match: re.Match[str], number: int, phrase: Phrase) -> bool:
        """Whether what matched a word of a phrase is a whole word, or a character of a script without spaces."""
        start, stop = match.span(number + 1)
        is_open = phrase.is_prefix and number == len(phrase.words) - 1
        return is_unspaced(match[number + 1]) or (
            self._is_word_border(start) and (is_open or self._is_word_border(stop))
        )

    def _next_word(self, index: int) -> int:
        text = self.folded
        while index < len(text) and not text[index].isalnum():
            index += 1
        return index

    def _is_word_border(self, index: int) -> bool:
        """Whether a word can begin or end at an index; parts of camelCase names are words."""
        text = self.text
        if index <= 0 or index >= len(text):
            return True
        before, after = text[index - 1], text[index]
        if not before.isalnum() or not after.isalnum():
            return True
        if before.isascii() and after.isascii():
            is_camel_case = after.isupper() and not before.isupper()
            return is_camel_case or (before.isupper() and after.isupper() and text[index + 1 : index + 2].islower())
        return is_unspaced(before) or is_unspaced(after)


@lru_cache(maxsize=1024)
def _phrase_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Words one after the other, with nothing but spaces and signs between them; each is a group."""
    return re.compile(r"[\W_]*".join(f"({re.escape(word)})" for word in words))


def _stems_of(any_of: Clause) -> tuple[tuple[str, Mapping[str, int]], ...]:
    """One-word spellings in groups that begin alike: what each group begins with, and the number of each spelling."""
    groups: dict[str, dict[str, int]] = {}
    for number, phrase in enumerate(any_of):
        groups.setdefault(phrase.words[0][:2], {})[phrase.words[0]] = number
    return tuple((_shared_start(forms), forms) for forms in groups.values())


def _shared_start(words: Collection[str]) -> str:
    """What all of these words begin with."""
    low, high = min(words), max(words)
    length = 0
    while length < len(low) and low[length] == high[length]:
        length += 1
    return low[:length]
