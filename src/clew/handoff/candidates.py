"""Candidates: everything that a handoff may say, with the features that decide what it is worth.

Most are pieces of messages: a sentence, a line of a result, a line that was written to a file. Pieces belong to a
group, the line they are rendered on: the words of one message, or one action with its outcome. The first chosen piece
of a group pays for the frame of that line. Others are entries of a section, such as a rule or a changed file.
"""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple

from clew.facts.parts import (
    Part,
    PartKind,
    code_feature,
    code_parts,
    file_parts,
    is_document,
    lines_shown,
    output_parts,
    prose_parts,
)
from clew.facts.record import Action, Record
from clew.facts.speech import person_text
from clew.facts.text import CUT, TermKind, Terms, flatten, result_text, shorten
from clew.facts.tools import is_generated, written_texts
from clew.handoff.value import SHORTENED
from clew.lazy import read_beside
from clew.messages import Message, text_of

ReadMessage = Callable[[int], Message]

LIMITS: dict[str, Any] = tomllib.loads(read_beside(__file__, "limits.toml").decode())
TARGET_CHARS = LIMITS["target_chars"]
_NAMED_BY_LAST_REQUESTS = LIMITS["named_by_last_requests"]
_SHORTEST_NAME_CHARS = LIMITS["shortest_name_chars"]
_SHORTEST_REPEATED_CHARS = LIMITS["shortest_repeated_chars"]
_SHORTEST_PIECE_CHARS = LIMITS["shortest_piece_chars"]
_SHORTEST_ROOT_CHARS = LIMITS["shortest_root_chars"]
_FEWEST_BELOW_ROOT = LIMITS["fewest_below_root"]
_ROOT_SHARE = LIMITS["root_share"]
_MOST_CHARS_OF_MESSAGE = LIMITS["most_chars_of_message"]
_MOST_CHARS_READ = LIMITS["most_chars_read"]
_CHARS_BESIDE_TEXT = LIMITS["chars_beside_text"]
_MOST_SNIPPET_LINES = LIMITS["most_snippet_lines"]
BELOW_ROOT = "…/"
"""The abbreviation of the folder that most files of a conversation are below."""
FAILED = " (failed)"
_EXACT = TermKind.EXACT
_LOCATED = ("definition", "value", "field")
"""Lines of code that are quoted with their number in the file."""
_CHARS_READ_WHOLE, _ENDS_CHARS = 500_000, 2_000
"""The newest chars are read whole; of longer messages that lie further back, so much of their ends."""
_MOST_OLD_REPLIES, _ENDS_OF_OLD_CHARS = 200, 1_200
"""Of what lies further back than `_MOST_CHARS_READ`, so many replies are read, and so much of each."""


class Kind(StrEnum):
    """What a candidate says."""

    # Pieces of messages.
    ASKED = "asked"
    CLOSING = "closing"
    SAID = "said"
    SNIPPET = "snippet"
    COMMAND = "command"
    WRITTEN = "written"
    DOCUMENT = "document"
    OUTCOME = "outcome"
    OUTPUT = "output"
    READ = "read"
    FOUND = "found"
    # Entries of sections.
    REQUEST = "request"
    RULE = "rule"
    STATE = "state"
    FAILURE = "failure"
    FILE = "file"
    PREVIOUS = "previous"


_WORDS = frozenset({Kind.ASKED, Kind.CLOSING, Kind.SAID, Kind.SNIPPET})
"""What a person or the agent said, which is quoted as it was."""


class Group(NamedTuple):
    """The line that a piece is rendered on."""

    exchange: int
    number: int
    """Of the message that the line refers to."""
    call: int
    """The place of the call in its message; -1 for what was said."""


@dataclass(slots=True, eq=False)
class Candidate:
    kind: Kind
    text: str
    numbers: tuple[int, ...]
    """Its source messages: one, or the first and the last of several."""
    terms: Set[str]
    group: Group | None = None
    at: int = 0
    """Its place among the pieces of its group, or among the entries of its section."""
    section: str = ""
    features: tuple[str, ...] = ()


# Where a term occurs, as bits.
IN_REQUEST, IN_WORDS, IN_CLOSING, IN_CALL, IN_RESULT = (1 << bit for bit in range(5))


@dataclass(slots=True)
class TermUse:
    """How often and where a term occurs."""

    first: int
    last: int
    messages: int
    places: int


@dataclass(slots=True)
class Material:
    """The candidates of a conversation, the frames of their lines, and where each term occurs."""

    candidates: list[Candidate] = field(default_factory=list)
    frames: dict[Group, str] = field(default_factory=dict)
    calls: defaultdict[Group, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The messages with the calls of each line, the newest first."""
    shown: defaultdict[Group, set[tuple[int, int]]] = field(default_factory=lambda: defaultdict(set))
    """For the lines of the handoff about files that were read: which lines of the file the results show."""
    uses: dict[str, TermUse] = field(default_factory=dict)
    terms: Terms = field(default_factory=Terms)
    root: str = ""
    """The folder that most files of actions are below; empty where there is none."""

    def short_path(self, path: str) -> str:
        """The path, with a mark in place of the common folder."""
        return f"{BELOW_ROOT}{path[len(self.root) :]}" if self.root and path.startswith(self.root) else path


def read_material(
    record: Record,
    read: ReadMessage,
    numbers: Sequence[int],
    may_quote: Callable[[int], bool],
    *,
    with_statements: bool = False,
) -> Material:
    """The pieces of the messages that may be quoted. Terms are counted over all `numbers`.

    Of code, a statement is a piece where a message names something in it; `with_statements`: in any case.
    """
    reader = _MaterialReader(record, may_quote, with_statements=with_statements)
    found: list[tuple[int, Message, str]] = []
    room = _MOST_CHARS_READ
    for number in reversed(numbers):
        message = read(number)
        text = text_of(message)
        room -= min(len(text), _MOST_CHARS_OF_MESSAGE) + _CHARS_BESIDE_TEXT
        if room < 0:
            break
        is_near = room > _MOST_CHARS_READ - _CHARS_READ_WHOLE
        found.append((number, message, _both_ends(text, _MOST_CHARS_OF_MESSAGE if is_near else _ENDS_CHARS)))
    # Of what lies further back, requests are in the record; of the replies, the last words are read.
    oldest = found[-1][0] if found else record.next_number
    closings = (exchange.closing for exchange in reversed(record.exchanges))
    old = (number for number in closings if number is not None and numbers[0] <= number < oldest)
    for number in islice(old, _MOST_OLD_REPLIES):
        message = read(number)
        found.append((number, message, _both_ends(text_of(message), _ENDS_OF_OLD_CHARS)))
    for _, message, text in found:
        if message["role"] != "tool":
            reader.read_names(text)
    for number, message, text in found:
        reader.read(message, number, text)
    return reader.material


def _is_pasted(part: Part) -> bool:
    """Whether a part of what was said is a long block of code: a file or an output that was pasted."""
    return part.kind is PartKind.CODE and len(part.pieces) > _MOST_SNIPPET_LINES


def _both_ends(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n{text[-most // 2 :]}"


class _MaterialReader:
    """Reads messages from the newest to the oldest."""

    def __init__(self, record: Record, may_quote: Callable[[int], bool], *, with_statements: bool) -> None:
        self.material = Material()
        self._record, self._may_quote, self._with_statements = record, may_quote, with_statements
        self._sizes: dict[Group, int] = {}
        self._seen: defaultdict[int, set[str]] = defaultdict(set)
        """The terms of the message that is being read, by place."""
        self._proposed: defaultdict[str, set[str]] = defaultdict(set)
        """The longer lines of each file that was read: of equal ones the newest is proposed."""
        self._parts: dict[str, list[Part]] = {}
        """Of the texts that people and the agent wrote, each of which is read twice."""
        self._named: set[str] = set()
        """The exact terms in what people and the agent said."""
        self._lines: dict[tuple[int, str, str, str], Group] = {}
        self._by_call: dict[int, list[Action]] = {}
        self._by_result: dict[int, Action] = {}
        self._last_with: dict[str, int] = {}
        for action in record.actions():
            self._by_call.setdefault(action.number, []).append(action)
            self._last_with[action.reading.target] = action.number
            if action.result is not None:
                self._by_result[action.result] = action
        self.material.root = common_root(
            [action.reading.target for action in record.actions() if action.reading.is_file]
        )
        # Where an exchange ended in the middle of its work, the last words say how far it got.
        last_words = (next(filter(may_quote, reversed(exchange.texts)), None) for exchange in record.exchanges)
        self._closings = {*(exchange.closing for exchange in record.exchanges), *last_words}
        self._asked = [exchange.request for exchange in record.exchanges[-_NAMED_BY_LAST_REQUESTS:]]

    def read_names(self, text: str) -> None:
        """Remember the exact terms of what was said: code is quoted where one of them is in it."""
        terms, kinds = self.material.terms, self.material.terms.kinds
        parts = self._parts[text] = prose_parts(text)
        for part in parts:
            if not _is_pasted(part):
                found = set().union(*terms.of_each(part.pieces))
                self._named.update([term for term in found if kinds[term] is _EXACT])

    def read(self, message: Message, number: int, text: str) -> None:
        exchange = self._record.exchange_of(number)
        words = Group(exchange, number, -1)
        match message["role"]:
            case "user":
                self._add_prose(Kind.ASKED, words, number, person_text(text, message.get("name", "")), IN_REQUEST)
            case "assistant":
                if number in self._closings:
                    self._add_prose(Kind.CLOSING, words, number, text, IN_CLOSING | IN_WORDS)
                else:
                    self._add_prose(Kind.SAID, words, number, text, IN_WORDS)
                for action in self._by_call.get(number, ()):
                    self._add_call(action, exchange)
            case "tool":
                if answered := self._by_result.get(number):
                    self._add_result(answered, self._group_of(answered, exchange), number, text)
        for place, terms in self._seen.items():
            self._use(terms, number, place)
        self._seen.clear()

    def _add_prose(
        self, kind: Kind, group: Group, number: int, text: str, place: int, features: Sequence[str] = ()
    ) -> None:
        for part in self._parts.get(text) or prose_parts(text):
            if part.kind is not PartKind.CODE:
                self._add(kind, group, number, part, place, features)
            elif _is_pasted(part):
                self._add(Kind.WRITTEN, group, number, part, IN_RESULT, features)
            else:
                self._add(Kind.SNIPPET, group, number, part, place, features)

    def _add_call(self, action: Action, exchange: int) -> None:
        reading, number = action.reading, action.number
        group = self._group_of(action, exchange)
        self.material.calls[group].append(number)
        if reading.verb == "PLANNED":
            return
        if reading.verb == "SAID":
            self._add_prose(Kind.CLOSING, Group(exchange, number, -1), number, reading.target, IN_CLOSING | IN_WORDS)
            return
        name = reading.tool if reading.verb == "CALLED" else reading.verb
        target = self.material.short_path(reading.target) if reading.is_file else reading.target
        frame = f"{name} {_short_target(target)}".strip()
        if action.failed and group not in self.material.frames:
            # Actions are read from the newest on, and the newest of a line says how the work on it ended.
            frame += FAILED
        frame = self.material.frames.setdefault(group, frame)
        self._seen[IN_CALL].update(self.material.terms.of(frame))
        features = self._features(action)
        if reading.verb in ("WROTE", "CHANGED") and not is_generated(reading.target):
            for text in written_texts(reading):
                if is_document(reading.target):
                    self._add_prose(Kind.DOCUMENT, group, number, text, IN_CALL, features)
                    continue
                for part in code_parts(text):
                    self._add(Kind.WRITTEN, group, number, part, IN_CALL, features)
        elif len(flatten(reading.target)) > TARGET_CHARS:
            if reading.verb == "RAN":
                for part in code_parts(_beyond_frame(reading.target)):
                    self._add(Kind.COMMAND, group, number, part, IN_CALL, features)
            else:
                self._add_prose(Kind.COMMAND, group, number, reading.target, IN_CALL, features)
        outcome = action.outcome
        is_silent = outcome is not None and not outcome.lines and reading.verb in ("RAN", "CALLED")
        if outcome and (outcome.tests or outcome.failed or is_silent):
            said = Part(PartKind.OUTPUT, (outcome.describe(),))
            self._add(Kind.OUTCOME, group, action.result or number, said, IN_RESULT, features)

    def _group_of(self, action: Action, exchange: int) -> Group:
        """The line of an action; actions of one exchange with the same target share a line."""
        own, reading = Group(exchange, action.number, action.index), action.reading
        verb = "CHANGED" if reading.verb == "WROTE" else reading.verb
        return self._lines.setdefault((exchange, verb, reading.tool, reading.target), own) if reading.target else own

    def _add_result(self, action: Action, group: Group, number: int, text: str) -> None:
        reading = action.reading
        if reading.verb in ("WROTE", "CHANGED", "PLANNED", "SAID") and not action.failed:
            return
        if text.endswith(SHORTENED):
            return
        features = self._features(action)
        kind = Kind.OUTPUT
        if reading.verb == "READ":
            parts = [] if is_generated(reading.target) else file_parts(text, reading.target)
            kind = Kind.READ
            if shown := lines_shown(text):
                self.material.shown[group].add(shown)
        elif reading.verb in ("FETCHED", "DELEGATED", "ASKED", "LOADED"):
            parts = prose_parts(result_text(text))
        else:
            parts = output_parts(text)
            kind = Kind.FOUND if reading.verb in ("SEARCHED", "LISTED") else kind
        proposed = self._proposed[reading.target if kind is Kind.READ else ""]
        for part in parts:
            self._add(kind, group, number, part, IN_RESULT, features, proposed)

    def _features(self, action: Action) -> tuple[str, ...]:
        """What is known of an action, by name."""
        target = action.reading.target
        found = {
            "repeated later": self._last_with.get(target, -1) > action.number,
            "changed file": target in self._record.files,
            "named": self._is_named(target),
        }
        return tuple(name for name, holds in found.items() if holds)

    def _is_named(self, target: str) -> bool:
        """Whether one of the last requests names the file that a call is about."""
        name = target.replace("\\", "/").rsplit("/", 1)[-1]
        return len(name) >= _SHORTEST_NAME_CHARS and any(name in request for request in self._asked)

    def _add(
        self,
        kind: Kind,
        group: Group,
        number: int,
        part: Part,
        place: int,
        features: Sequence[str] = (),
        proposed: set[str] | None = None,
    ) -> None:
        """Count the terms of a part, and propose its pieces; not the longer ones that are in `proposed` already."""
        start, material, seen = self._sizes.get(group, 0), self.material, self._seen[place]
        self._sizes[group] = start + len(part.pieces)
        if not self._may_quote(number):
            seen.update(material.terms.of("\n".join(part.pieces)))
            return
        if kind not in _WORDS:
            part = self._with_short_paths(part)
        is_code = part.kind is PartKind.CODE
        is_named, is_outcome = self._with_statements or "named" in features, kind is Kind.OUTCOME
        common, numbers, propose = tuple(features), (number,), material.candidates.append
        for at, (piece, terms) in enumerate(zip(part.pieces, material.terms.of_each(part.pieces), strict=True)):
            if proposed is not None and len(piece) >= _SHORTEST_REPEATED_CHARS:
                if piece in proposed:
                    continue
                proposed.add(piece)
            seen |= terms
            what = code_feature(piece) if is_code else ""
            if what == "statement" and not is_named and self._named.isdisjoint(terms):
                continue
            if (terms or is_outcome) and len(piece) >= _SHORTEST_PIECE_CHARS:
                own_features = (*common, what) if what else common
                if part.line_numbers and part.line_numbers[at] and what in _LOCATED:
                    piece = f"{part.line_numbers[at]}: {piece}"
                propose(Candidate(kind, piece, numbers, terms, group, start + at, "", own_features))

    def _with_short_paths(self, part: Part) -> Part:
        """The part; of lines that begin with a path, such as those of a search, without the common folder."""
        root = self.material.root
        if not root or not any(piece.startswith(root) for piece in part.pieces):
            return part
        return part._replace(pieces=tuple(map(self.material.short_path, part.pieces)))

    def _use(self, terms: set[str], number: int, place: int) -> None:
        uses = self.material.uses
        new = terms.difference(uses)
        for use in map(uses.__getitem__, terms.difference(new)):
            if use.first != number:
                use.first = number
                use.messages += 1
            use.places |= place
        for term in new:
            uses[term] = TermUse(number, number, 1, place)


def common_root(paths: Sequence[str]) -> str:
    """The longest folder, with its last separator, that most of the paths are in; empty where it is short."""
    times: Counter[str] = Counter()
    for path in paths:
        mark = "\\" if "\\" in path else "/"
        at = path.find(mark, _SHORTEST_ROOT_CHARS)
        while at >= 0:
            times[path[: at + 1]] += 1
            at = path.find(mark, at + 1)
    found = [root for root, many in times.items() if many >= max(_FEWEST_BELOW_ROOT, _ROOT_SHARE * len(paths))]
    return max(found, key=len, default="")


def _short_target(target: str) -> str:
    """What a call is about; of a script in a command line the line that runs it."""
    line, _, more = target.strip().partition("\n")
    return shorten(line, TARGET_CHARS) + (f" {CUT}" if more and len(line) <= TARGET_CHARS else "")


def _beyond_frame(command: str) -> str:
    """What the frame of a command line does not show of it."""
    line, _, more = command.strip().partition("\n")
    line = flatten(line)
    rest = line[len(shorten(line, TARGET_CHARS)) - len(CUT) :] if len(line) > TARGET_CHARS else ""
    return f"{rest.lstrip(' ,;:')}\n{more}"
