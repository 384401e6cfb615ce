"""The status line: figures in, styled words out. Pure; where the figures come from is next door.

Parts have a rank: where the line is too narrow, those that matter least go first, and the meter goes last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clew.cli.amounts import cost, percent, short
from clew.cli.output import clipped, columns

METER_CELLS = 7
YELLOW_FROM, RED_FROM = 0.60, 0.85
"""Shares of the threshold; from the second on a compaction is prepared."""
GAP = " · "
_METER_WORDS = 6
Fragment = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls took, added up."""

    calls: int = 0
    prompt_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0
    cost_micros: int = 0
    unpriced: int = 0
    """Calls whose price is not known."""

    def plus(self, other: Spent) -> Spent:
        return Spent(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.output_tokens + other.output_tokens,
            self.cost_micros + other.cost_micros,
            self.unpriced + other.unpriced,
        )

    @property
    def cost_shown(self) -> str:
        """Money; `no price` where none is known at all."""
        if self.calls and self.unpriced == self.calls:
            return "no price"
        return cost(self.cost_micros, self.calls, self.unpriced) if self.calls else "$0"


@dataclass(frozen=True, slots=True)
class Figures:
    """What the status line shows."""

    model: str
    used: int
    threshold: int
    window: int
    engine: str
    last: Spent = Spent()
    """The newest call."""
    session: Spent = Spent()
    compactions: int = 0
    is_paused: bool = False
    is_preparing: bool = False
    compacts: bool = True
    """Whether automatic compaction is enabled."""


@dataclass(frozen=True, slots=True)
class _Part:
    rank: int
    """The highest goes first."""
    fragments: tuple[Fragment, ...]

    @property
    def width(self) -> int:
        return sum(columns(text) for _, text in self.fragments)


def meter_color(used: int, threshold: int) -> str:
    """Green, yellow, red: by how much of the way to a compaction is gone."""
    share = used / threshold if threshold else 1.0
    return "red" if share >= RED_FROM else "yellow" if share >= YELLOW_FROM else "green"


def meter(used: int, threshold: int, *, unicode: bool = True, cells: int = METER_CELLS) -> str:
    """A bar of how much of the threshold is used; what is there at all shows as one cell."""
    share = min(1.0, used / threshold) if threshold else 1.0
    full = max(1 if used else 0, round(share * cells))
    on, off = ("▮", "▯") if unicode else ("#", ".")
    return on * full + off * (cells - full)


def status_line(figures: Figures, width: int, *, unicode: bool = True) -> list[Fragment]:
    """The line for a width, as style and text."""
    parts = [part for part in _parts(figures, unicode) if part.fragments]
    gap = GAP if unicode else " | "
    while len(parts) > 1 and _width(parts, gap) > width - 2:
        worst = max(parts, key=lambda part: part.rank)
        parts = _shorter(parts, worst) or [part for part in parts if part is not worst]
    line: list[Fragment] = [("", " ")]
    for number, part in enumerate(parts):
        line += [("class:status.gap", gap)] if number else []
        line += part.fragments
    return _cut(line, width)


def status_text(figures: Figures, width: int, *, unicode: bool = True) -> str:
    """The line without styles."""
    return "".join(text for _, text in status_line(figures, width, unicode=unicode)).strip()


def _parts(figures: Figures, unicode: bool) -> list[_Part]:
    color = f"class:status.{meter_color(figures.used, figures.threshold)}"
    bar = meter(figures.used, figures.threshold, unicode=unicode)
    reached = f" {short(figures.used)}/{short(figures.threshold)}"
    room = (" to compaction" if figures.compacts else " (compaction off)") + f", {short(figures.window)} window"
    return [
        _Part(3, (("class:status.model", figures.model),)),
        # Its rank is that of the words behind the figures: those go first, and the meter never; see `_shorter`.
        _Part(_METER_WORDS, ((color, bar), ("", reached), ("class:status.dim", room))),
        _Part(4, _cache(figures)),
        _Part(1, (("", figures.session.cost_shown),)),
        _Part(2 if figures.is_paused else 5, _engine(figures)),
        _Part(2, _compactions(figures)),
    ]


def _shorter(parts: Sequence[_Part], worst: _Part) -> list[_Part] | None:
    """The parts with the meter in its short form, where the words behind it are what matters least."""
    if worst.rank != _METER_WORDS:
        return None
    return [replace(part, rank=0, fragments=part.fragments[:2]) if part is worst else part for part in parts]


def _cache(figures: Figures) -> tuple[Fragment, ...]:
    """What of the last prompt was read from the provider's cache, and of all prompts of the conversation."""
    if not figures.session.prompt_tokens:
        return ()
    if not figures.last.prompt_tokens:
        return (("", f"cache {percent(figures.session.cache_read_tokens, figures.session.prompt_tokens)} so far"),)
    last = percent(figures.last.cache_read_tokens, figures.last.prompt_tokens)
    whole = percent(figures.session.cache_read_tokens, figures.session.prompt_tokens)
    return (("", f"cache {last} ({whole})"),)


def _engine(figures: Figures) -> tuple[Fragment, ...]:
    name: tuple[Fragment, ...] = (("class:status.dim", figures.engine),)
    return (*name, ("class:status.red", " paused")) if figures.is_paused else name


def _compactions(figures: Figures) -> tuple[Fragment, ...]:
    words = []
    if figures.is_preparing:
        words.append("preparing")
    if figures.compactions:
        words.append(f"{figures.compactions} compaction{'' if figures.compactions == 1 else 's'}")
    return (("class:status.yellow", ", ".join(words)),) if words else ()


def _width(parts: Sequence[_Part], gap: str) -> int:
    return sum(part.width for part in parts) + columns(gap) * (len(parts) - 1)


def _cut(line: Sequence[Fragment], width: int) -> list[Fragment]:
    """No more than fits; what is longest, the model's name as a rule, loses its end."""
    over = sum(columns(text) for _, text in line) - width
    if over <= 0:
        return list(line)
    longest = max(range(len(line)), key=lambda at: columns(line[at][1]))
    style, text = line[longest]
    return [*line[:longest], (style, clipped(text, max(1, columns(text) - over))), *line[longest + 1 :]]
