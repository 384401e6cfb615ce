"""Folding: the leaves of messages, the nodes that are condensed, the sweep over both, and the cheap step before it.

Leaves end between exchanges if possible: a request with its outcome is easier to read than an arbitrary cut.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, pairwise

from clew.config import LosslessSettings
from clew.engines.base import CompactionItem, Node
from clew.engines.compressor.assemble import items_of
from clew.engines.compressor.history import MessageSizes, newest_visible, read_from
from clew.engines.compressor.plan import CompactionPlan, summary_input
from clew.engines.compressor.prune import calls_answered, given_back, prune_arguments, prune_result
from clew.engines.lossless.map_text import PART_TOKENS, condense, node_id
from clew.engines.lossless.plan import MapBudgets, ModelAllowance
from clew.errors import SummaryFailed
from clew.facts import Record
from clew.handoff import BUILTIN, Cooldowns, Handoff, Summarize, Summary, SummaryInput, write_handoff
from clew.handoff.builtin import TEMPLATE
from clew.handoff.value import ACTIVE_TASK, COMPLETED, GOAL
from clew.messages import Message, safe_cuts
from clew.redact import redact_messages, redact_text

# Of the size of a leaf: the range in which the end of an exchange is preferred as its end.
_SMALLEST_LEAF, _LARGEST_LEAF = 0.5, 1.5
# Of the size of a leaf: a smaller rest behind the last leaf belongs to it.
_SMALLEST_REST = 0.25
_LARGE_TOKENS = 400
# Of the map: above this share of headings there are too many nodes.
_LARGEST_SHARE_OF_HEADINGS = 0.2
# Of the room: of longer node texts too little would be shown.
_MOST_TEXT = 4


@dataclass(frozen=True, slots=True)
class RawRun:
    """Consecutive messages that no leaf covers yet; a repair may have left some out."""

    first: int
    last: int
    numbers: Sequence[int]
    messages: Sequence[Message]
    sizes: Sequence[int]

    def rows(self, start: int, stop: int | None = None) -> list[tuple[int, Message]]:
        """The messages from one position to another, with their numbers."""
        return list(zip(self.numbers[start:stop], self.messages[start:stop], strict=True))


def leaf_stretches(run: RawRun, leaf_tokens: int) -> list[tuple[int, int]]:
    """The numbers of each leaf, from and to (not included): together the whole run, none inside a tool group."""
    messages = run.messages
    if not messages:
        return [(run.first, run.last)] if run.first < run.last else []
    reach = [0, *accumulate(run.sizes)]
    cuts = safe_cuts(messages)[1:-1]
    asked = [cut for cut in cuts if messages[cut]["role"] == "user"]
    ends: list[int] = []
    start = 0
    while reach[-1] - reach[start] > (1 + _SMALLEST_REST) * leaf_tokens:
        end = _nearest(asked, reach, start, leaf_tokens) or _next_cut(cuts, reach, start, leaf_tokens)
        if end is None or reach[-1] - reach[end] < _SMALLEST_REST * leaf_tokens:
            break
        ends.append(end)
        start = end
    numbers = [run.first, *(run.numbers[end] for end in ends), run.last]
    return [(first, last) for first, last in pairwise(numbers) if first < last]


def _nearest(asked: Sequence[int], reach: Sequence[int], start: int, tokens: int) -> int | None:
    """The start of an exchange nearest to the end of a leaf of so many tokens; None if none is near."""
    low, high = reach[start] + _SMALLEST_LEAF * tokens, reach[start] + _LARGEST_LEAF * tokens
    behind = bisect_right(asked, start)
    first = bisect_left(asked, low, behind, key=reach.__getitem__)
    near = asked[first : bisect_right(asked, high, first, key=reach.__getitem__)]
    return min(near, key=lambda cut: abs(reach[cut] - reach[start] - tokens), default=None)


def _next_cut(cuts: Sequence[int], reach: Sequence[int], start: int, tokens: int) -> int | None:
    """The first safe cut behind so many tokens."""
    after = bisect_left(reach, reach[start] + tokens, lo=start + 1)
    at = bisect_left(cuts, min(after, len(reach) - 1))
    return cuts[at] if at < len(cuts) else None


@dataclass(slots=True)
class Sweep:
    """The map while it is folded: nodes that cover everything up to a number, oldest first."""

    writer: NodeWriter
    settings: LosslessSettings
    room: int
    """The tokens of the map, at most."""
    nodes: list[Node]
    made: list[Node] = field(default_factory=list)
    """The new ones, those under another new one included."""

    async def fold(self, run: RawRun, known: Mapping[int, Sequence[Node]]) -> None:
        """Cover the messages of a run by leaves, and condense. `known` are existing leaves, by their start."""
        number, leaf_tokens = run.first, max(500, min(self.settings.leaf_tokens, sum(run.sizes)))
        stretches = leaf_stretches(run, leaf_tokens)
        while number < run.last:
            # Leaves of an undone compaction are still valid.
            found = [leaf for leaf in known.get(number, ()) if leaf.last <= run.last]
            if found:
                leaf = max(found, key=lambda leaf: (leaf.is_final, leaf.last))
            else:
                leaf = await self._leaf(run, number, next(last for _, last in stretches if last > number))
            self.nodes.append(leaf)
            number = leaf.last
            await self._condense()

    async def _leaf(self, run: RawRun, first: int, last: int) -> Node:
        start, stop = (bisect_left(run.numbers, number) for number in (first, last))
        leaf = await self.writer.leaf(first, run.rows(start, stop), last, sum(run.sizes[start:stop]))
        self.made.append(leaf)
        return leaf

    async def _condense(self) -> None:
        """Condense neighbours of one depth if there are enough in a row, or if the map is too large."""
        while (some := self._due()) or (some := self._too_many()):
            node = await self.writer.condensed(self.nodes[some])
            self.nodes[some] = [node]
            self.made.append(node)

    def _due(self) -> slice | None:
        for run in self._neighbours():
            wanted = self.settings.nodes_condensed if self.nodes[run.start].depth else self.settings.leaves_condensed
            if run.stop - run.start >= wanted:
                return slice(run.start, run.start + wanted)
        return None

    def _too_many(self) -> slice | None:
        """The neighbours to condense so that the map has room for lines of each node; None if it has.

        The map shows a part of each node, so that a leaf is not condensed for its length alone. Of several runs the
        longest text is condensed, since condensed nodes are short.
        """
        if len(self.nodes) < 2 or not self._is_crowded():
            return None
        runs = [self._without_newest(run) for run in self._neighbours() if run.stop - run.start > 1] or [slice(0, 2)]
        sizes = [sum(node.tokens for node in self.nodes[run.start : run.stop]) for run in runs]
        return runs[sizes.index(max(sizes))]

    def _is_crowded(self) -> bool:
        tokens = sum(node.tokens for node in self.nodes)
        return len(self.nodes) * PART_TOKENS > self.room * _LARGEST_SHARE_OF_HEADINGS or tokens > _MOST_TEXT * self.room

    def _without_newest(self, run: slice) -> slice:
        """The run without the newest leaf, if there are others: the newest work is needed most."""
        is_last = run.stop == len(self.nodes) and run.stop - run.start > 2
        return slice(run.start, run.stop - 1) if is_last else run

    def _neighbours(self) -> list[slice]:
        """The runs of nodes of one depth, oldest first."""
        starts = [at for at, node in enumerate(self.nodes) if not at or self.nodes[at - 1].depth != node.depth]
        return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], len(self.nodes)], strict=True)]


def expected_map(
    nodes: Sequence[Node], folded: int, budgets: MapBudgets, settings: LosslessSettings, *, by_model: bool
) -> int:
    """An estimate of the tokens of a map without a limit, with `folded` more tokens of messages in it."""
    # The depth of each node, the tokens of its text and those of the messages that it covers.
    sizes = [(node.depth, node.tokens, node.covered_tokens) for node in nodes]
    while folded > 0:
        covered = min(folded, settings.leaf_tokens)
        sizes.append((0, budgets.leaf(covered, by_model=by_model), covered))
        folded -= covered
        depth = 0
        while True:
            wanted = settings.nodes_condensed if depth else settings.leaves_condensed
            row = sizes[-wanted:]
            if len(row) < wanted or any(one[0] != depth for one in row):
                break
            covered = sum(one[2] for one in row)
            sizes[-wanted:] = [(depth + 1, budgets.condensed(sum(one[1] for one in row), covered), covered)]
            depth += 1
    return sum(tokens + PART_TOKENS for _, tokens, _ in sizes)


def cheap_items(plan: CompactionPlan, sizes: MessageSizes, excess: int) -> tuple[CompactionItem, ...]:
    """The items of a compaction that folds nothing: large results and arguments before the tail become a line each, the
    oldest first, until `excess` tokens are free. Tokens beyond that are given back to the newest of them.
    """
    history = plan.history
    answered, references = calls_answered(history.messages), history.references
    newest = set(newest_visible(history.messages))
    staying: dict[int, Message] = {}
    pruned: list[int] = []
    for at, message in enumerate(history.messages):
        is_old = plan.cut.head <= at < plan.cut.tail and at not in newest
        if is_old and excess > 0 and plan.sizes[at] > _LARGE_TOKENS:
            if message["role"] == "tool":
                smaller = prune_result(message, answered[at], references[at])
            else:
                smaller = prune_arguments(message)
            if smaller is not message and (size := sizes.message(smaller)) < plan.sizes[at]:
                message = smaller
                excess -= plan.sizes[at] - size
                pruned.append(at)
        staying[at] = message
    for at in reversed(pruned):
        whole, least = history.messages[at], sizes.message(staying[at])
        room = max(0, -excess)
        staying[at] = given_back(whole, staying[at], references[at], room, 2 * (least + room), sizes.message)
        excess += sizes.message(staying[at]) - least
    return items_of(plan.source, plan.repaired, history, staying, plan.cut.head, ())


Clock = Callable[[], float]
NumberedMessage = tuple[int, Message]


@dataclass(slots=True)
class NodeWriter:
    """Writes the nodes of one sweep. Its model allowance and its warnings are read from it afterwards."""

    sizes: MessageSizes
    budgets: MapBudgets
    settings: LosslessSettings
    summarize: Summarize | None
    allowance: ModelAllowance = field(default_factory=ModelAllowance)
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    focus: str | None = None
    taken: set[str] = field(default_factory=set)
    """The ids of existing nodes."""
    clock: Clock = time.time
    warnings: list[str] = field(default_factory=list)
    _redacted: dict[int, Message] = field(default_factory=dict)
    """The redacted messages of the sweep by number, for leaves and the map."""

    async def leaf(self, first: int, rows: Sequence[NumberedMessage], last: int, covered: int) -> Node:
        """The node over messages, given by number, of `covered` tokens; it covers `first` up to `last`."""
        source = self._part(self._clean(rows), first, last)
        budget = min(self.budgets.leaf(covered, by_model=self.summarize is not None), max(0, covered - 1))
        return await self._node(source, covered, budget, lambda: write_handoff(source, budget, self.sizes.text))

    async def condensed(self, children: Sequence[Node]) -> Node:
        """The node over other nodes, oldest first."""
        tokens, covered = sum(child.tokens for child in children), sum(child.covered_tokens for child in children)
        texts: dict[int, Message] = {child.first: {"role": "assistant", "content": child.text} for child in children}
        budget = min(self.budgets.condensed(tokens, covered), max(0, tokens - 1))
        below = [Handoff.of_text(child.text) for child in children]
        source = self._part(texts, children[0].first, children[-1].last)
        node = await self._node(source, covered, budget, lambda: condense(below, budget, self.sizes.text))
        depth = 1 + max(child.depth for child in children)
        return replace(node, depth=depth, children=tuple(child.id for child in children))

    async def again(self, old: Node, rows: Sequence[NumberedMessage], children: Sequence[Node]) -> Node | None:
        """A better text for a provisional node, by a model; None if the model wrote none."""
        if self.summarize is None:
            return None
        covered = self.sizes.total([message for _, message in rows])
        new = await (self.condensed(children) if children else self.leaf(old.first, rows, old.last, covered))
        if not new.is_final:
            return None
        # A map that was read from its text does not have the depth of the children.
        return replace(new, depth=old.depth, replaces=old.id)

    def newest(self, plan: CompactionPlan, rows: Sequence[NumberedMessage]) -> SummaryInput:
        """The last folded messages, with a record of them and of the messages that stay behind them."""
        history = plan.history
        staying = [at for at in plan.staying if at >= plan.cut.head]
        clean = self._clean([*rows, *((history.numbers[at], history.messages[at]) for at in staying)])
        record = Record.of(list(clean.values()), clean)
        first = rows[0][0] if rows else plan.covered[1]
        return replace(summary_input(plan, record, partial(read_from, clean), first), focus=self.focus)

    def _clean(self, rows: Sequence[NumberedMessage]) -> dict[int, Message]:
        """The messages by number, without secrets."""
        # A stub has the same number as the message with its call, which precedes it.
        by_number = dict(reversed(rows))
        new = [number for number in by_number if number not in self._redacted]
        self._redacted.update(zip(new, redact_messages([by_number[number] for number in new]), strict=True))
        return {number: self._redacted[number] for number in sorted(by_number)}

    def _part(self, clean: Mapping[int, Message], first: int, last: int) -> SummaryInput:
        record, read = Record.of(list(clean.values()), clean), partial(read_from, clean)
        return SummaryInput(record, read, first, last, focus=self.focus, is_redacted=True, is_part=True)

    async def _node(self, source: SummaryInput, covered: int, budget: int, builtin: Callable[[], Handoff]) -> Node:
        summary = await self._within(source, budget)
        is_final = summary is not None and summary.written_by != BUILTIN
        if summary is None:
            text = builtin().render()
            summary = Summary(text if self.sizes.text(text) <= budget else "", BUILTIN, TEMPLATE)
        first, last, text = source.first, source.last, summary.text
        name, tokens = node_id(first, last, self.taken), self.sizes.text(text)
        self.taken.add(name)
        return Node(name, 0, first, last, text, tokens, covered, summary.written_by, summary.template, is_final)

    async def _within(self, source: SummaryInput, budget: int) -> Summary | None:
        """The summary by a model; None without one that fits the budget."""
        for room in (budget, budget // 2):
            summary = await self._by_model(source, room)
            if summary is None:
                break
            text = redact_text(as_part(summary.handoff or Handoff.of_text(summary.text)).render())
            if text and self.sizes.text(text) <= budget:
                return replace(summary, text=text)
        return None

    async def _by_model(self, source: SummaryInput, budget: int) -> Summary | None:
        if self.summarize is None:
            return None
        refusal = self.allowance.refusal(self.clock(), self.settings)
        if refusal:
            # Refusals for the same reason differ only in the seconds.
            if not any(warning[:24] == refusal[:24] for warning in self.warnings):
                self.warnings.append(refusal)
            return None
        try:
            summary = await self.summarize(replace(source, cooldowns=self.cooldowns), budget)
        except SummaryFailed as failure:
            self._note_call(failed=True)
            self._warn([f"A part of the map could not be written by a model: {failure}"])
            return None
        self.cooldowns = self.cooldowns if summary.cooldowns is None else summary.cooldowns
        self._note_call(failed=summary.written_by == BUILTIN)
        self._warn(summary.warnings)
        return summary

    def _note_call(self, *, failed: bool) -> None:
        self.allowance = self.allowance.after_call(self.clock(), self.settings, failed=failed)

    def _warn(self, warnings: Iterable[str]) -> None:
        self.warnings += (warning for warning in warnings if warning not in self.warnings)


def as_part(handoff: Handoff) -> Handoff:
    """The handoff of a part of a conversation: its goal and its active task are requests of that part."""
    sections = dict(handoff.sections)
    asked = (*sections.pop(GOAL, ()), *sections.pop(ACTIVE_TASK, ()))
    done = sections.get(COMPLETED, ())
    known = {entry.numbers[:1] for entry in done if entry.numbers}
    return Handoff({**sections, COMPLETED: (*(entry for entry in asked if entry.numbers[:1] not in known), *done)})
