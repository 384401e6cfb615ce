"""How `clew usage` looks: one table for each grouping, auxiliary calls in their own column; and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from clew.cli.amounts import cost, counted, fitted, percent, short
from clew.cli.moments import day_shown
from clew.cli.output import Align, Console, clipped, printable, table
from clew.cli.session_lookup import short_ids
from clew.cli.sessions_view import usage_json
from clew.store import UsageTotal

MARGIN = "  "
MOST_ROWS = 14
HEADINGS: tuple[str, ...] = ("calls", "prompt", "cached", "output", "cost", "auxiliary")
NO_SESSION = "(deleted)"


@dataclass(frozen=True, slots=True)
class Group:
    """Calls of one model, day, session, ..."""

    key: Any
    main: UsageTotal | None
    aside: UsageTotal | None
    """The auxiliary ones."""

    @property
    def tokens(self) -> int:
        return sum(total.usage.total_tokens for total in (self.main, self.aside) if total)


@dataclass(frozen=True, slots=True)
class Account:
    """All that `clew usage` has to say."""

    of: str
    period: str
    total: Group
    groups: Mapping[str, tuple[Group, ...]]
    titles: Mapping[str, str]
    """Of sessions, by id."""
    unpriced: tuple[str, ...]
    """Models with calls whose price is not known."""


def say_account(account: Account, console: Console, *, every_row: bool) -> None:
    """The account for people."""
    title = f"usage of {account.of}{', ' + account.period if account.period else ''}"
    console.say(MARGIN + console.paint(clipped(printable(title), console.width - 4), "bold"))
    if not _calls(account.total):
        console.say(f"{MARGIN}no calls recorded")
        return
    for total in _totals(account.total):
        for line in wrap(total, console.width - 4):
            console.say(MARGIN + line)
    for grouping, groups in account.groups.items():
        console.say()
        for line in _table(account, grouping, groups, console, every_row):
            console.say((MARGIN + line).rstrip())
    if account.unpriced:
        console.say()
        names = ", ".join(printable(name) or "(no model named)" for name in account.unpriced)
        for line in wrap(f"unknown: no price is known for some calls of {names}", console.width - 4):
            console.say(MARGIN + console.paint(line, "yellow"))


def account_json(account: Account) -> dict[str, Any]:
    return {
        "of": account.of,
        "period": account.period,
        "total": _usage(account.total.main),
        "auxiliary": _usage(account.total.aside),
        "by": {
            grouping: [
                {
                    grouping: _name_in_json(grouping, group.key),
                    **({"title": account.titles.get(group.key) or None} if grouping == "session" else {}),
                    "usage": _usage(group.main),
                    "auxiliary": _usage(group.aside),
                }
                for group in groups
            ]
            for grouping, groups in account.groups.items()
        },
        "models_without_a_price": list(account.unpriced),
    }


def _usage(total: UsageTotal | None) -> dict[str, Any] | None:
    return None if total is None or not total.calls else usage_json(total)


def _name_in_json(grouping: str, key: Any) -> Any:
    if grouping == "day":
        return day_shown(int(key))
    return (key or None) if grouping == "session" else key


def _calls(group: Group) -> int:
    return sum(total.calls for total in (group.main, group.aside) if total)


def _totals(group: Group) -> Iterator[str]:
    for words, total in (("", group.main), (" auxiliary", group.aside)):
        if total is None or (not total.calls and words):
            continue
        used = total.usage
        yield (
            f"{counted(total.calls, f'{words} call'.strip())}: {short(used.prompt_tokens)} prompt tokens, "
            f"{percent(used.cache_read_tokens, used.prompt_tokens)} of them cached, "
            f"{short(used.output_tokens)} output, cost {_paid(total)}"
        )


def _paid(total: UsageTotal) -> str:
    return cost(total.cost_micros, total.calls, total.calls_of_unknown_cost)


def _table(
    account: Account, grouping: str, groups: tuple[Group, ...], console: Console, every_row: bool
) -> Iterator[str]:
    shown = _shown(grouping, groups, every_row)
    ids = short_ids((str(group.key) for group in shown), account.titles)
    figures = [HEADINGS, *(_figures(group) for group in shown)]
    if not any(group.aside for group in shown):
        figures = [row[:-1] for row in figures]
    names = [f"by {grouping}", *(_name(account, grouping, group, ids) for group in shown)]
    rows = fitted(names, figures, console.width - 4)
    aligns: list[Align] = ["<", *([">"] * (len(rows[0]) - 1))]  # type: ignore[list-item]
    first, *lines = table(rows, aligns, console.width - 4)
    yield console.paint(first, "bold")
    yield from lines
    if len(shown) < len(groups):
        yield console.paint(f"and {len(groups) - len(shown):,} more: --all", "dim")


def _shown(grouping: str, groups: tuple[Group, ...], every_row: bool) -> list[Group]:
    """Days in order, the newest last; everything else by size."""
    if grouping == "day":
        return list(groups if every_row else groups[-MOST_ROWS:])
    largest = sorted(groups, key=lambda group: -group.tokens)
    return largest if every_row else largest[:MOST_ROWS]


def _name(account: Account, grouping: str, group: Group, ids: Mapping[str, str]) -> str:
    if grouping == "day":
        return day_shown(int(group.key))
    if grouping == "session":
        title = account.titles.get(group.key)
        name = f"{ids[group.key]}  {title}" if title else ids[group.key]
        return printable(name if group.key else NO_SESSION)
    return printable(str(group.key) or "-")


def _figures(group: Group) -> tuple[str, ...]:
    main, aside = group.main, group.aside
    if main is None:
        own: tuple[str, ...] = ("-", "-", "-", "-", "-")
    else:
        used = main.usage
        cached = percent(used.cache_read_tokens, used.prompt_tokens)
        own = (f"{main.calls:,}", short(used.prompt_tokens), cached, short(used.output_tokens), _paid(main))
    return (*own, f"{aside.calls:,}: {_paid(aside)}" if aside else "-")
