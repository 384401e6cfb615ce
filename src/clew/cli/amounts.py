"""Figures for people: counts, tokens, shares and money, short enough for a column. Knows no message and no store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from clew.cli.output import Console, clipped, columns, shares

_MICROS = 1_000_000
UNKNOWN = "unknown"
NARROWEST_NAME = 10


def counted(count: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short(tokens: int) -> str:
    """A number of tokens in at most five characters or so: 812, 9,120, 68.1K, 1.24M."""
    if tokens < 10_000:
        return f"{tokens:,}"
    if tokens < 999_500:
        return f"{tokens / 1_000:.1f}K" if tokens < 99_950 else f"{tokens / 1_000:.0f}K"
    return f"{tokens / 1_000_000:.2f}M" if tokens < 999_500_000 else f"{tokens / 1_000_000_000:.2f}G"


def tokens_in(text: str, least: int) -> int:
    """The number of tokens that a flag names: `10000`, `10,000` or `10k`."""
    plain = text.strip().lower().replace(",", "")
    number, unit = (plain[:-1], 1_000) if plain.endswith("k") else (plain, 1)
    try:
        tokens = int(float(number) * unit) if unit > 1 else int(number)
    except (ValueError, OverflowError):
        tokens = -1
    if not least <= tokens <= sys.maxsize:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; expects a number of tokens, {least} or more")
    return tokens


def percent(part: int, whole: int) -> str:
    """A share; a dash where there is nothing to have a share of."""
    if not whole:
        return "-"
    share = 100 * part / whole
    return "<1%" if 0 < share < 1 else f"{share:.0f}%"


def dollars(micros: int) -> str:
    """Money, with as many digits as it is worth."""
    amount = micros / _MICROS
    if amount >= 1 or amount == 0:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"


def cost(micros: int, calls: int, unknown: int) -> str:
    """What calls cost; where the price of some is not known, that is said, not taken for zero."""
    if not calls:
        return "-"
    if unknown == calls:
        return UNKNOWN
    return f"{dollars(micros)} + {UNKNOWN}" if unknown else dollars(micros)


def fitted(names: Sequence[str], figures: Sequence[tuple[str, ...]], room: int) -> list[tuple[str, ...]]:
    """Rows of a name and figures for a width, the first being headings: what matters least goes, then names are cut."""
    kept = list(range(len(figures[0])))
    for least in ("output", "cached", "calls", None):
        taken = sum(max(columns(row[at]) for row in figures) + 2 for at in kept)
        if least is None or room - taken >= min(NARROWEST_NAME, max(columns(name) for name in names)):
            break
        kept = [at for at in kept if figures[0][at] != least]
    width = max(NARROWEST_NAME, room - taken)
    return [(clipped(name, width), *(row[at] for at in kept)) for name, row in zip(names, figures, strict=True)]


def bar(parts: Sequence[tuple[str, int]], whole: int, cells: int, console: Console) -> str:
    """A bar of coloured parts, in letters where there are no colours: `parts` are a look's name and a size."""
    widths = shares([size / whole if whole else 0.0 for _, size in parts], cells)
    return "".join(_cells(name, width, console) for (name, _), width in zip(parts, widths, strict=True))


# A colour where there are colours, a letter where there are none.
LOOKS = {
    "cache read": ("green", "r"),
    "cache write": ("cyan", "w"),
    "fresh": ("yellow", "f"),
    "output": ("magenta", "o"),
    "cost": ("blue", "$"),
    "compactions": ("red", "#"),
}


def _cells(name: str, width: int, console: Console) -> str:
    color, letter = LOOKS[name]
    return console.paint("█" * width, color) if console.colors else letter * width
