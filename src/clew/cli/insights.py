"""`clew insights`: where tokens and money went, how much the cache saved, and what was compacted, as tables and charts.

Asks the store for sums by day, model and source; how they look is in `insights_view`.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from clew.cli.moments import add_period, period_in_words
from clew.cli.open_store import add_store_flags, configured_place, with_store
from clew.cli.output import Console

if TYPE_CHECKING:
    from clew.cli.insights_view import Fold, Insights
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
    add_period(parser)
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    place = configured_place(arguments, console)
    first = arguments.since
    if first is None:
        first = (arguments.until or datetime.now(UTC)) - timedelta(days=DEFAULT_DAYS)
    if not place.is_there:
        if arguments.json:
            console.say_json({"store": place.shown, "total": None, "by": {}, "compactions": None})
        else:
            console.say(place.nothing_yet)
        return 0

    async def work(store: Store) -> Insights:
        return await insights_of(store, first, arguments.until)

    insights = with_store(place, work, named="insights")
    from clew.cli.insights_view import insights_json, say_insights

    if arguments.json:
        console.say_json({"store": place.shown, **insights_json(insights)})
    else:
        say_insights(insights, console)
    return 0


async def insights_of(store: Store, first: datetime, last: datetime | None) -> Insights:
    """Where tokens and money went between two moments."""
    from clew.cli.insights_view import Insights
    from clew.store import CallFilter

    asked = CallFilter(since=first, before=last)
    whole = (await store.usage((), asked))[0]
    aside = (await store.usage((), CallFilter(since=first, before=last, auxiliary=True)))[0]
    return Insights(
        period=period_in_words(first, last),
        total=whole,
        auxiliary=aside,
        days=tuple(await store.usage(("day",), asked)),
        models=tuple(await store.usage(("model",), asked)),
        sources=tuple(await store.usage(("source",), asked)),
        folds=tuple(await _folds(store, first, last)),
    )


async def _folds(store: Store, first: datetime, last: datetime | None) -> list[Fold]:
    """The compactions of that time, each with the model and the source of its session."""
    from clew.cli.insights_view import Fold
    from clew.cli.session_lookup import EVERY_ONE

    sessions = {it.id: it for it in await store.list_sessions(limit=EVERY_ONE)}
    # A compaction opens a continuation: conversations without one need not be asked.
    asked = {it.conversation: it.id for it in sessions.values() if it.kind == "continuation"}
    folds: list[Fold] = []
    for session in asked.values():
        for each in await store.compactions(session):
            if first <= each.at and (last is None or each.at < last):
                opened = sessions[each.session]
                entry = each.entry
                folds.append(Fold(each.at, opened.model or "", opened.source, entry.tokens_before, entry.tokens_after))
    return folds
