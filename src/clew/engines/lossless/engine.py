"""The lossless engine: a map of nodes covers all but the newest messages, and each node can be opened again.

`compress` plans like the compressor (the cut, and the form of the messages that stay), sweeps, and assembles. In the
result one message holds the map: the nodes, oldest first. The `Compaction` has the new nodes and the ids of those in
the map; the host stores them in one transaction.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from clew.engines.base import (
    Changed,
    Compaction,
    CompactionItem,
    EngineSetup,
    Node,
    checked_tokens,
    checked_topic,
)
from clew.engines.compressor.assemble import NOT_SMALLER, NOTHING_TO_FOLD, with_summary
from clew.engines.compressor.engine import CompressorState, PlanningEngine
from clew.engines.compressor.history import CountedHistory, MessageSizes, NumberedHistory
from clew.engines.compressor.plan import CompactionPlan, paused_warning
from clew.engines.lossless.fold import Clock, NodeWriter, RawRun, Sweep, cheap_items, expected_map
from clew.engines.lossless.map_text import before_parts, ids_in_map, is_contiguous, nodes_in_map, write_map
from clew.engines.lossless.plan import FoldPlanner, MapBudgets, ModelAllowance, budgets_for_window, check_shares, solved
from clew.engines.lossless.recall import TOOLS, MapTools
from clew.handoff import BUILTIN, Cooldowns, WrappedSummary
from clew.messages import Message, Tool
from clew.redact import redact_text

_EMERGENCY_TRIES = 5


@dataclass(frozen=True, slots=True)
class LosslessState(CompressorState):
    """The state of the lossless engine over restarts."""

    allowance: ModelAllowance = field(default_factory=ModelAllowance)
    provisional: tuple[str, ...] = ()
    """The ids of nodes in view that a model is still to write."""
    read_again_below: int = 0
    """Messages below this number may be shortened in view: their text is read from the host."""

    def as_json(self) -> dict[str, Any]:
        return {
            **CompressorState.as_json(self),
            "allowance": self.allowance.as_json(),
            "provisional": list(self.provisional),
            "read_again_below": self.read_again_below,
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Self:
        kept, waiting, below = (
            CompressorState.of_json(values),
            values.get("provisional"),
            values.get("read_again_below"),
        )
        return cls(
            kept.strikes,
            kept.cooldowns,
            ModelAllowance.of_json(values.get("allowance")),
            tuple(it for it in waiting if isinstance(it, str)) if isinstance(waiting, list) else (),
            below if type(below) is int and below > 0 else 0,
        )


class LosslessEngine(PlanningEngine[LosslessState, MapBudgets]):
    """Folds old messages into a map of summaries that can be opened again, down to the exact bytes."""

    name = "lcm"
    paused_because = "the last folds freed too little"

    def __init__(self, setup: EngineSetup | None = None, *, clock: Clock = time.time) -> None:
        setup = setup or EngineSetup()
        self.lossless = setup.lossless
        self.ask = setup.ask
        self._clock = clock
        super().__init__(setup, LosslessState())
        check_shares(self._budgets, self.settings, self.lossless)

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self._own_state = replace(self._own_state, provisional=(), read_again_below=0)

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        super().update_model(model, context_length, max_output)
        self._budgets = budgets_for_window(context_length, self.settings, self.lossless, max_output)

    def observe(self, messages: Sequence[Message]) -> None:
        self._sizes.count_and_check(self._sizes.read(messages))

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        focus_topic = checked_topic(focus_topic)
        read = self._read(messages)
        source, counted = read.source, read.tokens
        before = counted if current_tokens is None else checked_tokens("current_tokens", current_tokens)
        state = self._state_before(before, force=force)
        if not force and state.strikes.is_paused:
            why = paused_warning(state.strikes, self._budgets.threshold, 0, max(0, before - counted))
            return Compaction.nothing(source, before, why)
        budgets = solved(self._budgets, max(0, before - counted))
        if isinstance(budgets, str):
            return Compaction.nothing(source, before, budgets, state=state.as_json())
        if not force and (cheap := self._cheap(read, before, budgets, state)):
            return cheap
        done = await self._folded(read, before, budgets, focus_topic, state, force=force)
        for _ in range(_EMERGENCY_TRIES):
            if done.tokens_after <= budgets.limit or not done.changed:
                break
            # Without a model, and in less room, until the request fits the window.
            budgets = replace(budgets, tail=budgets.tail // 2, map=max(64, budgets.map * 2 // 3), target=1)
            smaller = await self._folded(read, before, budgets, focus_topic, state, force=True, by_model=False)
            done = smaller if smaller.tokens_after < done.tokens_after else done
        return done

    def _state_before(self, tokens: int, *, force: bool) -> LosslessState:
        cooldowns = Cooldowns() if force else self._own_state.cooldowns
        return replace(self._own_state, strikes=self._strikes_at(tokens), cooldowns=cooldowns)

    def _cheap(self, read: CountedHistory, before: int, budgets: MapBudgets, state: LosslessState) -> Compaction | None:
        """The compaction that only reduces old large results to a line, where that is enough."""
        plan = self._planner(read, before, budgets).with_tail(budgets.tail, force=False)
        done = self._finished(plan, cheap_items(plan, self._sizes, before - budgets.target), state)
        return done if done.changed and done.tokens_after <= budgets.target else None

    async def _folded(
        self,
        read: CountedHistory,
        before: int,
        budgets: MapBudgets,
        focus: str | None,
        state: LosslessState,
        *,
        force: bool,
        by_model: bool = True,
    ) -> Compaction:
        nodes = await self._known_map(read.numbered)
        plan = self._plan_fold(read, before, budgets, nodes, force=force)
        if not plan.cut.folded:
            # Only messages of the tail can be made smaller.
            is_over = plan.is_over
            return self._finished(plan, plan.items, state) if is_over else self._unchanged(plan, state, NOTHING_TO_FOLD)
        writer = self._writer(budgets, state, focus, by_model=by_model)
        sweep = Sweep(writer, self.lossless, plan.summary_budget, nodes)
        run = await self._sweep(sweep, plan, state)
        newest = writer.newest(plan, run.rows(bisect_left(run.numbers, sweep.nodes[-1].first)))
        room, can_be_opened = plan.summary_budget, self.host is not None and self.host.offers_tools
        text = write_map(sweep.nodes, newest, room, self._sizes.text, can_be_opened=can_be_opened)
        plan = self._planner(read, before, budgets).with_rest_in_tail(plan, self._sizes.text(text))
        state = replace(state, allowance=writer.allowance, cooldowns=writer.cooldowns)
        return self._assembled(plan, sweep, text, state)

    async def _sweep(self, sweep: Sweep, plan: CompactionPlan, state: LosslessState) -> RawRun:
        first, last = plan.covered
        reached = sweep.nodes[-1].last if sweep.nodes else first
        stored = await self.host.nodes() if self.host else ()
        sweep.writer.taken |= {node.id for node in (*stored, *sweep.nodes)}
        run = await self._run(plan, reached, last, state)
        known: dict[int, list[Node]] = {}
        for node in stored:
            if node.depth == 0 and reached <= node.first and node.last <= last:
                known.setdefault(node.first, []).append(node)
        await sweep.fold(run, known)
        return run

    async def _known_map(self, history: NumberedHistory) -> list[Node]:
        """The nodes of the messages that are no longer in view.

        Messages that another engine folded are read again from the host. Without a host, the text of the earlier
        summary becomes a node.
        """
        earlier = history.earlier
        if earlier is None:
            return []
        if self.host is None:
            return self._read_map(earlier)
        ids = ids_in_map(earlier.text)
        by_id = {node.id: node for node in await self.host.nodes(ids)} if ids else {}
        nodes = [by_id[it] for it in ids if it in by_id]
        if len(nodes) < len(ids) or not nodes or not is_contiguous(nodes) or nodes[0].first != earlier.first:
            return []
        return await self._with_better_texts(nodes)

    def _read_map(self, earlier: WrappedSummary) -> list[Node]:
        """The nodes of a map, read from its text alone; one over the whole text if it is no map."""
        text = redact_text(earlier.text)
        read = nodes_in_map(text)
        if not read or not is_contiguous(read) or (read[0].first, read[-1].last) != (earlier.first, earlier.last):
            return [_carried(earlier.first, earlier.last, text, self._sizes)]
        # The text before the parts is of the end of the last one.
        read[-1] = replace(read[-1], text=f"{before_parts(text)}\n\n{read[-1].text}".strip())
        return [replace(node, tokens=self._sizes.text(node.text)) for node in read]

    async def _with_better_texts(self, nodes: Sequence[Node]) -> list[Node]:
        """Each node, or the one with a better text that a model wrote since."""
        assert self.host is not None
        if all(node.is_final for node in nodes):
            return list(nodes)
        better = {node.replaces: node for node in await self.host.nodes() if node.replaces and node.is_final}
        return [better.get(node.id, node) for node in nodes]

    async def _run(self, plan: CompactionPlan, first: int, last: int, state: LosslessState) -> RawRun:
        """The original messages with these numbers, from the view if it has them, else from the host."""
        history, below = plan.history, state.read_again_below
        rows: dict[int, Message] = {}
        for number, message in zip(history.numbers, history.messages, strict=True):
            if first <= number < last:
                # A stub has the same number as the message with its call, which precedes it.
                rows.setdefault(number, message)
        missing = [number for number in range(first, last) if number < below or number not in rows]
        if self.host is not None and missing:
            start, stop = missing[0], missing[-1] + 1
            rows |= zip(range(start, stop), await self.host.rows(start, stop), strict=False)
        numbers = sorted(rows)
        messages = [rows[number] for number in numbers]
        return RawRun(first, last, numbers, messages, self._sizes.each(messages))

    def _assembled(self, plan: CompactionPlan, sweep: Sweep, text: str, state: LosslessState) -> Compaction:
        items = with_summary(plan.source, plan.items, text, plan.wrapped(text, self.recall_hint))
        provisional = tuple(node.id for node in sweep.nodes if not node.is_final)
        done = self._finished(plan, items, state, NOT_SMALLER, provisional=provisional)
        if not done.changed:
            return done
        writers = dict.fromkeys(node.written_by for node in sweep.made)
        templates = dict.fromkeys(node.template for node in sweep.made if node.template)
        return replace(
            done,
            nodes=tuple(sweep.made),
            shown_nodes=tuple(node.id for node in sweep.nodes),
            numbers=plan.covered,
            written_by=", ".join(writers) or BUILTIN,
            template=", ".join(templates) or None,
            warnings=(*sweep.writer.warnings, *done.warnings),
        )

    def _finished(
        self,
        plan: CompactionPlan,
        items: Sequence[CompactionItem],
        state: LosslessState,
        unchanged: str = NOTHING_TO_FOLD,
        **changes: Any,
    ) -> Compaction:
        """The compaction with these items; `changes` are those of the state once it is in effect."""
        numbers = plan.history.numbers
        shortened = [plan.repaired.indexes.index(item.index) for item in items if isinstance(item, Changed)]
        highest = max((numbers[min(at, len(numbers) - 1)] + 1 for at in shortened), default=0)
        # Another engine may have shortened messages in view, too.
        foreign = plan.history.earlier is not None and not ids_in_map(plan.history.earlier.text)
        if foreign and numbers:
            highest = max(highest, numbers[-1] + 1)
        after = replace(state, read_again_below=max(state.read_again_below, highest), **changes)
        return self._compaction(plan, items, state, after, unchanged)

    def _plan(
        self, messages: Sequence[Message], current_tokens: int | None = None, force: bool = False
    ) -> CompactionPlan:
        read = self._read(messages)
        earlier = read.numbered.earlier
        # The text of the map is enough for a plan.
        nodes = self._read_map(earlier) if earlier else []
        return self._plan_fold(read, current_tokens, self._budgets, nodes, force=force)

    def _plan_fold(
        self,
        read: CountedHistory,
        current_tokens: int | None,
        budgets: MapBudgets,
        nodes: Sequence[Node],
        *,
        force: bool,
    ) -> CompactionPlan:
        by_model = self.summarize is not None

        def expected(folded: int) -> int:
            return expected_map(nodes, folded, budgets, self.lossless, by_model=by_model)

        return self._planner(read, current_tokens, budgets).plan(expected, force=force, by_model=by_model)

    def _planner(self, read: CountedHistory, current_tokens: int | None, budgets: MapBudgets) -> FoldPlanner:
        return FoldPlanner(read, current_tokens, budgets, self.settings, self._sizes, self._system_as_blocks)

    def _writer(
        self, budgets: MapBudgets, state: LosslessState, focus: str | None = None, *, by_model: bool = True
    ) -> NodeWriter:
        summarize = self.summarize if by_model else None
        allowance, cooldowns = state.allowance, state.cooldowns
        return NodeWriter(
            self._sizes, budgets, self.lossless, summarize, allowance, cooldowns, focus, clock=self._clock
        )

    def get_tool_schemas(self) -> list[Tool]:
        return list(TOOLS)

    async def handle_tool_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        tools = MapTools(self.host, self._sizes, self.ask, self._own_state.read_again_below)
        return await tools.call(name, arguments)

    @property
    def has_background_work(self) -> bool:
        state = self._own_state
        is_allowed = not state.allowance.refusal(self._clock(), self.lossless)
        return bool(state.provisional) and self.host is not None and self.summarize is not None and is_allowed

    async def work_in_background(self) -> Sequence[str]:
        """Let a model write the provisional nodes in view again. The view shows them from the next fold on."""
        host, state = self.host, self._own_state
        if host is None or not self.has_background_work:
            return ()
        stored = {node.id: node for node in await host.nodes()}
        replaced = {node.replaces for node in stored.values() if node.replaces}
        writer = self._writer(self._budgets, state)
        writer.taken |= stored.keys()
        for id in state.provisional:
            old = stored.get(id)
            if old is None or old.id in replaced:
                continue
            children = [stored[child] for child in old.children if child in stored]
            rows = [] if children else list(enumerate(await host.rows(old.first, old.last), old.first))
            new = await writer.again(old, rows, children)
            if new is None:
                break
            await host.put_node(new)
            replaced.add(id)
        now = self._own_state
        left = tuple(id for id in now.provisional if id in stored and id not in replaced)
        self._own_state = replace(now, provisional=left, allowance=writer.allowance, cooldowns=writer.cooldowns)
        return writer.warnings


def _carried(first: int, last: int, text: str, sizes: MessageSizes) -> Node:
    """A node with the summary of messages that cannot be read here."""
    tokens = sizes.text(text)
    return Node(f"n{first}-{last - 1}", 0, first, last, text, tokens, tokens, written_by="unknown")
