"""/map: what the lossless engine has folded of the conversation."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import InvalidArgument


async def test_it_says_where_nothing_is_folded(long_chat: Any) -> None:
    assert "Nothing is folded into a map" in " ".join((await long_chat.type("/map")).split())


async def test_it_draws_the_parts_and_opens_one(long_chat: Any) -> None:
    await long_chat.type("/engine lcm")
    await long_chat.type("/compress")
    live = await long_chat.runtime.conversation(long_chat.state.session)
    nodes = await long_chat.app.store.shown_nodes(live.session)
    shown = await long_chat.type("/map")
    assert nodes and all(node.name in shown for node in nodes)
    assert f"m0 to m{nodes[-1].last - 1} are {len(nodes)} part" in shown and "provisional" in shown
    opened = await long_chat.type(f"/map {nodes[0].name}")
    assert nodes[0].text.splitlines()[0].lstrip("# ") in opened
    with pytest.raises(InvalidArgument, match="the map has no part 'n9-9'"):
        await long_chat.type("/map n9-9")
    for width in (30, 60, 140):
        long_chat.drawn(width)
