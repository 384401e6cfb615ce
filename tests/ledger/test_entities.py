"""The entities of a conversation: their values, since when, what they were before, and the message that says so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from clew.ledger import Entity, EntityKind, EntityReader, entities_of
from clew.messages import Message
from clew.testing import assistant, call, tool, user


def ran(command: str, result: str, id: str = "c", **more: Any) -> list[Message]:
    return [assistant(None, [call("terminal", {"command": command}, id=id)]), {**tool(id, result), **more}]  # type: ignore[typeddict-item]


def edited(path: str, old: str, new: str, id: str = "e", result: str = "Done.") -> list[Message]:
    made = call("edit", {"path": path, "old_string": old, "new_string": new}, id=id)
    return [assistant(None, [made]), tool(id, result)]


def read(messages: Sequence[Message]) -> EntityReader:
    reader = EntityReader()
    for number, message in enumerate(messages):
        reader.add(message, number)
    return reader


def entity(messages: Sequence[Message], kind: EntityKind, name: str = "", at: int | None = None) -> Entity:
    found = [it for it in entities_of(read(messages).changes, at) if it.kind == kind and name in it.name]
    assert len(found) == 1, found
    return found[0]


def test_a_setting_has_its_value_since_when_and_what_it_was_before() -> None:
    said = [
        user("Raise the timeout in the config."),
        *edited("app/config.toml", "timeout = 10\nname = 'x'", "timeout = 30\nname = 'x'"),
        *edited("app/config.toml", "timeout = 30", "timeout = 45"),
    ]
    found = entity(said, "setting")
    assert (found.name, found.value, found.since) == ("timeout in app/config.toml", "45", 4)
    assert found.before is not None and (found.before.value, found.before.number) == ("30", 2)
    assert [change.value for change in found.changes] == ["10", "30", "45"]
    assert entity(said, "setting", at=3).value == "30"


def test_what_a_script_writes_when_it_is_run_is_changed_also_by_a_later_reader() -> None:
    code = "target = 'src/rows.py'\nopen(target, 'w').write('x')\n"
    wrote = [assistant(None, [call("write_file", {"path": "fix.py", "content": code}, "a")]), tool("a", "ok")]
    first = read(wrote)
    later = EntityReader(first.changes, json.loads(json.dumps(first.context)))
    for number, message in enumerate(ran("cd annex && python ../fix.py", "done"), 2):
        later.add(message, number)
    changed = {it.name: it.value for it in entities_of(later.changes) if it.kind == "file"}
    assert changed == {"fix.py": "written", "annex/src/rows.py": "changed"}


def test_of_code_only_a_value_that_an_edit_changed_is_a_setting() -> None:
    said = edited("a.py", "MAX_TRIES = 5\nx = f(1)", "MAX_TRIES = 8\nx = f(2)\nnew = 3")
    found = entity(said, "setting")
    assert (found.name, found.value) == ("MAX_TRIES in a.py", "8")


def test_a_patch_and_a_command_set_values_too() -> None:
    patch = "*** Begin Patch\n*** Update File: conf/app.yaml\n@@\n-port: 8000\n+port: 9000\n*** End Patch"
    said = [
        assistant(None, [call("apply_patch", {"input": patch}, id="p")]),
        tool("p", "Success."),
        *ran("git config user.name 'Ada' && export LOG_LEVEL=debug", "[exit 0]"),
    ]
    values = {it.name: it.value for it in entities_of(read(said).changes) if it.kind == "setting"}
    assert values == {"port in conf/app.yaml": "9000", "user.name": "Ada", "LOG_LEVEL": "debug"}


def test_no_secret_becomes_a_value() -> None:
    key = "sk-ant-api03-" + "FAKEfake0123456789" * 5
    said = [*ran(f"export ANTHROPIC_API_KEY={key}", "[exit 0]"), *edited(".env", "A=1", f"A=2\nOPENAI_API_KEY={key}")]
    assert key not in json.dumps([change.value for change in read(said).changes])


def test_what_failed_changed_nothing() -> None:
    said = [
        *edited("a.toml", "limit = 1", "limit = 2", result="Error: old_string was not found"),
        *ran("git rm gone.py", "fatal: pathspec 'gone.py' did not match any files\n[exit 128]", id="r"),
    ]
    assert read(said).changes == []


def test_a_file_is_one_whether_it_is_called_by_its_whole_path_or_not() -> None:
    said = [
        assistant(None, [call("write_file", {"path": "/home/me/shop/src/cart.py", "content": "a\nb\n"}, id="w")]),
        tool("w", "Wrote 2 lines."),
        *edited("src/cart.py", "a", "c"),
        *ran("rm ./src/cart.py", "[exit 0]", id="r"),
    ]
    found = entity(said, "file")
    assert [change.value for change in found.changes] == ["written", "changed", "deleted"]
    assert found.is_ended and found.before is not None and found.before.value == "changed"


def test_tests_go_by_their_command_and_a_green_whole_makes_its_parts_green() -> None:
    said = [
        *ran("cd shop && python -m pytest -q tests/test_cart.py 2>&1 | tail -5", "2 failed, 3 passed in 0.1s", id="a"),
        *ran("python -m pytest tests/test_cart.py -x", "1 failed, 4 passed in 0.1s", id="b"),
        *ran("python -m pytest -q", "40 passed in 2.0s", id="d"),
    ]
    part = entity(said, "tests", "test_cart")
    assert part.name == "python -m pytest tests/test_cart.py"
    assert [change.value for change in part.changes] == ["2 failed, 3 passed", "1 failed, 4 passed", "passed"]
    assert part.now.detail == "with python -m pytest"


def test_branches_and_commits_are_known_however_quietly_they_are_made() -> None:
    said = [
        *ran("git checkout -b retry", "Switched to a new branch 'retry'", id="a"),
        *ran("git commit -am x", "[retry 1a2b3c4] Retry the upload\n 1 file changed", id="b"),
        *ran("git commit -qam 'Wait longer' && git log --oneline -1", "9f8e7d6 Wait longer\n[exit 0]", id="d"),
        *ran("git status -sb", "## main...origin/main [ahead 1]", id="e"),
    ]
    branch, commit = entity(said, "branch"), entity(said, "commit")
    assert (branch.value, branch.before.value if branch.before else "") == ("main", "retry")
    assert [(it.value, it.detail) for it in commit.changes] == [
        ("1a2b3c4", "Retry the upload"),
        ("9f8e7d6", "Wait longer"),
    ]


def test_a_service_runs_until_a_command_stops_it() -> None:
    said = [
        *ran("python -m http.server 8123 &", "[1] 4711\nServing HTTP on 0.0.0.0 port 8123 ", id="a"),
        *ran("kill 4711", "[exit 0]", id="b"),
    ]
    assert [change.value for change in entity(said, "service").changes] == ["running", "stopped"]
    assert entity(said, "service", at=2).value == "running"


def test_a_rule_that_is_taken_back_is_replaced() -> None:
    said = [
        user("Use tabs for indentation."),
        assistant("Will do."),
        user("Actually, forget the tabs for indentation, use spaces."),
    ]
    old = entity(said, "rule", "Use tabs")
    assert (old.value, old.now.number) == ("replaced", 2)
    assert "use spaces" in old.now.detail


def test_tasks_are_what_people_ask_and_what_the_plan_says() -> None:
    plan = [{"content": "Write the parser", "status": "in_progress"}, {"content": "Test it", "status": "pending"}]
    done = [{"content": "Write the parser", "status": "completed"}]
    said = [
        user("Please write a parser for the rota."),
        assistant(None, [call("todo_write", {"todos": plan}, id="p")]),
        tool("p", "ok"),
        assistant(None, [call("todo_write", {"todos": done}, id="q")]),
        tool("q", "ok"),
        assistant("The parser is written."),
        user("Now document it, in a page of its own."),
        user("Wait: first rename the module."),
    ]
    values = {it.name: [change.value for change in it.changes] for it in entities_of(read(said).changes)}
    assert values["Write the parser"] == ["doing", "done"]
    assert values["Test it"] == ["open", "dropped"]
    assert values["Please write a parser for the rota."] == ["asked", "answered"]
    assert values["Now document it, in a page of its own."] == ["asked", "interrupted"]
    assert values["Wait: first rename the module."] == ["asked"]


@pytest.mark.parametrize("stop", range(1, 12))
def test_a_reader_that_goes_on_from_another_reads_what_one_alone_would(stop: int) -> None:
    said = [
        user("Never use tabs. Write the rota page."),
        assistant(None, [call("todo_write", {"todos": [{"content": "One", "status": "pending"}]}, id="p")]),
        tool("p", "ok"),
        *edited("a.toml", "limit = 1", "limit = 2"),
        *ran("python -m http.server 8123 &", "[1] 4711\nServing HTTP on 0.0.0.0 port 8123", id="a"),
        *ran("kill 4711", "[exit 0]", id="b"),
        assistant("Done, because it was easy to do in this case."),
        user("Actually, forget that rule about tabs."),
        assistant("Forgotten."),
    ]
    first = read(said[:stop])
    context = json.loads(json.dumps(first.context))
    second = EntityReader(first.changes, context)
    for number in range(stop, len(said)):
        second.add(said[number], number)
    assert second.changes == read(said).changes


def test_a_change_whose_command_ends_with_what_it_found_was_made() -> None:
    shown = "< one\n> two\n[exit 1]"
    said = ran("sed -i 's/one/two/' src/cart.py && diff src/cart.py.bak src/cart.py", shown, id="a")
    assert entity(said, "file", "cart.py").value == "changed"
