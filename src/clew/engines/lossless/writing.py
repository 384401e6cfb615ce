"""Writes the text of a node: by a model, by it in half the room, or by the built-in summariser, which always fits.

What the last one wrote is provisional: a model writes it again later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from clew.config import LosslessSettings
from clew.engines.compaction import Node
from clew.engines.compressor.history import MessageSizes, read_from
from clew.engines.compressor.plan import CompactionPlan, summary_input
from clew.engines.lossless.budgets import MapBudgets, ModelAllowance
from clew.engines.lossless.map_text import condense
from clew.engines.lossless.nodes import node_id
from clew.errors import SummaryFailed
from clew.facts import Record
from clew.handoff import BUILTIN, Cooldowns, Handoff, Summarize, Summary, SummaryInput, write_handoff
from clew.handoff.builtin import TEMPLATE
from clew.handoff.value import ACTIVE_TASK, COMPLETED, GOAL
from clew.messages import Message
from clew.redact import redact_messages, redact_text

Clock = Callable[[], float]
NumberedMessage = tuple[int, Message]


@dataclass(slots=True)
class NodeWriter:
    """Writes nodes within one sweep. Its calls of models and its warnings are read from it afterwards."""

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
    """By number, the messages of the sweep without secrets: leaves and the map read the same ones."""

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
        """A better text for a provisional node, by a model; None where none could be had now."""
        if self.summarize is None:
            return None
        covered = self.sizes.total([message for _, message in rows])
        new = await (self.condensed(children) if children else self.leaf(old.first, rows, old.last, covered))
        if not new.is_final:
            return None
        # The depth of its children may have been lost with a map that was read from its text.
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
        # A stub has the number of the message with its call, which precedes it.
        by_number = dict(reversed(rows))
        new = [number for number in by_number if number not in self._redacted]
        self._redacted.update(zip(new, redact_messages([by_number[number] for number in new]), strict=True))
        return {number: self._redacted[number] for number in sorted(by_number)}

    def _part(self, clean: Mapping[int, Message], first: int, last: int) -> SummaryInput:
        record, read = Record.of(list(clean.values()), clean), partial(read_from, clean)
        return SummaryInput(record, read, first, last, focus=self.focus, is_redacted=True, is_part=True)

    # -- the three levels ----------------------------------------------------------------------------------------------

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
        """The summary by a model; None where none was had, or none that fits the budget."""
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
            # Two refusals differ in the seconds that they name.
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
