"""How `clew usage` and `clew insights` look: calls added up, as tables and charts, and the same as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from clew.cli.console import Console
from clew.cli.store_access import short_ids
from clew.cli.views.amounts import (
    NO_PRICE,
    cost_usd,
    format_cost,
    format_day,
    format_dollars,
    format_saving,
    iso_time,
    percent,
    plural,
    short_count,
)
from clew.cli.views.tables import (
    BarStyle,
    bar_cells,
    fit_columns,
    name_and_figures,
    page_width,
    print_blocks,
    stacked_bar,
    table_lines,
)
from clew.cli.views.text import clip, display_width, pad, printable, wrap
from clew.store import CompactionStats, UsageTotal
from clew.usage import CanonicalUsage

MAX_ROWS = 14
MAX_NAME = 24
MIN_BAR, MAX_BAR = 10, 60
MAX_FILLED_DAYS = 62
DAY_SECONDS = 86_400
MICROS = 1_000_000
HEADINGS: tuple[str, ...] = ("calls", "prompt", "cached", "output", "cost", "of it auxiliary", "saved")
OPTIONAL = ("of it auxiliary", "saved")
"""Columns that are left out where no row has them."""
NO_SESSION = "(deleted)"
TOKEN_STYLES = {
    "cache read": BarStyle("green", "r"),
    "cache write": BarStyle("cyan", "w"),
    "fresh": BarStyle("yellow", "f"),
    "output": BarStyle("magenta", "o"),
}
COST_STYLE = BarStyle("blue", "$")
COMPACTION_STYLE = BarStyle("red", "#")
Totals: TypeAlias = tuple[UsageTotal, ...]
Bar: TypeAlias = Sequence[tuple[BarStyle, int]]


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """Calls of one model, day, session, ..."""

    key: Any
    total: UsageTotal
    auxiliary: UsageTotal | None
    """Of these, the calls that no turn asked for."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """All that `clew usage` shows."""

    of: str
    period: str
    total: UsageGroup
    groups: Mapping[str, tuple[UsageGroup, ...]]
    titles: Mapping[str, str]
    """Of sessions, by id."""
    unpriced: tuple[str, ...]
    """Models with calls whose price is not known."""


@dataclass(frozen=True, slots=True)
class Insights:
    """All that `clew insights` shows."""

    period: str
    total: UsageTotal
    auxiliary: UsageTotal
    days: Totals
    models: Totals
    sources: Totals
    compactions: tuple[CompactionStats, ...]


def usage_json(total: UsageTotal) -> dict[str, Any]:
    """Calls added up, for programs; `cost_usd` is that of the calls whose price is known, None if none has one."""
    return {
        "calls": total.calls,
        **total.usage.as_json(),
        "cost_usd": cost_usd(total.cost_micros, total.calls, total.calls_of_unknown_cost),
        "calls_of_unknown_cost": total.calls_of_unknown_cost,
        "cache_hits": total.cache_hits,
        "saved": _saved_json(total) if total.compared_calls else None,
    }


def _saved_json(total: UsageTotal) -> dict[str, Any]:
    """What was saved against direct calls, where anything was compared."""
    return {
        "compared_calls": total.compared_calls,
        "cost_direct_usd": total.cost_direct_micros / MICROS,
        "cost_usd": total.cost_compared_micros / MICROS,
        "saved_usd": total.saved_micros / MICROS,
        "calls_of_unknown_saving": total.calls_of_unknown_saving,
    }


def cost_text(total: UsageTotal) -> str:
    return format_cost(total.cost_micros, total.calls, total.calls_of_unknown_cost)


def auxiliary_text(auxiliary: UsageTotal) -> str:
    """What of a cost was for calls that no turn asked for; nothing where there were none."""
    if not auxiliary.calls:
        return ""
    return f", of it {cost_text(auxiliary)} for {plural(auxiliary.calls, 'auxiliary call')}"


def saved_text(total: UsageTotal) -> str:
    """What was saved against direct calls, in a sentence; nothing where nothing was compared."""
    if not total.compared_calls:
        return ""
    compared = plural(total.compared_calls, "call")
    cost, direct = (format_dollars(it / MICROS) for it in (total.cost_compared_micros, total.cost_direct_micros))
    unknown = total.calls_of_unknown_saving
    without = f"; of {plural(unknown, 'more call')} it is not known" if unknown else ""
    saved = format_saving(total.saved_micros)
    return f"saved {saved}: {compared} for {cost}, summaries included, would have cost {direct} directly{without}"


def cached_percent(total: UsageTotal) -> str:
    return percent(total.usage.cache_read_tokens, total.usage.prompt_tokens)


# -- usage -------------------------------------------------------------------------------------------------------------


def print_usage(report: UsageReport, console: Console, *, every_row: bool) -> None:
    blocks = [_usage_head(report, console)]
    if report.total.total.calls:
        blocks += [_usage_table(report, grouping, console, every_row) for grouping in report.groups]
    if report.unpriced:
        blocks.append(_unpriced_lines(report.unpriced, console))
    print_blocks(blocks, console)


def usage_report_json(report: UsageReport) -> dict[str, Any]:
    return {
        "of": report.of,
        "period": report.period,
        "total": _usage_or_none(report.total.total),
        "auxiliary": _usage_or_none(report.total.auxiliary),
        "by": {
            grouping: [
                {
                    grouping: _key_json(grouping, group.key),
                    **({"title": report.titles.get(group.key) or None} if grouping == "session" else {}),
                    "usage": _usage_or_none(group.total),
                    "auxiliary": _usage_or_none(group.auxiliary),
                }
                for group in groups
            ]
            for grouping, groups in report.groups.items()
        },
        "models_without_a_price": list(report.unpriced),
    }


def _usage_or_none(total: UsageTotal | None) -> dict[str, Any] | None:
    return None if total is None or not total.calls else usage_json(total)


def _key_json(grouping: str, key: Any) -> Any:
    if grouping == "day":
        return format_day(int(key))
    return (key or None) if grouping == "session" else key


def _usage_head(report: UsageReport, console: Console) -> Iterator[str]:
    title = f"usage of {report.of}{', ' + report.period if report.period else ''}"
    yield console.style(clip(printable(title), page_width(console)), "bold")
    total, auxiliary = report.total.total, report.total.auxiliary
    if not total.calls:
        yield "no calls recorded"
        return
    yield from wrap(
        f"{plural(total.calls, 'call')}: {short_count(total.usage.prompt_tokens)} prompt tokens, "
        f"{cached_percent(total)} of them cached, {short_count(total.usage.output_tokens)} output, "
        f"cost {cost_text(total)}{auxiliary_text(auxiliary) if auxiliary else ''}",
        page_width(console),
    )
    yield from wrap(saved_text(total), page_width(console))


def _usage_table(report: UsageReport, grouping: str, console: Console, every_row: bool) -> Iterator[str]:
    groups = report.groups[grouping]
    chosen = _chosen_groups(grouping, groups, every_row)
    ids = short_ids((str(group.key) for group in chosen), report.titles)
    figures = [HEADINGS, *(_figures(group) for group in chosen)]
    empty = {heading for heading, *cells in zip(*figures, strict=True) if heading in OPTIONAL and set(cells) <= {"-"}}
    shown = [at for at, heading in enumerate(HEADINGS) if heading not in empty]
    figures = [tuple(row[at] for at in shown) for row in figures]
    names = [f"by {grouping}", *(_group_name(report, grouping, group, ids) for group in chosen)]
    rows = fit_columns(names, figures, page_width(console))
    first, *lines = table_lines(rows, name_and_figures(len(rows[0])), page_width(console))
    yield console.style(first, "bold")
    yield from lines
    if len(chosen) < len(groups):
        yield console.style(f"and {len(groups) - len(chosen):,} more: --all", "dim")


def _unpriced_lines(models: Sequence[str], console: Console) -> Iterator[str]:
    names = ", ".join(printable(name) or "(no model named)" for name in models)
    for line in wrap(f"{NO_PRICE} is known for some calls of {names}", page_width(console)):
        yield console.style(line, "yellow")


def _chosen_groups(grouping: str, groups: tuple[UsageGroup, ...], every_row: bool) -> list[UsageGroup]:
    """Days in order, the newest last; everything else by size."""
    if grouping == "day":
        return list(groups if every_row else groups[-MAX_ROWS:])
    largest = sorted(groups, key=lambda group: -group.total.usage.total_tokens)
    return largest if every_row else largest[:MAX_ROWS]


def _group_name(report: UsageReport, grouping: str, group: UsageGroup, ids: Mapping[str, str]) -> str:
    if grouping == "day":
        return format_day(int(group.key))
    if grouping == "session":
        title = report.titles.get(group.key)
        name = f"{ids[group.key]}  {title}" if title else ids[group.key]
        return printable(name if group.key else NO_SESSION)
    return printable(str(group.key) or "-")


def _figures(group: UsageGroup) -> tuple[str, ...]:
    total, auxiliary = group.total, group.auxiliary
    prompt, output = short_count(total.usage.prompt_tokens), short_count(total.usage.output_tokens)
    own = (f"{total.calls:,}", prompt, cached_percent(total), output, cost_text(total))
    extra = f"{auxiliary.calls:,}: {cost_text(auxiliary)}" if auxiliary else "-"
    return (*own, extra, format_saving(total.saved_micros) if total.compared_calls else "-")


# -- insights ----------------------------------------------------------------------------------------------------------


def print_insights(insights: Insights, console: Console) -> None:
    blocks = [_insights_head(insights, console)]
    if insights.total.calls:
        blocks += [
            _tokens_by_day(insights, console),
            _cost_by_day(insights, console),
            _by_group(insights.models, "model", insights.compactions, lambda each: each.model, console),
            _by_group(insights.sources, "source", insights.compactions, lambda each: each.source, console),
        ]
    if insights.compactions:
        blocks.append(_compactions_by_day(insights.compactions, console))
    print_blocks(blocks, console)


def insights_json(insights: Insights) -> dict[str, Any]:
    def grouped(totals: Totals, name: str) -> list[dict[str, Any]]:
        return [{name: _group_key(total, name), **usage_json(total)} for total in totals]

    compactions = insights.compactions
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
            "count": len(compactions),
            "tokens_freed": sum(each.before - each.after for each in compactions),
            "by_day": _counts(compactions, lambda each: format_day(each.day)),
            "by_model": _counts(compactions, lambda each: each.model),
            "by_source": _counts(compactions, lambda each: each.source),
            "each": [
                {
                    "at": iso_time(each.at),
                    "model": each.model,
                    "source": each.source,
                    "tokens_before": each.before,
                    "tokens_after": each.after,
                }
                for each in compactions
            ],
        },
    }


def _insights_head(insights: Insights, console: Console) -> Iterator[str]:
    total, auxiliary = insights.total, insights.auxiliary
    for line in wrap(f"insights {insights.period}".strip(), page_width(console)):
        yield console.style(line, "bold")
    if not total.calls:
        yield from wrap("no calls recorded in that time", page_width(console))
        return
    yield from wrap(
        f"{plural(total.calls, 'call')}, {short_count(total.usage.prompt_tokens)} prompt tokens, "
        f"{cached_percent(total)} of them from the cache, {short_count(total.usage.output_tokens)} output",
        page_width(console),
    )
    yield from wrap(f"cost {cost_text(total)}{auxiliary_text(auxiliary)}", page_width(console))


def _tokens_by_day(insights: Insights, console: Console) -> Iterator[str]:
    """Tokens by day, each day a bar of its kinds."""
    days = _fill_days(insights.days)
    rows = [("tokens by day", "calls", "tokens", "cached")] + [
        (_group_key(total, "day"), f"{total.calls:,}", short_count(total.usage.total_tokens), cached_percent(total))
        for total in days
    ]
    yield from _table_with_bars(rows, [_token_bar(total) for total in days], console)
    legend = [f"{bar_cells(style, 1, console)} {console.style(kind, 'dim')}" for kind, style in TOKEN_STYLES.items()]
    whole = sum(len(kind) + 4 for kind in TOKEN_STYLES) - 2
    yield from ["  ".join(legend)] if whole <= page_width(console) else legend


def _cost_by_day(insights: Insights, console: Console) -> Iterator[str]:
    days = _fill_days(insights.days)
    rows = [("cost by day", "cost")] + [(_group_key(total, "day"), cost_text(total)) for total in days]
    yield from _table_with_bars(rows, [[(COST_STYLE, total.cost_micros)] for total in days], console)


def _fill_days(days: Totals) -> Totals:
    """Days without calls put between the others, so that a chart shows time as it passed; not for years of them."""
    first, last = int(days[0].group["day"]), int(days[-1].group["day"])
    if last - first > MAX_FILLED_DAYS:
        return days
    known = {int(total.group["day"]): total for total in days}
    nothing = CanonicalUsage()
    return tuple(known.get(day) or UsageTotal({"day": day}, 0, nothing, 0, 0) for day in range(first, last + 1))


def _by_group(
    totals: Totals,
    name: str,
    compactions: Sequence[CompactionStats],
    key: Callable[[CompactionStats], str],
    console: Console,
) -> Iterator[str]:
    """Tokens by model or source, the largest first."""
    largest = sorted(totals, key=lambda total: -total.usage.total_tokens)
    made = _counts(compactions, key)
    rows = [(f"by {name}", "calls", "tokens", "cached", "cost", "folds")] + [
        (
            clip(printable(str(_group_key(total, name)) or "-"), MAX_NAME),
            f"{total.calls:,}",
            short_count(total.usage.total_tokens),
            cached_percent(total),
            cost_text(total),
            f"{made.get(str(_group_key(total, name)), 0):,}",
        )
        for total in largest
    ]
    yield from _table_with_bars(rows, [_token_bar(total) for total in largest], console)


def _compactions_by_day(compactions: Sequence[CompactionStats], console: Console) -> Iterator[str]:
    by_day: dict[int, list[CompactionStats]] = {}
    for each in sorted(compactions, key=lambda each: each.at):
        by_day.setdefault(each.day, []).append(each)
    rows = [("compactions by day", "folds", "before", "after", "freed")]
    for day, made in by_day.items():
        before, after = sum(each.before for each in made), sum(each.after for each in made)
        freed = percent(before - after, before)
        rows.append((format_day(day), f"{len(made):,}", short_count(before), short_count(after), freed))
    yield from _table_with_bars(rows, [[(COMPACTION_STYLE, len(made))] for made in by_day.values()], console)


def _table_with_bars(rows: Sequence[tuple[str, ...]], bars: Sequence[Bar], console: Console) -> Iterator[str]:
    """A table with a bar behind each row, all on one scale, where there is room for bars."""
    room = page_width(console)
    rows = fit_columns([row[0] for row in rows], [row[1:] for row in rows], room)
    head, *lines = table_lines(rows, name_and_figures(len(rows[0])), room)
    widest = max(display_width(line) for line in (head, *lines))
    cells = min(MAX_BAR, room - widest - 2)
    sizes = [sum(size for _, size in bar) for bar in bars]
    whole = max(sizes, default=0)
    yield console.style(head, "bold")
    for line, bar, size in zip(lines, bars, sizes, strict=True):
        drawn = ""
        if cells >= MIN_BAR and size:
            drawn, _ = stacked_bar(bar, size, max(1, round(size * cells / whole)), console)
        yield f"{pad(line, widest)}  {drawn}"


def _token_bar(total: UsageTotal) -> Bar:
    used = total.usage
    sizes = (used.cache_read_tokens, used.cache_write_tokens, used.input_tokens, used.output_tokens)
    return list(zip(TOKEN_STYLES.values(), sizes, strict=True))


def _group_key(total: UsageTotal, name: str) -> Any:
    return format_day(int(total.group[name])) if name == "day" else total.group[name]


def _counts(compactions: Sequence[CompactionStats], key: Callable[[CompactionStats], str]) -> dict[str, int]:
    return dict(sorted(Counter(map(key, compactions)).items()))
