"""`/state`: what this conversation is about and where that stands, now or behind an earlier message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clew.cli.tui.commands.page import current_conversation, show_page
from clew.cli.views.state import kind_named, print_state, read_state_page

if TYPE_CHECKING:
    from clew.cli.tui.commands import ChatState

_AT = re.compile(r"(?:--at[ =]|at )?m(\d{1,9})\b|--at[ =](\d{1,9})\b")
_MORE = "/state files, /state WORDS or /state all"


async def run_state(state: ChatState, words: str) -> None:
    """`/state [kind | words | all] [m120]`."""
    found = _AT.search(words)
    rest = " ".join((words[: found.start()] + words[found.end() :]).split()) if found else words
    at = int(found[1] or found[2]) if found else None
    kind = kind_named(rest)
    session = (await current_conversation(state)).session
    state.wait_for("reading the conversation")
    page = await read_state_page(
        state.app.store,
        session,
        at=at,
        kind=kind,
        words="" if kind or rest == "all" else rest,
        whole=rest == "all",
    )
    show_page(state, lambda console: print_state(page, console, _MORE))
