"""`/new`, `/resume`, `/sessions`: leave a conversation, come back to one, see which there are. Nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.cli.amounts import counted
from clew.cli.moments import shown
from clew.cli.output import Align, Console, clipped, printable, table
from clew.cli.session_lookup import every_id, find_session, short_ids
from clew.cli.sessions import facts_of
from clew.cli.sessions_view import Listed, said
from clew.cli.tui.commands import learn_names
from clew.cli.tui.commands.here import conversation_of
from clew.cli.tui.commands.page import MARGIN, facts, hint, show, tell
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState

SHOWN = 15
NARROW = 64
"""Below it, what a conversation is about takes the place of its figures."""
LOOKED_THROUGH = 500
"""So many conversations are read at most for words in how they begin."""


async def new(state: ChatState, words: str) -> None:
    desk, title = state.desk, words or None
    live = await conversation_of(state)
    old, was_empty = live.session, not live.next_seq
    if was_empty and title is None:
        tell(state, "This conversation is still empty: it is a fresh one.")
        return
    if was_empty:
        await desk.store.rename(old, title)
        tell(state, f"This conversation is still empty; it is now called {words!r}.")
        return
    name = (await desk.store.session(old)).title
    await desk.runtime.end(old, "new")
    state.session = await desk.new_session(title)
    state.draft = None
    await conversation_of(state)
    await learn_names(state)
    tell(
        state,
        f"A fresh conversation begins{f': {words}' if words else ''}.",
        f"The one before is kept: /resume {old} goes back to it{f': {name}' if name else '.'}",
    )


async def resume(state: ChatState, words: str) -> None:
    if not words:
        await _list(state, "")
        return
    store = state.desk.store
    found = _numbered(state, words) or (await find_session(store, words)).id
    tip = await store.get_compression_tip(found)
    live = await state.desk.runtime.conversation(tip)
    here = await conversation_of(state)
    if live is here:
        tell(state, "That is the conversation you are in.")
        return
    state.session, state.draft = live.session, None
    await conversation_of(state)
    await learn_names(state)
    session = await store.session(live.session)
    opening = (await facts_of(store, session)).opening
    last = [(message["role"], said(message)) for message in live.messages if message["role"] in ("user", "assistant")]
    told = [("session", live.session)]
    told.append(("messages", f"{live.next_seq:,} in the history, {len(live.messages):,} in view"))
    told.append(("tokens", f"{live.size.tokens:,} of {live.window.tokens:,}"))
    if session.model and session.model != live.target.model:
        told.append(("model", f"{live.target.model}; it was {session.model} before, /model {session.model} goes back"))
    told += [("you" if role == "user" else "it", words) for role, words in last[-2:]]

    def draw(console: Console) -> None:
        console.say(
            MARGIN
            + console.paint(clipped(f"back in: {printable(session.title or opening)}", console.width - 4), "bold")
        )
        for line in facts(told, console):
            console.say(MARGIN + line)

    show(state, draw)


async def sessions(state: ChatState, words: str) -> None:
    await _list(state, words)


def _numbered(state: ChatState, words: str) -> str | None:
    """The session that a number of the last list means."""
    number = int(words) if words.isascii() and words.isdigit() and len(words) < 6 else 0
    if not number:
        return None
    if not state.listed:
        raise InvalidArgument(f"there is no list yet that {number} could be of; /resume shows one")
    if number > len(state.listed):
        raise InvalidArgument(f"the list has {counted(len(state.listed), 'conversation')}; there is no {number}")
    return state.listed[number - 1]


async def _list(state: ChatState, words: str) -> None:
    """A numbered list of conversations, newest first."""
    store = state.desk.store
    here = (await conversation_of(state)).session
    found: list[Listed] = []
    for session in await store.list_sessions(limit=LOOKED_THROUGH, only_tips=True):
        opening = [said(row.message) for row in await store.messages(session.id, 0, 1)]
        about = " ".join([session.title or "", session.id, *opening]).casefold()
        is_meant = all(word in about for word in words.casefold().split())
        if opening and is_meant and session.kind != "subagent":
            found.append(await facts_of(store, session))
        if len(found) > SHOWN:
            break
    shown_ones = found[:SHOWN]
    if not shown_ones:
        tell(state, f"No conversation is called or begins with {words!r}; /search looks into all of them." if words
             else "There are no conversations yet but this one.")  # fmt: skip
        return
    state.listed = tuple(each.session.id for each in shown_ones)
    ids = short_ids(state.listed, await every_id(store))
    await learn_names(state)

    def draw(console: Console) -> None:
        for line in _lines(shown_ones, ids, here, console):
            console.say(line)
        more = "; there are more: /sessions WORDS" if len(found) > SHOWN else ""
        star = "* is here; " if here in state.listed else ""
        console.say(hint(f"{star}/resume NUMBER goes on with one{more}", console))

    show(state, draw)


def _lines(listed: list[Listed], ids: dict[str, str], here: str, console: Console) -> list[str]:
    head = ("", "session", "updated", "messages", "folds", "about")
    rows: list[tuple[str, ...]] = [head]
    rows += [
        (
            f"{'*' if each.session.id == here else ''}{number}",
            printable(ids[each.session.id]),
            shown(each.stretch.newest.at if each.stretch.newest else each.session.created)[2:],
            f"{each.stretch.stop:,}",
            f"{each.compactions:,}" if each.compactions else "-",
            printable(each.session.title or each.opening),
        )
        for number, each in enumerate(listed, 1)
    ]
    aligns: list[Align] = [">", "<", "<", ">", ">", "<"]
    if console.width < NARROW:
        rows = [(*row[:2], row[-1]) for row in rows]
        aligns = [*aligns[:2], aligns[-1]]
    first, *lines = table(rows, aligns, console.width - 4)
    return [MARGIN + console.paint(first, "dim"), *(MARGIN + line for line in lines)]
