"""Other forms of an English word, made for a query: configured also asks for configure and configuration.

Forms that do not exist cost one look into the index and find nothing, so that rules may be generous. Other languages
are asked for as they are written.
"""

from __future__ import annotations

from functools import lru_cache

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be been before being but by can could did do does doing for from
    had has have having he her here him his how i if in into is it its just me more most my no nor not of off on once
    only or other our out over own please she should so some such tell than that the their them then there these they
    this those through to too under until up us very was we were what when where which while who whom why will with
    would you your""".split()
)

# What is taken off a word, longest first, and what its stem may then end in.
_SUFFIXES = (
    "ications", "ication", "ations", "ation", "ators", "ator", "ments", "ment", "ings", "ing", "ions", "ion",
    "ies", "ied", "iers", "ier", "ers", "er", "ors", "or", "ed", "es", "ly", "s", "e", "y",
)  # fmt: skip
_ENDINGS = ("", "s", "e", "es", "ed", "ing", "er", "ers", "ion", "ions", "ation", "ations", "or", "ment")
_Y_ENDINGS = ("y", "ies", "ied", "ying", "ication")
_VOWELS = frozenset("aeiouy")
_SHORTEST_STEM = 3
_LONGEST_DOUBLED = 5
_MOST_FORMS = 32


def is_stop_word(word: str) -> bool:
    return word in STOP_WORDS


@lru_cache(maxsize=4096)
def forms_of(word: str) -> tuple[str, ...]:
    """A word and its likely other forms, the word itself first."""
    if not (word.isascii() and word.isalpha()) or len(word) <= _SHORTEST_STEM:
        return (word,)
    stems = _stems(word)
    forms = dict.fromkeys([word, *(() if word in stems else (word + "s",))])
    for stem in stems:
        forms.update(dict.fromkeys(stem + ending for ending in _ENDINGS))
        if stem[-1] not in _VOWELS:
            forms.update(dict.fromkeys(stem + ending for ending in _Y_ENDINGS))
            if len(stem) <= _LONGEST_DOUBLED:
                # run, running; drop, dropped
                forms.update(dict.fromkeys(stem + stem[-1] + ending for ending in ("ed", "ing", "er")))
    return tuple(forms)[:_MOST_FORMS]


def _stems(word: str) -> list[str]:
    """The word without its ending, and without a doubled consonant before it; the word itself when it has none."""
    if word.endswith("ss"):
        return [word]
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            stem = word[: -len(suffix)]
            if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2] and stem[-1] not in "sl":
                return [stem[:-1], stem]
            return [stem]
    return [word]
