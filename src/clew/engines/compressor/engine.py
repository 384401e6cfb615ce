"""The compressor, Clew's default engine: prune, find the boundaries, summarise, assemble.

Knows the phases and their order, the budgets, and when to leave off. A model is the `summarize` callable it was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.engines.base import Compaction, ContextEngine, EngineStatus, Fate, Preview, SessionStart
from clew.engines.compressor.assemble import assemble, with_note
from clew.engines.compressor.boundaries import Cut, cut_at, head_end, tail_start
from clew.engines.compressor.budgets import Budgets, CompressorSettings, budgets_for
from clew.engines.compressor.layout import Layout, lay_out, sound
from clew.engines.compressor.memory import Record, Strikes
from clew.engines.compressor.outlook import rows_of
from clew.engines.compressor.prune import cut_text, prune
from clew.engines.compressor.tail import fit_tail
from clew.ledger import Ledger, ReadMessage, atoms_in, whole_text
from clew.messages import Message, text_of
from clew.summaries import Story, Summarize, Summary, parse_handoff, summarize_builtin, wrap
from clew.tokens import DEFAULT_WINDOW, TokenCounter, count_each, counter_for
from clew.usage import CanonicalUsage

_AGAIN = (
    "This conversation has been compacted {times} times; details may get less accurate each time. "
    "Nothing is lost: undo the compaction, search the history, or start afresh with /new."
)


class ContextCompressor(ContextEngine):
    """Keeps head and tail, and folds what lies between into one handoff."""

    name = "compressor"

    def __init__(
        self,
        context_length: int = DEFAULT_WINDOW,
        *,
        settings: CompressorSettings | None = None,
        model: str | None = None,
        max_output: int | None = None,
        summarize: Summarize | None = None,
        budgets: Budgets | None = None,
        system_as_blocks: bool = False,
    ) -> None:
        self._settings = settings or CompressorSettings()
        self._summarize = summarize or self._write_builtin
        self._system_as_blocks = system_as_blocks
        self._fixed_budgets = budgets
        self._strikes = Strikes()
        self._record = Record()
        self._last_prompt_tokens = 0
        self._sizes: dict[int, tuple[Message, int]] = {}
        self.update_model(model, context_length, max_output)

    # -- the life of a session -----------------------------------------------------------------------------------------

    def on_session_start(self, start: SessionStart) -> None:
        if start.memory:
            self._strikes = Strikes.of_json(start.memory)

    def on_session_reset(self) -> None:
        self._strikes = Strikes()
        self._record = Record()
        self._last_prompt_tokens = 0
        self._sizes.clear()

    def update_from_response(self, usage: CanonicalUsage) -> None:
        self._last_prompt_tokens = usage.prompt_tokens

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        self._model = model
        self._counter: TokenCounter = counter_for(model)
        self._budgets = self._fixed_budgets or budgets_for(context_length, self._settings, max_output)

    def observe(self, messages: Sequence[Message]) -> None:
        self._record.follow(messages)
        self._count_all(messages)

    @property
    def memory(self) -> Mapping[str, Any]:
        return self._strikes.as_json()

    def get_status(self) -> EngineStatus:
        paused = "the last compactions freed too little" if self._strikes.out else None
        return EngineStatus(
            self._last_prompt_tokens, self._budgets.threshold, self._budgets.window, self._strikes.compactions, paused
        )

    # -- when ----------------------------------------------------------------------------------------------------------

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self._last_prompt_tokens if prompt_tokens is None else prompt_tokens
        self._strikes = self._strikes.forgiven(tokens, self._budgets.threshold)
        return tokens >= self._budgets.threshold and not self._strikes.out

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        layout = lay_out(sound(messages))
        cut, _ = self._cut(layout, self._count_all(layout.messages))
        return bool(cut.folded)

    def preview(self, messages: Sequence[Message], current_tokens: int | None = None) -> Preview:
        """What `compress` would do with each message. Writes no summary and asks no model."""
        history = sound(messages)
        layout = lay_out(history)
        sizes, earlier = self._count_all(layout.messages), self._count_summary(layout)
        before = current_tokens if current_tokens is not None else sum(sizes) + earlier
        cut, tail = self._cut(layout, sizes)
        if not cut.folded:
            after, budget = dict(enumerate(sizes)), 0
        else:
            standing = [*self._head(layout, cut, sizes), *(layout.messages[place] for place in cut.kept), *tail]
            places = (*range(cut.head), *cut.kept, *range(cut.tail, len(sizes)))
            after = dict(zip(places, self._count_all(standing), strict=True))
            budget = self._summary_budget(layout, cut, sizes, standing) + self._count_wrapping()
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
        layout = lay_out(sound(messages))
        sizes = self._count_all(layout.messages)
        counted = sum(sizes) + (self._count_summary(layout) if layout.previous else 0)
        before = current_tokens if current_tokens is not None else counted
        if not force and self._strikes.forgiven(before, self._budgets.threshold).out:
            return Compaction.nothing(messages, before, self._why_paused(layout, sizes, before))
        cut, tail = self._cut(layout, sizes)
        if not cut.folded:
            return Compaction.nothing(messages, before, "Nothing lies between the head and the tail: nothing to fold.")
        head = self._head(layout, cut, sizes)
        kept = [layout.messages[place] for place in cut.kept]
        story = self._story(layout, cut, tail, focus_topic)
        standing = [*head, *kept, *tail]
        summary = await self._summarize(story, self._summary_budget(layout, cut, sizes, standing))
        text = wrap(summary.text, *self._covered(layout, cut), [layout.numbers[place] for place in cut.kept])
        result = assemble(head, text, [*kept, *tail])
        after = before - counted + sum(self._count_all(result))
        if after >= before:
            self._strikes = self._strikes.after(before, before, self._budgets.threshold)
            return Compaction.nothing(messages, before, "The result would not be smaller: nothing was changed.")
        self._strikes = self._strikes.after(before, after, self._budgets.threshold)
        return self._account(messages, layout, cut, result, summary, (before, after))

    def _cut(self, layout: Layout, sizes: Sequence[int]) -> tuple[Cut, list[Message]]:
        messages = layout.messages
        head = layout.position if layout.previous else head_end(messages, self._settings.protect_first_n)
        # In a short history of huge messages the last 20 may be all there is: at least half of it can be folded.
        protected = min(self._settings.protect_last_n, (len(messages) - head) // 2)
        start = max(head, tail_start(sizes, messages, self._budgets.tail, protected))
        later, tail = fit_tail(
            messages[start:], layout.numbers[start:], sizes[start:], self._budgets.tail, self._counter.message
        )
        return cut_at(messages, head, start + later), tail

    def _head(self, layout: Layout, cut: Cut, sizes: Sequence[int]) -> list[Message]:
        head = prune(layout.messages[: cut.head], layout.numbers[: cut.head])
        if sum(sizes[: cut.head]) > self._budgets.head:
            most_chars = self._budgets.head * 3 // max(1, cut.head)
            head = [
                cut_text(message, number, most_chars) if message["role"] not in ("system", "developer") else message
                for message, number in zip(head, layout.numbers, strict=False)
            ]
        for place, message in enumerate(head):
            if message["role"] in ("system", "developer"):
                head[place] = with_note(message, as_block=self._system_as_blocks)
                break
        return head

    def _story(self, layout: Layout, cut: Cut, tail: Sequence[Message], focus: str | None) -> Story:
        ledger, read = self._ledger_of(layout)
        first, last = self._covered(layout, cut)
        newest = next((n for n in range(len(layout.messages) - 1, -1, -1) if _is_ask(layout.messages[n])), None)
        changed = {
            layout.numbers[cut.tail + place]
            for place, message in enumerate(tail)
            if message is not layout.messages[cut.tail + place]
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
        content = sum(sizes[place] for place in cut.folded) + (self._count_summary(layout) if layout.previous else 0)
        return self._budgets.summary(content, sum(self._count_all(standing)) + self._count_wrapping())

    async def _write_builtin(self, story: Story, budget: int) -> Summary:
        return await summarize_builtin(story, budget, self._counter.text)

    # -- telling -------------------------------------------------------------------------------------------------------

    def _account(
        self,
        messages: Sequence[Message],
        layout: Layout,
        cut: Cut,
        result: Sequence[Message],
        summary: Summary,
        tokens: tuple[int, int],
    ) -> Compaction:
        stands = {id(message) for message in result}
        folded = {id(layout.messages[place]) for place in cut.folded}
        fates = tuple(_fate(message, stands, folded) for message in messages)
        places = [place for place, fate in enumerate(fates) if fate is Fate.SUMMARISED]
        times = self._strikes.compactions
        warnings = (*summary.warnings, *((_AGAIN.format(times=times),) if times > 1 or layout.previous else ()))
        return Compaction(
            messages=result,
            changed=True,
            tokens_before=tokens[0],
            tokens_after=tokens[1],
            summary=summary.text,
            fates=fates,
            replaced=(places[0], places[-1] + 1) if places else (0, 0),
            numbers=self._covered(layout, cut),
            written_by=summary.written_by,
            template=summary.template,
            unverified=summary.unverified,
            warnings=warnings,
        )

    def _why_paused(self, layout: Layout, sizes: Sequence[int], tokens: int) -> str:
        system = sum(size for message, size in zip(layout.messages, sizes, strict=True) if message["role"] == "system")
        unseen = max(0, tokens - sum(sizes))
        return (
            f"Automatic compaction is paused: the last {self._strikes.count} freed less than 10% or left the request "
            f"over the threshold of {self._budgets.threshold:,} tokens. The system prompt takes {system:,} tokens, "
            f"tools and what else is sent {unseen:,}. Make those smaller, compact by hand, or start afresh with /new."
        )

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

    def _count_summary(self, layout: Layout) -> int:
        return self._counter.text(layout.previous.text) + 200 if layout.previous else 0


def _is_ask(message: Message) -> bool:
    return message["role"] == "user" and bool(text_of(message).strip())


def _fate(message: Message, stands: set[int], folded: set[int]) -> Fate:
    if id(message) in stands:
        return Fate.KEPT
    return Fate.SUMMARISED if id(message) in folded else Fate.PRUNED
