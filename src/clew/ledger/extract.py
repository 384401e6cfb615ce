"""Extracts from a text the sentences that state rules and decisions; and from a message the texts that can be quoted.

Rules and decisions are found sentence by sentence, by markers in the languages listed below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.ledger.readable import readable_result, without_context, without_cut_lines, without_drawing, without_wrapping
from clew.ledger.requests import Markers, has_one, without_harness_blocks
from clew.ledger.tools import NEW_TEXT, OLD_TEXT, arguments_text
from clew.messages import Message, arguments_of_call, calls_of, name_of_call, text_of

_LONGEST_RULE = 400
_LONGEST_HARD_RULE = 1_000
_DECISION_CHARS = range(20, 260)
# A pasted document has rules of its own that are not the user's, so only both ends of a very long message are read.
_READ_CHARS = 3_000


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
    "leave the", "stick to", "please use", ", not ", "without ", ", use ", "and use ", "is fine", "is preferred",
    ", no ", " and no ", "at most", "at least", "auf keinen fall", "en vez de", "plutôt",
    "rule for", "rules for", "rule:", "rules:",
    "不能", "别", "总是", "只能", "只用", "请用", "改用", "记住", "优先", "避免",
    "常に", "べき", "だけ", "금지", "만 사용", "꼭 ",
)  # fmt: skip
_RULE = _HARD_RULE | _SOFT_RULE
_RULE_OPENINGS = (
    "no ", "use ", "only ", "without ", "keep ", "leave ", "write in ", "write all ", "write only ", "answer ",
    "respond ", "reply ", "antworte ", "verwende ", "nutze ", "schreibe ", "réponds ", "utilise ", "responde ",
)  # fmt: skip
_DESCRIBING = (
    "provide|retain|support|have|need|match|exist|contain|return|show|know|include|happen|render|respect|handle|accept"
    "|raise|belong|cause|fit|expect|throw|yield|fail|matter|occur|look|load|get|sync|apply|arrive|preserve"
)
# Markers that say what somebody thinks or what went wrong, and state no rule.
_DESCRIBES = re.compile(
    r"\bi (?:\w+ )?(?:don't|dont|do not) (?:really |typically |usually )?"
    r"(?:think|tink|know|understand|see|get|remember|recall|mind|care|have|deal|believe|feel)\b"
    r"|\bi (?:\w+ )?remember\b|\bremember (?:the|this|these|those|my|our|@)(?!\w)|\bi noticed that\b.*"
    r"|^(?:this|that|the) (?:plan|answer|reply|report|summary|list|overview) (?:must|should|needs to)\b"
    r"|^you (?:can|could|may|might)\b.*|\bi only (?:know|have|saw|remember)\b|\bi think (?:this|that|it) (?:was|is)\b.*"
    r"|\b(?:never|always) (?:(?:finish|crash)(?:es|ed)|(?:end|work|happen|fail|complete|terminate)(?:s|ed)"
    r"|hangs|breaks)\b"
    r"|\b(?:don't|do not) (?:seem|appear|work|understand)\b"
    r"|\bno (?:problem|idea|worries|doubt|clue|matter|wonder|need)\b|\bnever ?mind\b|\bnot everything\b"
    r"|\bthere(?:'s| is| are) only\b|\bi think\b.*\b(?:doesn't|isn't|aren't|does not|is not|are not)\b.*"
    r"|^(?:can|you can|we can|just)? ?leave it\W*$"
    # In a talk: what must have been so, what somebody has always or never done, what others do not do, and cheers.
    r"|\bmust(?:'ve| have) (?:been|felt|had|taken|meant|seemed|looked|hurt|gone|come|cost)\b"
    r"|(?:'ve|\bhave|\bhas|'m|\bam) (?:always|never)\b|\b(?:not|n't) always\b"
    r"|\balways (?:been|had|loved|wanted|liked|stay true)\b|\bnever (?:give|gave|giving) up\b"
    r"|\bkeep (?:it up|going|you posted)\b|\bdon't worry\b|\bthank(?:s| you) for always\b"
    r"|\bmust be (?:so |really )?(?:awesome|nice|great|hard|tough|fun|amazing|exciting)\b"
    r"|\b(?:they|people|times|things|kids|others) (?:don't|do not|never|always)\b"
    r"|\b(?:could|would)(?:n't| not) have\b.*|\bwithout (?:fear|worry|hesitation|them|you|him|her|too much)\b"
    r"|\bi(?:'ll| will) (?:\w+ ){0,4}(?:make sure|ensure|remember|keep|avoid)\b|\b(?:me|us) (?:to )?remember\b"
    # What others do or do not, and what happens: of a problem, and not of what shall be done about it.
    r"|(?<=[\w`\"'] )(?<!\b(?:we|ok|so|or) )(?<!\b(?:you|and|but|now|pls) )(?<!\b(?:just|also|then) )(?<!\bplease )"
    rf"(?<!\bi )(?:(?:don't|dont|do not) (?:{_DESCRIBING})\b|do nothing\b)"
    r"|^(?:since|because)\b.*?\binstead of\b|\b(?:but|it|this|that|which) instead [a-z]+s\b"
    r"|\binstead of the expected\b|\b(?:is|are) only used\b"
    r"|\b(?:error|bug|issue|problem|crash|failure|warning|this|that|it) only [a-z]+(?:s|ed)\b"
    r"|^[\w.]*(?:error|exception): .*"
)
_WENT_WRONG = "finish crash end work happen fail complete terminate hangs breaks"
# One of these is in all that it finds: plain strings are found many times as fast. Where they are frequent in rules,
# what follows them there is looked for, too.
_MAY_DESCRIBE = (
    *(
        (word, ())
        for word in ("n't ", "dont ", "do not", "instead", "not every", "i think", "leave it", "remember", "noticed")
    ),
    ("only", ("i only ", "'s only", "is only", "are only", "it only", "that only", "or only", "g only", "m only")),
    *((word, ()) for word in ("rror: ", "xception: ", "issue only", "crash only", "failure only")),
    ("no ", tuple(f"no {word}" for word in "problem idea worries doubt clue matter wonder need".split())),
    *(
        (
            word,
            tuple(word + what for what in "finish crash end work happen fail complete terminate hangs breaks".split()),
        )
        for word in ("never ", "always ")
    ),
    ("never", ("never mind", "nevermind", "ve never", "m never", "as never", "never giv", "never gave")),
    ("must", ("must have ", "must've ", "must be ")),
    (
        "always",
        (
            *(f"{before} always" for before in ("ot", "n't", "m", "y", "e", "s", "r")),
            *(f"always {behind}" for behind in ("been", "had", "loved", "wanted", "liked", "stay true")),
        ),
    ),
    ("keep", ("keep it up", "keep going", "keep you")),
    ("without", tuple(f"without {word}" for word in "fear worry hesitation them you him her too".split())),
    ("i'll ", ()),
    ("i will ", ()),
)
# What it finds at the start of a sentence alone.
_MAY_DESCRIBE_FROM_START = ("this ", "that ", "the ", "you ")
# "Use X to find Y", "make sure that X is running": done once, and then it is done. What shall be set may be a rule for
# what is being made, unless it is all that was asked.
_ERRAND_OPENINGS = ("use ", "please use ", "make sure ", "please make sure ", "ensure ", "please ensure ")
_ERRAND = re.compile(
    r"\buse [^,;]* to (?:troubleshoot|find|figure out|investigate|debug|diagnose|determine|solve|research|identify"
    r"|locate|see (?:if|why|what|whether|how)|generate|explain|fix|answer)\b"
    r"|(?:make sure|ensure) [^,;]*?\b(?:is|are) (?:(?P<wish>set|enabled|disabled|configured|turned (?:on|off))"
    r"|running|installed|up to date|up|synced|pushed|committed|started|connected|reachable)\b"
)
_LASTING = Markers("always never every each all any whenever before after when until unless", "from now on")
_ASKS = re.compile(
    r"(?:^|[,:;] )(?:(?:and|but|so|ok|hm|wait|btw)[, ]+)?(?:what|why|how|when|where|who|which|is|are|was|were|does"
    r"|did|do (?:we|i|you|they)|has|have|had|isn't|aren't|doesn't|didn't|(?:can|could|should|shall) (?:we|i)"
    r"|any|anything|right|no|you (?:said|mentioned|told))\b|\b(?:no|right)\?$"
)
_ASKS_WITHOUT_MARK = re.compile(
    r"(?:and |so |but )?(?:who|what|why|how|when|where|which) (?:\w+ )?(?:do|does|did|can|could|should|would)"
    r" (?:we|i|you|they|it)\b"
)
_ASKS_TO_KEEP = re.compile(
    r"\b(?:can|could) (?:we|you)(?: please| also| just)? (?:make it so (?:that )?(?:we|you) )?(?:keep|leave|stick to)\b"
)
_SHALL_BE = re.compile(
    r"^(?:(?:yes|no|ok|and|but|also|it|this|that|they|everything|all(?: of (?:it|this|that))?|the \w+)[, ]+)*"
    r"(?:needs?|has|have) to be (?:(?:fully|completely|always|exactly|still|100%|at least|at most) )+"
    r"(?!\w+ed\b|\w*(?:written|done|made|built|sent|taken|given|redone|shown|gone)\b)\w+[^?]*$"
)
_DECISION = Markers(
    "decided decision because chose conclusion trade-off tradeoff entschieden weil denn",
    "go with", "let's use", "let's keep", "we will use", "instead of", "rather than", "root cause", "turns out",
    "issue is", "issue was", "problem is", "problem was", "bug is", "bug was", "fix is", "fix was", "cause is",
    "cause was", "reason is", "reason was", "culprit", "that confirms", "it follows that",
    "决定", "改用", "原因是", "根因", "因为", "结论", "決定", "理由",
)  # fmt: skip
_GUESSES = ("maybe ", "perhaps ", "probably ", "if ", "wait", "let me ", "或许", "也许", "可能", "vielleicht ")
# A prohibition is only taken back by one of these; a preference also by a different preference.
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

# Said before doing something: what came of it is said later.
_ANNOUNCES = re.compile(
    r"(?:(?:ok(?:ay)?|great|perfect|excellent|good|now|alright|sure|thought|yes|right|hmm+|wait|so|actually"
    r"|you(?:'re| are) right)\b[:,.!]?\s*)*(?:let me|let's|i'll|i will|i need to|i'm going to|now i|first,? i|next,? i"
    r"|looking at|i should|we need to|here(?:'s| is| are)\b|let us|让我|我来|接下来|ich werde|lass mich|je vais)",
    re.IGNORECASE,
)
_ORDER_VERBS = (
    r"(?:add|append|build|change|check|clean|commit|create|fix|look|make|modify|move|read|remove|replace|run|see|start"
    r"|test|try|update|use|verify|write)\b"
)
_ORDERS = re.compile(
    rf"(?:(?:now|next|then|first|also|finally|and|i need to|need to),? )*{_ORDER_VERBS}",
    re.IGNORECASE,
)
_NEXT = re.compile(rf"(?:and )?(?:now|next|then|first|finally),? {_ORDER_VERBS}", re.IGNORECASE)
_BEGINS_NEXT = frozenset("aAfFnNtT")
# A few words about what is being done, as a step of a plan.
_DOING = re.compile(
    r"(?:now )?(?!(?:any|every|no|some)thing|missing|existing|remaining|outstanding|according|during|following|pending"
    r"|regarding|warning|string|including)[a-z]{2,}ing\b[^!?]{0,80}(?<!\.)",
    re.IGNORECASE,
)
# `Now step 2: Create the folder.`
_NOW_COMES = re.compile(r"(?:and )?(?:now|next)\b[^.!?:]{0,24}: \S", re.IGNORECASE)
_TAGS = (
    r"system-reminder|local-command-\w+|command-\w+|bash-\w+|environment_\w+|ide_\w+|user-prompt-submit-hook|context|file"
    r"|files|file_content|document|documents|attached_files|tool_result|persisted-output|task-notification|output|log"
    r"|(?:issue|pr|problem|bug|ticket)[_-](?:description|statement|body|text)"
)
_PASTED = re.compile(rf"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<({_TAGS})(?: [^<>\n]*)?>.*?(?:</\1>|\Z)", re.DOTALL)
_PASTED_RECORD = re.compile(r'[\[{]\s*"[^"\n]{1,60}":[^\n]*":[^\n]*":[^\n]*')
# The answer of a server, broken over lines by the screen that it was copied from.
_PASTED_ANSWER = re.compile(r'\{"\w+":\s?["{\[].{0,4000}?\}(?=\s|\Z)', re.DOTALL)
_PROMPT = re.compile(r"^(?:(?:\([\w.-]+\) )?[\w.-]+@[\w.-]+[: ][^\n]{0,80}?[%$#] |➜ |PS [A-Z]:\\)", re.MULTILINE)
_PROMPT_MARKS = ("@", "➜ ", "PS ")
# A line of a diff as a screen shows it, with its number, and what the screen broke off it, which is indented.
_DIFF_LINE = re.compile(r"^[ \t]*[+-] ?\d+ .*$(?:\n[ \t]+(?![+-] ?\d)[^\s+-].*$)*", re.MULTILINE)
_MAY_BE_DIFF = re.compile(r"[+-] ?\d+ ")
# A long line that is followed by one in lower case was broken by hand inside a sentence.
# The pattern begins with a class of chars and looks back from it, since a search for one class is fast.
_SENTENCE_END = re.compile(
    r"[.!?。！？；\n](?:(?<=[。！？；])|(?<=\n)(?:(?<![^\n]{60}\n)|(?!\s*[a-z]))"
    r"|(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!\bz\.)(?<!\bz\. B\.)[)\"'”»]?(?=\s))"
)
_LIST_MARKS = " \t\r\n-*•>#"
# In Chinese and Japanese each pair of chars counts as a word, apart from particles.
_PARTICLES = "请用改不要的是了在把也就从还再别勿必须のはをにがでと"
_CJK = rf"(?![{_PARTICLES}])[\u3040-\u30ff\u4e00-\u9fff]"
_WORD = re.compile(rf"(?=({_CJK}{_CJK}))|([^\W_\u3040-\u30ff\u4e00-\u9fff]{{3,}})")
_NO_TOPICS = frozenset(
    "the and for with that this from not are use using only never always please must should dont instead actually "
    "rather make sure keep all any our your you can will don fine okay forget about now longer rule".split()
)


@dataclass(frozen=True, slots=True)
class LedgerStatement:
    """A sentence to keep word for word, and the number of its message."""

    text: str
    number: int
    is_hard: bool = False
    """Whether it forbids or demands something; a preference does not."""


def without_pasted_text(text: str) -> str:
    """A user message without fenced code, records of JSON, and what a program put between tags."""
    if '":' in text:
        text = _PASTED_RECORD.sub("\n", _PASTED_ANSWER.sub("\n", text))
    if any(mark in text for mark in _PROMPT_MARKS):
        text = _without_screen(text)
    own = _DIFF_LINE.sub("", text) if _MAY_BE_DIFF.search(text) else text
    return _PASTED.sub("\n", own).strip() if "```" in own or "<" in own or "~~~" in own else own.strip()


def _without_screen(text: str) -> str:
    """The text without what a terminal showed, from its prompt on; behind the last empty line a person may go on."""
    prompt = _PROMPT.search(text)
    if prompt is None:
        return text
    behind = text.rfind("\n\n", prompt.end())
    return text[: prompt.start()] + (text[behind:] if behind >= 0 else "")


def rules_in(text: str, number: int) -> list[LedgerStatement]:
    """The sentences of a user message that state a rule or a preference."""
    found = []
    own = list(_sentences(_both_ends(without_pasted_text(text))))
    for sentence in own:
        lowered = _lowered(sentence)
        if not _states_rule(lowered) or is_errand(lowered, is_all=len(own) == 1):
            continue
        is_hard = _HARD_RULE.found_in(lowered)
        if len(sentence) <= (_LONGEST_HARD_RULE if is_hard else _LONGEST_RULE):
            found.append(LedgerStatement(sentence, number, is_hard))
    return found


def is_errand(lowered: str, *, is_all: bool) -> bool:
    """Whether a sentence asks for something to be done once, in words that rules have too. `is_all`: of a request."""
    if not lowered.startswith(_ERRAND_OPENINGS) and "(use " not in lowered:
        return False
    found = _ERRAND.search(lowered)
    return found is not None and (is_all or not found["wish"]) and not _LASTING.found_in(lowered)


def decisions_in(text: str, number: int) -> list[LedgerStatement]:
    """The sentences of a reply that say what was decided or found, and why."""
    whole = _lowered(text)
    if not _DECISION.found_in(whole):
        return []
    is_marked = _DECISION.within(whole)

    def states_decision(lowered: str) -> bool:
        """Whether it states a decision; a question or a guess does not."""
        return is_marked(lowered) and not lowered.startswith(_GUESSES) and not is_question(lowered)

    sentences = _sentences_where(text, states_decision)
    return [LedgerStatement(sentence, number) for sentence in sentences if len(sentence) in _DECISION_CHARS]


def is_question(text: str) -> bool:
    return text.rstrip(" )\"'*").endswith(("?", "？"))


def is_opening(said: str) -> bool:
    """Whether it only says what comes next: `Let me check.`, `Now fix the tests:`."""
    plain = said.lstrip(_LIST_MARKS)
    if _ANNOUNCES.match(plain):
        return True
    if plain[:1] in _BEGINS_NEXT and (_NEXT.match(plain) or _NOW_COMES.match(plain)):
        return True
    if ("ing" in plain.lower() or not plain.isascii()) and _DOING.fullmatch(plain):
        return True
    return plain.endswith((":", "：")) and bool(_ORDERS.match(plain))


_CASE = re.compile(
    r"(?:(?:but|so|and|or|also|then|now|because|wait|well|actually|hmm+),? )*"
    r"(?:(?:what )?if (?:i|we) (?!have\b)|suppose\b|(?:let's )?assume\b)|no, |or maybe\b",
    re.IGNORECASE,
)
_SHOULD_PROBABLY = re.compile(r"\bshould probably\b", re.IGNORECASE)


def deliberates(said: str) -> bool:
    """Whether an agent only turns something over: `If I change X, ...`, `Default True?`, `No, ...`."""
    if is_question(said) or _CASE.match(said):
        return True
    # A plain string is found many times as fast.
    return "probably" in said and _SHOULD_PROBABLY.search(said) is not None


def rule_replaced_by(new: LedgerStatement, earlier: Sequence[LedgerStatement]) -> LedgerStatement | None:
    """The newest of the earlier rules that a later one takes back, by its words and by being about the same thing."""
    lowered = _lowered(new.text)
    if not _CHANGE_OF_MIND.found_in(lowered):
        return None
    about, is_explicit = _topics(new.text), _TAKES_BACK.found_in(lowered)
    for old in reversed(earlier):
        if not is_explicit and _FORBIDDEN.found_in(_lowered(old.text)):
            continue
        topics = _topics(old.text)
        enough = 1 if len(topics) <= 4 or (is_explicit and about <= topics) else 2
        if old.number < new.number and len(about & topics) >= enough:
            return old
    return None


def first_sentence(text: str, most: int = 240) -> str:
    """The first sentence that is not pasted, in at most `most` chars."""
    return shorten(next(_sentences(without_pasted_text(text[: 4 * most])), ""), most)


_BETWEEN_PARTS = "/\\:?&=,;|#"


def shorten(text: str, most: int) -> str:
    """The text on one line in at most `most` chars, cut at the end of a word, or of a part of a long one."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line.rfind(" ", most // 2, most - 1)
    if cut < 0:
        cut = max(line.rfind(mark, most // 2, most - 1) for mark in _BETWEEN_PARTS)
    return f"{line[: cut if cut > 0 else most - 1]}…"


def _states_rule(lowered: str) -> bool:
    if not _has_rule_marker(lowered):
        # What shall be in some state: not what is to be done once, as "needs to be updated" is.
        return "to be " in lowered and _SHALL_BE.search(lowered) is not None
    if lowered.endswith(("?", "？")) and _ASKS.search(lowered):
        return _ASKS_TO_KEEP.search(lowered) is not None
    if _ASKS_WITHOUT_MARK.match(lowered):
        return False
    if not lowered.startswith(_MAY_DESCRIBE_FROM_START) and not has_one(lowered, _MAY_DESCRIBE):
        return True
    stated = _DESCRIBES.sub("…", lowered)
    return stated == lowered or _has_rule_marker(stated)


def _has_rule_marker(lowered: str) -> bool:
    return lowered.startswith(_RULE_OPENINGS) or _RULE.found_in(lowered)


def _sentences_where(text: str, holds: Callable[[str], bool]) -> list[str]:
    """The sentences that the condition holds for, given each in lower case."""
    sentences = _sentences(_both_ends(without_pasted_text(text)))
    return [sentence for sentence in sentences if holds(_lowered(sentence))]


def _lowered(sentence: str) -> str:
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


def _topics(text: str) -> set[str]:
    return {(pair or word).lower() for pair, word in _WORD.findall(text)} - _NO_TOPICS


# -- the texts of a message --------------------------------------------------------------------------------------------


def text_with_calls(message: Message) -> str:
    """The text of a message and of its tool calls, with their arguments as written."""
    calls = [f"{name_of_call(call)} {arguments_text(call)}" for call in calls_of(message)]
    return "\n".join([text_of(message), *calls])


def decoded_text(message: Message, arguments: Sequence[Mapping[str, Any]]) -> str:
    """The text of a message and of what its calls were given, as the tools read it."""
    return "\n".join((text_of(message), *(_decoded(own) for own in arguments))) if arguments else text_of(message)


# Arguments whose value says what it is; the others are quoted with their name.
_PLAIN_ARGUMENTS = frozenset(
    "path file_path filePath filename file target_file command cmd script code input content new_string old_string "
    "newText oldText new_str old_str patch text prompt url query pattern".split()
)
_EMPTY_ARGUMENTS = frozenset(
    "description activeForm status timeout limit offset run_in_background replace_all task_id id head_limit "
    "subagent_type output_mode multiline max_results".split()
)


# Harnesses append reminders to results too, and some logs keep colour codes, with or without the escape before them.
_REMINDER = "<system-reminder>"
_COLOUR_END = "[0m"
_ELIDED = "\n<elided_chars>\n"
_WRAPPER = re.compile(
    r"<returncode>0</returncode>|<warning>[^<]{1,900}</warning>|<(retrieval_status|task_id|task_type)>[^<>]*</\1>"
    r"|</?(?:returncode|output|output_head|output_tail|elided_chars|warning|stdout|stderr|status|exit_code"
    r"|persisted-output|tool_use_error|task_result)>|<task id=[^<>\n]*>|</task>"
)
# Without its first char, which some programs drop, only where a number says that it is one: not in `[main]`.
COLOUR = re.compile(r"\x1b\[[\d;]{0,12}m|\[\d{1,3}(?:;\d{0,3})*m")


def quotable_texts(message: Message) -> list[str]:
    """The texts of a message that can be quoted: its content, then the strings that each call was given, decoded."""
    text = text_of(message)
    if message["role"] == "user" or _REMINDER in text:
        text = without_harness_blocks(text)
    if _COLOUR_END in text:
        text = COLOUR.sub("", text)
    if (text.startswith("<") or _ELIDED in text) and message["role"] == "tool":
        text = _WRAPPER.sub("", without_cut_lines(text))
    if message["role"] == "tool":
        text = without_context(without_wrapping(readable_result(text)))
    given = (_decoded(_as_it_became(own)) for own in arguments_of(message))
    return [without_drawing(one) for one in (text, *given)]


def arguments_of(message: Message) -> list[dict[str, Any]]:
    """The arguments of each call of a message, decoded."""
    return [arguments_of_call(call) for call in calls_of(message)]


def _as_it_became(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a call was given, of an edit without the text that it replaced: quoted, that would read as what is there."""
    edits = arguments.get("edits")
    if isinstance(edits, list):
        inner = [_as_it_became(edit) if isinstance(edit, Mapping) else edit for edit in edits]
        return {**arguments, "edits": inner}
    if not any(key in arguments for key in NEW_TEXT):
        return arguments
    return {key: value for key, value in arguments.items() if key not in OLD_TEXT}


def _decoded(arguments: Mapping[str, Any]) -> str:
    """The strings that a call was given. A blank line between them: no quote goes from one into the next."""
    return "\n\n".join(_strings_in(arguments))


def _strings_in(value: Any, name: str = "") -> list[str]:
    if isinstance(value, str):
        value = readable_result(value)
        return [value if not name or name in _PLAIN_ARGUMENTS or "\n" in value else f"{name}: {value}"]
    if isinstance(value, Mapping):
        named = [(str(key), inner) for key, inner in value.items() if key not in _EMPTY_ARGUMENTS]
        return [text for key, inner in named for text in _strings_in(inner, key)]
    if isinstance(value, list):
        return [text for inner in value for text in _strings_in(inner, name)]
    if value is None or isinstance(value, bool):
        return []
    return [f"{name}: {value}" if name else str(value)]
