"""/new, /resume, /sessions, /search, /tree: from one conversation to another and back."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import InvalidArgument, StoreError
from clew.store import NewSession
from clew.testing import assistant, user
from clew.turn import receive, run_turn


async def another(chat: Any, title: str | None, *said: str) -> str:
    """A conversation beside the one that the chat is in."""
    session: str = (await chat.app.store.start_session(NewSession(title=title, model="scripted-model"))).id
    await receive(chat.runtime, session, [user(text) for text in said])
    return session


async def test_new_begins_a_conversation_and_keeps_the_old_one(long_chat: Any) -> None:
    old = long_chat.state.session
    shown = await long_chat.type("/new Invoices of March")
    assert long_chat.state.session != old
    fresh = await long_chat.app.store.session(long_chat.state.session)
    assert fresh.title == "Invoices of March"
    assert f"/resume {old}" in shown
    assert (await long_chat.app.store.session(old)).end_reason == "new"
    live = await long_chat.runtime.conversation(long_chat.state.session)
    assert not live.messages
    assert live.engine.get_status().compactions == 0


async def test_new_in_an_empty_conversation_opens_no_second_one(chat: Any) -> None:
    before = chat.state.session
    assert "still empty" in await chat.type("/new")
    assert "now called 'Rota'" in await chat.type("/new Rota")
    assert chat.state.session == before
    assert (await chat.app.store.session(before)).title == "Rota"


async def test_resume_lists_with_numbers_and_goes_to_the_one_that_is_named(long_chat: Any) -> None:
    first = long_chat.state.session
    await long_chat.type("/new")
    await receive(long_chat.runtime, long_chat.state.session, [user("Which ovens are on?"), assistant("Greta.")])
    shown = await long_chat.type("/resume")
    assert "*1" in shown
    assert "Which ovens are on?" in shown
    back = await long_chat.type("/resume 2")
    assert long_chat.state.session == first
    assert "63 in the history" in back
    assert "Then mend it." in back
    reply = await run_turn(long_chat.runtime, long_chat.state.session, [user("Well?")])
    assert reply.message["content"] == "answer 1"


async def test_resume_takes_titles_and_beginnings_of_ids_and_lands_on_the_tip(long_chat: Any) -> None:
    root = long_chat.state.session
    await long_chat.app.store.rename(root, "Rota for the bakery")
    await long_chat.type("/compress")
    tip = await long_chat.app.store.get_compression_tip(root)
    other = await another(long_chat, "Invoices", "Sum them up.")
    assert "back in: Invoices" in await long_chat.type(f"/resume {other[:9]}")
    assert "24 in view" in await long_chat.type("/resume rota for")
    assert long_chat.state.session == tip != root


async def test_resume_of_where_one_is_says_so(long_chat: Any) -> None:
    assert "the conversation you are in" in await long_chat.type(f"/resume {long_chat.state.session}")


async def test_a_number_without_a_list_or_beyond_it_is_refused(long_chat: Any) -> None:
    with pytest.raises(InvalidArgument, match="/resume shows one"):
        await long_chat.type("/resume 2")
    await long_chat.type("/sessions")
    with pytest.raises(InvalidArgument, match="there is no 2"):
        await long_chat.type("/resume 2")


async def test_an_unknown_name_is_an_error_that_names_the_nearest(long_chat: Any) -> None:
    await another(long_chat, "Invoices of March", "Sum them up.")
    with pytest.raises(StoreError, match="Invoices of March"):
        await long_chat.type("/resume March")


async def test_a_conversation_of_another_model_goes_on_with_that_model(chat: Any) -> None:
    new = NewSession(title="Old one", model="gpt-5")
    session = (await chat.app.store.start_session(new)).id
    await receive(chat.runtime, session, [user("hi")])
    shown = " ".join((await chat.type("/resume Old one")).split())
    assert "model gpt-5" in shown
    assert (await chat.runtime.conversation(session)).target.model == "gpt-5"
    assert chat.app.target.model == "gpt-5"


async def test_sessions_are_narrowed_by_words_of_title_or_beginning(long_chat: Any) -> None:
    await another(long_chat, "Invoices of March", "Sum them up.")
    await another(long_chat, None, "Which flour is cheapest?")
    assert "Which flour" in await long_chat.type("/sessions FLOUR")
    assert len(long_chat.state.listed) == 1
    both = await long_chat.type("/sessions")
    assert "Invoices" in both
    assert "bakery" in both or "Please find" in both
    assert "/search looks into all" in " ".join((await long_chat.type("/sessions yeast")).split())


async def test_search_finds_what_was_folded_with_its_number(long_chat: Any) -> None:
    await long_chat.type("/compress")
    shown = await long_chat.type("/search shift_7_3")
    assert "m16" in shown
    assert "shift_7_3" in shown


async def test_search_here_leaves_other_conversations_out(long_chat: Any) -> None:
    await another(long_chat, "Elsewhere", "The Sundays of March")
    assert "Elsewhere" in await long_chat.type("/search Sundays")
    assert "Elsewhere" not in await long_chat.type("/search --here Sundays")
    assert "Nothing found" in await long_chat.type("/search --here zzyzx")
    with pytest.raises(InvalidArgument, match="needs words"):
        await long_chat.type("/search --here")


async def test_tree_shows_compactions_undone_ones_branches_and_where_we_are(long_chat: Any) -> None:
    store, root = long_chat.app.store, long_chat.state.session
    await long_chat.type("/compress Sundays")
    await long_chat.type("/compress --undo")
    await long_chat.type("/compress")
    await store.rename((await store.branch(root, at=5)).id, "What if")
    shown = await long_chat.type("/tree")
    lines = shown.splitlines()
    assert any("m3-m42 folded" in line and line.endswith(", undone") for line in lines)
    assert any("▼ m3-m42 folded, 11," in line for line in lines)
    assert "written by the built-in summariser, 20" in shown
    assert "focus Sundays" in shown
    assert "branch at m5: What if" in shown
    here = [line for line in lines if line.endswith("◀ here")]
    tip = await store.get_compression_tip(root)
    assert len(here) == 1
    assert tip.startswith(here[0].split()[1])


async def test_lists_and_trees_fit_from_60_to_120_columns(long_chat: Any) -> None:
    await long_chat.app.store.rename(long_chat.state.session, "一份很长的标题" * 20)
    await long_chat.type("/compress 排班表 " + "long " * 30)
    for line in ("/tree", "/sessions", "/resume", "/search rota", "/new " + "x" * 200):
        await long_chat.type(line)
    for width in (50, 60, 80, 120):
        long_chat.drawn(width)
