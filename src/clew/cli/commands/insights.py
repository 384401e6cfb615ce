"""`clew insights`: where tokens and money went, what the cache saved and what was compacted, as tables and charts."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from clew.cli.arguments import add_period_flags, add_store_flags
from clew.cli.console import Console
from clew.cli.store_access import configured_store, run_with_store
from clew.cli.views.amounts import describe_period

if TYPE_CHECKING:
    from clew.cli.views.usage import Insights
    from clew.store import Store

EXAMPLES = """\
Without --since, the last 30 days. Days are those of UTC.

examples:
  clew insights
  clew insights --since 7d
  clew insights --since 2026-01-01 --until 2026-01-31 --json
"""
DEFAULT_DAYS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    add_period_flags(parser)
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    location = configured_store(arguments, console)
    first = arguments.since
    if first is None:
        first = (arguments.until or datetime.now(UTC)) - timedelta(days=DEFAULT_DAYS)
    if not location.exists:
        if arguments.json:
            console.print_json({"store": location.label, "total": None, "by": {}, "compactions": None})
        else:
            console.print(location.empty_message)
        return 0
    insights = run_with_store(location, lambda store: read_insights(store, first, arguments.until), named="insights")
    from clew.cli.views.usage import insights_json, print_insights

    if arguments.json:
        console.print_json({"store": location.label, **insights_json(insights)})
    else:
        print_insights(insights, console)
    return 0


async def read_insights(store: Store, first: datetime, last: datetime | None) -> Insights:
    """Calls and compactions between two moments, added up by day, model and source."""
    from clew.cli.views.usage import Insights
    from clew.store import CallFilter

    period = CallFilter(since=first, before=last)
    return Insights(
        period=describe_period(first, last),
        total=(await store.usage((), period))[0],
        auxiliary=(await store.usage((), CallFilter(since=first, before=last, auxiliary=True)))[0],
        days=tuple(await store.usage(("day",), period)),
        models=tuple(await store.usage(("model",), period)),
        sources=tuple(await store.usage(("source",), period)),
        compactions=tuple(await store.compaction_stats(first, last)),
    )
