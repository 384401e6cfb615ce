"""Slash commands over the store: `/new`, `/resume`, `/sessions`, `/tree`, `/search`, `/usage` and `/insights`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from clew.cli.console import Console
from clew.cli.pages import fact_lines, hint_lines, page_width, plural, print_lines
from clew.cli.search import SearchOptions, print_results, search_store
from clew.cli.sessions import SessionListItem, list_item, message_preview, print_trees, read_trees, session_table
from clew.cli.store_access import all_session_ids, find_session, short_ids
from clew.cli.text import clip, printable
from clew.cli.tui.commands import learn_names
from clew.cli.tui.commands.page import current_conversation, show_lines, show_page, show_text
from clew.cli.usage import DEFAULT_DAYS, DEFAULT_GROUPINGS, print_insights, print_usage, read_insights, read_usage
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.tui.commands import ChatState
    from clew.store import Grouping
    from clew.turn import Conversation

MAX_LISTED = 15
MAX_SEARCHED = 500
"""So many conversations are read at most for words in their first message."""
MAX_INSIGHT_DAYS = 36_500
HERE_FLAG = "--here"


async def run_new(state: ChatState, words: str) -> None:
    app, title = state.app, words or None
    conversation = await current_conversation(state)
    old, was_empty = conversation.session, not conversation.view.next_seq
    if was_empty and title is None:
        show_text(state, "This conversation is still empty: it is a fresh one.")
        return
    if was_empty:
        await app.store.rename(old, title)
        show_text(state, f"This conversation is still empty; it is now called {words!r}.")
        return
    name = (await app.store.session(old)).title
    await app.runtime.end(old, "new")
    await _enter(state, await app.new_session(title))
    show_text(
        state,
        f"A fresh conversation begins{f': {words}' if words else ''}.",
        f"The one before is kept: /resume {old} goes back to it{f': {name}' if name else '.'}",
    )


async def run_resume(state: ChatState, words: str) -> None:
    if not words:
        await run_sessions(state, "")
        return
    store = state.app.store
    found = _listed_session(state, words) or (await find_session(store, words)).id
    conversation = await state.app.runtime.conversation(await store.get_compression_tip(found))
    if conversation is await current_conversation(state):
        show_text(state, "That is the conversation you are in.")
        return
    session = await store.session(conversation.session)
    why_not = await state.app.use_model_of(session.id)
    await _enter(state, conversation.session)
    title = session.title or (await list_item(store, session)).first_message
    facts = list(_resumed_facts(conversation, f"{session.model} ({why_not})" if why_not else None))

    def lines(console: Console) -> Iterator[str]:
        yield console.style(clip(f"back in: {printable(title)}", page_width(console)), "bold")
        yield from fact_lines(facts, console)

    show_lines(state, lines)


async def _enter(state: ChatState, session: str) -> None:
    state.session, state.previewed = session, None
    await current_conversation(state)
    await learn_names(state)


def _resumed_facts(conversation: Conversation, model_before: str | None) -> Iterator[tuple[str, str]]:
    yield "session", conversation.session
    yield "messages", f"{conversation.view.next_seq:,} in the history, {len(conversation.messages):,} in view"
    yield "tokens", f"{conversation.size.tokens:,} of {conversation.window.tokens:,}"
    model = conversation.target.model
    yield "model", f"{model}; before: {model_before}" if model_before else model
    spoken = [message for message in conversation.messages if message["role"] in ("user", "assistant")]
    for message in spoken[-2:]:
        yield "you" if message["role"] == "user" else "it", message_preview(message)


def _listed_session(state: ChatState, words: str) -> str | None:
    """The session that a number of the last list means."""
    number = int(words) if words.isascii() and words.isdigit() and len(words) < 6 else 0
    if not number:
        return None
    if not state.listed:
        raise InvalidArgument(f"there is no list yet that {number} could be of", remedy="/resume shows one")
    if number > len(state.listed):
        raise InvalidArgument(
            f"the list has {plural(len(state.listed), 'conversation')}", remedy=f"there is no {number}"
        )
    return state.listed[number - 1]


async def run_sessions(state: ChatState, words: str) -> None:
    """A numbered list of conversations, newest first."""
    store = state.app.store
    here = (await current_conversation(state)).session
    found = await _matching_sessions(state, words)
    items = found[:MAX_LISTED]
    if not items:
        none = "There are no conversations yet but this one."
        missing = f"No conversation is called or begins with {words!r}; /search looks into all of them."
        show_text(state, missing if words else none)
        return
    state.listed = tuple(each.session.id for each in items)
    ids = short_ids(state.listed, await all_session_ids(store))
    await learn_names(state)

    def lines(console: Console) -> Iterator[str]:
        yield from session_table(items, ids, console, page_width(console), here)
        more = "; there are more: /sessions WORDS" if len(found) > MAX_LISTED else ""
        star = "* is here; " if here in state.listed else ""
        yield from hint_lines(f"{star}/resume NUMBER continues one{more}", console)

    show_lines(state, lines)


async def _matching_sessions(state: ChatState, words: str) -> list[SessionListItem]:
    """Conversations whose title, id or first message has all the words; one more than a list shows."""
    store = state.app.store
    found: list[SessionListItem] = []
    for session in await store.list_sessions(limit=MAX_SEARCHED, only_tips=True):
        first = [message_preview(row.message) for row in await store.messages(session.id, 0, 1, keep_damaged=True)]
        about = " ".join([session.title or "", session.id, *first]).casefold()
        matches = all(word in about for word in words.casefold().split())
        if first and matches and session.kind != "subagent":
            found.append(await list_item(store, session))
        if len(found) > MAX_LISTED:
            break
    return found


async def run_tree(state: ChatState, words: str) -> None:
    del words
    here, store = (await current_conversation(state)).session, state.app.store
    forest = await read_trees(store, await store.session(here), 1)
    show_page(state, lambda console: print_trees(forest, console, here))


async def run_search(state: ChatState, words: str) -> None:
    is_here = words == HERE_FLAG or words.startswith(f"{HERE_FLAG} ")
    query = words.removeprefix(HERE_FLAG).strip() if is_here else words
    if not query:
        raise InvalidArgument("/search needs words to look for: /search retry backoff")
    page = await search_store(state.app.store, query, SearchOptions(conversation=state.session if is_here else None))
    if not page.result.hits:
        elsewhere = "/search without --here looks everywhere" if is_here else "other words may find it"
        show_text(state, f"Nothing found for {query!r} among {page.result.searched}; {elsewhere}.")
        return

    def print_page(console: Console) -> None:
        print_results(page, "in this conversation" if is_here else "", console)
        hint = "/pin mN keeps one of this conversation; /resume SESSION goes to another"
        print_lines(["", *hint_lines(hint, console)], console)

    show_page(state, print_page)


async def run_usage(state: ChatState, words: str) -> None:
    if words not in ("", "all"):
        raise InvalidArgument(
            f"/usage {words} is not known", remedy="/usage is this conversation, /usage all everything"
        )
    # A conversation has its sessions in a row: by session only where there are several conversations.
    by: tuple[Grouping, ...] = DEFAULT_GROUPINGS if words else ("model", "day")
    report = await read_usage(state.app.store, None if words else state.session, None, None, by)
    show_page(state, lambda console: print_usage(report, console, every_row=False))


async def run_insights(state: ChatState, words: str) -> None:
    days = int(words) if words.isascii() and words.isdigit() and len(words) < 6 else 0 if words else DEFAULT_DAYS
    if not 1 <= days <= MAX_INSIGHT_DAYS:
        raise InvalidArgument(
            f"/insights {words} is not allowed", remedy=f"it takes a number of days from 1 to {MAX_INSIGHT_DAYS:,}"
        )
    insights = await read_insights(state.app.store, datetime.now(UTC) - timedelta(days=days), None)
    show_page(state, lambda console: print_insights(insights, console))
