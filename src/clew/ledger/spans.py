"""Where a quote begins and ends: a line, the clause around a place of a long one, a short one with its neighbours.

Also what lines of a listing have in common, by which those that are alike are told by their count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

LONGEST_LINE = 260
_REACH_CHARS = 120
_SHORTEST_VALUE = 60
_SHORT_BLOCK_CHARS = 160
_NEIGHBOURS = 3
FEWEST_WORDS = 3
_FEWEST_WORDS_OF_BLOCK = 2
_PROGRESS_BAR = re.compile(r"[█▓▒░▏▎▍▌▋▊▉■━]{4}")
# From the start of a word: further on in it nothing is found that was not found from there.
_EXACT = re.compile(r"(?<![\w@:-])[\w@:-]*[\d_/\\.][\w./\\:@~+-]*")
# A line of a log begins with when it was written.
_DAYS_AND_MONTHS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_STAMP = re.compile(rf"\s*\[? *(?:\d+[-:./]\d|(?:{_DAYS_AND_MONTHS})\b)")
_VALUE = re.compile(r"[\w\"'\])}] ?(?:=|:(?= ))|[{};]\s*$")
_CJK = r"\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af"
# Begins with a class of chars and looks back from it, since a search for one class is fast.
_ASCII_WORD = re.compile(
    r"[A-Za-z_\d](?:(?<=[A-Za-z])\w{2,}|(?<=_)_*[A-Za-z]\w{2,}|(?<=\d)\d+)",
    re.ASCII,
)
_WORD = re.compile(
    rf"[A-Za-z_\d{_CJK}](?:(?<=[A-Za-z])\w{{2,}}|(?<=_)_*[A-Za-z]\w{{2,}}|(?<=\d)\d+|(?<=[{_CJK}])[{_CJK}])"
)
# What programs print beside any outcome: steps that went well, and warnings about where they run.
ROUTINE_LINE = re.compile(
    r"\s*(?:"
    # Tests that passed are told by their count.
    r"\S+ (?:PASSED|SKIPPED|XFAIL|ok)\s*(?:\[ *\d+%\])?\s*$"
    r"|(?:PASS|ok|test) \S+ (?:\.\.\. )?(?:ok|\(?\d[\d.]* ?m?s\)?)\s*$"
    # Packages on their way; what was installed is told at the end.
    r"|Collecting \S+(?: \(from .*)?$|(?:Downloading|Fetching|Pouring) \S+[./@]\S+|Using cached \S+|Downloaded \S+ v?\d"
    r"|Requirement already satisfied: |Preparing metadata \(|(?:Unpacking|Setting up) \S+ \(|Preparing to unpack "
    r"|Selecting previously unselected |(?:Get|Hit):\d+ |Compiling \S+ v\d|npm (?:http|timing) |✔\ufe0e? Bottle "
    r"|(?:remote: )?(?:Counting|Compressing|Enumerating|Receiving) objects: |Resolving deltas: |\w{12}: Pulling "
    # What ssh and the shell of Git for Windows say beside any command.
    r"|\*\* (?:WARNING: connection is not using a post-quantum|This session may be vulnerable|The server may need)"
    r"|\d+ \[main\] \S+ (?:\(\d+\)|\d+) (?:child_copy|dofork): |\S+: fork: retry: "
    # Behind its message PowerShell tells where and of which category.
    r"|\+\s+(?:CategoryInfo|FullyQualifiedErrorId|~|\.\.\. )"
    r")"
)
# Brackets, rules, or no more than the number that a listing puts before a line.
_WITHOUT_WORDS = re.compile(r"(?:\d+[→:|-])?[\W_]*")
_ENDS_FIELD = frozenset(",}")
_ADDRESS = ("https://", "http://")
_TITLE = re.compile(r'": ?"((?:[^"\\]|\\.){8,160})", ?"\w{1,20}": ?\Z')
_TITLE_REACH = 240
TITLE_END = " · "
"""Between a title and its address."""
_OPENERS = frozenset("\"'`([{<*|>#:=,;→│")
_CLOSERS = frozenset(")]}>.,;:!?。！？；：|")


class QuoteSpan(NamedTuple):
    """A span of chars of one part of one message."""

    number: int
    part: int
    start: int
    end: int


def is_routine(line: str) -> bool:
    """Whether a line of a result says nothing about what came of the call."""
    return ROUTINE_LINE.match(line) is not None


def shape_of(line: str) -> str:
    """What lines of a listing or of a log have in common: their words, without names, numbers and paths.

    Empty for a line that gives a name its value: what such a line says stands in no other.
    """
    return "" if _VALUE.search(line) and not _STAMP.match(line) else _EXACT.sub("\0", line.strip())


def joined_spans(spans: Sequence[QuoteSpan]) -> list[tuple[int, int]]:
    """Spans of one text in order, those that overlap as one."""
    merged: list[tuple[int, int]] = []
    for span in sorted(spans):
        if merged and span.start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(span.end, merged[-1][1]))
        else:
            merged.append((span.start, span.end))
    return merged


def spans_at(text: str, places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The lines, or clauses of long ones, around these places of a text."""
    behind = 0
    for at, to in places:
        start, end = line_around(text, at)
        span = line_span(text, start, end, at, to, FEWEST_WORDS) or block_span(text, start, end, FEWEST_WORDS)
        if at >= behind and span:
            behind = span[1]
            yield span


def line_around(text: str, at: int) -> tuple[int, int]:
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, end if end >= 0 else len(text)


def whole_line(text: str, start: int, end: int, fewest: int) -> tuple[int, int] | None:
    """The line without its indent; None where it says too little."""
    start, end = trimmed(text, start, end)
    return (start, end) if has_words(text, start, end, fewest) else None


def line_span(text: str, start: int, end: int, at: int, to: int, fewest: int) -> tuple[int, int] | None:
    """The line without its indent, or of a long one the clause around the atom; None where it says too little."""
    start, end = trimmed(text, start, end)
    start, end = min(start, at), max(end, to)
    if end - start > LONGEST_LINE:
        start, end = _clause_span(text, start, end, at, to)
    return (start, end) if has_words(text, start, end, fewest) else None


def _clause_span(text: str, start: int, end: int, at: int, to: int) -> tuple[int, int]:
    """From where something begins to where it ends: a quoted value, or what stands between marks."""
    low, high = max(start, at - _REACH_CHARS), min(end, to + _REACH_CHARS)
    opened, closed = text.rfind('"', low, at), text.find('"', to, high)
    if opened >= 0 and closed >= 0:
        is_field = (
            text[max(0, opened - 2) : opened].strip().endswith(":") and text[closed + 1 : closed + 2] in _ENDS_FIELD
        )
        if closed - opened > _SHORTEST_VALUE or is_field:
            return opened + 1, closed
    if low > start:
        low = next((place for place in range(low, at) if _begins_at(text, place)), at)
    if high < end:
        ends = (place for place in range(high, to, -1) if text[place - 1] in _CLOSERS or text[place].isspace())
        high = next(ends, to)
    return low, high


def title_before(text: str, start: int, end: int) -> str:
    """The value before an address, as lists of search results have it, and a mark: the address alone says little."""
    if text[start - 1 : start] != '"' or not text.startswith(_ADDRESS, start) or " " in text[start:end]:
        return ""
    found = _TITLE.search(text, max(0, start - _TITLE_REACH), start - 1)
    return f"{' '.join(found[1].split())}{TITLE_END}" if found else ""


def _begins_at(text: str, place: int) -> bool:
    before = text[place - 1]
    is_start = before in _OPENERS or (before.isspace() and text[place - 2] in ".!?:;,|>")
    return is_start and not text[place].isspace()


def block_span(text: str, start: int, end: int, fewest: int) -> tuple[int, int] | None:
    """A short line says little alone; with the next ones, or those before it, it says what it is part of."""
    start, end = trimmed(text, start, end)
    for _ in range(_NEIGHBOURS):
        after = text.find("\n", end + 1)
        after = len(text) if after < 0 else after
        if after - start > _SHORT_BLOCK_CHARS or not text[end + 1 : after].strip():
            break
        end = after
        if has_words(text, start, end, fewest):
            return start, end
    for _ in range(_NEIGHBOURS):
        before = text.rfind("\n", 0, max(0, start - 1)) + 1
        if start == 0 or end - before > _SHORT_BLOCK_CHARS or not text[before : start - 1].strip():
            break
        start = before
        if has_words(text, start, end, fewest):
            break
    start, end = trimmed(text, start, end)
    return (start, end) if has_words(text, start, end, _FEWEST_WORDS_OF_BLOCK) else None


def lines_of_span(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The lines of a span, without those that hold no word."""
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        line = trimmed(text, start, stop)
        if not _WITHOUT_WORDS.fullmatch(text, *line):
            yield line
        start = stop + 1


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without blanks around it. The number that a listing puts before a line stays: it says where to look."""
    span = text[start:end]
    begun = span.lstrip()
    start = end - len(begun)
    return start, start + len(begun.rstrip())


def has_words(text: str, start: int, end: int, fewest: int) -> bool:
    """Whether the span has so many different words; no more of it is read than needed."""
    span = text[start:end]
    is_ascii = span.isascii()
    if not is_ascii and _PROGRESS_BAR.search(span):
        return False
    words: set[str] = set()
    for found in (_ASCII_WORD if is_ascii else _WORD).finditer(span):
        words.add(found[0])
        # Numbers alone, such as a row of a table, say nothing.
        if len(words) >= fewest and not all(map(str.isdigit, words)):
            return True
    return False


def quote_of(text: str, start: int, end: int) -> str:
    """The span on one line; marked where its last line goes on."""
    first, *others = text[start:end].split("\n")
    lines = [first, *(line[trimmed(line, 0, len(line))[0] :] for line in others)]
    if start and text[start - 1] == '"' == text[end : end + 1]:
        return " ".join(" ".join(lines).split())  # a value, whole
    _, line_end = line_around(text, end) if end < len(text) else (end, end)
    return " ".join(" ".join(lines).split()) + ("…" if text[end:line_end].strip() else "")
