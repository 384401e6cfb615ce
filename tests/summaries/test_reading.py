"""What reading handoffs of real sessions asked for, each as a small case."""

from __future__ import annotations

import json
from dataclasses import replace

from clew.ledger import Ledger
from clew.messages import Message
from clew.summaries import Handoff, parse_handoff, write_handoff
from clew.summaries.deeds import folded_calls
from clew.summaries.handoff import ACTIVE_TASK, BLOCKED, COMPLETED, FILES, GOAL, RULES, TRIED
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text


def ran(command: str, result: str, id: str) -> list[Message]:
    return [assistant(None, [call("terminal", {"command": command}, id)]), tool(id, result)]


def handoff_of(messages: list[Message], budget: int = 2_000) -> Handoff:
    return write_handoff(summary_input_of(messages), budget, count)


def test_a_question_asked_again_and_again_leaves_room_for_what_was_said_before_it() -> None:
    messages = [
        user("We fly to Lisbon on 12 May with TP 571, Ana and I."),
        assistant("TP 571 lands at 11:55. Which hotel?\n\n1. Hotel Borges, 118 euros\n2. Casa do Jasmim, 96 euros"),
        user("2"),
        assistant("Casa do Jasmim it is, four nights, 384 euros together."),
        user("Ana does not eat fish."),
        assistant("Noted, no fish for Ana."),
    ]
    for week in range(20):
        messages += [
            user(f"And how warm is it in week {week} in the evening, by the river?"),
            assistant(f"In week {week} the evenings have about {14 + week % 5} degrees, so take a light jacket along."),
        ]
    told = "\n".join(handoff_of([*messages, user("Write a packing list.")], 330).lines(COMPLETED))
    assert '"2", that is "Casa do Jasmim, 96 euros" (m2; offered in m1)' in told
    assert '"Ana does not eat fish." (m4)' in told
    assert "earlier requests" in told


def test_calls_that_differ_in_numbers_alone_are_told_by_the_first_the_last_and_their_count() -> None:
    messages = [user("Check all parts of the importer.")]
    for part in range(12):
        messages += ran(
            f"python -m importer.part_{part} --check", f"part_{part}: {part * 37} rows read, all of them ok", f"c{part}"
        )
    told = "\n".join(handoff_of([*messages, assistant("All parts are in order.")]).lines(COMPLETED))
    assert told.count("RAN python -m importer.part_") == 2
    assert "part_11: 407 rows read, all of them ok (12 such calls) (m23)" in told


def test_what_was_said_is_no_call_however_alike_the_words_are() -> None:
    said = [(number, f'"The rows of batch_{number} are missing." (m{number})') for number in range(6)]
    assert folded_calls(said) == said


def test_a_failure_is_not_overcome_by_another_command_in_the_same_folder() -> None:
    messages = [
        user("Commit it."),
        *ran("cd ~/shop && git commit -m 'Retry'", "error: gpg failed to sign the data\nexit code 128", "a"),
        *ran("cd ~/shop && git config --get user.signingkey", "8E1F8995\nexit code 0", "b"),
    ]
    assert handoff_of(messages).lines(BLOCKED) == [
        "git commit -m 'Retry' -> exit 128: error: gpg failed to sign the data (m1)"
    ]


def test_a_goal_of_long_ago_says_that_it_was_asked_first() -> None:
    asked = ["Trace the route to the shop's server.", *(f"Now look after thing number {n}, please." for n in range(8))]
    messages = [message for text in asked for message in (user(text), assistant(f"Done: {text}"))]
    assert handoff_of(messages).lines(GOAL) == ['"Trace the route to the shop\'s server." (m0; asked first)']


def test_a_rule_of_a_task_that_was_taken_back_says_so() -> None:
    messages = [
        user("Port the uploader to asyncio."),
        assistant("It uses aiohttp now."),
        user("Use httpx, not aiohttp."),
        assistant("httpx replaces aiohttp."),
        user("Never mind that, revert it. We take a pool of threads, at most 8 workers."),
    ]
    rules = handoff_of(messages).lines(RULES)
    assert rules[0] == '"Use httpx, not aiohttp." (m2; said of a task that m4 cancelled)'


def test_a_title_stands_with_its_address() -> None:
    found = [
        {"title": f"How to tune a {what}", "url": f"https://docs.example.org/retry/{what}_guide.html"}
        for what in ("queue", "retry", "pool", "cache", "socket", "worker", "lock", "timer", "index", "heap", "fan")
    ]
    messages = [
        user("Search how to tune the retry."),
        assistant(None, [call("websearch", {"query": "tune retry"}, "a")]),
        tool("a", json.dumps({"results": found})),
        assistant("The page about the lock is useful."),
    ]
    told = "\n".join(handoff_of(messages).lines(COMPLETED))
    assert "How to tune a lock, https://docs.example.org/retry/lock_guide.html" in told
    assert '": "' not in told


def test_rulers_and_repeated_lines_of_a_short_output_are_left_out() -> None:
    printed = "Port  State\n----  -----\n8443  open\nwaiting for the debugger\nwaiting for the debugger"
    told = "\n".join(
        handoff_of([user("Look."), *ran("scan", printed, "a"), assistant("8443 is open.")]).lines(COMPLETED)
    )
    assert "RAN scan -> Port State · 8443 open · waiting for the debugger (m1)" in told


def edited(path: str, old: str, new: str, id: str) -> list[Message]:
    arguments = {"path": path, "old_string": old, "new_string": new}
    return [assistant(None, [call("edit", arguments, id)]), tool(id, "Edited.")]


def test_of_an_edit_the_text_that_came_is_quoted_and_not_the_one_that_it_replaced() -> None:
    messages = [
        user("Make the dimmed text a little brighter."),
        *edited("theme/dark.json", '"dim_gray": "#444444", for text', '"dim_gray": "#585858", for text', "a"),
        assistant("The dimmed text is brighter now."),
    ]
    told = handoff_of(messages).render()
    assert "#585858" in told
    assert "#444444" not in told


def test_what_was_missing_and_was_used_later_no_longer_blocks() -> None:
    messages = [
        user("Run the tests."),
        *ran("python -m pytest tests/ -v", "python: No module named pytest\nexit code 1", "a"),
        *ran("python -m pip install -r dev.txt", "Successfully installed pytest-9.0.2\nexit code 0", "b"),
        *ran("python -m pytest tests/test_a.py", "FAILED tests/test_a.py::test_x\n1 failed in 0.2s\nexit code 1", "c"),
    ]
    assert handoff_of(messages).lines(BLOCKED) == [
        "python -m pytest tests/test_a.py -> exit 1, 1 failed: FAILED tests/test_a.py::test_x (m5)"
    ]


def test_a_command_that_went_well_with_one_word_less_no_longer_blocks() -> None:
    command = '"free -m && df -h && top -bn1 | head"'
    messages = [
        user("How is the router?"),
        *ran(f"ssh root@slate:22772 {command}", "ssh: Could not resolve hostname slate:22772\nexit code 255", "a"),
        *ran(f"ssh root@slate {command}", "Mem: 908476 380356\nexit code 0", "b"),
    ]
    assert not handoff_of(messages).lines(BLOCKED)


def test_a_command_that_went_well_behind_another_no_longer_blocks() -> None:
    commit = 'git commit -m "Release v0.8.0"'
    messages = [
        user("Release it."),
        *ran(commit, "error TS2345: Argument of type 'toolText' is wrong\nexit code 1", "a"),
        *ran(f"git add . && {commit}", "[main 9f3c2ab] Release v0.8.0\nexit code 0", "b"),
    ]
    assert not handoff_of(messages).lines(BLOCKED)


def test_to_look_for_what_is_not_there_is_no_failure() -> None:
    messages = [
        user("Is bfg installed?"),
        *ran("which bfg && bfg --version", "bfg not found\nexit code 1", "a"),
        *ran('ssh root@slate "ls -la /opt/"', "ls: /opt/: No such file or directory\nexit code 1", "b"),
        *ran("grep -rn retry src", "exit code 1", "c"),
    ]
    handoff = handoff_of(messages)
    assert not handoff.lines(BLOCKED)
    assert not handoff.lines(TRIED)


def test_what_failed_is_quoted_and_not_what_went_well_on_the_way() -> None:
    passed = [f"tests/test_redact.py::TestKeys::test_key_{n} PASSED [ {n}%]" for n in range(30)]
    pip = [f"Collecting package_{n}>=1.{n} (from -r dev.txt (line {n}))" for n in range(30)]
    failed = [
        "E AssertionError: assert 'slack_token' in 'token_slack'",
        "FAILED tests/test_redact.py::test_slack_token",
    ]
    messages = [
        user("Run the tests."),
        *ran("pip install -r dev.txt", "\n".join([*pip, "Successfully installed package_7-1.7"]), "a"),
        *ran("pytest -v", "\n".join([*passed, *failed, "1 failed, 30 passed in 0.4s"]), "b"),
        assistant("One test fails."),
    ]
    told = handoff_of(messages, 500).render()
    assert "FAILED tests/test_redact.py::test_slack_token" in told
    assert "assert 'slack_token' in 'token_slack'" in told
    assert "Successfully installed package_7-1.7" in told
    assert "PASSED" not in told
    assert "Collecting" not in told


PLACES = ("header", "footer", "editor", "sidebar", "status", "search")


def test_a_line_that_stands_in_several_results_is_quoted_once() -> None:
    line = "const current_theme = settings_manager.get_theme('dark_theme');"
    filler = "\n".join(f"// {word} of the page, as it was before" for word in PLACES)
    messages = [user("Where is the theme read?")]
    for place in PLACES:
        shown = f"{line}\n{filler}\nconst only_in_{place} = read_file('{place}_file');"
        messages += ran(f"cat src/{place}.ts", shown, place)
    told = "\n".join(handoff_of([*messages, assistant("It is read in four files.")]).lines(COMPLETED))
    assert told.count("settings_manager.get_theme") == 1
    assert all(f"only_in_{place}" in told for place in PLACES)


def test_one_long_result_leaves_room_for_the_others() -> None:
    lint = [f"src/{chr(97 + n % 26)}_{n}.py: unused variable 'value_{n}', found by rule_{n * 7}" for n in range(300)]
    lint = [f"{line} {'very ' * (n % 9)}often" for n, line in enumerate(lint)]
    messages = [user("Which settings does the server have?"), *ran("pylint .", "\n".join(lint), "lint")]
    for place in PLACES:
        shown = f"{place}_port = {9000 + len(place)}\n" + f"# about the {place}, in many words\n" * 9
        messages += ran(f"cat conf/{place}.toml", shown, place)
    told = "\n".join(handoff_of([*messages, assistant("There are six.")], 900).lines(COMPLETED))
    assert all(f"{place}_port = " in told for place in PLACES)
    assert told.count("unused variable") > 5


def test_many_lines_of_a_result_stand_below_each_other_and_read_back_as_they_were_written() -> None:
    settings = "\n\n".join(f"{place}_colour = '#{n}f{n}f{n}f' of the dark theme" for n, place in enumerate(PLACES))
    messages = [user("Which colours are there?"), *ran("cat theme.toml", settings, "a"), assistant("Six of them.")]
    written = handoff_of(messages)
    text = written.render()
    assert (
        "   READ theme.toml (m1), in part:\n"
        "\theader_colour = '#0f0f0f' of the dark theme\n"
        "\tfooter_colour = '#1f1f1f' of the dark theme\n"
    ) in text
    assert parse_handoff(text) == Handoff({heading: list(lines) for heading, lines in written.sections.items()})


def test_what_was_quoted_in_several_lines_is_told_again_after_another_compaction() -> None:
    settings = "\n".join(f"{place}_colour = '#{n}f{n}f{n}f' of the dark theme" for n, place in enumerate(PLACES))
    first = [user("Which colours are there?"), *ran("cat theme.toml", settings, "a"), assistant("Six of them.")]
    then = [user("Thank you. What does the footer look like at night?"), assistant("Dark, with light text.")]
    before = parse_handoff(handoff_of(first).render())
    source = replace(summary_input_of([*first, *then]), first=len(first), previous=before)
    assert "\n\tfooter_colour = '#1f1f1f' of the dark theme" in write_handoff(source, 2_000, count).render()


def test_of_an_old_exchange_the_sentence_that_says_what_was_done_is_told() -> None:
    report = (
        "Assessment complete! I've generated a detailed report at `docs/SECURITY.md`.\n\n"
        "- macOS 26.2 update available (3.6 GB)\n- 194 files changed (+24,552 -4,207)\n- 12 of 14 checks are green"
    )
    messages = [user("Write a report about this Mac."), assistant(report)]
    for n in range(12):
        messages += [user(f"And what about part {n} of it?"), assistant(f"Part {n} is described in chapter {n + 3}.")]
    told = "\n".join(handoff_of(messages, 420).lines(COMPLETED))
    assert "I've generated a detailed report at `docs/SECURITY.md`." in told


def test_a_request_that_comes_in_quote_marks_has_them_once() -> None:
    messages = [user('"Read docs/plan.md and tell what is open."'), assistant("Two things are open.")]
    assert handoff_of(messages).lines(ACTIVE_TASK) == ['"Read docs/plan.md and tell what is open." (m0)']


def test_a_long_request_in_quote_marks_has_them_once_too() -> None:
    asked = '" I have a repository. ' + "Please look at each part of it. " * 90 + '"'
    assert handoff_of([user(asked), assistant("I looked.")]).lines(ACTIVE_TASK)[0].startswith('"I have a repository.')


def test_a_file_that_is_named_from_its_folder_too_is_listed_once() -> None:
    messages = [
        user("Harden the hooks."),
        *edited("/srv/shop/docs/hooks.md", "old text", "new text", "a"),
        *ran("cd /srv/shop && git add docs/hooks.md notes.md", "", "b"),
        *edited("/srv/shop/src/notes.md", "old text", "new text", "c"),
    ]
    assert handoff_of(messages).lines(FILES) == [
        "/srv/shop/src/notes.md (changed, m5) · /srv/shop/docs/hooks.md (changed, m1-m3)"
        " · /srv/shop/notes.md (changed, m3)"
    ]


def test_a_call_of_a_tool_of_its_own_is_told_with_its_name_and_what_it_asked() -> None:
    questions = [
        {"question": "Where shall the repository be?", "options": [{"label": "~/Projects"}, {"label": "~/Dev"}]}
    ]
    messages = [
        user("Start a repository."),
        assistant(None, [call("AskUserQuestion", {"questions": questions}, "a")]),
        tool("a", "The user chose ~/Dev."),
        assistant(None, [call("get_row", {"row": 4711}, "b")]),
        tool("b", "12 pieces of part_9"),
        assistant("It is there."),
    ]
    told = "\n".join(handoff_of(messages).lines(COMPLETED))
    assert 'ASKED "Where shall the repository be?" -> "The user chose ~/Dev." (m2)' in told
    assert "CALLED get_row row 4711 -> 12 pieces of part_9 (m3)" in told


def test_commands_with_the_same_beginning_are_told_by_where_they_differ() -> None:
    command = "sudo journalctl --quiet --reverse --since yesterday --until today --unit"
    shown = "\n".join(f"{place}_unit is running, {n} restarts" for n, place in enumerate(PLACES))
    messages = [
        user("How is the router?"),
        *ran(f"{command} network", shown, "a"),
        *ran(f"{command} firewall --grep denied", shown.replace("unit", "kernel_part"), "b"),
        assistant("It is fine."),
    ]
    told = "\n".join(handoff_of(messages).lines(COMPLETED))
    assert "RAN sudo … today --unit firewall --grep denied" in told


def test_what_a_search_found_stands_behind_the_file_that_it_was_found_in() -> None:
    finds = "\n\n".join(
        f"/srv/shop/src/{place}.ts:\n" + "\n".join(f"  Line {n}: const {place}_{n} = read_value();" for n in (4, 8))
        for place in PLACES
    )
    messages = [
        user("Where are the values read?"),
        assistant(None, [call("grep", {"pattern": "read_value"}, "a")]),
        tool("a", f"Found 12 matches\n{finds}"),
        assistant("In six files; sidebar_8 is the one."),
    ]
    told = "\n".join(handoff_of(messages).lines(COMPLETED))
    assert "/srv/shop/src/sidebar.ts:\n\tLine 4: const sidebar_4 = read_value();\n\tLine 8: const sidebar_8" in told


def test_a_long_folder_of_many_paths_is_told_once() -> None:
    folder = "/home/ana/work/trees/shop-of-the-north"
    shown = "\n".join(f"{folder}/src/parts/{place}_part.ts" for place in PLACES)
    messages = [user("Which parts are there?"), *ran("rg -l part", shown, "a"), assistant("Six of them.")]
    told = "\n".join(handoff_of(messages).lines(COMPLETED))
    assert told.count(folder) == 1


def test_the_folder_that_many_files_have_in_common_is_told_once_and_read_back() -> None:
    folder = "/home/ana/work/trees/shop-of-the-north/"
    messages = [user("Add a title to each part.")]
    for place in PLACES:
        messages += edited(f"{folder}src/{place}.ts", "old text", "new text", place)
    messages += edited("/etc/shop.conf", "old text", "new text", "conf")
    messages += ran(f"cat {folder}docs/parts.md", "# Parts of the page", "docs")
    handoff = handoff_of(messages)
    changed = " · ".join(f"src/{place}.ts (changed, m{2 * at + 1})" for at, place in reversed([*enumerate(PLACES)]))
    assert handoff.lines(FILES) == [
        f"Below {folder}: {changed}",
        "/etc/shop.conf (changed, m13)",
        f"Below {folder}: docs/parts.md (read, m15)",
    ]
    source = replace(summary_input_of([*messages, user("Thanks."), assistant("Welcome.")]), previous=handoff)
    again = write_handoff(replace(source, ledger=Ledger(len(messages)), first=len(messages)), 2_000, count)
    told = again.lines(FILES)
    assert told[0].startswith(f"Below {folder}src/: ")
    assert all(f"{place}.ts (changed, m{2 * at + 1})" in told[0] for at, place in enumerate(PLACES))
    assert told[1] == "/etc/shop.conf (changed, m13)"


def test_a_pasted_diff_states_no_rule_and_replaces_none() -> None:
    messages = [
        user("Invalid themes must never crash it."),
        assistant("They no longer do."),
        user("+ 15 - **Invalid themes**: they must no longer crash it, never again.\nWrite less in the changelog."),
    ]
    assert handoff_of(messages).lines(RULES) == ['"Invalid themes must never crash it." (m0)']


def test_names_on_lines_of_their_own_stand_side_by_side() -> None:
    names = "\n".join(f"    {place.title()}Locator," for place in PLACES)
    shown = (
        f"from matplotlib.ticker import (\n{names}\n)\nfrom matplotlib.scale import ScaleBase as scale_base\n"
        + "# more of it\n" * 9
    )
    messages = [user("What does it import?"), *ran("cat src/scales.py", shown, "a"), assistant("Locators.")]
    assert "HeaderLocator, FooterLocator, EditorLocator, SidebarLocator, " in handoff_of(messages).render()


def test_like_errors_of_a_compiler_are_told_by_their_count() -> None:
    errors = [
        f"src/mode.ts({n},{n % 60}): error TS2339: Property '{PLACES[n % 6]}' is not on 'Mode'." for n in range(40)
    ]
    messages = [
        user("Does it compile?"),
        *ran("npx tsc --noEmit", "\n".join([*errors, "src/a.ts(4,2): error TS2304: Cannot find name 'spawn'."]), "a"),
        assistant("No, two things are missing."),
    ]
    told = "\n".join(handoff_of(messages).lines(COMPLETED))
    assert told.count("TS2339") <= 4
    assert "(40 such lines)" in told
    assert "TS2304: Cannot find name 'spawn'." in told


def test_how_much_of_a_file_is_not_shown_is_no_outcome() -> None:
    shown = "\n".join(f"export const {place}_width = {n} * cell_width;" for n, place in enumerate(PLACES))
    messages = [
        user("How wide is it?"),
        *ran("cat src/widths.ts", f"{shown}\n[2177 more lines in file. Use offset=201 to continue]", "a"),
        assistant("Five cells."),
    ]
    assert "more lines" not in handoff_of(messages).render()


def test_many_lines_that_the_agent_wrote_stand_below_each_other_too() -> None:
    code = "\n".join(f"    this.{place}_component = create_{place}(settings.{place}_options);" for place in PLACES)
    messages = [
        user("Show me how it could look."),
        assistant(f"It could look like this, with one line for each part:\n\n```\n{code}\n```"),
        user("Good."),
        assistant("Shall I write it?"),
    ]
    assert "   CODE (m1), in part:\n\tthis.header_component = " in handoff_of(messages).render()


def test_lines_of_a_result_stand_in_their_order_whenever_they_were_chosen() -> None:
    lines = [
        f"{n}: {'plain words about it, one after the other' if n % 3 else f'width_{n} = {n * 1117}'}" for n in range(9)
    ]
    messages = [user("How wide is it?"), *ran("cat notes.txt", "\n".join(lines), "a"), assistant("It depends.")]
    told = handoff_of(messages).render()
    shown = [line for line in lines if line in told]
    assert len(shown) > 5
    assert sorted(shown, key=told.index) == shown


def test_what_was_run_is_told_without_the_folder_that_it_was_run_in() -> None:
    told = "\n".join(
        handoff_of(
            [
                user("How long are the files?"),
                *ran(
                    "cd /home/someone/workspaces/shop/packages/agent && wc -l src/main.ts src/session_store.ts",
                    " 1543 src/main.ts\n  885 src/session_store.ts",
                    "a",
                ),
                assistant("The first is twice as long as the second."),
                user("Go on."),
            ]
        ).lines(COMPLETED)
    )
    assert "RAN wc -l src/main.ts src/session_store.ts -> 1543 src/main.ts" in told
    assert "cd /home" not in told


def test_like_lines_of_a_script_are_told_by_their_count() -> None:
    script = "\n".join(
        f'sed -i \'s|from "./part_{n}.js"|from "./core/part_{n}.js"|g\' test/part_{n}.ts' for n in range(12)
    )
    told = "\n".join(
        handoff_of([user("Move the parts."), *ran(script, "", "a"), assistant("Moved."), user("Go on.")]).lines(
            COMPLETED
        )
    )
    assert told.count("sed -i") <= 5
    assert "test/part_11.ts (12 such lines)" in told


def test_of_a_file_of_tests_the_names_stand_together() -> None:
    tests = "\n\n".join(
        f'class TestPart{n}:\n    """Test part {n}"""\n\n    def test_loads_part_{n}(self):\n        assert load({n})\n'
        f"    def test_saves_part_{n}(self):\n        assert save({n})"
        for n in range(3)
    )
    wrote = [assistant(None, [call("write_file", {"path": "test_parts.py", "content": tests}, "w")]), tool("w", "ok")]
    told = "\n".join(handoff_of([user("Test the parts."), *wrote, user("Go on.")]).lines(COMPLETED))
    assert "class TestPart1: def test_loads_part_1, test_saves_part_1(self):" in told
    assert '"""Test part 1"""' not in told


def test_a_test_runner_that_is_not_there_blocks_nothing_once_another_ran_the_tests() -> None:
    messages = [
        user("Fix the units."),
        *ran("pytest units/test_system.py", "bash: line 1: pytest: command not found\nexit code 127", "a"),
        *ran("bin/test units/test_system.py", "Ran 8 tests in 0.28s\n\nOK\nexit code 0", "b"),
    ]
    assert not handoff_of(messages).lines(BLOCKED)


def test_of_a_talk_each_answer_is_told_before_those_to_a_question_that_came_again_and_again() -> None:
    messages = [
        user("Which hotel is it?"),
        assistant("1. Hotel Borges, 118 euros a night\n2. Casa do Jasmim, 96 euros a night, with a garden"),
        user("2"),
        assistant("Casa do Jasmim it is: five nights, 480 euros together. Write to them, since the lift is small."),
        user("How do we get to Sintra?"),
        assistant("Take the train from Rossio, every 20 minutes, 40 minutes to Sintra, 2.45 euros each way."),
    ]
    for week in range(20):
        messages += [
            user(f"And how warm is it in week {week} in the evening, by the river?"),
            assistant(f"In week {week} the evenings have about {14 + week % 5} degrees, so take a light jacket along."),
        ]
    told = "\n".join(handoff_of([*messages, user("Write it down.")], 420).lines(COMPLETED))
    assert "Casa do Jasmim it is: five nights, 480 euros together." in told
    assert "Take the train from Rossio, every 20 minutes" in told
