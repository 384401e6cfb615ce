"""The effect of a compaction, message by message and in sums: the values that the terminal and the page draw.

Combines the preview of a compaction (sizes and numbers of its messages) with its result (the fate of each).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

from clew.engines import (
    Added,
    Changed,
    Compaction,
    CompactionPreview,
    CompactionRegion,
    Fate,
    Node,
    Summarized,
    nodes_in_map,
)
from clew.handoff import unwrap
from clew.library import Compressed
from clew.messages import Message, calls_of, name_of_call
from clew.redact import redact_messages, redact_text
from clew.tokens import counter_for
from clew.usage import CanonicalUsage, cost_of, price_of

CountMessages: TypeAlias = Callable[[Sequence[Message]], Sequence[int]]


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """One message of the input, and its fate."""

    message: Message
    number: int | None
    """Its number in the handoff (m12); None for a leading system message and an earlier handoff."""
    region: CompactionRegion
    fate: Fate
    tool: str
    """On a result: the tool that gave it. On an assistant message: the tools it called."""
    tokens: int
    tokens_after: int
    message_after: Message | None = None
    """The message in the result; None if it is not there."""

    @property
    def role(self) -> str:
        return self.message["role"]

    @property
    def is_prompt(self) -> bool:
        """Whether it is a leading system message, which is no part of the history."""
        return self.number is None and self.role in ("system", "developer")


@dataclass(frozen=True, slots=True)
class RegionGroup:
    """Messages in a row that are in the same region."""

    region: CompactionRegion
    outcomes: tuple[MessageOutcome, ...]
    tokens: int
    tokens_after: int

    @property
    def shortened(self) -> int:
        """How many of the messages were shortened."""
        return sum(outcome.fate is Fate.PRUNED for outcome in self.outcomes)

    @property
    def has_prompt(self) -> bool:
        """Whether a system prompt that is no part of the history is among them."""
        return any(outcome.is_prompt for outcome in self.outcomes)

    @property
    def numbers(self) -> list[int]:
        return [outcome.number for outcome in self.outcomes if outcome.number is not None]


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A part of a request (`system`, `tools`, `handoff`, `map` or a region) and its size."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class RequestCost:
    """What the prompt of one call costs, in US dollars, when nothing of it is cached."""

    before: float
    after: float
    checked: str
    """The day the price was looked up."""


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """All values that are shown of a compaction."""

    source: str
    origin: str
    """Which program wrote the file, or the dialect of its messages."""
    model: str | None
    outcomes: tuple[MessageOutcome, ...]
    parts_before: tuple[RequestPart, ...]
    parts_after: tuple[RequestPart, ...]
    result: Compressed
    cost: RequestCost | None
    by_other_engine: bool = False
    """Whether another engine than the compressor made the result."""

    @property
    def removes_by_choice(self) -> bool:
        """Whether the engine chose what to remove. Clew's own engines remove only what no provider would take."""
        return self.by_other_engine and not self.has_map

    @property
    def groups(self) -> tuple[RegionGroup, ...]:
        return group_by_region(self.outcomes)

    @property
    def handoff_tokens(self) -> int:
        """What replaces the folded messages: a handoff, or a map."""
        return sum(part.tokens for part in self.parts_after if part.name in ("handoff", "map"))

    @property
    def has_map(self) -> bool:
        """Whether the engine made a map in place of a handoff."""
        return bool(self.result.compaction.shown_nodes)

    @property
    def nodes(self) -> dict[str, Node]:
        """Every node of the map by its id; of one that was there before, what the map itself says."""
        if not self.has_map:
            return {}
        count = counter_for(self.model).text
        read = nodes_in_map(self.result.compaction.summary or "")
        known = {node.id: replace(node, tokens=count(node.text)) for node in read}
        return known | {node.id: node for node in self.result.compaction.nodes}

    @property
    def shown_nodes(self) -> list[Node]:
        """The nodes in the request, oldest first."""
        nodes = self.nodes
        return [nodes[id] for id in self.result.compaction.shown_nodes or () if id in nodes]

    @property
    def folded(self) -> list[MessageOutcome]:
        """The messages that are only in the handoff now, without earlier handoffs."""
        return [each for each in self.outcomes if each.fate is Fate.SUMMARISED and each.number is not None]

    @property
    def saved(self) -> str:
        """How much smaller the request is, in percent; never 100%, since something always stays."""
        before, after = self.result.tokens_before, self.result.tokens_after
        percent = 100 * (before - after) / max(1, before)
        return f"{min(percent, 99.9):.1f}%" if percent >= 99.5 else f"{percent:.0f}%"


def build_report(
    source: str,
    origin: str,
    model: str | None,
    preview: CompactionPreview,
    result: Compressed,
    *,
    is_previewed: bool = True,
) -> CompactionReport:
    """The report of a compaction; `preview` is that of the same conversation with the same settings.

    Where another engine than that of the preview made the result (`is_previewed` is False), only the sizes and numbers
    of the preview count.
    """
    outcomes = _outcomes_of(preview, result, model, is_previewed=is_previewed)
    kind = "map" if result.compaction.shown_nodes else "handoff"
    tools = counter_for(model).tools(result.conversation.tools)
    earlier = merged_handoff_tokens(preview.source, model)
    framing = result.tokens_before - tools - earlier - sum(each.tokens for each in outcomes)
    handoff = result.tokens_after - tools - framing - sum(each.tokens_after for each in outcomes)
    return CompactionReport(
        source=source,
        origin=origin,
        model=model,
        outcomes=outcomes,
        parts_before=request_parts(outcomes, tools, ("handoff", earlier), [each.tokens for each in outcomes]),
        parts_after=request_parts(outcomes, tools, (kind, max(0, handoff)), [each.tokens_after for each in outcomes]),
        result=result,
        cost=_request_cost(model, result.tokens_before, result.tokens_after),
        by_other_engine=not is_previewed,
    )


def redacted_report(report: CompactionReport) -> CompactionReport:
    """The same report without the secrets of the conversation."""
    compaction = report.result.compaction
    after = [outcome.message_after for outcome in report.outcomes if outcome.message_after is not None]
    items = [item for item in compaction.items if isinstance(item, (Changed, Added, Summarized))]
    # All at once, which is faster, and gives the same object for what has no secret.
    found = [*compaction.source, *(outcome.message for outcome in report.outcomes), *after]
    found += [item.message for item in items]
    clean = {id(old): new for old, new in zip(found, redact_messages(found), strict=True)}
    outcomes = (
        replace(
            outcome,
            message=clean[id(outcome.message)],
            message_after=clean[id(outcome.message_after)] if outcome.message_after is not None else None,
        )
        for outcome in report.outcomes
    )
    redacted = replace(
        compaction,
        source=[clean[id(message)] for message in compaction.source],
        items=tuple(
            replace(item, message=clean[id(item.message)]) if isinstance(item, (Changed, Added, Summarized)) else item
            for item in compaction.items
        ),
        handoff=handoff.mapped(redact_text) if (handoff := compaction.read_handoff()) else None,
        nodes=tuple(replace(node, text=redact_text(node.text)) for node in compaction.nodes),
    )
    warnings = tuple(map(redact_text, report.result.warnings))
    return replace(
        report, outcomes=tuple(outcomes), result=replace(report.result, compaction=redacted, warnings=warnings)
    )


def previewed_outcomes(preview: CompactionPreview) -> tuple[MessageOutcome, ...]:
    """The outcome that a preview expects for each message."""
    sizes, sizes_after = preview.sizes, preview.sizes_after
    fates = list(map(_previewed_fate, preview.regions, sizes, sizes_after))
    after: list[Message | None] = [None] * len(fates)
    return _outcomes(preview.source, preview.numbers, preview.regions, fates, (sizes, sizes_after), after)


def compaction_outcomes(
    compaction: Compaction, numbers: Sequence[int | None], count: CountMessages
) -> tuple[MessageOutcome, ...]:
    """The outcome of each message of a compaction; `numbers` are those of its input."""
    source, after = compaction.source, compaction.messages_after
    counted = iter(count([message for message in after if message is not None]))
    sizes = count(source), [0 if message is None else next(counted) for message in after]
    return _outcomes(source, numbers, compaction.regions, compaction.fates, sizes, after)


def summary_tokens(compaction: Compaction, count: CountMessages) -> int:
    """The size of the summaries of a compaction, without messages that they were merged with."""
    merged = [item.merged_with.index for item in compaction.summaries if item.merged_with is not None]
    beside = [message for index in merged if (message := compaction.messages_after[index]) is not None]
    return sum(count([item.message for item in compaction.summaries])) - sum(count(beside))


def group_by_region(outcomes: Iterable[MessageOutcome]) -> tuple[RegionGroup, ...]:
    """Neighbours of the same region together, in order."""
    rows = ((region, tuple(row)) for region, row in groupby(outcomes, key=lambda each: each.region))
    return tuple(
        RegionGroup(region, row, sum(each.tokens for each in row), sum(each.tokens_after for each in row))
        for region, row in rows
    )


def merged_handoff_tokens(messages: Sequence[Message], model: str | None) -> int:
    """The size of earlier handoffs that are merged with a message, and so belong to no outcome."""
    counter = counter_for(model)
    wrapped = ((each, unwrap(each)) for each in messages if each["role"] in ("user", "assistant"))
    return sum(
        counter.message(message) - counter.message(found.message)
        for message, found in wrapped
        if found is not None and found.message is not None
    )


def _outcomes_of(
    preview: CompactionPreview, result: Compressed, model: str | None, *, is_previewed: bool
) -> tuple[MessageOutcome, ...]:
    """The outcome of each message. Numbers, and sizes of unchanged messages, are those of the preview.

    A compaction to a target may keep more than was previewed, so the other sizes are counted.
    """
    done, counter = result.compaction, counter_for(model)

    def size_after(index: int) -> int:
        message = done.messages_after[index]
        if message is None:
            return 0
        return preview.sizes[index] if message is preview.source[index] else counter.message(message)

    # Without a summary, head and tail are known only from the preview.
    regions: Sequence[CompactionRegion] = done.regions
    if is_previewed and not done.summaries:
        folded = CompactionRegion.FOLDED
        regions = [CompactionRegion.KEPT if region is folded else region for region in preview.regions]
    sizes = preview.sizes, list(map(size_after, range(len(preview.source))))
    return _outcomes(preview.source, preview.numbers, regions, done.fates, sizes, done.messages_after)


def _outcomes(
    source: Sequence[Message],
    numbers: Sequence[int | None],
    regions: Sequence[CompactionRegion],
    fates: Sequence[Fate],
    sizes: tuple[Sequence[int], Sequence[int]],
    after: Sequence[Message | None],
) -> tuple[MessageOutcome, ...]:
    rows = zip(source, numbers, regions, fates, _tool_names(source), *sizes, after, strict=True)
    return tuple(MessageOutcome(*row) for row in rows)


def _previewed_fate(region: CompactionRegion, size: int, after: int) -> Fate:
    if region in (CompactionRegion.FOLDED, CompactionRegion.HANDOFF):
        return Fate.SUMMARISED
    if region is CompactionRegion.REMOVED:
        return Fate.REMOVED
    return Fate.PRUNED if after < size else Fate.KEPT


def _tool_names(messages: Sequence[Message]) -> list[str]:
    """The tools that each message called, or whose result it is."""
    by_id: dict[str, str] = {}
    names = []
    for message in messages:
        calls = calls_of(message)
        # Ids may be missing or of any type: the report shows the input before it was repaired.
        by_id.update((str(call.get("id")), name_of_call(call)) for call in calls)
        called = ", ".join(dict.fromkeys(map(name_of_call, calls)))
        names.append(by_id.get(str(message.get("tool_call_id")), "") if message.get("role") == "tool" else called)
    return names


def request_parts(
    outcomes: Sequence[MessageOutcome], tools: int, handoff: tuple[str, int], sizes: Sequence[int]
) -> tuple[RequestPart, ...]:
    """The parts of a request with these messages; `handoff` is what replaces the folded ones, and its tokens."""
    totals = {"system": 0, "tools": tools, "head": 0, handoff[0]: handoff[1], "folded": 0, "kept": 0, "tail": 0}
    for outcome, size in zip(outcomes, sizes, strict=True):
        is_system = outcome.region is CompactionRegion.HEAD and outcome.role in ("system", "developer")
        name = "system" if is_system else str(outcome.region)
        totals[name] = totals.get(name, 0) + size
    return tuple(RequestPart(name, tokens) for name, tokens in totals.items() if tokens > 0)


def _request_cost(model: str | None, before: int, after: int) -> RequestCost | None:
    price = price_of(model, prompt_tokens=before) if model else None
    if model is None or price is None:
        return None
    costs = [cost_of(CanonicalUsage(input_tokens=tokens), model) for tokens in (before, after)]
    if costs[0] is None or costs[1] is None:
        return None
    return RequestCost(float(costs[0].total), float(costs[1].total), price.checked)
