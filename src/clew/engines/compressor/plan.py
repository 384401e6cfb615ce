"""Budgets, and the plan of a compaction: which messages stay at both ends, in which form, and what is folded.

Every budget rises with the window and none is larger than it.

`plan_compaction` serves `compress` and `preview`. It asks no model and changes nothing. A cut never parts a call from
its results. The newest user message always stays, word for word unless it alone is more than half of what may stay: of
a larger one both ends stay, and while it is the last message of a window they may be as long as that has room for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, NamedTuple

from clew.config import CompressionSettings
from clew.engines.base import CompactionItem, CompactionPreview, CompactionRegion, threshold_for
from clew.engines.compressor.assemble import items_of, with_note
from clew.engines.compressor.history import (
    UNNUMBERED,
    CountedHistory,
    MessageSizes,
    NumberedHistory,
    is_prompt,
    newest_visible,
    prompts_in,
)
from clew.engines.compressor.prune import (
    cut_text,
    cut_to_tokens,
    fit_tail,
    given_back,
    prune,
    sought_before,
    was_shortened,
)
from clew.errors import InvalidArgument
from clew.facts import Record
from clew.handoff import ReadMessage, SummaryInput, wrap
from clew.messages import Message, Repaired, safe_cut_at_or_before, text_of
from clew.redact import redact_messages

SMALLEST_WINDOW = 2_000
"""Smaller ones are served too, with a warning: a handoff has hardly any room in them."""
SMALLEST_TARGET = 400
SMALL_TARGET = 3_000
"""Below it the frame of a handoff is short, and no message at the start is kept for its place alone."""
MAX_STRIKES = 2
_SUMMARY_SHARE_OF_CONTENT = 0.20
_MIN_SUMMARY = 2_000
_FEWEST_TOKENS = 100
_LARGEST_SHARE_OF_CONTENT = 0.6
# What a summary with as much room as it likes takes of what it represents, at least.
_SUMMARY_USES_OF_CONTENT = 0.6
# And what it takes in any case, with the text around it.
_LEAST_FOR_SUMMARY = 450
_LEAST_SHARE_FOR_SUMMARY = 0.1
_SUMMARY_SHARE_OF_WINDOW = 0.05
_MAX_SUMMARY = 12_000
# Of a target that a caller names, the head may take this much before its long messages are cut.
_HEAD_SHARE = 0.35
_LARGE_TARGET = 12_000
"""From here on what was said and seen last is worth more, as it was, than more lines of what preceded."""
# Of the threshold, what is left beside the system prompt and the tools in most programs; and the least to count with.
_ORDINARY_FREE, _LEAST_FREE = 0.75, 0.1
_NEWEST_SHARE, _OVERSIZED_SHARE = 0.5, 0.85
"""Of the threshold, for a request whose newest results were shortened; and where one message alone is more than half of
the threshold. What is left is for the turns until the next compaction, and for a count that is too low."""
_MIN_FREED = 0.10
_GROWTH_THAT_RESETS = 0.10
_SPEAKERS = ("user", "assistant")


# -- budgets -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Budgets:
    """What the compressor may spend, in tokens."""

    window: int
    threshold: int
    tail: int
    head: int
    max_summary: int
    total: int | None = None
    """What the whole result may be, where the caller named it; the summary then takes what head and tail leave."""
    protected_share: float = 1.0
    """Of the newest messages that stay however long they are."""

    def beside(self, fixed: int) -> Budgets:
        """The budgets where system prompt and tools take `fixed`, which no compaction makes smaller.

        Where that is a large part of the threshold, what stays of the messages gets the same share of the rest, so that
        a conversation can grow again before the next compaction.
        """
        free = max(self.threshold - fixed, 0) / self.threshold
        if self.total is not None or free >= _ORDINARY_FREE:
            return self
        share = max(free, _LEAST_FREE)
        return replace(
            self,
            tail=int(self.tail * share),
            head=int(self.head * share),
            max_summary=max(int(self.max_summary * share), _FEWEST_TOKENS),
            protected_share=share,
        )

    def tail_of(self, content: int, head: int) -> int:
        """For the tail of so many tokens of messages behind a head that takes `head`.

        Where a target is a large part of a conversation, there is more room behind the head than a summary of the rest
        can use: the tail is so much longer. Of what is left of a large target, the newest messages get half.
        """
        if self.total is None:
            return self.tail
        room = self.total - head
        tail = self.tail * min(self.total, _LARGE_TARGET) // self.total + max(0, room - _LARGE_TARGET) // 2
        longest = room - max(_LEAST_FOR_SUMMARY, int(_LEAST_SHARE_FOR_SUMMARY * self.total))
        unused = (room - _SUMMARY_USES_OF_CONTENT * content) / (1 - _SUMMARY_USES_OF_CONTENT)
        return max(self.tail, tail, min(longest, int(unused)))

    def summary(self, content: int, fixed: int) -> int:
        """For a summary of so many tokens of content, when head, tail and system take `fixed`."""
        if self.total is not None:
            return max(self.total // 20, self.total - fixed)
        share = max(int(content * _SUMMARY_SHARE_OF_CONTENT), _MIN_SUMMARY)
        # Of little content a summary that fills the least budget would be no shorter than what it represents.
        return min(share, self.max_summary, max(_FEWEST_TOKENS, int(content * _LARGEST_SHARE_OF_CONTENT)))


def budgets_for(window: int, settings: CompressionSettings, max_output: int | None = None) -> Budgets:
    """The budgets of a window; room for the reply is reserved before the threshold is set."""
    threshold = threshold_for(window, settings.threshold, max_output)
    return Budgets(
        window=window,
        threshold=threshold,
        tail=int(threshold * settings.target_ratio),
        head=int(threshold * _HEAD_SHARE),
        max_summary=min(int(window * _SUMMARY_SHARE_OF_WINDOW), _MAX_SUMMARY),
    )


def budgets_for_target(target: int, settings: CompressionSettings) -> Budgets:
    """The budgets of a result that may have `target` tokens in all."""
    if target < SMALLEST_TARGET:
        raise InvalidArgument(f"target_tokens={target} is too small", remedy=f"use at least {SMALLEST_TARGET}")
    tail = int(target * settings.target_ratio) // (2 if target < SMALL_TARGET else 1)
    return Budgets(
        window=target, threshold=target, tail=tail, head=int(target * _HEAD_SHARE), max_summary=target, total=target
    )


@dataclass(frozen=True, slots=True)
class Strikes:
    """Compactions in a row that did not help, and how large the request was left by the last one."""

    count: int = 0
    left_at: int = 0
    compactions: int = 0

    def after_compaction(self, before: int, after: int, threshold: int) -> Strikes:
        """One more compaction: a strike when it freed too little, or left the request over the threshold.

        A request below the threshold was compacted on demand, so it is no strike.
        """
        if before < threshold:
            return replace(self, left_at=after, compactions=self.compactions + 1)
        helped = before - after >= _MIN_FREED * before and after < threshold
        return Strikes(0 if helped else self.count + 1, after, self.compactions + 1)

    def after_no_change(self, tokens: int, threshold: int) -> Strikes:
        """Nothing could be changed: a strike where something should have been."""
        return replace(self, count=self.count + 1, left_at=tokens) if tokens >= threshold else self

    def after_growth(self, tokens: int, threshold: int) -> Strikes:
        """No strikes where the request has grown since, so that there may be something to gain again."""
        if self.count and tokens - self.left_at >= _GROWTH_THAT_RESETS * threshold:
            return replace(self, count=0)
        return self

    @property
    def is_paused(self) -> bool:
        return self.count >= MAX_STRIKES

    def as_json(self) -> dict[str, int]:
        return {"strikes": self.count, "left_at": self.left_at, "compactions": self.compactions}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Strikes:
        figures = [values.get(key, 0) for key in ("strikes", "left_at", "compactions")]
        return cls(*(figure if type(figure) is int and figure > 0 else 0 for figure in figures))


def small_window_warnings(budgets: Budgets) -> list[str]:
    if budgets.total is not None or budgets.window >= SMALLEST_WINDOW:
        return []
    return [
        f"A window of {budgets.window:,} tokens leaves a handoff hardly any room; "
        f"from {SMALLEST_WINDOW:,} on it can say what matters."
    ]


def paused_warning(strikes: Strikes, threshold: int, system: int, beside: int) -> str:
    """`system` and `beside` (tools and what else is sent) are what no compaction makes smaller."""
    # A host may send the system prompt beside the messages: then its size is not known apart.
    apart = f"The system prompt takes {system:,} tokens, tools and what else is sent {beside:,}."
    return (
        f"Automatic compaction is paused: the last {strikes.count} freed less than 10% or left the request "
        f"over the threshold of {threshold:,} tokens. "
        f"{apart if system else f'System prompt, tools and what else is sent take {beside:,} tokens.'} "
        "Make those smaller, compact by hand, or begin a new conversation."
    )


# -- the plan ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What a plan depends on beside the messages."""

    budgets: Budgets
    compression: CompressionSettings
    sizes: MessageSizes
    note_as_block: bool = False
    """Whether the note behind the system prompt is a separate block."""

    @property
    def has_short_frame(self) -> bool:
        return self.budgets.total is not None and self.budgets.total < SMALL_TARGET

    @property
    def protected_head(self) -> int:
        """How many of the first messages stay; none of a small target, where a handoff says more in their room."""
        return 0 if self.has_short_frame else self.compression.protect_first_n


class HistoryCut(NamedTuple):
    """Which positions of a history a compaction keeps, and which it folds into the summary."""

    head: int
    """The head is everything before this position."""
    tail: int
    """The tail begins here."""
    kept: tuple[int, ...]
    """Positions between head and tail that are kept all the same, in order."""
    folded: Sequence[int]
    """The other positions between head and tail."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What `compress` will do, but for the text of the summary."""

    source: Sequence[Message]
    repaired: Repaired
    history: NumberedHistory
    sizes: Sequence[int]
    """Of the messages of `history`."""
    cut: HistoryCut
    """Empty where only pruning can help, or nothing needs to be done."""
    staying: Mapping[int, Message]
    """The positions that are not folded, each message in the form it will have."""
    tokens_before: int
    tokens_beside: int
    """What the request takes beside its messages."""
    summary_budget: int
    """For the text of the summary; 0 where there is none."""
    is_over: bool
    """Whether the request is at or over the threshold."""
    largest: int
    """What one message may take at most."""
    has_short_frame: bool = False
    """Whether the summary gets the short prefix, since its budget is small."""
    covers_below: int = 0
    """The summary represents at least the messages below this number, whether they stay or not."""

    @property
    def items(self) -> tuple[CompactionItem, ...]:
        """The items of the compaction, its summary without text."""
        return items_of(self.source, self.repaired, self.history, self.staying, self.cut.head, self.cut.folded)

    @property
    def regions(self) -> list[CompactionRegion]:
        """The region of each position of `history`."""
        cut, region = self.cut, CompactionRegion
        middle = [region.FOLDED] * (cut.tail - cut.head)
        for position in cut.kept:
            middle[position - cut.head] = region.KEPT
        return [region.HEAD] * cut.head + middle + [region.TAIL] * (len(self.sizes) - cut.tail)

    @property
    def covered(self) -> tuple[int, int]:
        """The numbers that the summary represents, an earlier summary's included: from, to (not included)."""
        history, cut = self.history, self.cut
        last = history.numbers[cut.tail] if cut.tail < len(history.numbers) else history.next_number
        # What a repair left out between the head and what is folded is not shown any more, either.
        behind_head = history.numbers[cut.head - 1] + 1 if cut.head else 0
        return (history.earlier.first if history.earlier else behind_head), max(last, self.covers_below)

    def wrapped(self, text: str, hint: str = "") -> str:
        """A summary's text as it is in the conversation; `hint` says how the model can open what it covers."""
        history, cut = self.history, self.cut
        kept = [history.numbers[position] for position in cut.kept]
        following, leading = history.following(cut.tail), history.leading(cut.head)
        return wrap(text, *self.covered, kept, following, leading, is_short=self.has_short_frame, hint=hint)

    @property
    def cut_newest(self) -> dict[int, tuple[Message, Message]]:
        """Newest messages so large that they were shortened: each as received and as it stays, by number."""
        messages, numbers = self.history.messages, self.history.numbers
        newest = {*newest_visible(messages), *_last_group(messages)}
        huge = [at for at in sorted(newest) if self.sizes[at] > self.largest and at in self.staying]
        return {numbers[at]: (messages[at], self.staying[at]) for at in huge if self.staying[at] is not messages[at]}

    @property
    def tail_messages(self) -> list[Message]:
        """The messages of the tail, in the form they will have."""
        return [message for position, message in self.staying.items() if position >= self.cut.tail]

    @property
    def prompt_tokens(self) -> int:
        """What the system prompts take."""
        return sum(size for message, size in zip(self.history.messages, self.sizes, strict=True) if is_prompt(message))


def plan_compaction(
    settings: PlanSettings, read: CountedHistory, current_tokens: int | None = None, *, force: bool = False
) -> CompactionPlan:
    """The plan for these messages; with `force`, also where they are below the threshold and fit the tail."""
    history, sizes = read.numbered, read.sizes
    before = read.tokens if current_tokens is None else current_tokens
    is_over = before >= settings.budgets.threshold
    prompts = sum(sizes[position] for position in read.prompts)
    settings = replace(settings, budgets=settings.budgets.beside(before - read.tokens + prompts))
    cut, tail = choose_cut(settings, read)
    if is_over and not cut.folded and settings.budgets.total is not None:
        # All of it would fit the longer tail of a large target: the first group behind the head is folded.
        second = cut.head + 1
        while second < len(sizes) and safe_cut_at_or_before(history.messages, second) < second:
            second += 1
        longer = choose_cut(settings, read, max(settings.budgets.tail, sum(sizes[second:])))
        cut, tail = longer if longer[0].folded else (cut, tail)
    if force and not cut.folded and (history.earlier is None or is_over):
        # Who insists gets a short conversation shorter, by the same measure; but one that was just compacted stays.
        share = int(settings.compression.target_ratio * sum(sizes))
        cut, tail = choose_cut(settings, read, min(settings.budgets.tail, share))
    is_needed = bool(cut.folded) or is_over
    staying: Mapping[int, Message] = dict(enumerate(history.messages))
    if is_needed:
        staying = _staying(settings, history, cut, tail)
    if is_needed and not cut.folded and settings.budgets.total is not None:
        staying = _filled_up(settings, history, staying, settings.budgets.total)
    summary = _summary_budget(settings, history, cut, sizes, staying)
    if is_needed and settings.budgets.total is None:
        staying = _with_longer_newest(settings, read, staying, before - read.tokens + summary)
    return CompactionPlan(
        source=read.source,
        repaired=read.repaired,
        history=history,
        sizes=sizes,
        cut=cut,
        staying=staying,
        tokens_before=before,
        tokens_beside=before - read.tokens,
        summary_budget=summary,
        is_over=is_over,
        largest=settings.budgets.threshold // 2,
        has_short_frame=settings.has_short_frame,
    )


def with_longer_tail(
    settings: PlanSettings, plan: CompactionPlan, room: int, *, begins_earlier: bool = False
) -> CompactionPlan:
    """The same plan with `room` more for its tail: what was shortened in it is given back, the newest first.

    What is left then goes to what was shortened in the head, where there is a target, and to messages so large that
    only both ends stay. `begins_earlier`: the tail gets messages that were to be folded, the newest of them.
    """
    longer = _with_longer_tail(settings, plan, room, begins_earlier=begins_earlier)
    if settings.budgets.total is None:
        return longer
    most = settings.sizes.total(list(plan.staying.values())) + room
    return replace(longer, staying=_filled_up(settings, plan.history, longer.staying, most))


def _with_longer_tail(
    settings: PlanSettings, plan: CompactionPlan, room: int, *, begins_earlier: bool
) -> CompactionPlan:
    cut, messages, count = plan.cut, plan.history.messages, settings.sizes.message
    references = plan.history.references
    budget = settings.sizes.total(plan.tail_messages) + room
    fewest = len(messages) - cut.tail + 1
    start = max(cut.head, tail_start(plan.sizes, messages, budget, fewest)) if begins_earlier else cut.tail
    later, tail = fit_tail(messages[start:], references[start:], plan.sizes[start:], budget, count)
    other = cut_at(messages, cut.head, start + later, prompts_in(messages))
    if other.tail > cut.tail or bool(other.folded) != bool(cut.folded):
        return plan
    # Those that a person reads have bounds of their own.
    spoken = {at for at in (*newest_visible(messages), *_last_group(messages)) if messages[at]["role"] != "tool"}
    longer = {at: message for at, message in enumerate(tail, other.tail) if at not in spoken or at < cut.tail}
    room = budget - settings.sizes.total(tail)
    staying = {at: message for at, message in plan.staying.items() if at < cut.head or at in other.kept or at in spoken}
    for at in reversed(range(cut.head if settings.budgets.total else 0)):
        if staying[at] is not messages[at] and messages[at]["role"] == "tool":
            more = given_back(
                messages[at], staying[at], references[at], room, 2 * room, count, sought_before(messages, at)
            )
            room -= count(more) - count(staying[at])
            staying[at] = more
    staying = dict(sorted({**staying, **longer}.items()))
    return replace(plan, cut=other, staying=staying)


def summary_input(plan: CompactionPlan, record: Record, read: ReadMessage, first: int) -> SummaryInput:
    """What a summary of the plan is written from, of the messages from `first` on; the record has later ones, too."""
    history, cut = plan.history, plan.cut
    positions = range(len(history.messages) - 1, -1, -1)
    newest = next((position for position in positions if _is_request(history.messages[position])), None)
    # Of a head that preceded an earlier summary the originals may no longer be here.
    readable = 0 if history.earlier is None else cut.tail
    shortened = {
        history.numbers[position]: message
        for position, message in plan.staying.items()
        if position >= readable and message is not history.messages[position] and not is_prompt(message)
    }
    whole = {
        position
        for position, message in plan.staying.items()
        if message is history.messages[position] and not is_prompt(message)
        # It may have been shortened before.
        if history.earlier is None or not was_shortened(message, history.numbers[position])
    }
    last = plan.covered[1]
    return SummaryInput(
        record,
        read,
        first,
        last,
        task=text_of(*redact_messages([history.messages[newest]])) if newest is not None else "",
        task_number=history.numbers[newest] if newest is not None else None,
        shortened=shortened,
        kept=frozenset(history.numbers[position] for position in whole.intersection(cut.kept)),
        above=frozenset(history.numbers[position] for position in whole if position < cut.head),
        is_redacted=True,
    )


def _is_request(message: Message) -> bool:
    return message["role"] == "user" and bool(text_of(message).strip())


def _summary_budget(
    settings: PlanSettings,
    history: NumberedHistory,
    cut: HistoryCut,
    sizes: Sequence[int],
    staying: Mapping[int, Message],
) -> int:
    if not cut.folded:
        return 0
    earlier = settings.sizes.text(history.earlier.text) if history.earlier else 0
    content = sum(sizes[position] for position in cut.folded) + earlier
    wrapping = wrapping_tokens(settings.sizes, history.following(cut.tail), is_short=settings.has_short_frame)
    fixed = settings.sizes.total(list(staying.values())) + wrapping
    return settings.budgets.summary(content, fixed)


def wrapping_tokens(sizes: MessageSizes, following: Sequence[int] = (), *, is_short: bool = False) -> int:
    """What the prefix and the end of a summary take, and the message that it is."""
    return sizes.text(wrap("", 0, 1, (1, 2), following, is_short=is_short)) + 10


# -- where to cut ------------------------------------------------------------------------------------------------------


def choose_cut(
    settings: PlanSettings, read: CountedHistory, tail_tokens: int | None = None
) -> tuple[HistoryCut, list[Message]]:
    """The cut, and the messages of its tail in the form they will have."""
    history, sizes = read.numbered, read.sizes
    messages, protected = history.messages, settings.compression.protect_last_n
    head = history.position if history.earlier else _head_end(messages, settings.protected_head)
    if tail_tokens is None:
        before = settings.sizes.total(prune(messages[:head], history.numbers[:head], (), history.references[:head]))
        # Told again, an earlier handoff takes about half of what it took.
        before += settings.sizes.text(history.earlier.text) // 2 if history.earlier else 0
        tail_tokens = settings.budgets.tail_of(sum(sizes[head:]), before)
    # In a short history of huge messages the last 20 may be all there is: at least half of it can be folded.
    protected = min(int(protected * settings.budgets.protected_share), (len(messages) - head) // 2)
    start = max(head, tail_start(sizes, messages, tail_tokens, protected))
    later, tail = fit_tail(
        messages[start:], history.references[start:], sizes[start:], tail_tokens, settings.sizes.message
    )
    return cut_at(messages, head, start + later, read.prompts), tail


def cut_at(messages: Sequence[Message], head: int, tail: int, prompts: Sequence[int]) -> HistoryCut:
    """The cut with that head and tail, and what must be kept between them. `prompts` are where system messages are."""
    head, tail = min(head, tail), max(head, tail)
    must_stay = {*newest_visible(messages), *_later_prompts(messages, head, tail, prompts)}
    kept = tuple(sorted(position for position in must_stay if head <= position < tail))
    return HistoryCut(head, tail, kept, [position for position in range(head, tail) if position not in must_stay])


def _head_end(messages: Sequence[Message], protected: int) -> int:
    """The last group is the tail's, also where there is hardly more than that."""
    return min(head_end(messages, protected), safe_cut_at_or_before(messages, len(messages) - 1))


def head_end(messages: Sequence[Message], protected: int) -> int:
    """Where the head ends: behind the system prompt and the first messages, and before a group that reaches further."""
    leading = next((position for position, message in enumerate(messages) if not is_prompt(message)), len(messages))
    return max(leading, safe_cut_at_or_before(messages, min(len(messages), leading + protected)))


def tail_start(sizes: Sequence[int], messages: Sequence[Message], tokens: int, protected: int) -> int:
    """Where the tail begins: as far back as the budget reaches, and before the last `protected` messages."""
    start, used = len(messages), 0
    while start > 0 and used + sizes[start - 1] <= tokens:
        start -= 1
        used += sizes[start]
    return safe_cut_at_or_before(messages, min(start, max(0, len(messages) - max(1, protected))))


def _last_group(messages: Sequence[Message]) -> range:
    return range(safe_cut_at_or_before(messages, len(messages) - 1) if messages else 0, len(messages))


def _later_prompts(messages: Sequence[Message], head: int, tail: int, prompts: Sequence[int]) -> list[int]:
    """System messages in the middle: each stays, once, since no handoff has their authority."""
    seen = {text_of(messages[position]) for position in prompts if not head <= position < tail}
    later = []
    for position in reversed(prompts):
        if head <= position < tail and (text := text_of(messages[position])) not in seen:
            seen.add(text)
            later.append(position)
    return later


# -- what stays, and in which form -------------------------------------------------------------------------------------


def _staying(
    settings: PlanSettings, history: NumberedHistory, cut: HistoryCut, tail: Sequence[Message]
) -> dict[int, Message]:
    """What stays, by position: pruned where it is long, and with the note behind the system prompt."""
    at_the_end = dict(enumerate(tail, cut.tail))
    later = [(history.numbers[position], message) for position, message in at_the_end.items()]
    newest = _newest_in_bounds(settings, history, at_the_end)
    kept = {position: history.messages[position] for position in cut.kept} | at_the_end
    kept |= {position: message for position, message in newest.items() if position in kept}
    taken = settings.sizes.total([*kept.values(), *(newest[position] for position in newest if position < cut.head)])
    head = _head(settings, history, cut.head, newest, later, settings.budgets.threshold - taken)
    prompt = next((position for position, message in enumerate(head) if is_prompt(message)), None)
    if prompt is not None and (cut.folded or history.earlier) and not settings.has_short_frame:
        head[prompt] = with_note(head[prompt], as_block=settings.note_as_block)
    return dict(enumerate(head)) | kept


def _newest_in_bounds(
    settings: PlanSettings, history: NumberedHistory, tail: Mapping[int, Message]
) -> dict[int, Message]:
    """The newest request and reply and what a person or the agent said last, by position.

    They stay word for word, but none takes more than half of the room: of a larger one both ends stay.
    """
    messages, count, room = history.messages, settings.sizes.message, settings.budgets.threshold
    spoken = (at for at in _last_group(messages) if messages[at]["role"] in _SPEAKERS)
    newest: dict[int, Message] = {}
    # The request before the reply: it is the task.
    for position in sorted({*newest_visible(messages), *spoken}, key=lambda at: messages[at]["role"] != "user"):
        message = tail.get(position, messages[position])
        # The handoff repeats what matters of a long request, and needs room in a small target.
        share = 3 if settings.has_short_frame and message["role"] == "user" else 2
        newest[position] = cut_to_tokens(
            message, history.references[position], room // share, count, sought_before(history.messages, position)
        )
        room -= count(newest[position])
    return newest


def _filled_up(
    settings: PlanSettings, history: NumberedHistory, staying: Mapping[int, Message], most: int
) -> Mapping[int, Message]:
    """What stays, in at most so many tokens, with longer ends of what was said and cut: the newest request first."""
    messages, count = history.messages, settings.sizes.message
    room, filled = most - settings.sizes.total(list(staying.values())), dict(staying)
    cut = [at for at, message in staying.items() if message is not messages[at] and message["role"] in _SPEAKERS]
    newest = newest_visible(messages)
    for at in sorted(cut, key=lambda at: (at not in newest, messages[at]["role"] != "user", -at)):
        size = count(filled[at])
        longer = cut_to_tokens(messages[at], history.references[at], size + room, count, sought_before(messages, at))
        if size < (whole := count(longer)) <= size + room:
            filled[at] = longer
            room -= whole - size
    return filled


def _with_longer_newest(
    settings: PlanSettings, read: CountedHistory, staying: Mapping[int, Message], beside: int
) -> Mapping[int, Message]:
    """What stays, with longer ends of what the model is about to read: what is free of the window is theirs.

    `beside` is what the request takes beside what stays.
    """
    history, count, threshold = read.numbered, settings.sizes.message, settings.budgets.threshold
    messages = history.messages
    newest = [at for at in reversed(_last_group(messages)) if messages[at]["role"] in ("tool", "user")]
    is_oversized = any(read.sizes[at] > threshold // 2 for at in newest)
    share = _OVERSIZED_SHARE if is_oversized else _NEWEST_SHARE
    room = int(share * threshold) - beside - settings.sizes.total(list(staying.values()))
    filled = dict(staying)
    for at in newest:
        if at not in filled or filled[at] is messages[at]:
            continue
        size = count(filled[at])
        longer = cut_to_tokens(messages[at], history.references[at], size + room, count, sought_before(messages, at))
        if size < (whole := count(longer)) <= size + room:
            filled[at] = longer
            room -= whole - size
    return filled


def _head(
    settings: PlanSettings,
    history: NumberedHistory,
    end: int,
    newest: Mapping[int, Message],
    later: Sequence[tuple[int, Message]],
    room: int,
) -> list[Message]:
    """The messages before `end`; the summary gets at least as much of the `room` as they do."""
    messages, references = history.messages[:end], history.references[:end]
    head = prune(messages, history.numbers[:end], later, references)
    prompts = {position: message for position, message in enumerate(messages) if is_prompt(message)}
    # The newest request is the task, wherever it is.
    untouched = prompts | {position: message for position, message in newest.items() if position < end}
    rest = [position for position in range(end) if position not in untouched]
    for position, message in untouched.items():
        head[position] = message
    budget = min(settings.budgets.head, (room - settings.sizes.total(list(prompts.values()))) // 2)
    if settings.sizes.total([head[position] for position in rest]) > budget:
        for position in rest:
            head[position] = cut_text(head[position], references[position], budget * 3 // len(rest))
    return head


# -- the plan for people -----------------------------------------------------------------------------------------------


def preview_of(plan: CompactionPlan, sizes: MessageSizes) -> CompactionPreview:
    """What the plan does with each message of its input."""
    history, indexes = plan.history, plan.repaired.indexes
    after = dict(zip(plan.staying, sizes.each(list(plan.staying.values())), strict=True))
    earlier = sizes.total(plan.repaired.messages) - sum(plan.sizes)
    wrapping = wrapping_tokens(sizes, history.following(plan.cut.tail), is_short=plan.has_short_frame)
    summary = plan.summary_budget + wrapping if plan.cut.folded else 0
    before = sizes.each(plan.source)
    # What was removed has its number in the history, too; behind an earlier handoff it is not known.
    prompts = len(plan.source) - history.next_number
    rows: list[tuple[CompactionRegion, int | None, int]] = [
        (CompactionRegion.REMOVED, None if history.earlier else index - prompts, 0) for index in range(len(plan.source))
    ]
    own = [index for at, index in enumerate(indexes) if not history.has_handoff or at != history.position]
    called = [None if number == UNNUMBERED else number for number in history.numbers]
    planned = zip(plan.regions, called, map(after.get, range(len(own)), repeat(0)), strict=False)
    # From the end, so that a message counts and not the stub that was put in behind it.
    for index, row in zip(reversed(own), reversed(list(planned)), strict=True):
        rows[index] = row
    if history.has_handoff:
        rows[indexes[history.position]] = (CompactionRegion.HANDOFF, None, 0 if plan.cut.folded else earlier)
    elif history.earlier:
        # What was merged into a message is no part of it.
        before[indexes[history.position]] = plan.sizes[history.position]
    regions, numbers, sizes_after = zip(*rows, strict=True) if rows else ((), (), ())
    total = plan.tokens_beside + sum(after.values()) + (summary if plan.cut.folded else earlier)
    return CompactionPreview(
        plan.source,
        plan.items,
        regions,
        numbers,
        tuple(before),
        sizes_after,
        plan.tokens_before,
        min(plan.tokens_before, total),
        summary,
    )
