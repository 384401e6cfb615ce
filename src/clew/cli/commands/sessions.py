"""`clew sessions list|show|tree|state|rename|delete|export|undo|branch`: what is kept, and what can be done with it.

The verbs that change something are in `session_changes`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from clew.cli.arguments import add_store_flags, message_number, one_or_more, zero_or_more
from clew.cli.commands import export
from clew.cli.console import Console
from clew.cli.store_access import StoreLocation, configured_store, run_with_store
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.views.node_map import MapPage
    from clew.cli.views.sessions import SessionDetails, SessionListItem
    from clew.store import Session, Store, StoredMessage

NAMES_EPILOG = """\
SESSION is an id, the beginning (s_4f1 or 4f1) or the end of one, or a title.
"""
EXAMPLES = (
    NAMES_EPILOG
    + """
examples:
  clew sessions list
  clew sessions show 4f1c --view
  clew sessions tree "Rota for the bakery"
  clew sessions state 4f1c --at m120
  clew sessions undo 4f1c
  clew sessions export 4f1c --as anthropic --output request.json
"""
)
VERBS = "list|show|tree|state|rename|delete|export|undo|branch"
LIST_LIMIT = 20
DEFAULT_MESSAGES = 10
FIRST_ROWS = 3
STATE_KINDS = ("tasks", "branch", "commits", "tests", "services", "settings", "files", "rules", "decisions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(title="what to do", metavar=VERBS, dest="verb", required=True)
    _add_reading(verbs)
    _add_changing(verbs)
    exporting = verbs.add_parser("export", help="write a conversation to a file, for other programs")
    export.add_arguments(exporting)


def run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.verb == "export":
        return export.run(arguments, console)
    actions: dict[str, Callable[[argparse.Namespace, StoreLocation, Console], int]] = {
        "list": _list,
        "show": _show,
        "tree": _tree,
        "state": _state,
    }
    if arguments.verb not in actions:
        # Late, like everything that needs the store, because its import takes longer than `--help` should.
        from clew.cli.commands import session_changes

        actions |= session_changes.ACTIONS
        session_changes.check_arguments(arguments, console)
    return actions[arguments.verb](arguments, configured_store(arguments, console), console)


def _add_reading(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    listing = verbs.add_parser("list", help="the conversations, newest first")
    listing.add_argument("--limit", metavar="N", type=one_or_more, default=LIST_LIMIT, help="how many (default 20)")
    listing.add_argument("--before", metavar="SESSION", help="continue after this one")
    listing.add_argument("--all", action="store_true", help="also the sessions that ended in a compaction")

    show = verbs.add_parser("show", help="one session: its chain, its compactions, its messages")
    _add_name(show)
    show.add_argument("--view", action="store_true", help="what the model sees, not the whole history")
    many = show.add_mutually_exclusive_group()
    many.add_argument(
        "--last", metavar="N", type=one_or_more, default=DEFAULT_MESSAGES, help="how many messages (default 10)"
    )
    many.add_argument("--all", action="store_true", help="every message")
    show.add_argument("--full", action="store_true", help="each message whole, not one line of it")

    tree = verbs.add_parser("tree", help="the chain of continuations, with its branches")
    tree.add_argument("session", metavar="SESSION", nargs="?", help="the tree that holds it; else the newest trees")
    tree.add_argument("--limit", metavar="N", type=one_or_more, default=LIST_LIMIT, help="how many trees (default 20)")
    tree.add_argument("--nodes", action="store_true", help="with the map of SESSION, part by part")

    state = verbs.add_parser("state", help="files, tests, settings, rules, tasks: values now, or at a message")
    _add_name(state)
    state.add_argument("--at", metavar="MESSAGE", type=message_number, help="as it was after this message: m120")
    state.add_argument("--kind", metavar="KIND", choices=STATE_KINDS, help=f"only these: {', '.join(STATE_KINDS)}")
    state.add_argument("--all", action="store_true", help="not only the newest of each kind")
    for verb in (listing, show, tree, state):
        add_store_flags(verb)


def _add_changing(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    rename = verbs.add_parser("rename", help="give a conversation a title")
    _add_name(rename)
    rename.add_argument("title", metavar="TITLE", nargs="?", help="the new title")
    rename.add_argument("--none", action="store_true", help="take the title away")

    undo = verbs.add_parser("undo", help="take back the newest compaction: the former view returns")
    _add_name(undo)

    branch = verbs.add_parser("branch", help="start a new session from the beginning of another")
    _add_name(branch)
    branch.add_argument("--at", metavar="N", type=zero_or_more, help="share the first N messages (default: all)")
    branch.add_argument("--title", metavar="TITLE", help="a title for the branch")

    delete = verbs.add_parser("delete", help="remove a whole conversation, for good")
    _add_name(delete)
    delete.add_argument("--yes", action="store_true", help="do not ask")
    for verb in (rename, undo, branch, delete):
        add_store_flags(verb)


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NAMES_EPILOG
    parser.add_argument("session", metavar="SESSION", help="an id, the beginning of one, or a title")


# -- list --------------------------------------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    from clew.cli.views.sessions import list_json, print_list

    items: list[SessionListItem] = []
    ids: dict[str, str] = {}
    more = False
    if location.exists or arguments.before:
        named = f"session {arguments.before!r}"
        items, ids, more = run_with_store(location, lambda store: _read_list(store, arguments), named=named)
    if arguments.json:
        console.print_json(list_json(location.label, items, more))
    elif location.exists:
        print_list(location.label, items, ids, more, console)
    else:
        console.print(location.empty_message)
    return 0


async def _read_list(store: Store, arguments: argparse.Namespace) -> tuple[list[SessionListItem], dict[str, str], bool]:
    from clew.cli.store_access import all_session_ids, find_session, short_ids

    before = (await find_session(store, arguments.before)).id if arguments.before else None
    page = await store.list_sessions(limit=arguments.limit + 1, before=before, only_tips=not arguments.all)
    items = [await list_item(store, session) for session in page[: arguments.limit]]
    ids = short_ids((each.session.id for each in items), await all_session_ids(store))
    return items, ids, len(page) > arguments.limit


async def list_item(store: Store, session: Session) -> SessionListItem:
    """What a list shows of a session."""
    from clew.cli.store_access import session_range
    from clew.cli.views.sessions import SessionListItem, message_preview

    family = await store.sessions_of(session.conversation)
    until = next(number for number, it in enumerate(family) if it.id == session.id)
    earlier = {it.id for it in family[: until + 1]}
    # Only a compaction opens another session: conversations of one need not be asked.
    made = await store.compactions(session.id, keep_damaged=True) if until else []
    first = await store.messages(session.id, 0, FIRST_ROWS, keep_damaged=True)
    shown = next((row for row in first if row.message.get("role") == "user"), first[0] if first else None)
    span = await session_range(store, session, family)
    folds = sum(each.is_in_effect and each.session in earlier for each in made)
    return SessionListItem(session, span, folds, message_preview(shown.message) if shown else "")


# -- show --------------------------------------------------------------------------------------------------------------


def _show(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    from clew.cli.store_access import damage_notes
    from clew.cli.views.sessions import details_json, print_details

    last = None if arguments.all else arguments.last
    named = f"session {arguments.session!r}"
    details = run_with_store(
        location, lambda store: _read_details(store, arguments.session, arguments.view, last), named=named
    )
    if arguments.json:
        console.print_json(details_json(details))
    else:
        print_details(details, console, full=arguments.full)
    console.notes(damage_notes(row for each in details.messages if (row := each.row) is not None))
    return 0


async def _read_details(store: Store, name: str, as_view: bool, last: int | None) -> SessionDetails:
    from clew.cli.store_access import find_session, session_range
    from clew.cli.views.sessions import SessionDetails, ShownMessage
    from clew.store import CallFilter

    session = await find_session(store, name)
    chain = await store.sessions_of(session.conversation)
    span = await session_range(store, session, chain)
    view = await store.view(session.id, keep_damaged=True)
    if as_view:
        seen = list(zip(view.messages, view.seqs, strict=True))
        first = 0 if last is None else max(0, len(seen) - last)
        rows = {row.seq: row for row in await _rows_at(store, session.id, [at for _, at in seen[first:]])}
        messages = [
            ShownMessage(message, at, index in view.written, rows.get(-1 if at is None else at))
            for index, (message, at) in enumerate(seen)
            if index >= first
        ]
    else:
        first = 0 if last is None else max(0, span.stop - last)
        messages = [
            ShownMessage(row.message, row.seq, False, row)
            for row in await store.messages(session.id, first, span.stop, keep_damaged=True)
        ]
    children = [child for each in chain for child in await store.children_of(each.id)]
    calls = CallFilter(conversation=session.conversation)
    return SessionDetails(
        session=session,
        chain=tuple(chain),
        span=span,
        in_view=len(view.messages),
        compactions=tuple(await store.compactions(session.id, keep_damaged=True)),
        children=tuple(child for child in children if child.kind != "continuation"),
        system=await store.system_prompt(session.id, keep_damaged=True),
        calls=(await store.usage((), calls))[0],
        auxiliary=(await store.usage((), replace(calls, auxiliary=True)))[0],
        is_view=as_view,
        messages=tuple(messages),
    )


async def _rows_at(store: Store, session: str, numbers: list[int | None]) -> list[StoredMessage]:
    """The rows of these numbers, read in as few ranges as they form."""
    rows: list[StoredMessage] = []
    wanted = sorted({number for number in numbers if number is not None})
    while wanted:
        stop = next((at for at, number in enumerate(wanted) if number != wanted[0] + at), len(wanted))
        rows += await store.messages(session, wanted[0], wanted[0] + stop, keep_damaged=True)
        wanted = wanted[stop:]
    return rows


# -- tree --------------------------------------------------------------------------------------------------------------


def _tree(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    from clew.cli.views.node_map import map_json, print_map
    from clew.cli.views.session_tree import SessionForest, print_trees, read_trees

    if arguments.nodes and not arguments.session:
        raise InvalidArgument("--nodes draws the map of one conversation; name it: clew sessions tree SESSION --nodes")
    forest = SessionForest((), 0)
    if location.exists or arguments.session:
        named = f"session {arguments.session!r}"
        forest = run_with_store(
            location, lambda store: read_trees(store, arguments.session, arguments.limit), named=named
        )
    if arguments.json:
        page = _read_map(arguments, location) if arguments.nodes else None
        console.print_json(forest.as_json() if page is None else {**forest.as_json(), "map": map_json(page)})
    elif location.exists:
        print_trees(forest, console)
        if arguments.nodes:
            console.print()
            print_map(_read_map(arguments, location), console, "--json has the parts of parts, and who wrote each")
    else:
        console.print(location.empty_message)
    return 0


def _read_map(arguments: argparse.Namespace, location: StoreLocation) -> MapPage:
    from clew.cli.store_access import find_session
    from clew.cli.views.node_map import read_map

    async def read(store: Store) -> MapPage:
        tip = await store.get_compression_tip((await find_session(store, arguments.session)).id)
        return await read_map(store, tip, (await store.view(tip, keep_damaged=True)).next_seq)

    return run_with_store(location, read, named=f"session {arguments.session!r}")


# -- state -------------------------------------------------------------------------------------------------------------


def _state(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    from clew.cli.store_access import find_session
    from clew.cli.views.state import StatePage, kind_named, print_state, read_state_page, state_json

    async def read(store: Store) -> StatePage:
        session = await find_session(store, arguments.session)
        kind = kind_named(arguments.kind) if arguments.kind else None
        whole = arguments.all or arguments.json
        return await read_state_page(store, session.id, at=arguments.at, kind=kind, whole=whole)

    page = run_with_store(location, read, named=f"session {arguments.session!r}")
    if arguments.json:
        console.print_json(state_json(page))
    else:
        print_state(page, console, "--all, or --kind files")
    return 0
