"""`clew usage [SESSION]`: tokens and cost of every call, by model, day and session; auxiliary calls apart.

Asks the store for sums; how they look is in `usage_view`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from clew.cli.moments import add_period, period_in_words
from clew.cli.open_store import add_store_flags, configured_place, with_store
from clew.cli.output import Console

if TYPE_CHECKING:
    from clew.cli.usage_view import Account, Group
    from clew.store import CallFilter, Grouping, Store

EXAMPLES = """\
SESSION is an id, the beginning of one, or a title: then its whole conversation counts.

Auxiliary calls are those that no turn asked for, such as the summariser's. A cost
is what the recorded prices say; where no price is known, that is said. Days are
those of UTC.

examples:
  clew usage
  clew usage --since 7d --by model
  clew usage 4f1c --json
"""
GROUPINGS: tuple[Grouping, ...] = ("model", "day", "session", "provider", "source")
BY_DEFAULT: tuple[Grouping, ...] = ("model", "day", "session")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("session", metavar="SESSION", nargs="?", help="only this conversation")
    parser.add_argument("--by", choices=GROUPINGS, action="append", metavar="WHAT", help=", ".join(GROUPINGS))
    add_period(parser)
    parser.add_argument("--all", action="store_true", help="every row, not only the newest or largest")
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    place = configured_place(arguments, console)
    if not place.is_there and arguments.session is None:
        if arguments.json:
            console.say_json({"store": place.shown, "total": None, "auxiliary": None, "by": {}})
        else:
            console.say(place.nothing_yet)
        return 0
    by: tuple[Grouping, ...] = tuple(dict.fromkeys(arguments.by)) if arguments.by else BY_DEFAULT

    async def work(store: Store) -> Account:
        return await account_of(store, arguments, by)

    account = with_store(place, work, named=f"session {arguments.session!r}")
    from clew.cli.usage_view import account_json, say_account

    if arguments.json:
        console.say_json({"store": place.shown, **account_json(account)})
    else:
        say_account(account, console, every_row=arguments.all)
    return 0


async def account_of(store: Store, arguments: argparse.Namespace, by: tuple[Grouping, ...]) -> Account:
    """What was used, as the arguments ask for it."""
    from clew.cli.session_lookup import EVERY_ONE, find_session
    from clew.cli.usage_view import Account
    from clew.store import CallFilter

    session = await find_session(store, arguments.session) if arguments.session else None
    conversation = session.conversation if session else None
    asked = CallFilter(conversation=conversation, since=arguments.since, before=arguments.until)
    titles: dict[str, str] = {}
    if "session" in by:
        titles = {it.id: it.title or "" for it in await store.list_sessions(limit=EVERY_ONE)}
    return Account(
        of=(session.title or session.id) if session else "all sessions",
        period=period_in_words(arguments.since, arguments.until),
        total=await _group(store, asked),
        groups={grouping: await _groups(store, asked, grouping) for grouping in by},
        titles=titles,
        unpriced=tuple(await _unpriced(store, asked)),
    )


async def _group(store: Store, asked: CallFilter) -> Group:
    """All calls as one group."""
    from clew.cli.usage_view import Group

    main, aside = [(await store.usage((), which))[0] for which in _apart(asked)]
    return Group("", main, aside)


async def _groups(store: Store, asked: CallFilter, grouping: Grouping) -> tuple[Group, ...]:
    from clew.cli.usage_view import Group

    main, aside = [
        {total.group[grouping]: total for total in await store.usage((grouping,), which)} for which in _apart(asked)
    ]
    return tuple(Group(key, main.get(key), aside.get(key)) for key in sorted({*main, *aside}))


async def _unpriced(store: Store, asked: CallFilter) -> list[str]:
    return [total.group["model"] for total in await store.usage(("model",), asked) if total.calls_of_unknown_cost]


def _apart(asked: CallFilter) -> tuple[CallFilter, CallFilter]:
    from dataclasses import replace

    return replace(asked, auxiliary=False), replace(asked, auxiliary=True)
