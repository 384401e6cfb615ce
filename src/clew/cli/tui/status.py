"""The status line of a chat: its figures, and the line for a width.

Parts have a rank: where the line is too narrow, those that matter least go first, and the meter goes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clew.cli.views.amounts import format_cost, percent, short_count
from clew.cli.views.text import clip, display_width
from clew.events import Event, Replied, SummaryReplied

if TYPE_CHECKING:
    from clew.store import Store

METER_CELLS = 7
YELLOW_FROM, RED_FROM = 0.60, 0.85
"""Shares of the threshold; from the second on a compaction is prepared."""
GAP = " · "
_METER_WORDS = 6
Fragment = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CallTotals:
    """Calls added up."""

    calls: int = 0
    prompt_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    unpriced: int = 0
    """Calls whose price is not known."""

    def plus(self, other: CallTotals) -> CallTotals:
        return CallTotals(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_micros + other.cost_micros,
            self.unpriced + other.unpriced,
        )

    @property
    def cost_text(self) -> str:
        return format_cost(self.cost_micros, self.calls, self.unpriced)


class UsageCounter:
    """Adds up the calls of a conversation: those in the store, and the replies since it was read."""

    def __init__(self) -> None:
        self.last = CallTotals()
        """The newest reply of a turn."""
        self.since_start = CallTotals()
        """Replies and summaries since the program began, in whichever conversation."""
        self._stored = CallTotals()
        self._new = CallTotals()

    @property
    def session(self) -> CallTotals:
        """The conversation from its beginning."""
        return self._stored.plus(self._new)

    def on_event(self, event: Event) -> None:
        if not isinstance(event, Replied | SummaryReplied):
            return
        totals = _reply_totals(event)
        self.since_start = self.since_start.plus(totals)
        self._new = self._new.plus(totals)
        if isinstance(event, Replied):
            self.last = totals

    async def load(self, store: Store, session: str) -> None:
        """Start from what the store has of the conversation."""
        stored = await conversation_totals(store, session)
        self._stored, self._new = stored, CallTotals()


async def conversation_totals(store: Store, session: str) -> CallTotals:
    """All calls of a conversation added up."""
    from clew.store import CallFilter

    found = await store.session(session)
    total = (await store.usage((), CallFilter(conversation=found.conversation)))[0]
    return CallTotals(
        total.calls,
        total.usage.prompt_tokens,
        total.usage.cache_read_tokens,
        total.usage.output_tokens,
        total.cost_micros,
        total.calls_of_unknown_cost,
    )


def _reply_totals(reply: Replied | SummaryReplied) -> CallTotals:
    return CallTotals(
        1,
        reply.prompt_tokens,
        reply.cache_read_tokens,
        reply.output_tokens,
        reply.cost_micros or 0,
        1 if reply.cost_micros is None else 0,
    )


# -- the line ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StatusFigures:
    """What the status line shows."""

    model: str
    used: int
    threshold: int
    window: int
    engine: str
    last: CallTotals = CallTotals()
    """The newest call."""
    session: CallTotals = CallTotals()
    compactions: int = 0
    is_paused: bool = False
    is_preparing: bool = False
    is_enabled: bool = True
    """Whether automatic compaction is on."""


@dataclass(frozen=True, slots=True)
class _StatusPart:
    rank: int
    """The highest goes first."""
    fragments: tuple[Fragment, ...]

    @property
    def width(self) -> int:
        return sum(display_width(text) for _, text in self.fragments)


def meter_color(used: int, threshold: int) -> str:
    """Green, yellow or red, by the share of the threshold that is used."""
    share = used / threshold if threshold else 1.0
    return "red" if share >= RED_FROM else "yellow" if share >= YELLOW_FROM else "green"


def meter(used: int, threshold: int, *, unicode: bool = True, cells: int = METER_CELLS) -> str:
    """A bar of how much of the threshold is used; what is there at all shows as one cell."""
    share = min(1.0, used / threshold) if threshold else 1.0
    full = max(1 if used else 0, round(share * cells))
    on, off = ("▮", "▯") if unicode else ("#", ".")
    return on * full + off * (cells - full)


def status_line(figures: StatusFigures, width: int, *, unicode: bool = True) -> list[Fragment]:
    """The line for a width, as style and text."""
    parts = [part for part in _parts(figures, unicode) if part.fragments]
    gap = GAP if unicode else " | "
    while len(parts) > 1 and _width(parts, gap) > width - 2:
        worst = max(parts, key=lambda part: part.rank)
        parts = _without_meter_words(parts, worst) or [part for part in parts if part is not worst]
    line: list[Fragment] = [("", " ")]
    for number, part in enumerate(parts):
        line += [("class:status.gap", gap)] if number else []
        line += part.fragments
    return _cut(line, width)


def status_text(figures: StatusFigures, width: int, *, unicode: bool = True) -> str:
    """The line without styles."""
    return "".join(text for _, text in status_line(figures, width, unicode=unicode)).strip()


def _parts(figures: StatusFigures, unicode: bool) -> list[_StatusPart]:
    color = f"class:status.{meter_color(figures.used, figures.threshold)}"
    bar = meter(figures.used, figures.threshold, unicode=unicode)
    reached = f" {short_count(figures.used)}/{short_count(figures.threshold)}"
    room = (" to compaction" if figures.is_enabled else " (compaction off)") + f", {short_count(figures.window)} window"
    return [
        _StatusPart(3, (("class:status.model", figures.model),)),
        # Ranked by the words behind the figures, which go first; the meter itself never goes.
        _StatusPart(_METER_WORDS, ((color, bar), ("", reached), ("class:status.dim", room))),
        _StatusPart(4, _cache(figures)),
        _StatusPart(1, (("", figures.session.cost_text),)),
        _StatusPart(2 if figures.is_paused else 5, _engine(figures)),
        _StatusPart(2, _compactions(figures)),
    ]


def _without_meter_words(parts: Sequence[_StatusPart], worst: _StatusPart) -> list[_StatusPart] | None:
    """The parts with the meter in its short form, where the words behind it are what matters least."""
    if worst.rank != _METER_WORDS:
        return None
    return [replace(part, rank=0, fragments=part.fragments[:2]) if part is worst else part for part in parts]


def _cache(figures: StatusFigures) -> tuple[Fragment, ...]:
    """What of the last prompt was read from the provider's cache, and of all prompts of the conversation."""
    if not figures.session.prompt_tokens:
        return ()
    if not figures.last.prompt_tokens:
        return (("", f"cache {percent(figures.session.cache_read_tokens, figures.session.prompt_tokens)} so far"),)
    last = percent(figures.last.cache_read_tokens, figures.last.prompt_tokens)
    whole = percent(figures.session.cache_read_tokens, figures.session.prompt_tokens)
    return (("", f"cache {last} ({whole})"),)


def _engine(figures: StatusFigures) -> tuple[Fragment, ...]:
    name: tuple[Fragment, ...] = (("class:status.dim", figures.engine),)
    return (*name, ("class:status.red", " paused")) if figures.is_paused else name


def _compactions(figures: StatusFigures) -> tuple[Fragment, ...]:
    words = []
    if figures.is_preparing:
        words.append("preparing")
    if figures.compactions:
        words.append(f"{figures.compactions} compaction{'' if figures.compactions == 1 else 's'}")
    return (("class:status.yellow", ", ".join(words)),) if words else ()


def _width(parts: Sequence[_StatusPart], gap: str) -> int:
    return sum(part.width for part in parts) + display_width(gap) * (len(parts) - 1)


def _cut(line: Sequence[Fragment], width: int) -> list[Fragment]:
    """The line cut to a width: the longest part, usually the model's name, loses its end."""
    over = sum(display_width(text) for _, text in line) - width
    if over <= 0:
        return list(line)
    longest = max(range(len(line)), key=lambda at: display_width(line[at][1]))
    style, text = line[longest]
    return [*line[:longest], (style, clip(text, max(1, display_width(text) - over))), *line[longest + 1 :]]
