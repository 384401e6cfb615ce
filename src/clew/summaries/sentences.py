"""What a handoff quotes of the agent: its own sentences, with what each is worth telling.

A sentence is worth telling where it states what was found, decided, done or left open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from clew.ledger import atoms_in, deliberates, is_opening

_FENCE = "```"
# A list's number is no end. The pattern begins with a class of chars and looks back from it, since a search for one
# class is fast.
_ASCII_END = re.compile(
    r"\s(?:(?<=[.!?]\s)(?<!\n\d\.\s)(?<!\n\d\d\.\s)(?<!\n\d-\d\.\s)(?<!\n\d-\d\d\.\s)\s*|(?<=\n)\n*)"
)
_END = re.compile(rf"{_ASCII_END.pattern}|(?<=[。！？])")
_NO_SENTENCE = re.compile(r"\s*+(?:[^\n]*[─━═]{4}|#{1,6}\s|\*\*[^*]+\*\*:?\s*$|[-=*_]{3,}+\s*$|\|[\s:|-]++$)")
# A label behind which the agent says what came of it all.
_VERDICT = re.compile(
    r"\W*(?:(?P<all>summary|overall|conclusions?|verdict|tl;?dr|bottom line|root cause|总结|结论|まとめ|結論|요약|결론)"
    r"|outcome|result|status|finding|answer|main \w+)\b[\w ]{0,24}\W{0,3}[:：]",
    re.IGNORECASE,
)
_ANSWERS = re.compile(
    r"(?:yes|no|correct|exactly|not yet|ja|nein|oui|non|sí)\b[,.;:–—-]|(?:是的|对|不是|はい|いいえ)[,，、]", re.I
)
_BEGINS_HEADING = frozenset("#*-=_|")
"""What it begins with that is ASCII and no sentence."""
_SUMMARY = re.compile(
    r"\b(?:summary|overall|conclusions?|verdict|tl;?dr|in short|outcome)\b|总结|结论|まとめ|結論|요약|결론",
    re.IGNORECASE,
)
_HEADING_LINE = re.compile(r"^[ \t]*#{1,6} [^\n]*", re.MULTILINE)
_KEPT_BLANK = "\0"
"""Stands for a blank behind a dot in a heading, which is one sentence whatever numbers it has."""
_HEADING = re.compile(r"\s*(?:#{1,6}\s+|(?=\*\*))(.*?)[\s#]*\Z", re.DOTALL)
_NUMBER = re.compile(r"\W*\d{1,2}[.):]\s*")
_NUMBERED = re.compile(r"\W*\d{1,2}[.):]\W*\w")
_NAMES_SECTION = re.compile(
    r"\W*(?:what|how|why|when|where|who|next|files|list|table|\w+ing)\b|.*[:：?？]\**\Z", re.I | re.DOTALL
)
_STATES_LOUDLY = re.compile(r"[!✅❌✓✗⚠🔴🟠🟡🟢]")
_FEWEST_OF_REPORT, _FEWEST_WORDS_OF_FINDING = 2, 3
_FEWEST_WORDS_OF_HEADLINE, _FEWEST_WORDS_OF_PLAIN_HEADLINE = 4, 6
_LONGEST_HEADLINE = 160
_LABEL_LINE = re.compile(r"(?:#{1,6} |\*\*)\W*\w")
_LONGEST_LABEL = 60
_COLONS = (":", "：", ":**", "：**")
_LIST_ITEM = frozenset("-*|•0123456789")
_ENTRY = re.compile(r"[-*•+] |\d{1,2}[.):] |\|")
"""How an entry of a list or a row of a table begins, and a sentence in bold letters or with a figure does not."""
# Says little without the sentence before it.
_POINTS_BACK = re.compile(r"(?:these|this|that|those|it|they|both|which)\b", re.IGNORECASE)
_LABEL = re.compile(r"(?:[-*] )?\**[^*.:：]{1,40}(?:\*\*[:：]|[:：]\**) ?\S")
_STATING_WORDS = frozenset(
    "found fixed created added removed changed updated deleted installed because cause now passes passed fails failed "
    "work works working complete completed done confirmed means must cannot remaining instead verified pushed "
    "committed published enabled disabled successful successfully succeeded resolved ready saved uninstalled missing "
    "issue problem error bug fix need "
    "generated wrote written built configured implemented ported replaced moved renamed merged synced applied closed "
    "needs should return returns default only decided "
    "weil behoben erledigt fertig".split()
)
_STATING_BYTES = frozenset(map(str.encode, _STATING_WORDS))
_ASCII_STATING_PHRASES = ("so that", "turns out")
_STATING_PHRASES = (*_ASCII_STATING_PHRASES, "原因", "修复", "完成", "已", "需要", "问题", "決定", "修正")
# A question to oneself, a guess, what would be so in some case, or words of another, states no outcome.
_GUESSES = re.compile(
    r"[?？]\Z|\A[\"“].*[\"”]\Z|\b(?:maybe|perhaps|probably|not sure|i wonder|i guess|wait|would|might|could be"
    r"|supposed to|(?:should|must) (?:be|have))\b"
    r"|(?:\A|\b(?:so|but|and|then|because) )(?:if|suppose|assum(?:e|ing)|unless)\b",
    re.IGNORECASE,
)
_IN_GUESSES = (
    *'?？"“',
    *"maybe perhaps probably sure wonder guess wait would might could should must if suppose assum unless".split(),
)
# Said while thinking: what came of it is said later.
_MUSES = re.compile(
    r"(?:(?:but|so|and|or|oh),? )?(?:(?:wait|hmm+|maybe|perhaps|i wonder|let's see|i (?:can )?see|ah+|interesting"
    r"|this (?:is going to|will) be|that's a lot|looks like)\b|(?:good|ok(?:ay)?|right|great|nice),)",
    re.IGNORECASE,
)
_INTENDS = re.compile(
    r"\b(?:let me|let's|i(?:'ll| will| should| need to| want to| have to| can(?: now)?|'m going to)"
    r"|we (?:need to|should))\b",
    re.IGNORECASE,
)
# The same in lower case; it begins with a class of chars and looks back from it.
_ASCII_INTENDS = re.compile(
    r"[liw](?<!\w[liw])(?:(?<=l)et(?: me|'s)|(?<=w)e (?:need to|should)"
    r"|(?<=i)(?:'ll| will| should| need to| want to| have to| can(?: now)?|'m going to))\b",
    re.ASCII,
)
# What the agent tells itself to do, and does with the call that follows; and what only leads to code.
_TELLS_ITSELF = re.compile(
    r"(?:(?:and|then|now|also|so),? )?(?:re-?run|run|add|update|check|verify|remove|insert|replace|pass|apply) "
    r"(?=`|(?:the|an?|it|them|this|that|all|again)\b)(?:`[^`]*`|[^.:`]){1,60}[.:]?"
    r"|(?:(?:actually|yes|so|and|but),? )?(?:in )?`[^`]+`(?: (?:has|is|does|calls))?:",
    re.IGNORECASE,
)
_ONLY_LEADS = re.compile(r"(?:instead of|rather than|to|before|for|with|now that|given|based on)\b", re.IGNORECASE)
"""Begins what stands before an intent and says no more than that."""
# What the person may do next: before it stands what was done.
_ADVISES = re.compile(
    r"(?:(?:but|and|or|so|just),? )*(?:if you|you can|you could|you may|would you|want me to|do you want|shall i"
    r"|should i|let me know|feel free|please|run |to (?:use|test|run|start|try) )",
    re.IGNORECASE,
)
_THOUGHT_WORD = "THOUGHT:"
_THOUGHT = re.compile(rf"{_THOUGHT_WORD} *")
"""How some agents begin what they say before each call."""
_I_DID = re.compile(
    r"(?:i|we)(?:'ve| have)? (?:now |successfully |also )?(?!will\b|can\b|see\b|am\b|need\b|already\b)[a-z]+", re.I
)
_I_HAVE_DONE = re.compile(r"(?:i|we)(?:'ve| have) (?:now |successfully |also )?(?!not\b|already\b|to\b)[a-z]+", re.I)
_WORD = re.compile(r"\w+")
_BETWEEN_WORDS = bytes(code if _WORD.match(chr(code)) else ord(" ") for code in range(256))
"""To split the bytes of what is ASCII into its words, which takes a quarter of the time of the expression."""
_QUOTED_CODE = re.compile(r"`[^`]*`")
_TWO_WORDS = re.compile(r"\w\W+\w")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_EXTRA_WIDTH = 2
"""What a char of a script that writes a word in one or two chars counts beside itself."""
_NARROWEST, _NARROWEST_ITEM, _LONGEST = 25, 5, 700
_SHORT_CLOSING_CHARS, _TOLD_WHOLE_CHARS = 240, 180
_LEAST_CONCLUSION = 1.3
"""Less says a sentence in the middle of the work that stands for no outcome."""
_LEAST_OF_PROSE, _WORTH_OF_ANSWER = 0.6, 1.2
_FAVOUR_LATE = 0.8
_FEWEST_OF_ANSWER = 3
_LIST_CHARS, _OUTLINE_CHARS = 240, 480
TELLING_WIDTH = 40
"""A sentence that is to stand for an exchange is at least so wide."""
_GOOD_WIDTHS = range(TELLING_WIDTH, 301)
_MOST_STATED, _MOST_ATOMS = 4, 0.8
_LESS_IN_PASSING = 0.5
_WORDS_OF_FRAGMENT = 6
_FIGURE = re.compile(r"\d+")


class Sentence(NamedTuple):
    """A whole sentence or list item that the agent said."""

    text: str
    number: int
    order: int
    """Its place among those of its message."""
    worth: float
    conclusion: float = 0.0
    """How well it stands for what came of an exchange: what it states counts, not how many exact strings it has."""
    is_finding: bool = False
    """Whether it is one of the numbered headings of a report."""
    label: str = ""
    """What stands above the list that it is an entry of: "**Remaining:**"."""

    @property
    def chars(self) -> int:
        """What it takes in a handoff, quotes and reference included."""
        return len(self.text) + 14

    @property
    def width(self) -> int:
        """How much it may say: its chars, and more for those of a dense script."""
        return _width(self.text)


def sentences_in(
    text: str,
    number: int,
    worth_of: Callable[[str], float],
    *,
    with_openings: bool = False,
    in_passing: bool = False,
) -> list[Sentence]:
    """The sentences of a text, each with what it is worth telling; code and openings are left out, and of headings
    those that name a section and state nothing.

    Of what was said in passing, in the middle of the work, thoughts are left out too, and the rest is worth less.
    """
    found: list[Sentence] = []
    is_first, less = True, _LESS_IN_PASSING if in_passing else 0.0
    end = _ASCII_END if text.isascii() else _END
    # Before the first line stands an end too: the number of a list that begins a text is no sentence.
    plain = without_code(f"\n{text}" if text[:1].isdigit() else text)
    if "# " in plain:
        plain = _HEADING_LINE.sub(lambda found: found[0].replace(". ", f".{_KEPT_BLANK}"), plain)
    pieces = end.split(plain)
    is_summary = is_announced = False
    label = section = ""
    for order, raw in enumerate(piece.replace(_KEPT_BLANK, " ") for piece in pieces):
        said = " ".join(raw.split())
        is_heading = (said[:1] in _BEGINS_HEADING or not said.isascii()) and bool(_NO_SENTENCE.match(raw))
        said = _THOUGHT.sub("", said, count=1) if _THOUGHT_WORD in said else said
        if is_heading:
            is_summary = bool(_SUMMARY.search(said))
            label = said.lstrip("# ") if _LABEL_LINE.match(said) and len(said) <= _LONGEST_LABEL else ""
            finding = _finding_in(raw)
            is_numbered = bool(_NUMBERED.match(label))
            section = section if is_numbered else label
            if finding and not (in_passing and is_opening(_NUMBER.sub("", finding))):
                tone = _tone_of(finding)
                worth, conclusion = _worth(finding, tone, False, worth_of)
                is_first = False
                if not (in_passing and _is_thought(finding, tone)):
                    above = section if is_numbered else ""
                    found.append(Sentence(finding, number, order, worth - less, conclusion, is_numbered, above))
        is_item = is_announced and said[:1] in _LIST_ITEM
        narrowest = _NARROWEST_ITEM if is_item else _NARROWEST
        is_told = len(said) <= _LONGEST and _width(said) >= narrowest and not is_heading and _says_something(said)
        is_announced = is_item or (is_told and said.endswith((":", "："))) or (is_announced and not said)
        if not is_told or ((opens := is_opening(said)) and not with_openings):
            continue
        # What has a label of its own in bold letters is no entry of the list that one above it announces.
        tone, is_entry = _tone_of(said), said[0] in _LIST_ITEM and not (said[:2] == "**" and label.endswith(_COLONS))
        if not (in_passing and _is_thought(said, tone)):
            worth, conclusion = _worth(said, tone, is_first, worth_of, opens=opens)
            # In the middle of the work nobody asked.
            conclusion += _WORTH_OF_ANSWER * (is_first and not in_passing and bool(_ANSWERS.match(said)))
            conclusion += is_summary and said[0] not in _LIST_ITEM
            cut = "…" if order == len(pieces) - 1 and _is_cut(said) else ""
            above = label if is_entry else ""
            found.append(Sentence(said + cut, number, order, worth - less, conclusion, label=above))
        if not is_entry:
            label = said if said.endswith(_COLONS) and len(said) <= _LONGEST_LABEL else ""
        is_first = False
    return found


def closing_sentences(
    text: str, number: int, worth_of: Callable[[str], float], *, is_newest: bool = False
) -> list[Sentence]:
    """The sentences of an agent's last words on a request; a short answer is told whole: "42." may be all it says.

    Of the newest request also what the agent was about to do.
    """
    said = " ".join(text.split())
    if _NARROWEST < len(said) <= _TOLD_WHOLE_CHARS and not (_FENCE in text or is_opening(said)):
        worth = _worth(said, _tone_of(said), True, worth_of)
        return [Sentence(said + ("…" if _is_cut(said) else ""), number, 0, *worth)]
    found = sentences_in(text, number, worth_of, with_openings=is_newest)
    if not found and said and len(said) <= _SHORT_CLOSING_CHARS and (is_newest or not is_opening(said)):
        return [Sentence(said, number, 0, *_worth(said, _tone_of(said), True, worth_of, opens=is_opening(said)))]
    return found


def conclusion_of(closing: Sequence[Sentence], said: Sequence[Sentence], *, is_ended: bool) -> list[Sentence]:
    """The sentence that stands for what came of an exchange, with the list that it announces; empty where none does.

    Where the agent's last words did not end the exchange, one of all that it said, if it states an outcome: a late one
    rather than an early one.
    """
    by_age: list[Sentence] = []
    if not (closing and is_ended):
        stating = [
            one for one in said if _states_outcome(one) and one.width >= TELLING_WIDTH and not _guesses(one.text)
        ]
        by_age = sorted(stating, key=lambda one: (one.number, one.order))
    # A list or a few sentences are more than a passing thought.
    if closing and (is_ended or (not by_age and len(closing) >= _FEWEST_OF_ANSWER)):
        best = max(_may_conclude(closing), key=lambda one: (one.conclusion, -one.order))
        findings = [one for one in closing if one.is_finding]
        if len(findings) >= _FEWEST_OF_REPORT:
            if best.is_finding or not _states_outcome(best):
                return [*_as_far_as_short(findings)]
            loud = [one for one in findings if _STATES_LOUDLY.search(one.text) or _times_stating(one.text.lower())]
            return [best, *_as_far_as_short(loud)]
        return [best, *_list_behind(best, closing)]
    if not by_age:
        return []
    first, last = by_age[0].number, by_age[-1].number
    return [max(by_age, key=lambda one: one.conclusion + _FAVOUR_LATE * (one.number - first) / max(1, last - first))]


def findings_of(report: Sequence[Sentence], room: int) -> list[Sentence]:
    """What a report of another agent comes to in so many chars: the sentences that stand for it best, one at least."""
    ranked = sorted(_may_conclude(report), key=lambda one: (-one.conclusion, one.order)) if report else []
    told: list[Sentence] = []
    for one in ranked:
        says_more = len(_WORD.findall(_QUOTED_CODE.sub(" ", one.text))) >= _WORDS_OF_FRAGMENT
        if one.chars <= room and one.conclusion >= _LEAST_OF_PROSE and says_more:
            told.append(one)
            room -= one.chars
    return told or ranked[:1]


def without_code(text: str) -> str:
    """The text without fenced code, an end of a line in its place."""
    pieces = text.split(_FENCE)
    return "\n".join([*pieces[::2], ""] if len(pieces) % 2 == 0 else pieces[::2])


def code_in(text: str) -> list[str]:
    """The fenced code of a text, each with its fences."""
    return [f"{_FENCE}{code}{_FENCE}" for code in text.split(_FENCE)[1::2]]


def _may_conclude(closing: Sequence[Sentence]) -> Sequence[Sentence]:
    """Those of an agent's last words that may stand for them: whole sentences; entries of its lists where none tells.

    A list gives what is counted or named, and mostly more exact strings than the sentence that says what it comes to.
    """
    wide = [one for one in closing if one.width >= TELLING_WIDTH]
    whole = [one for one in closing if not _ENTRY.match(one.text) and not one.is_finding]
    prose = [one for one in whole if one.width >= TELLING_WIDTH or _I_HAVE_DONE.match(one.text)]
    return [one for one in prose if one.conclusion >= _LEAST_OF_PROSE] or wide or closing


def is_thought(said: str) -> bool:
    """Whether it only says what the agent is thinking of or about to do; in the middle of the work that is passing.

    Of several sentences, whether each of them does.
    """
    if _is_thought(said, _tone_of(said)):
        return True
    each = [one for one in (_ASCII_END if said.isascii() else _END).split(said) if one]
    return len(each) > 1 and all(_is_thought(one, _tone_of(one)) for one in each)


class _Tone(NamedTuple):
    """How something is said."""

    lowered: str
    intent: re.Match[str] | None
    muses: bool


def _tone_of(said: str) -> _Tone:
    lowered = said.lower()
    intent = _ASCII_INTENDS.search(lowered) if said.isascii() else _INTENDS.search(said)
    return _Tone(lowered, intent, _MUSES.match(said) is not None)


def _is_thought(said: str, tone: _Tone) -> bool:
    if deliberates(said) or _TELLS_ITSELF.fullmatch(said):
        return True
    if not (tone.intent or tone.muses):
        return False
    before = said[: tone.intent.start()] if tone.intent else said
    return bool(_ONLY_LEADS.match(before)) or not _times_stating(before.lower())


def _guesses(said: str) -> bool:
    # Plain strings are found many times as fast.
    return any(map(said.lower().__contains__, _IN_GUESSES)) and _GUESSES.search(said) is not None


def _states_outcome(one: Sentence) -> bool:
    return one.conclusion >= _LEAST_CONCLUSION and not _ENTRY.match(one.text)


def _finding_in(raw: str) -> str:
    """What a heading states; empty where it names a section: "Next steps", "What was changed"."""
    found = _HEADING.match(raw)
    said = " ".join(found[1].split()) if found else ""
    inner = said.strip("*")
    said = inner if "**" not in inner and said.startswith("**") else said
    words = len(_WORD.findall(said))
    if len(said) > _LONGEST_HEADLINE or words < _FEWEST_WORDS_OF_FINDING or is_opening(inner):
        return ""
    if _NUMBERED.match(said):
        return said if words > _FEWEST_WORDS_OF_FINDING else ""
    fewest = _FEWEST_WORDS_OF_HEADLINE if _STATES_LOUDLY.search(said) else _FEWEST_WORDS_OF_PLAIN_HEADLINE
    is_stated = words >= fewest and _times_stating(said.lower()) and not _NAMES_SECTION.match(said)
    return said if is_stated else ""


def _as_far_as_short(findings: Sequence[Sentence]) -> Iterator[Sentence]:
    room = _OUTLINE_CHARS
    for one in findings:
        room -= one.chars
        if room < 0 and one is not findings[0]:
            break
        yield one


def _list_behind(one: Sentence, sentences: Sequence[Sentence]) -> Iterator[Sentence]:
    """The entries of a list that a sentence announces, as far as they are short together."""
    room, order = _LIST_CHARS, one.order
    for entry in sentences if one.text.endswith((":", "：")) else ():
        if entry.order <= order:
            continue
        # An empty line may stand between.
        if entry.order > order + 2 or entry.text[0] not in _LIST_ITEM or entry.chars > room:
            break
        yield entry
        room, order = room - entry.chars, entry.order


def _says_something(said: str) -> bool:
    """Whether it is more than a piece of code: "`is_ignored("a.py")`:" states nothing."""
    return "`" not in said or bool(_TWO_WORDS.search(_QUOTED_CODE.sub(" ", said)))


def _is_cut(said: str) -> bool:
    """Whether the last sentence of a text was broken off, as a reply is that was interrupted."""
    if said.count("`") % 2 or said.endswith(","):
        return True
    return (
        said[-1].isalnum() and said[0] not in _LIST_ITEM and len(said.split()) > _WORDS_OF_FRAGMENT and said.isascii()
    )


def _width(text: str) -> int:
    return len(text) if text.isascii() else len(text) + _EXTRA_WIDTH * len(_WIDE.findall(text))


def _worth(
    said: str, tone: _Tone, is_first: bool, worth_of: Callable[[str], float], *, opens: bool = False
) -> tuple[float, float]:
    """What a sentence is worth telling, and how well it stands for an exchange. `opens`: it says what comes next."""
    # Both have a colon: a plain string is found many times as fast.
    has_label = ":" in said or "：" in said
    verdict = _VERDICT.match(said) if has_label else None
    is_label = has_label and not verdict and bool(_LABEL.match(said))
    atoms: float = sum(map(worth_of, sorted(atoms_in(said))))
    worth = 0.5 * min(_MOST_STATED, _times_stating(tone.lowered)) ** 0.5
    # A time, a price, a count: what cannot be guessed again, though it is too short to be an atom.
    worth += 0.2 * min(_MOST_STATED, len(_FIGURE.findall(said)))
    worth += (
        0.5 * (is_first and not is_label)
        + 0.6 * (_width(said) in _GOOD_WIDTHS)
        - 0.4 * said.endswith(("?", "？"))
        - 0.6 * tone.muses
        - 0.3 * (tone.intent is not None)
    )
    # Most expressions can only match behind some letters: those are looked at first.
    first = tone.lowered[0]
    conclusion = worth + min(_MOST_ATOMS, atoms) + 0.4 * (first in "iw" and bool(_I_DID.match(said)))
    conclusion += (2.0 if verdict["all"] else 1.2) if verdict else 0.0
    conclusion -= (
        0.9 * (not first.isalpha() and bool(_ENTRY.match(said)))
        + 0.7 * (first == "|")
        + 0.7 * said.endswith((":", "："))
        + 1.0 * is_label
    )
    conclusion -= 0.6 * (first in "tibw" and bool(_POINTS_BACK.match(said))) + 1.2 * opens
    conclusion -= 0.7 * (tone.intent is not None) + 0.7 * bool(_ADVISES.match(said))
    return worth + atoms, conclusion


def _times_stating(lowered: str) -> int:
    if lowered.isascii():
        words = lowered.encode().translate(_BETWEEN_WORDS).split()
        return sum(map(_STATING_BYTES.__contains__, words)) + sum(map(lowered.count, _ASCII_STATING_PHRASES))
    return sum(map(_STATING_WORDS.__contains__, _WORD.findall(lowered))) + sum(map(lowered.count, _STATING_PHRASES))


def by_worth(
    said: Mapping[int, Sequence[Sentence]], newest: int, last: Collection[int] = ()
) -> list[tuple[Sentence, int]]:
    """The sentences of several exchanges, each with its exchange, the most telling first; new ones tell more.

    Those of the exchanges in `last` come behind all others.
    """

    def order(found: tuple[Sentence, int]) -> tuple[bool, float, int, int]:
        one, n = found
        return n in last, -one.worth * (0.6 + 0.4 * n / max(1, newest)) / one.chars**0.6, one.number, one.order

    return sorted(((one, n) for n, own in said.items() for one in own), key=order)


def without_repeated(said: Iterable[Sentence], closing: Iterable[Sentence]) -> list[Sentence]:
    """What was said in passing, in the order of the messages, of what differs in numbers alone only the last; nothing
    that the closing words say again."""
    last = {_without_figures(one): one for one in said}
    for one in closing:
        last.pop(_without_figures(one), None)
    return list(last.values())


def _without_figures(one: Sentence) -> str:
    return _FIGURE.sub("0", one.text).rstrip(".:!")


def quoted_sentences(sentences: Sequence[Sentence], where: str = "") -> str:
    """Sentences of one message as one quote, what is left out between them marked."""
    ordered = sorted(sentences, key=lambda sentence: sentence.order)
    # Of a heading in bold letters the stars are left out where it is told as a finding.
    told = {one.text.strip("*: ") for one in ordered}
    text = ""
    for before, after in pairwise([None, *ordered]):
        assert after is not None
        is_next = before is not None and after.order == before.order + 1
        if before is not None:
            text += " … " if not is_next else "" if before.text.endswith(("。", "！", "？")) else " "
        if after.label and (label := after.label.strip("*: ")) not in told:
            text += f"{after.label} "
            told.add(label)
        text += after.text
    return f'"{text}" ({where or f"m{ordered[0].number}"})'
