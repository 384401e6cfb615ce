"""Every page of a chat at 30, 40 and 60 columns: no line is longer, and no word is broken that would fit."""

from __future__ import annotations

import re
from typing import Any

import pytest

from clew.cli.tui.commands import COMMANDS
from clew.cli.tui.markdown import TerminalLook, render
from clew.cli.tui.start import greeting
from clew.cli.tui.state import ShownOutput
from clew.testing import user

from .conftest import long_talk, plain

pytestmark = pytest.mark.slow

WIDTHS = (30, 40, 60)
LINES = (
    "/help",
    *(f"/help {command.name}" for command in COMMANDS),
    *("/context", "/usage", "/usage all", "/insights", "/sessions", "/tree", "/search Sundays", "/search --here rota"),
    *("/state", "/state all", "/state files", "/state m3", "/map"),
    *("/model", "/engine", "/memory", "/skills", "/pin", "/output", "/output 1", "/output 2", "/resume"),
    *(
        "/compress --preview",
        "/compress --preview --full",
        "/compress --apply",
        "/compress --undo",
        "/compress now",
    ),
    *("/context", "/usage", "/tree", "/pin Never touch the schema of the bakery", "/pin", "/new", "/resume 1"),
)
_DRAWN = re.compile(r"[█░▒▮▯▲◀│─\-#.·•*]+|[\w$]?[HSTMPt#KTfrow\-]*[.▒░]*")
"""Bars and signs."""


def unknown_words(narrow: str, wide: str) -> list[str]:
    """Words of a narrow page that the wide one does not have: pieces of broken ones."""
    # What a wide page cuts, a narrow one may have whole.
    usages = " ".join(f"/{command.name} {command.usage}" for command in COMMANDS)
    known = set(re.findall(r"[^\s(),;:\"]+", f"{wide} {usages}".replace("…", " ")))
    found = re.findall(r"[^\s(),;:\"]+", narrow)
    longest = max(map(len, narrow.splitlines()))
    known |= {f"{word[:at]}" for word in known if len(word) > longest - 6 for at in range(len(word))}
    return [
        word
        for word in found
        if word.strip("…") not in known
        and not _DRAWN.fullmatch(word)
        and not re.search(r"\d", word)
        # A cut that is marked breaks no word.
        and not (word.endswith("…") and any(one.startswith(word[:-1]) for one in known))
    ]


async def pages(chat: Any) -> None:
    """Every page, drawn once; what is shown is kept and can be drawn for any width."""
    await chat.app.agent.ask(chat.state.session, user("What is the oven called? " * 30))
    await chat.hear(*long_talk())
    chat.state.outputs = [
        ShownOutput("$ make test", "\n".join(f"test {at} of the bakery passed" for at in range(12))),
        ShownOutput("$ cat notes.md", "    indented as it was, and then a line that is longer than any narrow screen"),
    ]
    for line in LINES:
        await chat.type(line)


async def test_no_line_is_longer_than_the_screen_and_no_word_is_broken(chat: Any) -> None:
    await pages(chat)
    for shown in chat.shown:
        wide = plain(shown, 120)
        for width in WIDTHS:
            narrow = plain(shown, width)  # checks the width of every line
            assert unknown_words(narrow, wide) == [], narrow


@pytest.mark.parametrize("width", WIDTHS)
async def test_the_greeting_is_as_narrow(chat: Any, width: int) -> None:
    conversation = await chat.runtime.conversation(chat.state.session)
    drawn = greeting(chat.app, conversation, "ask", resumed="Rota of the bakery")
    look = TerminalLook(colors=False)
    narrow = render(drawn, width, look)
    assert [line for line in narrow.splitlines() if len(line) > width] == []
    broken = unknown_words(narrow, render(drawn, 400, look))
    # The path of the project is longer than a line.
    assert [word for word in broken if word not in str(chat.app.project)] == [], narrow
