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
from clew.engines.compressor.history import MessageSizes, is_prompt, read_from
from clew.engines.compressor.plan import CompactionPlan, summary_input
from clew.engines.lossless.budgets import MapBudgets, ModelAllowance
from clew.engines.lossless.map_text import condense
from clew.engines.lossless.nodes import node_id
from clew.errors import SummaryFailed
from clew.facts import Record
from clew.handoff import BUILTIN, Cooldowns, Entry, Handoff, Summarize, Summary, SummaryInput, write_handoff
from clew.handoff.builtin import TEMPLATE, active_task
from clew.handoff.value import ACTIVE_TASK, COMPLETED, GOAL
from clew.messages import Message
from clew.redact import redact_messages

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
        """The node over messages, given by number, of `covered` tokens; it stands for `first` up to `last`."""
        source = self._part(self._clean(rows), first, last)
        budget = min(self.budgets.leaf(covered, by_model=self.summarize is not None), max(0, covered - 1))
        written = await self._written(source, budget, lambda: write_handoff(source, budget, self.sizes.text))
        return self._node(0, first, last, written, covered)

    async def condensed(self, children: Sequence[Node]) -> Node:
        """The node over other nodes, oldest first."""
        first, last = children[0].first, children[-1].last
        tokens, covered = sum(child.tokens for child in children), sum(child.covered_tokens for child in children)
        texts: dict[int, Message] = {child.first: {"role": "assistant", "content": child.text} for child in children}
        budget = min(self.budgets.condensed(tokens, covered), max(0, tokens - 1))
        below = [Handoff.of_text(child.text) for child in children]
        written = await self._written(
            self._part(texts, first, last), budget, lambda: condense(below, budget, self.sizes.text)
        )
        node = self._node(1 + max(child.depth for child in children), first, last, written, covered)
        return replace(node, children=tuple(child.id for child in children))

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

    def active_task(self, plan: CompactionPlan, rows: Sequence[NumberedMessage]) -> list[Entry]:
        """The newest request, by these messages and those that stay in view."""
        history = plan.history
        staying = [at for at in plan.staying if not is_prompt(history.messages[at])]
        clean = self._clean([*rows, *((history.numbers[at], history.messages[at]) for at in staying)])
        record = Record.of(list(clean.values()), clean)
        source = summary_input(plan, record, partial(read_from, clean), plan.covered[1])
        return list(active_task(record, source, {history.numbers[at] for at in staying}))

    def _clean(self, rows: Sequence[NumberedMessage]) -> dict[int, Message]:
        """The messages by number, without secrets."""
        # A stub has the number of the message with its call, which precedes it.
        by_number = dict(reversed(rows))
        new = [number for number in by_number if number not in self._redacted]
        self._redacted.update(zip(new, redact_messages([by_number[number] for number in new]), strict=True))
        return {number: self._redacted[number] for number in sorted(by_number)}

    def _part(self, clean: Mapping[int, Message], first: int, last: int) -> SummaryInput:
        record = Record.of(list(clean.values()), clean)
        return SummaryInput(
            record, partial(read_from, clean), first, last, focus=self.focus, is_redacted=True, is_part=True
        )

    # -- the three levels ----------------------------------------------------------------------------------------------

    async def _written(
        self, source: SummaryInput, budget: int, write_builtin: Callable[[], Handoff]
    ) -> tuple[Summary, bool]:
        """The summary, and whether it is final."""
        for room in (budget, budget // 2):
            by_model = await self._by_model(source, room)
            if by_model is None:
                break
            text = as_part(by_model.handoff or Handoff.of_text(by_model.text)).render()
            if text and self.sizes.text(text) <= budget:
                return replace(by_model, text=text), by_model.written_by != BUILTIN
        text = write_builtin().render()
        return Summary(text if self.sizes.text(text) <= budget else "", BUILTIN, TEMPLATE), False

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

    def _node(self, depth: int, first: int, last: int, written: tuple[Summary, bool], covered: int) -> Node:
        summary, is_final = written
        name = node_id(first, last, self.taken)
        self.taken.add(name)
        tokens = self.sizes.text(summary.text)
        return Node(
            name, depth, first, last, summary.text, tokens, covered, summary.written_by, summary.template, is_final
        )


def as_part(handoff: Handoff) -> Handoff:
    """The handoff of a part of a conversation: its goal and its active task are requests of that part."""
    sections = dict(handoff.sections)
    asked = (*sections.pop(GOAL, ()), *sections.pop(ACTIVE_TASK, ()))
    done = sections.get(COMPLETED, ())
    known = {entry.numbers[0] for entry in done if entry.numbers}
    new = [entry for entry in asked if not entry.numbers or entry.numbers[0] not in known]
    return Handoff({**sections, COMPLETED: (*new, *done)})
