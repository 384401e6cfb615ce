"""The status line of a chat.

Parts have a rank: if the line is too narrow, the highest rank is dropped first; the meter always stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from clew.cli.pages import format_cost, percent, plural, short_count
from clew.cli.text import clip, display_width
from clew.events import Event, Replied, SummaryReplied
from clew.store import Store

METER_CELLS = 7
YELLOW_FROM, RED_FROM = 0.60, 0.85
"""Shares of the threshold; a compaction is prepared from the second on."""
GAP = " · "
Fragment = tuple[str, str]
"""Style and text."""


@dataclass(frozen=True, slots=True)
class CallTotals:
    """Calls added up."""

    calls: int = 0
    prompt_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    unpriced: int = 0
    """Calls without a known price."""

    def __add__(self, other: CallTotals) -> CallTotals:
        return CallTotals(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def cached(self) -> str:
        """The share of prompt tokens from a cache."""
        return percent(self.cache_read_tokens, self.prompt_tokens)

    @property
    def cost_text(self) -> str:
        return format_cost(self.cost_micros, self.calls, self.unpriced)


class UsageCounter:
    """Adds up the calls of a conversation: stored ones, and replies since they were read."""

    def __init__(self) -> None:
        self.last = CallTotals()
        """The newest reply of a turn."""
        self.since_start = CallTotals()
        """Replies and summaries since the start of the program, in any conversation."""
        self.session = CallTotals()
        """The conversation from its beginning."""

    def on_event(self, event: Event) -> None:
        if not isinstance(event, Replied | SummaryReplied):
            return
        tokens = (event.prompt_tokens, event.cache_read_tokens, event.output_tokens)
        totals = CallTotals(1, *tokens, event.cost_micros or 0, int(event.cost_micros is None))
        self.since_start += totals
        self.session += totals
        if isinstance(event, Replied):
            self.last = totals

    async def load(self, store: Store, session: str) -> None:
        """Read the stored calls of the conversation and of those that it branched from."""
        from clew.cli.usage import conversation_family
        from clew.store import CallFilter

        total = (await store.usage((), CallFilter(conversations=await conversation_family(store, session))))[0]
        tokens = (total.usage.prompt_tokens, total.usage.cache_read_tokens, total.usage.output_tokens)
        self.session = CallTotals(total.calls, *tokens, total.cost_micros, total.calls_of_unknown_cost)


@dataclass(frozen=True, slots=True)
class StatusFigures:
    """The figures of the status line."""

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
    mode: str = ""
    """The mode of file edits, unless it is the default."""


@dataclass(frozen=True, slots=True)
class _StatusPart:
    rank: int
    fragments: tuple[Fragment, ...]
    is_joined: bool = False
    """Whether it follows the previous part without a gap."""

    @property
    def width(self) -> int:
        return sum(display_width(text) for _, text in self.fragments) + (0 if self.is_joined else len(GAP))


def meter_color(used: int, threshold: int) -> str:
    """Green, yellow or red, by the used share of the threshold."""
    share = used / threshold if threshold else 1.0
    return "red" if share >= RED_FROM else "yellow" if share >= YELLOW_FROM else "green"


def meter(used: int, threshold: int, *, unicode: bool = True, cells: int = METER_CELLS) -> str:
    """A bar of the used share of the threshold; at least one cell above zero."""
    share = min(1.0, used / threshold) if threshold else 1.0
    full = max(1 if used else 0, round(share * cells))
    on, off = ("▮", "▯") if unicode else ("#", ".")
    return on * full + off * (cells - full)


def status_line(figures: StatusFigures, width: int, *, unicode: bool = True) -> list[Fragment]:
    """The line for a width, as style and text."""
    parts = [part for part in _parts(figures, unicode) if any(text for _, text in part.fragments)]
    while len(parts) > 1 and sum(part.width for part in parts) - len(GAP) > width - 2:
        parts.remove(max(parts, key=lambda part: part.rank))
    line: list[Fragment] = [("", " ")]
    for number, part in enumerate(parts):
        line += [("class:status.gap", GAP if unicode else " | ")] if number and not part.is_joined else []
        line += part.fragments
    return _cut(line, width)


def _parts(figures: StatusFigures, unicode: bool) -> list[_StatusPart]:
    color = f"class:status.{meter_color(figures.used, figures.threshold)}"
    bar = meter(figures.used, figures.threshold, unicode=unicode)
    reached = f" {short_count(figures.used)}/{short_count(figures.threshold)}"
    room = (" to compaction" if figures.is_enabled else " (compaction off)") + f", {short_count(figures.window)} window"
    made = ["preparing"] if figures.is_preparing else []
    made += [plural(figures.compactions, "compaction")] if figures.compactions else []
    return [
        _StatusPart(3, (("class:status.model", figures.model),)),
        _StatusPart(1, (("class:status.yellow", figures.mode),)),
        _StatusPart(0, ((color, bar), ("", reached))),
        _StatusPart(6, (("class:status.dim", room),), is_joined=True),
        _StatusPart(4, (("", _cache(figures)),)),
        _StatusPart(1, (("", figures.session.cost_text),)),
        _StatusPart(
            2 if figures.is_paused else 5,
            (("class:status.dim", figures.engine), ("class:status.red", " paused" if figures.is_paused else "")),
        ),
        _StatusPart(2, (("class:status.yellow", ", ".join(made)),)),
    ]


def _cache(figures: StatusFigures) -> str:
    """The cached share of the last prompt, and of all prompts of the conversation."""
    if not figures.session.prompt_tokens:
        return ""
    if not figures.last.prompt_tokens:
        return f"cache {figures.session.cached} so far"
    return f"cache {figures.last.cached} ({figures.session.cached})"


def _cut(line: Sequence[Fragment], width: int) -> list[Fragment]:
    """The line cut to a width: the longest part, usually the model name, is shortened."""
    over = sum(display_width(text) for _, text in line) - width
    if over <= 0:
        return list(line)
    longest = max(range(len(line)), key=lambda at: display_width(line[at][1]))
    style, text = line[longest]
    return [*line[:longest], (style, clip(text, max(1, display_width(text) - over))), *line[longest + 1 :]]
