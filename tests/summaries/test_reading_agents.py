"""What reading handoffs of pi and opencode sessions, of talks and of Chinese ones asked for, each as a small case."""

from __future__ import annotations

import pytest

from clew.ledger import Ledger, outdated_results
from clew.messages import Message
from clew.summaries import Handoff, write_handoff
from clew.summaries.handoff import ACTIVE_TASK, BLOCKED, COMPLETED, FILES, GOAL, RULES, TRIED
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text


def ran(command: str, result: str, id: str) -> list[Message]:
    return [assistant(None, [call("bash", {"command": command}, id)]), tool(id, result)]


def handoff_of(messages: list[Message], budget: int = 2_000) -> Handoff:
    return write_handoff(summary_input_of(messages), budget, count)


def completed(messages: list[Message], budget: int = 2_000) -> str:
    return "\n".join(handoff_of(messages, budget).lines(COMPLETED))


def test_a_search_that_printed_nothing_is_no_failure() -> None:
    messages = [
        user("Where is the buffer flushed?"),
        *ran('grep -n "flush_buffer" src/log_sink.py', "(no output)\n\nCommand exited with code 1", "a"),
    ]
    handoff = handoff_of(messages)
    assert not handoff.lines(BLOCKED)
    assert not handoff.lines(TRIED)


def test_a_look_of_which_nothing_can_be_told_is_left_out() -> None:
    found = "\n".join(f"{n}" for n in range(400))
    told = completed(
        [
            user("Tidy up."),
            *ran("ls build | wc -l; ls build", found, "a"),
            *ran("make tidy", found, "b"),
            assistant("Tidied."),
        ]
    )
    assert "RAN make tidy" in told
    assert "ls build" not in told


def test_a_program_that_is_packed_into_one_line_is_not_quoted() -> None:
    packed = ";".join(
        f'const a{n}=o((s,e)=>{{x(3,"resolve_ts_filename_{n}",{{request:e,is_dir:_.test(e)}})}})' for n in range(30)
    )
    failed = (
        f"/srv/shop/node_modules/tsx/dist/register.cjs:3\n{packed}\n\nError: Cannot find module './src/shop_config.js'"
    )
    told = completed([user("Start it."), *ran("npx tsx src/cli.ts", failed, "a"), assistant("It does not start.")])
    assert "Cannot find module './src/shop_config.js'" in told
    assert "resolve_ts_filename" not in told


PORTED = """Excellent progress! We've completed five of the seven packages:

**Completed:**
- `upload_core.py` with the shared logic of all modes
- `print_mode.py` and `rpc_mode.py`, both on the new core

**Remaining:**
- `chat_mode.py`, which is the largest one of them all
- the setup, out of `main.py` into `core/setup.py`

Want me to go on with the chat?"""


def test_an_entry_of_a_list_stands_behind_the_label_that_says_what_of() -> None:
    told = completed([user("Port the modes to the new core."), assistant(PORTED), user("Go on.")])
    assert "**Remaining:** - `chat_mode.py`, which is the largest one of them all" in told
    assert told.count("**Remaining:**") == 1


REVIEWED = """I went through the whole exporter. Here is what I found:

### 1. **Rounding Bug in the Price Column**
- `price.py` rounds each line before it adds them up, so that totals differ by cents
- the tests compare with rounded sums, and pass

### 2. **Export Formats**
- the CSV has no header line, which the importer of the shop needs

Shall I fix both?"""


def test_a_numbered_heading_stands_once_before_its_entries_and_holds_no_mark_of_the_program() -> None:
    told = completed([user("Review the exporter."), assistant(REVIEWED), user("Yes, both.")])
    assert told.count("Rounding Bug in the Price Column") == 1
    assert "2. **Export Formats** - the CSV has no header line" in told
    assert "\0" not in told


def test_steps_that_are_counted_are_told_once_with_the_last_count() -> None:
    messages = [user("Port all packages of the shop, and commit each.")]
    for done in (3, 5, 8):
        said = f"We've completed the packages 1 to {done} of the shop's plan."
        messages += [assistant(said, [call("bash", {"command": f"make check_{done}"}, f"c{done}")])]
        messages += [tool(f"c{done}", "ok")]
    told = completed([*messages, assistant("The ninth package needs a decision: keep the old queue?"), user("Yes.")])
    assert told.count("We've completed the packages") == 1
    assert "the packages 1 to 8" in told


def test_an_exchange_is_told_by_its_conclusion_before_any_other_sentence() -> None:
    messages: list[Message] = []
    for n in range(12):
        messages += [
            user(f"Make the box of kind {n} open by itself when the lid is lifted, please."),
            assistant(
                f"I fixed the hinge of kind {n}: the spring was mounted the wrong way round, so it never opened.\n\n"
                f"- `hinge_{n}.py`: `open_lid()`\n- `spring_{n}.py`: `turn_spring()`"
            ),
        ]
    told = completed([*messages, user("Thanks, now the kind 12.")], 420)
    for line in told.split("\n"):
        assert "open_lid" not in line or "fixed the hinge" in line


def test_a_listing_is_told_by_its_folder_and_the_names_in_it() -> None:
    kinds = ("router", "catalog", "pricing", "metering", "stream", "proxy", "quota", "receipt", "trace", "vertex")
    paths = [
        f"/srv/shop/apps/api/src/inference/{kind}_{part}.ts" for kind in kinds for part in ("core", "test", "fake")
    ]
    messages = [
        user("Which files has the inference gateway?"),
        assistant(None, [call("glob", {"pattern": "**/inference/*"}, "a")]),
        tool("a", "\n".join(paths)),
        assistant("I start with the router."),
    ]
    told = completed(messages)
    assert told.count("/srv/shop/apps/api/src/inference") == 1
    assert "/srv/shop/apps/api/src/inference: router_core.ts router_test.ts router_fake.ts catalog_core.ts" in told
    assert "vertex_fake.ts" in told
    assert "(30 in all)" in completed(messages, 260)


def test_a_listing_is_short_where_lines_that_say_more_would_be_lost_for_it() -> None:
    kinds = ("router", "catalog", "pricing", "metering", "stream", "proxy", "quota", "receipt", "trace", "vertex")
    paths = [f"/srv/shop/src/{kind}_{part}.ts" for kind in kinds for part in ("core", "test", "fake")]
    lines = [
        f"const {kind}_limit_{n} = readLimit('{kind}', {n}{n}{n}) // for gateway {n}"
        for n, kind in enumerate(kinds * 40)
    ]
    messages = [
        user("Which limits has the gateway?"),
        assistant(None, [call("glob", {"pattern": "src/*"}, "a")]),
        tool("a", "\n".join(paths)),
        assistant(None, [call("read_file", {"path": "src/limits.ts"}, "b")]),
        tool("b", "\n".join(lines)),
        assistant("I compare them."),
    ]
    listing = next(line for line in completed(messages, 3_000).split("\n") if "router_core.ts" in line)
    assert "(30 in all)" in listing
    assert len(listing) < 400


def test_of_a_listing_no_name_is_told_twice() -> None:
    names = "\n".join(
        f"{name}.ts" for name in ("lane-seam", "lane-seam.test", "matrix", "matrix.test", "runner_2", "report")
    )
    messages = [
        user("What is in the folder?"),
        assistant(None, [call("read", {"path": "/srv/shop/src/benchmark"}, "a")]),
        tool("a", f"<path>/srv/shop/src/benchmark</path>\n<type>directory</type>\n<entries>\n{names}\n</entries>"),
        assistant("I read lane-seam.test.ts, report.ts and runner_2.ts next."),
    ]
    told = next(line for line in completed(messages).split("\n") if "READ " in line)
    assert told.count(" lane-seam.test.ts") == told.count(" report.ts") == told.count(" runner_2.ts") == 1


def test_a_file_above_its_finds_is_no_listing() -> None:
    found = "\n".join(f"/srv/shop/src/lane_{n}.ts:\n  Line {n}: const LANE_SEAM_{n} = {n}00" for n in range(8))
    messages = [
        user("Where are the seams?"),
        assistant(None, [call("grep", {"pattern": "LANE_SEAM"}, "a")]),
        tool("a", f"Found 8 matches\n{found}"),
        assistant("In eight files."),
    ]
    told = completed(messages)
    assert "Line 3: const LANE_SEAM_3 = 300" in told
    assert "lane_1.ts: " not in told.replace("lane_1.ts:\n", "")


def test_a_search_of_which_nothing_can_be_told_is_left_out() -> None:
    messages = [user("Look."), assistant(None, [call("glob", {"pattern": "**/nothing_here*"}, "a")]), tool("a", "")]
    assert "SEARCHED" not in completed([*messages, assistant("There is none.")])


def test_of_a_long_listing_the_names_stand_with_their_sizes() -> None:
    names = ("changelog.ts", "cli.ts", "export_html.ts", "fuzzy.ts", "main.ts", "messages.ts")
    rows = [f"-rw-r--r--@ 1 ida  staff  {n}668 Dec  {n} 16:13 /srv/shop/src/{name}" for n, name in enumerate(names, 1)]
    told = completed([user("What is in src?"), *ran("ls -la src/*.ts", "\n".join(rows), "a"), assistant("Six files.")])
    assert "/srv/shop/src: changelog.ts 1668 cli.ts 2668 export_html.ts 3668 fuzzy.ts 4668" in told
    assert "rw-r--r--" not in told


TREE = """Done. This is how it stands now:

```
src/
├── cli.ts, main.ts        # Entry points

├── core/                  # What all modes share
│   ├── session_store.ts
│   ├── bash_runner.ts
│   └── tools/
│       ├── read_tool.ts
│       └── write_tool.ts
└── utils/
    └── fuzzy_match.ts     # For the selectors
```
"""


def test_a_tree_is_told_by_its_folders() -> None:
    told = completed([user("Move the files where they belong."), assistant(TREE), user("Good.")])
    assert "├" not in told and "│" not in told
    assert "src/core: session_store.ts, bash_runner.ts" in told
    assert "src/core/tools: read_tool.ts, write_tool.ts" in told
    assert "src/utils: fuzzy_match.ts # For the selectors" in told
    assert "src: cli.ts, main.ts # Entry points" in told


def test_what_stands_in_a_drawn_box_is_told_without_its_sides() -> None:
    box = "┌───────────────────────────────┐\n│  cli.ts → main.ts → cli/args.ts  │\n└───────────────────────────────┘"
    written = [
        assistant(None, [call("write", {"path": "DEVELOPMENT.md", "content": box}, "a")]),
        tool("a", "Wrote it."),
    ]
    told = completed([user("Describe the setup."), *written, assistant("Written.")])
    assert "WROTE DEVELOPMENT.md: cli.ts → main.ts → cli/args.ts" in told


def test_a_path_is_told_whole_where_it_comes_first() -> None:
    path = "/srv/shop/apps/api/src/inference/model_router.ts"
    messages: list[Message] = []
    for n, line in enumerate(("const FIRST_LANE = pick_lane(0)", "const SECOND_LANE = pick_lane(1)")):
        messages += [
            user(f"Which lane is taken in case {n}?"),
            assistant(None, [call("read", {"path": path}, f"c{n}")]),
            tool(f"c{n}", f"{line}\n"),
            assistant("The lane stands there."),
        ]
    told = completed([*messages, user("Good.")])
    assert told.count(f"READ {path}: ") == 1
    assert "READ …/inference/model_router.ts: " in told


def test_what_a_command_of_the_person_printed_is_no_task_and_is_told_briefly() -> None:
    printed = "$ find .\n" + "\n".join(
        f"./.git/objects/2d/{n:04}64aa40a9cfda93fa00ce59812881150180a" for n in range(900)
    )
    messages = [
        user("$ ls\nLICENSE\nREADME.md"),
        user("Show pending commands below the chat, please."),
        assistant("They stand in the pending area now, and move up with the next message."),
        user("ok"),
        assistant("👍"),
        user(printed),
    ]
    handoff = handoff_of(messages)
    assert handoff.lines(ACTIVE_TASK) == ['"Show pending commands below the chat, please." (m1)']
    assert not handoff.lines(GOAL)
    told = "\n".join(handoff.lines(COMPLETED))
    assert '"$ find . ./.git/objects' in told
    assert told.count("./.git/objects") < 10


def test_a_screen_with_an_error_on_it_asks_about_the_error() -> None:
    shown = "$ npm start\nError: ENOENT: no such file or directory, open 'src/package.json'"
    assert (
        handoff_of([user("Move the files."), assistant("Moved."), user(shown)])
        .lines(ACTIVE_TASK)[0]
        .startswith('"$ npm start Error: ENOENT')
    )
    asked = "$ ls\nsrc\nlib\n\nwhere has the folder of tests gone?"
    assert "where has the folder" in handoff_of([user(asked)]).lines(ACTIVE_TASK)[0]


def test_a_screen_from_its_prompt_to_the_next_asks_for_nothing() -> None:
    shown = "ana@gate ~ % ./audit.sh\n\n=== Firewall ===\nOn\n\n=== Remote login ===\nOff\nana@gate ~ %"
    asked = [user("Write a script that audits the gate, and put what it prints into the report.")]
    messages = [*asked, assistant("Please run ./audit.sh, since it needs your key."), user(shown)]
    assert handoff_of(messages).lines(ACTIVE_TASK)[0].startswith('"Write a script that audits the gate')
    failed = shown.replace("Off", "error: no such service")
    assert handoff_of([*messages[:2], user(failed)]).lines(ACTIVE_TASK)[0].startswith('"ana@gate ~ %')


@pytest.mark.parametrize("said", ["resume", "Continue.", "please continue where you left off", "继续"])
def test_who_asks_to_go_on_is_told_with_what(said: str) -> None:
    asked = user("Commit the report, and run all hooks before.")
    broken_off = [asked, assistant("The hooks run.", [call("bash", {"command": "git commit"}, "a")]), tool("a", "…")]
    resumed = f'"{said}", that is "Commit the report, and run all hooks before." (m3; asked in m0)'
    first = handoff_of([*broken_off, user(said)])
    assert first.lines(ACTIVE_TASK) == [resumed] and not first.lines(GOAL)
    told_before = write_handoff(
        summary_input_of([user("go on")], task="go on", task_number=9, previous=first), 900, count
    )
    assert told_before.lines(ACTIVE_TASK)[0].endswith("asked in m0)")
    answered = [asked, assistant("All hooks went well, and the report is committed as 8c1f2ab."), user(said)]
    assert handoff_of(answered).lines(ACTIVE_TASK) == [f'"{said}" (m2)']


def test_a_word_of_consent_is_the_task_where_something_was_offered() -> None:
    messages = [user("Clean up."), assistant("The old branch is merged. Shall I delete it?"), user("ok")]
    assert handoff_of(messages).lines(ACTIVE_TASK)[0].startswith('"ok", that is "Shall I delete it?"')


def test_a_talk_fills_the_room_that_there_is_for_it() -> None:
    messages: list[Message] = []
    for n in range(90):
        told = (
            f"On day {n} we saw the harbour of place {n}, where my sister sang in the choir until it was ten o'clock."
        )
        messages += [user(f"{told} Then we had fish in the inn of the ferryman, all of us."), assistant("How lovely!")]
    assert count(handoff_of(messages, 2_400).render()) > 0.9 * 2_400


def test_where_a_file_was_moved_to_is_still_told_after_another_compaction() -> None:
    moved = ran("mv fuzzy.ts utils/", "", "a")
    before = handoff_of([user("Move it."), *moved, assistant("The file is in utils now.")])
    assert "fuzzy.ts (moved to utils/, m1)" in before.lines(FILES)
    later = summary_input_of([user("Good. Now the tests.")], previous=before)
    assert "fuzzy.ts (moved to utils/, m1)" in write_handoff(later, 2_000, count).lines(FILES)


def test_what_a_screen_broke_off_a_pasted_diff_states_no_rule() -> None:
    pasted = (
        " + 15 - **Newlines**: the text now stops at the first  \n newline and only displays the first line.  \n + 16"
    )
    assert not handoff_of([user(f"{pasted}\n\nRemove that.")]).lines(RULES)


def test_what_a_command_complained_about_is_outdated_once_it_was_run_again() -> None:
    messages = [
        user("Make the check pass."),
        *ran("npx tsgo --noEmit 2>&1 | head -80", "src/mode.ts(1,8): error TS2304: no old_name\nexit code 2", "a"),
        *ran("grep -n old_name src/mode.ts", "src/mode.ts:1: old_name\nexit code 1", "b"),
        *ran("npx tsgo --noEmit 2>&1 | head -50", "src/mode.ts(3,8): error TS2304: no new_name\nexit code 2", "c"),
    ]
    assert outdated_results(Ledger.of(messages).actions) == {2}


def test_of_what_is_outdated_a_line_or_two_are_quoted() -> None:
    kinds = (
        "Cannot find name",
        "Missing property",
        "Unused import",
        "Unknown member",
        "No overload for",
        "Wrong type of",
    )
    errors = [f"src/mode.ts({n},8): error TS{n}304: {kind} 'old_name_{n}' in here." for n, kind in enumerate(kinds, 1)]
    check = "npx tsgo --noEmit 2>&1 | head -80"
    messages = [
        user("Make the check pass."),
        *ran(check, "\n".join([*errors, "exit code 2"]), "a"),
        *ran(check, "src/mode.ts(3,8): error TS2304: Cannot find name 'new_name' in here.\nexit code 2", "b"),
        assistant("One name is left."),
    ]
    told = completed(messages)
    assert "'new_name'" in told
    assert 1 <= told.count("'old_name_") < len(errors)


def test_of_a_talk_what_a_person_stated_is_told_before_questions() -> None:
    messages = [
        user("Help me with what comes up in my week."),
        assistant("Gladly."),
        user("The plumber, Mr. Okafor, comes on Thursday at 9:30 and wants 240 euros in cash."),
        assistant("Then have 240 euros ready."),
        user("My sister Ana is allergic to walnuts."),
        assistant("No walnuts for Ana."),
    ]
    for topic in "trip garden piano kitchen school marathon club cat stairs roof car boat lake song".split():
        messages += [
            user(f"And what would you say, do people in general worry too much about the {topic} in such a case?"),
            assistant(f"About the {topic}: take small steps, write down what worked, and leave the rest for later."),
        ]
    told = completed([*messages, user("Now tell me about the plumber.")], 420)
    assert "Mr. Okafor, comes on Thursday at 9:30" in told
    assert "allergic to walnuts" in told
