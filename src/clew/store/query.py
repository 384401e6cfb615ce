"""A query as terms: words with their forms, names with their parts, phrases, runs of characters without spaces.

Anything typed is a query, and none is a mistake. Knows no database and no ranking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from clew.store.lookup import Clause, Phrase
from clew.store.wordforms import forms_of, is_stop_word
from clew.store.words import folded, is_unspaced, split_humps, whole_text, words_of

TermKind: TypeAlias = Literal["word", "name", "phrase", "run"]

MOST_TERMS = 12
_QUERY_CHARS = 2_000
_piece = re.compile(r'"([^"]*)"|“([^”]*)”|(\S+)')
_MOST_WORDS_IN_A_PHRASE = 24


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One thing that is looked for, in any of its spellings; the first is how it was written.

    Told apart by identity: terms are keys all through a search, and hashing their spellings would cost more than it.
    """

    kind: TermKind
    any_of: Clause
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What is looked for, and what would be even better: neighbouring words as a phrase."""

    terms: tuple[Term, ...]
    neighbours: tuple[Phrase, ...]


def parse_query(text: str) -> ParsedQuery:
    """The terms of a query; none when it holds no letter and no digit."""
    pieces = _pieces_of(whole_text(text[:_QUERY_CHARS]))
    plain = [words[0] for quoted, _, words in pieces if not quoted and len(words) == 1]
    drop_stop_words = any(not is_stop_word(word) for word in plain) or any(
        quoted or len(words) > 1 for quoted, _, words in pieces
    )
    terms: dict[Clause, Term] = {}
    row: list[str] = []
    for quoted, written, words in pieces:
        if drop_stop_words and not quoted and len(words) == 1 and is_stop_word(words[0]):
            continue
        row += words
        for term in _terms_of(quoted, written, words):
            terms.setdefault(term.any_of, term)
    chosen = tuple(list(terms.values())[:MOST_TERMS])
    pairs = tuple(Phrase(pair) for pair in pairwise(row)) if len(chosen) > 1 else ()
    return ParsedQuery(chosen, tuple(dict.fromkeys(pairs))[:MOST_TERMS])


def _pieces_of(text: str) -> list[tuple[bool, str, list[str]]]:
    """(was it quoted, as written, its words) for each piece that has words."""
    pieces: list[tuple[bool, str, list[str]]] = []
    for match in _piece.finditer(text):
        quoted = match[3] is None
        written = match[1] or match[2] or match[3] or ""
        words = words_of(folded(written))
        if words:
            pieces.append((quoted, written, words))
    return pieces


def _terms_of(quoted: bool, written: str, words: list[str]) -> list[Term]:
    if quoted and len(words) > 1:
        return [Term("phrase", (Phrase(tuple(words[:_MOST_WORDS_IN_A_PHRASE])),), 2.0)]
    if quoted:
        return [Term("word", (Phrase((words[0],)),), 1.5)]
    if any(is_unspaced(word) for word in words):
        return _run_terms(words)
    if len(words) > 1:
        return [Term("name", _spellings(words), 1.5)]
    return [_word_term(written, words[0])]


def _word_term(written: str, word: str) -> Term:
    bare = "".join(character for character in written if character.isalnum())
    parts = [part.lower() for part in split_humps(bare)] if bare.isascii() else []
    if len(parts) > 1 and any(character.isupper() for character in bare[1:]) and not bare.isupper():
        return Term("name", (Phrase((word,)), Phrase(tuple(parts))), 1.5)
    forms = (word,) if any(character.isdigit() for character in word) else forms_of(word)
    return Term("word", tuple(Phrase((form,)) for form in forms))


def _spellings(words: list[str]) -> Clause:
    """get_user_name as it is written, and as getUserName."""
    whole = Phrase(tuple(words[:_MOST_WORDS_IN_A_PHRASE]))
    return (whole, Phrase(("".join(words),))) if len(words) <= 6 else (whole,)


def _run_terms(words: list[str]) -> list[Term]:
    """A run without spaces as its pairs of characters: a question never stands word for word in the text."""
    terms: list[Term] = []
    run: list[str] = []
    for word in [*words, ""]:
        if word and is_unspaced(word):
            run.append(word)
            continue
        if len(run) > 2:
            terms.append(Term("run", (Phrase(tuple(run[:_MOST_WORDS_IN_A_PHRASE])),), 1.5))
            terms += [Term("run", (Phrase(pair),), 0.5) for pair in pairwise(run)]
        elif run:
            terms.append(Term("run", (Phrase(tuple(run)),)))
        run = []
        if word:
            terms.append(_word_term(word, word))
    return terms
