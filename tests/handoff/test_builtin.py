"""The built-in handoff of small conversations: what must be in it, and where. Sentences are not compared."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from clew.handoff import ACTIVE_TASK, COMPLETED, Entry, Handoff, write_handoff
from clew.handoff.builtin import Draft
from clew.handoff.candidates import Kind
from clew.handoff.value import BLOCKED, FILES, IN_PROGRESS, RULES, STATE, TRIED
from clew.messages import Message
from clew.testing import assistant, call, tool, user
from clew.tokens import counter_for
from tests.support.history import synthetic_history
from tests.support.summaries import summary_input_of

count = counter_for(None).text


def did(name: str, arguments: dict[str, Any], result: str, id: str = "c") -> list[Message]:
    return [assistant(None, [call(name, arguments, id)]), tool(id, result)]


def ran(command: str, result: str, id: str = "c") -> list[Message]:
    return did("terminal", {"command": command}, result, id)


def handoff_of(messages: list[Message], budget: int = 4_000, **more: Any) -> Handoff:
    return write_handoff(summary_input_of(messages, **more), budget, count)


def text_under(handoff: Handoff, *headings: str) -> str:
    entries = [entry for heading in headings for entry in handoff.entries(heading)]
    return "\n".join(line.render() for entry in entries for line in (entry, *entry.lines))


# -- the task ----------------------------------------------------------------------------------------------------------


def test_the_task_is_the_newest_request_that_is_not_answered() -> None:
    said = [user("Port the uploader."), assistant("Ported."), user("Also add jitter."), *ran("cat retry.py", "x = 1")]
    handoff = handoff_of(said)
    assert "Also add jitter." in text_under(handoff, ACTIVE_TASK)
    assert "Port the uploader." in text_under(handoff, COMPLETED)
    assert "Also add jitter." not in text_under(handoff, COMPLETED)


def test_the_active_task_is_not_repeated_under_other_headings() -> None:
    task = "Add jitter to the retry of the uploader, as ticket UP-48 describes it."
    handoff = handoff_of([user(task), *ran("cat retry.py", "DELAYS = (0.5, 1, 2)")])
    assert handoff.render().count(task[:40]) == 1
    assert "DELAYS" in text_under(handoff, IN_PROGRESS)


@pytest.mark.parametrize("last", ["Do not restart the queue.", "verder", "продолжай", "yes"])
def test_a_request_that_only_forbids_or_agrees_is_given_with_the_one_that_it_belongs_to(last: str) -> None:
    first = "Export the invoices of March to invoices.csv, one line each."
    for said in ([user(first)], [user(first), assistant("The first half is written.")]):
        task = text_under(handoff_of([*said, user(last), *ran("wc -l invoices.csv", "12 invoices.csv")]), ACTIVE_TASK)
        assert first in task and (last in task or not said[1:])


def test_a_long_request_keeps_its_list_file_names_and_values() -> None:
    wanted = [f"- {name}.svg with a border of {at + 3}px" for at, name in enumerate(["gauge", "dial", "lamp", "knob"])]
    story = " ".join(["We talked about the panel for a long while and everybody had some view of it."] * 30)
    messages = [user(f"Draw the panel. {story}\n{chr(10).join(wanted)}"), assistant("Drawn."), user("Now the docs.")]
    text = handoff_of([*messages, *ran("ls", "docs")], 1_000).render()
    assert all(line.removeprefix("- ") in text for line in wanted)
    assert "Draw the panel." in text


def test_a_request_that_was_answered_is_no_open_task() -> None:
    handoff = handoff_of([user("Force push the branch."), *ran("git push -f", "[exit 0]"), assistant("It is pushed.")])
    assert text_under(handoff, ACTIVE_TASK).startswith("None")
    assert not handoff.entries(IN_PROGRESS)


def test_a_question_of_the_agent_keeps_the_task_open() -> None:
    handoff = handoff_of([user("Store the rota."), assistant("Should I use SQLite or Postgres?")])
    task = text_under(handoff, ACTIVE_TASK)
    assert "Store the rota." in task and "SQLite or Postgres?" in task


def test_an_announcement_is_no_answer() -> None:
    said = [user("Add jitter to the retry."), *ran("cat retry.py", "x = 1"), assistant("I will add it to retry.py.")]
    assert not text_under(handoff_of(said), ACTIVE_TASK).startswith("None")


def test_a_cancelled_request_is_listed_as_cancelled() -> None:
    handoff = handoff_of(
        [user("Use the new scheduler."), assistant("I began."), user("Stop this now."), assistant("Ok.")]
    )
    [entry] = [entry for entry in handoff.entries(COMPLETED) if "scheduler" in entry.text]
    assert "cancelled" in entry.text


def test_what_the_agent_offered_to_leave_is_not_cancelled() -> None:
    asked = "The modules are removed. Would you like me to remove the kernel module as well, or leave it?"
    done = [user("Uninstall the cellular modules."), *ran("opkg remove modem", "Removed."), assistant(asked)]
    handoff = handoff_of([*done, user("Leave it."), assistant("The kernel module stays as it is.")])
    assert "cancelled" not in text_under(handoff, COMPLETED)


def test_where_work_was_interrupted_the_last_words_say_how_far_it_got() -> None:
    words = "Next comes the getter that passes the queue on to the session"
    begun = [
        user("Move the queue."),
        assistant(words, [call("terminal", {"command": "cat q.py"}, "q")]),
        tool("q", "x"),
    ]
    filler = [user("And the rest?"), *ran("cat rest.py", "y"), assistant("The rest is done as well.")]
    assert words in text_under(handoff_of([*begun, *filler]), COMPLETED)


def test_a_file_that_is_edited_and_read_again_and_again_has_one_line_for_each() -> None:
    messages = [user("Draw the harbour map in site/map.css.")]
    for n in range(6):
        edit = {"path": "site/map.css", "old_str": f"gap: {n}px", "new_str": f"gap: {n + 1}px"}
        rows = "\n".join(f".pier-{row} {{ width: {row * 13}px; height: {row * 7}px }}" for row in range(9))
        messages += did("edit_file", edit, "Done.", f"e{n}")
        messages += did("read_file", {"path": "site/map.css"}, f"{rows}\n.map {{ gap: {n + 1}px }}", f"r{n}")
    text = handoff_of(messages).render()
    assert text.count("CHANGED ") == 1 and "6 times" in text and "(m1-m21)" in text
    assert text.count("READ ") <= 1 and all(text.count(f".pier-{row} ") <= 1 for row in range(9))


def test_which_lines_of_a_file_were_read_is_named() -> None:
    def read(first: int, last: int) -> list[Message]:
        lines = "\n".join(f"{number}\tretry_delay_{number} = {number}" for number in range(first, last + 1))
        return did("read_file", {"path": "src/retry.py", "offset": first}, lines)

    line = text_under(handoff_of([user("Go."), *read(1, 40), *read(41, 60), *read(200, 220)]), IN_PROGRESS)
    assert "READ src/retry.py lines 1-60, 200-220:" in line


def test_earlier_commits_are_listed() -> None:
    def commit(hash: str, subject: str) -> list[Message]:
        return ran(f"git commit -qam '{subject}'", f"[main {hash}] {subject}\n 1 file changed")

    said = [user("Go."), *commit("1b9c315", "Read the limits"), *commit("36a971a", "Add jitter"), *ran("ls", "a.py")]
    state = text_under(handoff_of(said), STATE)
    assert "1b9c315" in state and "36a971a" in state


def test_no_part_of_a_long_command_is_given_twice() -> None:
    names = [f"gl-sdk4-module-{n}-service" for n in range(10, 22)]
    removed = ran(f"opkg remove {' '.join(names)}", "gone")
    text = handoff_of([user("Clean up."), *removed, assistant("They are all gone now.")]).render()
    assert max(map(text.count, names)) == 1


def test_a_command_that_only_shows_something_is_no_failure_of_the_work() -> None:
    asked = [user("Count the commits."), *ran("pwd && git log --oneline", "fatal: not a git repository\nexit code 128")]
    assert not text_under(handoff_of([*asked, assistant("Here is no repository.")]), BLOCKED, TRIED)


def test_a_repeated_run_of_the_same_instructions_is_listed_as_such() -> None:
    task = "Collect the figures of the last week, check them against the invoices and write the report."
    handoff = handoff_of([user(task), assistant("Report A is written."), user(task), assistant("Report B is written.")])
    first, second = handoff.entries(COMPLETED)
    assert task in first.text
    assert task not in second.text and "m0" in second.text


def test_a_skill_text_is_neither_task_nor_rule() -> None:
    skill = "Base directory for this skill: /s\n# Review\nAlways review twice. Never commit on a Friday."
    handoff = handoff_of([user("Review the branch."), *did("Skill", {"skill": "review"}, "ok"), user(skill)])
    assert "Review the branch." in text_under(handoff, ACTIVE_TASK)
    assert not handoff.entries(RULES)
    assert "Friday" not in handoff.render()


# -- failures ----------------------------------------------------------------------------------------------------------


def failing(messages: list[Message]) -> list[str]:
    """The commands that the handoff lists as failed and not overcome."""
    handoff = handoff_of([user("Go."), *messages])
    listed = [*handoff.entries(BLOCKED), *handoff.entries(TRIED)]
    return [entry.text.split(": ")[0] for entry in listed]


def test_red_tests_that_went_green_are_no_open_failure() -> None:
    red, green = "E   AssertionError\n1 failed, 2 passed in 0.1s\n[exit 1]", "3 passed in 0.1s\n[exit 0]"
    assert failing([*ran("pytest -q", red, "a"), *ran("pytest -q", green, "b")]) == []
    assert failing([*ran("pytest -q", green, "a"), *ran("pytest -q", red, "b")]) == ["pytest -q"]


def test_a_merge_that_was_committed_is_no_open_failure() -> None:
    merge = ran("git merge limits", "CONFLICT (content): Merge conflict in a.py\n[exit 1]", "a")
    assert failing(merge) == ["git merge limits"]
    assert failing([*merge, *ran("git add -A && git commit -qm merge", "", "b")]) == []
    push = ran("git push", "! [rejected] main -> main (fetch first)\n[exit 1]", "a")
    assert failing([*push, *ran("git commit -qam x", "", "b")]) == ["git push"]


def test_the_state_names_no_failed_run_before_one_that_passed() -> None:
    red, green = "1 failed in 0.1s\n[exit 1]", "3 passed in 0.2s\n[exit 0]"
    state = text_under(handoff_of([user("Go."), *ran("pytest a.py", red, "a"), *ran("pytest", green, "b")]), STATE)
    assert "3 passed" in state and "1 failed" not in state


@pytest.mark.parametrize(
    ("red", "green"),
    [
        ("pytest -q tests/test_cart.py", "pytest -q"),
        ("pytest -q", "pytest -q 2>&1 | tail -5"),
        ("cd shop && pytest -q", "pytest -q"),
    ],
)
def test_red_tests_that_went_green_under_another_command_line_are_no_open_failure(red: str, green: str) -> None:
    failed = "E   AssertionError\n1 failed, 2 passed in 0.1s\n[exit 1]"
    assert failing([*ran(red, failed, "a"), *ran(green, "3 passed in 0.1s\n[exit 0]", "b")]) == []


def test_the_runs_of_tests_are_listed_in_their_order() -> None:
    runs = [("pytest a", "3 passed"), ("pytest b", "4 passed"), ("pytest a", "5 passed")]
    said = [user("Go."), *chain.from_iterable(ran(command, f"{result} in 0.1s") for command, result in runs)]
    state = text_under(handoff_of(said), STATE)
    assert state.index("4 passed") < state.index("5 passed")


def test_the_outcomes_of_a_repeated_command_name_their_messages() -> None:
    runs = ["1 failed, 4 passed in 0.3s", "2 failed, 3 passed in 0.4s", "5 passed in 0.2s"]
    said = [user("Go."), *chain.from_iterable(ran("pytest -q tests", result) for result in runs)]
    line = next(line for line in text_under(handoff_of(said), IN_PROGRESS).splitlines() if "5 passed" in line)
    numbers = {result: number for result, number in zip(runs, (2, 4, 6), strict=True) if result in line}
    assert len(numbers) > 1
    assert all(f"{result} (m{number})" in line for result, number in numbers.items())


def test_a_refused_push_is_an_open_failure_until_it_succeeds() -> None:
    refused = " ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs to 'origin'"
    pushed = "   1a2b3c4..9f8e7d6  main -> main\n[exit 0]"
    assert failing(ran("git push", refused)) == ["git push"]
    assert failing([*ran("git push", refused, "a"), *ran("git push", pushed, "b")]) == []


def test_a_page_that_could_not_be_fetched_is_marked_as_failed() -> None:
    said = did("web_fetch", {"url": "https://example.org/limits"}, "Request failed with status code 403")
    assert "(failed)" in text_under(handoff_of([user("Go."), *said]), IN_PROGRESS)
    page = did("web_fetch", {"url": "https://example.org/limits"}, f"A 403 has the status code 403. {'Text. ' * 90}")
    assert "(failed)" not in text_under(handoff_of([user("Go."), *page]), IN_PROGRESS)


def test_a_test_run_before_the_last_change_is_marked() -> None:
    run, change = ran("pytest", "5 passed in 0.1s"), did("write_file", {"path": "a.py", "content": "x = 1"}, "written")
    assert "before the last change" in text_under(handoff_of([user("Go."), *run, *change]), STATE)
    assert "before the last change" not in text_under(handoff_of([user("Go."), *change, *run]), STATE)


def test_an_http_error_inside_json_is_an_open_failure() -> None:
    said = did("create_pull_request", {"title": "Port it"}, '{"status": 422, "message": "Validation Failed"}')
    assert failing(said) == ["Port it"]


def test_a_failure_is_listed_with_the_line_that_explains_it() -> None:
    handoff = handoff_of([user("Deploy."), *ran("make deploy", "step 1\nfatal: could not resolve host\n[exit 128]")])
    assert "could not resolve host" in text_under(handoff, BLOCKED)


# -- rules, files, state -----------------------------------------------------------------------------------------------


def test_rules_files_plan_and_tests_are_listed() -> None:
    plan = [{"content": "port put()", "status": "completed"}, {"content": "write docs", "status": "pending"}]
    handoff = handoff_of([
        user("Port the uploader. Never touch prod.db."),
        *did("TodoWrite", {"todos": plan}, "ok", "a"),
        *did("write_file", {"path": "/srv/shop/src/up load.py", "content": "A = 1"}, "ok", "b"),
        *ran("pytest -q", "16 passed in 0.9s", "d"),
        *ran("git commit -am x", "[feat/async 9f3c2ab] x", "e"),
    ])  # fmt: skip
    assert "Never touch prod.db." in text_under(handoff, RULES)
    assert "/srv/shop/src/up load.py" in text_under(handoff, FILES)
    state = text_under(handoff, STATE)
    for fact in ("[x] port put()", "[ ] write docs", "16 passed", "9f3c2ab", "feat/async"):
        assert fact in state


def test_paths_of_changed_files_are_those_that_the_tools_took() -> None:
    paths = [f"/home/ann/work/projects/tidepost/packages/agent/src/part_{n}.py" for n in range(6)]
    edits = [did("write_file", {"path": path, "content": "PART = 1"}, "ok") for path in paths]
    handoff = handoff_of([user("Split it."), *chain.from_iterable(edits), assistant("It is split into six parts.")])
    assert all(path in text_under(handoff, FILES) for path in paths)


def test_a_mark_stands_for_the_common_folder_and_the_newest_files_have_their_whole_paths() -> None:
    root = "/home/ann/work/projects/tidepost/packages/agent/src/"
    edits = [did("write_file", {"path": f"{root}part_{n}.py", "content": "PART = 1"}, "ok") for n in range(20)]
    outside = did("write_file", {"path": "docs/part.md", "content": "Twenty parts."}, "ok")
    said = [user("Split it."), *chain.from_iterable(edits), *outside, assistant("It is split into 20 parts.")]
    handoff = handoff_of(said)
    files = text_under(handoff, FILES)
    assert f"…/ stands for {root}" in text_under(handoff, STATE)
    assert "…/part_0.py" in files and f"{root}part_19.py" in files and "docs/part.md" in files


def test_a_rule_that_stays_in_view_gives_way_to_what_does_not() -> None:
    rule = "Always check the code that an edit leaves behind before the next edit is made."
    said = [user(f"Fix the crash of the uploader. {rule} " + "It crashes on empty files. " * 12)]
    said += [*ran("pytest -q", "1 failed: test_empty in 0.2s", "a"), *ran("python probe.py", "limit = 4096", "b")]
    source = replace(summary_input_of(said), kept=frozenset({0}))
    order = [candidate.kind for candidate, _ in Draft(source, count).order()]
    assert order.index(Kind.FAILURE) < order.index(Kind.RULE)
    handoff = write_handoff(source, 2_000, count)
    assert "1 failed" in text_under(handoff, BLOCKED) and not handoff.entries(STATE)


def test_rules_about_names_that_differ_in_a_digit_are_both_listed() -> None:
    said = [user(f"Read part {n}. Never touch prod_{n}.db.") for n in (1, 2)]
    rules = text_under(handoff_of([said[0], assistant("Read."), said[1], assistant("Read.")]), RULES)
    assert "prod_1.db" in rules and "prod_2.db" in rules


@pytest.mark.parametrize(
    ("former", "now"), [("$201", "$956"), ("2027-08-09", "2027-12-26"), ("09:30", "17:00"), ("40%", "60%")]
)
def test_a_rule_that_is_given_again_with_another_value_replaces_the_former(former: str, now: str) -> None:
    said = [user(f"The cap is {value} in all. Never exceed it without approval.") for value in (former, now)]
    rules = text_under(handoff_of([said[0], assistant("Noted."), said[1], assistant("Noted.")]), RULES)
    assert now in rules and former not in rules


def test_a_replaced_rule_is_dropped_or_marked_as_former() -> None:
    said = [
        user("Use tabs for indentation, always."),
        assistant("Will do."),
        user("Actually, forget the tabs for indentation, always use spaces."),
        assistant("Will do."),
    ]
    former = [entry.text for entry in handoff_of(said).entries(RULES) if entry.numbers == (0,)]
    assert all("replaced" in text or "former" in text for text in former)


def test_what_an_earlier_handoff_says_is_kept_when_its_messages_are_gone() -> None:
    previous = Handoff({
        RULES: (Entry('"Never touch prod.db."', (0,)),),
        COMPLETED: (Entry('"Port it."', (0,), (Entry("RAN make: built 41 modules", (2,)),)),),
        FILES: (Entry("src/retry.py (created)", (3,)),),
    })  # fmt: skip
    said = [user("x"), *ran("true", ""), assistant("y"), user("Add jitter."), *ran("cat a", "b", "d")]
    text = handoff_of(said, first=4, previous=previous).render()
    for fact in ("Never touch prod.db.", "built 41 modules", "src/retry.py", "Add jitter."):
        assert fact in text


# -- concurrency -------------------------------------------------------------------------------------------------------


def test_concurrent_folds_give_the_bytes_of_a_single_one() -> None:
    sources = [summary_input_of(synthetic_history(90 + number)) for number in range(3)]
    alone = [write_handoff(source, 1_500, count).render() for source in sources]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda n: write_handoff(sources[n % 3], 1_500, count).render(), range(18)))
    assert together == alone * 6


def test_a_long_pasted_block_does_not_displace_the_words_around_it() -> None:
    script = "\n".join(f'export SETTING_{n}="$BASE/part_{n}/value_{n}.txt"' for n in range(120))
    cause, fix = (
        "Found the cause: the lock of ingest.py was never released.",
        "The fix releases it in pool.py after 30 s.",
    )
    said = f"{cause}\n```bash\n{script}\n```\n{fix}"
    handoff = handoff_of([user("Why does it hang?"), assistant(said), user("Now the docs.")], 260)
    shown = text_under(handoff, COMPLETED)
    assert "the lock of ingest.py was never released" in shown
    assert "releases it in pool.py after 30 s" in shown


def test_an_earlier_handoff_and_the_record_name_each_file_failure_and_request_once() -> None:
    previous = Handoff({
        ACTIVE_TASK: (Entry('"Port the uploader."', (4,)),),
        COMPLETED: (Entry('"Read the plan."', (1,), (Entry('"The plan has two steps."', (2,)),)),),
        IN_PROGRESS: (Entry("Work on the active task", (4,), (Entry('"The port is half done."', (6,)),)),),
        BLOCKED: (Entry("make check: ValueError: 3 rows", (7,)), Entry("make docs: KeyError: 'toc'", (8,))),
        TRIED: (Entry("make lint: E501", (3,)),),
        FILES: (Entry("src/up.py (created +9 -0)", (5,)), Entry("docs/up.md (created +2 -0)", (6,))),
    })  # fmt: skip
    said = [
        *[user(f"Old request {n}.") for n in range(10)],
        *did("Edit", {"file_path": "src/up.py", "old_string": "a", "new_string": "b"}, "ok", "c"),
        *ran("make check", "[exit 1]\nValueError: 4 rows", "d"),
        user("Now the docs."),
    ]
    handoff = handoff_of(said, first=10, previous=previous)
    assert text_under(handoff, FILES).count("src/up.py") == 1 and "docs/up.md" in text_under(handoff, FILES)
    failures = text_under(handoff, BLOCKED, TRIED)
    assert "4 rows" in failures and "3 rows" not in failures and "toc" in failures and "E501" in failures
    assert "half done" not in text_under(handoff, IN_PROGRESS)
    requests = {entry.text: [line.text for line in entry.lines] for entry in handoff.entries(COMPLETED)}
    assert requests['"Read the plan."'] == ['"The plan has two steps."']
    assert '"The port is half done."' in requests['"Port the uploader."']
