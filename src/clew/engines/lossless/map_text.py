"""The text of the map: what holds now, then what was asked and done, under the nodes that the view shows.

A node is written once; how much of it the map shows is decided here, at each fold, by the room that there is. Messages
that no model has summarised yet are told from their own words by the built-in summariser, the newest in most detail;
everything before them by the texts of its nodes. Whatever there is no room for is counted under its node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from clew.engines.compaction import Node
from clew.engines.compressor.history import read_from
from clew.engines.lossless.nodes import map_opening, node_heading, without_headings
from clew.engines.lossless.writing import files_in_room, merged_sections
from clew.ledger import Ledger
from clew.redact import redact_text
from clew.summaries import Handoff, SummaryInput, parse_handoff, write_handoff
from clew.summaries.deeds import reference_of
from clew.summaries.exchanges import ASKED_ABOVE, ELSEWHERE
from clew.summaries.grounding import fill_handoff
from clew.summaries.handoff import (
    ACTIVE_TASK,
    ANSWERED,
    COMPLETED,
    CONTINUED,
    DECISIONS,
    FILES,
    GOAL,
    PENDING,
    RULES,
    STILL_ASKED,
    VALUES,
    CountTokens,
    RequestStretch,
    joined_stretches,
    number_at_end,
    number_in,
    told_entries,
)
from clew.summaries.required_facts import HandoffLine, certain_lines, says_what_for, shorter_task

# What only models write: the built-in summariser does not bring it up to date.
_BY_MODELS = (DECISIONS, ANSWERED, PENDING, VALUES)
_SHARE_BY_MODELS = 0.25
# What is told from messages is newer than what the texts of nodes tell, and takes at most so much of the messages.
_LEAST_SHARE_OF_FORMER, _SHARE_OF_MESSAGES = 0.25, 0.25
_GOAL_CHARS = 500
_TRIES_TO_FIT = 4
_ELSEWHERE = (*ELSEWHERE, STILL_ASKED)
# Of the map: with less than this left nothing is added to what models wrote.
_WORTH_FILLING = 0.05
_LEAST_OF_EXPECTED = 0.2
_CLOSE_ENOUGH, _SOME_MORE = 0.94, 1.01
PART_TOKENS = 45
"""What a node takes of the map beside what it says: its heading, and a line for the request that goes on in it."""


@dataclass(frozen=True, slots=True)
class MapMaterial:
    """What a map is written from, beside the texts of its nodes."""

    source: SummaryInput
    """The messages that are told from their own words, up to where the map ends; none where models wrote all nodes."""
    newest: Callable[[], SummaryInput]
    """The newest messages that were folded now: where models wrote all nodes, the room that is left goes to exact lines
    of them."""
    expected: int
    """What models were asked for: where they had hardly anything to say, it is not made up for."""
    can_be_opened: bool


def write_map(nodes: Sequence[Node], material: MapMaterial, room: int, count: CountTokens) -> str:
    """The map of these nodes in about `room` tokens."""
    source = material.source
    layout = _MapLayout(nodes, source, material.can_be_opened)
    before = [node for node in nodes if node.first < source.first]
    frame = count(layout.text(Handoff({}))) + len(nodes) * PART_TOKENS // 3
    former = _told_by(before, max(1, room - frame), count)
    handoff = _with_task(former, source)
    if source.first < source.last or count(layout.text(handoff)) > room:
        handoff = _written(layout, _brought_up_to_date(source, former, nodes, room, count), before, room - frame, count)
    text = layout.text(handoff)
    if source.first < source.last:
        return redact_text(text)
    size = count(text)
    left = room - size
    if left < _WORTH_FILLING * room or size < _LEAST_OF_EXPECTED * material.expected:
        return text
    filled = layout.text(fill_handoff(material.newest(), handoff, count(handoff.render()) + left, count))
    return redact_text(filled) if count(filled) <= room else text


def _brought_up_to_date(
    source: SummaryInput, former: Handoff, nodes: Sequence[Node], room: int, count: CountTokens
) -> SummaryInput:
    """The source with what the nodes before it tell; in few words, where messages behind them can fill the room."""
    if nodes[0].first >= source.first:
        return source
    if source.first < source.last:
        behind = sum(node.covered_tokens for node in nodes if node.last > source.first)
        share = max(_LEAST_SHARE_OF_FORMER, 1 - _SHARE_OF_MESSAGES * behind / max(1, room))
        last = source.first
        nothing = SummaryInput(Ledger(last), partial(read_from, {}), last, last, former, is_redacted=True)
        former = write_handoff(nothing, int(share * room), count)
    return replace(source, previous=former)


def _written(
    layout: _MapLayout, source: SummaryInput, before: Sequence[Node], room: int, count: CountTokens
) -> Handoff:
    """The handoff that fills the map, by the built-in summariser: it brings up to date what the nodes before tell."""
    by_models = _newest_lines(before, int(room * _SHARE_BY_MODELS), count)
    budget = room - sum(count(line) + 2 for lines in by_models.values() for line in lines)
    most = room + count(layout.text(Handoff({}))) + len(layout.nodes) * PART_TOKENS // 3
    best, best_size = Handoff(by_models), 0
    for _ in range(_TRIES_TO_FIT):
        if budget <= 0:
            break
        handoff = Handoff({**write_handoff(source, budget, count).sections, **by_models})
        size = count(layout.text(handoff))
        if size > most:
            budget -= size - most + budget // 50
            continue
        is_more = size > _SOME_MORE * best_size
        best, best_size = (handoff, size) if size > best_size else (best, best_size)
        if size >= _CLOSE_ENOUGH * most or not is_more:
            break
        # Lines that are like each other are told as one, which takes less than was thought.
        budget += most - size
    return best


def _told_by(nodes: Sequence[Node], room: int, count: CountTokens) -> Handoff:
    """The texts of nodes as one handoff. What was asked first is the goal, and told among the rest no more."""
    sections = merged_sections([parse_handoff(node.text) for node in nodes])
    sections[FILES] = files_in_room(sections.get(FILES, []), room // 4, count)
    entries = sections.get(COMPLETED, [])
    asked = [at for at, entry in enumerate(entries) if entry.startswith('"') and number_at_end(entry) >= 0]
    if asked and GOAL not in sections:
        first = next((at for at in asked if says_what_for(entries[at].partition(CONTINUED)[0])), asked[0])
        head, gap, rest = entries[first].partition(CONTINUED)
        sections[GOAL] = [shorter_task(HandoffLine(GOAL, head, 0), _GOAL_CHARS).text]
        entries[first] = f"{ASKED_ABOVE} (m{number_at_end(head)}){gap}{rest}"
    return Handoff(sections)


def _with_task(handoff: Handoff, source: SummaryInput) -> Handoff:
    """With the newest request, which the texts of nodes do not know."""
    lines = [line.text for line in certain_lines(source) if line.heading == ACTIVE_TASK]
    return Handoff({**handoff.sections, ACTIVE_TASK: lines}) if lines else handoff


def _newest_lines(nodes: Sequence[Node], room: int, count: CountTokens) -> dict[str, list[str]]:
    """What models wrote under headings of their own, of the newest nodes first, as far as the room reaches."""
    kept: dict[str, list[str]] = {}
    for node in reversed(nodes):
        handoff = parse_handoff(node.text)
        for heading in _BY_MODELS:
            for line in reversed(handoff.lines(heading)):
                size = count(line) + 2
                if size <= room and line not in kept.get(heading, ()):
                    kept.setdefault(heading, []).insert(0, line)
                    room -= size
    return kept


# -- under its node ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Part:
    """What the map says under one node: entries, each with its lines, by the message of its request."""

    entries: dict[int, list[str]] = field(default_factory=dict)
    quotes: list[str] = field(default_factory=list)
    """Lines of requests that are only counted."""


class _MapLayout:
    """Divides a handoff among nodes."""

    def __init__(self, nodes: Sequence[Node], source: SummaryInput, can_be_opened: bool) -> None:
        self.nodes = nodes
        self._starts = [node.first for node in nodes]
        self._can_be_opened = can_be_opened
        self._asked = self._requests(source)

    def _requests(self, source: SummaryInput) -> list[list[RequestStretch]]:
        """What was asked under each node, one by one as far as that is known."""
        asked: list[list[RequestStretch]] = [[] for _ in self.nodes]
        for at, node in enumerate(self.nodes):
            if node.first < source.first:
                heads = [lines[0] for lines in told_entries(parse_handoff(node.text).lines(COMPLETED))]
                stretches = (RequestStretch.of_line(head) for head in heads if _is_request(head))
                asked[at] = [one for one in stretches if one.first < source.first]
        if source.first < source.last:
            for exchange in source.ledger.exchanges:
                if exchange.request and source.first <= exchange.number < source.last:
                    asked[self._node_of(exchange.number)].append(RequestStretch.of_exchanges([exchange]))
        return asked

    def _node_of(self, number: int) -> int:
        return max(0, bisect_right(self._starts, number) - 1)

    def text(self, handoff: Handoff) -> str:
        top = {heading: lines for heading, lines in handoff.sections.items() if heading != COMPLETED}
        blocks = ("\n" + Handoff(top).render()).split("\n## ")[1:]
        kept = [block for block in blocks if block.partition("\n")[2].strip().rstrip(".").lower() not in ("", "none")]
        above = {number_at_end(line) for heading in (ACTIVE_TASK, GOAL, RULES) for line in top.get(heading, ())}
        sections, number = [], 1
        for node, part, asked in zip(self.nodes, self._divided(handoff.lines(COMPLETED)), self._asked, strict=True):
            entries = self._entries(part, asked, above)
            told = [f"{n}. {without_headings(entry)}" for n, entry in enumerate(entries, number)]
            number += len(told)
            sections.append("\n".join([node_heading(node), *([f"## {COMPLETED}", *told] if told else [])]))
        holds_now = [f"## {without_headings(block).strip()}" for block in kept]
        return "\n\n".join([map_opening(can_be_opened=self._can_be_opened), *holds_now, *sections])

    def _divided(self, entries: Iterable[str]) -> list[_Part]:
        """Each line under the node that it is of; behind the first node of an exchange, with a word on what goes on."""
        parts = [_Part() for _ in self.nodes]
        told: dict[str, str] = {}
        for head, *lines in (entry.split(CONTINUED) for entry in entries):
            number = number_at_end(head)
            is_counted = "earlier request" in head and RequestStretch.of_line(head).requests > 1
            at = self._node_of(number)
            if not is_counted:
                parts[at].entries.setdefault(number, [head])
            for line in lines:
                reference = reference_of(line)
                # An exchange in which the messages begin that are told may be told by a node's text before.
                said = line.removesuffix(f" {reference}").strip('"')
                if said in told.get(reference, ""):
                    continue
                told[reference] = f"{told.get(reference, '')}\n{said}"
                own = number_in(reference)
                at = self._node_of(own) if own >= 0 else at
                if is_counted:
                    parts[at].quotes.append(line)
                else:
                    parts[at].entries.setdefault(number, [f"{STILL_ASKED} (m{number})"]).append(line)
        return parts

    def _entries(self, part: _Part, asked: Sequence[RequestStretch], above: Iterable[int]) -> list[str]:
        told = {*above, *part.entries}
        untold = [one for one in asked if one.first not in told]
        counted = [one.text for one in joined_stretches(untold, (), 0)] if untold else []
        first = [CONTINUED.join([*(counted or [""]), *part.quotes]).strip()] if counted or part.quotes else []
        entries = (lines for _, lines in sorted(part.entries.items(), key=lambda one: one[0]))
        return [*first, *(CONTINUED.join(lines) for lines in entries if len(lines) > 1 or _is_request(lines[0]))]


def _is_request(head: str) -> bool:
    return bool(head) and not head.startswith(_ELSEWHERE) and number_at_end(head) >= 0
