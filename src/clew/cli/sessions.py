"""`clew sessions list|show|tree|rename|delete|export|undo|branch`: what is kept, and what can be done with it.

Decodes arguments and finds what the reading verbs show. What changes something is in `session_changes`, the tree in
`session_tree`, the way out in `export`, and how it looks in `sessions_view`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from clew.cli import export
from clew.cli.open_store import StorePlace, add_store_flags, configured_place, with_store
from clew.cli.output import Console

if TYPE_CHECKING:
    from clew.cli.sessions_view import Listed, Shown
    from clew.store import Session, Store, StoredMessage

NAMES = """\
SESSION is an id, the beginning (s_4f1 or 4f1) or the end of one, or a title.
"""
EXAMPLES = (
    NAMES
    + """
examples:
  clew sessions list
  clew sessions show 4f1c --view
  clew sessions tree "Rota for the bakery"
  clew sessions undo 4f1c
  clew sessions export 4f1c --as anthropic --output request.json
"""
)
VERBS = "list|show|tree|rename|delete|export|undo|branch"
LIST_LIMIT = 20
SHOWN_MESSAGES = 10
OPENING_ROWS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(title="what to do", metavar=VERBS, dest="verb", required=True)
    _add_reading(verbs)
    _add_changing(verbs)
    shape = argparse.RawDescriptionHelpFormatter
    leaving = verbs.add_parser("export", help="write a conversation out, for other programs", formatter_class=shape)
    export.add_arguments(leaving)


def run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.verb == "export":
        return export.run(arguments, console)
    acts: dict[str, Callable[[argparse.Namespace, StorePlace, Console], int]] = {
        "list": _list,
        "show": _show,
        "tree": _tree,
    }
    if arguments.verb not in acts:
        # Late, like everything that needs the store, because its import takes longer than `--help` should.
        from clew.cli import session_changes

        acts |= session_changes.ACTS
        session_changes.check_use(arguments)
    return acts[arguments.verb](arguments, configured_place(arguments, console), console)


def _add_reading(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    listing = verbs.add_parser("list", help="the conversations, newest first")
    listing.add_argument("--limit", metavar="N", type=at_least_one, default=LIST_LIMIT, help="how many (default 20)")
    listing.add_argument("--before", metavar="SESSION", help="go on behind this one")
    listing.add_argument("--all", action="store_true", help="also the sessions that ended in a compaction")

    show = verbs.add_parser("show", help="one session: its chain, its compactions, its messages")
    _add_name(show)
    show.add_argument("--view", action="store_true", help="what the model sees, not the whole history")
    many = show.add_mutually_exclusive_group()
    many.add_argument("--last", metavar="N", type=at_least_one, default=SHOWN_MESSAGES, help="so many (default 10)")
    many.add_argument("--all", action="store_true", help="every message")
    show.add_argument("--full", action="store_true", help="each message whole, not one line of it")

    tree = verbs.add_parser("tree", help="the chain of continuations, with its branches")
    tree.add_argument("session", metavar="SESSION", nargs="?", help="the tree that holds it; else the newest trees")
    tree.add_argument("--limit", metavar="N", type=at_least_one, default=LIST_LIMIT, help="how many trees (default 20)")
    for verb in (listing, show, tree):
        add_store_flags(verb)


def _add_changing(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    rename = verbs.add_parser("rename", help="give a conversation a title")
    _add_name(rename)
    rename.add_argument("title", metavar="TITLE", nargs="?", help="the new title")
    rename.add_argument("--none", action="store_true", help="take the title away")

    undo = verbs.add_parser("undo", help="take back the newest compaction: the former view returns")
    _add_name(undo)

    branch = verbs.add_parser("branch", help="a session of its own that shares the beginning of another")
    _add_name(branch)
    branch.add_argument("--at", metavar="N", type=_from_zero, help="share the first N messages (default: all)")
    branch.add_argument("--title", metavar="TITLE", help="a title for the branch")

    delete = verbs.add_parser("delete", help="remove a whole conversation, for good")
    _add_name(delete)
    delete.add_argument("--yes", action="store_true", help="do not ask")
    for verb in (rename, undo, branch, delete):
        add_store_flags(verb)


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NAMES
    parser.add_argument("session", metavar="SESSION", help="an id, the beginning of one, or a title")


# -- list --------------------------------------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace, place: StorePlace, console: Console) -> int:
    from clew.cli.sessions_view import list_json, say_list

    found: list[Listed] = []
    ids: dict[str, str] = {}
    more = False
    if place.is_there or arguments.before:
        named = f"session {arguments.before!r}"
        found, ids, more = with_store(place, lambda store: _listed(store, arguments), named=named)
    if arguments.json:
        console.say_json(list_json(place.shown, found, more))
    elif place.is_there:
        say_list(place.shown, found, ids, more, console)
    else:
        console.say(place.nothing_yet)
    return 0


async def _listed(store: Store, arguments: argparse.Namespace) -> tuple[list[Listed], dict[str, str], bool]:
    from clew.cli.session_lookup import every_id, find_session, short_ids

    before = (await find_session(store, arguments.before)).id if arguments.before else None
    page = await store.list_sessions(limit=arguments.limit + 1, before=before, only_tips=not arguments.all)
    listed = [await facts_of(store, session) for session in page[: arguments.limit]]
    ids = short_ids((each.session.id for each in listed), await every_id(store))
    return listed, ids, len(page) > arguments.limit


async def facts_of(store: Store, session: Session) -> Listed:
    """What a list says of a session."""
    from clew.cli.session_lookup import stretch_of
    from clew.cli.sessions_view import Listed, said

    family = await store.sessions_of(session.conversation)
    earlier = [it for it in family if it.kind == "continuation" and it.first_seq <= session.first_seq]
    first = await store.messages(session.id, 0, OPENING_ROWS)
    opening = next((row for row in first if row.message.get("role") == "user"), first[0] if first else None)
    stretch = await stretch_of(store, session, family)
    return Listed(session, stretch, len(earlier), said(opening.message) if opening else "")


# -- show --------------------------------------------------------------------------------------------------------------


def _show(arguments: argparse.Namespace, place: StorePlace, console: Console) -> int:
    from clew.cli.sessions_view import say_shown, shown_json

    last = None if arguments.all else arguments.last
    named = f"session {arguments.session!r}"
    shown = with_store(place, lambda store: _shown(store, arguments.session, arguments.view, last), named=named)
    if arguments.json:
        console.say_json(shown_json(shown))
    else:
        say_shown(shown, console, full=arguments.full)
    return 0


async def _shown(store: Store, name: str, as_view: bool, last: int | None) -> Shown:
    from clew.cli.session_lookup import find_session, stretch_of
    from clew.cli.sessions_view import Line, Shown
    from clew.store import CallFilter

    session = await find_session(store, name)
    chain = await store.sessions_of(session.conversation)
    stretch = await stretch_of(store, session, chain)
    view = await store.view(session.id)
    if as_view:
        seen = list(zip(view.messages, view.places, strict=True))
        first = 0 if last is None else max(0, len(seen) - last)
        rows = {row.seq: row for row in await _rows_at(store, session.id, [at for _, at in seen[first:]])}
        lines = [
            Line(message, at, index in view.written, rows.get(-1 if at is None else at))
            for index, (message, at) in enumerate(seen)
            if index >= first
        ]
    else:
        first = 0 if last is None else max(0, stretch.stop - last)
        lines = [
            Line(row.message, row.seq, False, row) for row in await store.messages(session.id, first, stretch.stop)
        ]
    children = [child for each in chain for child in await store.children_of(each.id)]
    of_it = session.conversation
    return Shown(
        session=session,
        chain=tuple(chain),
        stretch=stretch,
        in_view=len(view.messages),
        compactions=tuple(await store.compactions(session.id)),
        children=tuple(child for child in children if child.kind != "continuation"),
        system=await store.system_prompt(session.id),
        calls=(await store.usage((), CallFilter(conversation=of_it, auxiliary=False)))[0],
        auxiliary=(await store.usage((), CallFilter(conversation=of_it, auxiliary=True)))[0],
        is_view=as_view,
        lines=tuple(lines),
    )


async def _rows_at(store: Store, session: str, places: list[int | None]) -> list[StoredMessage]:
    """The rows of some places, read in as few stretches as they lie in."""
    rows: list[StoredMessage] = []
    wanted = sorted({place for place in places if place is not None})
    while wanted:
        stop = next((at for at, place in enumerate(wanted) if place != wanted[0] + at), len(wanted))
        rows += await store.messages(session, wanted[0], wanted[0] + stop)
        wanted = wanted[stop:]
    return rows


# -- tree --------------------------------------------------------------------------------------------------------------


def _tree(arguments: argparse.Namespace, place: StorePlace, console: Console) -> int:
    from clew.cli.session_tree import Forest, read_forest, say_forest

    forest = Forest((), 0)
    if place.is_there or arguments.session:
        named = f"session {arguments.session!r}"
        forest = with_store(place, lambda store: read_forest(store, arguments.session, arguments.limit), named=named)
    if arguments.json:
        console.say_json(forest.as_json())
    elif place.is_there:
        say_forest(forest, console)
    else:
        console.say(place.nothing_yet)
    return 0


# -- use ---------------------------------------------------------------------------------------------------------------


def at_least_one(text: str) -> int:
    """A count. For argparse."""
    return _whole(text, 1)


def _from_zero(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; expects a whole number, {least} or more")
    return number
