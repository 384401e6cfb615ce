"""`clew search`: found once, by conversation, with the match made visible."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.cli.console import Console
from clew.cli.search import SearchPage, print_results
from clew.cli.text import display_width
from clew.install import has_extra
from clew.store import NewSession, SearchHit, Snippet, Store
from clew.testing import user
from clew.turn import FoundMessage, FoundPage
from tests.support.damaged_index import damage_index

if TYPE_CHECKING:
    from tests.cli.conftest import Kept

MOMENT = datetime(2026, 3, 1, tzinfo=UTC)


def test_hits_stand_under_their_conversations(kept: Kept) -> None:
    answer = kept.json("search", "bearing", "tea")
    groups = {group["title"] or group["opening"]: group["hits"] for group in answer["groups"]}
    assert set(groups) == {"Late clock", "Tea or coffee?"}
    assert {hit["kind"] for hit in groups["Late clock"]} == {"message", "summary"}
    assert answer["hits"] == sum(len(hits) for hits in groups.values())
    out = kept.run("search", "bearing", "tea")[1]
    assert "Late clock\n" in out
    assert "Tea or coffee?\n" in out


def test_without_colours_values_have_no_marks_in_them(kept: Kept) -> None:
    assert "retry_backoff = 3" in kept.run("search", "retry_backoff")[1]
    assert "时钟慢了。" in kept.run("search", "时钟")[1]


def test_in_colours_the_match_is_painted_and_the_text_stays_as_it_is(kept: Kept) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environ = {**os.environ, "CLEW_HOME": str(kept.home), "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    environ.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "clew", "search", "retry_backoff"]
    with subprocess.Popen(command, stdout=theirs, stderr=-1, env=environ) as running:
        running.communicate()
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "\x1b[1;33mretry_backoff\x1b[0m = 3" in shown
    assert "«" not in shown


@pytest.mark.parametrize(
    ("words", "sessions"),
    [
        (["late"], {"clock-1"}),
        (["late", "--role", "user"], {"clock-1"}),
        (["late", "--tool", "read_file"], {"clock-1"}),
        (["late", "--tool", "terminal"], set()),
        (["kettle", "--tool", "terminal"], {"s_4f1c0d"}),
        (["oil", "--session", "clock-2", "--role", "user"], {"clock-2"}),
        (["oil", "--session", "clock-1", "--role", "user"], set()),
        (["late", "--conversation", "Another way"], {"clock-1"}),
        (["tea", "--conversation", "clock-1"], set()),
        (["tea", "--since", "2026-02-28", "--until", "2026-03-02"], {"s_4f1c0d"}),
        (["tea", "--since", "2026-03-03"], set()),
        (["tea", "--until", "2026-02-01T10:00"], set()),
        (["tea", "--until", "1h"], {"s_4f1c0d"}),
    ],
)
def test_filters_narrow_the_search(kept: Kept, words: list[str], sessions: set[str]) -> None:
    answer = kept.json("search", *words)
    assert {hit["session"] for group in answer["groups"] for hit in group["hits"]} == sessions


def test_an_empty_answer_says_what_was_searched(kept: Kept) -> None:
    code, out, _ = kept.run("search", "zebra")
    assert code == 0
    assert out == "Nothing found for 'zebra'.\nSearched: 9 messages, 1 summaries, 1 outputs.\n"
    out = kept.run("search", "zebra", "--role", "user", "--tool", "x", "--session", "clock-1")[1]
    assert "in session clock-1, said by user, from x" in out
    assert "without the filters there may be more" in out
    assert kept.json("search", "zebra")["searched"] == {"messages": 9, "summaries": 1, "outputs": 1}


@pytest.mark.parametrize("query", ['"', "AND OR NOT", "a*b(c", "\\", "---", "😀", "' OR 1=1 --", "%s {} \x00"])
def test_no_query_is_a_mistake(kept: Kept, query: str) -> None:
    assert kept.run("search", "--", query)[0] == 0


def test_no_database_is_no_failure_but_a_named_session_is(empty_home: Kept) -> None:
    code, out, _ = empty_home.run("search", "tea")
    assert (code, "no database" in out) == (0, True)
    assert empty_home.json("search", "tea")["groups"] == []
    assert empty_home.run("search", "tea", "--session", "x")[0] == 1
    assert not empty_home.home.exists()


@pytest.mark.parametrize(
    "words",
    [
        [],
        [" "],
        ["a", "--limit", "0"],
        ["a", "--role", "judge"],
        ["a", "--since", "soon"],
        ["a", "--since", "2026-13-01"],
        ["a", "--session", "clock-1", "--conversation", "clock-1"],
    ],
)
def test_wrong_use_is_told_from_failure(kept: Kept, words: list[str]) -> None:
    assert kept.run("search", *words)[0] == 2


def test_the_limit_holds(kept: Kept) -> None:
    assert kept.json("search", "late", "tea", "oiled", "--limit", "2")["hits"] == 2


def test_an_address_is_not_broken(empty_home: Kept) -> None:
    address = "https://example.com/" + "a/" * 200 + "?needle_in_hay=1"

    async def long(store: Store) -> None:
        await store.start_session(NewSession(id="l", title="Long"))
        await store.append("l", [user("words " * 60 + address + " 修复" * 90)])

    empty_home.ask(long)
    out = empty_home.run("search", "needle_in_hay", "--session", "l", COLUMNS="60")[1]
    assert address in out
    assert "2026" not in out.partition("Long")[2], "one session was searched: its hits do not name it and its time"


def test_one_command_makes_vectors_and_sets_them_in_use_where_the_extra_is_installed(kept: Kept) -> None:
    code, out, err = kept.run("vectors", "--json")
    if not has_extra("vectors"):
        assert (code, err) == (2, "") and "pip install" in json.loads(out)["error"]["remedy"]
        assert kept.json("config", "show", "store.vectors")["settings"]["store.vectors"]["value"] is False
        return
    assert json.loads(out)["vectors"] is True and json.loads(out)["made"] > 0
    assert kept.json("vectors")["made"] == 0, "each turn once"
    assert "vectors" in {it["name"] for it in kept.json("doctor")["checks"]}
    assert kept.json("vectors", "--off")["vectors"] is False
    assert "vectors" not in {it["name"] for it in kept.json("doctor")["checks"]}


@given(
    st.text(min_size=1, max_size=300),
    st.lists(st.integers(0, 300), max_size=8),
    st.booleans(),
    st.booleans(),
    st.sampled_from([60, 80, 120]),
)
def test_any_snippet_can_be_shown_and_fits(
    text: str, places: list[int], has_colors: bool, has_unicode: bool, width: int
) -> None:
    ends = sorted({min(place, len(text)) for place in places})
    marks = tuple(zip(ends[::2], ends[1::2], strict=False))
    hit = SearchHit("message", 1.0, Snippet(text, marks, 0, False, False), "s", 1, 0, "user", None, MOMENT, "1", "T")
    out = StringIO()
    console = Console(out, StringIO(), {}, width, has_colors, has_unicode, False)
    print_results(SearchPage(FoundPage("q", (FoundMessage(hit),)), {}, {}), "", console)
    plain = re.sub(r"\x1b\[[0-9;]+m", "", out.getvalue())
    # A word without a space is not broken, however long it is.
    too_wide = [line for line in plain.split("\n") if display_width(line) > width]
    assert all(" " not in line.strip(" …") for line in too_wide)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", plain)


def test_a_damaged_index_is_told_with_the_hits_and_by_the_exit_status(kept: Kept) -> None:
    kept.json("search", "bearing")
    damage_index(kept.home)
    code, out, err = kept.run("search", "bearing")
    assert code == 1 and "Late clock" in out and "clew doctor --repair" in err
    code, out, err = kept.run("search", "bearing", "--json")
    answer = json.loads(out)
    assert code == 1 and answer["hits"] and "clew doctor --repair" in answer["problem"]
