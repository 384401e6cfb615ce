"""What people and agents say: whose words a user message holds, rules, cancellations, answers to a choice.

Speakers are found by structure first (sender, tags, what loaded the text, repetition), then by the openings that
programs use. The words are rows of `harness.toml` and `speech.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from posixpath import basename

from clew.facts.data import load_table
from clew.facts.text import flatten, prose_pieces

_HARNESS = load_table("harness.toml")
_SPEECH = load_table("speech.toml")
_OPENINGS = tuple(_HARNESS["openings"])
_NAMES = frozenset(_HARNESS["names"])
_NOTICES, _TRAILERS = tuple(_HARNESS["notices"]), tuple(_HARNESS["trailers"])
_BLOCK = re.compile(rf"<({'|'.join(map(re.escape, _HARNESS['tags']))})\b[^<>\n]*>.*?</\1>", re.DOTALL | re.IGNORECASE)
_REQUEST = re.compile(rf"<({'|'.join(_HARNESS['request_tags'])})\b[^<>\n]*>\n?(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_LONGEST_RULE_CHARS = 400
_SHORT_REQUEST_CHARS = 240
_FEWEST_WORDS_OF_OBJECT = 5
_DEPENDENT = ("and ", "but ", "also ", "it ", "that ", "this ", "they ", "so ", "or ", "then ", "same ", "agreed")
_RULES_READ_CHARS = 12_000
_NUMBERED = re.compile(r"^\s*(?:\*\*)?(?:[Oo]ption )?(\d{1,2})[.):]\s*(?:\*\*)?\s*(.+)$", re.MULTILINE)
_CHOICE = re.compile(r"(?:options? |number |#)?(\d{1,2})(?:\s*(?:,|and|&|\+)\s*(\d{1,2}))?[.!)]?")


class Markers:
    """Words and phrases in lower case; a text is marked when it has one of them."""

    def __init__(self, row: dict[str, object]) -> None:
        self.words = frozenset(str(row.get("words", "")).split())
        phrases, openings = row.get("phrases"), row.get("openings")
        self.phrases = tuple(map(str, phrases)) if isinstance(phrases, list) else ()
        self.openings = tuple(map(str, openings)) if isinstance(openings, list) else ()

    def found_in(self, lowered: str) -> bool:
        return (
            (bool(self.words) and not self.words.isdisjoint(_WORD.findall(lowered)))
            or any(phrase in lowered for phrase in self.phrases)
            or (bool(self.openings) and lowered.startswith(self.openings))
        )


RULE, CANCEL, CONTINUE, THANKS, DONE, OPEN, DECISION, INTENT = (
    Markers(_SPEECH[name]) for name in ("rule", "cancel", "continue", "thanks", "done", "open", "decision", "intent")
)
_NO_RULE = tuple(_SPEECH["rule"]["not"])
_GOVERNING = frozenset(_SPEECH["governing"]["names"].split())


# -- whose words -------------------------------------------------------------------------------------------------------


def person_text(text: str, sender: str = "") -> str:
    """The part of a user message that a person wrote; empty where a program wrote all of it."""
    if sender in _NAMES:
        return ""
    said = text.strip()
    if "<" in said:
        said = _BLOCK.sub("\n", said).strip()
        if found := _REQUEST.search(said):
            inside = found[2].strip()
            beside = _REQUEST.sub("", said).strip()
            # Instructions around a tagged request are the harness' own where they are long.
            said = inside if not beside or len(beside) > len(inside) // 4 else said
    for trailer in _TRAILERS:
        said = said.partition(trailer)[0]
    for notice in _NOTICES:
        if notice in said:
            said = "\n".join(line for line in said.split("\n") if not line.strip().startswith(notice))
    said = said.strip()
    return "" if said.startswith(_OPENINGS) else said


# -- rules and requests ------------------------------------------------------------------------------------------------


def rules_in(text: str) -> list[str]:
    """The sentences of a person that state a rule, each with the sentence before it where it has no object itself."""
    if len(text) <= _SHORT_REQUEST_CHARS:
        # A short message is one thought: a rule in it includes what it applies to.
        return [flatten(text)] if any(map(_states_rule, prose_pieces(text))) else []
    rules: list[str] = []
    before = ""
    for piece in prose_pieces(text[:_RULES_READ_CHARS]):
        if _states_rule(piece):
            lowered = piece.lower()
            needs_object = len(_WORD.findall(piece)) < _FEWEST_WORDS_OF_OBJECT or lowered.startswith(_DEPENDENT)
            whole = f"{before} {piece}" if needs_object and before and before not in rules else piece
            rules.append(flatten(whole))
        before = piece
    return rules


def _states_rule(piece: str) -> bool:
    lowered = piece.lower().replace("’", "'")
    return (
        len(piece) <= _LONGEST_RULE_CHARS
        and not lowered.rstrip().endswith(("?", "？"))
        and RULE.found_in(lowered)
        and not any(phrase in lowered for phrase in _NO_RULE)
    )


def is_question(text: str) -> bool:
    return text.rstrip().endswith(("?", "？"))


def cancels(text: str) -> bool:
    """Whether a short request takes the one before it back."""
    lowered = text.lower().strip()
    return len(lowered) < 120 and CANCEL.found_in(lowered) and lowered.startswith(CANCEL.phrases)


def is_thanks(text: str) -> bool:
    words = _WORD.findall(text.lower())
    return 0 < len(words) <= 4 and words[0] in THANKS.words and not is_question(text)


def continues(text: str) -> bool:
    """Whether a request only says to go on."""
    lowered = text.lower().strip(" .!")
    return len(lowered) < 40 and lowered.startswith(CONTINUE.phrases)


def asks_back(text: str) -> str:
    """The question with which an agent's reply ends; empty where it asks nothing."""
    pieces = list(prose_pieces(text[-1_500:]))
    for piece in reversed(pieces[-4:]):
        if is_question(piece) or OPEN.found_in(piece.lower()):
            return flatten(piece)
    return ""


def chosen_option(answer: str, offer: str) -> str:
    """What a short answer chose: the option of its number, else the question that it answers."""
    found = _CHOICE.fullmatch(answer.strip().lower().removeprefix("start with ").removeprefix("do "))
    if found:
        options = {int(number): text for number, text in _NUMBERED.findall(offer)}
        chosen = [options[int(number)] for number in found.groups() if number and int(number) in options]
        if chosen:
            return "; ".join(flatten(text).replace("**", "") for text in chosen)
    return asks_back(offer)


def is_governing(path: str) -> bool:
    """Whether a file is a plan, a specification or rules by its name."""
    stem = basename(path.replace("\\", "/")).rsplit(".", 1)
    if len(stem) > 1 and stem[1].lower() not in ("md", "txt", "rst", "mdx", "org", "adoc"):
        return False
    return not _GOVERNING.isdisjoint(re.split(r"[\W_\d]+", stem[0].lower()))


def demands_in(pieces: Sequence[str]) -> list[str]:
    """Of the pieces of a governing document, those that demand something."""
    return [piece for piece in pieces if RULE.found_in(piece.lower()) or piece.lstrip().startswith(("- [", "* ["))]
