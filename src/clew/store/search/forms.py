"""Other forms of an English word, for queries: those with the same stem (Snowball's), and irregular ones.

Forms are made from the query only: the index holds words as they were written. A form that does not exist is in no
document and does no harm. Words of other languages have one form.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files

# Endings that the stemmer removes. Which of them a word may have is decided by the stemmer.
_ENDINGS = (
    "", "e", "s", "es", "ed", "ing", "y", "ies", "ied", "ying", "er", "ers", "or", "ors", "ion", "ions",
    "ation", "ations", "ate", "ates", "ated", "ating", "ator", "ication", "ment", "ments", "ly",
)  # fmt: skip
_AFTER_DOUBLED = ("ed", "ing", "er")
_VOWELS = frozenset("aeiouy")
_SHORTEST_WORD = 3


@lru_cache(maxsize=4096)
def forms_of(word: str) -> tuple[str, ...]:
    """A word and its likely other forms, the word itself first: configured gives configure, configuration."""
    if len(word) < _SHORTEST_WORD or not (word.isascii() and word.isalpha()):
        return (word,)
    listed = next((_irregular_forms()[it] for it in (word, stem_of(word)) if it in _irregular_forms()), ())
    return tuple(dict.fromkeys([word, *listed, *_regular_forms(listed[0] if listed else word)]))


def _regular_forms(word: str) -> list[str]:
    base = stem_of(word)
    candidates = [base + ending for ending in _ENDINGS]
    if base[-1] not in _VOWELS:
        candidates += [base + base[-1] + ending for ending in _AFTER_DOUBLED]
    return [form for form in candidates if stem_of(form) == base]


@cache
def _irregular_forms() -> dict[str, tuple[str, ...]]:
    """By each irregular form all forms of the word, the base form first."""
    text = files("clew.store.search").joinpath("irregular_forms.txt").read_text(encoding="utf-8")
    lines = [tuple(line.split()) for line in text.splitlines() if not line.startswith("#")]
    return {form: forms for forms in reversed(lines) for form in forms}


@lru_cache(maxsize=1 << 16)
def stem_of(word: str) -> str:
    """The stem of an English word in lower case, the same for all of its regular forms."""
    # Imported late: that takes as long as a small command. A stemmer is not thread-safe, so each word gets one.
    from snowballstemmer.english_stemmer import EnglishStemmer

    # retri is the stem of retry, and verif that of verification.
    return str(EnglishStemmer().stemWord(word)).removesuffix("i")
