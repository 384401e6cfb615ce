"""`/skills`: the skills there are, with what each is good for; or have the agent open one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from clew.cli.output import Console, clipped, printable
from clew.cli.tui.commands.page import MARGIN, hint, show, tell, wrapped
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState


async def run(state: ChatState, words: str) -> None:
    skills = state.desk.skills
    if words:
        found = [skill for skill in skills if skill.name.casefold() == words.casefold()]
        if not found:
            near = get_close_matches(words, [skill.name for skill in skills], 1)
            remedy = f"did you mean {near[0]}?" if near else "/skills lists those there are"
            raise InvalidArgument(f"there is no skill {words!r}; {remedy}")
        state.asks.append(f"Open the skill {found[0].name} and follow it.")
        return
    if not skills:
        places = f"{state.desk.project / '.clew' / 'skills'}, its .claude/skills, or {state.desk.home / 'skills'}"
        tell(state, f"There are no skills. One is a folder with a SKILL.md in {places}.")
        return

    def draw(console: Console) -> None:
        for skill in skills:
            console.say(MARGIN + console.paint(printable(skill.name), "cyan", "bold"))
            for line in wrapped([skill.description], console.width - 6):
                console.say(MARGIN * 2 + line)
            console.say(MARGIN * 2 + console.paint(clipped(printable(str(skill.path)), console.width - 6), "dim"))
        console.say(hint("/skills NAME has one opened; its text then survives compactions", console))

    show(state, draw)
