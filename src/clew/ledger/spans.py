"""Where a quote begins and ends: a line, the clause around a place of a long one, a short one with its neighbours.

Also sentences over several lines, and definitions in code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

LONGEST_LINE = 260
_REACH_CHARS = 120
_SHORTEST_VALUE = 60
_SHORT_BLOCK_CHARS = 160
_PACKED_CHARS = 800
_CHARS_PER_BLANK = 20
_NEIGHBOURS = 3
FEWEST_WORDS = 3
_SHORTEST_WORD = 3
_FEWEST_WORDS_OF_BLOCK = 2
_PROGRESS_BAR = re.compile(r"[█▓▒░▏▎▍▌▋▊▉■━]{4}")
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
    r"\s*+(?:"
    # Who holds the rights in a file.
    r"(?:\d++(?:→|[:|])\s*+)?+(?:[#*;/-]++ *+)?+"
    r"(?:Copyright (?:\(c\)|©|\d{4})|Licensed under |SPDX-License-Identifier: )"
    # A line of a file that is shown with its number is none of the others.
    r"|(?!\d{1,6}+[:|→])(?:"
    # Tests that passed are told by their count.
    r"\S++ (?:PASSED|SKIPPED|XFAIL|ok)\s*(?:\[ *\d+%\])?\s*$"
    r"|(?:PASS|ok|test) \S++ (?:\.\.\. )?(?:ok|\(?\d[\d.]* ?m?s\)?)\s*$"
    # Where pytest runs, whatever comes of it.
    r"|platform \w+ -- Python \d|rootdir: /|cachedir: \.|configfile: \S+\.(?:ini|cfg|toml)\s*$|plugins: \w[\w-]*-\d"
    r"|-- Docs: https?://docs\.pytest\b|benchmark: \d[\d.]* \(defaults"
    # The blocks that a listing takes.
    r"|total \d[\d.,]*[KMGT]?\s*$"
    # Packages on their way; what was installed is told at the end.
    r"|Collecting \S+(?: \(from .*)?$|(?:Downloading|Fetching|Pouring) \S+[./@]\S+|Using cached \S+|Downloaded \S+ v?\d"
    r"|Requirement already satisfied: |Preparing metadata \(|(?:Unpacking|Setting up) \S+ \(|Preparing to unpack "
    r"|Selecting previously unselected |(?:Get|Hit):\d+ |Compiling \S+ v\d|npm (?:http|timing) |✔\ufe0e? Bottle "
    r"|(?:remote: )?(?:Counting|Compressing|Enumerating|Receiving) objects: |Resolving deltas: |\w{12}: Pulling "
    # What ssh and the shell of Git for Windows say beside any command.
    r"|\*\* (?:WARNING: connection is not using a post-quantum|This session may be vulnerable|The server may need)"
    r"|\d+ \[main\] \S+ (?:\(\d+\)|\d+) (?:child_copy|dofork): |(?:[A-Z]:/Program )?\S++(?<=:) fork: retry: "
    # What grep does not show.
    r"|grep: \S+: binary file matches|Binary file \S+ matches"
    # A search among what runs, which finds itself.
    r"|(?:\S++ ++)?\d++ (?=[^\n]*grep )[^\n]{1,60}? [A-Z][<+NsLl]* +(?:[\d:.APM]+ +){0,2}(?:\S*sh -c [^\n]*)?grep "
    # What a result was pruned to, and what was left out of it.
    r"|\[[^\]\n]{1,60}\] [^\n]*\(whole: m\d+\)\s*$|\[\.\.\. [\d,]+ chars left out; whole: m"
    # How much of a file is not shown, and what a tool puts around what is.
    r"|\[\d+ more lines\b"
    r"|\W*+(?:Showing lines \d+-\d+ of \d|(?<=\()\d+ more lines not shown\b"
    r"|\d[\d,]*+ (?:characters|chars|lines|bytes) (?:elided|omitted|truncated)\b)"
    r"|\(End of file - total \d+ lines\)"
    r"|<path>[^<]*</path>\s*$|<type>\w+</type>\s*$|</?(?:content|entries|file)>\s*$"
    # How a script was started, where it failed, and that it was watched.
    r"|> @?[\w./-]+@\d[\w.+-]* \S+(?: /\S*)?\s*$|npm (?:error|ERR!) (?:path|workspace|location|command|code|Lifecycle) "
    r"|Debugger attached\.|Waiting for the debugger to disconnect"
    # Places inside of what others wrote.
    r"|at .*\b(?:node_modules/|node:internal)|File \"[^\"]*/(?:site-packages|lib/python\d[\d.]*)/[^\"]*\", line \d"
    # What git says beside what is changed and beside the commit that it made.
    r"|\(use \"git |no changes added to commit|nothing added to commit"
    r"|(?:create|delete) mode \d{6} |\d+ files? changed(?:, \d+ (?:insertion|deletion)s?\([+-]\))+\s*$"
    r"|index [0-9a-f]{7,40}\.\.[0-9a-f]{7,40}"
    # Behind the report of a subagent; behind any work of pip.
    r"|agentId: \w+ \(for resuming|\[notice\] (?:A new release of pip|To update, run)"
    # What a table gives no value.
    r"|[A-Za-z][\w.]*+ ++: *$"
    # The line on which a terminal shows what was typed.
    r"|(?:\([\w.-]+\) )?[\w.-]++@[\w.-]++:[^\s#$]*+[#$](?: |$)"
    # Behind its message PowerShell tells where and of which category.
    r"|\+\s+(?:CategoryInfo|FullyQualifiedErrorId|~|\.\.\. )"
    r"))"
)
# Brackets, rules, or no more than the number that a listing puts before a line.
_WITHOUT_WORDS = re.compile(r"(?:\d+[→:|-])?[\W_]*")
_BETWEEN_COMMANDS = re.compile(r"; |;(?=do |then )| && | \|\| | \| ")
_ENDS_FIELD = frozenset(",}")
# `Line 12: …` below `/srv/shop/src/retry.py:`, or `L12: …` below `File: src/retry.py`.
FINDS_BY_FILE = re.compile(r"^(?:\S*[/\\.]\S*:|File: \S+)\n\s*(?:Line |L)\d+: ", re.MULTILINE)
_FILE_OF_FINDS = re.compile(r"^(?:\S*[/\\.]\S*:|File: \S+)$", re.MULTILINE)
_OPENERS = frozenset("\"'`([{<*|>#:=,;→│")
_MARKS_IN_WORDS = frozenset(":=,;#")
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


def whole_line(text: str, start: int, end: int, words: Iterable[str], fewest: int) -> tuple[int, int] | None:
    """The line without its indent; None where it says too little. `words` are those between its blanks."""
    start, end = trimmed(text, start, end)
    # Most lines have as many words of letters alone, which are counted faster than all words are found.
    is_enough = len({word for word in words if word.isalpha() and len(word) >= _SHORTEST_WORD}) >= fewest
    is_enough = is_enough and not _has_bar(text, start, end)
    return (start, end) if is_enough or has_words(text, start, end, fewest) else None


def line_span(text: str, start: int, end: int, at: int, to: int, fewest: int) -> tuple[int, int] | None:
    """The line without its indent, or of a long one the clause around the atom; None where it says too little."""
    start, end = trimmed(text, start, end)
    start, end = min(start, at), max(end, to)
    if end - start > LONGEST_LINE:
        start, end = _clause_span(text, start, end, at, to)
    return (start, end) if has_words(text, start, end, fewest) else None


def is_packed(text: str, start: int, end: int) -> bool:
    """Whether a line is a program or bytes in a form that is not meant to be read: long, and hardly with a blank."""
    line = text[start:end]
    return len(line) >= _PACKED_CHARS and len(line) > _CHARS_PER_BLANK * line.count(" ") and line.isascii()


def command_span(text: str, start: int, end: int, at: int, to: int) -> tuple[int, int]:
    """Of a long line of commands, the one around a place; the line where that is long itself."""
    low, high = start, end
    for found in _BETWEEN_COMMANDS.finditer(text, start, end):
        if found.end() <= at:
            low = found.end()
        elif found.start() >= to:
            high = found.start()
            break
    return (low, high) if high - low <= LONGEST_LINE else (start, end)


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
        begun = next((place for place in range(low, at) if _begins_at(text, place)), -1)
        # Not in the middle of a long word: then from the place on.
        low = begun if begun >= 0 else text.rfind(" ", low, at) + 1 or at
    if high < end:
        ends = (place for place in range(high, to, -1) if text[place - 1] in _CLOSERS or text[place].isspace())
        high = next(ends, to)
    return low, high


def _begins_at(text: str, place: int) -> bool:
    before = text[place - 1]
    # A mark opens something where it is not in the middle of a word: `tests/a.py::TestEmail`, `key=value`.
    word = place - 1
    while word and text[word] in _MARKS_IN_WORDS:
        word -= 1
    is_inside = word < place - 1 and text[word].isalnum() and text[place].isalnum()
    is_start = (before in _OPENERS and not is_inside) or (before.isspace() and text[place - 2] in ".!?:;,|>")
    return is_start and not text[place].isspace() and text[place] not in _MARKS_IN_WORDS


def block_span(text: str, start: int, end: int, fewest: int) -> tuple[int, int] | None:
    """A short line says little alone; with the next ones, or those before it, it says what it is part of."""
    start, end = trimmed(text, start, end)
    words = _words_in(text, start, end)
    for _ in range(_NEIGHBOURS):
        after = text.find("\n", end + 1)
        after = len(text) if after < 0 else after
        if after - start > _SHORT_BLOCK_CHARS or not text[end + 1 : after].strip():
            break
        words |= _words_in(text, end, after)
        end = after
        if _say_something(words, fewest):
            return None if _has_bar(text, start, end) else (start, end)
    for _ in range(_NEIGHBOURS):
        before = text.rfind("\n", 0, max(0, start - 1)) + 1
        if start == 0 or end - before > _SHORT_BLOCK_CHARS or not text[before : start - 1].strip():
            break
        words |= _words_in(text, before, start)
        start = before
        if _say_something(words, fewest):
            break
    if _has_bar(text, start, end) or not _say_something(words, _FEWEST_WORDS_OF_BLOCK):
        return None
    return trimmed(text, start, end)


def lines_of_span(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The lines of a span, without those that hold no word."""
    while start < end:
        stop = text.find("\n", start, end)
        stop = end if stop < 0 else stop
        line = trimmed(text, start, stop)
        if not _WITHOUT_WORDS.fullmatch(text, *line):
            yield line
        start = stop + 1


def finds_with_files(
    text: str, lines: Iterable[tuple[int, int]]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Of the finds of a search these lines, each behind the line that names its file; and the other files."""
    files = [found.span() for found in _FILE_OF_FINDS.finditer(text)]
    starts = [start for start, _ in files]
    told: dict[tuple[int, int], None] = {}
    named: set[tuple[int, int]] = set()
    for line in lines:
        at = bisect_right(starts, line[0]) - 1
        if at < 0 or line[0] > files[at][1]:
            if at >= 0:
                named.add(files[at])
                told[files[at]] = None
            told[line] = None
    return list(told), [file for file in files if file not in named]


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without blanks around it. The number that a listing puts before a line stays: it says where to look."""
    span = text[start:end]
    begun = span.lstrip()
    start = end - len(begun)
    return start, start + len(begun.rstrip())


def has_words(text: str, start: int, end: int, fewest: int) -> bool:
    """Whether the span has so many different words. Numbers alone, such as a row of a table, say nothing."""
    return _say_something(_words_in(text, start, end), fewest) and not _has_bar(text, start, end)


def _has_bar(text: str, start: int, end: int) -> bool:
    """Whether a bar of progress is drawn in the span."""
    # Of a text that is not ASCII most lines are, and a part of it is cut out faster than it is searched.
    return not text.isascii() and not (span := text[start:end]).isascii() and _PROGRESS_BAR.search(span) is not None


def _words_in(text: str, start: int, end: int) -> set[str]:
    if text.isascii():
        return set(_ASCII_WORD.findall(text, start, end))
    span = text[start:end]
    return set((_ASCII_WORD if span.isascii() else _WORD).findall(span))


def _say_something(words: Set[str], fewest: int) -> bool:
    return len(words) >= fewest and not all(map(str.isdigit, words))


def quote_of(text: str, start: int, end: int) -> str:
    """The span on one line; marked where its last line goes on."""
    first, *others = text[start:end].split("\n")
    lines = [first, *(line[trimmed(line, 0, len(line))[0] :] for line in others)]
    if start and text[start - 1] == '"' == text[end : end + 1]:
        return " ".join(" ".join(lines).split())  # a value, whole
    _, line_end = line_around(text, end) if end < len(text) else (end, end)
    return " ".join(" ".join(lines).split()) + ("…" if text[end:line_end].strip() else "")


# -- sentences over several lines --------------------------------------------------------------------------------------

_BEFORE_WORDS = re.compile(r"\s*(?:\d+(?:→|[:|-](?=\s|$)))?\s*(?:(?://+!?|#+|\*+|>+|--+)(?=\s|$)\s*)*")
_WORDS_IN_A_ROW = re.compile(r" [a-z'’-]+[,;]? [a-z'’-]+[,;]? [a-z'’-]+(?=[\s,;.:)]|$)")
_NEW_ENTRY = re.compile(r"[-*+•] |\d{1,3}[.)] |[|#>`]{2,}|\||[\w./\\-]+[:(]\d")
_SENTENCE_ENDS = (".", "!", "?", ":", ";", "|", "{", "}", "(", "[", "=", "\\", "…")
_SHORTEST_WRAPPED = 56
_END_INSIDE = re.compile(r"[.!?]\s|。")
_MOST_LINES_OF_SENTENCE, _LONGEST_SENTENCE = 5, 420


def whole_sentence(text: str, start: int, end: int, *, near: bool = False) -> tuple[int, int]:
    """A line of prose that was wrapped, with the lines over which its sentence goes on; any other line alone.

    With `near`, also a line that only those above and below it show to be prose: one with many names in it.
    """
    if not _is_wrapped_prose(text, start, end) and not (near and _is_beside_prose(text, start, end)):
        return start, end
    last, lines = end, 1
    while lines < _MOST_LINES_OF_SENTENCE and last < len(text) and not text.endswith(_SENTENCE_ENDS, 0, last):
        low, high = line_around(text, last + 1)
        if not _goes_on_in(text, low, high):
            break
        last, lines = trimmed(text, low, high)[1], lines + 1
        if _END_INSIDE.search(text, low, high):
            break
    last = last if last - start <= _LONGEST_SENTENCE else end
    first = start
    while lines < _MOST_LINES_OF_SENTENCE and _goes_on_in(text, *line_around(text, first)):
        above = trimmed(text, *line_around(text, max(0, text.rfind("\n", 0, first))))
        if not _is_wrapped_prose(text, *above) or text.endswith(_SENTENCE_ENDS, 0, above[1]) or above[0] >= first:
            break
        first, lines = above[0], lines + 1
        if _END_INSIDE.search(text, *above):
            break
    return (first if last - first <= _LONGEST_SENTENCE else start), last


def _is_beside_prose(text: str, start: int, end: int) -> bool:
    """Whether a sentence of the line above goes on in this one, or this one's in the line below."""
    if end - start < _SHORTEST_WRAPPED:
        return False
    places = (max(0, text.rfind("\n", 0, start)), start, min(len(text), end + 1))
    above, own, below = (line_around(text, place) for place in places)
    return any(
        _is_wrapped_prose(text, *prose) and _goes_on_in(text, *following) and not text.endswith(_SENTENCE_ENDS, 0, last)
        for prose, following, last in ((above, own, trimmed(text, *above)[1]), (below, below, end))
    )


def _is_wrapped_prose(text: str, start: int, end: int) -> bool:
    return end - start >= _SHORTEST_WRAPPED and _WORDS_IN_A_ROW.search(text, start, end) is not None


def _goes_on_in(text: str, start: int, end: int) -> bool:
    """Whether a line can be one in which the sentence of the line before goes on."""
    at = _words_start(text, start, end)
    return at < end and not _NEW_ENTRY.match(text, at, end) and (text[at].islower() or text[at] in "`(\"'")


def _words_start(text: str, start: int, end: int) -> int:
    found = _BEFORE_WORDS.match(text, start, end)
    return found.end() if found else start


# -- definitions in code -----------------------------------------------------------------------------------------------

_PLACE = r"(?P<place>\d+(?:→|[:|]\s?)\s*)?"
_MODIFIERS = r"(?:(?:export|default|public|private|protected|static|abstract|async|final|override|pub(?:\(\w+\))?)\s+)"
_NO_PARAMETERS = r"\(\s*(?:self|cls|this|&(?:mut )?self|\w \*testing\.[TB])?\s*\)"
_DEFINITION = re.compile(
    rf"{_PLACE}(?P<kind>{_MODIFIERS}*(?:def|function|func|fn)|{_MODIFIERS}+)\s*"
    rf"(?P<name>[\w$]{{2,}}){_NO_PARAMETERS}[^=;,(]*?[:{{]"
)
_CLASS = re.compile(
    rf"{_PLACE}(?P<kind>{_MODIFIERS}*(?:class|interface|struct|enum|trait))\s+"
    r"(?P<name>\w{2,})(?:[(<][^()]*[)>])?(?: (?:extends|implements) [\w., <>]+)?\s*[:{]"
)
OPENS_BODY = (":", "{")
"""How a line ends that defines something."""
_REMARK = re.compile(r"(?:\"{3}|\'{3}|//+!?|#+|/\*+|\*)\s*(?P<words>[^\n]*?)\s*(?:\"{3}|\'{3}|\*/)?")
MARKS_OF_REMARK = frozenset("\"'/#*")
"""What a remark begins with."""
_PARTS_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SHORTEST_PART, _STEM_CHARS = 4, 5
_SHARE_REPEATED = 0.6
_REACH_OF_NAME = 300
_IMPORTED = re.compile(r"(?P<line>\d+)(?:→|[:|]\s?)\s*(?P<name>(?:type )?[A-Za-z_$][\w$]*),")
_IMPORTED_FROM = re.compile(r"(?P<line>\d+)(?:→|[:|]\s?)\s*\} from (?P<where>\S+?);?")


def joined_imports(lines: Iterable[str]) -> list[str]:
    """The lines of a numbered listing; names of an import between which no line is missing on one, with its source."""
    told: list[str] = []
    follows = -1
    for line in lines:
        named, source = _IMPORTED.fullmatch(line), _IMPORTED_FROM.fullmatch(line)
        found = named or source
        goes_on = found is not None and int(found["line"]) == follows
        if goes_on and named:
            told[-1] += f" {named['name']},"
        elif goes_on and source:
            told[-1] = f"{told[-1].removesuffix(',')} from {source['where']}"
        else:
            told.append(line)
        follows = int(named["line"]) + 1 if named and len(told[-1]) < LONGEST_LINE else -1
    return told


def _definition(line: str) -> re.Match[str] | None:
    if not line.endswith(OPENS_BODY):
        return None
    return _CLASS.fullmatch(line) or _DEFINITION.fullmatch(line)


def bare_definition(line: str) -> str:
    """The name that a line defines, where the line says no more: `def test_email(self):`; else empty."""
    found = _definition(line)
    return found["name"] if found else ""


def joined_definitions(lines: Iterable[str]) -> list[str]:
    """The lines, of definitions that follow each other the names on one: `def load, save():`."""
    told: list[str] = []
    group: list[re.Match[str]] = []
    for line in joined_imports(lines):
        found = _definition(line)
        if found and group and not _goes_on(group, found):
            # Of several classes the last one is the one that what follows is in.
            last = [group.pop()] if len(group) > 1 and _is_class(group[-1]) and not _is_class(found) else []
            told.append(_names_of(group))
            group = last
        if found:
            group.append(found)
            continue
        told += [_names_of(group), line] if group else [line]
        group = []
    return [*told, _names_of(group)] if group else told


def _is_class(found: re.Match[str]) -> bool:
    return found.re is _CLASS


def _goes_on(group: Sequence[re.Match[str]], found: re.Match[str]) -> bool:
    """Whether a definition can stand on the line of those before it: of the same kind, or in their one class."""
    if _is_class(group[-1]):
        return _is_class(found) or len(group) == 1
    return not _is_class(found) and (_is_class(group[0]) or found["kind"] == group[-1]["kind"])


def _names_of(group: Sequence[re.Match[str]]) -> str:
    first, *others = group
    if not others:
        return first[0]
    # What stands behind the last name, such as `(self):`, stands behind the others too.
    names = ", ".join(found["name"] for found in others) + others[-1][0][others[-1].end("name") :]
    if _is_class(first) and not _is_class(others[0]):
        return f"{first[0].rstrip(' :{')}: {others[0]['kind'].strip()} {names}"
    return f"{first['place'] or ''}{first['kind'].strip()} {first['name']}, {names}"


def repeats_definition(text: str, start: int, end: int) -> bool:
    """Whether a line is a remark that says no more than the name of what is defined right before or behind it."""
    remark = _REMARK.fullmatch(text, start, end)
    said = _stems(remark["words"]) if remark else set()
    if not said:
        return False
    line_start = text.rfind("\n", 0, start) + 1
    before = text.rfind("\n", max(0, line_start - _REACH_OF_NAME), max(0, line_start - 1)) + 1
    behind = text[end + 1 : line_around(text, min(len(text), end + 1))[1]]
    for line in (text[before : max(0, line_start - 1)], behind):
        name = bare_definition(line.strip())
        if name and len(said & _stems(name)) >= _SHARE_REPEATED * len(said):
            return True
    return False


def _stems(text: str) -> set[str]:
    parts = (part.lower() for part in _PARTS_OF_NAME.findall(text))
    return {part[:_STEM_CHARS] for part in parts if len(part) >= _SHORTEST_PART}
