"""The commands as a table: names, beginnings, what is said to those who mistype, help and completion."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from clew.cli.tui.commands import COMMANDS, find_command, unknown_command
from clew.errors import InvalidArgument

NAMES = (
    "compress retry undo edit output mode plan context usage insights new resume sessions search tree map state model "
    "engine memory skills pin help quit"
).split()


def test_every_command_is_there_once() -> None:
    assert [command.name for command in COMMANDS] == NAMES


def test_a_name_is_found_with_or_without_its_slash_and_in_any_case() -> None:
    assert find_command("/Compress") is find_command("compress") is COMMANDS[0]


def test_a_beginning_that_only_one_has_is_enough() -> None:
    found = find_command("/in")
    assert found is not None
    assert found.name == "insights"


def test_a_beginning_that_several_have_means_none_and_names_them() -> None:
    assert find_command("/se") is None
    assert unknown_command("/se") == "/se could be /sessions or /search"


def test_words_that_people_try_lead_to_the_command() -> None:
    assert [found.name for word in ("/exit", "/compact", "/clear") if (found := find_command(word))] == [
        "quit",
        "compress",
        "new",
    ]


def test_a_misspelt_name_is_met_with_the_one_that_was_probably_meant() -> None:
    assert find_command("/comprss") is None
    assert unknown_command("/comprss") == "there is no command /comprss; did you mean /compress?"
    assert "/help" in unknown_command("/xyzzy")
    assert find_command("/") is None


def test_listing_the_commands_imports_no_screen_and_no_store() -> None:
    code = "import sys, clew.cli.tui.commands\nprint({'rich', 'clew.store', 'clew.turn'}.intersection(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


async def test_help_lists_every_command_with_its_usage_and_fits_any_width(chat: Any) -> None:
    shown = await chat.type("/help")
    assert all(f"/{name}" in shown for name in NAMES)
    assert "[number | id | title]" in shown
    for width in (50, 60, 80, 120):
        chat.drawn(width)


@pytest.mark.parametrize("name", NAMES)
async def test_help_knows_more_about_each_command(chat: Any, name: str) -> None:
    command = find_command(name)
    assert command is not None
    shown = " ".join((await chat.type(f"/help {name}")).split())
    assert shown.startswith(f"/{name}")
    assert " ".join(command.usage.split()) in shown


async def test_help_for_what_is_no_command_says_which_was_meant(chat: Any) -> None:
    with pytest.raises(InvalidArgument, match="did you mean /context"):
        await chat.type("/help contxt")


async def test_quit_leaves(chat: Any) -> None:
    await chat.type("/exit")
    assert chat.state.is_leaving


async def test_completion_offers_flags_engines_skills_and_commands(chat: Any) -> None:
    assert completed(chat, "compress", "--p") == ["--preview"]
    assert completed(chat, "compress", "--preview ") == ["--preview --full"]
    assert completed(chat, "engine", "comp") == ["compressor"]
    assert completed(chat, "skills", "") == ["release"]
    assert completed(chat, "help", "s") == ["sessions", "search", "state", "skills"]
    assert completed(chat, "memory", "a") == ["add "]
    assert completed(chat, "usage", "") == ["all"]
    assert completed(chat, "pin", "l") == ["last"]
    assert completed(chat, "search", "-") == ["--here"]
    assert completed(chat, "search", "words") == []


async def test_completion_offers_titles_and_models_once_they_are_read(chat: Any) -> None:
    assert completed(chat, "resume", "") == []
    await chat.app.store.rename(chat.state.session, "Rota for the bakery")
    await chat.state.learn_names()
    assert completed(chat, "resume", "ro") == ["Rota for the bakery"]
    assert completed(chat, "model", "") == ["scripted-model"]


async def test_an_open_preview_is_offered_for_applying(long_chat: Any) -> None:
    assert "--apply" not in completed(long_chat, "compress", "")
    await long_chat.type("/compress --preview")
    assert "--apply" in completed(long_chat, "compress", "")


def completed(chat: Any, name: str, words: str) -> list[str]:
    command = find_command(name)
    assert command is not None
    assert command.complete is not None
    return list(command.complete(chat.state, words))
