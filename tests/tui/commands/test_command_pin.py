"""/pin: what is pinned comes back word for word, and says what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import InvalidArgument
from clew.messages import text_of
from clew.testing import user
from clew.turn import receive, run_turn


async def pinned(chat: Any) -> list[tuple[str, str]]:
    return [(it.label, it.text) for it in (await chat.runtime.conversation(chat.state.session)).pins]


async def test_nothing_is_pinned_at_first(chat: Any) -> None:
    assert "Nothing is pinned" in await chat.type("/pin")


async def test_the_newest_reply_a_message_and_a_text_of_ones_own_can_be_pinned(long_chat: Any) -> None:
    await long_chat.type("/pin last")
    await long_chat.type("/pin m0")
    await long_chat.type("/pin 62")
    shown = await long_chat.type("/pin Never bake on Mondays")
    assert [label for label, _ in await pinned(long_chat)] == ["m61", "m0", "m62", "note 1"]
    assert "follows the system prompt" in shown
    assert "tokens of every request" in " ".join(shown.split())
    listed = await long_chat.type("/pin")
    assert "Never bake on Mondays" in listed
    assert "tokens together" in listed


async def test_a_pinned_message_stands_word_for_word_in_the_request_after_a_compaction(long_chat: Any) -> None:
    await long_chat.type("/pin m10")
    text = dict(await pinned(long_chat))["m10"]
    await long_chat.type("/compress")
    assert text not in [text_of(message) for message in await long_chat.view()]
    await run_turn(long_chat.runtime, long_chat.state.session, [user("Go on.")])
    assert text in text_of(long_chat.provider.requests[-1].messages[0])


async def test_a_message_that_was_folded_can_still_be_pinned(long_chat: Any) -> None:
    await long_chat.type("/compress")
    await long_chat.type("/pin m10")
    assert "def shift_4_0()" in dict(await pinned(long_chat))["m10"]


async def test_a_pin_is_taken_away_by_its_number(long_chat: Any) -> None:
    await long_chat.type("/pin Never bake on Mondays")
    await long_chat.type("/pin Ovens are hot")
    assert "Never bake" in await long_chat.type("/pin remove 1")
    assert await pinned(long_chat) == [("note 2", "Ovens are hot")]
    with pytest.raises(InvalidArgument, match="no pin 7"):
        await long_chat.type("/pin remove 7")
    with pytest.raises(InvalidArgument, match="/pin remove 1"):
        await long_chat.type("/pin remove Ovens")


async def test_pins_may_not_take_more_than_a_tenth_of_the_window(long_chat: Any) -> None:
    await long_chat.type("/pin " + "flour " * 1_000)
    with pytest.raises(InvalidArgument, match="they may have 2,000"):
        await long_chat.type("/pin " + "sugar " * 1_000)
    assert len(await pinned(long_chat)) == 1


async def test_what_is_no_message_or_has_no_text_is_refused(long_chat: Any) -> None:
    with pytest.raises(InvalidArgument, match="from m0 to m62"):
        await long_chat.type("/pin m99")
    with pytest.raises(InvalidArgument, match="has no text"):
        await long_chat.type("/pin m1")


async def test_without_a_reply_there_is_no_last_one(chat: Any) -> None:
    with pytest.raises(InvalidArgument, match="no reply to pin yet"):
        await chat.type("/pin last")
    with pytest.raises(InvalidArgument, match="there are none yet"):
        await chat.type("/pin m0")


async def test_all_of_it_fits_from_60_to_120_columns(chat: Any) -> None:
    await receive(chat.runtime, chat.state.session, [user("面粉和糖，" * 60)])
    for line in ("/pin m0", "/pin " + "word " * 50, "/pin"):
        await chat.type(line)
    for width in (50, 60, 80, 120):
        chat.drawn(width)
