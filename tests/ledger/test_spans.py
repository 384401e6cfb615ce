"""What of a tool result can be quoted: records by their fields, texts by their lines, and no line of routine."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.ledger.candidates import shape_of
from clew.ledger.readable import listing, readable_result, without_context, without_wrapping
from clew.ledger.spans import (
    command_span,
    is_routine,
    joined_imports,
    line_span,
    whole_sentence,
)

NOTE = "The tide table for the north pier was printed with the wrong year.\nSee page 4 of the almanac."
RECORD = {
    "id": 7,
    "port": {"name": "Hollow Bay", "depth_m": 11.5},
    "open": True,
    "note": NOTE,
    "boats": ["Ida", "Tern"],
}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(RECORD, indent=2), id="a whole result"),
        pytest.param(json.dumps(RECORD), id="in one line"),
        pytest.param(f"12→{json.dumps({**RECORD, 'pad': 'x' * 200})}\n13→", id="in a line of a listing"),
        pytest.param(f"INFO sent {json.dumps({'request': RECORD, 'pad': 'x' * 200})}", id="in a log"),
        pytest.param(json.dumps({"body": json.dumps(RECORD), "pad": "x" * 200}), id="inside another one"),
    ],
)
def test_a_record_is_told_by_its_fields(text: str) -> None:
    lines = readable_result(text).split("\n")
    assert any("id: 7, name: Hollow Bay, depth_m: 11.5, open: true" in line for line in lines)
    assert "note: The tide table for the north pier was printed with the wrong year." in lines
    assert "See page 4 of the almanac." in lines
    assert any("boats: Ida" in line and "Tern" in line for line in lines)
    assert not any(mark in line for line in lines for mark in ('":', "\\n", '\\"'))


def test_a_record_that_was_cut_at_both_ends_is_told_by_what_is_left() -> None:
    text = json.dumps([{"name": f"pier {number}", "state": "open", "warden": f"w-{number}"} for number in range(20)])
    lines = readable_result(text[5:-9]).split("\n")
    assert lines[3] == "name: pier 3, state: open, warden: w-3"
    assert not any('"' in line for line in lines[1:])


def test_a_long_line_with_escaped_breaks_becomes_lines() -> None:
    page = "<html>\\n  <title>Tides</title>\\n  <p>" + "high water " * 30 + "</p>\\n</html>"
    lines = readable_result(f"E  assert 'ebb' in '{page}'").split("\n")
    assert "  <title>Tides</title>" in lines and lines[-1] == "</html>'"


def test_other_texts_stay_the_same_object() -> None:
    for text in ("", "plain\nlines", '{"no: json', "x" * 900, "C:\\new\\table " * 40, 'say "yes": no\n' * 50):
        assert readable_result(text) is text


@given(values)
def test_any_value_can_be_read_whole_or_in_one_long_line_or_cut(value: object) -> None:
    text = json.dumps(value)
    for shown in (text, f"log {text}{' ' * 300}", text[3:] + " " * 300):
        assert isinstance(readable_result(shown), str)


@given(
    st.dictionaries(st.from_regex(r"[a-z]{3,8}", fullmatch=True), st.from_regex(r"[a-z ]{1,30}[a-z]", fullmatch=True))
)
def test_every_text_of_a_record_is_in_what_is_told(record: dict[str, str]) -> None:
    told = readable_result(json.dumps(record))
    assert all(f"{name}: {value}" in told for name, value in record.items())


@pytest.mark.parametrize(
    "line",
    [
        "(venv) ida@pier-4:/srv/tides# cat almanac.txt",
        "ida@pier-4:~$ ",
        "tests/test_tides.py::test_ebb PASSED [ 20%]",
        "Downloading tides-2.1-py3-none-any.whl (12 kB)",
        "> @harbour/tides@0.14.2 check",
        "> tides-example@1.2.2 build /srv/tides/example",
        "npm error path /srv/tides/packages/almanac",
        "npm ERR! Lifecycle script `check` failed with error:",
        "Waiting for the debugger to disconnect...",
        "    at Module.load (node:internal/modules/cjs/loader:1241:15)",
        "    at next (/srv/tides/node_modules/tsx/dist/register.cjs:4:1004)",
        '  File "/usr/lib/python3.12/asyncio/base_events.py", line 691, in run_until_complete',
        '  File "/srv/venv/lib/python3.12/site-packages/httpx/_client.py", line 914, in send',
        "<path>/srv/tides/src/almanac.ts</path>",
        "</content>",
        "(End of file - total 2502 lines)",
        "[Showing lines 1-1603 of 2377 (50.0KB limit). Use offset=1604 to continue]",
        "... (1140 more lines not shown. Use offset=242 to continue reading)",
        " create mode 100644 src/almanac.ts",
        " 3 files changed, 1274 insertions(+), 10 deletions(-)",
        "index 91079e6..704f556 100644",
        "platform linux -- Python 3.12.1, pytest-8.1.1, pluggy-1.4.0",
        "total 24",
        "rootdir: /srv/tides, configfile: pyproject.toml",
        "plugins: cov-5.0.0, xdist-3.5.0",
        "-- Docs: https://docs.pytest.org/en/stable/how-to/capture-warnings.html",
    ],
)
def test_what_a_terminal_shows_beside_any_outcome_is_no_outcome(line: str) -> None:
    assert is_routine(line)


@pytest.mark.parametrize(
    "line",
    [
        "ida@pier-4 has 3 mails",
        "git@example.org:tides.git",
        "FAILED tests/test_tides.py",
        "npm error enoent Could not read package.json",
        "> the almanac is printed at 12:00",
        "    at Almanac.load (/srv/tides/src/almanac.ts:41:15)",
        '  File "/srv/tides/almanac.py", line 12, in load',
        "index the almanac by day",
        "2 files changed their names",
        "plugins: almanac",
        "platform: linux",
        "total 24 tides",
    ],
)
def test_other_lines_may_be_one(line: str) -> None:
    assert not is_routine(line)


def test_lines_of_names_alone_are_alike() -> None:
    shapes = {
        shape_of(line) for line in ("milli_mass_unit, quart, lightyear,", "'kg', 'coulomb', 'byte',", "12: a_b, c")
    }
    assert shapes == {"names"}
    assert shape_of("read, then write it, please") != "names"


def test_of_a_long_line_of_commands_the_one_around_a_place_is_told() -> None:
    line = f"cd /srv/shop && curl -s https://shop.example/{'x' * 260} && wc -l src/retry_policy.py; ls"
    at = line.index("retry_policy")
    assert line[slice(*command_span(line, 0, len(line), at, at + 5))] == "wc -l src/retry_policy.py"
    assert command_span(line, 0, len(line), line.index("xxx"), line.index("xxx") + 3) == (0, len(line))


def test_an_arrow_gives_no_name_its_value() -> None:
    renamed = {
        shape_of(f" rename src/{{tui => modes/components}}/{name}.ts (100%)") for name in ("footer", "editor_2", "a-b")
    }
    assert len(renamed) == 1 and renamed != {""}
    assert shape_of("limit = 'low'") == "" and shape_of("const twice = (n) => 2 * n") == ""
    assert shape_of("limit = 12") == shape_of("limit: 4.5%") != shape_of("size = 12")


def test_a_clause_of_a_long_line_begins_at_a_word_and_not_inside_of_one() -> None:
    line = (
        "FAILED tests/test_redaction_of_conversations.py::TestRealWorldScenariosWithManyParts::test_mixed_content_seven"
        " - assert 'session_id: 5f8a361a' in 'session_id=5f8a361a,timestamp=2025,user=[REDACTED_EMAIL],"
        + "and so on it goes for very long "
        * 6
    )
    at = line.index("test_mixed_content_seven")
    start, _ = line_span(line, 0, len(line), at, at + 10, 3) or (-1, -1)
    assert start == 0 or line[start - 1] == " "


WRAPPED = """# Tides
12: - **Free berth:** `POST /berths/free` gives a boat one berth for the night
13:   and at most 40 litres of water; the harbour counts both from noon to
14:   noon. Boats that stay longer pay at the office.
15: - Lights are out at ten."""


def test_a_wrapped_sentence_is_quoted_whole_and_code_line_by_line() -> None:
    start = WRAPPED.index("13:")
    low, high = whole_sentence(WRAPPED, start, WRAPPED.index("\n", start))
    assert WRAPPED[low:high].startswith("12: - **Free berth:**")
    assert WRAPPED[low:high].endswith("pay at the office.")
    code = "return collect_all_the_boats_of(harbour, before=today,\n    after=yesterday, berth=number, owner=keeper)"
    assert whole_sentence(code, 0, code.index("\n")) == (0, code.index("\n"))


def test_names_of_an_import_stand_on_one_line_only_where_none_is_missing_between_them() -> None:
    lines = ["64: openBerth,", "65: type Berth,", "66: } from './berths'", "71: tideOf,", "80: closeLock,", "x,"]
    assert joined_imports(lines) == ["64: openBerth, type Berth from './berths'", "71: tideOf,", "80: closeLock,", "x,"]


def test_a_clause_does_not_begin_with_the_mark_between_two_names() -> None:
    failed = f"FAILED tests/test_{'stock' * 20}.py::TestHalls::test_shelves_of_hall_7 - assert 'door' in '{'x ' * 90}'"
    at = failed.index("test_shelves_of_hall_7")
    start, _ = line_span(failed, 0, len(failed), at, at + 22, 1) or (0, 0)
    assert failed[start:].startswith("test_shelves_of_hall_7")


DIFFERENCE = """$ git diff
diff --git a/stock/list.py b/stock/list.py
index 33fcbea..b47fd58 100644
--- a/stock/list.py
+++ b/stock/list.py
@@ -11,4 +11,4 @@ def rows():
 def shelves_of(hall):
-    return read(hall)
+    return read(hall, side="door")

@@ -40,3 +40,2 @@
 x = 1
-y = 2
 z = 3
diff --git a/notes.txt b/notes.txt
--- a/notes.txt
+++ b/notes.txt
@@ -1 +1,2 @@
 one
+two
2 files differ"""


def test_of_a_difference_only_what_changed_is_told() -> None:
    told = [
        "$ git diff",
        "index 33fcbea..b47fd58 100644",
        "stock/list.py",
        '+    return read(hall, side="door")',
        "-y = 2",
    ]
    assert without_context(DIFFERENCE).split("\n") == [*told, "notes.txt", "+two", "2 files differ"]
    assert without_context("no difference at all") == "no difference at all"


SMB = """Get-Shelf : The name is too long.
At line:1 char:1
+ Get-Shelf -Hall north
    + CategoryInfo          : NotSpecified: (HALL_NORTH:root/shelves/HALL_North) [Get-She
   lf], ShelfException
    + FullyQualifiedErrorId : Shelf 206,Get-Shelf

PSPath       : Microsoft.PowerShell.Core\\Registry::HKEY_LOCAL_MACHINE\\Shelves\\Nor
               thAnnex
Side         : door"""


def test_what_powershell_wraps_in_the_middle_of_words_is_joined_or_left_out() -> None:
    told = without_wrapping(SMB)
    assert "\\Shelves\\NorthAnnex\nSide         : door" in told
    assert "lf], ShelfException" not in told and told.startswith("Get-Shelf : The name is too long.")


def test_a_search_among_what_runs_that_finds_itself_is_routine() -> None:
    found = ["311 root  1460 S    ash -c ps | grep -i gauge", "m  412  0.0 435 s029  S+  12:05PM  0:00.00 grep gauge"]
    assert all(map(is_routine, found))
    assert not is_routine("17957 root 1221m S /usr/sbin/gauge --config grep.yml")


def test_a_listing_of_windows_is_told_by_its_folder_too() -> None:
    lines = [f"C:\\stock\\halls\\annex_of_north\\part_{part}.py" for part in range(3)] + ["C:\\stock\\README.md"]
    told = listing(lines, lambda _: 1.0, lambda _: True, 400)
    assert told == "C:\\stock: halls\\annex_of_north\\: part_0.py part_1.py part_2.py · README.md"


def test_a_setting_with_a_plain_name_keeps_it() -> None:
    told = readable_result(json.dumps({"dim": "gray", "text": "", "title": "The stock list of hall north"}))
    assert told == 'dim: gray, text: "", The stock list of hall north'
