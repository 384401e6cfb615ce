"""`clew search QUERY`: words in everything that was ever said, run or summarised, whether it is still in view or not.

Decodes filters and asks the store; how the answer looks is in `search_view`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from clew.cli.moments import add_period, period_in_words
from clew.cli.open_store import add_store_flags, configured_place, with_store
from clew.cli.output import Console
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.search_view import Answered
    from clew.store import SearchAnswer, Store

EXAMPLES = """\
Any of the words counts; what has more of them, or has them as a phrase, comes first. Every
query is allowed, in any language: there is no syntax. A message that was compacted
ten times is found once.

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
    add_period(parser)
    parser.add_argument(
        "--limit", metavar="N", type=_limit, default=DEFAULT_LIMIT, help="how many hits at most (default %(default)s)"
    )
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    query = " ".join(arguments.query)
    if not query.strip():
        raise InvalidArgument("the query is empty; give the words to look for")
    place = configured_place(arguments, console)
    named = arguments.session or arguments.conversation
    if not place.is_there and named is None:
        if arguments.json:
            console.say_json({"query": query, "hits": 0, "groups": [], "searched": None, "where": ""})
        else:
            console.say(place.nothing_yet)
        return 0

    async def work(store: Store) -> Answered:
        return await answer_to(store, query, arguments)

    answered = with_store(place, work, named=f"session {named!r}")
    from clew.cli.search_view import answer_json, say_answer

    where = _where(arguments)
    if arguments.json:
        console.say_json(answer_json(answered, where))
    else:
        say_answer(answered, where, console)
    return 0


async def answer_to(store: Store, query: str, arguments: argparse.Namespace) -> Answered:
    """The hits, with the names of their sessions."""
    from clew.cli.search_view import Answered
    from clew.cli.session_lookup import every_id, find_session, short_ids
    from clew.store import SearchScope

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
    answer = await store.search(query, scope, limit=arguments.limit)
    found = (hit.session for hit in answer.hits if hit.session)
    return Answered(answer, await _openings(store, answer), short_ids(found, await every_id(store)))


async def _openings(store: Store, answer: SearchAnswer) -> dict[int | None, str]:
    """How the conversations without a title begin."""
    from clew.cli.sessions_view import said

    openings: dict[int | None, str] = {}
    for group in answer.groups:
        session = next((hit.session for hit in group.hits if hit.session), None)
        if group.title is None and session is not None:
            first = await store.messages(session, 0, 1)
            openings[group.conversation] = said(first[0].message) if first else ""
    return openings


def _where(arguments: argparse.Namespace) -> str:
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
    return ", ".join([*words, *filter(None, [period_in_words(arguments.since, arguments.until)])])


def _limit(text: str) -> int:
    from clew.cli.sessions import at_least_one

    return min(at_least_one(text), 1_000)
