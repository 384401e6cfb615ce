"""`/map`: what the lossless engine has folded of this conversation, part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.cli.tui.commands.page import current_conversation, show_page
from clew.cli.views.node_map import print_map, read_map

if TYPE_CHECKING:
    from clew.cli.tui.commands import ChatState

_MORE = "/map n0-40 shows what a part says; /engine lcm lets the lossless engine fold"


async def run_map(state: ChatState, words: str) -> None:
    conversation = await current_conversation(state)
    page = await read_map(state.app.store, conversation.session, conversation.view.next_seq, words.strip())
    show_page(state, lambda console: print_map(page, console, _MORE))
