"""/memory and /skills: what is remembered, and what can be read up on."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import InvalidArgument


async def test_memory_is_shown_with_how_full_it_is(chat: Any) -> None:
    assert "nothing is remembered there" in await chat.type("/memory")
    await chat.type("/memory add The tests need -n 0")
    await chat.type("/memory user Prefers short answers")
    shown = await chat.type("/memory")
    assert "- The tests need -n 0" in shown
    assert "- Prefers short answers" in shown
    assert "MEMORY.md is" in shown
    assert "of 4,000 chars" in shown


async def test_what_is_added_is_in_the_file_at_once_and_said_to_be_seen_later(chat: Any) -> None:
    shown = " ".join((await chat.type("/memory add The tests need -n 0")).split())
    assert "here after the next compaction" in shown
    assert "- The tests need -n 0" in chat.app.memory.path("memory").read_text()
    assert chat.app.memory.entries("user") == []


async def test_an_entry_is_removed_by_a_part_of_it_wherever_it_stands(chat: Any) -> None:
    await chat.type("/memory add The tests need -n 0")
    await chat.type("/memory user Prefers short answers")
    await chat.type("/memory remove SHORT")
    assert chat.app.memory.entries("user") == []
    assert chat.app.memory.entries("memory")[1:] == ["The tests need -n 0"]


async def test_a_part_that_means_nothing_or_both_files_changes_nothing(chat: Any) -> None:
    await chat.type("/memory add Short tests first")
    await chat.type("/memory user Prefers short answers")
    with pytest.raises(InvalidArgument):
        await chat.type("/memory remove yeast")
    with pytest.raises(InvalidArgument, match="both"):
        await chat.type("/memory remove short")
    assert [len(chat.app.memory.entries(which)) for which in ("memory", "user")] == [2, 1]


async def test_what_does_not_fit_is_refused_with_the_reason(chat: Any) -> None:
    with pytest.raises(InvalidArgument):
        await chat.type("/memory user " + "long " * 600)


async def test_edit_says_where_the_files_are(chat: Any) -> None:
    shown = "".join((await chat.type("/memory edit")).split())
    assert str(chat.app.memory.path("memory")) in shown
    assert str(chat.app.memory.path("user")) in shown


@pytest.mark.parametrize("line", ["/memory forget all", "/memory add", "/memory remove"])
async def test_words_that_mean_nothing_are_refused_with_those_that_do(chat: Any, line: str) -> None:
    with pytest.raises(InvalidArgument, match="/memory"):
        await chat.type(line)


async def test_skills_are_listed_with_what_they_are_for_and_where(chat: Any) -> None:
    shown = await chat.type("/skills")
    assert "release" in shown
    assert "How a release is made here." in shown


async def test_a_named_skill_is_opened_by_the_next_question(chat: Any) -> None:
    await chat.type("/skills Release")
    assert chat.state.questions == ["Open the skill release and follow it."]
    with pytest.raises(InvalidArgument, match="did you mean release"):
        await chat.type("/skills relese")


async def test_without_skills_it_says_where_they_would_be(chat: Any) -> None:
    chat.app.skills = ()
    assert "SKILL.md" in await chat.type("/skills")


async def test_all_of_it_fits_from_60_to_120_columns(chat: Any) -> None:
    await chat.type("/memory add " + "烤箱 " * 120)
    for line in ("/memory", "/skills", "/memory edit"):
        await chat.type(line)
    for width in (50, 60, 80, 120):
        chat.drawn(width)
