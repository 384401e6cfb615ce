"""A model's handoff: kept as it is, completed with what is certain and missing, checked against the conversation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clew.handoff import UNVERIFIED_MARK, Entry, Handoff
from clew.handoff.complete import CompletedHandoff, complete_handoff, find_inventions
from clew.handoff.prompt import read_draft
from clew.handoff.value import COMPLETED
from clew.messages import Message
from clew.testing import assistant, call, tool, user
from clew.tokens import counter_for
from tests.support.summaries import handoff_text, summary_input_of

count = counter_for(None).text
BUDGET = 2_000


def ran(command: str, result: str, id: str) -> list[Message]:
    return [assistant(None, [call("terminal", {"command": command}, id)]), tool(id, result)]


HISTORY = [
    user("Port the uploader to asyncio. Never touch prod.db."),
    *ran("make lint", "error: style violation 77\nlint: E501 in src/app.py\nexit code: 2", "c1"),
    assistant(None, [call("write_file", {"path": "src/retry.py", "content": "RETRY_LIMIT = 7311"}, "c2")]),
    tool("c2", "ok"),
    *ran("git commit -m x", "[feat/async 9f3c2ab] x\n 1 file changed, 12345 insertions\nexit code: 0", "c3"),
    user("Write the docs too."),
]
CERTAIN = (
    "Port the uploader to asyncio. Never touch prod.db.",
    "src/retry.py",
    "error: style violation 77",
    "Write the docs too.",
)


def completed(text: str, budget: int = BUDGET, **more: Any) -> CompletedHandoff:
    source = summary_input_of(HISTORY, last=7, task="Write the docs too.", task_number=7, **more)
    done = complete_handoff(source, text, budget, count)
    assert count(done.text) <= budget
    return done


def test_what_the_text_does_not_mention_and_is_certain_is_added() -> None:
    text = completed("## Completed actions\n1. Did things.").text
    for fact in CERTAIN:
        assert fact in text


def test_the_text_of_the_model_comes_first_and_stays_as_it_is() -> None:
    text = handoff_text(active_task="Delete everything.", goal="Port.\n- by hand", completed_actions=["3. x", "9. y"])
    assert completed(text).text.startswith(text)


def test_what_the_text_mentions_is_not_added_again() -> None:
    said = "\n".join(f"- {fact}" for fact in CERTAIN)
    text = completed(f"## Active task\nThe docs.\n\n## Critical context\n{said}").text
    assert [text.count(fact) for fact in CERTAIN] == [1, 1, 1, 1]


def test_what_is_still_in_the_window_is_not_added() -> None:
    draft = "## Active task\nThe docs."
    assert "prod.db" in completed(draft).text
    source = replace(summary_input_of(HISTORY, last=7, task="Write the docs too.", task_number=7), above=frozenset({0}))
    assert "prod.db" not in complete_handoff(source, draft, BUDGET, count).text


def test_an_error_of_an_answered_request_is_not_added() -> None:
    history = [*HISTORY[:-1], assistant("The uploader is ported."), HISTORY[-1]]
    source = summary_input_of(history, last=8, task="Write the docs too.", task_number=8)
    assert "style violation" not in complete_handoff(source, "## Active task\nThe docs.", BUDGET, count).text


def test_code_fences_of_a_model_stay() -> None:
    draft = handoff_text(goal="Run it.\n```shell\nmake test\n```", critical_context="Gear 12.")
    assert read_draft(draft).text.count("```") == 2


def test_nothing_is_added_twice() -> None:
    assert completed("## Completed actions\n1. Did things.").text.count(CERTAIN[0]) == 1


def test_what_is_added_takes_at_most_a_tenth_of_the_budget() -> None:
    draft = "## Completed actions\n1. Did things."
    sizes = [count(completed(draft, budget).text) - count(draft) for budget in (300, 600, 1_000)]
    assert all(size <= budget // 10 for size, budget in zip(sizes, (300, 600, 1_000), strict=True))


def test_the_task_of_the_model_is_not_replaced() -> None:
    text = completed("## Active task\nWrite the documentation.").text
    assert [entry.text for entry in Handoff.of_text(text).entries("Active task")] == ["Write the documentation."]


@pytest.mark.parametrize(
    "invented",
    [
        "src/ghost/tower.py",
        "84211",
        "0bad1dea99",
        "123e4567-e89b-42d3-a456-426614174000",
        "47 passed",
        '"we will never ship this on a Friday again"',
    ],
)
def test_an_exact_thing_that_nothing_shows_is_reported(invented: str) -> None:
    done = completed(f"## Completed actions\n1. There was {invented} in it.")
    assert done.unverified == (invented.strip('"'),)


@pytest.mark.parametrize(
    "true",
    [
        "src/retry.py and src/app.py",
        "RETRY_LIMIT is 7,311, commit 9f3c2ab",
        "m0-m2, m3/m4, 22/22 and hand/suitcase/table",
        '"Never touch prod.db. … Write the docs too."',
        '"Port the uploader to asyncio … touch prod.db."',
        "about 12000 insertions",
        "Write the docs too, as m7 says in the newest message",
    ],
)
def test_what_the_conversation_shows_is_not_reported(true: str) -> None:
    done = completed(f"## Completed actions\n1. There was {true} in it.")
    assert done.unverified == ()
    assert UNVERIFIED_MARK not in done.text


def test_only_a_certain_invention_is_marked_in_the_text() -> None:
    text = completed("## Completed actions\n1. Wrote src/ghost/tower.py in 0bad1dea99.").text
    assert f"src/ghost/tower.py in 0bad1dea99{UNVERIFIED_MARK}." in text
    assert text.count(UNVERIFIED_MARK) == 1


def test_a_previous_handoff_is_a_source_too() -> None:
    previous = Handoff({COMPLETED: (Entry("Wrote src/legacy/box.py"),)})
    draft = "## Completed actions\n1. Wrote src/legacy/box.py."
    assert completed(draft, previous=previous).unverified == ()
    assert completed(draft).unverified == ("src/legacy/box.py",)


def test_a_path_between_chinese_characters_is_read_as_a_path() -> None:
    assert completed("## Completed actions\n1. 读了src/retry.py，然后结束。").unverified == ()


def test_a_number_that_is_only_a_part_of_a_longer_one_is_reported() -> None:
    assert completed("## Completed actions\n1. There were 2345 insertions.").unverified == ("2345",)


def test_a_secret_that_the_model_wrote_is_removed() -> None:
    secret = "ghp_" + "aB3" * 12
    assert secret not in completed(f"## Goal\nLog in with {secret}.").text


SHOWN = (
    "commit 9f3c2ab1d0e44f5566778899aabbccddeeff0011",
    "id of the upload: up_4c1d77e0aa",
    "edited src/app/main.py and docs/plans/next.md, then listed src/app:\nmain.py\nutil.py",
    "collected 70 items\n======= 1 failed, 69 passed in 3s =======",
    "then: 70 passed; working in /srv",
    "C:\\work\\box\\setup.cfg",
)


@pytest.mark.parametrize(
    "invented",
    [
        "9f3c2ac",
        "9f3c2ab999999",
        "9f3c2ab1d0e44f5566778899aabbccddeeff0012",
        "src/app/next.md",
        "docs/plans/main.py",
        "12 tests passed",
        "12 tests are green",
        "70/82 pass",
        "69 of 82 tests passed",
        "12 unit tests fail",
    ],
)
def test_a_thing_that_is_only_like_one_that_was_shown_is_reported(invented: str) -> None:
    assert [claim.text for claim in find_inventions(f"Now {invented}.", SHOWN)] == [invented]


@pytest.mark.parametrize(
    "true",
    [
        "9f3c2ab1d0e4 and 77e0aa",
        "/srv/src/app/main.py, src/app/util.py, plans/next.md, box/setup.cfg",
        "$ROOT/plans/next.md, app/main.py/docs/plans/next.md",
        "All 70 tests pass, 70/70 pass, 69 of 70 tests passed, 1 failed",
        "of 14 pairs 5 fail",
    ],
)
def test_other_spellings_of_what_was_shown_are_not_reported(true: str) -> None:
    assert find_inventions(f"Now {true}.", SHOWN) == []
