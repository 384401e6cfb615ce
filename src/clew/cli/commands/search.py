"""`clew search QUERY`: words in all that was ever said, run or summarised, whether it is still in view or not."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from clew.cli.arguments import add_period_flags, add_store_flags, one_or_more
from clew.cli.console import Console
from clew.cli.store_access import configured_store, run_with_store
from clew.cli.views.amounts import describe_period
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.views.search import SearchPage
    from clew.store import Store
    from clew.turn import FoundPage

EXAMPLES = """\
Any of the words counts; what has more of them, or has them as a phrase, comes first. Every
query is allowed, in any language: there is no syntax. A message that was compacted
ten times is found once, and a call and its result are one hit. `clew open` reads on.

examples:
  clew search "retry backoff"
  clew search connection refused --tool terminal --since 7d
  clew search 构建失败 --role user
  clew search rota --conversation 4f1c --json
"""
DEFAULT_LIMIT = 10
ROLES = ("user", "assistant", "tool", "system", "developer")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("query", metavar="QUERY", nargs="+", help="the words")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--session", metavar="SESSION", help="in one session alone")
    where.add_argument("--conversation", metavar="SESSION", help="in the whole conversation of a session")
    parser.add_argument("--role", choices=ROLES, action="append", metavar="ROLE", help=", ".join(ROLES))
    parser.add_argument("--tool", action="append", metavar="NAME", help="in results of this tool")
    add_period_flags(parser)
    parser.add_argument(
        "--limit", metavar="N", type=_limit, default=DEFAULT_LIMIT, help="how many hits at most (default %(default)s)"
    )
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    query = " ".join(arguments.query)
    if not query.strip():
        raise InvalidArgument("the query is empty; give the words to look for")
    location = configured_store(arguments, console)
    named = arguments.session or arguments.conversation
    if not location.exists and named is None:
        if arguments.json:
            console.print_json({"query": query, "hits": 0, "groups": [], "searched": None, "where": ""})
        else:
            console.print(location.empty_message)
        return 0
    page = run_with_store(location, lambda store: search_store(store, query, arguments), named=f"session {named!r}")
    from clew.cli.views.search import print_results, results_json

    where = _describe_filters(arguments)
    if arguments.json:
        console.print_json(results_json(page, where))
    else:
        print_results(page, where, console)
    return 0


async def search_store(store: Store, query: str, arguments: argparse.Namespace) -> SearchPage:
    """The hits, with the names of their sessions."""
    from clew.cli.store_access import all_session_ids, find_session, short_ids
    from clew.cli.views.search import SearchPage
    from clew.store import SearchScope
    from clew.turn import search_history

    session = (await find_session(store, arguments.session)).id if arguments.session else None
    whole = (await find_session(store, arguments.conversation)).id if arguments.conversation else None
    scope = SearchScope(
        session=session,
        conversation_of=whole,
        roles=tuple(arguments.role or ()),
        tools=tuple(arguments.tool or ()),
        since=arguments.since,
        before=arguments.until,
    )
    page = await search_history(store, query, scope, limit=arguments.limit)
    found = (it.hit.session for it in page.hits if it.hit.session)
    ids = short_ids(found, await all_session_ids(store))
    return SearchPage(page, await _first_messages(store, page), ids, is_one=bool(session or whole))


async def _first_messages(store: Store, page: FoundPage) -> dict[int | None, str]:
    """The first message of each conversation that has no title."""
    from clew.cli.views.sessions import message_preview

    first_messages: dict[int | None, str] = {}
    for hit in (found.hit for found in page.hits):
        if hit.title is None and hit.session is not None and hit.conversation not in first_messages:
            first = await store.messages(hit.session, 0, 1, keep_damaged=True)
            first_messages[hit.conversation] = message_preview(first[0].message) if first else ""
    return first_messages


def _describe_filters(arguments: argparse.Namespace) -> str:
    """The filters in words; empty for everywhere."""
    words = []
    if arguments.session:
        words.append(f"in session {arguments.session}")
    if arguments.conversation:
        words.append(f"in the conversation of {arguments.conversation}")
    if arguments.role:
        words.append(f"said by {' or '.join(arguments.role)}")
    if arguments.tool:
        words.append(f"from {' or '.join(arguments.tool)}")
    return ", ".join([*words, *filter(None, [describe_period(arguments.since, arguments.until)])])


def _limit(text: str) -> int:
    return min(one_or_more(text), 1_000)
