"""/retry, /undo and /edit: the last question again, taken back, or changed; nothing is lost by any of them."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import InvalidArgument
from clew.messages import text_of
from clew.testing import assistant, call, tool, user
from clew.turn import run_turn


async def said(chat: Any) -> list[str]:
    return [text_of(message) for message in await chat.view()]


async def test_nothing_can_be_taken_back_before_something_is_asked(chat: Any) -> None:
    for command in ("/retry", "/undo", "/edit", "/edit better"):
        with pytest.raises(InvalidArgument, match="nothing has been asked"):
            await chat.type(command)


async def test_undo_takes_back_one_exchange_after_the_other_and_keeps_all(chat: Any) -> None:
    await chat.hear(user("one"), assistant("1"), user("two"), assistant("2"))
    first = chat.state.session
    shown = await chat.type("/undo")
    assert 'Taken back: "two" and what followed.' in shown
    assert f"/resume {first}" in shown
    assert await said(chat) == ["one", "1"]
    await chat.type("/undo")
    assert await said(chat) == []
    await chat.type(f"/resume {first}")
    assert await said(chat) == ["one", "1", "two", "2"]


async def test_what_tools_did_stays_done_and_is_told(chat: Any) -> None:
    await chat.hear(user("clean"), assistant(None, [call("terminal", {"command": "rm x"}, id="c1")]), tool("c1", "ok"))
    assert "What its commands changed stays changed." in " ".join((await chat.type("/undo")).split())


async def test_undo_goes_back_behind_a_compaction(long_chat: Any) -> None:
    before = await said(long_chat)
    await long_chat.type("/compress")
    await run_turn(long_chat.runtime, long_chat.state.session, [user("And now?")])
    await long_chat.type("/undo")
    await long_chat.type("/undo")
    assert before[-1] == "Then mend it."
    assert "Then mend it." not in await said(long_chat)
    assert before[-2] in await said(long_chat)


async def test_retry_asks_again_without_the_answer_before(chat: Any) -> None:
    await chat.hear(user("one"), assistant("bad answer"))
    asked: list[Any] = []

    async def ask(message: Any) -> None:
        asked.append((message, await said(chat)))

    chat.state.ask = ask
    shown = await chat.type("/retry")
    assert asked == [(None, ["one"])]
    assert "The answer before is kept" in shown


async def test_retry_of_a_question_without_an_answer_needs_no_branch(chat: Any) -> None:
    await chat.hear(user("one"))
    session = chat.state.session
    await chat.type("/retry")
    assert chat.state.session == session
    assert await said(chat) == ["one"]


async def test_edit_gives_the_words_back_or_asks_new_ones(chat: Any) -> None:
    typed: list[str] = []
    chat.state.put_text = typed.append
    await chat.hear(user("one"), assistant("1"))
    await chat.type("/edit")
    assert typed == ["one"]
    assert await said(chat) == []
    await chat.hear(user("one"), assistant("1"))
    await chat.type("/edit two instead")
    assert chat.state.questions == ["two instead"]


async def test_words_behind_retry_are_no_question(chat: Any) -> None:
    await chat.hear(user("one"))
    with pytest.raises(InvalidArgument, match="/edit with more detail"):
        await chat.type("/retry with more detail")
