"""The account of one compaction, for people: every message with what became of it, and what takes how much.

Puts together what the engine said before (`Preview`) and after (`Compressed`). Knows no terminal and no HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from clew.engines import Fate, Place, Preview
from clew.library import Compressed
from clew.messages import Message, calls_of, name_of_call
from clew.summaries import unwrap
from clew.tokens import counter_for
from clew.usage import CanonicalUsage, cost_of, price_of


@dataclass(frozen=True, slots=True)
class Cell:
    """One message, and what became of it."""

    message: Message
    number: int | None
    """What the handoff calls it (m12)."""
    place: Place
    fate: Fate
    tool: str
    """On a result: the tool that gave it. On an assistant message: the tools it called."""
    tokens: int
    tokens_after: int
    now: Message | None
    """How it stands in the result, where it does."""

    @property
    def role(self) -> str:
        return self.message["role"]


@dataclass(frozen=True, slots=True)
class Share:
    """What one part of a request takes."""

    part: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages in a row that share a place."""

    place: Place
    cells: tuple[Cell, ...]

    @property
    def tokens(self) -> int:
        return sum(cell.tokens for cell in self.cells)

    @property
    def tokens_after(self) -> int:
        return sum(cell.tokens_after for cell in self.cells)

    @property
    def shortened(self) -> int:
        return sum(cell.fate is Fate.PRUNED for cell in self.cells)


@dataclass(frozen=True, slots=True)
class CostPerRequest:
    """What the prompt of one call costs, in US dollars, when nothing of it is cached."""

    before: float
    after: float
    checked: str
    """The day the price was looked up."""


@dataclass(frozen=True, slots=True)
class Account:
    """All that there is to tell about a compaction."""

    source: str
    origin: str
    """Who wrote the file, or the wire its messages are of."""
    model: str | None
    cells: tuple[Cell, ...]
    before: tuple[Share, ...]
    after: tuple[Share, ...]
    done: Compressed
    cost: CostPerRequest | None

    @property
    def stretches(self) -> tuple[Stretch, ...]:
        return stretches_of(self.cells)

    @property
    def handoff_tokens(self) -> int:
        return sum(share.tokens for share in self.after if share.part == "handoff")

    @property
    def saved(self) -> str:
        """How much smaller the request is, in percent; never 100%, since something always stays."""
        done = self.done
        percent = 100 * (done.tokens_before - done.tokens_after) / max(1, done.tokens_before)
        return f"{min(percent, 99.9):.1f}%" if percent >= 99.5 else f"{percent:.0f}%"


def account_of(source: str, origin: str, model: str | None, preview: Preview, done: Compressed) -> Account:
    """The account of a compaction that was foreseen by `preview`."""
    cells = _cells(preview, done)
    tools = counter_for(model).tools(done.conversation.tools)
    standing = sum(cell.tokens_after for cell in cells)
    earlier = merged_handoff(preview, model)
    framing = done.tokens_before - tools - earlier - sum(cell.tokens for cell in cells)
    handoff = done.tokens_after - tools - standing - framing
    return Account(
        source=source,
        origin=origin,
        model=model,
        cells=cells,
        before=_shares(cells, tools, earlier, [cell.tokens for cell in cells]),
        after=_shares(cells, tools, max(0, handoff), [cell.tokens_after for cell in cells]),
        done=done,
        cost=_cost(model, done.tokens_before, done.tokens_after),
    )


def merged_handoff(preview: Preview, model: str | None) -> int:
    """The size of an earlier handoff that stands within a message, which no cell has a part in."""
    counter = counter_for(model)
    return sum(
        counter.message(message) - counter.message(alone)
        for message in preview.messages
        if (alone := _by_itself(message)) is not None and alone is not message
    )


def foreseen(preview: Preview) -> tuple[Cell, ...]:
    """The cells of a compaction that was not done."""
    tools = _tools_of(preview.messages)
    return tuple(
        Cell(message, number, place, _foreseen_fate(place, size, after), tool, size, after, None)
        for message, number, place, size, after, tool in zip(
            preview.messages, preview.numbers, preview.places, preview.sizes, preview.sizes_after, tools, strict=True
        )
    )


def stretches_of(cells: Iterable[Cell]) -> tuple[Stretch, ...]:
    """The cells by place, in order."""
    return tuple(Stretch(place, tuple(row)) for place, row in groupby(cells, key=lambda cell: cell.place))


def _cells(preview: Preview, done: Compressed) -> tuple[Cell, ...]:
    changed = done.changed
    rows = zip(
        preview.messages,
        preview.numbers,
        preview.places if changed else _unmoved(preview.places),
        preview.sizes,
        preview.sizes_after if changed else preview.sizes,
        _tools_of(preview.messages),
        _standing(preview, done),
        strict=True,
    )
    return tuple(
        Cell(message, number, place, _fate(message, now, place), tool, size, after, now)
        for message, number, place, size, after, tool, now in rows
    )


def _unmoved(places: Sequence[Place]) -> list[Place]:
    """Nothing was folded after all: what would have been is kept."""
    return [Place.KEPT if place is Place.FOLDED else place for place in places]


def _standing(preview: Preview, done: Compressed) -> list[Message | None]:
    """Each message as it stands in the result; None where it does not."""
    if not done.changed:
        return list(preview.messages)
    result = done.compaction.messages
    heads = sum(place is Place.HEAD for place in preview.places)
    others = sum(place in (Place.KEPT, Place.TAIL) for place in preview.places)
    stays = iter([*result[:heads], *result[max(heads, len(result) - others) :]])
    gone = (Place.FOLDED, Place.HANDOFF)
    return [None if place in gone else _by_itself(next(stays, None)) for place in preview.places]


def _by_itself(message: Message | None) -> Message | None:
    """A message that the handoff was merged into, without it."""
    wrapped = unwrap(message) if message is not None and message["role"] in ("user", "assistant") else None
    return wrapped.message if wrapped else message


def _fate(message: Message, now: Message | None, place: Place) -> Fate:
    if now is None:
        return Fate.SUMMARISED if place in (Place.FOLDED, Place.HANDOFF) else Fate.REMOVED
    # The system prompt only gets a note behind it: nothing of it is gone.
    is_whole = now is message or now == message or message["role"] in ("system", "developer")
    return Fate.KEPT if is_whole else Fate.PRUNED


def _foreseen_fate(place: Place, size: int, after: int) -> Fate:
    if place in (Place.FOLDED, Place.HANDOFF):
        return Fate.SUMMARISED
    return Fate.PRUNED if after < size else Fate.KEPT


def _tools_of(messages: Sequence[Message]) -> list[str]:
    names: dict[str, str] = {}
    tools = []
    for message in messages:
        calls = calls_of(message)
        names.update((call["id"], name_of_call(call)) for call in calls)
        own = ", ".join(dict.fromkeys(map(name_of_call, calls)))
        tools.append(names.get(message.get("tool_call_id", ""), "") if message["role"] == "tool" else own)
    return tools


_PARTS: Mapping[Place, str] = {
    Place.HEAD: "head",
    Place.HANDOFF: "handoff",
    Place.FOLDED: "folded",
    Place.KEPT: "kept",
    Place.TAIL: "tail",
}


def _shares(cells: Sequence[Cell], tools: int, handoff: int, sizes: Sequence[int]) -> tuple[Share, ...]:
    totals = dict.fromkeys(("system", "tools", "head", "handoff", "folded", "kept", "tail"), 0)
    totals["tools"], totals["handoff"] = tools, handoff
    for cell, size in zip(cells, sizes, strict=True):
        is_system = cell.place is Place.HEAD and cell.role in ("system", "developer")
        totals["system" if is_system else _PARTS[cell.place]] += size
    return tuple(Share(part, tokens) for part, tokens in totals.items() if tokens)


def _cost(model: str | None, before: int, after: int) -> CostPerRequest | None:
    price = price_of(model, prompt_tokens=before) if model else None
    if model is None or price is None:
        return None
    costs = [cost_of(CanonicalUsage(input_tokens=tokens), model) for tokens in (before, after)]
    if costs[0] is None or costs[1] is None:
        return None
    return CostPerRequest(float(costs[0].total), float(costs[1].total), price.checked)
