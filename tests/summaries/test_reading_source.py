"""What reading handoffs of sessions that search and read source text asked for, each as a small case."""

from __future__ import annotations

from clew.ledger.readable import listing, readable_result
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
