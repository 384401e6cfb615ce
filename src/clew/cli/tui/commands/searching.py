"""`/search`: words in everything that was ever said, whether it is still in view or not."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from clew.cli.output import Console
from clew.cli.search import DEFAULT_LIMIT, answer_to
from clew.cli.search_view import say_answer
from clew.cli.tui.commands.page import hint, show, tell
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState

HERE = "--here"


async def run(state: ChatState, words: str) -> None:
    is_here = words == HERE or words.startswith(f"{HERE} ")
    query = words.removeprefix(HERE).strip() if is_here else words
    if not query:
        raise InvalidArgument("/search needs words to look for: /search retry backoff")
    asked = Namespace(
        session=None,
        conversation=state.session if is_here else None,
        role=None,
        tool=None,
        since=None,
        until=None,
        limit=DEFAULT_LIMIT,
    )
    answered = await answer_to(state.desk.store, query, asked)
    where = "in this conversation" if is_here else ""
    if not answered.answer.hits:
        elsewhere = "/search without --here looks everywhere" if is_here else "other words may find it"
        tell(state, f"Nothing found for {query!r} among {answered.answer.searched}; {elsewhere}.")
        return

    def draw(console: Console) -> None:
        say_answer(answered, where, console)
        console.say()
        console.say(hint("/pin mN keeps one of this conversation; /resume SESSION goes to another", console))

    show(state, draw)
