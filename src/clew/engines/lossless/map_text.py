"""The text of the map: what holds now, then the nodes that the view shows, each with as many of its lines as fit.

A node is written once; how many of its lines the map shows is decided at each fold, by one selection over the lines of
all nodes. The order of the selection does not depend on the room, so that more room never shows less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from clew.engines.compaction import Node
from clew.engines.lossless.nodes import map_opening, node_heading, without_headings
from clew.facts import Terms
from clew.handoff import HEADINGS, Choice, CountTokens, Entry, Frame, Handoff, select
from clew.handoff.value import ACTIVE_TASK, BLOCKED, COMPLETED, IN_PROGRESS, RULES, STATE

PART_TOKENS = 45
"""What a node takes of the map beside its lines: its heading, and the headings of its sections."""
_BEFORE_NODES = -1
"""The place of what holds now. The other places are the indexes of nodes."""
_OF_LAST = (STATE, IN_PROGRESS, BLOCKED)
"""True at the end of a part: of interest only for the last one."""
_BONUS: Mapping[str, float] = {ACTIVE_TASK: 1e6, RULES: 200.0, STATE: 200.0, BLOCKED: 150.0, COMPLETED: 120.0}
"""What an entry is worth whatever it says, as in the weights of the built-in handoff."""
_WORD, _EXACT = 0.05, 1.0
_FADE = 0.6
"""How much less the oldest lines count than the newest."""
_REFERENCE_CHARS = 9

Render = Callable[[Mapping[int, Handoff]], str]


def write_map(
    nodes: Sequence[Node], task: Sequence[Entry], room: int, count: CountTokens, *, can_be_opened: bool
) -> str:
    """The map of these nodes in `room` tokens, or its headings alone where these have more."""
    lines = [MapEntry(_BEFORE_NODES, ACTIVE_TASK, entry) for entry in task]
    start, end = nodes[0].first, nodes[-1].last
    for at, node in enumerate(nodes):
        is_last = at == len(nodes) - 1
        for heading, entry in _entries(Handoff.of_text(node.text), is_last=is_last):
            place = _BEFORE_NODES if heading == RULES or heading in _OF_LAST else at
            lines.append(MapEntry(place, heading, entry, 1 - _FADE * (end - node.last) / (end - start)))

    def render(parts: Mapping[int, Handoff]) -> str:
        blocks = [map_opening(can_be_opened=can_be_opened)]
        for at, node in enumerate([None, *nodes], _BEFORE_NODES):
            said = without_headings(parts[at].render()) if at in parts else ""
            blocks.append(f"{node_heading(node)}\n{said}" if node else said)
        return "\n\n".join(block.strip() for block in blocks if block)

    return render(choose_lines(lines, room, render, count))


def condense(handoffs: Sequence[Handoff], budget: int, count: CountTokens) -> Handoff:
    """The lines of several handoffs, oldest first, as one; as many of them as the budget allows."""
    last = len(handoffs) - 1
    lines = [
        MapEntry(0, heading, entry, 1 - _FADE * (last - at) / len(handoffs))
        for at, handoff in enumerate(handoffs)
        for heading, entry in _entries(handoff, is_last=at == last)
    ]
    return choose_lines(lines, budget, lambda parts: parts[0].render() if parts else "", count).get(0, Handoff())


def _entries(handoff: Handoff, *, is_last: bool) -> list[tuple[str, Entry]]:
    """The entries with their headings, without the task and, unless it is the last one, the state of that time."""
    past = (ACTIVE_TASK,) if is_last else (ACTIVE_TASK, *_OF_LAST)
    return [(heading, entry) for heading in HEADINGS if heading not in past for entry in handoff.entries(heading)]


@dataclass(frozen=True, slots=True)
class MapEntry:
    """An entry of a handoff, the place and the heading under which it is written, and how much its terms count."""

    place: int
    heading: str
    entry: Entry
    scale: float = 1.0


def choose_lines(entries: Sequence[MapEntry], room: int, render: Render, count: CountTokens) -> dict[int, Handoff]:
    """By place, the longest beginning of the selection that is rendered in `room` tokens."""
    unique = list({(one.place, one.heading, one.entry): one for one in entries}.values())
    order = _selection(unique)
    low, high, tried = 0, len(order), len(order)
    while low < high:
        if count(render(_by_place(unique, order[:tried]))) <= room:
            low = tried
        else:
            high = tried - 1
        tried = (low + high + 1) // 2
    return _by_place(unique, order[:low])


def _selection(entries: Sequence[MapEntry]) -> list[tuple[int, int]]:
    """Lines in the order in which they are worth their room: the index of the entry, and of its sub-line or -1."""
    terms = Terms()
    lines: list[tuple[int, int]] = []
    choices: list[Choice] = []
    frames: dict[object, Frame] = {}
    for index, one in enumerate(entries):
        for at, line in enumerate((one.entry, *one.entry.lines), -1):
            chars, found = len(line.text) + _REFERENCE_CHARS, terms.of(line.text)
            if at < 0:
                choices.append(Choice(found, chars, one.scale, one.scale * _BONUS.get(one.heading, 0.0)))
                frames[index] = Frame(found, chars)
            else:
                choices.append(Choice(found, chars, one.scale, group=index))
            lines.append((index, at))
    order = select(choices, lambda term: _EXACT if terms.kinds[term] else _WORD, frames)
    return [lines[at] for at in order]


def _by_place(entries: Sequence[MapEntry], lines: Sequence[tuple[int, int]]) -> dict[int, Handoff]:
    """The handoffs of the chosen lines; a sub-line brings its entry."""
    chosen: dict[int, set[int]] = {}
    for index, at in lines:
        chosen.setdefault(index, set()).add(at)
    places: dict[int, dict[str, list[Entry]]] = {}
    for index in sorted(chosen):
        one = entries[index]
        own = tuple(line for at, line in enumerate(one.entry.lines) if at in chosen[index])
        found = places.setdefault(one.place, {}).setdefault(one.heading, [])
        found.append(Entry(one.entry.text, one.entry.numbers, own))
    return {place: Handoff(sections) for place, sections in places.items()}
