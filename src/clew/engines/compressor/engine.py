"""The compressor, Clew's default engine: head and tail stay, and what lies between becomes one handoff.

`compress` plans, has the summary written, and assembles; `preview` only plans. A model is the `summarize` callable that
the engine was given. `PlanningEngine` is what this engine and the lossless one share.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from clew.config import CompressionSettings
from clew.engines.base import (
    Compaction,
    CompactionItem,
    CompactionPreview,
    ContextEngine,
    EngineSetup,
    EngineStatus,
    checked_tokens,
    checked_topic,
    messages_of,
)
from clew.engines.compressor.assemble import (
    NOT_SMALLER,
    NOTHING_TO_FOLD,
    cut_newest_warnings,
    repair_warnings,
    repeated_warning,
    with_summary,
)
from clew.engines.compressor.history import (
    CountedHistory,
    HistoryRecord,
    MessageSizes,
    NumberedHistory,
    read_history,
)
from clew.engines.compressor.plan import (
    Budgets,
    CompactionPlan,
    PlanSettings,
    Strikes,
    budgets_for,
    paused_warning,
    plan_compaction,
    preview_of,
    small_window_warnings,
    summary_input,
    with_longer_tail,
)
from clew.facts import Record
from clew.handoff import (
    Compute,
    Cooldowns,
    Handoff,
    ReadMessage,
    Summarize,
    Summary,
    SummaryInput,
    compute_now,
    summarize_builtin,
)
from clew.messages import Message
from clew.redact import redact_text
from clew.tokens import DEFAULT_WINDOW

if TYPE_CHECKING:
    from clew.usage import CanonicalUsage

_FILLED = 0.95
"""What a compaction to a target uses of it, where messages that were shortened have more to say."""
_LEAST_FILLED = 0.9
"""And at least, while there is material."""


@dataclass(frozen=True, slots=True)
class CompressorState:
    """What the compressor must not forget over a restart."""

    strikes: Strikes = field(default_factory=Strikes)
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    """The summary models that rest after a failure."""

    def as_json(self) -> dict[str, Any]:
        return {**self.strikes.as_json(), "cooldowns": self.cooldowns.as_json()}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(Strikes.of_json(values), Cooldowns.of_json(values.get("cooldowns")))


class EngineBudgets(Protocol):
    """The budgets that every planning engine has, in tokens."""

    @property
    def window(self) -> int: ...
    @property
    def threshold(self) -> int: ...


StateT = TypeVar("StateT", bound=CompressorState)
BudgetsT = TypeVar("BudgetsT", bound=EngineBudgets)


class PlanningEngine(ContextEngine, Generic[StateT, BudgetsT]):
    """An engine that plans a compaction within budgets, and pauses after some that freed too little."""

    paused_because: ClassVar[str]
    _budgets: BudgetsT

    def __init__(self, setup: EngineSetup, state: StateT) -> None:
        # Caches, no state: without them the same result takes longer.
        self._sizes = MessageSizes(setup.model)
        self._own_state = state
        self._system_as_blocks, self._has_store = setup.system_as_blocks, setup.has_store
        super().__init__(setup)
        self.update_model(setup.model, setup.context_length, setup.max_output)

    # -- sessions and state --------------------------------------------------------------------------------------------

    def on_session_reset(self) -> None:
        super().on_session_reset()
        # A new conversation does not end the rest of a model.
        self._own_state = replace(self._own_state, strikes=Strikes())
        self._sizes = MessageSizes(self.model)

    @property
    def state(self) -> Mapping[str, Any]:
        return self._own_state.as_json()

    def restore(self, state: Mapping[str, Any] | None) -> None:
        if state is not None:
            self._own_state = self._own_state.of_json(state)

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        super().update_model(model, context_length, max_output)
        if model != self._sizes.model:
            self._sizes = MessageSizes(model)

    def update_from_response(self, usage: CanonicalUsage) -> None:
        super().update_from_response(usage)
        if self._own_state.strikes.count:
            self._own_state = replace(self._own_state, strikes=self._strikes_at(self.last_prompt_tokens))

    def _strikes_at(self, tokens: int) -> Strikes:
        strikes = self._own_state.strikes
        return strikes.after_growth(tokens, self._budgets.threshold) if strikes.count else strikes

    # -- when ----------------------------------------------------------------------------------------------------------

    @property
    def threshold_tokens(self) -> int:
        return self._budgets.threshold

    def get_status(self) -> EngineStatus:
        strikes, budgets = self._own_state.strikes, self._budgets
        paused = self.paused_because if strikes.count and strikes.is_paused else None
        return EngineStatus(self.last_prompt_tokens, budgets.threshold, budgets.window, strikes.compactions, paused)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        is_due = self.settings.enabled and tokens >= self._budgets.threshold
        return is_due and not self._strikes_at(tokens).is_paused

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        return bool(self._plan(messages).cut.folded)

    def preview(self, messages: Sequence[Message], current_tokens: int | None = None) -> CompactionPreview:
        """What `compress` would do with each message. Writes no summary and asks no model."""
        return preview_of(self._plan(messages, current_tokens), self._sizes)

    def size_of(self, messages: Sequence[Message]) -> int:
        """The messages in tokens; each is counted once."""
        return self._sizes.total(self._sizes.read(messages))

    # -- how -----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _plan(
        self, messages: Sequence[Message], current_tokens: int | None = None, force: bool = False
    ) -> CompactionPlan:
        """The plan of a compaction of these messages."""

    def _read(self, messages: Sequence[Message]) -> CountedHistory:
        return read_history(self._sizes.read(messages), self._sizes, has_store=self._has_store)

    def _compaction(
        self,
        plan: CompactionPlan,
        items: Sequence[CompactionItem],
        before: StateT,
        after: StateT,
        unchanged: str,
        warnings: Sequence[str] = (),
    ) -> Compaction:
        """The compaction with these items; one that changes nothing, with `unchanged` as the reason, if the result
        would not be smaller. Its state is `before` where nothing changes, else `after`, both with the strikes of it.
        """
        source, tokens, threshold = plan.source, plan.tokens_before, self._budgets.threshold
        left = plan.tokens_beside + self._sizes.total(list(messages_of(source, items)))
        if left >= tokens:
            return self._unchanged(plan, before, unchanged)
        strikes = before.strikes.after_compaction(tokens, left, threshold)
        warnings = (
            *repair_warnings(plan.repaired.repairs),
            *warnings,
            *cut_newest_warnings(plan.cut_newest, has_store=self._has_store),
            *self._paused_warnings(plan, strikes),
        )
        state = replace(after, strikes=strikes).as_json()
        return Compaction(source, tuple(items), tokens, left, state, warnings=warnings)

    def _unchanged(self, plan: CompactionPlan, state: StateT, why: str) -> Compaction:
        """A compaction that changes nothing although it should have: a strike where the request is too large."""
        strikes = state.strikes.after_no_change(plan.tokens_before, self._budgets.threshold)
        state = replace(state, strikes=strikes)
        warnings = (why, *self._paused_warnings(plan, strikes))
        return Compaction.nothing(plan.source, plan.tokens_before, *warnings, state=state.as_json())

    def _paused_warnings(self, plan: CompactionPlan, strikes: Strikes) -> list[str]:
        if not strikes.is_paused:
            return []
        return [paused_warning(strikes, self._budgets.threshold, plan.prompt_tokens, max(0, plan.tokens_beside))]


class ContextCompressor(PlanningEngine[CompressorState, Budgets]):
    """Keeps head and tail, and folds what lies between into one handoff."""

    name = "compressor"
    paused_because = "the last compactions freed too little"

    def __init__(
        self,
        context_length: int = DEFAULT_WINDOW,
        *,
        settings: CompressionSettings | None = None,
        model: str | None = None,
        max_output: int | None = None,
        summarize: Summarize | None = None,
        budgets: Budgets | None = None,
        system_as_blocks: bool = False,
        has_store: bool = True,
        compute: Compute = compute_now,
    ) -> None:
        self._fixed_budgets = budgets
        self._under_way = 0
        """Compactions that have not ended: what they read must not change."""
        self._arrived: list[Message] = []
        """The messages that were added meanwhile."""
        self._record = HistoryRecord()
        setup = EngineSetup(
            context_length,
            model,
            max_output,
            settings or CompressionSettings(),
            summarize,
            system_as_blocks=system_as_blocks,
            has_store=has_store,
            compute=compute,
        )
        super().__init__(setup, CompressorState())

    @classmethod
    def of(cls, setup: EngineSetup) -> ContextCompressor:
        """Out of what any engine is made from: an `EngineFactory`."""
        return cls(
            setup.context_length,
            settings=setup.compression,
            model=setup.model,
            max_output=setup.max_output,
            summarize=setup.summarize,
            system_as_blocks=setup.system_as_blocks,
            has_store=setup.has_store,
            compute=setup.compute,
        )

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self._record = HistoryRecord()

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        super().update_model(model, context_length, max_output)
        self._budgets = self._fixed_budgets or budgets_for(context_length, self.settings, max_output)

    def observe(self, messages: Sequence[Message]) -> None:
        if self._under_way:
            self._arrived += messages
            return
        read = self._sizes.read(messages)
        self._record.append(read)
        self._sizes.count_and_check(read)

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        self._under_way += 1
        try:
            return await self._compress(messages, current_tokens, checked_topic(focus_topic), force)
        finally:
            self._under_way -= 1
            if not self._under_way:
                arrived, self._arrived = self._arrived, []
                self.observe(arrived)

    async def _compress(
        self, messages: Sequence[Message], current_tokens: int | None, focus_topic: str | None, force: bool
    ) -> Compaction:
        plan: CompactionPlan = await self.compute(self._plan, messages, current_tokens, force)
        before = plan.tokens_before
        state = CompressorState(self._strikes_at(before), Cooldowns() if force else self._own_state.cooldowns)
        if not force and state.strikes.is_paused:
            return Compaction.nothing(plan.source, before, *self._paused_warnings(plan, state.strikes))
        if not plan.cut.folded and not plan.is_over:
            return Compaction.nothing(plan.source, before, NOTHING_TO_FOLD, state=state.as_json())
        if not plan.cut.folded:
            return await self._filled(plan, None, state)
        asked = await self.compute(self._summary_input, plan, focus_topic, state.cooldowns)
        return await self._filled(plan, await self._write_summary(asked, plan.summary_budget), state)

    async def _filled(self, plan: CompactionPlan, summary: Summary | None, state: CompressorState) -> Compaction:
        filled: Compaction = await self.compute(self._fill, plan, summary, state)
        return filled

    def _fill(self, plan: CompactionPlan, summary: Summary | None, state: CompressorState) -> Compaction:
        """The compaction; what a short summary leaves of a target goes to the newest messages, then to the first."""
        done, total = self._assembled(plan, summary, state), self._budgets.total
        if total is None or not done.changed:
            return done
        # A tail that begins earlier than was planned is not what a preview showed: only where much would be unused.
        for begins_earlier, share in ((False, _FILLED), (True, _LEAST_FILLED)):
            if done.tokens_after < share * total:
                longer = with_longer_tail(
                    self._plan_settings, plan, total - done.tokens_after, begins_earlier=begins_earlier
                )
                again = self._assembled(longer, summary, state)
                if done.tokens_after < again.tokens_after <= total:
                    done, plan = again, longer
        return done

    def _assembled(self, plan: CompactionPlan, summary: Summary | None, state: CompressorState) -> Compaction:
        """The compaction with its summary, or with what was pruned alone; `state` is the one before it."""
        if summary is None:
            return self._compaction(
                plan, plan.items, state, state, NOTHING_TO_FOLD, small_window_warnings(self._budgets)
            )
        items = with_summary(plan.source, plan.items, summary.text, plan.wrapped(summary.text, self.recall_hint))
        if summary.cooldowns is not None:
            state = replace(state, cooldowns=summary.cooldowns)
        done = self._compaction(plan, items, state, state, NOT_SMALLER, small_window_warnings(self._budgets))
        if not done.changed:
            return done
        made = state.strikes.compactions + 1
        is_again = made > 1 or plan.history.earlier is not None
        again = [repeated_warning(made, has_store=self._has_store)] if is_again else []
        return replace(
            done,
            numbers=plan.covered,
            handoff=summary.handoff,
            written_by=summary.written_by,
            template=summary.template,
            unverified=summary.unverified,
            warnings=(*summary.warnings, *done.warnings, *again),
        )

    def _plan(
        self, messages: Sequence[Message], current_tokens: int | None = None, force: bool = False
    ) -> CompactionPlan:
        if current_tokens is not None:
            current_tokens = checked_tokens("current_tokens", current_tokens)
        return plan_compaction(self._plan_settings, self._read(messages), current_tokens, force=force)

    @property
    def _plan_settings(self) -> PlanSettings:
        return PlanSettings(self._budgets, self.settings, self._sizes, self._system_as_blocks)

    def _summary_input(self, plan: CompactionPlan, focus: str | None, cooldowns: Cooldowns) -> SummaryInput:
        history = plan.history
        previous = Handoff.of_text(redact_text(history.earlier.text)) if history.earlier else None
        first = max(plan.covered[0], history.first_unread)
        source = summary_input(plan, *self._record_of(history), first)
        readable = plan.covered[0] if source.record.first_number <= plan.covered[0] < first else None
        return replace(source, previous=previous, readable_from=readable, focus=focus, cooldowns=cooldowns)

    def _record_of(self, history: NumberedHistory) -> tuple[Record, ReadMessage]:
        """The record that was kept while messages arrived, or else one made now of what no summary covers yet."""
        if self._record.catch_up(history.messages, history.numbers):
            return self._record.record, self._record.read
        if history.earlier is None:
            self._record = HistoryRecord.of(history.messages, history.numbers)
            return self._record.record, self._record.read
        unread = [at for at, number in enumerate(history.numbers) if number >= history.first_unread]
        kept = HistoryRecord.of([history.messages[at] for at in unread], [history.numbers[at] for at in unread])
        return kept.record, kept.read

    async def _write_summary(self, asked: SummaryInput, budget: int) -> Summary:
        if self.summarize is not None:
            return await self.summarize(asked, budget)
        summary: Summary = await self.compute(summarize_builtin, asked, budget, self._sizes.text)
        return summary
