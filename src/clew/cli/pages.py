"""Figures for people, and the layout of tables and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from clew.cli.text import clip, display_width, pad, printable

if TYPE_CHECKING:
    from clew.turn import Conversation

_MICROS = 1_000_000
NO_PRICE = "no price"
"""Displayed for an unknown price, which never counts as zero."""
WINDOW_SOURCES: Mapping[str, str] = {
    "config": "from the config",
    "stated": "as the provider stated in an error",
    "endpoint": "as the provider's models endpoint says",
    "table": "from the table that ships with Clew",
    "default": "assumed, since no source states it",
    "file": "as it is run here; model.context_length changes it",
}
"""Where the size of a window is from."""
MARGIN = "  "
MIN_NAME_WIDTH = 10
GOOD_NAME_WIDTH = 16
"""Less important columns are dropped before a name gets narrower."""
MIN_LAST_WIDTH = 8


def plural(count: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_count(tokens: int) -> str:
    """A short number of tokens: 812, 9,120, 68.1K, 1.24M."""
    if tokens < 10_000:
        return f"{tokens:,}"
    if tokens < 999_500:
        return f"{tokens / 1_000:.1f}K" if tokens < 99_950 else f"{tokens / 1_000:.0f}K"
    return f"{tokens / 1_000_000:.2f}M" if tokens < 999_500_000 else f"{tokens / 1_000_000_000:.2f}G"


def writer_name(written_by: str | None) -> str:
    """The writer of a handoff."""
    from clew.handoff import BUILTIN  # late: most pages name no writer

    if not written_by:
        return "the engine"
    return "the built-in summariser" if written_by == BUILTIN else printable(written_by)


def window_source(conversation: Conversation) -> str:
    """Where the window size of a chat is from; a local model has the one it was started with."""
    source = conversation.window.source
    is_in_a_file = conversation.target.served_by == "local" and source == "config"
    return WINDOW_SOURCES["file" if is_in_a_file else source]


def percent(part: int, whole: int) -> str:
    """A share in percent; a dash if the whole is zero."""
    if not whole:
        return "-"
    share = 100 * part / whole
    return "<1%" if 0 < share < 1 else f"{share:,.0f}%"


def message_range(numbers: list[int]) -> str:
    """`m2-m142`, `m7` for one message, a dash for none."""
    if not numbers:
        return "-"
    return f"m{numbers[0]}" if numbers[0] == numbers[-1] else f"m{numbers[0]}-m{numbers[-1]}"


def format_dollars(amount: float) -> str:
    """Money; with four decimals below one dollar."""
    if not amount or amount >= 1:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def format_saving(micros: int) -> str:
    """Savings, rounded down; negative if it cost more."""
    shown = micros // 10_000 * 10_000 if abs(micros) >= _MICROS else micros // 100 * 100
    return f"{'-' if shown < 0 else ''}{format_dollars(abs(shown) / _MICROS)}"


def format_cost(micros: int, calls: int, unknown: int) -> str:
    """The cost of calls, of which `unknown` have no known price."""
    if calls and unknown == calls:
        return NO_PRICE
    known = format_dollars(micros / _MICROS)
    return f"{known} + {NO_PRICE}" if unknown else known


def format_time(at: datetime) -> str:
    """A time in the local zone."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def iso_time(at: datetime | None) -> str | None:
    """A time for JSON, in UTC."""
    return None if at is None else at.astimezone(UTC).isoformat()


def json_fields(value: Any, *names: str) -> dict[str, Any]:
    """Attributes of a value by their names, for JSON: times in UTC, tuples as lists."""
    found = {name: getattr(value, name) for name in names}
    return {
        name: iso_time(each) if isinstance(each, datetime) else list(each) if isinstance(each, tuple) else each
        for name, each in found.items()
    }


def format_day(day: int) -> str:
    """A day that is counted from 1970, in UTC, as the store groups by it."""
    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def describe_period(first: datetime | None, last: datetime | None) -> str:
    """`since ... until ...`; empty without limits."""
    words = [f"since {format_time(first)}"] if first else []
    return " ".join([*words, f"until {format_time(last)}"] if last else words)


@dataclass(frozen=True, slots=True)
class BarStyle:
    """The color of a part of a bar, or its letter without colors."""

    color: str
    letter: str
    block: str = "█"


def table_lines(rows: Sequence[Sequence[str]], aligns: Sequence[str], width: int, gap: int = 2) -> list[str]:
    """Rows as lines: each column as wide as its widest cell, the last one cut to the rest.

    Columns between the first and the last are dropped if the last has no room: texts before figures.
    """
    if not rows:
        return []
    widths = [max(display_width(row[index]) for row in rows) for index in range(len(aligns))]
    kept = _columns_that_fit(widths, aligns, width, gap)
    room = width - gap * (len(kept) - 1)
    fitted = [widths[at] for at in kept]
    fitted[-1] = max(1, min(fitted[-1], room - sum(fitted[:-1])))
    while sum(fitted) > room and max(fitted) > 1:
        fitted[fitted.index(max(fitted))] -= 1
    return [_row_line([row[at] for at in kept], [aligns[at] for at in kept], fitted, gap).rstrip() for row in rows]


def _columns_that_fit(widths: Sequence[int], aligns: Sequence[str], width: int, gap: int) -> list[int]:
    kept = list(range(len(widths)))
    between = kept[-2:0:-1]
    for column in sorted(between, key=lambda at: aligns[at] == ">"):
        least = sum(widths[at] for at in kept[:-1]) + min(widths[-1], MIN_LAST_WIDTH)
        if least + gap * (len(kept) - 1) <= width:
            break
        kept.remove(column)
    return kept


def fit_columns(names: Sequence[str], figures: Sequence[tuple[str, ...]], room: int) -> list[tuple[str, ...]]:
    """Names with figures, fitted to a width, headings first: less important columns are dropped, then names are cut."""
    kept = list(range(len(figures[0])))
    for least in ("output", "cached", "calls", "of it auxiliary", "prompt", "folds", "tokens", "saved", None):
        taken = sum(max(display_width(row[at]) for row in figures) + 2 for at in kept)
        if least is None or room - taken >= min(GOOD_NAME_WIDTH, max(display_width(name) for name in names)):
            break
        kept = [at for at in kept if figures[0][at] != least]
    width = max(MIN_NAME_WIDTH, room - taken)
    return [(clip(name, width), *(row[at] for at in kept)) for name, row in zip(names, figures, strict=True)]


def name_and_figures(columns: int) -> str:
    """Alignments of a table of names and figures."""
    return "<" + ">" * (columns - 1)


def _row_line(row: Sequence[str], aligns: Sequence[str], widths: Sequence[int], gap: int) -> str:
    cells = (pad(clip(cell, width), width, align) for cell, width, align in zip(row, widths, aligns, strict=True))
    return (" " * gap).join(cells)


def bar_widths(parts: Sequence[float], cells: int) -> list[int]:
    """Cells of a bar for each part of 1.0: they add up to the whole; every part above zero gets one if possible."""
    wanted = [part * cells for part in parts]
    given = [max(1, int(want)) if want > 0 else 0 for want in wanted]
    total = min(cells, max(round(sum(wanted)), sum(1 for want in wanted if want > 0)))
    while sum(given) > total:
        given[max(range(len(given)), key=lambda index: (given[index] > 1, given[index] - wanted[index]))] -= 1
    while sum(given) < total:
        given[max(range(len(given)), key=lambda index: wanted[index] - given[index])] += 1
    return given
