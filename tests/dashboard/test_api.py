"""What the page is told, through real HTTP against a real dashboard over a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.messages import Message
from clew.store import (
    CACHE_TTL_STATE,
    CompactionEntry,
    ModelCall,
    NewMessage,
    NewSession,
    Session,
    WrittenMessage,
    open_store,
)
from clew.testing.messages import assistant, user
from tests.support.damaged_index import damage_index
from tests.support.dashboard import (
    DASHBOARD_MODEL,
    DashboardFlow,
    DashboardVisitor,
    add_chat,
    add_rounds,
    add_sessions_of_every_kind,
    running_dashboard,
    visiting,
)


@pytest.fixture
async def flow(tmp_path: Path) -> AsyncIterator[DashboardFlow]:
    async with running_dashboard(tmp_path) as running:
        yield running


@pytest.fixture
async def visitor(flow: DashboardFlow) -> AsyncIterator[DashboardVisitor]:
    async with visiting(flow) as signed_in:
        yield signed_in


async def compacted(flow: DashboardFlow, visitor: DashboardVisitor, focus: str = "the tickets") -> Session:
    """A chat that was compacted once, and went on."""
    chat = await add_chat(flow.store, 14)
    shown = await visitor.act("POST", f"{chat.id}/compress", {"preview": True, "focus": focus})
    await visitor.act("POST", f"{chat.id}/compress", {"apply": shown["preview"]})
    await add_rounds(flow.store, chat.id, 3, datetime.now(UTC) + timedelta(seconds=1), seed=5)
    return chat


# -- sessions ----------------------------------------------------------------------------------------------------------


async def test_the_list_tells_of_each_session_how_full_it_is_what_it_cost_and_its_last_words(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    made = await add_sessions_of_every_kind(flow.store)
    told = await visitor.get("sessions")
    rows = {row["id"]: row for row in told["sessions"]}
    assert set(rows) == {session.id for session in made.values()}
    assert told["total"] == told["matching"] == 5
    chat = rows[made["chat"].id]
    last = (await flow.store.calls(made["chat"].id))[-1]
    assert chat["meter"] == {
        "tokens": last.usage.total_tokens,
        "window": 60_000,
        "threshold": 30_000,
        "basis": "last request",
        "is_exact": True,
        "window_basis": "as the config says",
    }
    assert chat["usage"]["calls"] == 14
    assert chat["usage"]["cost_usd"] == pytest.approx(
        sum(call.cost_micros or 0 for call in await flow.store.calls(made["chat"].id)) / 1e6
    )
    assert chat["usage"]["hit_share"] > 0.9
    assert chat["last_role"] == "assistant" and chat["last_words"]
    assert (chat["client"], chat["branches"], chat["messages"]) == ("Clew chat", 1, 42)
    imported = rows[made["imported"].id]
    assert imported["client"] == "Claude Code (imported)"
    assert imported["meter"]["basis"] == "counted" and imported["meter"]["tokens"] > 900
    assert imported["usage"]["hit_share"] is None
    assert rows[made["gateway"].id]["usage"]["saved_usd"] > 0
    branch = rows[made["branch"].id]
    assert (branch["kind"], branch["messages"], branch["opening"]) == ("branch", 9, chat["opening"])


async def test_the_list_comes_in_pages_and_is_filtered_and_sorted(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    made = await add_sessions_of_every_kind(flow.store)
    whole = [row["id"] for row in (await visitor.get("sessions"))["sessions"]]
    first = await visitor.get("sessions", limit=2)
    second = await visitor.get("sessions", limit=2, before=first["next"])
    last = await visitor.get("sessions", limit=2, before=second["next"])
    assert [row["id"] for page in (first, second, last) for row in page["sessions"]] == whole
    assert last["next"] is None

    async def found(**query: object) -> list[str]:
        return [row["id"] for row in (await visitor.get("sessions", **query))["sessions"]]

    assert await found(client="hosted") == [made["hosted"].id]
    assert await found(model="claude-opus-4-1") == [made["imported"].id]
    assert await found(state="branch") == [made["branch"].id]
    assert await found(state="full") == [made["chat"].id]
    assert await found(q="ANOTHER way") == [made["branch"].id]
    assert await found(q="where is the config") == [made["imported"].id]
    assert (await found(sort="cost"))[0] == made["chat"].id
    assert (await found(sort="fill"))[0] == made["chat"].id
    assert (await found(sort="messages"))[0] == made["chat"].id
    assert await found(ids=f"{made['hosted'].id},{made['chat'].id},s_nothing") == [made["hosted"].id, made["chat"].id]


async def test_search_finds_a_message_while_its_word_is_still_being_typed(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await add_chat(flow.store, 2)
    await flow.store.append(chat.id, [user("the quokka sat on the fence")])
    told = await visitor.get("search", q="quok")
    (hit,) = told["hits"]
    assert (hit["session"], hit["seq"], hit["role"]) == (chat.id, 6, "user")
    start, stop = hit["marks"][0]
    assert hit["snippet"][start:stop].startswith("quok")
    nothing = await visitor.get("search", q="zebra")
    assert nothing["hits"] == [] and "7 messages" in nothing["searched"]
    assert (await visitor.get("search", q="quokka", session=chat.id))["hits"]


# -- one session -------------------------------------------------------------------------------------------------------


async def test_each_request_has_its_split_and_a_compaction_stands_where_it_happened(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await compacted(flow, visitor)
    told = await visitor.get(f"sessions/{chat.id}/timeline")
    calls = await flow.store.calls(chat.id)
    assert told["requests"] == len(calls) == 17
    assert told["read"] == [call.usage.cache_read_tokens for call in calls]
    assert told["write"] == [call.usage.cache_write_tokens for call in calls]
    assert told["uncached"] == [call.usage.input_tokens for call in calls]
    (mark,) = told["compactions"]
    assert mark["before_request"] == 14
    assert mark["tokens_before"] > mark["tokens_after"]
    assert told["read"][14] < told["read"][13]
    assert mark["tokens_saved"] == 3 * (mark["tokens_before"] - mark["tokens_after"])
    assert mark["saved_usd"] > 0 and mark["cost_usd"] == 0


async def test_a_long_timeline_keeps_the_peak_of_every_stretch(flow: DashboardFlow, visitor: DashboardVisitor) -> None:
    chat = await compacted(flow, visitor)
    told = await visitor.get(f"sessions/{chat.id}/timeline", points=4)
    assert (told["every"], len(told["number"])) == (5, 4)
    whole = await visitor.get(f"sessions/{chat.id}/timeline")
    prompts = [sum(parts) for parts in zip(whole["read"], whole["write"], whole["uncached"], strict=True)]
    assert told["number"][2] == max(range(10, 15), key=prompts.__getitem__)


async def test_the_page_of_a_session_says_what_can_be_done_and_why_not(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    made = await add_sessions_of_every_kind(flow.store)
    chat = await visitor.get(f"sessions/{made['chat'].id}")
    assert chat["actions"] == {
        "preview": None,
        "undo": "no compaction is in effect",
        "rename": None,
        "branch": None,
        "export": None,
        "delete": "1 branch shares its messages; delete that first",
    }
    (warning,) = chat["warnings"]
    assert warning["level"] == "warning" and "above 30,000" in warning["text"]
    branch = await visitor.get(f"sessions/{made['branch'].id}")
    assert branch["branch_of"]["id"] == made["chat"].id and branch["branch_of"]["seq"] == 9
    client = await visitor.get(f"sessions/{made['gateway'].id}")
    assert "keeps its own history" in client["actions"]["preview"]
    assert client["actions"]["delete"] is None


async def test_a_session_is_found_by_the_id_of_any_of_its_continuations(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await compacted(flow, visitor)
    tip = await flow.store.get_compression_tip(chat.id)
    assert tip != chat.id
    assert (await visitor.get(f"sessions/{tip}"))["session"]["id"] == chat.id


async def test_the_tree_has_the_chain_straight_down_and_the_branch_beside_it(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await compacted(flow, visitor)
    branch = await visitor.act("POST", f"{chat.id}/branch", {"at": 44, "title": "Aside"})
    told = await visitor.get(f"sessions/{branch['id']}/tree")
    root = told["root"]
    assert (root["id"], told["conversations"], root["is_current"]) == (chat.id, 2, False)
    first, second = root["sessions"]
    assert (first["first"], first["stop"], first["compaction"]) == (0, 42, None)
    assert (second["first"], second["stop"]) == (42, 51)
    assert second["compaction"]["first"] < second["compaction"]["stop"] <= 42
    (child,) = second["children"]
    assert (child["id"], child["at"], child["title"], child["is_current"]) == (branch["id"], 44, "Aside", True)


async def test_a_handoff_links_to_messages_and_stands_beside_what_it_replaced(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await compacted(flow, visitor)
    (compaction,) = (await visitor.get(f"sessions/{chat.id}"))["compactions"]
    told = await visitor.get(f"sessions/{chat.id}/compactions/{compaction['id']}")
    assert compaction["focus"] == told["compaction"]["focus"] == "the tickets"
    assert told["text"].startswith("## ")
    entries = [entry for section in told["sections"] for entry in section["entries"]]
    lines = [line for entry in entries for line in (entry, *entry["lines"])]
    assert all(section["heading"] in told["text"] for section in told["sections"])
    assert any(line["verb"] for line in lines) and any(line["is_quote"] for line in lines)
    numbers = {span["seq"] for line in lines for span in (*line["spans"], *line["source"]) if "seq" in span}
    assert numbers == set(told["references"]) <= set(range(51))
    assert numbers
    replaced = await visitor.get(f"sessions/{chat.id}/messages", compaction=compaction["id"], after=0, limit=200)
    fates = {row["seq"]: row["fate"] for row in replaced["messages"]}
    assert {seq for seq, fate in fates.items() if fate == "folded"} == set(
        range(compaction["first"], compaction["stop"])
    )
    assert list(fates.values()).count("shortened") == told["compaction"]["shortened"]
    shortened = next(row for row in replaced["messages"] if row["fate"] == "shortened")
    assert len(shortened["now"]["text"]) < len(shortened["text"]) + shortened["left_out_chars"]


async def test_messages_come_in_pages_around_any_of_them(flow: DashboardFlow, visitor: DashboardVisitor) -> None:
    chat = await compacted(flow, visitor)

    async def numbers(**query: object) -> list[int]:
        page = await visitor.get(f"sessions/{chat.id}/messages", **query)
        return [row["seq"] for row in page["messages"]]

    assert await numbers(limit=3) == [48, 49, 50]
    assert await numbers(after=10, limit=3) == [11, 12, 13]
    assert await numbers(before=10, limit=3) == [7, 8, 9]
    assert await numbers(around=20, limit=4) == [18, 19, 20, 21]
    assert await numbers(around=0, limit=4) == [0, 1]
    page = await visitor.get(f"sessions/{chat.id}/messages", after=0, limit=1, chars=40)
    assert page["more_after"] and page["more_before"]
    assert len(page["messages"][0]["text"]) == 40 and page["messages"][0]["left_out_chars"] > 0
    whole = await visitor.get(f"sessions/{chat.id}/messages/2")
    assert whole["message"]["left_out_chars"] == 0 and len(whole["message"]["text"]) > 1_000


async def test_the_parts_of_the_window_add_up_and_the_hint_names_what_takes_most(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await compacted(flow, visitor)
    told = await visitor.get(f"sessions/{chat.id}/context")
    last = (await flow.store.calls(chat.id))[-1].usage.total_tokens
    assert told["tokens"] == last == sum(part["tokens"] for part in told["parts"])
    parts = {part["name"]: part for part in told["parts"]}
    assert parts["handoff"]["messages"] == 1
    assert parts["results"]["tokens"] > parts["user"]["tokens"]
    assert told["free"] == 60_000 - last
    whole = await visitor.get(f"sessions/{(await add_chat(flow.store, 14, seed=1)).id}/context")
    assert whole["tools"][0]["name"] in whole["hint"]
    assert told["largest"][0]["tokens"] >= told["largest"][1]["tokens"]
    assert 0 < told["next_message"]["warm_usd"] < told["next_message"]["cold_usd"]


@pytest.mark.parametrize(
    ("source", "cache_ttl", "kept", "cold_per_million"),
    [
        ("terminal", "5m", None, 3.75),
        ("terminal", "1h", None, 6.0),
        ("gateway", "1h", None, 3.75),
        ("gateway", "5m", "1h", 6.0),
    ],
)
async def test_the_next_message_costs_what_the_cache_of_its_session_takes(
    tmp_path: Path, source: str, cache_ttl: str, kept: str | None, cold_per_million: float
) -> None:
    async with (
        running_dashboard(tmp_path, {"CLEW_PROMPT_CACHING_CACHE_TTL": cache_ttl}) as flow,
        visiting(flow) as told,
    ):
        chat = await add_chat(flow.store, 5, source=source)
        if kept:
            await flow.store.set_state(chat.id, {CACHE_TTL_STATE: kept})
        context = await told.get(f"sessions/{chat.id}/context")
        cost, millions = context["next_message"], context["tokens"] / 1e6
        assert cost["warm_usd"] == pytest.approx(0.30 * millions)
        assert cost["cold_usd"] == pytest.approx(cold_per_million * millions)


async def test_the_next_message_costs_nothing_where_the_model_runs_on_this_machine(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await add_chat(flow.store, 5)
    usage = (await flow.store.calls(chat.id))[-1].usage
    await flow.store.append(chat.id, [assistant("Here.")], call=ModelCall(usage, DASHBOARD_MODEL, "ollama"))
    told = await visitor.get(f"sessions/{chat.id}/context")
    assert told["next_message"] == {"warm_usd": 0.0, "cold_usd": 0.0}


async def test_right_after_a_compaction_the_meter_shows_the_new_view(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await add_chat(flow.store, 14)
    before = (await visitor.get(f"sessions/{chat.id}"))["session"]["meter"]
    await visitor.act("POST", f"{chat.id}/compress", {})
    after = (await visitor.get(f"sessions/{chat.id}"))["session"]["meter"]
    assert after["basis"] == "after a compaction" and after["tokens"] < before["tokens"]
    await visitor.act("POST", f"{chat.id}/undo", {})
    undone = (await visitor.get(f"sessions/{chat.id}"))["session"]["meter"]
    assert undone["basis"] == "counted" and undone["tokens"] > after["tokens"]


# -- actions -----------------------------------------------------------------------------------------------------------


async def test_what_was_previewed_is_applied_word_for_word_and_undone_again(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await add_chat(flow.store, 14)
    view = await flow.store.view(chat.id)
    shown = await visitor.act("POST", f"{chat.id}/compress", {"preview": True, "focus": "the tickets"})
    assert shown["is_changed"] and not shown["is_applied"]
    assert (await visitor.get(f"sessions/{chat.id}"))["compactions"] == []
    await visitor.act("POST", f"{chat.id}/compress", {"apply": shown["preview"]})
    (made,) = (await visitor.get(f"sessions/{chat.id}"))["compactions"]
    handoff = await visitor.get(f"sessions/{chat.id}/compactions/{made['id']}")
    assert handoff["text"] == shown["handoff"]
    assert made["tokens_after"] == shown["tokens_after"]
    asked = {"handoff_sections": shown["handoff_sections"], "session": chat.id}
    assert (await visitor.call("POST", "api/handoff", asked))[1]["sections"] == handoff["sections"]
    broken = {"handoff_sections": {"Goal": [["no entry"]]}, "session": chat.id}
    assert (await visitor.call("POST", "api/handoff", broken))[0] == 400
    undone = await visitor.act("POST", f"{chat.id}/undo", {})
    assert undone["is_undone"]
    tip = await flow.store.get_compression_tip(chat.id)
    assert (await flow.store.view(tip)).messages == view.messages


async def test_a_preview_of_a_session_that_went_on_is_not_applied(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await add_chat(flow.store, 14)
    shown = await visitor.act("POST", f"{chat.id}/compress", {"preview": True})
    async with running_dashboard(Path(flow.store.where).parent, store=flow.store) as other, visiting(other) as second:
        await second.act("POST", f"{chat.id}/compress", {})
    status, told = await visitor.call("POST", f"clew/conversations/{chat.id}/compress", {"apply": shown["preview"]})
    assert (status, told["error"]["kind"]) == (409, "stale_preview")


async def test_a_session_is_renamed_branched_exported_and_deleted(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    chat = await add_chat(flow.store, 3)
    await visitor.act("PATCH", chat.id, {"title": "Renamed"})
    assert (await visitor.get(f"sessions/{chat.id}"))["session"]["title"] == "Renamed"
    branch = await visitor.act("POST", f"{chat.id}/branch", {"at": 3})
    status, refused = await visitor.call("DELETE", f"clew/conversations/{chat.id}")
    assert (status, refused["error"]["kind"]) == (409, "in_use")
    exported = await visitor.act("GET", f"{chat.id}/export?format=chat")
    assert len([each for each in exported["messages"] if each["role"] != "system"]) == 9
    await visitor.act("DELETE", branch["id"])
    await visitor.act("DELETE", chat.id)
    assert (await visitor.get("sessions"))["total"] == 0
    status, _ = await visitor.call("GET", f"api/sessions/{chat.id}")
    assert status == 404


async def test_an_imported_session_can_be_compacted_too(flow: DashboardFlow, visitor: DashboardVisitor) -> None:
    made = await flow.store.start_session(NewSession(source="codex", model="gpt-5", title="From Codex"))
    for number in range(60):
        await flow.store.append(made.id, [user(f"step {number}"), assistant("done, and written down. " * 60)])
    shown = await visitor.act("POST", f"{made.id}/compress", {"preview": True})
    assert shown["is_changed"] and shown["written_by"] == "built-in"
    await visitor.act("POST", f"{made.id}/compress", {"apply": shown["preview"]})
    assert (await visitor.get(f"sessions/{made.id}"))["session"]["compactions"] == 1


# -- insights ----------------------------------------------------------------------------------------------------------


async def test_insights_are_the_same_money_by_day_by_model_and_by_client(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    await add_sessions_of_every_kind(flow.store)
    await compacted(flow, visitor)
    told = await visitor.get("insights", days=7)
    assert len(told["by_day"]) == 7
    for name in ("by_day", "by_model", "by_client"):
        for figure in ("calls", "prompt_tokens", "compactions", "cache_hits"):
            assert sum(row[figure] for row in told[name]) == told["total"][figure], (name, figure)
        assert sum(row["cost_usd"] for row in told[name]) == pytest.approx(told["total"]["cost_usd"])
    assert told["total"]["compactions"] == 1 and told["total"]["tokens_freed"] > 0
    assert {row["client"] for row in told["by_client"]} == {"Clew chat", "gateway", "hosted"}


async def test_the_hint_says_what_a_bound_on_results_would_free_and_how_that_was_counted(
    flow: DashboardFlow, visitor: DashboardVisitor
) -> None:
    await add_chat(flow.store, 14)
    told = await visitor.get("insights", days=7)
    assert told["fills"]["sessions"] == 1
    assert sum(part["share"] for part in told["fills"]["parts"]) == pytest.approx(1)
    hint = next(each for each in told["hints"] if each["title"].startswith("Bound the results"))
    sizes = await flow.store.message_sizes((await visitor.get("sessions"))["sessions"][0]["id"])
    tool = hint["title"].removeprefix("Bound the results of ")
    above = sum(max(0, (size.tokens or 0) - 2_000) for size in sizes if size.tool == tool)
    assert hint["saves_tokens"] == above and f"{above:,}" in hint["text"]
    assert hint["saves"] == "tokens less"


async def test_a_store_with_nothing_in_it_is_shown_as_such(visitor: DashboardVisitor) -> None:
    assert (await visitor.get("sessions"))["sessions"] == []
    told = await visitor.get("insights")
    assert told["total"]["calls"] == 0 and told["hints"] == [] and told["fills"]["sessions"] == 0


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("sessions", {"limit": 0}),
        ("sessions", {"limit": "many"}),
        ("sessions", {"sort": "luck"}),
        ("sessions", {"unknown": 1}),
        ("insights", {"days": 9999}),
        ("search", {"q": "x" * 1_001}),
    ],
)
async def test_a_query_that_is_not_allowed_is_named(
    visitor: DashboardVisitor, path: str, query: dict[str, Any]
) -> None:
    status, told = await visitor.call("GET", f"api/{path}", **query)
    assert status == 400
    assert any(repr(name) in told["error"]["message"] for name in query)


@pytest.mark.parametrize("path", ["sessions/s_no", "sessions/s_no/messages", "sessions/s_no/tree", "nothing"])
async def test_what_is_not_there_is_said_to_be_not_there(visitor: DashboardVisitor, path: str) -> None:
    status, told = await visitor.call("GET", f"api/{path}")
    assert (status, told["error"]["kind"]) == (404, "not_found")


async def test_a_compaction_of_a_gateway_is_undone(flow: DashboardFlow, visitor: DashboardVisitor) -> None:
    theirs = await add_chat(flow.store, 6, source="gateway")
    view = await flow.store.view(theirs.id)
    entry = CompactionEntry((WrittenMessage(user("short")),), None, view.base, view.next_seq, tokens_before=900)
    await flow.store.commit_compaction(theirs.id, entry)
    assert (await visitor.get(f"sessions/{theirs.id}"))["actions"]["undo"] is None
    assert (await visitor.act("POST", f"{theirs.id}/undo", {}))["is_undone"]
    assert len((await flow.store.view(await flow.store.get_compression_tip(theirs.id))).messages) == view.next_seq


async def test_a_session_is_at_work_by_what_happens_in_it(flow: DashboardFlow, visitor: DashboardVisitor) -> None:
    now = datetime.now(UTC)

    async def add(title: str, message: Message, seconds: float) -> str:
        session = await flow.store.start_session(NewSession(title=title, source="terminal"))
        at = now - timedelta(seconds=seconds)
        await flow.store.append(session.id, [NewMessage(message, at=at)])
        return session.id

    await add("answered long ago", assistant("Done."), 300)
    await add("failed", user("Hello?"), 300)
    ended = await add("left", assistant("Done."), 1)
    await flow.store.end_session(ended, "done")
    await add("just asked", user("Hello?"), 1)
    listed = await visitor.get("sessions", state="active")
    assert {row["title"] for row in listed["sessions"]} == {"just asked"}
    assert listed["totals"]["active"] == 1


async def test_the_bare_address_leads_to_the_dashboard(flow: DashboardFlow) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"{flow.address}/", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (302, "/dashboard/")


async def test_a_damaged_index_is_told_with_what_was_found(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("a heron")])
        await store.search("heron")
    damage_index(tmp_path)
    async with running_dashboard(tmp_path) as flow, visiting(flow) as visitor:
        found = await visitor.get("search", q="heron")
        assert found["hits"] and "clew doctor --repair" in found["problem"]
