"""`/retry`, `/undo` and `/edit`: repeat, undo or change the last question.

Files that its tools edited are restored. The history is never rewritten: the chat continues in a branch that ends
before the question. The conversation with the question is kept, and `/resume` continues it.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.cli.text import clip, printable_line
from clew.cli.tui.attachments import typed_line
from clew.cli.tui.state import ChatState
from clew.errors import InvalidArgument
from clew.messages import Message, ToolCall, calls_of, name_of_call

_PAGE = 200
"""Messages that are read at once."""
_SHOWN_CHARS = 60
KEEP_FILES = "--keep-files"
NO_QUESTION = "nothing has been asked in this conversation yet"


@dataclass(frozen=True, slots=True)
class LastQuestion:
    """The newest question of a conversation."""

    session: str
    seq: int
    message: Message
    followed: int
    """Number of messages after it."""
    has_commands: bool
    """Whether it ran tools other than edits, whose effects remain."""


async def run_retry(state: ChatState, words: str) -> None:
    _refuse_words("retry", words)
    question = await last_question(state)
    if question.followed:
        files = await _restore_files(state, question)
        await _go_on_at(state, question, question.seq + 1)
        kept = f"The answer before is kept: /resume {question.session} goes back to it."
        state.show_text(f"Asked again: {_shown(question)}.{_tools_stay(question)}", *files, kept)
    else:
        state.show_text(f"Asked again: {_shown(question)}.")
    await state.ask(None)


async def run_undo(state: ChatState, words: str) -> None:
    if words != KEEP_FILES:
        _refuse_words("undo", words)
    await _take_back(state, await last_question(state), keeps_files=words == KEEP_FILES)


async def run_edit(state: ChatState, words: str) -> None:
    question = await last_question(state)
    await _take_back(state, question)
    if words:
        state.questions.append(words)
    else:
        state.put_text(typed_line(question.message))


async def last_question(state: ChatState) -> LastQuestion:
    """The newest question of this conversation. Raises InvalidArgument if there is none."""
    conversation = await state.conversation()
    stop = end = conversation.view.next_seq
    has_commands = False
    while stop > 0:
        start = max(0, stop - _PAGE)
        for row in reversed(await state.app.store.messages(conversation.session, start, stop, keep_damaged=True)):
            if row.message["role"] == "user":
                return LastQuestion(conversation.session, row.seq, row.message, end - row.seq - 1, has_commands)
            has_commands = has_commands or any(not _is_undoable(state, call) for call in calls_of(row.message))
        stop = start
    raise InvalidArgument(NO_QUESTION)


def _is_undoable(state: ChatState, call: ToolCall) -> bool:
    """Whether a call only reads, or only edits files, which have checkpoints."""
    tool = state.app.agent.toolbox.find(name_of_call(call))
    return tool is not None and (tool.is_read_only or tool.try_edit({}) is not None)


async def _restore_files(state: ChatState, question: LastQuestion) -> list[str]:
    """Restore files from before the question; returns sentences about changes."""
    agent = state.app.agent
    done = await agent.restore_files(question.session, question.seq)
    others = [
        path
        for path in done.changed_since
        if await state.confirm(
            f"{_name(state, path)} was changed by something else since. Put it back too, and lose that change?"
        )
    ]
    if others:
        again = await agent.restore_files(question.session, question.seq, also=others)
        done.restored += again.restored
        done.removed += again.removed
    left = [path for path in done.changed_since if path not in others]
    outcomes = {
        "Put back as before": done.restored,
        "Removed, since it did not exist before": done.removed,
        "Left as it is, since something else changed it": left,
        "Could not be put back": done.impossible,
    }
    return [f"{what}: {', '.join(_name(state, it) for it in paths)}." for what, paths in outcomes.items() if paths]


def _name(state: ChatState, path: str) -> str:
    return printable_line(path.removeprefix(f"{state.app.project}/"))


async def _take_back(state: ChatState, question: LastQuestion, *, keeps_files: bool = False) -> None:
    files = [] if keeps_files else await _restore_files(state, question)
    await _go_on_at(state, question, question.seq)
    state.show_text(
        f"Taken back: {_shown(question)}{' and what followed' if question.followed else ''}.{_tools_stay(question)}",
        *files,
        f"It is kept: /resume {question.session} goes back to it.",
    )


async def _go_on_at(state: ChatState, question: LastQuestion, seq: int) -> None:
    """Continue in a branch with the messages below `seq`."""
    app = state.app
    made = await app.store.branch(question.session, seq)
    await app.agent.forget_checkpoints(made.id, question.seq)
    await app.runtime.forget(question.session)
    state.session, state.previewed = made.id, None
    await state.conversation()
    await state.learn_names()


def _shown(question: LastQuestion) -> str:
    return f'"{clip(printable_line(typed_line(question.message)), _SHOWN_CHARS)}"'


def _tools_stay(question: LastQuestion) -> str:
    return " What its commands changed stays changed." if question.has_commands else ""


def _refuse_words(name: str, words: str) -> None:
    if words:
        raise InvalidArgument(f"/{name} takes no arguments", remedy=f"/edit {words} would ask this instead")
