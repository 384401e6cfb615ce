"""`/retry`, `/undo` and `/edit`: the last question again, taken back, or changed.

The history is never rewritten: a question is taken back by going on in a branch that ends before it. The conversation
with the question is kept, and `/resume` goes back to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.cli.tui.attachments import typed_line
from clew.cli.tui.commands import learn_names
from clew.cli.tui.commands.page import current_conversation, show_text
from clew.cli.views.text import clip, printable_line
from clew.errors import InvalidArgument
from clew.messages import Message, calls_of

if TYPE_CHECKING:
    from clew.cli.tui.commands import ChatState

_PAGE = 200
"""Messages that are read at once while the last question is looked for."""
_SHOWN_CHARS = 60
NO_QUESTION = "nothing has been asked in this conversation yet"


@dataclass(frozen=True, slots=True)
class LastQuestion:
    """The newest question of a conversation and what followed it."""

    session: str
    seq: int
    message: Message
    followed: int
    """Messages behind it."""
    has_calls: bool
    """Whether tools were called for it: what they did stays done."""


async def run_retry(state: ChatState, words: str) -> None:
    _refuse_words("retry", words)
    question = await last_question(state)
    if question.followed:
        await _go_on_at(state, question, question.seq + 1)
        kept = f"The answer before is kept: /resume {question.session} goes back to it."
        show_text(state, f"Asked again: {_shown(question)}.{_tools_stay(question)}", kept)
    else:
        show_text(state, f"Asked again: {_shown(question)}.")
    await state.ask(None)


async def run_undo(state: ChatState, words: str) -> None:
    _refuse_words("undo", words)
    await _take_back(state, await last_question(state))


async def run_edit(state: ChatState, words: str) -> None:
    question = await last_question(state)
    await _take_back(state, question)
    if words:
        state.questions.append(words)
    else:
        state.put_text(typed_line(question.message))


async def last_question(state: ChatState) -> LastQuestion:
    """The newest question that a person asked here. Raises InvalidArgument where there is none."""
    conversation = await current_conversation(state)
    stop = end = conversation.view.next_seq
    has_calls = False
    while stop > 0:
        start = max(0, stop - _PAGE)
        for row in reversed(await state.app.store.messages(conversation.session, start, stop, keep_damaged=True)):
            if row.message["role"] == "user":
                return LastQuestion(conversation.session, row.seq, row.message, end - row.seq - 1, has_calls)
            has_calls = has_calls or bool(calls_of(row.message))
        stop = start
    raise InvalidArgument(NO_QUESTION)


async def _take_back(state: ChatState, question: LastQuestion) -> None:
    await _go_on_at(state, question, question.seq)
    show_text(
        state,
        f"Taken back: {_shown(question)}{' and what followed' if question.followed else ''}.{_tools_stay(question)}",
        f"It is kept: /resume {question.session} goes back to it.",
    )


async def _go_on_at(state: ChatState, question: LastQuestion, seq: int) -> None:
    """Enter a branch with the messages below `seq`."""
    app = state.app
    made = await app.store.branch(question.session, seq)
    await app.runtime.forget(question.session)
    state.session, state.previewed = made.id, None
    await current_conversation(state)
    await learn_names(state)


def _shown(question: LastQuestion) -> str:
    return f'"{clip(printable_line(typed_line(question.message)), _SHOWN_CHARS)}"'


def _tools_stay(question: LastQuestion) -> str:
    return " What its tools changed stays changed." if question.has_calls else ""


def _refuse_words(name: str, words: str) -> None:
    if words:
        raise InvalidArgument(f"/{name} takes nothing behind it; /edit {words} would ask this instead")
