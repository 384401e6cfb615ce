"""`/usage` and `/insights`: what calls took and cost, by the views of the commands of the same names."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from clew.cli.insights import DEFAULT_DAYS, insights_of
from clew.cli.insights_view import say_insights
from clew.cli.tui.commands.page import show
from clew.cli.usage import BY_DEFAULT, account_of
from clew.cli.usage_view import say_account
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.store import Grouping

MOST_DAYS = 36_500


async def usage(state: ChatState, words: str) -> None:
    if words not in ("", "all"):
        raise InvalidArgument(f"/usage {words} is not known; /usage is this conversation, /usage all everything")
    # A conversation has its sessions in a row: by session only where there are several conversations.
    by: tuple[Grouping, ...] = BY_DEFAULT if words else ("model", "day")
    asked = Namespace(session=None if words else state.session, since=None, until=None)
    account = await account_of(state.desk.store, asked, by)
    show(state, lambda console: say_account(account, console, every_row=False))


async def insights(state: ChatState, words: str) -> None:
    days = int(words) if words.isascii() and words.isdigit() and len(words) < 6 else 0 if words else DEFAULT_DAYS
    if not 1 <= days <= MOST_DAYS:
        raise InvalidArgument(f"/insights {words} is not allowed; it takes a number of days from 1 to {MOST_DAYS:,}")
    found = await insights_of(state.desk.store, datetime.now(UTC) - timedelta(days=days), None)
    show(state, lambda console: say_insights(found, console))
