"""How what commands gave back reads in a handoff: with how they ended, and without what says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from clew.messages import Message
from clew.summaries import write_handoff
from clew.summaries.handoff import BLOCKED, COMPLETED, FILES
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text


def called(name: str, arguments: dict[str, Any], result: str, id: str) -> list[Message]:
    return [assistant(None, [call(name, arguments, id)]), tool(id, result)]


def ran(command: str, result: str, id: str) -> list[Message]:
    return called("bash", {"command": command}, result, id)


def told_of(messages: list[Message], budget: int = 2_000) -> str:
    return "\n".join(write_handoff(summary_input_of(messages), budget, count).lines(COMPLETED))


def test_of_a_run_of_tests_the_counts_stand_before_a_line_of_what_failed() -> None:
    source = "\n".join(f"    shelf_{row}_left = count_rows_of(hall_{row})" for row in range(40))
    ended = "E   assert 3 == 4\n1 failed, 66 passed in 2.1s\n[exit 1]"
    printed = f"def test_every_shelf_of_hall_north(tmp_path):\n{source}\n{ended}"
    messages = [user("Count the shelves."), *ran("python -m pytest tests/halls", printed, "a")]
    told = told_of([*messages, assistant("One test of hall north fails, by one row."), user("Why?")], 500)
    assert "-> 1 failed, 66 passed · " in told or "\n\t1 failed, 66 passed\n" in told.replace(" in 2.1s", "")


def test_of_a_list_of_links_a_few_are_told_and_how_many_there_are() -> None:
    titles = "Oak Elm Ash Fir Yew Larch Birch Maple Beech Cedar Alder Hazel".split()
    links = "\n".join(f"- [{title} for shelves](https://{title.lower()}.example/wood_guide)" for title in titles)
    document = f"# Shelves\n\nThe key_of_hall_7 lies below /srv/halls/keys.\n\n## Read more\n\n{links}\n"
    wrote = called("Write", {"file_path": "/srv/halls/SHELVES.md", "content": document}, "File created", "a")
    told = told_of([user("Write down where the keys are."), *wrote, assistant("It is written."), user("And now?")])
    assert told.count("https://") <= 4 and "(12 such lines)" in told
    assert "The key_of_hall_7 lies below /srv/halls/keys." in told


def test_columns_without_a_row_and_figures_of_every_find_are_not_told_one_by_one() -> None:
    rows = "\n".join(f"{'.' * row} .. .." for row in range(60))
    messages = [user("Which adapters are there?")]
    messages += ran(
        "./adapters --of hall_north_annex", f"AdapterName_1 Status_2 MacAddress_3\n---- ---- ----\n{rows}", "a"
    )
    finds = "\n".join(f"Finding: row {row}\nEntropy: {row}.{row * 37}1" for row in range(40))
    messages += ran("./scan --verbose", finds, "b")
    told = told_of([*messages, assistant("There are 60 adapters, and the scan found 40 rows."), user("And now?")], 900)
    assert "MacAddress_3" not in told and told.count("Entropy: ") <= 4


def test_a_file_that_is_written_again_is_named_again() -> None:
    def written(port: int, id: str) -> list[Message]:
        rows = "\n".join(f"row_{row}_of_gauge: {port + row}" for row in range(30))
        return ran(
            f"ssh gate 'cat > /etc/gauge/config.yml << EOF\nlisten: yes\nport: {port}\n{rows}\nEOF\ngauge restart'",
            "",
            id,
        )

    messages = [
        user("Set the port."),
        *written(4005, "a"),
        *written(5335, "b"),
        assistant("Port 5335 it is."),
        user("ok?"),
    ]
    told = told_of(messages, 1_500)
    assert told.count("RAN ssh gate 'cat > /etc/gauge/config.yml") == 2


def test_how_a_command_ended_is_not_told_beside_what_it_printed() -> None:
    rows = "\n".join(
        f"the {word} shelf of the hall" for word in "red blue green white black brown grey pink".split() * 3
    )
    messages = [user("Look up hall_north_annex."), *ran("./look --hall hall_north_annex --all", rows, "a")]
    told = told_of([*messages, assistant("It has eight kinds of shelves."), user("And hall 2?")], 1_500)
    assert "the red shelf of the hall" in told and "24 lines" not in told


def test_a_file_that_could_not_be_read_is_not_quoted() -> None:
    messages = [user("Read the list."), *called("Read", {"file_path": "/c/stock/list.md"}, "File does not exist.", "a")]
    messages += called("Read", {"file_path": "C:\\\\stock\\\\list.md"}, "hall_3_rows = 212", "b")
    told = told_of([*messages, assistant("It has 212 rows, as of today."), user("ok")])
    assert "does not exist" not in told and "hall_3_rows = 212" in told


def test_what_checks_printed_before_a_commit_is_not_told_beside_the_commit() -> None:
    printed = "\n".join(f"{row} | import {{ shelf_{row}_of_hall }} from './hall_{row}.js';" for row in range(30))
    made = f"{printed}\n[main 4c1d77e] Sort the shelves\n 2 files changed, 3 insertions(+)"
    messages = [user("Commit it."), *ran("git add -A && git commit -m 'Sort the shelves'", made, "a")]
    told = told_of([*messages, assistant("All committed, and the checks are green."), user("Good.")])
    assert 'COMMITTED 4c1d77e "Sort the shelves" (m2)' in told and "shelf_7_of_hall" not in told


def test_what_was_done_last_is_told_with_what_it_gave_back() -> None:
    rows = "\n".join(f"shelf_{row}_left = {row * 317} items, last counted by gate_{row % 9}" for row in range(60))
    messages = [user("Count the shelves."), *ran("./count", rows, "a"), assistant("There are 60 shelves in the hall.")]
    messages += [
        user("Now empty the store."),
        *ran("tar -czf backup.tar.gz store && ls -lh *.gz", "13M backup.tar.gz", "b"),
    ]
    messages += ran("git remote -v", "fatal: not a git repository\n[exit 128]", "c")
    messages += [*ran("cd /srv/store && git remote -v", "origin example.org:store\n[exit 0]", "d")]
    messages += [*ran("./list --all", rows.replace("shelf", "box"), "e"), *ran("./lock store", "", "f")]
    told = told_of(messages, 420)
    assert "RAN tar -czf backup.tar.gz store && ls -lh *.gz -> 13M backup.tar.gz (m5)" in told
    assert "RAN ./lock store (m13)" in told and "not a git repository" not in told


def test_a_file_that_is_too_long_to_be_read_at_once_blocks_nothing() -> None:
    result = (
        "File content (28639 tokens) exceeds maximum allowed tokens (25000). Please use offset and limit parameters."
    )
    messages = [user("Read the log."), *called("Read", {"file_path": "/srv/gate.log"}, result, "a")]
    handoff = write_handoff(summary_input_of(messages), 2_000, count)
    assert not handoff.lines(BLOCKED) and "exceeds maximum" not in handoff.render()


def test_of_lines_that_differ_in_figures_alone_only_the_first_and_the_last_are_told() -> None:
    log = "\n".join(
        f"[ {row}14.{row}52877] gate: peer 90:10:57:d2 of hall_north allocation failed" for row in range(1, 9)
    )
    messages = [user("What does the log say?"), *ran("dmesg", log, "a")]
    told = told_of([*messages, assistant("The gate of hall_north fails again and again."), user("Since when?")], 900)
    assert told.count("allocation failed") == 2 and "[ 814.852877] gate: peer 90:10:57:d2 of hall_north" in told
    assert "(8 such lines)" in told


def test_a_search_is_told_with_what_it_found_or_that_it_found_nothing() -> None:
    rows = "\n".join(f"{n}: shelf_{n}_of_hall = CountedShelf('annex/plan_{n}.toml', {n * 37})" for n in range(400))
    messages = [user("Where is the layout of the halls kept?")]
    messages += called("glob", {"pattern": "**/halls/runbook_north*"}, "No files found", "a")
    messages += called("glob", {"pattern": "**/layout_plan.toml"}, "/srv/shop/layout_plan.toml", "b")
    messages += called("read", {"filePath": "/srv/shop/halls/annex.py"}, rows, "c")
    for budget in (600, 800, 1_000, 1_500):
        told = told_of([*messages, assistant("It is in the file for the plan."), user("Show it.")], budget)
        assert "SEARCHED **/halls/runbook_north* (m1)" not in told and "layout_plan.toml (m3)" not in told.replace(
            "SEARCHED **/layout_plan.toml: /srv/shop/layout_plan.toml (m3)", ""
        )


def test_a_file_that_is_not_there_was_not_read() -> None:
    lost = "File not found: /srv/shop/halls/plan.toml\n\nDid you mean one of these?\n/srv/shop/halls/layout.toml"
    messages = [user("Show the plan."), *called("read", {"filePath": "/srv/shop/halls/plan.toml"}, lost, "a")]
    messages += called("read", {"filePath": "/srv/shop/halls/layout.toml"}, "rows = 14\nnorth = true\n", "b")
    messages += [assistant("The layout has 14 rows."), user("Thanks, what else is there?")]
    files = write_handoff(summary_input_of(messages), 2_000, count).lines(FILES)
    assert [line for line in files if "layout.toml (read" in line]
    assert not [line for line in files if "plan.toml" in line]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/home/ana/halls/rows.toml", "~/halls/rows.toml"),
        ("~/halls/rows.toml", "/Users/ana/halls/rows.toml"),
        ("C:\\Users\\ana\\halls\\rows.toml", "/c/Users/ana/halls/rows.toml"),
        ("C:\\Users\\ana\\halls\\rows.toml", "~/halls/rows.toml"),
        ("c:/halls/rows.toml", "C:\\halls\\rows.toml"),
        ("/mnt/d/halls/rows.toml", "D:\\halls\\rows.toml"),
    ],
)
def test_a_file_under_two_spellings_is_one_file(one: str, other: str) -> None:
    messages = [user("Set the rows."), *called("read", {"filePath": one}, "rows = 14\n", "a")]
    messages += called("edit", {"filePath": other, "oldString": "14", "newString": "15"}, "ok", "b")
    messages += [
        *called("read", {"filePath": "/home/bo/rows.toml"}, "rows = 3\n", "c"),
        assistant("15 rows now."),
        user("Go on."),
    ]
    files = "\n".join(write_handoff(summary_input_of(messages), 2_000, count).lines(FILES))
    assert files.count("rows.toml") == 2 and files.count("(changed, m3)") == 1


def test_of_a_long_listing_files_have_their_size_and_folders_are_told_as_such() -> None:
    rows = [
        f"{'drwxr-xr-x' if n % 3 else '-rw-r--r--'} 2 ana ana {4096 if n % 3 else n * 311} May  3 10:0{n % 10} hall_{n}"
        for n in range(2, 40)
    ]
    dots = [f"drwxr-xr-x 9 ana ana 4096 May  3 10:00 {name}" for name in (".", "..")]
    messages = [user("What is there?"), *ran("ls -la", "\n".join(["total 96", *dots, *rows]), "a")]
    told = told_of([*messages, assistant("There are 38 halls."), user("And now?")])
    assert "hall_4/ hall_5/ hall_6 1866 hall_7/" in told
    assert "4096" not in told and " .. " not in told


def test_of_a_short_listing_the_folder_itself_is_not_told() -> None:
    rows = "total 8\ndrwxr-xr-x 3 ana ana 96 May  3 19:28 .\ndrwx------+ 46 ana ana 1472 May  3 20:11 .."
    messages = [
        user("What is there?"),
        *ran("ls -la halls", f"{rows}\n-rwxr-xr-x 1 ana ana 552 May  3 19:28 count.sh", "a"),
    ]
    told = told_of([*messages, assistant("One script."), user("And now?")])
    assert "RAN ls -la halls -> -rwxr-xr-x 1 ana ana 552 May 3 19:28 count.sh (m1)" in told


def test_a_file_was_changed_where_it_was_changed_and_not_where_it_was_only_read() -> None:
    read = called("read", {"path": "themes/light.json"}, '{"accent": "teal"}', "a")
    edit = {"path": "themes/light.json", "old_string": "teal", "new_string": "gray"}
    messages = [user("Make the accent gray."), *read, *called("edit", edit, "ok", "b")]
    messages += [assistant("The accent is gray now."), user("Now make all of the light theme dimmer.")]
    messages += called("read", {"path": "themes/light.json"}, '{"accent": "gray"}', "c")
    failing = {"path": "themes/light.json", "old_string": "blue", "new_string": "navy"}
    messages += called("edit", failing, "Error: old_string was not found in the file", "d")
    told = write_handoff(summary_input_of(messages), 2_000, count).lines(FILES)
    assert list(told) == ["themes/light.json (changed, m3)"]


def test_a_script_that_a_command_writes_is_told_with_what_is_run_and_not_by_how_it_begins() -> None:
    script = "cat <<'EOF' > check_rows.py\nimport halls\nprint(halls.rows_of_annex_7)\nEOF\npython3 check_rows.py"
    messages = [user("How many rows has annex 7?"), *ran(script, "rows: 512", "a")]
    told = told_of([*messages, assistant("Annex 7 has 512 rows."), user("And annex 8?")])
    assert "RAN cat <<'EOF' > check_rows.py …; python3 check_rows.py" in told
    assert told.count("EOF") == 1, "not the word that ends it"


def test_scripts_that_only_begin_alike_are_no_runs_of_one_command() -> None:
    failing = "Traceback\nValueError: no such hall\n[exit 1]"
    messages = [user("Which halls are there?")]
    for row in range(4):
        inline = f"python3 -c \"import halls; print(halls.find('hall_{row}'))\""
        written = f"cat <<EOF > find_{row}.py\nimport halls\nprint(halls.row({row}))\nEOF\npython3 find_{row}.py"
        messages += ran(inline, failing, f"a{row}") + ran(written, failing, f"b{row}")
    told = told_of([*messages, assistant("None of the four can be found."), user("Why?")])
    assert "runs" not in told
