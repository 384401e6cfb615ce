"""What a person asked, told apart from what programs put into user messages; and what a short answer chose.

Agents run inside harnesses that write into the user's role: notifications, reminders, echoes of commands, demands for a
format, results of tools. They are recognised by structure first (tags, brackets, wrappers of results), then by the
openings that common harnesses use. What is repeated word for word is found by the ledger (`repetition_key`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

_TAGS = (
    r"task-notification|system-reminder|reminder|command-[\w-]+|local-command-[\w-]+|environment[_-]\w+|user_instructions"
    r"|ide_\w+|bash-\w+|user-prompt-submit-hook|hook[\w-]*|turn_aborted|subagent_notification|uploaded_files"
    r"|persisted-output|tool_result|function_results?|user_shell_command|permissions[ _]instructions|collaboration_mode"
    r"|apps_instructions|skills?_instructions|conversation[_-]summary|context[_-]summary|context_window|session_context"
)
_TRAILER = r"\s*(?:Read the output file to retrieve the result: \S+\s*)*"
_ATTACHED = r"(?:attached_)?(?:file|folder|document)(?= (?:path|name|src)=)"
"""Files that a question takes along: a tag with the path, so that markup a person wrote is none."""
_HARNESS_BLOCK = re.compile(rf"<((?:{_TAGS})\b|{_ATTACHED})[^<>\n]*>.*?</\1>{_TRAILER}", re.DOTALL | re.IGNORECASE)
_UNCLOSED_BLOCK = re.compile(rf"<(?:{_TAGS})\b", re.IGNORECASE)
_BRACKETED = re.compile(
    r"\[(?:Request interrupted|system\b|context\b|tool\b|command finished|old tool result|image:)[^\]\n]*\]\s*",
    re.IGNORECASE,
)
_HARNESS_OPENING = re.compile(
    r"\[CONTEXT (?:COMPACTION|SUMMARY)|Caveat: The messages below|This session is being continued"
    r"|Your output was malformed|Format error"
    r"|Please always provide EXACTLY ONE|Read the output file to retrieve"
    r"|This is the (?:Gemini|Qwen)\b[^\n]*setting up the context|# AGENTS\.md instructions"
    r"|Called the \w+ tool with the following input|OBSERVATION:|EXECUTION RESULT of \[|<returncode>|<output>"
    r"|<observation>|\[The command completed with exit code|No tool calls? (?:was |were )?found|Unknown tool\b"
    r"|Please continue working on the task on whatever approach|Another language model started to solve this"
    r"|Continue if you have next steps|Error: (?:no|invalid) tool call"
    r"|I am not sharing any files(?: that| with| yet)|I have \*added these files to the chat\*"
    r"|Here are (?:summaries of some files present in my git repository|some READ ONLY files, provided)"
    r"|Don't try and edit any existing code without asking me to add the files",
    re.IGNORECASE,
)
_STARTS_OVER = re.compile(r"I switched to a new code base\. Please don't consider the above files")
"""Behind the worked examples that aider sends before every conversation."""
_REMINDER_AT_END = re.compile(
    r"\n[ \t]*(?:To suggest changes to a file you MUST return the entire content|# \*SEARCH/REPLACE block\* Rules:"
    r"|# File editing rules:|# V4A Diff Format Rules:)"
)
"""What aider puts behind the newest request, and takes away again from the next request on."""
_ACKNOWLEDGEMENT = re.compile(r"Ok(?:ay)?[.,!]", re.IGNORECASE)
_LONGEST_ACKNOWLEDGEMENT = 120
_SAID_SO = re.compile(r"[^.!?\n]{0,120}\b(?:already|schon|déjà|ya)\b|[^。！？\n]{0,60}已经", re.IGNORECASE)
_LONGEST_REMINDING = 400
_CLIENT_NOTICE = re.compile(
    r"API Error\b|(?:You're out of|You've (?:hit|reached) your)\b[^.\n]*\b(?:usage|limit)"
    r"|Claude (?:AI )?usage limit reached|Credit balance is too low|Prompt is too long\s*\Z|Invalid API key\b"
    r"|No response requested\.|\[Request interrupted",
    re.IGNORECASE,
)
_LONGEST_NOTICE = 600
_FORMAT_DEMAND = re.compile(r"EXACTLY ONE (?:action|command|tool)", re.IGNORECASE)
_BLOCK = re.compile(r"<([A-Za-z][\w-]*)>\n?(.*?)</\1>", re.DOTALL)
_REQUEST_TAG = re.compile(r"task|issue|request|query|question|prompt|description|problem|message|goal|objective", re.I)
_ISSUE = re.compile(r"\s*<(?:issue|pr|problem|bug|ticket)[_-](?:description|statement|body|text)>")
_WORDS_BESIDE_BLOCKS = 40
_DIGITS = re.compile(r"\d+")
_UP_TO_DIGITS = re.compile(r"\D*").match
_SHORTEST_REPEATED = 60
_FIRST_CHARS, _COMPARED_CHARS = 16, 120
_FEWEST_ALIKE, _NEWEST_ALIKE = 4, 2


GroupedWords: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""Strings to look for, grouped by what they share; a group without strings is one itself."""


def has_one(text: str, words: GroupedWords) -> bool:
    """Whether a text has one of the strings."""
    # Plain loops are the fastest here, and this runs for every sentence and every result.
    for shared, own in words:
        if shared in text:
            if not own:
                return True
            for word in own:
                if word in text:
                    return True
    return False


def _grouped(phrases: Iterable[str]) -> GroupedWords:
    """The phrases by how they begin."""
    by_start: dict[str, list[str]] = {}
    for phrase in phrases:
        by_start.setdefault(phrase[: _SHARED_CHARS if phrase.isascii() else 1], []).append(phrase)
    return tuple((start, tuple(own)) if len(own) > 1 else (own[0], ()) for start, own in by_start.items())


_SHARED_CHARS = 3


class Markers:
    """Words and phrases in lower case; a text is marked when it has one of them."""

    def __init__(self, words: str, *phrases: str) -> None:
        self.words = frozenset(words.split())
        # With punctuation behind each word, so that a text need only be split.
        self._punctuated = frozenset(word + mark for word in self.words for mark in ("", ",", ".", "!", ":", ";", "?"))
        self.phrases = phrases
        self._grouped = _grouped(phrases)
        self._grouped_ascii = _grouped(phrase for phrase in phrases if phrase.isascii())

    def __or__(self, other: Markers) -> Markers:
        return Markers(" ".join(self.words | other.words), *self.phrases, *other.phrases)

    def found_in(self, lowered: str) -> bool:
        if not self._punctuated.isdisjoint(lowered.split()):
            return True
        return has_one(lowered, self._grouped_ascii if lowered.isascii() else self._grouped)

    def within(self, lowered: str) -> Callable[[str], bool]:
        """Whether a sentence of this text is marked: only the phrases that the text has are looked for in each."""
        phrases = [phrase for phrase in self.phrases if phrase in lowered]

        def is_marked(sentence: str) -> bool:
            return not self._punctuated.isdisjoint(sentence.split()) or any(map(sentence.__contains__, phrases))

        return is_marked


def without_harness_blocks(text: str) -> str:
    """The text without the tags that harnesses put into user messages, and what stands in them."""
    return _HARNESS_BLOCK.sub("\n", text) if "</" in text else text


def person_said(text: str) -> str:
    """The part of a user message that a person wrote, as it stands there; empty where a program wrote all of it."""
    said = text.strip()
    if "<" in said:
        said = _HARNESS_BLOCK.sub(" ", said).strip()
        # Before a template is looked for: a result in tags looks like one.
        if _UNCLOSED_BLOCK.match(said) or _HARNESS_OPENING.match(said):
            return ""
        said = _request_in_template(said)
    while said.startswith("[") and not _HARNESS_OPENING.match(said) and (found := _BRACKETED.match(said)):
        said = said[found.end() :].lstrip()
    if _HARNESS_OPENING.match(said) or starts_over(said):
        return ""
    # Most requests do not, which a plain string shows many times as fast.
    if "exactly one" in said.lower() and _FORMAT_DEMAND.search(said):
        return ""
    reminder = _REMINDER_AT_END.search(said)
    return said[: reminder.start()].rstrip() if reminder else said


def quotes_issue(text: str) -> bool:
    """Whether a message gives the text of an issue between tags: what that says is to be solved, and is no rule."""
    return _ISSUE.match(text) is not None


def starts_over(text: str) -> bool:
    """Whether a program says by this that what came before it was an example, and no conversation."""
    return bool(_STARTS_OVER.match(text.lstrip()))


def is_acknowledgement(text: str) -> bool:
    """Whether a reply says no more than that something was taken note of."""
    return len(text) <= _LONGEST_ACKNOWLEDGEMENT and bool(_ACKNOWLEDGEMENT.match(text.lstrip()))


def is_client_notice(text: str) -> bool:
    """Whether a client put it into the agent's place: an error of its connection, a limit of usage."""
    return len(text) <= _LONGEST_NOTICE and bool(_CLIENT_NOTICE.match(text.lstrip()))


def says_it_said_so(text: str) -> bool:
    """Whether a reply to a program only says that what it tells was told before."""
    return len(text) <= _LONGEST_REMINDING and bool(_SAID_SO.match(text.lstrip()))


def _request_in_template(text: str) -> str:
    """Of a message that is made of blocks, as a benchmark's template is, the block that asks for something."""
    if not text.startswith("<"):
        return text
    blocks = _BLOCK.findall(text)
    if not blocks or len(_BLOCK.sub("", text).split()) > _WORDS_BESIDE_BLOCKS:
        return text
    asking = next((inner for tag, inner in blocks if _REQUEST_TAG.search(tag)), None)
    if asking is None:
        asking = blocks[0][1] if len(blocks) > 1 else text
    return str(asking).strip()


def repetition_key(said: str) -> str | None:
    """By what a text is known again when a program sends it a second time; None where it is too short to tell."""
    # Word for word: a person says "the same for part 7" about part 8 too.
    return said if len(said) >= _SHORTEST_REPEATED else None


def alike_in_a_row(requests: Sequence[str]) -> frozenset[int]:
    """The places of requests that came again and again but for their numbers, without the newest of each row."""
    compared = [request[:_COMPARED_CHARS] for request in requests]
    # Most differ from the next one in their first words already.
    firsts = [found[0] for request in compared if (found := _UP_TO_DIGITS(request, 0, _FIRST_CHARS))]
    openings = groupby(range(len(compared)), key=firsts.__getitem__)
    alike = (own for _, run in openings if len(own := list(run)) >= _FEWEST_ALIKE)
    rows = (list(run) for own in alike for _, run in groupby(own, key=lambda n: _DIGITS.sub("0", compared[n])))
    return frozenset(n for row in rows if len(row) >= _FEWEST_ALIKE for n in row[:-_NEWEST_ALIKE])


# -- what asks for nothing --------------------------------------------------------------------------------------------

_SCREEN = re.compile(r"(?:\$|❯|➜) (?P<command>\S[^\n]*)\n(?P<shown>.*\S)", re.DOTALL)
# From a prompt to the next one, behind which nothing is said.
_WHOLE_SCREEN = re.compile(
    r"(?P<prompt>(?:\([\w.-]+\) )?[\w.-]+@[\w.-]+[: ][^\n]{0,80}?[%$#]|PS [A-Z]:[^\n>]{0,80}>) ?\S[^\n]*\n"
    r"(?P<shown>.*)\n(?P=prompt)\s*",
    re.DOTALL,
)
# At the start of a line, and in no path.
_COMPLAINS = re.compile(
    r"^[^\n/]{0,60}\b(?:\w*Error|\w*Exception|error|failed|FAILED|fatal|panic(?:ked)?|denied|not found|[Nn]o such)\b",
    re.MULTILINE,
)
_PLEASED = re.compile(
    r"(?:(?:ok(?:ay)?|k|yo|hi|hello|hey|thanks?|thank you|thx|ty|wow|nice|great|cool|perfect|awesome|excellent|lol"
    r"|good|super|danke|merci|gracias|好的?|谢谢|太好了|ありがとう|감사합니다|спасибо|👍|🎉)[\s,.!…]*){1,3}",
    re.IGNORECASE,
)


def shows_command(said: str) -> bool:
    """Whether a person only shows what a command of their own printed, as clients put it there: `$ ls`, then names.

    Where it printed an error, that is what they ask about; and so they do where words of their own stand behind it.
    """
    whole = _WHOLE_SCREEN.fullmatch(said)
    found = whole or _SCREEN.fullmatch(said)
    if found is None or (not whole and "\n\n" in found["shown"]):
        return False
    return not _COMPLAINS.search(found["shown"])


_GREETING = re.compile(
    r"(?:hi|hello|hey|yo|good (?:morning|afternoon|evening|day)|hallo|salut|hola|你好|こんにちは"
    r"|안녕(?:하세요)?|привет)(?: (?:there|all|again))?[\s,.!]*",
    re.IGNORECASE,
)
_SLIP = re.compile(r"\W*|/[\w-]*")
"""A key that was hit, or a command of the client, begun."""


def says_nothing(said: str, answer: str) -> bool:
    """Whether a request only greets, or is a slip of the fingers that nothing was answered to."""
    return bool(_GREETING.fullmatch(said) or (not answer and _SLIP.fullmatch(said)))


def is_only_pleased(said: str) -> bool:
    """Whether it greets, thanks or agrees, and asks for nothing."""
    return _PLEASED.fullmatch(said.strip()) is not None


_GOES_ON = re.compile(
    r"(?:(?:please|pls|ok(?:ay)?|yes|now)[\s,]+)*"
    r"(?:continue|resume|go on|carry on|keep going|weiter|mach weiter|continuez|sigue|continúa"
    r"|继续|接着(?:做|来)?|続けて(?:ください)?|계속(?:해|하세요)?|продолжай(?:те)?)"
    r"(?:,? (?:from )?where (?:you|we) (?:left off|stopped|were))?(?:,? (?:please|pls))?[\s.!…。！]*",
    re.IGNORECASE,
)


def goes_on(said: str) -> bool:
    """Whether it asks for no more than to go on with what was asked before: `resume`, `continue where you left off`."""
    return _GOES_ON.fullmatch(said.strip()) is not None


# -- short answers -----------------------------------------------------------------------------------------------------

_NUMBERS = re.compile(
    r"(?:(?:start|go|do|proceed|continue|let's)\s+(?:with\s+)?)?(?:options?|numbers?|no\.?|#)?\s*"
    r"(\d{1,2}(?:\s*(?:,|and|&|\+|then|und|et|y)\s*(?:option\s*)?\d{1,2})*)\b",
    re.IGNORECASE,
)
_LETTER = re.compile(r"(?:option\s+)?([a-h])[).]?\Z", re.IGNORECASE)
_ORDINAL = re.compile(r"(?:the\s+)?(first|second|third|fourth|fifth|last)(?:\s+(?:one|option))?\b", re.IGNORECASE)
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4, "last": -1}
_CONSENT = re.compile(
    r"(?:yes|yep|yeah|y|ok|okay|sure|do it|go ahead|go|please do|sounds good|proceed"
    r"|leave it|keep it|skip (?:it|that)|both|neither|not now|later|no|nope|n|ja|nein|oui|non|sí|si"
    r"|好|好的|是|是的|可以|行|不|不用|はい|いいえ|네|예|да|нет)(?!\w)",
    re.IGNORECASE,
)
_CONSENT_WITH_WISH = re.compile(
    r"(?:yes|yep|yeah|sure|please do|ja|oui|sí|si|好的|是的|可以|はい|네|да)\s*[,.!;，。！]", re.IGNORECASE
)
_OPTION = re.compile(
    r"^[ \t]*(?:[-*]\s+)?(?:#+\s*)?\**\s*(?:option\s+)?(\d{1,2}|[a-h])\s*[.):、．）：]\s*\**\s*(.+?)\s*$"
    r"|^[ \t]*\|\s*\**(\d{1,2}|[a-h])\**\s*\|\s*(.+?)\s*\|",
    re.IGNORECASE | re.MULTILINE,
)
_OPTION_IN_LINE = re.compile(r"(?:(?<=[\s:：,，;；])|^)[(（]?(\d|[a-h])(?:[.)）]\s+|[、．]\s*)(?=\S)")
_END_OF_OPTION = re.compile(r"[,;，；]?\s+(?:or|and|oder|ou|o)\Z|[,.;，。；]\Z|[.。?？]\s.*", re.DOTALL)
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])(?=[*_\"')\]]*\s)|(?<=[。！？])|\n")
_CLOSING_MARKS = "*_\"'`)] "
_ALL_ABOVE = re.compile(r"(?:all|both|everything)\b(?: of (?:the )?(?:above|these|them))?", re.IGNORECASE)
_LONGEST_ANSWER = 60
_MOST_WORDS_OF_CONSENT = 4
_YES, _MOST_WORDS_OF_YES = re.compile(r"(?:yes|yep|yeah)\b", re.IGNORECASE), 7
_OTHER_WORDS = 24


def chosen_by(answer: str, offered: str) -> str:
    """What a short answer chose of what the agent had offered before; empty where it chose nothing that can be told."""
    if len(answer) > _LONGEST_ANSWER or not offered:
        return ""
    options = _options_in(offered)
    if options and (labels := _labels_in(answer)):
        # Of several lists in a reply, the last one is the one that asks.
        by_label = dict(options)
        chosen = [by_label[label] for label in labels if label in by_label]
        return "; ".join(_with_all_above(text, options) for text in chosen)
    if options and (ordinal := _ORDINAL.match(answer)):
        place = _ORDINALS[ordinal[1].lower()]
        return options[place][1] if place < len(options) else ""
    is_brief = len(answer.split()) <= _MOST_WORDS_OF_CONSENT
    if _CONSENT_WITH_WISH.match(answer) or _is_yes(answer) or (is_brief and _CONSENT.match(answer)):
        sentences = (one.strip("*_ ") for one in reversed(_END_OF_SENTENCE.split(offered)))
        return next((_without_marks(one) for one in sentences if one.rstrip(_CLOSING_MARKS).endswith(("?", "？"))), "")
    return ""


def _is_yes(answer: str) -> bool:
    """Whether it is a yes, with a few words: `yes need to be fully clean`."""
    return _YES.match(answer) is not None and len(answer.split()) <= _MOST_WORDS_OF_YES


def _options_in(offered: str) -> list[tuple[str, str]]:
    """What was offered, each with its label: a line each, a row of a table each, or side by side in one line."""
    rows = _OPTION.findall(offered)
    if len(rows) > 1:
        return [((label or row).lower(), _without_marks(text or cell)) for label, text, row, cell in rows]
    return next((found for line in reversed(offered.split("\n")) if (found := _options_in_line(line))), [])


def _options_in_line(line: str) -> list[tuple[str, str]]:
    """`1. a queue 2. a cron job`: labels that count on from the first, two of them at least."""
    marks = list(_OPTION_IN_LINE.finditer(line))
    for at, mark in enumerate(marks):
        first = ord(mark[1])
        run = [one for n, one in enumerate(marks[at:]) if ord(one[1]) == first + n]
        if mark[1] in "1a" and len(run) > 1 and run == marks[at:]:
            ends = [*(one.start() for one in run[1:]), len(line)]
            texts = [line[one.end() : end].rstrip("(（ ") for one, end in zip(run, ends, strict=True)]
            return [
                (one[1], _without_marks(_END_OF_OPTION.sub("", text))) for one, text in zip(run, texts, strict=True)
            ]
    return []


def _with_all_above(chosen: str, options: list[tuple[str, str]]) -> str:
    """What was chosen; where that is all that stands above it, also what that is."""
    if not _ALL_ABOVE.match(chosen):
        return chosen
    starts = [at for at, (label, _) in enumerate(options) if label in ("1", "a")]
    others = [text for _, text in options[starts[-1] if starts else 0 :] if text != chosen]
    return f"{chosen} ({'; '.join(others)})" if others else chosen


def _labels_in(answer: str) -> list[str]:
    numbers = _NUMBERS.match(answer)
    if numbers and len(answer) - len(numbers[0]) <= _OTHER_WORDS:
        return _DIGITS.findall(numbers[1])
    letter = _LETTER.match(answer)
    return [letter[1].lower()] if letter else []


def _without_marks(text: str) -> str:
    return " ".join(text.replace("**", "").replace("__", "").strip("*#- ").split())


_ANSWER = re.compile(r'"((?:[^"\\]|\\.)+)"="((?:[^"\\]|\\.)*)"', re.DOTALL)
_REFUSED = re.compile(
    r"The user doesn't want to proceed|\W*(?:cancelled|canceled|declined|rejected|error|no answer)\b", re.I
)
_LONGEST_ANSWERS = 1_500


def answers_in(result: str, asked: str) -> list[tuple[str, str]]:
    """What a person answered to the questions of a call, each with its question; empty where they did not."""
    if _REFUSED.match(result) or len(result) > _LONGEST_ANSWERS or not result.strip():
        return []
    return _ANSWER.findall(result) or [(asked, result.strip())]


# -- a change of mind --------------------------------------------------------------------------------------------------

_CANCELS = re.compile(
    r"\b(?:never ?mind|stop doing|(?:revert|undo) (?:your|those)"
    # Not "drop that test", which names what it is about.
    r"|(?:forget(?: about)?|scratch|cancel|drop|stop|revert|undo|don'?t do) (?:it|that|this)"
    r"(?=\s*(?:[.,;:!?)\n—–-]|\Z|(?:and|then|please|instead|again|now|for|because|since|all|change|changes)\b)))\b"
    r"|算了|取消|不用了|やめて|やっぱり|취소|doch nicht|vergiss (?:es|das)|laisse tomber|olvídalo",
    re.IGNORECASE,
)
# "Good. Never mind the name, ..." takes nothing back that was done before it.
_ACCEPTS = re.compile(
    r"\s*(?:ok(?:ay)?|good|great|perfect|fine|nice|thanks|thank you|gut|danke|merci|bien|好的?|谢谢|行|可以)[.!。！]",
    re.I,
)
# All that it finds has one of these. Plain strings are looked for first, which is many times as fast.
_MAY_CANCEL = (
    ("never", ("never mind", "nevermind")),
    ("drop ", ("drop it", "drop that")),
    ("stop ", ("stop it", "stop that", "stop doing")),
    ("t do ", ("don't do ", "dont do ")),
    *((word, ()) for word in ("forget ", "scratch that", "cancel ", "revert ", "undo ")),
    *((word, ()) for word in ("doch nicht", "vergiss ", "laisse tomber", "olvídalo")),
    *((word, ()) for word in ("算了", "取消", "不用了", "やめて", "やっぱり", "취소")),
)
_OPENING_CHARS = 160


# What is taken back is named: not "do not forget the docs", nor "I forget the name".
_FORGETS = re.compile(
    r"(?:^|[.!?;,:]\s+|\b(?:ok(?:ay)?|actually|well|no|please|wait|so|then|also|ja|nein|gut|bon|bueno)[, ]+)"
    r"(?:forget(?: about)?|never ?mind(?: about)?|scratch|scrap|vergiss|vergessen wir|oublie|laisse tomber|olvida"
    r"|olvídate de)"
    r"(?:\s+(?:the|that|this|these|those|my|our|any|all|das|die|den|der|le|la|les|el|los|las)\s+|\s+l['’])"
    r"(?P<topic>[^\W\d_][\w-]{2,29})(?!['’]s)",
    re.IGNORECASE,
)
# All that it finds has one of these.
_MAY_FORGET = (
    *((word, ()) for word in ("forget", "oublie", "laisse tomber")),
    ("never", ("never mind", "nevermind")),
    ("scra", ("scratch", "scrap")),
    ("verg", ("vergiss", "vergessen wir")),
    ("olv", ("olvida", "olvídate de")),
)
_LONGEST_ABOUT_ONE_THING = 12


def topic_taken_back(said: str) -> str:
    """The thing that a request begins by taking back: `hotel` of "Forget the hotel, we stay with friends."."""
    opening = said[:_OPENING_CHARS]
    found = _FORGETS.search(opening) if has_one(opening.lower(), _MAY_FORGET) else None
    return found["topic"] if found else ""


def is_about_topic(topic: str, request: str, chosen: str, offered: str) -> bool:
    """Whether a request is about this thing and no other: a choice of one of them, or a few words that ask for it.

    `offered` is what the agent had offered before it. A question asked for nothing that could be taken back.
    """
    stem = topic.lower().removesuffix("s")
    if chosen:
        asking = (one for one in _END_OF_SENTENCE.split(offered) if one.rstrip(_CLOSING_MARKS).endswith(("?", "？")))
        return stem in chosen.lower() or any(stem in one.lower() for one in asking)
    is_short = len(request.split()) <= _LONGEST_ABOUT_ONE_THING and not request.rstrip().endswith(("?", "？"))
    return is_short and stem in request.lower()


def takes_back_task(said: str) -> bool:
    """Whether a request begins by taking back the one before it."""
    opening = said[:_OPENING_CHARS]
    return has_one(opening.lower(), _MAY_CANCEL) and bool(_CANCELS.search(opening)) and not _ACCEPTS.match(opening)
