"""`/memory`: what is remembered over sessions, how full it is, and a person's own hand in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.cli.output import Console, printable
from clew.cli.tui.commands.page import MARGIN, show, tell, wrapped
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.agent.memory import Memory, Remembered, Which
    from clew.cli.tui.state import ChatState

FILES: tuple[Which, ...] = ("memory", "user")
VERBS = "add TEXT, user TEXT, remove PART or edit"
LATER = "The model sees it in new conversations, and here after the next compaction."


async def run(state: ChatState, words: str) -> None:
    verb, _, text = words.partition(" ")
    text = text.strip()
    if not verb:
        _show(state)
    elif verb == "edit":
        paths = " and ".join(str(state.desk.memory.path(which)) for which in FILES)
        tell(state, f"Edit {paths} with any editor. {LATER}")
    elif verb not in ("add", "user", "remove"):
        raise InvalidArgument(f"/memory {verb} is not known; it takes {VERBS}")
    elif not text:
        raise InvalidArgument(f"/memory {verb} needs a text behind it: /memory {verb} short answers")
    elif verb == "remove":
        _tell(state, await _removed(state, text))
    else:
        _tell(state, await state.desk.memory.add("user" if verb == "user" else "memory", text, state.session))


async def _removed(state: ChatState, part: str) -> Remembered:
    """Forget the one entry that holds the part, in whichever file it stands."""
    memory = state.desk.memory
    holding = [which for which in FILES if any(part.casefold() in it.casefold() for it in memory.entries(which))]
    if len(holding) > 1:
        raise InvalidArgument(
            f"entries of both MEMORY.md and USER.md hold {part!r}; give more of the one that is meant"
        )
    return await memory.remove(holding[0] if holding else "memory", part, state.session)


def _tell(state: ChatState, done: Remembered) -> None:
    if not done.is_done:
        raise InvalidArgument(done.told)
    tell(state, done.told, LATER)


def _show(state: ChatState) -> None:
    memory = state.desk.memory
    is_on = state.desk.settings.memory.enabled

    def draw(console: Console) -> None:
        for which in FILES:
            _say_file(memory, which, console)
        if not is_on:
            console.say(
                MARGIN + console.paint("The model does not see it: memory.enabled is off in the config.", "yellow")
            )
        for line in wrapped([f"/memory {VERBS}. {LATER}"], console.width - 4):
            console.say(MARGIN + console.paint(line, "dim"))

    show(state, draw)


def _say_file(memory: Memory, which: Which, console: Console) -> None:
    console.say(MARGIN + console.paint(memory.fullness(which), "bold"))
    entries = memory.entries(which)
    for entry in entries:
        for number, line in enumerate(wrapped([printable(entry)], console.width - 8)):
            console.say(f"{MARGIN}{'  ' if number else '- '}{line}")
    if not entries:
        console.say(MARGIN + console.paint("nothing is remembered there", "dim"))
    console.say()
