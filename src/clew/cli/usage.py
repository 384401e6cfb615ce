"""`clew usage [SESSION]` and `clew insights`: tokens and cost of calls, as tables and charts, and the same as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from clew.cli.console import Console
from clew.cli.options import OneOf, command, complete_sessions, option, period_options, store_options
from clew.cli.pages import (
    NO_PRICE,
    BarStyle,
    describe_period,
    fit_columns,
    format_cost,
    format_day,
    format_dollars,
    format_saving,
    json_fields,
    name_and_figures,
    percent,
    plural,
    short_count,
    table_lines,
)
from clew.cli.store_access import NO_LIMIT, configured_store, find_session, short_ids
from clew.cli.text import clip, display_width, pad, printable
from clew.errors import InvalidArgument
from clew.usage import CanonicalUsage

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.store import CallFilter, CompactionStats, Grouping, Store, UsageTotal

USAGE_HELP = """\
SESSION is an id, the beginning of one, or a title: then its whole conversation counts.

All calls count; auxiliary ones, which no turn asked for, such as the summariser's,
are also shown apart. A cost is what the recorded prices say; where no
price is known, the page says so. Days are UTC days.

examples:
  clew usage
  clew usage --since 7d --by model
  clew usage 4f1c --json
"""
GROUPINGS: tuple[Grouping, ...] = ("model", "day", "session", "provider", "source")
INSIGHT_GROUPINGS: tuple[Grouping, ...] = ("day", "model", "source")
DEFAULT_GROUPINGS: tuple[Grouping, ...] = ("model", "day", "session")
INSIGHTS_HELP = """\
Without --since, the last 30 days. Days are UTC days.

examples:
  clew insights
  clew insights --since 7d
  clew insights --since 2026-01-01 --until 2026-01-31 --json
"""
DEFAULT_DAYS = 30
MAX_INSIGHT_DAYS = 36_500
MAX_ROWS = 14
MAX_NAME = 24
MIN_BAR, MAX_BAR = 10, 60
MAX_FILLED_DAYS = 62
MICROS = 1_000_000
HEADINGS: tuple[str, ...] = ("calls", "prompt", "cached", "output", "cost", "of it auxiliary", "saved")
OPTIONAL = ("of it auxiliary", "saved")
"""Columns that are dropped if no row has a value."""
NO_SESSION = "(deleted)"
TOKEN_STYLES = {
    "cache read": BarStyle("green", "r"),
    "cache write": BarStyle("cyan", "w"),
    "fresh": BarStyle("yellow", "f"),
    "output": BarStyle("magenta", "o"),
}
COST_STYLE = BarStyle("blue", "$")
COMPACTION_STYLE = BarStyle("red", "#")
Bar: TypeAlias = Sequence[tuple[BarStyle, int]]


@command(USAGE_HELP)
@click.argument("session", metavar="SESSION", required=False, shell_complete=complete_sessions)
@option("--by", "WHAT", ", ".join(GROUPINGS), type=OneOf(GROUPINGS), multiple=True)
@period_options
@click.option("--all", "every_row", is_flag=True, help="every row, not only the newest or largest")
@store_options
async def usage_command(
    console: Console,
    session: str | None,
    by: tuple[Grouping, ...],
    since: datetime | None,
    until: datetime | None,
    every_row: bool,
) -> int:
    location = configured_store(console)
    if not location.exists and session is None:
        empty: dict[str, Any] = {"store": location.label, "total": None, "auxiliary": None, "by": {}}
        return console.show(empty, lambda: console.print(location.empty_message))
    groupings = tuple(dict.fromkeys(by)) or DEFAULT_GROUPINGS
    async with location.open(f"session {session!r}") as store:
        report = await read_usage(store, session, since, until, groupings)
    fields = {"store": location.label, **usage_report_json(report)}
    return console.show(fields, lambda: print_usage(report, console, every_row=every_row))


@command(INSIGHTS_HELP)
@period_options
@store_options
async def insights_command(console: Console, since: datetime | None, until: datetime | None) -> int:
    location = configured_store(console)
    if not location.exists:
        empty: dict[str, Any] = {"store": location.label, "total": None, "by": {}, "compactions": None}
        return console.show(empty, lambda: console.print(location.empty_message))
    first = since or (until or datetime.now(UTC)) - timedelta(days=DEFAULT_DAYS)
    async with location.open() as store:
        insights = await read_insights(store, first, until)
    fields = {"store": location.label, **insights_json(insights)}
    return console.show(fields, lambda: print_insights(insights, console))


async def read_usage(
    store: Store, name: str | None, since: datetime | None, until: datetime | None, by: tuple[Grouping, ...]
) -> UsageReport:
    """Add up the calls of a session, or of all sessions."""
    from clew.store import CallFilter

    session = await find_session(store, name) if name else None
    family = await conversation_family(store, session.id) if session else None
    asked = CallFilter(conversations=family, since=since, before=until)
    titles: dict[str, str] = {}
    if "session" in by:
        titles = {it.id: it.title or "" for it in await store.list_sessions(limit=NO_LIMIT)}
    unpriced = [each.group["model"] for each in await store.usage(("model",), asked) if each.calls_of_unknown_cost]
    return UsageReport(
        of=(session.title or session.id) if session else "all sessions",
        period=describe_period(since, until),
        total=(await _read_groups(store, asked, None))[0],
        groups={grouping: await _read_groups(store, asked, grouping) for grouping in by},
        titles=titles,
        unpriced=tuple(unpriced),
    )


async def conversation_family(store: Store, session: str) -> list[int]:
    """The conversation of a session and those that it branched from, where undone questions were paid."""
    family: list[int] = []
    at: str | None = session
    while at is not None:
        found = await store.session(at)
        if found.conversation in family:
            break
        family.append(found.conversation)
        at = (await store.sessions_of(found.conversation))[0].parent_session_id
    return family


async def _read_groups(store: Store, asked: CallFilter, grouping: Grouping | None) -> tuple[UsageGroup, ...]:
    """Calls by a grouping, or all in one group, each with its auxiliary calls."""
    totals, auxiliary = [
        {
            each.group[grouping] if grouping else "": each
            for each in await store.usage((grouping,) if grouping else (), which)
        }
        for which in (asked, replace(asked, auxiliary=True))
    ]
    return tuple(UsageGroup(key, totals[key], auxiliary.get(key)) for key in sorted(totals))


async def read_insights(store: Store, first: datetime, last: datetime | None) -> UsageReport:
    """Add up calls and compactions of a period by day, model and source."""
    report = await read_usage(store, None, first, last, INSIGHT_GROUPINGS)
    return replace(report, compactions=tuple(await store.compaction_stats(first, last)))


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """Calls with the same key: a model, day, session, ..."""

    key: Any
    total: UsageTotal
    auxiliary: UsageTotal | None
    """Calls outside of turns, such as those of the summariser."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Calls added up, in total and by groupings."""

    of: str
    period: str
    total: UsageGroup
    groups: Mapping[Grouping, tuple[UsageGroup, ...]]
    titles: Mapping[str, str]
    """Titles of sessions by id."""
    unpriced: tuple[str, ...]
    """Models with calls whose price is not known."""
    compactions: tuple[CompactionStats, ...] = ()


def usage_json(total: UsageTotal) -> dict[str, Any]:
    """Calls as JSON; `cost_usd` is the cost of calls with a known price, None if no call has one."""
    return {
        "calls": total.calls,
        **total.usage.as_json(),
        "cost_usd": total.cost_usd,
        "calls_of_unknown_cost": total.calls_of_unknown_cost,
        "cache_hits": total.cache_hits,
        "saved": _saved_json(total) if total.compared_calls else None,
    }


def _saved_json(total: UsageTotal) -> dict[str, Any]:
    """Savings compared with direct calls."""
    return {
        **json_fields(total, "compared_calls"),
        "cost_direct_usd": total.cost_direct_micros / MICROS,
        "cost_usd": total.cost_compared_micros / MICROS,
        "saved_usd": total.saved_micros / MICROS,
        **json_fields(total, "calls_of_unknown_saving"),
    }


def cost_text(total: UsageTotal) -> str:
    return format_cost(total.cost_micros, total.calls, total.calls_of_unknown_cost)


def calls_text(total: UsageTotal, auxiliary: UsageTotal | None) -> str:
    """Calls, tokens and cost in a sentence, with the share of auxiliary calls."""
    if not total.calls:
        return "no calls recorded"
    extra = ""
    if auxiliary is not None and auxiliary.calls:
        extra = f", of it {cost_text(auxiliary)} for {plural(auxiliary.calls, 'auxiliary call')}"
    return (
        f"{plural(total.calls, 'call')}: {short_count(total.usage.prompt_tokens)} prompt tokens, "
        f"{cached_percent(total)} of them cached, {short_count(total.usage.output_tokens)} output, "
        f"cost {cost_text(total)}{extra}"
    )


def saved_text(total: UsageTotal) -> str:
    """Savings compared with direct calls, in a sentence; empty without compared calls."""
    if not total.compared_calls:
        return ""
    compared = plural(total.compared_calls, "call")
    cost, direct = (format_dollars(it / MICROS) for it in (total.cost_compared_micros, total.cost_direct_micros))
    unknown = total.calls_of_unknown_saving
    without = f"; unknown for {plural(unknown, 'more call')}" if unknown else ""
    saved = format_saving(total.saved_micros)
    return f"saved {saved}: {compared} for {cost}, summaries included, would have cost {direct} directly{without}"


def cached_percent(total: UsageTotal) -> str:
    return percent(total.usage.cache_read_tokens, total.usage.prompt_tokens)


def print_usage(report: UsageReport, console: Console, *, every_row: bool) -> None:
    blocks = [_usage_head(report, console)]
    if report.total.total.calls:
        blocks += [_usage_table(report, grouping, console, every_row) for grouping in report.groups]
    if report.unpriced:
        names = ", ".join(printable(name) or "(no model named)" for name in report.unpriced)
        blocks.append(console.styled_lines(f"{NO_PRICE} is known for some calls of {names}", "yellow"))
    console.print_blocks(blocks)


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
    yield console.style(clip(printable(title), console.page_width), "bold")
    total = report.total.total
    yield from console.styled_lines(calls_text(total, report.total.auxiliary))
    yield from console.styled_lines(saved_text(total))


def _usage_table(report: UsageReport, grouping: Grouping, console: Console, every_row: bool) -> Iterator[str]:
    groups = report.groups[grouping]
    chosen = _chosen_groups(grouping, groups, every_row)
    ids = short_ids((str(group.key) for group in chosen), report.titles)
    figures = [HEADINGS, *(_figures(group) for group in chosen)]
    empty = {heading for heading, *cells in zip(*figures, strict=True) if heading in OPTIONAL and set(cells) <= {"-"}}
    shown = [at for at, heading in enumerate(HEADINGS) if heading not in empty]
    figures = [tuple(row[at] for at in shown) for row in figures]
    names = [f"by {grouping}", *(_group_name(report, grouping, group, ids) for group in chosen)]
    rows = fit_columns(names, figures, console.page_width)
    yield from console.headed_table(rows, name_and_figures(len(rows[0])), 0, "bold")
    if len(chosen) < len(groups):
        yield console.style(f"and {len(groups) - len(chosen):,} more: --all", "dim")


def _chosen_groups(grouping: str, groups: tuple[UsageGroup, ...], every_row: bool) -> list[UsageGroup]:
    """The newest days in order, or the largest groups."""
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


def print_insights(report: UsageReport, console: Console) -> None:
    title = console.styled_lines(f"insights {report.period}".strip(), "bold")
    calls = console.styled_lines(calls_text(report.total.total, report.total.auxiliary))
    blocks: list[Iterable[str]] = [chain(title, calls)]
    if report.total.total.calls:
        days = _fill_days(report.groups["day"])
        blocks += [_tokens_by_day(days, console), _cost_by_day(days, console)]
        blocks += [_by_group(report, name, console) for name in ("model", "source")]
    if report.compactions:
        blocks.append(_compactions_by_day(report.compactions, console))
    console.print_blocks(blocks)


def insights_json(report: UsageReport) -> dict[str, Any]:
    compactions = report.compactions
    return {
        "period": report.period,
        "total": usage_json(report.total.total),
        "auxiliary": usage_json(report.total.auxiliary or _no_calls()),
        "by": {
            name: [{name: _key_json(name, group.key), **usage_json(group.total)} for group in groups]
            for name, groups in report.groups.items()
        },
        "compactions": {
            "count": len(compactions),
            "tokens_freed": sum(each.before - each.after for each in compactions),
            "by_day": _counts(compactions, "day"),
            "by_model": _counts(compactions, "model"),
            "by_source": _counts(compactions, "source"),
            "each": [
                {
                    **json_fields(each, "at", "model", "source"),
                    "tokens_before": each.before,
                    "tokens_after": each.after,
                }
                for each in compactions
            ],
        },
    }


def _tokens_by_day(days: Sequence[UsageGroup], console: Console) -> Iterator[str]:
    """Tokens by day, with a bar of token kinds for each day."""
    rows = [("tokens by day", "calls", "tokens", "cached")]
    rows += [(format_day(day.key), *_tokens_of(day.total)) for day in days]
    yield from _table_with_bars(rows, [_token_bar(day.total) for day in days], console)
    legend = [f"{console.bar_cells(style, 1)} {console.style(kind, 'dim')}" for kind, style in TOKEN_STYLES.items()]
    whole = sum(len(kind) + 4 for kind in TOKEN_STYLES) - 2
    yield from ["  ".join(legend)] if whole <= console.page_width else legend


def _cost_by_day(days: Sequence[UsageGroup], console: Console) -> Iterator[str]:
    rows = [("cost by day", "cost"), *((format_day(day.key), cost_text(day.total)) for day in days)]
    yield from _table_with_bars(rows, [[(COST_STYLE, day.total.cost_micros)] for day in days], console)


def _fill_days(days: Sequence[UsageGroup]) -> list[UsageGroup]:
    """The days with those without calls between them, unless the period is too long for a chart."""
    known = {int(day.key): day.total for day in days}
    first, last = min(known), max(known)
    every = known if last - first > MAX_FILLED_DAYS else range(first, last + 1)
    return [UsageGroup(day, known.get(day) or _no_calls(), None) for day in every]


def _no_calls() -> UsageTotal:
    from clew.store import UsageTotal

    return UsageTotal({}, 0, CanonicalUsage(), 0, 0)


def _by_group(report: UsageReport, name: Literal["model", "source"], console: Console) -> Iterator[str]:
    """Tokens by model or source, the largest first."""
    largest = sorted(report.groups[name], key=lambda group: -group.total.usage.total_tokens)
    folds = _counts(report.compactions, name)
    rows: list[tuple[str, ...]] = [(f"by {name}", "calls", "tokens", "cached", "cost", "folds")]
    for group in largest:
        shown = clip(printable(str(group.key) or "-"), MAX_NAME)
        figures = (*_tokens_of(group.total), cost_text(group.total), f"{folds.get(str(group.key), 0):,}")
        rows.append((shown, *figures))
    yield from _table_with_bars(rows, [_token_bar(group.total) for group in largest], console)


def _tokens_of(total: UsageTotal) -> tuple[str, str, str]:
    return f"{total.calls:,}", short_count(total.usage.total_tokens), cached_percent(total)


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
    room = console.page_width
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
            drawn, _ = console.stacked_bar(bar, size, max(1, round(size * cells / whole)))
        yield f"{pad(line, widest)}  {drawn}"


def _token_bar(total: UsageTotal) -> Bar:
    used = total.usage
    sizes = (used.cache_read_tokens, used.cache_write_tokens, used.input_tokens, used.output_tokens)
    return list(zip(TOKEN_STYLES.values(), sizes, strict=True))


def _counts(compactions: Sequence[CompactionStats], name: str) -> dict[str, int]:
    keys = (getattr(each, name) for each in compactions)
    return dict(sorted(Counter(format_day(key) if name == "day" else key for key in keys).items()))


# -- in a chat ---------------------------------------------------------------------------------------------------------


async def run_usage(state: ChatState, words: str) -> None:
    if words not in ("", "all"):
        raise InvalidArgument(
            f"/usage {words} is not known", remedy="/usage is this conversation, /usage all everything"
        )
    # A conversation has its sessions in a row: by session only where there are several conversations.
    by: tuple[Grouping, ...] = DEFAULT_GROUPINGS if words else ("model", "day")
    report = await read_usage(state.app.store, None if words else state.session, None, None, by)
    state.show_page(lambda console: print_usage(report, console, every_row=False))


async def run_insights(state: ChatState, words: str) -> None:
    days = int(words) if words.isascii() and words.isdigit() and len(words) < 6 else 0 if words else DEFAULT_DAYS
    if not 1 <= days <= MAX_INSIGHT_DAYS:
        raise InvalidArgument(
            f"/insights {words} is not allowed", remedy=f"it takes a number of days from 1 to {MAX_INSIGHT_DAYS:,}"
        )
    insights = await read_insights(state.app.store, datetime.now(UTC) - timedelta(days=days), None)
    state.show_page(lambda console: print_insights(insights, console))
