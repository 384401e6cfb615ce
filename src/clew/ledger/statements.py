"""What people and the agent said that must outlive the conversation: rules, decisions, questions.

Reads prose, sentence by sentence, in the languages it knows markers of. Knows nothing of tools or files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["rule", "decision"]

_LONGEST_RULE = 400
_LONGEST_HARD_RULE = 1_000
_DECISION_CHARS = range(20, 260)
# A pasted document has rules of its own, which are not the user's: only both ends of a very long message are read.
_READ_CHARS = 3_000


class Markers:
    """Words and phrases, lower case, of which one is enough."""

    def __init__(self, words: str, *phrases: str) -> None:
        self.words = frozenset(words.split())
        # With what may stand behind a word, so that a text need only be split, not cleaned.
        self._as_written = frozenset(word + mark for word in self.words for mark in ("", ",", ".", "!", ":", ";", "?"))
        self.phrases = phrases
        self._ascii_phrases = tuple(phrase for phrase in phrases if phrase.isascii())

    def __or__(self, other: Markers) -> Markers:
        return Markers(" ".join(self.words | other.words), *self.phrases, *other.phrases)

    def mark(self, lowered: str) -> bool:
        if not self._as_written.isdisjoint(lowered.split()):
            return True
        # A plain loop on purpose: this runs for each sentence that anybody says.
        for phrase in self._ascii_phrases if lowered.isascii() else self.phrases:  # noqa: SIM110
            if phrase in lowered:
                return True
        return False


_FORBIDDEN = Markers(
    "never don't dont mustn't forbidden nie niemals jamais nunca",
    "do not", "must not", "off limits", "under no circumstances",
    "不要", "不许", "不准", "不得", "不可", "勿", "禁止", "ないで", "いけない", "いけません",
    "지 마", "지 말", "하지마", "쓰지마",
)  # fmt: skip
_HARD_RULE = _FORBIDDEN | Markers(
    "always must immer stets toujours siempre sempre",
    "no longer", "from now on", "at all times",
    "必须", "务必", "始终", "一定要", "一律", "必ず", "絶対", "반드시", "항상", "절대",
)  # fmt: skip
_SOFT_RULE = Markers(
    "prefer avoid ensure remember shouldn't instead only forget nicht kein keine keinen muss müssen nur "
    "lieber ne pas évite uniquement préfère não solo evita prefiero",
    "should not", "make sure", "rather than", "not allowed", "keep the", "keep it", "keep all", "keep your", "keep our",
    "leave the", "leave it", "stick to", "please use", ", not ", "without ", "use the ", "is fine", "is preferred",
    ", no ", " and no ", "at most", "at least", "auf keinen fall", "en vez de", "plutôt",
    "rule for", "rules for", "rule:", "rules:",
    "不能", "别", "总是", "只能", "只用", "请用", "改用", "记住", "优先", "避免",
    "常に", "べき", "だけ", "금지", "만 사용", "꼭 ",
)  # fmt: skip
_RULE = _HARD_RULE | _SOFT_RULE
_RULE_OPENINGS = ("no ", "use ", "only ", "without ", "keep ", "leave ", "write ", "answer ", "respond ", "reply ",
                  "antworte ", "verwende ", "nutze ", "schreibe ", "réponds ", "utilise ", "responde ")  # fmt: skip
# Where a marker says what somebody thinks or what went wrong, it states no rule.
_DESCRIBES = re.compile(
    r"\bi (?:\w+ )?(?:don't|dont|do not) (?:really )?(?:think|tink|know|understand|see|get|remember|recall|mind|care)\b"
    r"|\b(?:never|always) (?:(?:finish|crash)(?:es|ed)|(?:end|work|happen|fail|complete|terminate)(?:s|ed)"
    r"|hangs|breaks)\b"
    r"|\b(?:don't|do not) (?:seem|appear|work|understand)\b|\bno (?:problem|idea|worries|doubt|clue|matter|wonder)\b"
)
_ASKS = re.compile(
    r"(?:^|[,:;] )(?:(?:and|but|so|ok|hm|wait|btw)[, ]+)?(?:what|why|how|when|where|who|which|is|are|was|were|does"
    r"|did|do (?:we|i|you|they)|has|have|had|isn't|aren't|doesn't|didn't|should (?:we|i)|shall (?:we|i)"
    r"|any|anything|right|no)\b"
)
_DECISION = Markers(
    "decided decision because chose conclusion trade-off tradeoff entschieden weil denn",
    "go with", "let's use", "let's keep", "we will use", "instead of", "rather than", "root cause", "turns out",
    "issue is", "issue was", "problem is", "problem was", "bug is", "bug was", "fix is", "fix was", "cause is",
    "cause was", "reason is", "reason was", "culprit", "that confirms", "it follows that",
    "决定", "改用", "原因是", "根因", "因为", "结论", "決定", "理由",
)  # fmt: skip
_GUESSES = ("maybe ", "perhaps ", "probably ", "if ", "wait", "let me ", "或许", "也许", "可能", "vielleicht ")
# What forbids is only taken back in so many words; what asks or allows, also by saying something else.
_TAKES_BACK = Markers(
    "actually forget anymore",
    "scratch that", "second thought", "no longer", "change of plan", "changed my mind", "any more", "doch nicht",
    "mehr nötig", "算了", "还是", "不再", "不用再", "やっぱり", "더 이상",
)  # fmt: skip
_CHANGE_OF_MIND = _TAKES_BACK | Markers(
    "instead rather lieber plutôt",
    "from now on",
    ", not ",
    "ab jetzt",
    "désormais",
    "a partir de ahora",
    "改用",
    "从现在",
    "これから",
)

_TAGS = (
    r"system-reminder|local-command-\w+|command-\w+|bash-\w+|environment_\w+|ide_\w+|user-prompt-submit-hook|context|file"
    r"|files|file_content|document|documents|attached_files|tool_result|persisted-output|task-notification|output|log"
)
_FENCED = re.compile(rf"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<({_TAGS})(?: [^<>\n]*)?>.*?(?:</\1>|\Z)", re.DOTALL)
# A line may be broken by hand in the middle of a sentence: it is long then, and the next one goes on in small letters.
# One class of chars comes first and the rest looks back from it: so a search runs at the speed of that class.
_SENTENCE_END = re.compile(
    r"[.!?。！？；\n](?:(?<=[。！？；])|(?<=\n)(?:(?<![^\n]{60}\n)|(?!\s*[a-z]))"
    r"|(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bz\.)(?<!\bz\. B\.)[)\"'”»]?(?=\s))"
)
_LIST_MARKS = " \t\r\n-*•>#"
# Where words are not parted by blanks, each pair of chars counts, apart from those that only bind others.
_BINDING = "请用改不要的是了在把也就从还再别勿必须のはをにがでと"
_UNPARTED = rf"(?![{_BINDING}])[\u3040-\u30ff\u4e00-\u9fff]"
_WORD = re.compile(rf"(?=({_UNPARTED}{_UNPARTED}))|([^\W_\u3040-\u30ff\u4e00-\u9fff]{{3,}})")


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence that must be kept word for word, and the message it stands in."""

    kind: Kind
    text: str
    number: int
    hard: bool = False
    """Whether it forbids or demands, and is no mere preference."""


def spoken(text: str) -> str:
    """What a person said in a user message: without fenced code and what a program put between tags."""
    return _FENCED.sub("\n", text).strip() if "```" in text or "<" in text or "~~~" in text else text.strip()


def rules_in(text: str, number: int) -> list[Statement]:
    """The sentences of a user message that state a rule or a preference."""
    found = []
    for sentence in _marked(text, _states_rule):
        hard = _HARD_RULE.mark(_plain(sentence))
        if len(sentence) <= (_LONGEST_HARD_RULE if hard else _LONGEST_RULE):
            found.append(Statement("rule", sentence, number, hard=hard))
    return found


def decisions_in(text: str, number: int) -> list[Statement]:
    """The sentences of a reply that say what was decided or found, and why."""
    if not _DECISION.mark(text.lower()):
        return []
    sentences = _marked(text, _says_decision)
    return [Statement("decision", sentence, number) for sentence in sentences if len(sentence) in _DECISION_CHARS]


def is_question(text: str) -> bool:
    return text.rstrip(" )\"'*").endswith(("?", "？"))


def replaced_by(new: Statement, earlier: Sequence[Statement]) -> Statement | None:
    """The rule that a later one takes back: it says so, and is about the same thing. The newest, if several fit."""
    said = _plain(new.text)
    if not _CHANGE_OF_MIND.mark(said):
        return None
    about, in_so_many_words = _topics(new.text), _TAKES_BACK.mark(said)
    for old in reversed(earlier):
        if not in_so_many_words and _FORBIDDEN.mark(_plain(old.text)):
            continue
        topics = _topics(old.text)
        enough = 1 if len(topics) <= 4 or (in_so_many_words and about <= topics) else 2
        if old.number < new.number and len(about & topics) >= enough:
            return old
    return None


def replaces(new: Statement, old: Statement) -> bool:
    """Whether the later rule takes this earlier one back."""
    return replaced_by(new, [old]) is old


def first_sentence(text: str, most: int = 240) -> str:
    return shorten(next(_sentences(spoken(text[: 4 * most])), ""), most)


def shorten(text: str, most: int) -> str:
    """The text on one line, cut at a word's end where it is longer than `most`."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line.rfind(" ", most // 2, most - 1)
    return f"{line[: cut if cut > 0 else most - 1]}…"


def _states_rule(lowered: str) -> bool:
    if not _has_rule_mark(lowered) or (lowered.endswith(("?", "？")) and _ASKS.search(lowered)):
        return False
    return _has_rule_mark(_DESCRIBES.sub("…", lowered))


def _has_rule_mark(lowered: str) -> bool:
    return lowered.startswith(_RULE_OPENINGS) or _RULE.mark(lowered)


def _says_decision(lowered: str) -> bool:
    """A question or a guess settles nothing."""
    return _DECISION.mark(lowered) and not lowered.startswith(_GUESSES) and not is_question(lowered)


def _marked(text: str, marks: Callable[[str], bool]) -> list[str]:
    """The sentences that have a mark of what is looked for."""
    sentences = _sentences(_both_ends(spoken(text)))
    return [sentence for sentence in sentences if marks(_plain(sentence))]


def _plain(sentence: str) -> str:
    return sentence.replace("’", "'").lower()


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for found in _SENTENCE_END.finditer(text):
        sentence = text[start : found.end()].strip(_LIST_MARKS)
        start = found.end()
        if len(sentence) > 2:
            yield sentence
    rest = text[start:].strip(_LIST_MARKS)
    if len(rest) > 2:
        yield rest


def _both_ends(text: str) -> str:
    return text if len(text) <= 2 * _READ_CHARS else f"{text[:_READ_CHARS]}\n{text[-_READ_CHARS:]}"


_COMMON = frozenset(
    "the and for with that this from not are use using only never always please must should dont instead actually "
    "rather make sure keep all any our your you can will don fine okay forget about now longer rule".split()
)


def _topics(text: str) -> set[str]:
    return {(pair or word).lower() for pair, word in _WORD.findall(text)} - _COMMON
