"""/state: how things stand in the conversation, and how they stood."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import InvalidArgument
from clew.testing import assistant, call, tool, user


async def told(chat: Any) -> None:
    made = call("patch", {"path": "rota/config.toml", "old": "shifts = 3", "new": "shifts = 5"}, id="p")
    await chat.hear(user("Never work on Sundays. Make it five shifts."), assistant(None, [made]), tool("p", "Done."))
    await chat.hear(assistant("Five shifts now."), user("And who opens the shop on Monday?"))


async def test_it_shows_values_with_their_messages_and_what_they_were(chat: Any) -> None:
    assert "There are no messages yet." in await chat.type("/state")
    await told(chat)
    shown = await chat.type("/state")
    assert "shifts in rota/config.toml  5  m2  before: 3 (m2)" in shown
    assert "m4  asked     And who opens the shop on Monday?" in shown
    assert "Never work on Sundays." in shown
    only = await chat.type("/state settings")
    assert "shifts" in only and "Sundays" not in only
    assert "Sundays" in await chat.type("/state sundays")


async def test_it_shows_how_things_stood_behind_a_message(chat: Any) -> None:
    await told(chat)
    shown = await chat.type("/state m1")
    assert "after m1" in shown and "shifts in" not in shown
    with pytest.raises(InvalidArgument, match="m99 is not there yet"):
        await chat.type("/state m99")
