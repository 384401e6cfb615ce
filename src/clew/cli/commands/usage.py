"""`clew usage [SESSION]`: tokens and cost of calls, by model, day and session, and what auxiliary ones took of it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from clew.cli.arguments import add_period_flags, add_store_flags
from clew.cli.console import Console
from clew.cli.store_access import configured_store, run_with_store
from clew.cli.views.amounts import describe_period

if TYPE_CHECKING:
    from clew.cli.views.usage import UsageGroup, UsageReport
    from clew.store import CallFilter, Grouping, Store

EXAMPLES = """\
SESSION is an id, the beginning of one, or a title: then its whole conversation counts.

All calls count; auxiliary ones, which no turn asked for, such as the summariser's,
are also shown apart. A cost is what the recorded prices say; where no
price is known, that is said. Days are those of UTC.

examples:
  clew usage
  clew usage --since 7d --by model
  clew usage 4f1c --json
"""
GROUPINGS: tuple[Grouping, ...] = ("model", "day", "session", "provider", "source")
DEFAULT_GROUPINGS: tuple[Grouping, ...] = ("model", "day", "session")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("session", metavar="SESSION", nargs="?", help="only this conversation")
    parser.add_argument("--by", choices=GROUPINGS, action="append", metavar="WHAT", help=", ".join(GROUPINGS))
    add_period_flags(parser)
    parser.add_argument("--all", action="store_true", help="every row, not only the newest or largest")
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    location = configured_store(arguments, console)
    if not location.exists and arguments.session is None:
        if arguments.json:
            console.print_json({"store": location.label, "total": None, "auxiliary": None, "by": {}})
        else:
            console.print(location.empty_message)
        return 0
    by: tuple[Grouping, ...] = tuple(dict.fromkeys(arguments.by)) if arguments.by else DEFAULT_GROUPINGS
    named = f"session {arguments.session!r}"
    report = run_with_store(location, lambda store: read_usage(store, arguments, by), named=named)
    from clew.cli.views.usage import print_usage, usage_report_json

    if arguments.json:
        console.print_json({"store": location.label, **usage_report_json(report)})
    else:
        print_usage(report, console, every_row=arguments.all)
    return 0


async def read_usage(store: Store, arguments: argparse.Namespace, by: tuple[Grouping, ...]) -> UsageReport:
    """Calls added up as `arguments` (session, since, until) and the groupings ask for it."""
    from clew.cli.store_access import NO_LIMIT, find_session
    from clew.cli.views.usage import UsageReport
    from clew.store import CallFilter

    session = await find_session(store, arguments.session) if arguments.session else None
    conversation = session.conversation if session else None
    asked = CallFilter(conversation=conversation, since=arguments.since, before=arguments.until)
    titles: dict[str, str] = {}
    if "session" in by:
        titles = {it.id: it.title or "" for it in await store.list_sessions(limit=NO_LIMIT)}
    return UsageReport(
        of=(session.title or session.id) if session else "all sessions",
        period=describe_period(arguments.since, arguments.until),
        total=await _read_total(store, asked),
        groups={grouping: await _read_groups(store, asked, grouping) for grouping in by},
        titles=titles,
        unpriced=tuple(await _unpriced_models(store, asked)),
    )


async def _read_total(store: Store, asked: CallFilter) -> UsageGroup:
    """All calls as one group."""
    from clew.cli.views.usage import UsageGroup

    total, auxiliary = [(await store.usage((), which))[0] for which in _all_and_auxiliary(asked)]
    return UsageGroup("", total, auxiliary)


async def _read_groups(store: Store, asked: CallFilter, grouping: Grouping) -> tuple[UsageGroup, ...]:
    from clew.cli.views.usage import UsageGroup

    totals, auxiliary = [
        {total.group[grouping]: total for total in await store.usage((grouping,), which)}
        for which in _all_and_auxiliary(asked)
    ]
    return tuple(UsageGroup(key, totals[key], auxiliary.get(key)) for key in sorted(totals))


async def _unpriced_models(store: Store, asked: CallFilter) -> list[str]:
    return [total.group["model"] for total in await store.usage(("model",), asked) if total.calls_of_unknown_cost]


def _all_and_auxiliary(asked: CallFilter) -> tuple[CallFilter, CallFilter]:
    from dataclasses import replace

    return asked, replace(asked, auxiliary=True)
