"""What other agents are told of old sessions: bounded, paged, word for word, of this person alone, without secrets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from clew.errors import InvalidArgument
from clew.integrations.session_recall import (
    HITS_PER_PAGE,
    SessionQuery,
    SessionRecall,
)
from clew.messages import Message
from clew.store import CompactionEntry, NewMessage, NewSession, Store, open_store
from clew.testing import assistant, call, tool, user
from clew.turn import OPENED_CHARS
from tests.support.damaged_index import damage_index
from tests.support.history import synthetic_history

TOKEN = "ghp_" + "fAkE0t0kEn" * 4
LOG = "".join(f"tick {number} late\n" for number in range(2_000))
CLOCK = [
    user("Why does the clock in hall 3 run late?"),
    assistant("I look at its log.", [call("read_file", {"path": "hall3.log"})]),
    tool("call_1", LOG),
    assistant("A dry bearing: tick 400 is 3 s late."),
    user(f"Oil it. The lock opens with GITHUB_TOKEN={TOKEN}."),
    assistant("Oiled."),
]


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store(":memory:") as opened:
        await add(opened, "claude-code-clock", "claude-code", CLOCK, title="Late clock", days=3)
        await add(opened, "codex-tea", "codex", [user("Tea or coffee in hall 3?"), assistant("Tea.")], days=40)
        await add(opened, "others", "gateway", [user("The clock of somebody else.")], owner="somebody")
        yield opened


async def add(
    store: Store, name: str, source: str, messages: list[Message], *, days: int = 0, owner: str = "", title: str = ""
) -> None:
    at = datetime.now(UTC) - timedelta(days=days)
    new = NewSession(name, source, "claude-sonnet-4-5", title or None, owner=owner, created=at)
    await store.start_session(new)
    await store.append(name, [NewMessage(message, at) for message in messages])


async def test_a_search_finds_words_of_any_program_and_says_where(store: Store) -> None:
    found = await SessionRecall(store).search(SessionQuery("hall 3 clock"))
    best = found["hits"][0]
    assert (best["session"], best["message"], best["program"]) == ("claude-code-clock", 0, "claude-code")
    assert best["title"] == "Late clock" and "run late" in best["text"]
    assert {hit["session"] for hit in found["hits"]} == {"claude-code-clock", "codex-tea"}


@pytest.mark.parametrize(
    ("query", "sessions"),
    [
        (SessionQuery("hall", program="codex"), {"codex-tea"}),
        (SessionQuery("hall", days=10), {"claude-code-clock"}),
        (SessionQuery("hall", session="codex-tea"), {"codex-tea"}),
        (SessionQuery("tick", role="tool"), {"claude-code-clock"}),
        (SessionQuery("somebody"), set()),
    ],
)
async def test_a_search_is_narrowed(store: Store, query: SessionQuery, sessions: set[str]) -> None:
    found = await SessionRecall(store).search(query)
    # Where one session is searched, the answer names it once.
    assert {hit.get("session", found.get("session")) for hit in found["hits"]} == sessions
    assert bool(found.get("note")) == (not sessions)


async def test_hits_come_in_pages_without_a_gap(store: Store) -> None:
    await add(store, "many", "codex", [user(f"bearing number {number}") for number in range(20)])
    recall, seen = SessionRecall(store), list[Any]()
    page: int | None = 1
    while page is not None:
        found = await recall.search(SessionQuery("bearing number", page=page))
        assert len(found["hits"]) <= HITS_PER_PAGE
        seen += [(hit["session"], hit["message"]) for hit in found["hits"]]
        page = found.get("next_page")
    assert len(seen) == len(set(seen)) == 21


async def test_every_character_of_a_session_can_be_read_page_by_page(store: Store) -> None:
    recall, read = SessionRecall(store, redacts=False), dict[int, str]()
    for number in range(6):
        following = f"m{number}"
        while following:
            page = await recall.open("claude-code-clock", following, chars=9_000)
            [each] = page["messages"]
            read[number] = read.get(number, "") + each["text"]
            following = page.get("next", "")
    assert read[2] == LOG and read[5] == "Oiled."
    assert read[1] == "I look at its log.\nread_file path: hall3.log"


async def test_a_session_is_opened_from_its_beginning_and_long_messages_are_cut(store: Store) -> None:
    page = await SessionRecall(store).open("claude-code-clock")
    result = page["messages"][2]
    shown = len(result["text"])
    assert LOG.startswith(result["text"]) and result["tool"] == "read_file" and shown <= OPENED_CHARS
    assert result["cut"] == f"chars 0 to {shown:,} of {len(LOG):,}" and "next" not in page
    assert result["result_of"]["message"] == 1 and page["messages"][1]["results"] == [2]
    newest = await SessionRecall(store).open("claude-code-clock", "-2")
    assert [each["message"] for each in newest["messages"]] == [4, 5]
    around = await SessionRecall(store).open("claude-code-clock", "m2", "tick 1200", 1_500)
    assert "tick 1200 late" in around["messages"][0]["text"] and len(around["messages"][0]["text"]) <= 1_500


async def test_each_of_several_results_names_its_call(store: Store) -> None:
    calls = [call("read_file", {"path": "a.log"}, "one"), call("read_file", {"path": "b.log"}, "two")]
    await add(store, "both", "codex", [assistant(None, calls), tool("two", "of b"), tool("one", "of a")])
    [asked] = (await SessionRecall(store).open("both", "m0"))["messages"]
    assert [(it["message"], it["call"]) for it in asked["results"]] == [
        (2, "read_file path: a.log"),
        (1, "read_file path: b.log"),
    ]


async def test_the_short_id_of_a_session_that_was_continued_finds_its_conversation(store: Store) -> None:
    view = await store.view("claude-code-clock")
    handoff: Message = {"role": "user", "content": "Handoff: oiled."}
    entry = CompactionEntry.of(view, [handoff, view.messages[-1]], handoff)
    await store.commit_compaction("claude-code-clock", entry, new_id="continued-7f3a")
    for name in ("claude-code-c", "claude-code-clock", "code-clock", "…-clock", "continued", "7f3a", "Late clock"):
        assert (await SessionRecall(store).open(name))["session"] == "continued-7f3a"


async def test_a_recall_does_not_find_the_recall_before_it(store: Store) -> None:
    asked = [
        user("What was wrong with the bearing?"),
        assistant(None, [call("mcp__clew__clew_search", {"query": "dry bearing"}, "r1")]),
        tool("r1", "A dry bearing: tick 400 is 3 s late."),
        assistant(None, [call("Bash", {"command": "clew search dry bearing"}, "r2")]),
        tool("r2", "m3 assistant: A dry bearing: tick 400 is 3 s late."),
        assistant(None, [call("mcp__clew__search_sessions", {"query": "dry bearing"}, "r3")]),
        tool("r3", "A dry bearing: tick 400 is 3 s late."),
    ]
    await add(store, "asking", "codex", asked)
    found = (await SessionRecall(store).search(SessionQuery("dry bearing late")))["hits"]
    places = {(hit["session"], hit["message"]) for hit in found}
    assert ("claude-code-clock", 3) in places
    assert {number for session, number in places if session == "asking"} == {0}


async def test_secrets_are_replaced_everywhere_unless_somebody_wants_them(store: Store) -> None:
    recall = SessionRecall(store)
    answers = [
        await recall.search(SessionQuery("lock opens")),
        await recall.open("claude-code-clock"),
        await recall.compress("claude-code-clock", 16_000),
        await recall.view("claude-code-clock"),
        await recall.state("claude-code-clock"),
    ]
    for answer in answers:
        told = json.dumps(answer)
        assert "[REDACTED:" in told and TOKEN not in told and TOKEN[6:20] not in told
    assert TOKEN in json.dumps(await SessionRecall(store, redacts=False).open("claude-code-clock"))


@pytest.mark.parametrize("before", [0, 100, OPENED_CHARS - 20, OPENED_CHARS + 20])
async def test_a_secret_that_a_page_cuts_through_is_not_shown_by_half(store: Store, before: int) -> None:
    text = "so " * (before // 3) + f"\npassword: {TOKEN}\n" + "and on " * 6_000
    await add(store, "cut", "codex", [user(text)])
    recall, told = SessionRecall(store), str(await SessionRecall(store).search(SessionQuery("password and on so")))
    following = "m0"
    while following:
        page = await recall.open("cut", following)
        told += page["messages"][0]["text"]
        following = page.get("next", "")
    assert "[REDACTED" in told and not any(TOKEN[at : at + 8] in told for at in range(len(TOKEN) - 8))


async def test_characters_that_hide_or_break_are_left_out(store: Store) -> None:
    await add(store, "odd", "codex", [user("plain\u202e hidden \ud800 half")])
    page = await SessionRecall(store).open("odd")
    assert page["messages"][0]["text"] == "plain hidden  half"
    json.dumps(page).encode()


async def test_a_session_is_folded_to_the_tokens_asked_for_and_nothing_stored_changes(store: Store) -> None:
    await add(store, "long", "codex", synthetic_history(300))
    recall = SessionRecall(store)
    folded = await recall.compress("long", 3_000, "clock")
    assert folded["tokens_after"] <= 3_000 < folded["tokens_before"]
    assert any("handoff" in each["text"].lower() for each in folded["messages"])
    numbers = [each["message"] for each in folded["messages"] if "message" in each]
    for each in folded["messages"]:
        if "message" in each and each["role"] == "user":
            [same] = (await recall.open("long", f"m{each['message']}"))["messages"][:1]
            assert each["text"][:40] == same["text"][:40]
    assert numbers[0] == 0 and numbers[-1] == 299
    assert (await recall.state("long"))["compactions"] == 0
    short = await recall.compress("codex-tea")
    assert short["tokens_after"] == short["tokens_before"] and len(short["messages"]) == 2


async def test_the_state_tells_of_the_history_and_the_view(store: Store) -> None:
    view = await store.view("claude-code-clock")
    handoff: Message = {"role": "user", "content": "Handoff: oiled."}
    entry = CompactionEntry.of(view, [handoff, view.messages[-1]], handoff)
    await store.commit_compaction("claude-code-clock", entry, new_id="clock-2")
    recall = SessionRecall(store)
    state = await recall.state("Late clock")
    assert (state["messages_in_all"], state["messages_in_view"], state["compactions"]) == (6, 2, 1)
    assert "first_request" not in state, "what a compaction wrote is nobody's request"
    assert (await recall.view("clock-2"))["messages"][0] == {"role": "user", "text": "Handoff: oiled."}
    assert (await recall.open("clock-2"))["messages"][0]["text"].startswith("Why does the clock")


async def test_the_state_tells_how_files_and_tests_stand_and_by_which_message(store: Store) -> None:
    work = [
        user("Make the tests pass. Never touch clocks/oil.py."),
        assistant("", [call("terminal", {"command": "pytest -q tests/"}, "c1")]),
        tool("c1", "E assert 3 == 4\n1 failed, 9 passed in 0.4s\n[exit code 1]"),
        assistant("", [call("write_file", {"path": "clocks/hall.py", "content": "late = 3\n"}, "c2")]),
        tool("c2", "wrote clocks/hall.py"),
    ]
    await add(store, "work", "codex", work)
    await store.append("work", [user("/model")])
    state = await SessionRecall(store).state("work")
    assert state["first_request"] == state["last_request"] == "Make the tests pass. Never touch clocks/oil.py."
    stands = state["stands"]
    found = {(each["kind"], each["name"]): each for each in stands}
    assert found["file", "clocks/hall.py"]["message"] in (3, 4)
    assert any(kind == "tests" and "failed" in each["is"] for (kind, _), each in found.items())


async def test_the_overview_lists_the_newest_first_and_no_subagents(store: Store) -> None:
    child = NewSession("agent", "claude-code", parent="claude-code-clock", kind="subagent")
    await store.start_session(child)
    for number in range(25):
        await add(store, f"s{number}", "pi", [user("hi")], days=100 + number)
    recall = SessionRecall(store, importing=lambda: {"reading": "1 of 9 files"})
    first = await recall.overview()
    assert [each["session"] for each in first["sessions"][:3]] == ["claude-code-clock", "codex-tea", "s0"]
    assert (first["sessions_in_all"], first["next_page"]) == (27, 2)
    assert first["programs"] == ["claude-code", "codex", "pi"] and first["importing"] == {"reading": "1 of 9 files"}
    second = await recall.overview(page=2)
    assert len(second["sessions"]) == 7 and "next_page" not in second
    assert [each["session"] for each in (await recall.overview("codex"))["sessions"]] == ["codex-tea"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("nothing", "take the id of a search hit"),
        ("others", "take the id of a search hit"),
        ("", "take the id of a search hit"),
        ("c", "it could be claude-code-clock (Late clock), codex-tea (); give the id"),
    ],
)
async def test_a_session_that_is_not_there_is_told_with_what_to_do(store: Store, name: str, remedy: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        await SessionRecall(store).open(name)
    assert remedy in str(raised.value)


async def test_a_place_that_is_not_there_is_told_with_those_that_are(store: Store) -> None:
    with pytest.raises(InvalidArgument, match="it has m0 to m5"):
        await SessionRecall(store).open("claude-code-clock", "m6")
    with pytest.raises(InvalidArgument, match="query is empty"):
        await SessionRecall(store).search(SessionQuery(" "))


async def test_a_damaged_index_is_told_with_the_hits(tmp_path: Path) -> None:
    async with open_store(tmp_path / "s.db") as opened:
        await add(opened, "codex-tea", "codex", [user("Tea or coffee in hall 3?")])
        assert "problem" not in await SessionRecall(opened).search(SessionQuery("coffee"))
    damage_index(tmp_path)
    async with open_store(tmp_path / "s.db") as opened:
        found = await SessionRecall(opened).search(SessionQuery("coffee"))
        assert found["hits"] and "clew doctor --repair" in found["problem"]
