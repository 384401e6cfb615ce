"""The text of the map: the current state, then the nodes in view, each with as many of its lines as fit.

A node is written once; each fold selects the lines of the map among the lines of all nodes. The order of the selection
does not depend on the room, so that more room never shows less.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from clew.engines.base import Node
from clew.facts import Terms, shorten
from clew.handoff import HEADINGS, Choice, CountTokens, Entry, Frame, Handoff, SummaryInput, select, write_handoff
from clew.handoff.builtin import active_task
from clew.handoff.value import ACTIVE_TASK, BLOCKED, COMPLETED, IN_PROGRESS, RULES, STATE, VALUES

PART_TOKENS = 45
"""Of a node in the map, beside its lines: its heading, and the headings of its sections."""
_BEFORE_NODES = -1
"""The place of the current state. The other places are the indexes of nodes."""
_OF_LAST = (STATE, IN_PROGRESS, BLOCKED)
"""The state at the end of a part: only that of the last one is shown."""
_BONUS: Mapping[str, float] = {ACTIVE_TASK: 1e6, RULES: 200.0, STATE: 200.0, BLOCKED: 150.0, COMPLETED: 120.0}
"""The worth of an entry beside that of its terms, as in the weights of the built-in handoff."""
_WORD, _EXACT = 0.05, 1.0
_FADE = 0.6
"""How much less the oldest lines weigh than the newest."""
_BESIDE_MODEL, _WORTH_QUOTING = 0.1, 0.05
"""The weight of a quoted line beside those of models, and the share of the room below which nothing is quoted."""
_REFERENCE_CHARS = 9
_CHARS_PER_TOKEN, _SHORTEST_CUT_CHARS = (4.0, 3.0, 2.0, 1.2), 60

Render = Callable[[Mapping[int, Handoff]], str]


@dataclass(frozen=True, slots=True)
class MapLine:
    """A line of a handoff with its place, the weight of its terms, and the position of the line above it."""

    place: int
    heading: str
    text: Entry
    scale: float
    head: int | None


def write_map(
    nodes: Sequence[Node], newest: SummaryInput, room: int, count: CountTokens, *, can_be_opened: bool
) -> str:
    """The map of these nodes in `room` tokens, or its headings alone if these have more.

    `newest` are the messages of the last node. They are quoted if models wrote less than there is room for.
    """
    lines: list[MapLine] = []
    for task in active_task(newest.record, newest, {*range(newest.last, newest.record.next_number), *newest.kept}):
        _add(lines, _BEFORE_NODES, ACTIVE_TASK, task)
    start, end, last = nodes[0].first, nodes[-1].last, len(nodes) - 1
    for at, node in enumerate(nodes):
        for heading, entry in _entries(Handoff.of_text(node.text), is_last=at == last):
            place = _BEFORE_NODES if heading == RULES or heading in _OF_LAST else at
            _add(lines, place, heading, entry, 1 - _FADE * (end - node.last) / (end - start))
    said = sum(node.tokens + PART_TOKENS for node in nodes)
    if nodes[-1].is_final and (free := min(room - said, said)) > _WORTH_QUOTING * room:
        quotes = write_handoff(newest, free, count)
        for entry in (*quotes.entries(COMPLETED), *quotes.entries(IN_PROGRESS)):
            for quote in entry.lines:
                if quote.text.strip('"') not in nodes[-1].text:
                    _add(lines, last, VALUES, quote, _BESIDE_MODEL)

    def render(parts: Mapping[int, Handoff]) -> str:
        blocks = [map_opening(can_be_opened=can_be_opened)]
        for at, node in enumerate([None, *nodes], _BEFORE_NODES):
            text = without_headings(parts[at].render()) if at in parts else ""
            blocks.append(f"{node_heading(node)}\n{text}" if node else text)
        return "\n\n".join(block.strip() for block in blocks if block)

    return render(_fitting(lines, room, render, count))


def condense(handoffs: Sequence[Handoff], budget: int, count: CountTokens) -> Handoff:
    """The lines of several handoffs, oldest first, as one; as many of them as the budget allows."""
    lines: list[MapLine] = []
    for at, handoff in enumerate(handoffs, 1):
        for heading, entry in _entries(handoff, is_last=at == len(handoffs)):
            _add(lines, 0, heading, entry, 1 - _FADE * (1 - at / len(handoffs)))
    return _fitting(lines, budget, lambda parts: parts[0].render() if parts else "", count).get(0, Handoff())


def _entries(handoff: Handoff, *, is_last: bool) -> list[tuple[str, Entry]]:
    """The entries with their headings, without the task and, unless it is the last one, the state of that time."""
    past = (ACTIVE_TASK,) if is_last else (ACTIVE_TASK, *_OF_LAST)
    return [(heading, entry) for heading in HEADINGS if heading not in past for entry in handoff.entries(heading)]


def _add(lines: list[MapLine], place: int, heading: str, entry: Entry, scale: float = 1.0) -> None:
    head = len(lines)
    lines.append(MapLine(place, heading, Entry(entry.text, entry.numbers), scale, None))
    lines += (MapLine(place, heading, line, scale, head) for line in entry.lines)


def _fitting(lines: Sequence[MapLine], room: int, render: Render, count: CountTokens) -> dict[int, Handoff]:
    """By place, the longest beginning of the selection that is rendered in `room` tokens."""
    order = _selection(lines)
    low, high, tried = 0, len(order), len(order)
    while low < high:
        low, high = (tried, high) if count(render(_by_place(lines, order[:tried]))) <= room else (low, tried - 1)
        tried = (low + high + 1) // 2
    chosen = _by_place(lines, order[:low])
    if low < len(order):
        # The first line that does not fit is cut to use the rest of the room.
        left, shorter, line = room - count(render(chosen)), [*lines], lines[order[low]]
        for chars in (int(left * per_token) for per_token in _CHARS_PER_TOKEN):
            shorter[order[low]] = replace(line, text=Entry(shorten(line.text.text, chars), line.text.numbers))
            more = _by_place(shorter, order[: low + 1])
            if chars >= _SHORTEST_CUT_CHARS and count(render(more)) <= room:
                return more
    return chosen


def _selection(lines: Sequence[MapLine]) -> list[int]:
    """The positions of the lines in the order of the selection; last those without new terms."""
    terms, choices, frames = Terms(), list[Choice](), dict[object, Frame]()
    for position, line in enumerate(lines):
        found, chars = terms.of(line.text.text), len(line.text.text) + _REFERENCE_CHARS
        if line.head is None:
            frames[position] = Frame(found, chars)
        bonus = line.scale * _BONUS.get(line.heading, 0.0) if line.head is None else 0.0
        choices.append(Choice(found, chars, line.scale, bonus, line.head))
    order = dict.fromkeys(select(choices, lambda term: _EXACT if terms.kinds[term] else _WORD, frames))
    return list(order | dict.fromkeys(range(len(lines))))


def _by_place(lines: Sequence[MapLine], positions: Sequence[int]) -> dict[int, Handoff]:
    """The handoffs of the chosen lines, each with the line above it."""
    heads = {head for position in positions if (head := lines[position].head) is not None}
    places: dict[int, dict[str, list[Entry]]] = {}
    for position in sorted({*positions, *heads}):
        line = lines[position]
        section = places.setdefault(line.place, {}).setdefault(line.heading, [])
        if line.head is None:
            section.append(line.text)
        else:
            section[-1] = replace(section[-1], lines=(*section[-1].lines, line.text))
    return {place: Handoff(sections) for place, sections in places.items()}


HOW_TO_READ = (
    "This is the map of what is folded. Each part covers the messages that its heading names; nothing is lost."
)
HOW_TO_OPEN = "lcm_grep finds anything in them, lcm_expand opens a part or a message by its id, word for word."
_HEADING = re.compile(r"^# (n\d+-\d+[a-z]*) · m(\d+) to m(\d+)(?: · (?:([\d,]+) tokens)?.*)?$", re.MULTILINE)
_LOOKS_LIKE_HEADING = re.compile(r"^# (?=n\d)", re.MULTILINE)
# Without an `a`, which would look like the first of several.
_LETTERS = "bcdefghijklmnopqrstuvwxyz"


def node_id(first: int, last: int, taken: Collection[str]) -> str:
    """`n120-164` for the messages m120 to m164; with letters from b on where there is such a node already."""
    name = f"n{first}-{last - 1}"
    endings = ("".join(it) for length in itertools.count() for it in itertools.product(_LETTERS, repeat=length))
    return next(free for ending in endings if (free := name + ending) not in taken)


def map_opening(*, can_be_opened: bool) -> str:
    """How to read and to open the map. Nothing in the map changes between two folds."""
    return f"{HOW_TO_READ} {HOW_TO_OPEN}" if can_be_opened else HOW_TO_READ


def node_heading(node: Node) -> str:
    """The heading of a node in the map."""
    parts = f" · {len(node.children)} parts" if node.children else ""
    return f"# {node.id} · m{node.first} to m{node.last - 1} · {node.covered_tokens:,} tokens{parts}"


def without_headings(text: str) -> str:
    """The text with lines that look like a heading of the map indented."""
    return _LOOKS_LIKE_HEADING.sub(" # ", text)


def ids_in_map(text: str) -> list[str]:
    """The ids of the nodes of a map, in order; empty if the text is no map."""
    return [found[1] for found in _HEADING.finditer(text)]


def before_parts(text: str) -> str:
    """The text of a map before its first part."""
    found = _HEADING.search(text)
    _, _, rest = text[: found.start() if found else 0].partition("\n\n")
    return rest.strip()


def nodes_in_map(text: str) -> list[Node]:
    """The nodes that can be read from a map alone: their texts, but neither their children nor who wrote them."""
    headings = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    nodes = []
    for heading, end in zip(headings, ends, strict=True):
        id, first, last, covered = heading.groups()
        body, tokens = text[heading.end() : end].strip(), int((covered or "0").replace(",", ""))
        # It is final, since the messages that it was written from are not here.
        nodes.append(Node(id, 0, int(first), int(last) + 1, body, 0, tokens, written_by="unknown"))
    return nodes


def is_contiguous(nodes: Sequence[Node]) -> bool:
    """Whether nodes follow each other without a gap."""
    return all(before.last == after.first for before, after in itertools.pairwise(nodes))
