"""`clew sessions rename|undo|branch|delete`: each changes something in the store, and says what it did."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from clew.cli.console import Console
from clew.cli.store_access import StoreLocation, find_session, run_with_store, session_range
from clew.cli.views.amounts import format_time, plural
from clew.cli.views.sessions import compaction_json, folded_range, session_json, token_change
from clew.cli.views.text import printable, wrap
from clew.errors import InvalidArgument, StoreError
from clew.store import InUse, Session, Store

_YES = ("y", "yes")


def check_arguments(arguments: argparse.Namespace, console: Console) -> None:
    """Refuse what contradicts itself, before any work is done."""
    if arguments.verb == "rename" and (arguments.title is None) == (not arguments.none):
        raise InvalidArgument("sessions rename: TITLE is missing; give one, or --none to take the title away")
    if arguments.verb == "rename" and arguments.title is not None and not arguments.title.strip():
        raise InvalidArgument("an empty title is none; give some words, or --none to take the title away")
    if arguments.verb == "delete" and not arguments.yes and not console.is_typed_at:
        raise InvalidArgument(
            f"delete removes {arguments.session!r} for good and asks first, but nobody is at a terminal here; "
            "add --yes if it is meant"
        )


def _rename(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    async def work(store: Store) -> Session:
        session = await find_session(store, arguments.session)
        for each in await store.sessions_of(session.conversation):
            # The whole chain: to a person it is one conversation with one title.
            await store.rename(each.id, arguments.title)
        return await store.session(session.id)

    session = run_with_store(location, work, named=f"session {arguments.session!r}")
    words = f"is now called {session.title!r}" if session.title else "has no title any more"
    _report({"session": session_json(session)}, f"{session.id} {words}.", arguments, console)
    return 0


def _undo(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    async def work(store: Store) -> tuple[Session, Any, int, bool]:
        session = await find_session(store, arguments.session)
        undone = await store.undo(session.id)
        tip = await store.session(await store.get_compression_tip(session.id))
        view = await store.view(tip.id)
        return tip, undone, len(view.messages), view.base is not None

    tip, undone, seen, another = run_with_store(location, work, named=f"session {arguments.session!r}")
    if undone is None:
        raise StoreError(f"no compaction is in effect in {tip.id}: its view is the whole history, nothing was undone")
    again = "; the one before it is in effect, undo again to take that back too" if another else ""
    words = (
        f"The compaction of {format_time(undone.at)} ({folded_range(undone)} folded, "
        f"{token_change(undone, console)}) is undone: "
        f"{tip.id} shows {plural(seen, 'message')} again, later ones included{again}. Nothing was deleted."
    )
    outcome = {"session": session_json(tip), "undone": compaction_json(undone), "messages_in_view": seen}
    _report({**outcome, "another_in_effect": another}, words, arguments, console)
    return 0


def _branch(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    async def work(store: Store) -> tuple[Session, Session]:
        origin = await find_session(store, arguments.session)
        made = await store.branch(origin.id, arguments.at)
        return origin, (await store.rename(made.id, arguments.title) if arguments.title else made)

    origin, made = run_with_store(location, work, named=f"session {arguments.session!r}")
    shared = f"the first {plural(made.first_seq, 'message')} of" if made.first_seq != 1 else "the first message of"
    words = f"{made.id} shares {shared} {origin.id}, and goes its own way."
    _report({"session": session_json(made), "shared": made.first_seq}, words, arguments, console)
    return 0


def _delete(arguments: argparse.Namespace, location: StoreLocation, console: Console) -> int:
    async def work(store: Store) -> tuple[Session, int] | None:
        session = await find_session(store, arguments.session)
        chain = await store.sessions_of(session.conversation)
        if not arguments.yes and not _confirmed(await _question(store, session, chain), console):
            return None
        try:
            return session, await store.delete(session.id)
        except InUse as error:
            raise StoreError(f"{error}; `clew sessions tree {session.id}` shows them") from error

    done = run_with_store(location, work, named=f"session {arguments.session!r}")
    if done is None:
        console.note("nothing was deleted")
        return 1
    session, count = done
    words = f"{session.id} is deleted: {plural(count, 'message')}, for good. What its calls cost stays in the totals."
    _report({"deleted": session_json(session), "messages": count}, words, arguments, console)
    return 0


ACTIONS: Mapping[str, Callable[[argparse.Namespace, StoreLocation, Console], int]] = {
    "rename": _rename,
    "undo": _undo,
    "branch": _branch,
    "delete": _delete,
}


def _report(outcome: Mapping[str, Any], words: str, arguments: argparse.Namespace, console: Console) -> None:
    if arguments.json:
        console.print_json(outcome)
    else:
        for line in wrap(words, console.width):
            console.print(line)


async def _question(store: Store, session: Session, chain: list[Session]) -> str:
    own = (await session_range(store, chain[-1], chain)).stop - chain[0].first_seq
    title = f" {session.title!r}" if session.title else ""
    return (
        f"Delete {session.id}{title} with its whole conversation, "
        f"{plural(own, 'message')} in {plural(len(chain), 'session')}, for good? [y/N] "
    )


def _confirmed(question: str, console: Console) -> bool:
    console.err.write(printable(question))
    console.err.flush()
    return console.read_line().strip().lower() in _YES
