from __future__ import annotations

from typing import Any

import pytest

from clew.ledger import AtomIndex, Ledger
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user


def ran(command: str, result: str, id: str = "c") -> list[Message]:
    return [assistant(None, [call("terminal", {"command": command}, id)]), tool(id, result)]


def plan_of(name: str, arguments: dict[str, object]) -> list[tuple[str, str]]:
    items, _ = Ledger.of([assistant(None, [call(name, arguments)])]).plan
    return [(item.text, item.progress) for item in items]


def test_parallel_calls_find_their_results_in_any_order() -> None:
    calls = [call("terminal", {"command": f"run {one}"}, one) for one in "abc"]
    results = [tool("c", "third\n[exit 3]"), tool("a", "first\n[exit 0]"), tool("b", "second\n[exit 2]")]
    ledger = Ledger.of([user("go"), assistant(None, calls), *results])
    told = [(one.target, one.call_index, one.result, one.outcome and one.outcome.exit_code) for one in ledger.actions]
    assert told == [("run a", 0, 3, 0), ("run b", 1, 4, 2), ("run c", 2, 2, 3)]


def test_a_result_without_a_call_and_a_call_without_a_result_are_no_trouble() -> None:
    ledger = Ledger.of(
        [tool("ghost", "boo"), assistant(None, [call("terminal", {"command": "x"})]), tool("other", "y")]
    )
    assert len(ledger.actions) == 1
    assert ledger.actions[0].outcome is None
    assert not ledger.actions[0].failed


@pytest.mark.parametrize("content", [None, "", [], [{"type": "image_url", "image_url": {"url": "data:,"}}], [None], 7])
@pytest.mark.parametrize("role", ["user", "assistant", "tool", "system", "developer"])
def test_content_of_any_kind_is_taken_in(role: Any, content: Any) -> None:
    message: Any = {"role": role, "content": content}
    ledger = Ledger.of([user("go"), message, user("Never stop.")])
    assert ledger.next_number == 3
    assert [rule.number for rule in ledger.rules] == [2]


def test_the_text_beside_a_picture_is_read() -> None:
    parts: Any = [{"type": "image_url", "image_url": {"url": "data:,"}}, {"type": "text", "text": "Never crop it."}]
    assert [rule.text for rule in Ledger.of([user(parts)]).rules] == ["Never crop it."]


def test_the_system_prompt_is_no_fact_of_the_conversation() -> None:
    ledger = Ledger.of([system("Never talk about src/secret_plan.py.")])
    assert not ledger.rules
    assert not ledger.index.atoms


def test_a_ledger_may_begin_in_the_middle_of_a_history() -> None:
    ledger = Ledger(first=40)
    ledger.extend([user("Never stop."), *ran("make", "done\n[exit 0]")])
    assert (ledger.rules[0].number, ledger.actions[0].number, ledger.actions[0].result) == (40, 41, 42)


def test_reading_at_once_and_message_by_message_gives_the_same_facts() -> None:
    history = [user("Never stop."), *ran("rm a.txt", "[exit 0]"), assistant("I decided so because it is late.")]
    whole, grown = Ledger.of(history), Ledger()
    for message in history:
        grown.add(message)
    assert whole.actions == grown.actions
    assert (whole.rules, whole.decisions, whole.files) == (grown.rules, grown.decisions, grown.files)
    assert sorted(whole.index.atoms) == sorted(grown.index.atoms)


def test_what_lies_far_back_in_a_huge_history_is_read_in_outline() -> None:
    big = "value_of_nothing 12345\n" * 50_000
    history = [user("Never stop."), *ran("touch first.txt", "[exit 0]", "a"), *ran("cat log", big, "b")]
    history += [*ran("cat log", big * 3, "c")]
    ledger = Ledger.of(history)
    assert [rule.text for rule in ledger.rules] == ["Never stop."]
    assert "first.txt" in ledger.files
    assert "first.txt" not in ledger.index.atoms


def test_the_state_tells_branch_commit_tests_and_what_is_running() -> None:
    ledger = Ledger.of(
        [
            *ran("git commit -m x", "[main 9f3c2ab] x\n 1 file changed\n[exit 0]"),
            *ran("pytest -q", "== 16 passed in 1.2s ==\n[exit 0]"),
            *ran("npm start", "Server listening on http://localhost:8443"),
        ]
    )
    assert ledger.state.branch == ("main", 1)
    assert ledger.state.commit == ("9f3c2ab", 1)
    assert ledger.state.tests == ("16 passed", 3)
    assert ledger.state.serving == ("Server listening on http://localhost:8443", 5)


def test_a_warning_about_running_is_no_server() -> None:
    warning = (
        "(node:38954) Warning: Using the inspector with --test forces running at a concurrency of 1.\nRunning on CI"
    )
    calls = [assistant(None, [call("terminal", {"command": "npm test"}, "a")]), tool("a", warning)]
    assert Ledger.of([user("go"), *calls]).state.serving is None


def test_a_commit_belongs_to_the_branch_it_was_made_on() -> None:
    ledger = Ledger.of(
        [
            *ran("git commit -m x", "[main (root-commit) 9f3c2ab] x"),
            *ran("git checkout -b feat/async", "Switched to a new branch 'feat/async'"),
        ]
    )
    assert ledger.state.branch == ("feat/async", 3)
    assert ledger.state.commit is None
    ledger.extend(ran("git commit -m y", "[detached HEAD 1234567] y"))
    assert ledger.state.branch == ("detached HEAD", 5)


TODOS = [("Read", "done"), ("Write", "doing"), ("Test", "open")]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("TodoWrite", {"todos": [
            {"content": "Read", "status": "completed", "activeForm": "Reading"},
            {"content": "Write", "status": "in_progress"}, {"content": "Test", "status": "pending"}]}),
        ("update_plan", {"explanation": "so", "plan": [
            {"step": "Read", "status": "completed"}, {"step": "Write", "status": "in_progress"},
            {"step": "Test", "status": "pending"}]}),
        ("write_todos", {"todos": [
            {"description": "Read", "status": "completed"}, {"description": "Write", "status": "in_progress"},
            {"description": "Test", "status": "pending"}]}),
        ("manage_todo_list", {"operation": "write", "todoList": [
            {"id": 1, "title": "Read", "status": "completed"}, {"id": 2, "title": "Write", "status": "in-progress"},
            {"id": 3, "title": "Test", "status": "not-started"}]}),
        ("todo", {"todos": '[{"content": "Read", "status": "done"}, {"content": "Write", "status": "doing"}, "Test"]'}),
    ],
)  # fmt: skip
def test_plans_are_read_in_the_shapes_of_many_tools(name: str, arguments: dict[str, object]) -> None:
    assert plan_of(name, arguments) == TODOS


def test_a_plan_may_be_a_list_of_boxes_or_of_words() -> None:
    assert plan_of("todo_write", {"todos": "- [x] Read\n- [ ] Test\n"}) == [("Read", "done"), ("Test", "open")]
    assert plan_of("update_plan", {"plan": ["Read", "Test"]}) == [("Read", "open"), ("Test", "open")]


def test_asking_for_the_plan_does_not_empty_it_and_a_part_of_it_updates_it() -> None:
    first = {"todos": [{"id": "1", "content": "Read", "status": "pending"}, {"id": "2", "content": "Test"}]}
    part = {"todos": [{"id": "1", "content": "Read", "status": "completed"}], "merge": True}
    ledger = Ledger.of(
        [assistant(None, [call("todo", args, id)]) for id, args in (("a", first), ("b", {}), ("c", part))]
    )
    items, number = ledger.plan
    assert [(item.text, item.progress) for item in items] == [("Read", "done"), ("Test", "open")]
    assert number == 2


def index_of(*texts: str) -> AtomIndex:
    index = AtomIndex()
    for number, text in enumerate(texts):
        index.add(tool(f"c{number}", text), number)
    return index


def test_an_index_knows_who_said_an_atom_how_often_and_where_last() -> None:
    index = AtomIndex()
    index.add(user("fix load_day in src/day.py"), 0)
    index.add(assistant("looking", [call("read_file", {"path": "src/day.py"})]), 1)
    index.add(tool("call_1", "def load_day(): ...\nload_day()"), 2)
    seen = index.atoms["load_day"]
    assert (seen.user, seen.assistant, seen.tool, seen.messages, seen.newest_numbers) == (1, 0, 1, 2, (2, 0))
    assert index.atoms["src/day.py"].last_assistant == 1


def test_the_newest_atoms_are_chosen_by_place_and_then_by_name() -> None:
    index = index_of("old_one old_two", "mid_one mid_two mid_three", "new_one")
    assert index.newest(3) == ["new_one", "mid_one", "mid_three"]
    assert index.newest(99) == sorted(index.atoms)


def test_what_a_person_named_late_is_worth_more_than_what_a_result_showed_once() -> None:
    index = index_of("load_day")
    index.add(user("what about load_week?"), 1)
    assert index.worth("load_week", 0) > index.worth("load_day", 0)


def test_what_was_seen_since_the_newest_request_is_worth_more() -> None:
    index = index_of("before_it", "after_it")
    assert index.worth("after_it", 0, 1) > index.worth("after_it", 0)
    assert index.worth("before_it", 0, 1) == index.worth("before_it", 0)


def test_an_index_reads_what_a_call_was_given_as_the_tool_reads_it() -> None:
    index = AtomIndex()
    index.add(assistant(None, [call("edit", {"path": "a.ts", "newText": "{\n\tcurrentTheme,\n\tuserMessages\n}"})]), 0)
    assert {"currentTheme", "userMessages"} <= index.atoms.keys()
    assert not {"tcurrentTheme", "nThis", "newText"} & index.atoms.keys()


def test_a_folder_that_was_deleted_and_made_anew_is_not_told_as_deleted() -> None:
    def ran(command: str, id: str) -> list[Message]:
        return [assistant(None, [call("bash", {"command": command}, id)]), tool(id, "ok")]

    messages = [*ran("rm -rf /srv/shop/parts", "a"), *ran("rm -rf /srv/shop/old", "b")]
    assert [fact.ended for fact in Ledger.of(messages).files.values()] == ["deleted", "deleted"]
    messages += ran("sed -i 's/one/two/' /srv/shop/parts/list.py", "c")
    files = Ledger.of(messages).files
    assert {path: fact.ended for path, fact in files.items()} == {
        "/srv/shop/old": "deleted",
        "/srv/shop/parts/list.py": "",
    }


def test_a_file_counts_as_read_when_it_was() -> None:
    calls = [
        call("read", {"path": path}, id) for id, path in (("a", "/srv/list.py"), ("b", "/srv/gone.py"), ("c", "/srv"))
    ]
    messages = [assistant(None, calls), tool("a", "rows = 212"), tool("b", "File does not exist.")]
    assert [fact.path for fact in Ledger.of(messages).files.values() if fact.reads] == ["/srv/list.py"]


def test_a_folder_may_be_deleted_and_made_anew_by_calls_side_by_side() -> None:
    delete = {"command": "rm -rf /srv/app/build"}
    write = {"file_path": "/srv/app/build/x.py", "content": "x"}
    messages = [user("Build anew."), assistant(None, [call("bash", delete, "a")]), tool("a", "")]
    messages += [
        assistant(None, [call("bash", delete, "b"), call("Write", write, "c")]),
        tool("b", ""),
        tool("c", "ok"),
    ]
    ledger = Ledger.of(messages)
    assert {path: fact.ended for path, fact in ledger.files.items()} == {"/srv/app/build/x.py": ""}


def test_where_a_file_was_moved_to_is_told_by_the_folder_of_the_command() -> None:
    def ended(command: str) -> dict[str, str]:
        messages = [assistant(None, [call("bash", {"command": command}, "a")]), tool("a", "")]
        return {path: fact.ended for path, fact in Ledger.of(messages).files.items()}

    assert ended("cd /srv/shop && mv old/list.py .") == {"/srv/shop/old/list.py": "moved to /srv/shop/"}
    assert ended("cd /srv/shop/src && mv list.py ../lib/") == {"/srv/shop/src/list.py": "moved to /srv/shop/lib/"}
    assert ended("cd /srv/shop && mv list.py lib/") == {"/srv/shop/list.py": "moved to lib/"}
