"""What people and agents say: whose words a user message holds, rules, cancellations, answers to a choice.

Speakers are found by structure first (sender, tags, what loaded the text, repetition), then by the openings that
programs use. The words are rows of `harness.toml` and `speech.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from clew.facts.data import load_table
from clew.facts.text import Block, flatten, has_one, prose_pieces, tagged_blocks, without_blocks
from clew.lazy import lazy_pattern

_HARNESS = load_table("harness.toml")
_SPEECH = load_table("speech.toml")
_LIMITS = _SPEECH["limits"]
_LONGEST_RULE_CHARS = _LIMITS["longest_rule_chars"]
_SHORT_REQUEST_CHARS = _LIMITS["short_request_chars"]
_LONGEST_BEFORE_MARK = _LIMITS["longest_before_mark"]
_LONGEST_ANNOUNCEMENT = _LIMITS["longest_announcement"]
_FEWEST_WORDS_OF_OBJECT = _LIMITS["fewest_words_of_object"]
_RULES_READ_CHARS = _LIMITS["rules_read_chars"]
_LONGEST_CANCELLATION = _LIMITS["longest_cancellation"]
_LONGEST_PROHIBITION = _LIMITS["longest_prohibition"]
_MOST_DECISIONS = _LIMITS["most_decisions"]
_OPENINGS = tuple(_HARNESS["openings"])
_NAMES = frozenset(_HARNESS["names"])
_NOTICES, _TRAILERS = tuple(_HARNESS["notices"]), tuple(_HARNESS["trailers"])


def _opening_tag(names: Iterable[str]) -> re.Pattern[str]:
    return lazy_pattern(rf"<({'|'.join(map(re.escape, names))})(?:\s[^<>\n]*)?>\n?", re.IGNORECASE)


_OF_PROGRAMS = _opening_tag(_HARNESS["tags"])
_OF_REQUESTS = _opening_tag(_HARNESS["request_tags"])
_OF_ANSWERS = _opening_tag(_HARNESS["result_tags"])
_OF_SEVERAL_WORDS = lazy_pattern(r"^<(\w+(?:[-_]\w+)+)(?:\s[^<>\n]*)?>", re.MULTILINE)
"""Tags at the start of a line, such as <plan-mode>: programs write those, also ones that are not listed."""
_REQUEST_TAGS = frozenset(_HARNESS["request_tags"])
_RESULT_OPENINGS = tuple(f"<{tag}>" for tag in _HARNESS["result_tags"])
_RESULT_MARKS = tuple(_HARNESS["result_marks"])
_WORD = lazy_pattern(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_LABEL = lazy_pattern(r"[A-Z][A-Z]+(?: [A-Z]+){0,3}: (?:\S+ +){3}")
"""A label in capitals before a sentence, by which people mark what must be remembered."""
_DESCRIBED = lazy_pattern(
    r"\b(?:i|it|they|he|she|you) (?:don't|dont|do not|can't|cannot)\b"
    r"|\b(?:never|always) (?:\w*[^\Ws]s|\w*[^\We]ed|been|be)\b"
)
"""A description of what a person does not do or know, or of what never happens, is no rule."""
_CODE = lazy_pattern(r"`[^`]*`|\S*\w[._(]\w\S*|\w+\(\S*")
_CLAUSE = lazy_pattern(r"(?:^|[,;:.!(–—-]|\b(?:and|but|then|so|please|you|also|und|bitte))\W*$")
_PASTED = lazy_pattern(r"""\\[nt"]|"\s*:\s*["{\[\d]|[}\]]{2}|^[+>$|@#] |^[-+] ?\d|^File \"""")
"""Marks of a line of output that a person pasted into a long message."""
_DEPENDENT = ("and ", "but ", "also ", "it ", "that ", "this ", "they ", "so ", "or ", "then ", "same ", "agreed")
_NUMBERED = lazy_pattern(r"^\s*(?:\*\*)?(?:[Oo]ption )?(\d{1,2})[.):]\s*(?:\*\*)?\s*(.+)$", re.MULTILINE)
_CHOICE = lazy_pattern(r"(?:options? |number |#)?(\d{1,2})(?:\s*(?:,|and|&|\+)\s*(\d{1,2}))?[.!)]?")


class Markers:
    """Words and phrases in lower case; a text is marked when it has one of them."""

    def __init__(self, row: dict[str, object]) -> None:
        self.words = frozenset(str(row.get("words", "")).split())
        self.phrases, self.openings, self.exceptions = (
            tuple(map(str, listed)) if isinstance(listed := row.get(name), list) else ()
            for name in ("phrases", "openings", "not")
        )
        self._in_ascii = tuple(filter(str.isascii, self.phrases))

    def found_in(self, lowered: str) -> bool:
        if has_one(lowered, self._in_ascii if lowered.isascii() else self.phrases):
            return True
        return (bool(self.words) and not self.words.isdisjoint(_WORD.findall(lowered))) or (
            bool(self.openings) and lowered.startswith(self.openings)
        )


RULE, CANCEL, CONTINUE, CONFIRM, FORBID, THANKS, OPEN, DECISION, INTENT = (
    Markers(_SPEECH[name])
    for name in ("rule", "cancel", "continue", "confirm", "forbid", "thanks", "open", "decision", "intent")
)
_WEAK_WORDS, _WEAK_PHRASES = _SPEECH["rule"]["weak"].split(), _SPEECH["rule"]["weak_phrases"]
_WEAK = lazy_pattern(rf"\b(?:{'|'.join(_WEAK_WORDS)})\b(?! of\b)|{'|'.join(map(re.escape, _WEAK_PHRASES))}")
STRONG_RULE = Markers(
    {
        "words": " ".join(RULE.words.difference(_WEAK_WORDS)),
        "phrases": [phrase for phrase in RULE.phrases if phrase not in _WEAK_PHRASES],
        "openings": list(RULE.openings),
    }
)
_CANCELLED = frozenset(_SPEECH["cancel"]["objects"].split())
_REPLACES = tuple(_SPEECH["rule"]["replaces"])
_DECISION_CHARS = range(20, 300)
_OTHER_PHRASES = tuple(phrase for phrase in DECISION.phrases if not phrase.isascii())
_ONE_WORD_PHRASES = tuple(phrase for phrase in DECISION.phrases if phrase.isascii() and " " not in phrase)
_PHRASES_BY_WORD: dict[str, list[str]] = {}
for _phrase in DECISION.phrases:
    if _phrase.isascii() and " " in _phrase:
        _PHRASES_BY_WORD.setdefault(_WORD.findall(_phrase)[0], []).append(_phrase)
_SENTENCE_MARKS = (". ", "! ", "? ", "。")


# -- whose words -------------------------------------------------------------------------------------------------------


def person_text(text: str, sender: object = "") -> str:
    """The part of a user message that a person wrote; empty where a program wrote all of it."""
    if isinstance(sender, str) and sender in _NAMES:
        return ""
    said = text.strip()
    if "<" in said:
        said = without_blocks(said, tagged_blocks(said, _OF_PROGRAMS), "\n").strip()
        # A message that would be empty without such a block may be what a person pasted.
        said = without_blocks(said, _blocks_of_programs(said), "\n").strip() or said
        requests = list(tagged_blocks(said, _OF_REQUESTS))
        if requests:
            inside = said[requests[0].inside : requests[0].inside_stop].strip()
            beside = without_blocks(said, requests).strip()
            # Instructions around a tagged request are the harness' own where they are long.
            said = inside if not beside or len(beside) > len(inside) // 4 else said
    for trailer in _TRAILERS:
        said = said.partition(trailer)[0]
    for notice in _NOTICES:
        if notice in said:
            said = "\n".join(line for line in said.split("\n") if not line.strip().startswith(notice))
    said = said.strip()
    return "" if said.startswith(_OPENINGS) else said


def _blocks_of_programs(text: str) -> Iterator[Block]:
    """The blocks of whole lines between tags of several words."""
    for block in tagged_blocks(text, _OF_SEVERAL_WORDS):
        end = text.find("\n", block.stop)
        if block.name not in _REQUEST_TAGS and not text[block.stop : end if end >= 0 else None].strip():
            yield block


def person_in_result(text: str) -> str:
    """What a person says inside of a tool result, such as the reason for which a call was denied."""
    if "<" in text and any(opening in text for opening in _RESULT_OPENINGS):
        for block in tagged_blocks(text, _OF_ANSWERS):
            return text[block.inside : block.inside_stop].strip()
    for mark in _RESULT_MARKS:
        at = text.find(mark, 0, _LONGEST_BEFORE_MARK + len(mark))
        if at >= 0 and (said := text[at + len(mark) :]):
            return said.strip()
    return ""


# -- rules and requests ------------------------------------------------------------------------------------------------


def rules_in(text: str) -> list[str]:
    """The sentences of a person that state a rule, each with the sentence before it where it has no object itself."""
    if len(text) <= _SHORT_REQUEST_CHARS:
        # A short message is one thought: a rule in it includes what it applies to.
        return [flatten(text)] if any(map(_states_rule, prose_pieces(text))) else []
    rules: list[str] = []
    before = ""
    for piece in prose_pieces(text[:_RULES_READ_CHARS]):
        if _states_rule(piece, is_long=True):
            lowered = piece.lower()
            needs_object = len(_WORD.findall(piece)) < _FEWEST_WORDS_OF_OBJECT or lowered.startswith(_DEPENDENT)
            whole = f"{before} {piece}" if needs_object and before and before not in rules else piece
            rules.append(flatten(whole))
        before = piece
    return rules


def _states_rule(piece: str, *, is_long: bool = False) -> bool:
    """Whether a sentence states a rule. In a long message, much of which describes, it must be said as one."""
    lowered = piece.lower().replace("’", "'")
    is_labelled = bool(_LABEL.match(piece))
    # Most sentences have no word of a rule, which is tested first.
    if not is_labelled and not RULE.found_in(lowered):
        return False
    if len(piece) > _LONGEST_RULE_CHARS or is_question(piece) or (is_long and _PASTED.search(piece)):
        return False
    if is_labelled:
        return True
    stated = _DESCRIBED.sub(" ", lowered)
    if is_long:
        stated = _CODE.sub(" ", stated)
    if (stated != lowered and not RULE.found_in(stated)) or has_one(stated, RULE.exceptions):
        return False
    return not is_long or STRONG_RULE.found_in(stated) or _begins_clause(stated)


def _begins_clause(lowered: str) -> bool:
    """Whether a clause of the sentence begins with a weak marker of a rule."""
    return any(_CLAUSE.search(lowered[: found.start()]) for found in _WEAK.finditer(lowered))


def replaces_rule(text: str) -> bool:
    """Whether a rule says that another one no longer holds."""
    return has_one(text.lower(), _REPLACES)


def decisions_in(text: str) -> list[str]:
    """The sentences of an agent that say what was decided or found, and why; guesses and questions are left out."""
    lowered = text.lower()
    if len(lowered) != len(text):
        return []
    found: dict[int, str] = {}
    for phrase in _decision_phrases(lowered):
        at = lowered.find(phrase)
        while at >= 0:
            start, end = _sentence_around(lowered, at)
            if start not in found:
                is_stated = end - start in _DECISION_CHARS and _is_stated(lowered[start:end])
                found[start] = text[start:end] if is_stated and not text.count("```", 0, start) % 2 else ""
            at = lowered.find(phrase, end)
    return [found[start] for start in sorted(found) if found[start]][:_MOST_DECISIONS] if found else []


def _decision_phrases(lowered: str) -> Iterable[str]:
    """The phrases that a text may have, found by its words; a phrase of several words has its first word in it."""
    whole = _ONE_WORD_PHRASES if lowered.isascii() else (*_ONE_WORD_PHRASES, *_OTHER_PHRASES)
    words = _WORD.findall(lowered)
    if _PHRASES_BY_WORD.keys().isdisjoint(words):
        return whole
    known = _PHRASES_BY_WORD.keys() & words
    return (*whole, *(phrase for word in known for phrase in _PHRASES_BY_WORD[word]))


def _sentence_around(text: str, at: int) -> tuple[int, int]:
    """Where the sentence of a line begins and ends."""
    start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    end = len(text) if end < 0 else end
    for mark in _SENTENCE_MARKS:
        before, after = text.rfind(mark, start, at), text.find(mark, at, end)
        start = before + len(mark) if before >= 0 else start
        end = after + 1 if after >= 0 else end
    return start, end


def _is_stated(lowered: str) -> bool:
    if lowered.rstrip("*_ ").endswith((":", "：", "?", "？")):
        return False
    return not has_one(lowered, DECISION.exceptions)


def is_question(text: str) -> bool:
    return text.rstrip().endswith(("?", "？"))


def cancels(text: str) -> bool:
    """Whether a short request takes the one before it back."""
    lowered = text.lower().strip()
    if len(lowered) >= _LONGEST_CANCELLATION:
        return False
    words = _WORD.findall(lowered.partition(".")[0].partition(",")[0])
    is_order = bool(words) and words[0] in CANCEL.words and _CANCELLED.issuperset(words[1:])
    return is_order or lowered.startswith(CANCEL.phrases)


def announces(text: str) -> bool:
    """Whether a short text of an agent only says what it is going to do."""
    said = text.strip()
    return len(said) < _LONGEST_ANNOUNCEMENT and said.lower().startswith(INTENT.openings) and "\n" not in said


def concludes(sentence: str) -> bool:
    """Whether a sentence says something by itself: no heading, question, announcement, or opening of a list."""
    return not (
        sentence.startswith("#")
        or sentence.rstrip("*_ `").endswith((":", "："))
        or is_question(sentence)
        or sentence.lower().startswith(INTENT.openings)
    )


def is_thanks(text: str) -> bool:
    return _begins_few_words(text, THANKS)


def confirms(text: str) -> bool:
    """Whether a request only agrees."""
    return _begins_few_words(text, CONFIRM)


def _begins_few_words(text: str, markers: Markers) -> bool:
    words = _WORD.findall(text.lower())
    return 0 < len(words) <= 4 and words[0] in markers.words and not is_question(text)


def continues(text: str) -> bool:
    """Whether a request only says to continue."""
    lowered = text.lower().strip(" .!¡")
    return len(lowered) < 40 and any(
        # Scripts without blanks between words have no end of a word to look for.
        lowered.startswith(phrase) and not (phrase.isascii() and lowered[len(phrase) :][:1].isalpha())
        for phrase in CONTINUE.phrases
    )


def forbids(text: str) -> bool:
    """Whether a short request only says what not to do."""
    return len(text) <= _LONGEST_PROHIBITION and FORBID.found_in(text.lower().replace("’", "'").lstrip(" *-"))


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
    question = asks_back(offer)
    # A word to continue answers an offer, but no other question.
    return "" if continues(answer) and not OPEN.found_in(question.lower()) else question
