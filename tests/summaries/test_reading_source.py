"""What reading handoffs of sessions that search and read source text asked for, each as a small case."""

from __future__ import annotations

import pytest

from clew.ledger.candidates import weight_of_code, whole_statement
from clew.ledger.readable import listing, readable_result
from clew.ledger.spans import whole_sentence
from clew.messages import Message
from clew.summaries import write_handoff
from clew.summaries.handoff import COMPLETED
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text


def called(name: str, arguments: dict[str, object], result: str, id: str) -> list[Message]:
    return [assistant(None, [call(name, arguments, id)]), tool(id, result)]


def completed(messages: list[Message], budget: int = 2_000) -> str:
    return "\n".join(write_handoff(summary_input_of(messages), budget, count).lines(COMPLETED))


def test_finds_stand_below_their_files_and_the_other_files_are_listed() -> None:
    copies = [f"/srv/work/copy_{n}/docs/tide_tables.md" for n in range(6)]
    found = "Found 7 matches\n" + "\n\n".join(
        f"{path}:\n  Line 88: ask the harbour which station tide_station_{n % 2} means before it is wired"
        for n, path in enumerate(copies)
    )
    told = completed([user("Where is the station named?"), *called("grep", {"pattern": "tide_station"}, found, "a")])
    lines = [line.strip() for line in told.split("\n")]
    for at, line in enumerate(lines):
        assert not line.endswith(".md:") or "Line 88:" in lines[at + 1]
    assert "such lines" not in told
    assert "also found in /srv/work" in told
    assert all(f"copy_{n}/docs" in told for n in range(6))


def test_what_grep_does_not_show_is_no_find() -> None:
    found = (
        "src/tide/station.py:12:def tide_of(station):\ngrep: src/__pycache__/tide.cpython-311.pyc: binary file matches"
    )
    told = completed([user("Where is the tide?"), *called("bash", {"command": "grep -rn tide_of src"}, found, "a")])
    assert "station.py:12:" in told
    assert "binary file matches" not in told


def test_a_listing_names_each_file_and_each_folder_once() -> None:
    lines = [
        "/srv/harbour/tests/fixtures/tide/a.json",
        "/srv/harbour/tests/fixtures/tide/b.json",
        "/srv/harbour/README.md",
    ]
    told = listing([*lines, *lines], lambda _: 1.0, lambda _: True, 400)
    assert told == "/srv/harbour: tests/fixtures/tide/: a.json b.json · README.md"


def test_a_record_inside_a_numbered_line_of_a_file_is_left_as_the_file_has_it() -> None:
    fields = ", ".join(f'"field_{n}": "value {n}"' for n in range(20))
    script = f"236: curl -d '{{{fields}}}'"
    assert readable_result(script) == script
    assert readable_result(f"236: {{{fields}}}") != f"236: {{{fields}}}"


def test_what_a_subagent_was_told_does_not_stand_among_what_it_found() -> None:
    prompt = "Look for tide_station.\n5. Read the file docs/2026-06-02-harbour-audit.md completely, 100 lines of it"
    report = "tide_station is defined in src/stations.py line 41.\n| src/stations.py | 41 | tide_station_default |"
    told = completed(
        [
            user("Where is the station defined?"),
            *called("task", {"description": "Find tide_station", "prompt": prompt}, report, "a"),
        ]
    )
    assert "src/stations.py" in told
    assert "harbour-audit" not in told


SOURCE = """\
41: export const TIDE_LANES: ReadonlyArray<TideLane> = [
42:   'north-quay',
43:   'south-quay',
44: ]
45:
46: export const openTideGate = (
47:   station: TideStation,
48:   level_cm: number,
49: ): TideGateResult => {
50:   const currentStation = stations.get(station)
51:   if (level_cm > MAX_TIDE_CM) {
52:     return tideGateResponse(
53:       { error: 'tide_too_high' },
54:       { status: 409 },
55:     )
56:   }
57:   return { gate: currentStation.gate }
58: }"""


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        (41, range(41, 45)),  # to where its bracket closes
        (42, range(41, 45)),
        (46, range(46, 50)),  # a signature, without what the function does
        (49, range(46, 50)),
        (53, range(52, 56)),  # the call that it is an argument of
        (50, range(50, 51)),
        (57, range(57, 58)),
    ],
)
def test_a_line_of_code_is_read_with_the_lines_that_it_needs(line: int, whole: range) -> None:
    start = SOURCE.index(f"{line}: ")
    told = SOURCE[slice(*whole_statement(SOURCE, start, SOURCE.index("\n", start)))]
    assert [int(one.partition(":")[0]) for one in told.split("\n")] == list(whole)


def test_an_argument_that_a_bracket_alone_opens_is_read_with_its_call() -> None:
    lines = [
        "  return gate(",
        "    {",
        "      error: 'tide_too_high',",
        "      levelCm,",
        "    },",
        "    { status: 409 },",
        "  )",
    ]
    text = "\n".join(f"{number}: {line}" for number, line in enumerate(lines, 7))
    start = text.index("9:")
    assert text[slice(*whole_statement(text, start, text.index("\n", start)))] == text


def test_a_long_body_is_not_told_and_a_line_that_closes_it_gives_way_to_the_one_that_opens_it() -> None:
    body = "\n".join(f"    tide_{n} = station.level({n})" for n in range(20))
    text = f"def tides(\n    station,\n):\n{body}\n    return\n\ntides = {{\n{body}\n}}\nrest()"
    assert text[slice(*whole_statement(text, 0, text.index("\n")))] == "def tides(\n    station,\n):"
    closing = text.rindex("}")
    assert text[slice(*whole_statement(text, closing, closing + 1))] == "tides = {"


def test_a_definition_is_worth_more_than_a_value_inside_of_a_function_and_the_rest_of_a_statement_least() -> None:
    lines = ["46: export const openTideGate = (", "12→    def tide_of(self, station):", "class TideGate(Gate):"]
    others = ["50:   const currentStation = stations.get(station)", "49: ): TideGateResult => {", "43:   tideGate,"]
    weights = [weight_of_code(line, 0, len(line)) for line in (*lines, "src/tide.ts:12: tide is high", *others)]
    assert weights == [1.5, 1.5, 1.5, 1.0, 0.7, 0.5, 0.5]


def test_an_error_is_told_with_its_status_and_a_list_with_its_entries() -> None:
    filler = "\n".join(f"{n}: // nothing is said here about the harbour master's dog" for n in range(59, 400))
    told = completed(
        [
            user("Which errors does the tide gate give, and on which lanes?"),
            *called("read", {"filePath": "/srv/harbour/tide_gate.ts"}, f"{SOURCE}\n{filler}", "a"),
        ],
        600,
    )
    assert "53: { error: 'tide_too_high' },\n\t54: { status: 409 }," in told
    assert "42: 'north-quay',\n\t43: 'south-quay'," in told


def test_a_wrapped_sentence_full_of_names_is_told_to_its_end() -> None:
    text = (
        "40: - **Quota:** 200 boats and 200,000 litres a day are free (`FREE_BOATS_PER_DAY` and\n"
        "41:   `FREE_LITRES_PER_DAY` in `harbour-free-berths.ts`). Over-quota or\n"
        "42:   guest boats fall through to the normal fee, which is paid at the office of the\n"
        "43:   harbour master.\n"
        "44: - Lights are out at ten."
    )
    start = text.index("41:")
    end = text.index("\n", start)
    assert whole_sentence(text, start, end) == (start, end)
    assert text[slice(*whole_sentence(text, start, end, near=True))].endswith("43:   harbour master.")


def test_what_a_file_said_before_it_was_changed_stands_apart_from_what_it_says_now() -> None:
    before = "\n".join(f"tide_limit_{n} = {n * 11}" for n in range(6))
    after = "\n".join(f"tide_bound_{n} = {n * 13}" for n in range(6))
    path: dict[str, object] = {"path": "src/tide_limits.py"}
    told = completed(
        [
            user("Call the limits bounds."),
            *called("read", path, before, "a"),
            *called("write", {**path, "content": "tide_bound_0 = 0"}, "ok", "b"),
            *called("read", path, after, "c"),
        ]
    )
    old, new = (line for line in told.split("\n") if "READ src/tide_limits.py" in line)
    assert "tide_limit_5 = 55" in old and old.endswith("(m1; changed since)")
    assert "tide_bound_5 = 65" in new and new.endswith("(m5)")


def test_of_what_a_linter_says_of_many_places_a_few_lines_are_told_and_their_number() -> None:
    found = "\n".join(
        f"src/tide_{n}.py:{n}:0: W{n:04}: {word} is not what a tide gauge wants to be (tide-{word})"
        for n, word in enumerate(
            f"{first}{second}" for first in "abcde" for second in ("oats", "ells", "anks", "erths")
        )
    )
    told = completed([user("Lint it."), *called("bash", {"command": "pylint src"}, found, "a")])
    assert 2 <= told.count("is not what a tide gauge wants") <= 8
    assert "(20 places in all)" in told


def test_who_holds_the_rights_in_a_file_and_that_a_result_was_cut_is_not_told() -> None:
    warning = "<warning>\nThe output of your last command was too long.\nPlease try a different command.\n</warning>"
    head = "# Copyright (c) 2014 Ada Tidewater <ada@harbour.example>\n# Licensed under the GPL: https://gpl.example/2.0"
    result = f"<returncode>0</returncode>\n{warning}<output_head>\n{head}\ntide_gauge = 41\n</output_head>"
    told = completed([user("Read it."), *called("bash", {"command": "cat src/tide.py"}, result, "a")])
    assert "tide_gauge = 41" in told
    assert "Copyright" not in told and "Licensed" not in told and "too long" not in told


def test_of_a_long_listing_that_a_person_pasted_a_few_lines_are_told() -> None:
    pasted = "\n".join(
        f"src\\gen\\tide.py:{n}:8: W0201: Attribute 'gauge_{n}' defined outside __init__" for n in range(150)
    )
    told = completed([user(f"Why is src/gen not ignored?\n\n{pasted}"), assistant("I look."), user("go on")], 6_000)
    assert told.count("defined outside __init__") < 60
    assert "places in all)" in told or "such lines)" in told


def test_a_line_that_opens_something_is_marked_where_what_is_in_it_is_not_told() -> None:
    body = "\n".join(f"{n}:   ..." for n in range(2, 60))
    second = "61: const LONG_TIDE_SHAPE = {\n62:   height_cm: 1800,"
    text = f"1: const SHORT_TIDE_SHAPE = {{\n{body}\n60: }}\n{second}"
    told = completed([user("Which shapes?"), *called("read", {"filePath": "tide_shapes.ts"}, text, "a")], 260)
    assert "const SHORT_TIDE_SHAPE = { …" in told
    assert "const LONG_TIDE_SHAPE = { …" not in told


def test_with_room_left_a_line_that_any_file_may_have_is_not_told() -> None:
    source = (
        "1→Prints the tides of the harbour, one line for each day.\n2→import json\n3→from datetime import datetime\n"
        "4→the first column is the day and the second the height\n5→return rows\n"
    ) + "\n".join(
        f"{line}→and so on for the {word} column, as the harbour likes it" for line, word in enumerate("abcdefgh", 6)
    )
    told = completed([user("What does it print?"), *called("read", {"path": "/srv/tides/print.py"}, source, "a")])
    assert "the first column is the day" in told
    assert "import json" not in told
    assert "from datetime" not in told
    assert "return rows" not in told


def test_numbered_lines_without_a_word_are_not_told() -> None:
    rows = []
    for name in ("tide_of", "gauge_of", "lock_of"):
        rows += [f"def {name}(station, *, at=None):", '    """', f"    Look {name}_tables up.", "", "    Parameters"]
        rows += [
            "    ----------",
            f"    station : {name}_station",
            '    """',
            f"    return {name}_tables(",
            "        at",
            "    )",
        ]
    source = "\n".join(f"{number:6}\t{row}" for number, row in enumerate(rows, 1))
    told = completed([user("What is there?"), *called("bash", {"command": "nl -ba tide.py"}, source, "a")], 1_200)
    assert "def tide_of(" in told
    assert "-----" not in told and '"""' not in told
