"""`clew sessions list|show|tree` on a store as people have it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from clew.store import NewSession, NodePublication, Store
from clew.testing import assistant, user
from tests.contracts.store_contract_nodes import leaf, shown_from

if TYPE_CHECKING:
    from tests.cli.conftest import Kept


def test_the_list_has_one_line_for_each_conversation_newest_first(kept: Kept) -> None:
    listed = kept.json("sessions", "list")["sessions"]
    assert [each["id"] for each in listed] == ["s_4f1c0d", "helper", "other-way", "clock-2"]
    clock = listed[-1]
    assert (clock["messages"], clock["compactions"], clock["title"]) == (6, 1, "Late clock")
    assert listed[0]["opening"] == "Tea or coffee?"
    out = kept.run("sessions", "list")[1]
    assert [line.split()[0] for line in out.splitlines()] == ["session", "s_4f1c0d", "helper", "other-way", "clock-2"]
    assert "branch at m2: Another way" in out


def test_the_list_shows_what_the_gateway_recorded_for_every_owner(kept: Kept) -> None:
    async def record(store: Store) -> None:
        for owner in ("ann", "bob"):
            new = NewSession(id=f"s_{owner}", owner=owner, source="gateway", model="m-3")
            await store.sync([user(f"Is {owner} in?"), assistant("No.")], new=new)

    kept.ask(record)
    listed = {each["id"]: each for each in kept.json("sessions", "list", "--all")["sessions"]}
    assert [(listed[f"s_{it}"]["source"], listed[f"s_{it}"]["owner"]) for it in ("ann", "bob")] == [
        ("gateway", "ann"),
        ("gateway", "bob"),
    ]
    shown = kept.run("sessions", "list", "--all")[1]
    assert "s_bob" in shown and "gateway" in shown and "Is ann in?" in shown


def test_the_list_goes_on_where_it_stopped(kept: Kept) -> None:
    first = kept.json("sessions", "list", "--limit", "2")
    assert first["more"] is True
    assert "--before helper" in kept.run("sessions", "list", "--limit", "2")[2]
    then = kept.json("sessions", "list", "--limit", "2", "--before", "helper")
    assert [each["id"] for each in then["sessions"]] == ["other-way", "clock-2"]
    assert then["more"] is False
    every = kept.json("sessions", "list", "--all")["sessions"]
    assert [each["id"] for each in every][-2:] == ["clock-2", "clock-1"]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 100])
def test_messages_are_counted_right_however_many_there_are(empty_home: Kept, count: int) -> None:
    async def many(store: Store) -> None:
        await store.start_session(NewSession(id="long"))
        await store.append("long", [user(f"line {number}") for number in range(count)])

    empty_home.ask(many)
    (listed,) = empty_home.json("sessions", "list")["sessions"]
    assert (listed["messages"], listed["own_messages"]) == (count, count)


def test_reading_makes_no_database(empty_home: Kept) -> None:
    for words in (["sessions", "list"], ["sessions", "tree"]):
        code, out, err = empty_home.run(*words)
        assert (code, err) == (0, "")
        assert "no database" in out
    assert empty_home.json("sessions", "list")["sessions"] == []
    for words in (["sessions", "show", "x"], ["sessions", "undo", "x"], ["sessions", "export", "x"], ["export", "x"]):
        code, out, err = empty_home.run(*words)
        assert (code, out) == (1, "")
        assert err.startswith("clew: session 'x': there is no database yet at ")
    assert not empty_home.home.exists()


def test_show_tells_of_chain_compaction_children_and_cost(kept: Kept) -> None:
    shown = kept.json("sessions", "show", "clock-2")
    assert shown["chain"] == ["clock-1", "clock-2"]
    assert (shown["messages_total"], shown["messages_in_view"]) == (6, 5)
    (compaction,) = shown["compactions"]
    assert (compaction["replaced"], compaction["in_effect"]) == ([[1, 3]], True)
    assert [child["id"] for child in shown["children"]] == ["other-way"]
    assert (shown["usage"]["calls"], shown["usage"]["calls_of_unknown_cost"]) == (3, 1)
    assert shown["auxiliary_usage"]["cost_usd"] == 0.0005
    out = kept.run("sessions", "show", "clock-2")[1]
    assert "m1-m2 folded, 900 → 300 tokens" in out
    assert "$0.0125 + no price, of it $0.0005 for 1 auxiliary call" in " ".join(out.split())


def test_show_gives_the_history_or_what_the_model_sees(kept: Kept) -> None:
    history = kept.json("sessions", "show", "clock-2", "--last", "3")["messages"]
    assert [each["number"] for each in history] == [3, 4, 5]
    view = kept.json("sessions", "show", "clock-2", "--view", "--all")["messages"]
    assert [each["number"] for each in view] == [0, None, 3, 4, 5]
    assert view[1]["message"]["content"].startswith("Handoff")
    assert [each["written"] for each in view] == [False, True, False, False, False]
    before = kept.json("sessions", "show", "clock-1", "--view", "--all")["messages"]
    assert [each["number"] for each in before] == [0, 1, 2, 3]
    assert before[2]["tool"] == "read_file"
    whole = kept.run("sessions", "show", "clock-2", "--full", "--all")[1]
    assert "retry_backoff = 3" in whole
    assert "> read_file(path='hall3.log')" in whole


@pytest.mark.parametrize("width", ["60", "80", "120"])
@pytest.mark.parametrize("words", [["list"], ["show", "clock-2"], ["tree"], ["show", "clock-2", "--view"]])
def test_nothing_is_wider_than_the_terminal(kept: Kept, width: str, words: list[str]) -> None:
    code, out, _ = kept.run("sessions", *words, COLUMNS=width)
    assert code == 0
    assert max(len(line) for line in out.splitlines()) <= int(width)


def test_the_tree_draws_the_chain_with_its_branches(kept: Kept) -> None:
    lines = kept.run("sessions", "tree", "clock-2")[1].splitlines()
    plain = [re.sub(r"\s+", " ", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "WHEN", line)).strip() for line in lines]
    assert plain == [
        "Late clock",
        "● clock-1 m0-m3 4 messages WHEN terminal m-1",
        "│",
        "├─ branch at m2: Another way",
        "│ ● other-way m2 1 message WHEN terminal m-1",
        "│ │",
        "│ └─ subagent",
        "│ ● helper empty 0 messages WHEN subagent",
        "│",
        "▼ m1-m2 folded, 900 → 300 tokens",
        "● clock-2 m4-m5 2 messages WHEN newest terminal m-1",
    ]
    # Named from anywhere within, the whole tree comes.
    assert kept.run("sessions", "tree", "helper")[1].splitlines() == lines
    forest = kept.json("sessions", "tree", "--limit", "1")
    assert ([tree[0]["id"] for tree in forest["trees"]], forest["more"]) == (["s_4f1c0d"], 1)
    tree = kept.json("sessions", "tree", "clock-1")["trees"][0]
    assert tree[0]["children"][0][0]["children"][0][0]["id"] == "helper"
    assert tree[1]["compaction"]["tokens_after"] == 300


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("clock-1", "clock-1"),
        ("s_4f", "s_4f1c0d"),
        ("4f1c", "s_4f1c0d"),
        ("Late clock", "clock-2"),
        ("late CLOCK", "clock-2"),
        ("Another", "other-way"),
        ("oth", "other-way"),
    ],
)
def test_a_session_is_found_by_id_beginning_or_title(kept: Kept, name: str, found: str) -> None:
    assert kept.json("sessions", "show", name)["session"]["id"] == found


def test_ids_are_shown_short_and_found_as_they_are_shown(empty_home: Kept) -> None:
    root = "claude-code-0ccf1a04-1b4c-43b6-8aa5-79e41db43a68"
    ids = [root, f"{root}.agent-a1b2c3d4", f"{root}.agent-ffffffff", "claude-code-0dd", "s_0123456789", "s_0123456777"]

    async def start(store: Store) -> None:
        for each in ids:
            await store.start_session(NewSession(id=each))

    empty_home.ask(start)
    shown = [line.split()[0] for line in empty_home.run("sessions", "list")[1].splitlines()[1:]]
    assert max(len(each) for each in shown) <= 20
    assert [empty_home.json("sessions", "show", each)["session"]["id"] for each in shown] == ids[::-1]
    assert empty_home.json("sessions", "show", "...agent-a1b2c3d4")["session"]["id"] == ids[1]


def test_what_could_be_several_or_none_is_an_error_with_candidates(kept: Kept) -> None:
    code, out, err = kept.run("sessions", "show", "clock")
    assert (code, out) == (1, "")
    assert "clock-1 (Late clock)" in err
    assert "clock-2 (Late clock)" in err
    assert "give more of the id" in err
    code, _, err = kept.run("sessions", "show", "the spring clokc")
    assert code == 1
    assert "`clew sessions list`" in err
    assert "near it: other-way (Another way)" in kept.run("sessions", "show", "way")[2]
    assert "near it: helper" in kept.run("sessions", "show", "hlper")[2]
    for name in (" ", "\udcff", "x\0y", "%", "'"):
        code, _, err = kept.run("sessions", "show", name)
        assert (code, err.startswith("clew: ")) == (1, True)
        assert "codec" not in err


def test_foreign_escape_codes_do_not_reach_the_terminal(empty_home: Kept) -> None:
    async def hostile(store: Store) -> None:
        await store.start_session(NewSession(id="h\x1b[2J", title="\x1b[31mred", source="\x9bx", model="\x1b]0;m\x07"))
        await store.append("h\x1b[2J", [user("\x1b[2J\x1b]0;gone\x07 words")])

    empty_home.ask(hostile)
    for words in (["sessions", "list"], ["sessions", "tree"], ["sessions", "show", "h", "--full"], ["search", "words"]):
        code, out, err = empty_home.run(*words)
        assert code == 0
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out + err)


@pytest.mark.parametrize(
    "words",
    [["frob"], ["show"], ["list", "--limit", "0"], ["show", "x", "--last", "-1"], ["branch", "x", "--at", "a"]],
)
def test_wrong_use_is_told_from_failure(kept: Kept, words: list[str]) -> None:
    assert kept.run("sessions", *words)[0] == 2


def test_the_tree_has_the_map_of_a_conversation(kept: Kept) -> None:
    async def fold(store: Store) -> None:
        await store.start_session(NewSession(id="mapped"))
        await store.append("mapped", [user(f"line {number}") for number in range(10)])
        nodes = NodePublication((leaf(0, 4), leaf(4, 8, is_final=False)), ("n0-3", "n4-7"))
        await store.commit_compaction("mapped", shown_from(8, 10), nodes=nodes)

    kept.ask(fold)
    shown = kept.run("sessions", "tree", "mapped", "--nodes")[1]
    assert "m0 to m7 are 2 parts" in shown and "n4-7" in shown and "provisional" in shown
    drawn = kept.json("sessions", "tree", "mapped", "--nodes")["map"]
    assert drawn["shown"] == ["n0-3", "n4-7"] and drawn["nodes"][1]["final"] is False
    status, _, problem = kept.run("sessions", "tree", "--nodes")
    assert status == 2 and "name it" in problem
