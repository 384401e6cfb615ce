"""What an assistant that goes on from a handoff would complain about, each complaint as a small case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clew.ledger import Ledger
from clew.messages import Message
from clew.summaries import Handoff, write_handoff
from clew.summaries.handoff import BLOCKED, COMPLETED, FILES, RULES, STATE, TRIED
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text


def called(name: str, arguments: dict[str, Any], result: str, id: str, said: str | None = None) -> list[Message]:
    return [assistant(said, [call(name, arguments, id)]), tool(id, result)]


def ran(command: str, result: str, id: str, said: str | None = None) -> list[Message]:
    return called("bash", {"command": command}, result, id, said)


def handoff_of(messages: list[Message], budget: int = 2_000) -> Handoff:
    return write_handoff(summary_input_of(messages), budget, count)


def told_of(messages: list[Message], budget: int = 2_000) -> str:
    return "\n".join(handoff_of(messages, budget).lines(COMPLETED))


def test_code_in_what_an_agent_with_tools_said_is_not_quoted_as_its_words() -> None:
    refused = (
        "THOUGHT: The table app_order_7 is missing, so the script creates it first.\n\n```bash\n"
        "cat > repro.py <<'EOF'\nschema_editor_9.create_model(OrderModel_7)\ntraceback_12.print_exc()\nEOF\n```\n\n"
        "```bash\npython repro_7.py --tables app_order_7\n```"
    )
    told = told_of(
        [
            user("Find out why orders of proxy models crash."),
            *ran("ls src", "orders.py\nproxy.py", "a"),
            assistant(refused),
            user("Please always provide EXACTLY ONE action in triple backticks, found 2 actions."),
            *ran("python -c 'import orders'", "ImportError: cannot import name 'OrderModel_7'", "b"),
        ]
    )
    prose = [line for line in told.split("\n") if '" (m3)' in line]
    assert prose == ['   "The table app_order_7 is missing, so the script creates it first." (m3)']
    assert "CODE: " in told


def test_code_in_a_talk_without_tools_is_what_the_agent_made_and_is_quoted() -> None:
    code = "```python\nRETRY_DELAYS_7 = (0.5, 1, 2)\nGATEWAY_URL_7 = 'https://gateway.example/v2'\n```"
    told = told_of([user("Write me the constants."), assistant(f"Here they are:\n\n{code}"), user("Thanks, go on.")])
    assert "RETRY_DELAYS_7 = (0.5, 1, 2)" in told


def test_of_a_long_request_in_a_template_the_rest_of_the_request_is_quoted_and_not_the_template() -> None:
    request = "The field order_ref_7 crashes.\n" + "".join(
        f"Case {n}: save() of Order{n}Proxy raises KeyError('ref_{n}') in orders/save_{n}.py.\n" for n in range(60)
    )
    template = (
        f"<pr_description>\n{request}</pr_description>\n<instructions>\n- DO NOT MODIFY: setup_9.cfg\n"
        "Example of a CORRECT response:\nsed -i 's/old_string_9/new_string_9/g' filename_9.py\n</instructions>"
    )
    told = told_of([user(template), *ran("ls orders", "save_1.py\nsave_2.py", "a")], 3_000)
    assert "old_string_9" not in told and "setup_9.cfg" not in told
    assert "ASKED (m0), in part:" in told
    assert "Order59Proxy" in told


REPORT = """## Report

I read all of the importer. The importer drops rows whose date is empty, which is the cause of the missing orders.

### Layout

```
importer/
├── reader_7.py
├── mapper_7.py
└── writer_7.py
```

```python
def read_rows_7(path_7): ...
```

- **importer/mapper_7.py:88** - `map_row_7()` returns None for an empty date, and the writer skips it silently.
- No test covers an empty date.

Overall: one bug, in map_row_7(), and no tests around it.
agentId: abc3cb6 (for resuming to continue this agent's work if needed)
"""


def test_of_a_subagent_its_findings_are_told_and_not_the_names_in_its_code() -> None:
    told = told_of(
        [
            user("Why are orders missing after the import?"),
            *called("Task", {"description": "Read the importer", "prompt": "Read all of it."}, REPORT, "a"),
            *called("Read", {"file_path": "importer/mapper_7.py"}, "def map_row_7(row):\n    return None", "b"),
        ]
    )
    line = next(line for line in told.split("\n") if "DELEGATED" in line)
    assert line.strip().startswith('DELEGATED Read the importer -> "')
    assert "Overall: one bug, in map_row_7(), and no tests around it." in line
    assert "def read_rows_7" not in told and "agentId" not in told


def test_what_a_client_says_in_the_agents_place_is_not_what_the_agent_concluded() -> None:
    messages = [
        user("Complete the commit and run the hooks."),
        *ran("git commit -m 'Add reports'", "[main 1a2b3c4] Add reports\n 3 files changed", "a"),
        assistant("The reports are committed as 1a2b3c4 on main, and all four hooks passed."),
        user("Push it."),
        assistant('API Error: 401 {"type":"error","error":{"type":"authentication_error"}} · Please run /login'),
        user("Push it now, please."),
        assistant("You're out of extra usage · resets 11pm (America/Denver)"),
        user("resume"),
    ]
    told = told_of(messages)
    assert "all four hooks passed" in told
    assert "authentication_error" not in told and "resets 11pm" not in told


def test_a_file_that_a_command_wrote_whole_is_listed_as_written_and_not_as_changed() -> None:
    handoff = handoff_of(
        [
            user("Reproduce the crash of the orders."),
            *ran(
                "cd /srv/shop && cat <<'EOF' > tools/repro_7.py\nif a > b: print(1)\nEOF\npython tools/repro_7.py",
                "",
                "a",
            ),
            *ran("cat > /srv/shop/tools/orders_7.toml <<EOF\nurl_7 = 'https://orders.example'\nEOF", "", "b"),
            *ran("date >> /srv/shop/tools/log_7.txt", "", "c"),
            *ran("cd /srv/shop && sed -i 's/a/b/' tools/orders_7.toml", "", "d"),
        ]
    )
    [files] = handoff.lines(FILES)
    assert "repro_7.py (written, m1)" in files
    assert "orders_7.toml (changed, m3-m7)" in files
    assert "log_7.txt (changed, m5)" in files


def test_a_file_that_its_tool_says_is_new_is_told_as_created_also_when_it_was_changed_later() -> None:
    edit = {"file_path": "src/retry_7.py", "old_string": "8", "new_string": "9"}
    handoff = handoff_of(
        [
            user("Add a retry."),
            *called(
                "Write", {"file_path": "src/retry_7.py", "content": "A = 8\n"}, "File created successfully at: x", "a"
            ),
            *called("Edit", edit, "The file src/retry_7.py has been updated.", "b"),
            *called("Write", {"file_path": "src/wait_7.py", "content": "A = 8\n"}, "The file has been updated.", "c"),
            assistant("The retry is there."),
            user("Thanks."),
        ]
    )
    assert "src/retry_7.py (created, m1-m3)" in handoff.lines(FILES)[0]
    assert "src/wait_7.py (written, m5)" in handoff.lines(FILES)[0]
    assert "CREATED src/retry_7.py" in "\n".join(handoff.lines(COMPLETED)) or "CREATED retry" in str(handoff.sections)


def test_a_file_named_from_the_folder_of_its_command_is_the_same_as_by_its_whole_path() -> None:
    edit = {"file_path": "/srv/shop/.gitleaks.toml", "old_string": "a", "new_string": "b"}
    handoff = handoff_of(
        [
            user("Make the scanner strict."),
            *called("Edit", edit, "updated", "a"),
            *ran("cd /srv/shop && git add .gitleaks.toml docs/setup_7.md", "", "b"),
            *ran('cd "/srv/shop" && head -20 docs/setup_7.md', "# Setup", "c"),
        ]
    )
    [files] = handoff.lines(FILES)
    assert files.count(".gitleaks.toml") == 1
    assert "/srv/shop/docs/setup_7.md (changed, m3)" in files


def test_a_file_below_a_folder_of_windows_is_the_same_however_its_path_is_written() -> None:
    new = {"file_path": "C:\\srv\\shop\\docs\\setup_7.md", "content": "# Setup"}
    handoff = handoff_of(
        [
            user("Write the setup."),
            *called("Write", new, "File created successfully at: setup_7.md", "a"),
            *ran('cd "C:\\srv\\shop" && git add docs/setup_7.md', "", "b"),
            *called("Edit", {"file_path": "C:/srv/shop/docs/setup_7.md", "old_string": "a"}, "updated", "c"),
        ]
    )
    assert handoff.lines(FILES) == ["C:\\srv\\shop\\docs\\setup_7.md (created, m1-m5)"]


def test_a_slip_with_an_edit_is_neither_a_change_nor_a_lesson() -> None:
    wrong = {
        "file_path": "/srv/shop/.gitignore",
        "old_string": "# pytest_7",
        "new_string": "# Gitleaks_7\nreport_7.json",
    }
    right = {"file_path": "/srv/shop/.gitignore", "old_string": "# logs_8", "new_string": "# Gitleaks_8\nreport_8.json"}
    error = "<tool_use_error>String to replace not found in file.\nString: # pytest_7</tool_use_error>"
    handoff = handoff_of(
        [
            user("Ignore the reports of the scanner."),
            *called(
                "Read",
                {"file_path": "/c/srv/shop/LICENSE_7"},
                "<tool_use_error>File does not exist.</tool_use_error>",
                "r",
            ),
            *called("Edit", wrong, error, "a"),
            *called("Edit", right, "updated", "b"),
            assistant("The reports are ignored now."),
            user("Thanks, go on."),
        ]
    )
    text = handoff.render()
    assert "Gitleaks_7" not in text and "pytest_7" not in text and "tool_use_error" not in text
    assert not handoff.lines(TRIED) and not handoff.lines(BLOCKED)


def test_a_write_that_was_refused_stays_a_lesson() -> None:
    handoff = handoff_of(
        [
            user("Write the unit."),
            *called(
                "Write",
                {"file_path": "/etc/systemd/shop_7.service", "content": "[Unit]"},
                "Error: EACCES: permission denied, open '/etc/systemd/shop_7.service'",
                "a",
            ),
            user("Go on."),
        ]
    )
    assert "permission denied" in "\n".join([*handoff.lines(TRIED), *handoff.lines(BLOCKED)])


def test_of_a_background_task_its_outcome_is_told_without_tags() -> None:
    result = (
        "<retrieval_status>success</retrieval_status>\n\n<task_id>b32a9e1</task_id>\n\n<task_type>local_bash</task_type>"
        "\n\n<status>failed</status>\n\n<exit_code>255</exit_code>\n\n<output>\n[stderr] ssh: Could not resolve "
        "hostname depot_7: Name or service not known\n</output>"
    )
    handoff = handoff_of([user("Log in to the depot."), *called("TaskOutput", {"task_id": "b32a9e1"}, result, "a")])
    text = handoff.render()
    assert "Could not resolve hostname depot_7" in text
    assert "retrieval_status" not in text and "<task_id>" not in text and "<exit_code>" not in text
    assert "TaskOutput b32a9e1 -> exit 255" in text


def test_what_a_table_gives_no_value_is_not_quoted() -> None:
    table = "\n".join(f"Property{n}_7 : {n * 37 if n % 2 else ''}" for n in range(1, 9))
    told = told_of([user("Which memory?"), *ran("powershell Get-Process", table, "a")])
    assert "Property1_7 : 37" in told and "Property2_7" not in told


def test_a_command_that_ran_again_below_is_not_told_as_failed_last() -> None:
    failing = "Traceback (most recent call last):\nTypeError: unexpected keyword argument 'code_7'\nexit code 1"
    messages = [user("Add the code.")]
    for n in range(3):
        messages += ran("python repro_7.py", failing, f"f{n}")
    folded = len(messages)
    messages += [*ran("python repro_7.py", "ok, code_7 is there\nexit code 0", "last")]
    source = summary_input_of(messages, last=folded)
    told = "\n".join(write_handoff(source, 2_000, count).lines(COMPLETED))
    assert "3 runs, 3 failed, the last" not in told


def test_the_newest_commit_is_the_state_also_where_much_is_printed_behind_it_and_where_history_was_rewritten() -> None:
    printed = "[main 82226fd] docs: Add the results\n" + "Your name was configured automatically.\n" * 80
    messages = [
        user("Clean the history."),
        *ran("git commit -m 'Add hooks'", "[main c7760cb] Add hooks\n 3 files changed", "a"),
        *ran("git-filter-repo --force", "Parsed 47 commits\nHEAD is now at 4f43a16 Add hooks", "b"),
    ]
    assert handoff_of(messages).lines(STATE) == ["Branch main at 4f43a16 (m2)."]
    messages += ran("git add . && git commit -m 'docs: Add the results'", printed, "c")
    assert handoff_of(messages).lines(STATE) == ["Branch main at 82226fd (m6)."]


def test_an_error_line_is_not_cut_where_the_middle_of_a_result_is_left_out() -> None:
    line = "12:12PM WRN Invalid entry in the ignore file, fingerprint=logs_7/**\n"
    result = "Exit code 1\n" + line * 20 + "scanned ~120589 bytes in 60 ms\n" * 60
    handoff = handoff_of([user("Commit it."), *ran("git commit -m x", result, "a"), user("Go on.")])
    told = [*handoff.lines(BLOCKED), *handoff.lines(TRIED)]
    assert all("Invalid" not in one or "fingerprint=logs_7/**" in one for one in told)
    assert told


def test_a_look_of_which_nothing_is_told_is_not_told() -> None:
    listing = "\n".join(f"-rw-r--r-- 1 m staff {n} Jan 2 17:08 {n}" for n in range(100, 140))
    told = told_of(
        [
            user("What is in the repository of hooks?"),
            *ran("ls -la /srv/shop_7/.git/hooks_7/", listing, "a"),
            *ran("ssh root@box_7 'cat /etc/init.d/dnsmasq_7'", "START=19\nSTOP=90\nUSE_PROCD_7=1", "b"),
        ],
        160,
    )
    assert "RAN ls -la /srv/shop_7/.git/hooks_7/ (m1)" not in told


def test_a_rule_about_one_change_is_told_as_that_where_the_task_asks_for_what_it_forbids() -> None:
    said = "the border should be thinner, don't modify the palette, look into the frame sources"

    def rules_with(task: str) -> str:
        done = [user("Draw the frame."), assistant("Drawn."), user(said), assistant("The border is thinner now.")]
        return "\n".join(handoff_of([*done, user(task)]).lines(RULES))

    asked = rules_with("ok, now adjust the light palette accordingly.")
    assert asked == f'"{said}" (m2; about that change only, and not about the active task)'
    assert rules_with("ok, now the docs.") == f'"{said}" (m2)'
    assert rules_with("adjust the frame, but do not touch the palette.").startswith(f'"{said}" (m2)\n')


def test_what_an_issue_says_is_no_rule_of_the_person() -> None:
    issue = "<pr_description>\nThe form must never accept blanks, and always says no.\n</pr_description>"
    handoff = handoff_of([user(issue), *ran("ls", "form.py", "a")])
    assert not handoff.lines(RULES)
    assert "must never accept blanks" in handoff.render()


def after(messages: list[Message], first: int, previous: Handoff, budget: int) -> Handoff:
    """The handoff of a later compaction, which has no message before `first`."""
    source = summary_input_of(messages, first=first, previous=previous)
    ledger = Ledger.of(messages[first:], range(first, len(messages)))
    return write_handoff(replace(source, ledger=ledger), budget, count)


def test_how_an_exchange_ended_is_told_first_also_when_a_compaction_came_in_the_middle_of_it() -> None:
    messages = [
        user("Log the queries to the console for a while."),
        *ran("ssh box_7 'cat config_7.yml'", "ports: 5335", "a", "The console logging is configured as v0.23 has it."),
    ]
    first = handoff_of(messages)
    messages += [
        *ran("ssh box_7 'restart'", "restarted", "b", "Now the service starts again."),
        assistant("Unfortunately, logging makes all queries time out in v0.23, so I disabled it and restarted."),
        user("Then look after the terminal."),
        *ran("cat /proc/version", "MINGW64_7", "c"),
        assistant("The terminal is fine, only its prompt prints errors."),
        user("Update it."),
    ]
    second = after(messages, 3, first, 2_000)
    messages += [
        assistant("It is up to date: version 2.52.0 of November."),
        *(
            message
            for n in range(30)
            for message in (user(f"And check part {n} of it."), assistant(f"Part {n} is fine."))
        ),
        user("Thanks, now write a summary of it all."),
    ]
    third = after(messages, len(messages) - 1, second, 700)
    told = "\n".join(third.lines(COMPLETED))
    asked = told.index("Log the queries to the console")
    assert '"Unfortunately, logging makes all queries time out in v0.23' in told[asked : asked + 250]
    assert "Still on what was asked" not in told


def test_a_greeting_and_a_slip_of_the_fingers_are_no_requests_that_are_told() -> None:
    talk = [user("hi"), assistant("Hello! I am ready to help."), user("/the"), user("Sort the harbour list.")]
    told = handoff_of([*talk, assistant("The harbour list is sorted by name."), user("Go on.")]).lines(COMPLETED)
    assert told == ['Asked, as above (m3)\n   "The harbour list is sorted by name." (m4)']


def test_of_what_an_agent_turned_over_its_decision_is_told_and_not_the_cases() -> None:
    thought = (
        "THOUGHT: If I use the `tide_table` module, then `Pier.depth_at` must parse the dates itself. If we change "
        "`Pier.depth_at` in place, `dock_plan.py` sees another unit. Add a `unit_name` argument (default None? No, the "
        "default should be handled by the caller). Should I also keep `old_depth_m`? So `dock_plan.py` "
        "should probably convert. The decision is that "
        "`Pier.depth_at` returns metres and `dock_plan.py` converts them."
    )
    told = told_of(
        [user("Make the depths agree."), *ran("python check_depths.py", "ok", "a", thought), user("And on?")]
    )
    assert "The decision is that `Pier.depth_at` returns metres" in told
    assert "If I use" not in told and "If we change" not in told and "default None?" not in told
    assert "should probably" not in told


def test_a_command_is_told_with_how_it_ended_where_no_line_of_its_output_is() -> None:
    rows = "\n".join(f"{'-' * 9} {'=' * 40} {'-' * 9}" for _ in range(60))
    messages = [user("Which shelves does hall_north_annex have?")]
    messages += ran("./shelves --hall hall_north_annex --as-drawing", rows, "a")
    messages += ran("find /srv/hall_north_annex -name '*.bak'", "", "b")
    messages += ran("mkdir -p /srv/hall_north_annex/drawings", "", "c")
    told = "\n".join(
        handoff_of([*messages, assistant("It has 60 shelves, as drawn."), user("And hall 2?")]).lines(COMPLETED)
    )
    assert "RAN ./shelves --hall hall_north_annex --as-drawing -> 60 lines (m1)" in told
    assert "RAN find /srv/hall_north_annex -name '*.bak' -> no output (m3)" in told
    assert "RAN mkdir -p /srv/hall_north_annex/drawings (m5)" in told


def test_what_a_person_asked_long_ago_is_told_whole_before_lines_of_results_are() -> None:
    layout = " ".join(f"shelf group {group} goes to hall {group + 3}, door side," for group in range(14))
    asked = f"No, that is not what I meant. Move it like this: {layout} and the rest stays."
    rows = "\n".join(f"shelf_{row}_left = {row * 317} items, last counted by gate_{row % 9}" for row in range(90))
    messages = [user("Plan the move."), assistant("Shall I sort by weight?"), user(asked), *ran("./plan", rows, "p")]
    messages += [assistant("The plan is in move.txt now, as you said.")]
    for part in range(5):
        messages += [
            user(f"Check part {part} of it."),
            *ran(f"./check {part}", rows.replace("shelf", f"p{part}"), f"{part}"),
        ]
        messages += [assistant(f"Part {part} is in order, and nothing stands in the way there.")]
    told = told_of([*messages, user("Thanks, start with hall 3.")], 1_500)
    assert len(asked) > 600 and f'"{asked}" (m2)' in told


STATUS = """On branch main
Changes to be committed:
  (use "git restore --staged <file>..." to unstage)
\tmodified:   stock/list.py
\tnew file:   stock/halls.py

Untracked files:
  (use "git add <file>..." to include in what will be committed)
\tnotes.txt
"""


def test_what_is_changed_and_not_committed_is_told_until_it_is_committed() -> None:
    messages = [user("Commit the stock list."), *ran("cd /srv/stock && git status", STATUS, "a")]
    told = "Not committed: modified stock/list.py; new stock/halls.py; untracked notes.txt (m2)."
    assert handoff_of(messages).lines(STATE) == [f"Branch main (m2). {told}"]
    assert (
        told
        in handoff_of(
            [user("on"), *ran("git status -s", "M  stock/list.py\nA  stock/halls.py\n?? notes.txt", "b")]
        ).lines(STATE)[0]
    )
    messages += ran(
        "git commit -qm 'Stock by hall' && git log -1", "[main 4c1d77e] Stock by hall\n 2 files changed", "c"
    )
    assert handoff_of(messages).lines(STATE) == ["Branch main at 4c1d77e (m4)."]
    messages += ran("git status", "On branch main\nnothing to commit, working tree clean", "d")
    assert handoff_of(messages).lines(STATE) == ["Branch main at 4c1d77e (m6). Nothing to commit (m6)."]
    messages += called("write_file", {"path": "stock/doors.py", "content": "x = 1"}, "ok", "e")
    assert handoff_of(messages).lines(STATE) == ["Branch main at 4c1d77e (m6)."]
    many = "".join(f"\tmodified:   stock/part_{part}.py\n" for part in range(9))
    assert (
        "stock/part_5.py and 3 more (m2)."
        in handoff_of([user("on"), *ran("git status", f"On branch x\n{many}", "f")]).lines(STATE)[0]
    )


@pytest.mark.parametrize(
    ("command", "printed", "state"),
    [
        ("git commit -qam 'Stock by hall'", "[exit 0]", "Tests"),
        (
            "git commit -qam 'Halls' && git status -sb",
            "## main\n[exit 0]",
            "Nothing to commit (m4).",
        ),
        ("git stash", "Saved working directory and index state WIP on main: 4c1d77e Halls", "Tests"),
        (
            "git commit -qam 'Halls' && git status -s",
            "?? a.txt\n[exit 0]",
            "Not committed: untracked a.txt (m4).",
        ),
        ("git commit -qam 'Halls'", "nothing added to commit\n[exit 1]", "Not committed: modified stock/list.py (m2)."),
    ],
)
def test_what_was_not_committed_may_be_so_later_without_a_word(command: str, printed: str, state: str) -> None:
    messages = [user("Go on."), *ran("git status --short", " M stock/list.py\n[exit 0]", "a")]
    messages += [*ran(command, printed, "b"), *ran("pytest -q", "4 passed in 0.1s", "c")]
    told = handoff_of(messages).lines(STATE)[0]
    assert state in told
    assert told.count("ommit") == state.count("ommit")


def test_what_came_of_each_request_is_told_before_lines_of_files() -> None:
    messages: list[Message] = []
    for hall in range(14):
        rows = "\n".join(
            f"shelf_{hall}_{row} = door_{row}_{hall * 7}  # as counted in hall_{hall}" for row in range(12)
        )
        messages += [user(f"Count hall {hall} again, somebody moved the shelves there over the weekend.")]
        messages += called("read_file", {"path": f"stock/hall_{hall}.py"}, rows, f"h{hall}")
        messages += [
            assistant(
                f"Hall {hall} has {hall + 3} shelves now. One of them stands before the door, which the fire brigade "
                f"will not like, so it has to be moved before Monday. All others are where they were."
            )
        ]
    told = told_of([*messages, user("Write the letter to the fire brigade.")], 2_300)
    assert [hall for hall in range(14) if f"Hall {hall} has {hall + 3} shelves now" not in told] == []


def test_of_a_failed_test_what_failed_is_told_and_no_line_of_its_source() -> None:
    printed = (
        "____ test_a_shelf_is_counted_once ____\n\n"
        "    def test_a_shelf_is_counted_once(stock_of_hall):\n"
        "        counted = count_shelves(stock_of_hall, until='door_42')\n"
        ">       assert counted.shelves == ['shelf_3', 'shelf_4']\n"
        "E       AssertionError: assert ['shelf_3', 'shelf_3'] == ['shelf_3', 'shelf_4']\n\n"
        "tests/test_count.py:14: AssertionError\n1 failed, 6 passed in 0.12s\n"
    )
    messages = [user("Count each shelf once."), *ran("python -m pytest -q", printed, "a")]
    messages += [*called("write_file", {"path": "stock/count.py", "content": "x = 1"}, "ok", "b")]
    messages += [*ran("python -m pytest -q", "7 passed in 0.11s", "c"), assistant("Each shelf is counted once now.")]
    told = told_of([*messages, user("Now the doors.")], 3_000)
    assert "1 failed, 6 passed · tests/test_count.py:14: AssertionError (m1)" in told
    assert "count_shelves(" not in told
    assert "def test_a_shelf" not in told
