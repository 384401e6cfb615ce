"""The lossless engine: a map of nodes covers everything but the newest messages, and each node can be opened again.

`compress` plans like the compressor (the cut, what stays and in which form), sweeps, and assembles. In the result one
message holds the map: the nodes, oldest first. New nodes and the ids of those shown leave with the `Compaction`; the
host stores them in one transaction.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clew.engines.base import (
    Changed,
    Compaction,
    CompactionItem,
    CompactionPreview,
    ContextEngine,
    EngineSetup,
    EngineStatus,
    Node,
    checked_tokens,
    checked_topic,
    messages_of,
)
from clew.engines.compressor.assemble import (
    NOT_SMALLER,
    NOTHING_TO_FOLD,
    cut_newest_warnings,
    repair_warnings,
    with_summary,
)
from clew.engines.compressor.history import CountedHistory, MessageSizes, NumberedHistory, read_history
from clew.engines.compressor.plan import CompactionPlan, Strikes, paused_warning, preview_of
from clew.engines.lossless.fold import Clock, NodeWriter, RawRun, Sweep, cheap_items, expected_map
from clew.engines.lossless.map_text import before_parts, ids_in_map, is_contiguous, nodes_in_map, write_map
from clew.engines.lossless.plan import FoldPlanner, MapBudgets, ModelAllowance, budgets_for_window, check_shares, solved
from clew.engines.lossless.recall import TOOLS, MapTools
from clew.handoff import BUILTIN, Cooldowns, WrappedSummary
from clew.messages import Message, Tool
from clew.redact import redact_text
from clew.usage import CanonicalUsage

_EMERGENCY_TRIES = 5


@dataclass(frozen=True, slots=True)
class LosslessState:
    """What the lossless engine must not forget over a restart."""

    strikes: Strikes = field(default_factory=Strikes)
    allowance: ModelAllowance = field(default_factory=ModelAllowance)
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    provisional: tuple[str, ...] = ()
    """The ids of nodes in view that a model has still to write."""
    read_again_below: int = 0
    """Messages below this number may be shown in a shorter form: their text is read from the host."""

    def as_json(self) -> dict[str, Any]:
        return {
            **self.strikes.as_json(),
            "allowance": self.allowance.as_json(),
            "cooldowns": self.cooldowns.as_json(),
            "provisional": list(self.provisional),
            "read_again_below": self.read_again_below,
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> LosslessState:
        waiting, below = values.get("provisional"), values.get("read_again_below")
        return cls(
            Strikes.of_json(values),
            ModelAllowance.of_json(values.get("allowance")),
            Cooldowns.of_json(values.get("cooldowns")),
            tuple(it for it in waiting if isinstance(it, str)) if isinstance(waiting, list) else (),
            below if type(below) is int and below > 0 else 0,
        )


class LosslessEngine(ContextEngine):
    """Folds old messages into a map of summaries that can be opened again, down to the exact bytes."""

    name = "lcm"

    def __init__(self, setup: EngineSetup | None = None, *, clock: Clock = time.time) -> None:
        setup = setup or EngineSetup()
        # Caches, no state: without them the same result takes longer.
        self._sizes = MessageSizes(setup.model)
        self.lossless = setup.lossless
        self.ask = setup.ask
        self._clock = clock
        super().__init__(setup)
        self._lossless_state = LosslessState()
        self._system_as_blocks, self._has_store = setup.system_as_blocks, setup.has_store
        self.update_model(setup.model, setup.context_length, setup.max_output)
        check_shares(self._budgets, self.settings, self.lossless)

    def on_session_reset(self) -> None:
        super().on_session_reset()
        # A new conversation ends neither the rest of a model nor the count of what it was asked.
        kept = self._lossless_state
        self._lossless_state = LosslessState(allowance=kept.allowance, cooldowns=kept.cooldowns)
        self._sizes = MessageSizes(self.model)

    @property
    def state(self) -> Mapping[str, Any]:
        return self._lossless_state.as_json()

    def restore(self, state: Mapping[str, Any] | None) -> None:
        if state is not None:
            self._lossless_state = LosslessState.of_json(state)

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        super().update_model(model, context_length, max_output)
        if model != self._sizes.model:
            self._sizes = MessageSizes(model)
        self._budgets = budgets_for_window(context_length, self.settings, self.lossless, max_output)

    def update_from_response(self, usage: CanonicalUsage) -> None:
        super().update_from_response(usage)
        strikes = self._lossless_state.strikes.after_growth(self.last_prompt_tokens, self._budgets.threshold)
        self._lossless_state = replace(self._lossless_state, strikes=strikes)

    def observe(self, messages: Sequence[Message]) -> None:
        self._sizes.count_and_check(self._sizes.read(messages))

    @property
    def threshold_tokens(self) -> int:
        return self._budgets.threshold

    def get_status(self) -> EngineStatus:
        strikes = self._lossless_state.strikes
        paused = "the last folds freed too little" if strikes.is_paused else None
        return EngineStatus(
            self.last_prompt_tokens, self._budgets.threshold, self.context_length, strikes.compactions, paused
        )

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        strikes = self._lossless_state.strikes.after_growth(tokens, self._budgets.threshold)
        return super().should_compress(tokens) and not strikes.is_paused

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        return bool(self._plan(self._read(messages), None, self._budgets, force=False).cut.folded)

    def preview(self, messages: Sequence[Message], current_tokens: int | None = None) -> CompactionPreview:
        """What `compress` would do with each message. Writes no node and asks no model."""
        return preview_of(self._plan(self._read(messages), current_tokens, self._budgets, force=False), self._sizes)

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
            # Without a model, and in less room: whatever the messages are, the request must fit the window.
            budgets = replace(budgets, tail=budgets.tail // 2, map=max(64, budgets.map * 2 // 3), target=1)
            smaller = await self._folded(read, before, budgets, focus_topic, state, force=True, by_model=False)
            done = smaller if smaller.tokens_after < done.tokens_after else done
        return done

    def _state_before(self, tokens: int, *, force: bool) -> LosslessState:
        former = self._lossless_state
        return replace(
            former,
            strikes=former.strikes.after_growth(tokens, self._budgets.threshold),
            cooldowns=Cooldowns() if force else former.cooldowns,
        )

    def _read(self, messages: Sequence[Message]) -> CountedHistory:
        return read_history(self._sizes.read(messages), self._sizes, has_store=self._has_store)

    def _cheap(self, read: CountedHistory, before: int, budgets: MapBudgets, state: LosslessState) -> Compaction | None:
        """The compaction that only reduces old large results to a line, where that is enough."""
        plan = self._planner(read, before, budgets).with_tail(budgets.tail, force=False)
        items = cheap_items(plan, self._sizes, before - budgets.target)
        after = before - read.tokens + self._sizes.total(list(messages_of(read.source, items)))
        if after > budgets.target or after >= before:
            return None
        return self._finished(plan, items, after, state)

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
        plan = self._plan(read, before, budgets, force=force, nodes=nodes)
        if not plan.cut.folded:
            return self._without_fold(plan, state)
        writer = NodeWriter(
            self._sizes,
            budgets,
            self.lossless,
            self.summarize if by_model else None,
            state.allowance,
            state.cooldowns,
            focus,
            clock=self._clock,
        )
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
        """The nodes that cover what the view no longer shows.

        What another engine folded, or what was folded where there is no store, is read again from the host. Where there
        is none, the text of the earlier summary becomes a node.
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
        """The nodes of a map, read from its text alone; one over all of it where it is no map."""
        text = redact_text(earlier.text)
        read = nodes_in_map(text)
        if not read or not is_contiguous(read) or (read[0].first, read[-1].last) != (earlier.first, earlier.last):
            return [_carried(earlier.first, earlier.last, text, self._sizes)]
        # What is written before the parts was true at the end of the last one.
        read[-1] = replace(read[-1], text=f"{before_parts(text)}\n\n{read[-1].text}".strip())
        return [replace(node, tokens=self._sizes.text(node.text)) for node in read]

    async def _with_better_texts(self, nodes: Sequence[Node]) -> list[Node]:
        """Each node, or what a model wrote for it since."""
        assert self.host is not None
        if all(node.is_final for node in nodes):
            return list(nodes)
        better = {node.replaces: node for node in await self.host.nodes() if node.replaces and node.is_final}
        return [better.get(node.id, node) for node in nodes]

    async def _run(self, plan: CompactionPlan, first: int, last: int, state: LosslessState) -> RawRun:
        """The original messages with these numbers, from the view where it has them and else from the host."""
        history, below = plan.history, state.read_again_below
        start, stop = (bisect_left(history.numbers, number) for number in (first, last))
        if (below <= first or self.host is None) and list(history.numbers[start:stop]) == list(range(first, last)):
            # All are in view, in their order: nothing was folded before them, or all of it is in nodes.
            whole = history.messages[start:stop]
            return RawRun(first, last, range(first, last), whole, plan.sizes[start:stop])
        shown: dict[int, Message] = {}
        for number, message in zip(history.numbers, history.messages, strict=True):
            if first <= number < last:
                # A stub has the number of the message with its call, which precedes it.
                shown.setdefault(number, message)
        rows = shown
        if self.host is not None and first < last:
            missing = [number for number in range(first, last) if number < below or number not in shown]
            if missing:
                start, stop = missing[0], missing[-1] + 1
                read = await self.host.rows(start, stop)
                rows = shown | dict(zip(range(start, stop), read, strict=False))
        numbers = sorted(rows)
        messages = [rows[number] for number in numbers]
        return RawRun(first, last, numbers, messages, self._sizes.each(messages))

    def _assembled(self, plan: CompactionPlan, sweep: Sweep, text: str, state: LosslessState) -> Compaction:
        items = with_summary(plan.source, plan.items, text, plan.wrapped(text, self.recall_hint))
        after = plan.tokens_beside + self._sizes.total(list(messages_of(plan.source, items)))
        before = plan.tokens_before
        if after >= before:
            strikes = state.strikes.after_no_change(before, self._budgets.threshold)
            return Compaction.nothing(plan.source, before, NOT_SMALLER, state=replace(state, strikes=strikes).as_json())
        provisional = tuple(node.id for node in sweep.nodes if not node.is_final)
        done = self._finished(plan, items, after, replace(state, provisional=provisional))
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
        self, plan: CompactionPlan, items: Sequence[CompactionItem], after: int, state: LosslessState
    ) -> Compaction:
        before = plan.tokens_before
        strikes = state.strikes.after_compaction(before, after, self._budgets.threshold)
        numbers = plan.history.numbers
        shortened = [plan.repaired.indexes.index(item.index) for item in items if isinstance(item, Changed)]
        highest = max((numbers[min(at, len(numbers) - 1)] + 1 for at in shortened), default=0)
        # What another engine left in view may be shorter than it was, too.
        foreign = plan.history.earlier is not None and not ids_in_map(plan.history.earlier.text)
        if foreign and numbers:
            highest = max(highest, numbers[-1] + 1)
        state = replace(state, strikes=strikes, read_again_below=max(state.read_again_below, highest))
        warnings = (
            *repair_warnings(plan.repaired.repairs),
            *cut_newest_warnings(plan.cut_newest, has_store=self._has_store),
            *([self._paused(plan, strikes)] if strikes.is_paused else []),
        )
        return Compaction(plan.source, tuple(items), before, after, state.as_json(), warnings=warnings)

    def _without_fold(self, plan: CompactionPlan, state: LosslessState) -> Compaction:
        """Nothing lies before the tail: what can be done is to shorten what is in it."""
        source, before = plan.source, plan.tokens_before
        after = plan.tokens_beside + self._sizes.total(list(messages_of(source, plan.items)))
        if plan.is_over and after < before:
            return self._finished(plan, plan.items, after, state)
        strikes = state.strikes.after_no_change(before, self._budgets.threshold)
        why = [NOTHING_TO_FOLD, *([self._paused(plan, strikes)] if strikes.is_paused else [])]
        return Compaction.nothing(source, before, *why, state=replace(state, strikes=strikes).as_json())

    def _paused(self, plan: CompactionPlan, strikes: Strikes) -> str:
        return paused_warning(strikes, self._budgets.threshold, plan.prompt_tokens, max(0, plan.tokens_beside))

    def _plan(
        self,
        read: CountedHistory,
        current_tokens: int | None,
        budgets: MapBudgets,
        *,
        force: bool,
        nodes: Sequence[Node] | None = None,
    ) -> CompactionPlan:
        """The plan of a fold; without the nodes of the map, by the map as it is shown."""
        earlier = read.numbered.earlier
        known = nodes if nodes is not None else self._read_map(earlier) if earlier else []
        by_model = self.summarize is not None

        def expected(folded: int) -> int:
            return expected_map(known, folded, budgets, self.lossless, by_model=by_model)

        return self._planner(read, current_tokens, budgets).plan(expected, force=force, by_model=by_model)

    def _planner(self, read: CountedHistory, current_tokens: int | None, budgets: MapBudgets) -> FoldPlanner:
        return FoldPlanner(read, current_tokens, budgets, self.settings, self._sizes, self._system_as_blocks)

    def get_tool_schemas(self) -> list[Tool]:
        return list(TOOLS)

    async def handle_tool_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        tools = MapTools(self.host, self._sizes, self.ask, self._lossless_state.read_again_below)
        return await tools.call(name, arguments)

    @property
    def has_background_work(self) -> bool:
        state = self._lossless_state
        is_allowed = not state.allowance.refusal(self._clock(), self.lossless)
        return bool(state.provisional) and self.host is not None and self.summarize is not None and is_allowed

    async def work_in_background(self) -> Sequence[str]:
        """Have a model write the provisional nodes in view again. The view shows them from the next fold on."""
        host, state = self.host, self._lossless_state
        if host is None or not self.has_background_work:
            return ()
        stored = {node.id: node for node in await host.nodes()}
        replaced = {node.replaces for node in stored.values() if node.replaces}
        writer = NodeWriter(
            self._sizes,
            self._budgets,
            self.lossless,
            self.summarize,
            state.allowance,
            state.cooldowns,
            taken=set(stored),
            clock=self._clock,
        )
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
        now = self._lossless_state
        left = tuple(id for id in now.provisional if id in stored and id not in replaced)
        self._lossless_state = replace(now, provisional=left, allowance=writer.allowance, cooldowns=writer.cooldowns)
        return writer.warnings

    def size_of(self, messages: Sequence[Message]) -> int:
        """The messages in tokens; each is counted once."""
        return self._sizes.total(self._sizes.read(messages))


def _carried(first: int, last: int, text: str, sizes: MessageSizes) -> Node:
    """The summary of messages that cannot be read here, as a node."""
    tokens = sizes.text(text)
    return Node(f"n{first}-{last - 1}", 0, first, last, text, tokens, tokens, written_by="unknown")
