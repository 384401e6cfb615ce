"""Completion of slash commands and of what may stand behind them."""

from __future__ import annotations

from typing import cast

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from clew.cli.tui.commands import SlashCommand
from clew.cli.tui.prompt import LineCompleter
from clew.cli.tui.state import ChatState


async def nothing(state: ChatState, words: str) -> None:
    del state, words


COMMANDS = (
    SlashCommand("compress", "[focus]", "fold", nothing, lambda _, words: ["--preview"] if words == "--" else []),
    SlashCommand("context", "", "what fills the window", nothing),
    SlashCommand("resume", "[title]", "go on", nothing, lambda *_: ["Late clock", "Late bell"]),
)


def completed(text: str) -> list[str]:
    completer = LineCompleter(COMMANDS, lambda: cast(ChatState, None))
    found = completer.get_completions(Document(text), CompleteEvent())
    return [text[: len(text) + each.start_position] + each.text for each in found]


def test_a_beginning_is_completed_to_every_command_that_has_it() -> None:
    assert completed("/co") == ["/compress", "/context"]
    assert completed("/") == ["/compress", "/context", "/resume"]


def test_a_command_completes_what_stands_behind_it() -> None:
    assert completed("/compress --") == ["/compress --preview"]
    assert completed("/resume Late c") == ["/resume Late clock", "/resume Late bell"]


def test_a_question_is_not_completed() -> None:
    assert completed("why /co") == []
    assert completed("/frobnicate x") == []
    assert completed("/co\n/co") == []
