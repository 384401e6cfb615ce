"""What may be quoted, and what was chosen of it: a part of a message, a line of it with its worth, the selection.

What a line is worth changes with what was selected before; all else about it is found once: what it has in common with
others of a listing, by which those that are alike are told by their count, and of code what kind of line it is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from clew.ledger.spans import (
    FINDS_BY_FILE,
    LONGEST_LINE,
    ROUTINE_LINE,
    QuoteSpan,
    bare_definition,
    line_around,
    lines_of_span,
    quote_of,
    trimmed,
    whole_sentence,
)

SEPARATOR_CHARS = 3
# Under 1, so that one long path that is likely needed beats two short names that are less so.
_LENGTH_POWER = 0.8
MOST_ALIKE = 2  # so many of like lines are quoted, beside the first and the last
_SHORTEST_REPEATED = 20
_MOST_OF_OUTDATED = 160
_LEAST_OF_LISTING, _MOST_OF_LISTING, _LISTINGS_OF_ROOM = 120, 700, 30
_FIRST_CHARS = 600
_PLACE = re.compile(r"\s*\d+(?:→|[:|-]\s*)")  # before a line, where a listing says where it stands


@dataclass(slots=True)
class QuoteSelection:
    """What was selected so far, and how many chars it takes."""

    room: int
    covered: set[str]
    listing_chars: int = _LEAST_OF_LISTING
    """How many chars a listing may take."""
    least: float = 0.0
    """What a span is worth of itself, without its atoms."""
    spent: int = 0
    lines: set[Hashable] = field(default_factory=set)
    spans: dict[tuple[int, int], list[QuoteSpan]] = field(default_factory=dict)
    taken: list[QuoteSpan] = field(default_factory=list)
    """All that was taken, in that order."""
    alike: Counter[tuple[int, int, str]] = field(default_factory=Counter)
    """How many lines of one shape were taken from a part of a message."""
    most_of_part: int = 0
    """How many chars may be taken from one part of a message; 0 where any number may."""
    of_part: Counter[tuple[int, int]] = field(default_factory=Counter)
    held: list[QuoteCandidate] = field(default_factory=list)
    """What was not taken because enough of its part had been."""
    quoted: set[str] = field(default_factory=set)
    """The lines that were taken."""
    listings: dict[tuple[int, int, str], str] = field(default_factory=dict)
    """The listings that were written."""
    settled: set[QuoteCandidate] = field(default_factory=set)
    """What was taken, or is like enough others that were: its turn does not come again."""
    written: dict[tuple[int, int], tuple[Hashable, list[str]]] = field(default_factory=dict)
    """What was last selected of each part of a message, and the quotes that it gave."""

    @classmethod
    def of(cls, room: int, most: int, covered: set[str], *, all_fit: bool) -> QuoteSelection:
        """An empty one with so much room, and so much in the end; `all_fit` where that holds all that can be quoted."""
        # Names without a word on them say least for their length: they are told in full where nothing is lost for them.
        listing = _MOST_OF_LISTING if all_fit else min(_MOST_OF_LISTING, most // _LISTINGS_OF_ROOM)
        return cls(room, covered, max(_LEAST_OF_LISTING, listing))

    def take(self, span: QuoteSpan, line: Hashable, chars: int) -> None:
        self.spent += chars
        self.lines.add(line)
        self.spans.setdefault((span.number, span.part), []).append(span)
        self.taken.append(span)
        self.of_part[span.number, span.part] += chars

    def give_back(self, room: int) -> None:
        """Give back what was taken last until the rest fits into `room` chars."""
        while self.taken and self.spent > room:
            span = self.taken.pop()
            own = self.spans.get((span.number, span.part), [])
            # Not where all of a statement was taken in its place.
            if span in own:
                own.remove(span)
                self.spent -= span.end - span.start + SEPARATOR_CHARS
                if not own:
                    del self.spans[span.number, span.part]

    def has_enough_of(self, span: QuoteSpan, is_favoured: bool) -> bool:
        """Whether its part has the room that one may have, or twice that."""
        chars = self.of_part[span.number, span.part] + span.end - span.start
        return chars > self.most_of_part * (1 + is_favoured)

    def overlaps(self, span: QuoteSpan) -> bool:
        taken = self.spans.get((span.number, span.part), ())
        return any(span.start < other.end and other.start < span.end for other in taken)


class QuotablePart:
    """A text of a message, and all that its quotes have in common; what is found in it once is kept."""

    __slots__ = (
        "_lines",
        "_lists_by_file",
        "clean",
        "is_outdated",
        "is_result",
        "is_said",
        "line",
        "line_chars",
        "newness",
        "quotes",
        "shapes",
        "statements",
        "text",
    )

    def __init__(
        self,
        text: str,
        newness: float,
        line: Hashable,
        line_chars: int,
        *,
        is_result: bool,
        is_said: bool = False,
        is_outdated: bool = False,
    ) -> None:
        self.text = text
        self.is_outdated = is_outdated
        self.newness = newness
        self.line = line
        self.line_chars = line_chars
        self.is_result = is_result
        self.is_said = is_said
        self.clean: str | None = None
        """The text on one line without its secrets; empty where it has none."""
        self.shapes: dict[int, str] = {}
        self.statements: dict[tuple[int, int], tuple[int, int]] = {}
        self.quotes: dict[tuple[int, int], str] = {}
        self._lines: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._lists_by_file: bool | None = None

    def is_routine(self, start: int, end: int) -> bool:
        """Whether a line of it is one of routine."""
        return ROUTINE_LINE.match(self.text, start, end) is not None

    @property
    def lists_by_file(self) -> bool:
        """Whether it gives the finds of a search file by file."""
        if self._lists_by_file is None:
            first = self.text[:_FIRST_CHARS]
            # Plain strings are found many times as fast.
            may_list = ":\n" in first or "File: " in first
            self._lists_by_file = may_list and FINDS_BY_FILE.search(first) is not None
        return self._lists_by_file

    def lines_of(self, span: tuple[int, int]) -> list[tuple[int, int]]:
        """The lines of a span that may be told."""
        lines = self._lines.get(span)
        if lines is None:
            lines = list(lines_of_span(self.text, *span))
            if self.is_result:
                lines = [line for line in lines if not self.is_routine(*line)]
            self._lines[span] = lines
        return lines

    def shape_at(self, start: int, end: int) -> str:
        shape = self.shapes.get(start)
        if shape is None:
            shape = self.shapes[start] = shape_of(self.text[start:end])
        return shape

    def statement(self, span: tuple[int, int]) -> tuple[int, int]:
        """The lines that a line of code is to be read with."""
        whole = self.statements.get(span)
        if whole is None:
            whole = whole_statement(self.text, *span)
            whole = whole if whole != span else whole_sentence(self.text, *span, near=True)
            self.statements[span] = whole
        return whole

    def quote(self, span: tuple[int, int]) -> str:
        quote = self.quotes.get(span)
        if quote is None:
            quote = self.quotes[span] = quote_of(self.text, *span)
        return quote


class QuoteCandidate:
    """A span that may be quoted, with everything about it that does not depend on what was selected before."""

    __slots__ = (
        "atoms", "chars", "chars_with_line", "line", "newness", "part", "power", "power_with_line", "span", "worth"
    )  # fmt: skip

    def __init__(self, span: QuoteSpan, chars: int, part: QuotablePart, atoms: dict[str, float]) -> None:
        self.span = span
        self.part = part
        self.atoms = atoms
        """What each of its atoms is worth."""
        self.worth = 0.0
        for own in atoms.values():
            self.worth += own
        self.newness = part.newness * (weight_of_code(part.text, span.start, span.end) if part.is_result else 1)
        self.line = part.line
        self.chars = chars + SEPARATOR_CHARS
        self.chars_with_line = self.chars + part.line_chars
        self.power = math.pow(self.chars, _LENGTH_POWER)
        self.power_with_line = math.pow(self.chars_with_line, _LENGTH_POWER)

    def density(self, selection: QuoteSelection) -> float:
        """The worth of the atoms that it would add, by its length."""
        covered = selection.covered
        if not selection.least and covered.isdisjoint(self.atoms):
            worth = self.worth
        else:
            worth = selection.least
            for atom, own in self.atoms.items():
                if atom not in covered:
                    worth += own
        return worth * self.newness / (self.power if self.line in selection.lines else self.power_with_line)

    def chars_in(self, selection: QuoteSelection) -> int:
        return self.chars if self.line in selection.lines else self.chars_with_line


def may_take(span: QuoteSpan, part: QuotablePart, selection: QuoteSelection) -> bool:
    """Whether there are not enough lines like it yet: more of a listing or of a log are told by their count.

    What the agent said is no listing: each line was worth writing.
    """
    text = part.text
    if part.is_outdated and selection.of_part[span.number, span.part] >= _MOST_OF_OUTDATED:
        return False
    place = _PLACE.match(text, span.start, span.end)
    line = text[place.end() if place else span.start : span.end]
    if len(line) >= _SHORTEST_REPEATED:
        if line in selection.quoted:
            return False
        selection.quoted.add(line)
    if part.is_said:
        return True
    start, end = line_around(text, span.start)
    # A clause of a long line is a find of its own.
    shape = part.shape_at(start, end) if end - start <= LONGEST_LINE else ""
    if not shape:
        return True
    if _DIAGNOSTIC.match(text, start, end):
        diagnostics = (span.number, span.part, DIAGNOSTICS)
        selection.alike[diagnostics] += 1
        if selection.alike[diagnostics] > MOST_DIAGNOSTICS:
            return False
    key = (span.number, span.part, shape)
    selection.alike[key] += 1
    if selection.alike[key] == MOST_ALIKE:
        # The first and the last such line will stand beside it; of paths more names, in the place of all of them.
        is_listing = shape in LISTINGS and not part.lists_by_file
        selection.spent += selection.listing_chars if is_listing else 2 * (end - start)
    return selection.alike[key] <= MOST_ALIKE


# -- lines that are alike ----------------------------------------------------------------------------------------------

# From the start of a word: further on in it nothing is found that was not found from there.
_EXACT = re.compile(r"(?<![\w@:-])[\w@:-]*[\d_/\\.][\w./\\:@~+-]*")
# A line of a log begins with when it was written.
_DAYS_AND_MONTHS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_STAMP = re.compile(rf"\s*\[? *(?:\d+[-:./]\d|(?:{_DAYS_AND_MONTHS})\b)")
# What a compiler or a linter says of a place: `src/a.ts(12,5): error TS2304: …`, `a.py:12:0: W0613: …`.
_DIAGNOSTIC = re.compile(
    r"\s*[^\s:(]+(?::\d+(?::\d+)?:|\(\d+(?:,\d+)?\):)\s+"
    r"(?=(?:fatal )?(?:error|warning|note|info)\b|[A-Z]{1,4}\d{2,5}\b)"
)
# Names of a long import or a list, several on a line.
_ONLY_NAMES = re.compile(r"\s*(?:\d+[→:|]\s*)?['\"]?[\w.]+['\"]?(?:, *['\"]?[\w.]+['\"]?)+,?\s*")
_RIGHTS = re.compile(r"\s*[-bcdlps][-rwxsStT]{9}[@+.]? +\d")
LISTED = "-rw"
"""The shape of the lines of a long listing."""
ONLY_PATH = "\0"
"""The shape of a line that is a path or the name of a file, and no more."""
NAMES_FILE = f"{ONLY_PATH}:"
"""The shape of a path with a colon, above what was found in that file."""
_QUOTED_NAME = re.compile(r"'[^'\s]{1,60}'|\"[^\"\s]{1,60}\"|`[^`\s]{1,60}`")
# Begins with a class of chars and looks back from it, since a search for one class is fast.
_VALUE = re.compile(
    r"[=:{};](?:(?<==)(?![=>])(?:(?<=[\w\"'\])}]=)|(?<=[\w\"'\])}] =))"
    r"|(?<=:)(?= )(?:(?<=[\w\"'\])}]:)|(?<=[\w\"'\])}] :))|(?<=[{};])\s*$)"
)
# A name with a figure: of a program that prints one for each of its finds the same name comes again and again.
_FIGURE = re.compile(r"\s*([A-Za-z][\w -]{0,40}?)\s*[:=]\s*[-+]?\d[\d.,]*%?\s*")
# An entry of a list of links, such as those at the end of a document.
_ONLY_LINK = re.compile(r"\s*(?:\d+(?:→|[:|])\s*)?(?:[-*+•]|\d+[.)])?\s*\[[^\]]+\]\(\S+\)[.,;]?\s*")
LISTINGS = frozenset({LISTED, ONLY_PATH, NAMES_FILE})
DIAGNOSTICS = "\0diagnostics"
"""Stands for all of what a compiler or a linter says, whatever its words."""
MOST_DIAGNOSTICS = 8


def diagnostics_in(text: str) -> int:
    """Of how many places a compiler or a linter says something."""
    return sum(_DIAGNOSTIC.match(line) is not None for line in text.split("\n"))


def shape_of(line: str) -> str:
    """What lines of a listing or of a log have in common: their words, without names, numbers and paths.

    Empty for a line that gives a name its value: what such a line says stands in no other. Names that are defined are
    told side by side.
    """
    if _ONLY_NAMES.fullmatch(line):
        return "names"
    if _RIGHTS.match(line):
        return LISTED
    if "](" in line and _ONLY_LINK.fullmatch(line):
        return "links"
    if placed := _DIAGNOSTIC.match(line):
        return _EXACT.sub("\0", _QUOTED_NAME.sub("\0", line[placed.end() :].strip()))
    if figure := _FIGURE.fullmatch(line):
        return f"{figure[1].strip()}\0"
    if (_VALUE.search(line) and not _STAMP.match(line)) or bare_definition(line.strip()):
        return ""
    said = line.strip()
    shape = _EXACT.sub("\0", said)
    return NAMES_FILE if shape == ONLY_PATH and said.endswith(":") else shape


# -- source text -------------------------------------------------------------------------------------------------------

_PREFIX = r"(?:[ \t]*\d+(?:→|[:|] ?+|\t))?+"  # where a listing says where a line stands
_BEFORE_CODE = re.compile(rf"{_PREFIX}(?P<indent>[ \t]*)")
_KIND_OF_CODE = re.compile(
    rf"{_PREFIX}(?P<indent>[ \t]*)(?:"
    r"(?P<rest>[)\]]|\}(?! from)|[?:] |\.\w+\(|&& |\|\| |\| '[^']*'$|(?:type )?[\w$]+,$)"
    r"|(?:(?:export|default|public|private|protected|static|abstract|async|pub(?:\(\w+\))?) )*"
    r"(?:def|function|func|fn|class|interface|struct|enum|trait|impl|(?P<value>const|let|var|type|static))"
    r" [\w$]+(?!,$)\b)"
)
_WEIGHT_OF_DEFINITION, _WEIGHT_OF_LOCAL, _WEIGHT_OF_REST = 1.5, 0.7, 0.5
_OPENS_MORE = ("(", "[", "{", "=", "=>")
_ONLY_OPENS = re.compile(r"(?:\A|[\s:→|])[\[({]+\Z")
_CLOSES = frozenset(")]}")
_GOES_ON_WITH = frozenset(")]}?:.|&+")
_REMARKS = ("#", "//", "/*", "*", '"""')
_LONGEST_STATEMENT, _REACH_OF_STATEMENT = 420, 900


def weight_of_code(text: str, start: int, end: int) -> float:
    """What a line is worth beside others with the same names: most where it defines something, least where it is the
    rest of what stands above it; little where it names a value inside of a function."""
    found = _KIND_OF_CODE.match(text, start, end)
    if found is None:
        return 1.0
    if found["rest"] is not None:
        return _WEIGHT_OF_REST
    is_local = found["value"] and (found["indent"] or text[start - 1 : start] in (" ", "\t"))
    return _WEIGHT_OF_LOCAL if is_local else _WEIGHT_OF_DEFINITION


def whole_statement(text: str, start: int, end: int) -> tuple[int, int]:
    """A line of code to where what it opens is closed, or from where the call begins that it is an argument of.

    The line alone where that is long; of a line that only closes something long, the one that opens it.
    """
    low = text.rfind("\n", 0, start) + 1
    code, indent = _code_at(text, low, end)
    if code >= end or text.startswith(_REMARKS, code, end):
        return start, end
    is_closing = text[code] in _CLOSES
    if not is_closing and text.endswith(_OPENS_MORE, code, end):
        return start, _end_of_block(text, start, end, indent) or end
    if text[code] not in _GOES_ON_WITH and text[end - 1] != ",":
        return start, end
    head = _head_above(text, low, indent + is_closing)
    if head is None:
        return start, end
    last = _end_of_block(text, *head)
    if last >= end:
        # A bracket alone says nothing of what it opens: an argument of a call.
        outer = (
            _head_above(text, text.rfind("\n", 0, head[0]) + 1, head[2])
            if _ONLY_OPENS.search(text, *head[:2])
            else None
        )
        outer_last = _end_of_block(text, *outer) if outer and text.endswith(_OPENS_MORE, 0, outer[1]) else 0
        return (outer[0], outer_last) if outer and outer_last >= last else (head[0], last)
    return head[:2] if is_closing and text.endswith(_OPENS_MORE, 0, head[1]) else (start, end)


def _code_at(text: str, start: int, end: int) -> tuple[int, int]:
    """Where the code of a line begins, and how far it is indented."""
    found = _BEFORE_CODE.match(text, start, end)
    assert found is not None  # every part of it may be empty
    return found.end(), found.end() - found.start("indent")


def _head_above(text: str, low: int, indent: int) -> tuple[int, int, int] | None:
    """The nearest line above with a smaller indent: where it starts and ends, and its own indent."""
    least = max(0, low - _REACH_OF_STATEMENT)
    while low > least:
        high = low - 1
        low = text.rfind("\n", 0, high) + 1
        code, own = _code_at(text, low, high)
        if code < high and own < indent:
            return (*trimmed(text, low, high), own)
    return None


def _end_of_block(text: str, start: int, end: int, indent: int) -> int:
    """Where what a line opens ends; 0 where that would be long."""
    last, most = (end, end), min(len(text), start + _REACH_OF_STATEMENT)
    low = end + 1
    while low <= most:
        high = text.find("\n", low)
        high = len(text) if high < 0 else high
        code, own = _code_at(text, low, high)
        if code < high and own <= indent:
            if text[code] in _CLOSES and own == indent:
                last = low, high
            ends = trimmed(text, *last)[1]
            return ends if ends - start <= _LONGEST_STATEMENT else 0
        if code < high:
            last = low, high
        low = high + 1
    return 0
