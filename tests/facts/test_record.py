"""The record of a conversation: requests of people, actions with outcomes, plan, files, tests and rules."""

from __future__ import annotations

from typing import Any

import pytest

from clew.facts import Record, StateRecord
from clew.messages import Message
from clew.testing import assistant, call, tool, user


def did(name: str, arguments: dict[str, Any], result: str, id: str = "c") -> list[Message]:
    return [assistant(None, [call(name, arguments, id)]), tool(id, result)]


def ran(command: str, result: str, id: str = "c") -> list[Message]:
    return did("terminal", {"command": command}, result, id)


def requests(messages: list[Message]) -> list[str]:
    return [exchange.request for exchange in Record.of(messages).exchanges]


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_request_holds_everything_up_to_the_next_one() -> None:
    record = Record.of(
        [user("Fix it."), *ran("make", "ok"), assistant("Fixed."), user("Thanks! Now the docs."), user("Go")]
    )
    first, second, _ = record.exchanges
    assert (first.number, first.closing, len(first.actions), first.is_answered) == (0, 3, 1, True)
    assert (second.number, second.is_answered) == (4, False)
    assert [record.exchange_of(number) for number in range(6)] == [0, 0, 0, 0, 1, 2]


@pytest.mark.parametrize("kind", [Record, StateRecord])
def test_what_a_person_says_inside_a_tool_result_is_a_request(kind: type[Record]) -> None:
    denied = "The user denied this operation.\n<feedback>\nKeep the other sections.\n</feedback>"
    record = kind.of([user("Write the readme."), *did("write_to_file", {"path": "README.md", "content": "x"}, denied)])
    assert [exchange.request for exchange in record.exchanges] == ["Write the readme.", "Keep the other sections."]


def test_words_before_more_calls_are_no_answer() -> None:
    record = Record.of([user("Fix it."), assistant("I look first."), *ran("make", "ok")])
    assert not record.exchanges[0].is_answered
    assert record.exchanges[0].texts == [1]


def test_the_text_of_a_skill_in_the_user_role_is_no_request_and_states_no_rule() -> None:
    text = "# Careful review\nYou must always review twice. Never commit on a Friday."
    loading = did("Skill", {"skill": "review"}, "Launching skill: review")
    for loaded in ([*loading, user(f"Base directory for this skill: /s\n{text}")], [loading[0], user(text)]):
        record = Record.of([user("Review the branch."), *loaded, assistant("Done.")])
        assert [exchange.request for exchange in record.exchanges] == ["Review the branch."]
        assert record.rules == []


def test_a_skill_text_without_a_known_opening_is_found_by_the_call_before_it() -> None:
    loaded = did("Skill", {"skill": "review"}, "Launching skill: review")
    text = "# Careful review\nYou must always review twice. Never commit on a Friday."
    assert requests([user("Review the branch."), *loaded, user(text), assistant("Done.")]) == ["Review the branch."]


def test_commands_of_the_harness_are_no_requests() -> None:
    assert requests([user("/model"), user("/compact please keep the plan"), user("Go")]) == [
        "/compact please keep the plan", "Go",
    ]  # fmt: skip


def test_the_same_instructions_again_are_known_as_a_repetition() -> None:
    task = "Collect the figures of the last week, check them against the ledger and write the report."
    record = Record.of([user(task), assistant("Written."), user("Thanks"), user(task), assistant("Again.")])
    assert [exchange.repeats for exchange in record.exchanges] == [None, None, 0]


def test_short_words_that_come_again_are_no_repetition() -> None:
    assert [one.repeats for one in Record.of([user("continue"), assistant("ok"), user("continue")]).exchanges] == [
        None, None,
    ]  # fmt: skip


def test_a_rule_of_repeated_instructions_is_kept_once() -> None:
    task = "Collect the figures of the last week and write the report. Never touch the archive folder."
    assert len(Record.of([user(task), assistant("Done."), user(task)]).rules) == 1


@pytest.mark.parametrize("stop", ["Stop that now.", "Stop this now.", "Never mind."])
def test_a_cancelled_task_is_known_as_cancelled(stop: str) -> None:
    record = Record.of([user("Move the import to the new scheduler."), assistant("I begin."), user(stop)])
    assert record.exchanges[0].cancelled
    assert not record.exchanges[1].cancelled


def test_a_short_answer_is_known_with_what_it_chose() -> None:
    record = Record.of([user("How?"), assistant("1. Keep SQLite\n2. Move to Postgres\nWhich one?"), user("2")])
    assert (record.exchanges[1].chosen, record.exchanges[1].offered) == ("Move to Postgres", 1)


def test_a_question_of_a_tool_is_answered_by_its_option() -> None:
    asked = {"questions": [{"question": "Which store?", "options": [{"label": "SQLite"}, {"label": "Postgres"}]}]}
    record = Record.of([user("Go."), assistant(None, [call("AskUserQuestion", asked, "q")]), user("2")])
    assert record.exchanges[1].chosen == "Postgres"


def test_a_word_to_go_on_continues_the_request_before_it() -> None:
    [exchange] = Record.of([user("Fix it."), *ran("make a", "ok"), user("continue"), *ran("make b", "ok")]).exchanges
    assert (exchange.request, len(exchange.actions)) == ("Fix it.", 2)


# -- actions -----------------------------------------------------------------------------------------------------------


def test_results_belong_to_their_calls_in_any_order() -> None:
    calls = [call("terminal", {"command": command}, command) for command in ("make a", "make b")]
    record = Record.of([user("Go."), assistant(None, calls), tool("make b", "[exit 2]"), tool("make a", "[exit 0]")])
    assert [(action.reading.target, action.failed, action.result) for action in record.actions()] == [
        ("make a", False, 3), ("make b", True, 2),
    ]  # fmt: skip


def test_an_id_that_is_used_again_belongs_to_the_nearest_call() -> None:
    record = Record.of([user("Go."), *ran("make a", "[exit 2]", "1"), *ran("make b", "[exit 0]", "1")])
    assert [(action.reading.target, action.result) for action in record.actions()] == [("make a", 2), ("make b", 4)]


# -- files, plan, state ------------------------------------------------------------------------------------------------


def test_changed_files_are_known_by_the_path_that_the_tool_took() -> None:
    record = Record.of([
        user("Go."),
        *did("write_file", {"path": "/srv/shop/src/a.py", "content": "1\n2\n"}, "ok", "a"),
        *did("Edit", {"file_path": "docs/read me.md", "old_string": "x", "new_string": "y"}, "ok", "b"),
        *did("Edit", {"file_path": "lost.py", "old_string": "x", "new_string": "y"}, "Error: not found", "d"),
        *ran("cd build && rm -f old.txt && cp ../a.txt b.txt", "[exit 0]", "e"),
        *did("apply_patch", {"input": "*** Begin Patch\n*** Add File: n.py\n+x\n*** End Patch"}, "Done", "f"),
    ])  # fmt: skip
    assert {file.path: file.fate for file in record.files.values()} == {
        "/srv/shop/src/a.py": "created",
        "docs/read me.md": "changed",
        "build/old.txt": "deleted",
        "build/b.txt": "changed",
        "n.py": "created",
    }


def test_blocks_of_search_and_replace_are_edits_and_unfinished_ones_are_none() -> None:
    block = "<<<<<<< SEARCH\none\ntwo\n=======\none\nthree\nfour\n>>>>>>> REPLACE\n"
    torn = "<<<<<<< SEARCH\nfive\n=======\nsix\n"
    record = Record.of(
        [user("Go."), *did("replace_in_file", {"path": "a.py", "diff": block + block + torn}, "ok", "a")]
    )
    [file] = record.files.values()
    assert (file.fate, file.added, file.removed) == ("changed", 4, 2)


def test_a_file_that_was_there_before_is_not_called_created() -> None:
    record = Record.of([
        user("Go."),
        *did("read_file", {"path": "a.py"}, "1: x", "a"),
        *did("write_file", {"path": "a.py", "content": "y"}, "ok", "b"),
        *did("Edit", {"file_path": "b.py", "old_string": "x", "new_string": "y"}, "ok", "c"),
        *did("write_file", {"path": "b.py", "content": "z"}, "ok", "d"),
        *did("write_file", {"path": "c.py", "content": "z"}, "rewrote c.py: 1 line", "e"),
        *did("read_file", {"path": "d.py"}, "Error: File not found: d.py", "f"),
        *did("write_file", {"path": "d.py", "content": "z"}, "created d.py", "g"),
        *ran("rm d.py", "[exit 0]", "h"),
        *did("write_file", {"path": "d.py", "content": "z"}, "ok", "i"),
    ])  # fmt: skip
    fates = {file.path: file.fate for file in record.files.values()}
    assert fates == {"a.py": "changed", "b.py": "changed", "c.py": "changed", "d.py": "created"}


def test_a_plan_has_the_newest_state_of_each_entry() -> None:
    first = [
        {"id": "1", "content": "port put()", "status": "in_progress"},
        {"id": "2", "content": "docs", "status": "pending"},
    ]
    record = Record.of([
        user("Go."),
        *did("TodoWrite", {"todos": first}, "ok", "a"),
        *did("TodoWrite", {"todos": [{"id": "1", "content": "port put()", "status": "completed"}]}, "ok", "b"),
    ])  # fmt: skip
    assert [(entry.text, entry.is_done) for entry in record.plan] == [("port put()", True), ("docs", False)]
    assert record.plan_number == 3


@pytest.mark.parametrize(
    "message",
    [
        assistant(None, [call("update_plan", {"plan": [{"step": "a", "status": "completed"}, {"step": "b"}]}, "c")]),
        assistant("My plan:\n- [x] a\n- [ ] b"),
    ],
    ids=["update_plan", "checklist"],
)
def test_plans_of_other_tools_and_of_text_are_read(message: Message) -> None:
    assert [(one.text, one.is_done) for one in Record.of([user("Go."), message]).plan] == [("a", True), ("b", False)]


def test_the_newest_run_of_each_test_command_and_the_branch_are_known() -> None:
    record = Record.of([
        user("Go."),
        *ran("pytest -q", "1 failed, 2 passed in 0.1s", "a"),
        *ran("pytest -q", "3 passed in 0.1s", "b"),
        *ran("git status", "On branch main\nnothing to commit", "d"),
    ])  # fmt: skip
    assert {name: run.outcome.tests for name, run in record.tests.items() if run.outcome} == {
        "pytest -q": "3 passed in 0.1s"
    }
    assert record.states["branch"].text == "On branch main"


def test_reading_on_gives_the_same_record_as_reading_at_once() -> None:
    messages = [user("Fix it. Never touch prod.db."), *ran("make", "[exit 2]"), assistant("Done."), user("2")]
    grown = Record.of(messages[:2])
    grown.extend(messages[2:])
    whole = Record.of(messages)
    assert (grown.exchanges, grown.rules, grown.files) == (whole.exchanges, whole.rules, whole.files)
