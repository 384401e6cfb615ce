"""The compressor, Clew's default engine: prune, find the boundaries, summarise, assemble.

Knows the phases and their order, the budgets, and when to leave off. A model is the `summarize` callable it was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.config import CompressionSettings
from clew.engines.base import Compaction, ContextEngine, EngineStatus, Fate, Preview, SessionStart
from clew.engines.compressor.assemble import assemble, with_note
from clew.engines.compressor.boundaries import Cut, cut_at, head_end, is_prompt, newest_said, tail_start
from clew.engines.compressor.budgets import Budgets, budgets_for
from clew.engines.compressor.fates import fates_of, replaced_by_summary
from clew.engines.compressor.layout import Layout, lay_out, sound
from clew.engines.compressor.memory import Record, Strikes
from clew.engines.compressor.outlook import rows_of
from clew.engines.compressor.prune import cut_text, prune
from clew.engines.compressor.tail import fit_tail
from clew.engines.compressor.telling import (
    NOT_SMALLER,
    NOTHING_TO_FOLD,
    often_compacted,
    repairs_told,
    small_window,
    why_paused,
)
from clew.engines.setup import EngineSetup
from clew.ledger import Ledger, ReadMessage, atoms_in, whole_text
from clew.messages import Message, safe_cut_at_or_before, text_of
from clew.summaries import Cooldowns, Story, Summarize, Summary, parse_handoff, summarize_builtin, wrap
from clew.tokens import DEFAULT_WINDOW, TokenCounter, count_each, counter_for
from clew.usage import CanonicalUsage


class ContextCompressor(ContextEngine):
    """Keeps head and tail, and folds what lies between into one handoff."""

    name = "compressor"

    def __init__(
        self,
        context_length: int = DEFAULT_WINDOW,
        *,
        settings: CompressionSettings | None = None,
        model: str | None = None,
        max_output: int | None = None,
        summarize: Summarize | None = None,
        cooldowns: Cooldowns | None = None,
        budgets: Budgets | None = None,
        system_as_blocks: bool = False,
    ) -> None:
        self._settings = settings or CompressionSettings()
        self._summarize = summarize or self._write_builtin
        self._cooldowns = cooldowns if cooldowns is not None else Cooldowns()
        self._system_as_blocks = system_as_blocks
        self._fixed_budgets = budgets
        self._session_id: str | None = None
        self._strikes = Strikes()
        self._record = Record()
        self._last_prompt_tokens = 0
        self._sizes: dict[int, tuple[Message, int]] = {}
        self._model = model
        self.update_model(model, context_length, max_output)

    @classmethod
    def of(cls, setup: EngineSetup) -> ContextCompressor:
        """Out of what any engine is made from: an `EngineFactory`."""
        return cls(
            setup.context_length,
            settings=setup.compression,
            model=setup.model,
            max_output=setup.max_output,
            summarize=setup.summarize,
            cooldowns=setup.cooldowns,
        )

    # -- the life of a session -----------------------------------------------------------------------------------------

    def on_session_start(self, start: SessionStart) -> None:
        if self._session_id not in (None, start.session_id, start.continues):
            self.on_session_reset()
        self._session_id = start.session_id
        if start.memory:
            self._strikes = Strikes.of_json(start.memory)
            self._cooldowns.restore(start.memory.get("cooldowns"))

    def on_session_reset(self) -> None:
        self._strikes = Strikes()
        self._record = Record()
        self._last_prompt_tokens = 0
        self._sizes.clear()

    def update_from_response(self, usage: CanonicalUsage) -> None:
        self._last_prompt_tokens = usage.prompt_tokens

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        if model != self._model:
            self._sizes.clear()
        self._model = model
        self._counter: TokenCounter = counter_for(model)
        self._budgets = self._fixed_budgets or budgets_for(context_length, self._settings, max_output)

    def observe(self, messages: Sequence[Message]) -> None:
        self._record.follow(messages)
        self._count_all(messages)

    @property
    def memory(self) -> Mapping[str, Any]:
        return {**self._strikes.as_json(), "cooldowns": self._cooldowns.memory}

    def get_status(self) -> EngineStatus:
        paused = "the last compactions freed too little" if self._strikes.out else None
        return EngineStatus(
            self._last_prompt_tokens, self._budgets.threshold, self._budgets.window, self._strikes.compactions, paused
        )

    # -- when ----------------------------------------------------------------------------------------------------------

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self._last_prompt_tokens if prompt_tokens is None else prompt_tokens
        self._strikes = self._strikes.forgiven(tokens, self._budgets.threshold)
        return self._settings.enabled and tokens >= self._budgets.threshold and not self._strikes.out

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        layout = lay_out(sound(messages).messages)
        cut, _ = self._cut(layout, self._count_all(layout.messages))
        return bool(cut.folded)

    def preview(self, messages: Sequence[Message], current_tokens: int | None = None) -> Preview:
        """What `compress` would do with each message. Writes no summary and asks no model."""
        history = sound(messages).messages
        layout = lay_out(history)
        sizes, counted = self._count_all(layout.messages), self.size_of(history)
        earlier = counted - sum(sizes)
        before = current_tokens if current_tokens is not None else counted
        cut, tail = self._cut(layout, sizes)
        after, budget = dict(enumerate(sizes)), 0
        if cut.folded or before >= self._budgets.threshold:
            standing = self._standing(layout, cut, tail)
            standing = self._noted(cut, standing) if cut.folded else standing
            after = dict(zip(standing, self._count_all(list(standing.values())), strict=True))
        if cut.folded:
            budget = self._summary_budget(layout, cut, sizes, list(standing.values())) + self._count_wrapping()
        freed = sum(sizes) - sum(after.values()) + (earlier if budget else 0) - budget
        rows = rows_of(layout, cut, sizes, after, (earlier, 0 if budget else earlier))
        return Preview(history, *rows, before, min(before, before - freed), budget)

    # -- how -----------------------------------------------------------------------------------------------------------

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        if force:
            self._cooldowns.clear()
        history = sound(messages)
        layout = lay_out(history.messages)
        sizes, counted = self._count_all(layout.messages), self.size_of(history.messages)
        before = current_tokens if current_tokens is not None else counted
        if not force and self._strikes.forgiven(before, self._budgets.threshold).out:
            return Compaction.nothing(messages, before, self._why_paused(layout, sizes, before - counted))
        cut, tail = self._cut(layout, sizes)
        if force and not cut.folded and (layout.previous is None or before >= self._budgets.threshold):
            # Who insists gets a short conversation shorter, by the same measure; but one that was just compacted stays.
            cut, tail = self._cut(layout, sizes, int(self._settings.target_ratio * sum(sizes)))
        if not cut.folded and before < self._budgets.threshold:
            return Compaction.nothing(messages, before, NOTHING_TO_FOLD)
        standing = self._standing(layout, cut, tail)
        summary = await self._summary(layout, cut, sizes, standing, focus_topic)
        result = self._assembled(layout, cut, standing, summary)
        after = before - counted + self.size_of(result)
        if after >= before:
            self._strikes = self._strikes.in_vain(before, self._budgets.threshold)
            told = [NOT_SMALLER if cut.folded else NOTHING_TO_FOLD, *self._pause(layout, sizes, before - counted)]
            return Compaction.nothing(messages, before, *told)
        self._strikes = self._strikes.after(before, after, self._budgets.threshold)
        fates = fates_of(len(messages), history, layout, cut, standing)
        warnings = (
            *(summary.warnings if summary else ()),
            *repairs_told(history.repairs),
            *small_window(self._budgets),
            *self._pause(layout, sizes, before - counted),
        )
        return self._account(layout, cut, result, summary, (before, after), fates, warnings)

    def _cut(self, layout: Layout, sizes: Sequence[int], tail_tokens: int | None = None) -> tuple[Cut, list[Message]]:
        messages, budget = layout.messages, self._budgets.tail if tail_tokens is None else tail_tokens
        head = layout.position if layout.previous else self._head_end(messages)
        # In a short history of huge messages the last 20 may be all there is: at least half of it can be folded.
        protected = min(self._settings.protect_last_n, (len(messages) - head) // 2)
        start = max(head, tail_start(sizes, messages, budget, protected))
        later, tail = fit_tail(messages[start:], layout.numbers[start:], sizes[start:], budget, self._counter.message)
        return cut_at(messages, head, start + later), tail

    def _head_end(self, messages: Sequence[Message]) -> int:
        """The last group is the tail's, also where there is hardly more than that."""
        last = safe_cut_at_or_before(messages, len(messages) - 1)
        return min(head_end(messages, self._settings.protect_first_n), last)

    def _standing(self, layout: Layout, cut: Cut, tail: Sequence[Message]) -> dict[int, Message]:
        """What stays, by its place in the layout, as it will stand there."""
        at_the_end = dict(enumerate(tail, cut.tail))
        later = [(layout.numbers[place], message) for place, message in at_the_end.items()]
        head = dict(enumerate(self._head(layout, cut, later)))
        return head | {place: layout.messages[place] for place in cut.kept} | at_the_end

    def _head(self, layout: Layout, cut: Cut, later: Sequence[tuple[int, Message]]) -> list[Message]:
        messages, numbers = layout.messages[: cut.head], layout.numbers[: cut.head]
        head = prune(messages, numbers, later)
        # The newest request is the task: it stays word for word, wherever it stands.
        untouched = {place for place in newest_said(layout.messages) if place < cut.head}
        untouched |= {place for place, message in enumerate(head) if is_prompt(message)}
        rest = [place for place in range(cut.head) if place not in untouched]
        for place in untouched:
            head[place] = messages[place]
        if self.size_of([head[place] for place in rest]) > self._budgets.head:
            for place in rest:
                head[place] = cut_text(head[place], numbers[place], self._budgets.head * 3 // len(rest))
        return head

    def _assembled(
        self, layout: Layout, cut: Cut, standing: dict[int, Message], summary: Summary | None
    ) -> list[Message]:
        text = summary.text if summary else layout.previous.text if layout.previous else None
        if text is None:
            return list(standing.values())
        stands = list(self._noted(cut, standing).values())
        head, rest = stands[: cut.head], stands[cut.head :]
        return assemble(head, wrap(text, *self._covered(layout, cut), [layout.numbers[at] for at in cut.kept]), rest)

    def _noted(self, cut: Cut, standing: dict[int, Message]) -> dict[int, Message]:
        """The same with the note behind the system prompt, where there is one."""
        prompt = next((place for place in range(cut.head) if is_prompt(standing[place])), None)
        if prompt is None:
            return standing
        return standing | {prompt: with_note(standing[prompt], as_block=self._system_as_blocks)}

    async def _summary(
        self, layout: Layout, cut: Cut, sizes: Sequence[int], standing: dict[int, Message], focus: str | None
    ) -> Summary | None:
        """The summary of what is folded; None where only pruning can help."""
        if not cut.folded:
            return None
        story = self._story(layout, cut, standing, focus)
        noted = list(self._noted(cut, standing).values())
        return await self._summarize(story, self._summary_budget(layout, cut, sizes, noted))

    def _story(self, layout: Layout, cut: Cut, standing: Mapping[int, Message], focus: str | None) -> Story:
        ledger, read = self._ledger_of(layout)
        first, last = self._covered(layout, cut)
        newest = next((n for n in range(len(layout.messages) - 1, -1, -1) if _is_ask(layout.messages[n])), None)
        tail = [message for place, message in standing.items() if place >= cut.tail]
        # Of a head that stood before an earlier summary the originals may no longer be here.
        readable = 0 if layout.previous is None else cut.tail
        changed = {
            layout.numbers[place]
            for place, message in standing.items()
            if place >= readable and message is not layout.messages[place]
        }
        return Story(
            ledger,
            read,
            max(first, layout.first_unread),
            last,
            previous=parse_handoff(layout.previous.text) if layout.previous else None,
            task=text_of(layout.messages[newest]) if newest is not None else "",
            task_at=layout.numbers[newest] if newest is not None else None,
            standing=frozenset().union(*(atoms_in(whole_text(message)) for message in tail)),
            also=frozenset(changed),
            focus=focus,
        )

    def _ledger_of(self, layout: Layout) -> tuple[Ledger, ReadMessage]:
        """The record that was kept while messages arrived, or else one made now of what no summary covers yet."""
        if self._record.catch_up(layout.messages, layout.numbers):
            return self._record.ledger, self._record.read
        if layout.previous is None:
            self._record = Record.of(layout.messages)
            return self._record.ledger, self._record.read
        first = layout.first_unread
        unread = {n: m for m, n in zip(layout.messages, layout.numbers, strict=True) if n >= first}
        return Ledger.of(list(unread.values()), first), unread.__getitem__

    def _covered(self, layout: Layout, cut: Cut) -> tuple[int, int]:
        """The numbers that the summary stands for, an earlier summary's included."""
        last = layout.numbers[cut.tail] if cut.tail < len(layout.numbers) else layout.next_number
        return (layout.previous.first if layout.previous else layout.numbers[cut.head]), last

    def _summary_budget(self, layout: Layout, cut: Cut, sizes: Sequence[int], standing: Sequence[Message]) -> int:
        earlier = self._counter.text(layout.previous.text) if layout.previous else 0
        content = sum(sizes[place] for place in cut.folded) + earlier
        return self._budgets.summary(content, sum(self._count_all(standing)) + self._count_wrapping())

    async def _write_builtin(self, story: Story, budget: int) -> Summary:
        return await summarize_builtin(story, budget, self._counter.text)

    # -- telling -------------------------------------------------------------------------------------------------------

    def _account(
        self,
        layout: Layout,
        cut: Cut,
        result: Sequence[Message],
        summary: Summary | None,
        tokens: tuple[int, int],
        fates: list[Fate],
        warnings: tuple[str, ...],
    ) -> Compaction:
        if summary is None:
            return Compaction(result, True, *tokens, fates=tuple(fates), warnings=warnings)
        times = self._strikes.compactions
        again = (often_compacted(times),) if times > 1 or layout.previous else ()
        return Compaction(
            messages=result,
            changed=True,
            tokens_before=tokens[0],
            tokens_after=tokens[1],
            summary=summary.text,
            fates=tuple(fates),
            replaced=replaced_by_summary(fates),
            numbers=self._covered(layout, cut),
            written_by=summary.written_by,
            template=summary.template,
            unverified=summary.unverified,
            warnings=(*warnings, *again),
        )

    def _pause(self, layout: Layout, sizes: Sequence[int], beside: int) -> list[str]:
        return [self._why_paused(layout, sizes, beside)] if self._strikes.out else []

    def _why_paused(self, layout: Layout, sizes: Sequence[int], beside: int) -> str:
        system = sum(size for message, size in zip(layout.messages, sizes, strict=True) if is_prompt(message))
        return why_paused(self._strikes, self._budgets.threshold, system, max(0, beside))

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def _count_all(self, messages: Sequence[Message]) -> list[int]:
        unknown = [message for message in messages if id(message) not in self._sizes]
        for message, size in zip(unknown, count_each(unknown, self._model), strict=True):
            self._sizes[id(message)] = (message, size)
        return [self._sizes[id(message)][1] for message in messages]

    def size_of(self, messages: Sequence[Message]) -> int:
        """The messages in tokens; each is counted once."""
        return sum(self._count_all(messages))

    def _count_wrapping(self) -> int:
        return self._counter.text(wrap("", 0, 1, (1, 2))) + 10


def _is_ask(message: Message) -> bool:
    return message["role"] == "user" and bool(text_of(message).strip())
