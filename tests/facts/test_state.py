"""The state of a conversation, as a fold over the facts of its record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.facts import Entity, Fact, FactKind, StateRecord, entities_of
from clew.messages import Message
from clew.testing import assistant, call, tool, user
from tests.support.history import synthetic_history


def ran(command: str, result: str, id: str = "c", **more: Any) -> list[Message]:
    return [assistant(None, [call("terminal", {"command": command}, id=id)]), {**tool(id, result), **more}]  # type: ignore[typeddict-item]


def edited(path: str, old: str, new: str, id: str = "e", result: str = "Done.") -> list[Message]:
    made = call("edit", {"path": path, "old_string": old, "new_string": new}, id=id)
    return [assistant(None, [made]), tool(id, result)]


def written(path: str, content: str, id: str = "w") -> list[Message]:
    return [assistant(None, [call("write_file", {"path": path, "content": content}, id=id)]), tool(id, "Written.")]


def entities(messages: Sequence[Message], kind: FactKind, at: int | None = None) -> dict[str, Entity]:
    return {it.name: it for it in entities_of(StateRecord.of(messages).facts, at) if it.kind == kind}


def entity(messages: Sequence[Message], kind: FactKind, name: str = "", at: int | None = None) -> Entity:
    found = [it for it in entities(messages, kind, at).values() if name in it.name]
    assert len(found) == 1, found
    return found[0]


def values(entity: Entity) -> list[str]:
    return [fact.value for fact in entity.facts]


FACTS = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2", "done"])), max_size=12)


@given(FACTS, st.integers(0, 12))
def test_the_fold_at_a_message_is_the_fold_of_the_facts_up_to_it(said: list[tuple[str, str]], at: int) -> None:
    facts = [Fact("task", name, value, number) for number, (name, value) in enumerate(said)]
    assert entities_of(facts, at) == entities_of(facts[: at + 1])
    for found in entities_of(facts):
        assert [fact.value for fact in found.facts[-found.times :]] == [found.value] * found.times
        assert found.since == found.facts[-found.times].number
        assert found.before is None or found.before.value != found.value


@pytest.mark.parametrize("stop", [1, 7, 40, 120])
def test_facts_are_only_appended(stop: int) -> None:
    messages = synthetic_history(120)
    record = StateRecord.of(messages[:stop])
    first = list(record.facts)
    record.extend(messages[stop:])
    assert record.facts[: len(first)] == first
    assert record.facts == StateRecord.of(messages).facts


def test_a_setting_has_its_value_since_when_and_what_it_was_before() -> None:
    said = [
        user("Raise the timeout in the config."),
        *edited("app/config.toml", "timeout = 10\nname = 'x'", "timeout = 30\nname = 'x'"),
        *edited("app/config.toml", "timeout = 30", "timeout = 45"),
    ]
    found = entity(said, "setting")
    assert (found.name, found.value, found.since) == ("timeout in app/config.toml", "45", 4)
    assert found.before is not None and (found.before.value, found.before.number) == ("30", 2)
    assert values(found) == ["10", "30", "45"]
    assert entity(said, "setting", at=3).value == "30"


def test_of_code_only_a_constant_that_an_edit_changed_is_a_setting() -> None:
    found = entity(edited("a.py", "MAX_TRIES = 5\nx = f(1)", "MAX_TRIES = 8\nx = f(2)\nnew = 3"), "setting")
    assert (found.name, found.value) == ("MAX_TRIES in a.py", "8")


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ("git config --global user.name 'Ada' && export LOG_LEVEL=debug", {"user.name": "Ada", "LOG_LEVEL": "debug"}),
        ("npm config set registry https://example.org", {"registry": "https://example.org"}),
        ("git config user.name", {}),
        ("git config --unset user.name", {}),
        ("export PATH=$PATH:/opt/bin", {}),
        ("echo 'export A=1'", {}),
    ],
)
def test_commands_set_values_too(command: str, settings: dict[str, str]) -> None:
    found = entities(ran(command, "[exit 0]"), "setting")
    assert {name: it.value for name, it in found.items()} == settings


def test_a_patch_sets_values() -> None:
    patch = "*** Begin Patch\n*** Update File: conf/app.yaml\n@@\n-port: 8000\n+port: 9000\n*** End Patch"
    said = [assistant(None, [call("apply_patch", {"input": patch}, id="p")]), tool("p", "Success.")]
    assert entity(said, "setting", "port in conf/app.yaml").value == "9000"


def test_a_key_that_a_file_has_twice_is_no_setting() -> None:
    said = written("jobs.yaml", "version: 2\njobs:\n  - name: a\n  - name: b\n    name: c\n    name: d\n")
    assert list(entities(said, "setting")) == ["version in jobs.yaml"]


@pytest.mark.parametrize("command", ["rm themes/nord.json", "rm -rf themes", "git rm themes/nord.json"])
def test_a_setting_of_a_file_that_was_deleted_is_ended(command: str) -> None:
    said = [*written("themes/nord.json", '{\n  "accent": "nord8"\n}\n'), *ran(command, "[exit 0]")]
    assert not entity(said, "setting", at=1).is_ended
    assert entity(said, "setting").is_ended


def test_no_secret_becomes_a_value() -> None:
    key = "sk-ant-api03-" + "FAKEfake0123456789" * 5
    said = [*ran(f"export ANTHROPIC_API_KEY={key}", "[exit 0]"), *edited(".env", "A=1", f"A=2\nOPENAI_API_KEY={key}")]
    assert key not in json.dumps(StateRecord.of(said).facts)


def test_what_failed_changed_nothing() -> None:
    said = [
        *edited("a.toml", "limit = 1", "limit = 2", result="Error: old_string was not found"),
        *ran("git rm gone.py", "fatal: pathspec 'gone.py' did not match any files\n[exit 128]", id="r"),
    ]
    assert StateRecord.of(said).facts == []


def test_a_command_that_wrote_a_file_and_then_failed_changed_the_file() -> None:
    said = ran("sed -i 's/one/two/' src/cart.py && pytest", "1 failed, 2 passed in 0.1s\n[exit 1]")
    assert entity(said, "file", "cart.py").value == "changed"
    shown = "< one\n> two\n[exit 1]"
    said = ran("sed -i 's/one/two/' src/cart.py && diff src/cart.py.bak src/cart.py", shown)
    assert entity(said, "file", "cart.py").value == "changed"


def test_a_file_is_one_whether_it_is_called_by_its_whole_path_or_not() -> None:
    said = [
        *written("/home/me/shop/src/cart.py", "a\nb\n"),
        *edited("src/cart.py", "a", "c"),
        *ran("rm ./src/cart.py", "[exit 0]", id="r"),
    ]
    found = entity(said, "file")
    assert values(found) == ["written", "changed", "deleted"]
    assert found.is_ended and found.before is not None and found.before.value == "changed"


@pytest.mark.parametrize(
    ("said", "size"),
    [
        (written("new.txt", "one\ntwo\n"), "+2 -0"),
        (written("new.txt", "one\ntwo"), "+2 -0"),
        (edited("new.txt", "a\nb\nc\n", "a\nx\ny\nc\n"), "+2 -1"),
        (edited("new.txt", "a", ""), "+0 -1"),
    ],
)
def test_the_size_of_a_change_counts_its_lines(said: list[Message], size: str) -> None:
    assert entity(said, "file").now.detail == size


def test_files_of_a_deleted_folder_are_deleted() -> None:
    said = [*written("out/a/x.txt", "1"), *written("out/y.txt", "1"), *written("other.txt", "1"), *ran("rm -r out", "")]
    assert {name: it.is_ended for name, it in entities(said, "file").items()} == {
        "out": True,
        "out/a/x.txt": True,
        "out/y.txt": True,
        "other.txt": False,
    }


def test_tests_go_by_their_command_and_a_green_whole_makes_its_parts_green() -> None:
    said = [
        *ran("cd shop && python -m pytest -q tests/test_cart.py 2>&1 | tail -5", "2 failed, 3 passed in 0.1s", id="a"),
        *ran("python -m pytest tests/test_cart.py -x", "1 failed, 4 passed in 0.1s", id="b"),
        *ran("python -m pytest -q", "40 passed in 2.0s", id="d"),
    ]
    part = entity(said, "tests", "test_cart")
    assert part.name == "python -m pytest tests/test_cart.py"
    assert values(part) == ["2 failed, 3 passed", "1 failed, 4 passed", "passed"]
    assert "python -m pytest" in part.now.detail


def test_branches_and_commits_are_known_however_quietly_they_are_made() -> None:
    said = [
        *ran("git checkout -b retry", "Switched to a new branch 'retry'", id="a"),
        *ran("git commit -am x", "[retry 1a2b3c4] Retry the upload\n 1 file changed", id="b"),
        *ran("git commit -qam 'Wait longer' && git log --oneline -1", "9f8e7d6 Wait longer\n[exit 0]", id="d"),
        *ran("git commit -q -m \"$(cat <<'EOF'\nLog less\n\nWhy not.\nEOF\n)\"", "[exit 0]", id="f"),
        *ran("git status -sb", "## main...origin/main [ahead 1]", id="e"),
    ]
    branch, commit = entity(said, "branch"), entity(said, "commit")
    assert (branch.value, branch.before.value if branch.before else "") == ("main", "retry")
    assert [(it.value, it.detail) for it in commit.facts] == [
        ("1a2b3c4", "Retry the upload"),
        ("9f8e7d6", "Wait longer"),
        ("made", "Log less"),
    ]


@pytest.mark.parametrize(
    "stop", ["kill 4711", "pkill -f 'http.server 8123'", "lsof -ti:8123 | xargs kill", "kill $(lsof -t -i:8123)"]
)
def test_a_service_runs_until_a_command_stops_it(stop: str) -> None:
    said = [
        *ran("python -m http.server 8123 &", "[1] 4711\nServing HTTP on 0.0.0.0 port 8123 ", id="a"),
        *ran("kill 9999; python -m http.server --help", "usage", id="x"),
        *ran(stop, "[exit 0]", id="b"),
    ]
    found = entity(said, "service")
    assert (found.name, values(found)) == ("port 8123", ["running", "stopped"])
    assert entity(said, "service", at=4).value == "running"


def test_a_service_that_is_started_by_name_is_stopped_by_name() -> None:
    said = [
        *ran("docker run -d --name cache redis:7", "0f3a", id="a"),
        *ran("systemctl --user restart mailer", "", id="b"),
        *ran("docker stop cache", "cache", id="d"),
    ]
    assert {name: it.value for name, it in entities(said, "service").items()} == {
        "cache": "stopped",
        "mailer": "running",
    }


def test_a_rule_that_is_taken_back_is_replaced() -> None:
    said = [
        user("Always use tabs for indentation."),
        assistant("Will do."),
        user("Actually, forget the tabs for indentation, use spaces."),
    ]
    old = entity(said, "rule", "Always use tabs")
    assert (old.value, old.now.number) == ("replaced", 2)
    assert "use spaces" in old.now.detail
    assert entity(said, "rule", "use spaces").value == "in force"


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
        user("Never mind."),
        user("thanks, perfect work"),
    ]
    tasks = {name: values(it) for name, it in entities(said, "task").items()}
    assert tasks == {
        "Write the parser": ["doing", "done"],
        "Test it": ["open", "dropped"],
        "Please write a parser for the rota.": ["asked", "answered"],
        "Now document it, in a page of its own.": ["asked", "interrupted"],
        "Wait: first rename the module.": ["asked", "cancelled"],
    }


def test_a_task_that_goes_on_after_words_is_open_until_it_ends() -> None:
    said = [
        user("Fix the upload, please."),
        assistant("The log names two uploads."),
        *ran("cat log", "a"),
        assistant("Fixed."),
    ]
    assert values(entity(said, "task")) == ["asked", "answered", "asked", "answered"]


def test_an_answer_that_chooses_is_a_decision() -> None:
    offer = "Two ways are open:\n1. Keep SQLite\n2. Move to Postgres\nWhich option do you want?"
    said = [
        user("How do we store the rota?"),
        assistant(offer),
        user("2"),
        assistant("Should I commit it?"),
        user("do it"),
    ]
    found = entities(said, "decision")
    assert found["Move to Postgres"].since == 2
    assert found["Should I commit it?"].now.detail == "do it"


@pytest.mark.parametrize(
    ("text", "is_decision"),
    [
        ("I decided to keep the retry in the client and to bound it at five.", True),
        ("The root cause is the missing index on rota_id.", True),
        ("Uploads use httpx instead of requests, since it has timeouts.", True),
        ("I bet the editor is at fault because it detects a light theme.", False),
        ("It is probably slow because the index is missing.", False),
        ("Let me look at the log, because it names the file.", False),
        ("Should we use httpx instead of requests?", False),
        ("```\n# because the cache is cold here, warm it\n```", False),
    ],
)
def test_guesses_questions_and_code_are_no_decisions(text: str, *, is_decision: bool) -> None:
    said = [user("Look at it."), assistant(text)]
    assert bool(entities(said, "decision")) is is_decision
