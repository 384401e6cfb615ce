"""How `clew insights` looks: days, models and sources as tables with bars; and the same as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any, TypeAlias

from clew.cli.amounts import LOOKS, bar, cost, counted, fitted, percent, short
from clew.cli.moments import day_shown, in_json
from clew.cli.output import Align, Console, clipped, printable, table
from clew.cli.sessions_view import usage_json
from clew.store import UsageTotal
from clew.usage import CanonicalUsage

MARGIN = "  "
LONGEST_NAME = 24
SHORTEST_BAR, LONGEST_BAR = 10, 60
DAY_SECONDS = 86_400
MOST_DAYS = 62
PARTS = ("cache read", "cache write", "fresh", "output")
Totals: TypeAlias = tuple[UsageTotal, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """A compaction."""

    at: datetime
    model: str
    source: str
    before: int
    after: int

    @property
    def day(self) -> int:
        return int(self.at.astimezone(UTC).timestamp() // DAY_SECONDS)


@dataclass(frozen=True, slots=True)
class Insights:
    """All that `clew insights` has to say."""

    period: str
    total: UsageTotal
    auxiliary: UsageTotal
    days: Totals
    models: Totals
    sources: Totals
    folds: tuple[Fold, ...]


def say_insights(insights: Insights, console: Console) -> None:
    """For people: blocks with a blank line between them."""
    blocks = [_head(insights, console)]
    if insights.total.calls:
        blocks += [
            _tokens(insights, console),
            _money(insights, console),
            _share(insights.models, "model", insights.folds, lambda fold: fold.model, console),
            _share(insights.sources, "source", insights.folds, lambda fold: fold.source, console),
        ]
    if insights.folds:
        blocks.append(_compactions(insights, console))
    for number, block in enumerate(blocks):
        if number:
            console.say()
        for line in block:
            console.say((MARGIN + line).rstrip())


def insights_json(insights: Insights) -> dict[str, Any]:
    def grouped(totals: Totals, name: str) -> list[dict[str, Any]]:
        return [{name: _key(total, name), **usage_json(total)} for total in totals]

    return {
        "period": insights.period,
        "total": usage_json(insights.total),
        "auxiliary": usage_json(insights.auxiliary),
        "by": {
            "day": grouped(insights.days, "day"),
            "model": grouped(insights.models, "model"),
            "source": grouped(insights.sources, "source"),
        },
        "compactions": {
            "count": len(insights.folds),
            "tokens_freed": sum(fold.before - fold.after for fold in insights.folds),
            "by_day": _counts(insights.folds, lambda fold: day_shown(fold.day)),
            "by_model": _counts(insights.folds, lambda fold: fold.model),
            "by_source": _counts(insights.folds, lambda fold: fold.source),
            "each": [
                {
                    "at": in_json(fold.at),
                    "model": fold.model,
                    "source": fold.source,
                    "tokens_before": fold.before,
                    "tokens_after": fold.after,
                }
                for fold in insights.folds
            ],
        },
    }


def _head(insights: Insights, console: Console) -> Iterator[str]:
    total, used, aside = insights.total, insights.total.usage, insights.auxiliary
    yield console.paint(f"insights {insights.period}".strip(), "bold")
    if not total.calls:
        yield "no calls recorded in that time"
        return
    cached = percent(used.cache_read_tokens, used.prompt_tokens)
    words = (
        f"{counted(total.calls, 'call')}, {short(used.prompt_tokens)} prompt tokens, {cached} of them from the cache,"
        f" {short(used.output_tokens)} output"
    )
    yield from wrap(words, console.width - 4)
    apart = f", of it {_paid(aside)} for {counted(aside.calls, 'auxiliary call')}" if aside.calls else ""
    yield from wrap(f"cost {_paid(total)}{apart}", console.width - 4)


def _tokens(insights: Insights, console: Console) -> Iterator[str]:
    """Tokens by day, each day a bar of what they were."""
    days = _every_day(insights.days)
    whole = max((total.usage.total_tokens for total in days), default=0)
    rows = [("tokens by day", "calls", "tokens", "cached")] + [
        (
            _key(total, "day"),
            f"{total.calls:,}",
            short(total.usage.total_tokens),
            percent(total.usage.cache_read_tokens, total.usage.prompt_tokens),
        )
        for total in days
    ]
    yield from _with_bars(rows, [_parts(total) for total in days], whole, console)
    yield _key_to(PARTS, console)


def _money(insights: Insights, console: Console) -> Iterator[str]:
    days = _every_day(insights.days)
    whole = max((total.cost_micros for total in days), default=0)
    rows = [("cost by day", "cost")] + [(_key(total, "day"), _paid(total)) for total in days]
    yield from _with_bars(rows, [[("cost", total.cost_micros)] for total in days], whole, console)


def _every_day(days: Totals) -> Totals:
    """Days without calls put between the others, so that a chart shows time as it passed; not for years of them."""
    first, last = int(days[0].group["day"]), int(days[-1].group["day"])
    if last - first > MOST_DAYS:
        return days
    known = {int(total.group["day"]): total for total in days}
    nothing = CanonicalUsage()
    return tuple(known.get(day) or UsageTotal({"day": day}, 0, nothing, 0, 0) for day in range(first, last + 1))


def _share(
    totals: Totals, name: str, folds: Sequence[Fold], of: Callable[[Fold], str], console: Console
) -> Iterator[str]:
    """Tokens by model or source, the largest first."""
    largest = sorted(totals, key=lambda total: -total.usage.total_tokens)
    made = _counts(folds, of)
    whole = largest[0].usage.total_tokens if largest else 0
    rows = [(f"by {name}", "calls", "tokens", "cached", "cost", "folds")] + [
        (
            clipped(printable(str(_key(total, name)) or "-"), LONGEST_NAME),
            f"{total.calls:,}",
            short(total.usage.total_tokens),
            percent(total.usage.cache_read_tokens, total.usage.prompt_tokens),
            _paid(total),
            f"{made.get(str(_key(total, name)), 0):,}",
        )
        for total in largest
    ]
    yield from _with_bars(rows, [_parts(total) for total in largest], whole, console)


def _compactions(insights: Insights, console: Console) -> Iterator[str]:
    folds = insights.folds
    by_day: dict[int, list[Fold]] = {}
    for fold in sorted(folds, key=lambda fold: fold.at):
        by_day.setdefault(fold.day, []).append(fold)
    whole = max(len(each) for each in by_day.values())
    rows = [("compactions by day", "folds", "before", "after", "freed")]
    for day, each in by_day.items():
        before, after = sum(fold.before for fold in each), sum(fold.after for fold in each)
        rows.append((day_shown(day), f"{len(each):,}", short(before), short(after), percent(before - after, before)))
    yield from _with_bars(rows, [[("compactions", len(each))] for each in by_day.values()], whole, console)


def _with_bars(
    rows: Sequence[tuple[str, ...]], bars: Sequence[list[tuple[str, int]]], whole: int, console: Console
) -> Iterator[str]:
    """A table with a bar behind each row, all on one scale, where there is room for bars."""
    room = console.width - 2 * len(MARGIN)
    rows = fitted([row[0] for row in rows], [row[1:] for row in rows], room)
    aligns: list[Align] = ["<", *([">"] * (len(rows[0]) - 1))]  # type: ignore[list-item]
    head, *lines = table(rows, aligns, room)
    widest = max(len(line) for line in (head, *lines))
    cells = min(LONGEST_BAR, room - widest - 2)
    yield console.paint(head, "bold")
    for line, parts in zip(lines, bars, strict=True):
        drawn = ""
        if cells >= SHORTEST_BAR and whole > 0:
            size = sum(part for _, part in parts)
            drawn = bar(parts, size, max(1, round(size * cells / whole)) if size else 0, console)
        yield f"{line.ljust(widest)}  {drawn}"


def _key_to(parts: Sequence[str], console: Console) -> str:
    signs = (console.paint("█", LOOKS[part][0]) if console.colors else LOOKS[part][1] for part in parts)
    return "  ".join(f"{sign} {console.paint(part, 'dim')}" for sign, part in zip(signs, parts, strict=True))


def _parts(total: UsageTotal) -> list[tuple[str, int]]:
    used = total.usage
    sizes = (used.cache_read_tokens, used.cache_write_tokens, used.input_tokens, used.output_tokens)
    return list(zip(PARTS, sizes, strict=True))


def _paid(total: UsageTotal) -> str:
    return cost(total.cost_micros, total.calls, total.calls_of_unknown_cost)


def _key(total: UsageTotal, name: str) -> Any:
    return day_shown(int(total.group[name])) if name == "day" else total.group[name]


def _counts(folds: Sequence[Fold], of: Callable[[Fold], str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for fold in folds:
        counts[of(fold)] = counts.get(of(fold), 0) + 1
    return dict(sorted(counts.items()))
