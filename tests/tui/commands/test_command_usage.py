"""/usage and /insights: what calls took, of this conversation or of all."""

from __future__ import annotations

from typing import Any

import pytest

from clew.cli.tui.state import ShownOutput
from clew.errors import InvalidArgument
from clew.testing import user
from clew.turn import run_turn


async def test_usage_is_that_of_this_conversation_unless_all_is_asked_for(chat: Any) -> None:
    await run_turn(chat.runtime, chat.state.session, [user("One.")])
    await run_turn(chat.runtime, chat.state.session, [user("Two.")])
    await chat.type("/new Another")
    await run_turn(chat.runtime, chat.state.session, [user("Three.")])
    assert "1 call:" in await chat.type("/usage")
    everything = await chat.type("/usage all")
    assert "3 calls:" in everything
    assert "by session" in everything
    with pytest.raises(InvalidArgument, match="/usage all"):
        await chat.type("/usage yesterday")


async def test_insights_take_a_number_of_days(chat: Any) -> None:
    await run_turn(chat.runtime, chat.state.session, [user("One.")])
    assert "1 call" in await chat.type("/insights")
    assert "1 call" in await chat.type("/insights 7")
    for wrong in ("0", "-3", "week", "999999"):
        with pytest.raises(InvalidArgument, match="number of days"):
            await chat.type(f"/insights {wrong}")


async def test_both_fit_from_60_to_120_columns(chat: Any) -> None:
    await run_turn(chat.runtime, chat.state.session, [user("One.")])
    for line in ("/usage", "/usage all", "/insights"):
        await chat.type(line)
    for width in (50, 60, 80, 120):
        chat.drawn(width)


async def test_an_output_is_listed_with_as_many_lines_as_it_has(chat: Any) -> None:
    chat.state.outputs = [ShownOutput("$ echo hello", "hello\n"), ShownOutput("$ ls", "a\nb")]
    shown = await chat.type("/output")
    assert "$ echo hello: 1 line of output\n" in shown
    assert "$ ls: 2 lines of output" in shown
