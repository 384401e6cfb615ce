"""Whole conversations with the lossless engine: what is folded can be opened, and nothing moves between two folds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clew.config import LosslessSettings, Settings
from clew.engines import ContextCompressor, EngineFactory, EngineSetup, LosslessEngine
from clew.events import CompactionFinished
from clew.handoff import Summary, SummaryInput
from clew.messages import Message, text_of
from clew.store import NewSession
from clew.testing import ScriptedProvider, assistant, call, refuses, says, tool, user
from clew.turn import receive
from tests.support.flow import SESSION, Flow, answers, flow_with
from tests.support.summaries import handoff_text

SMALL = Settings(lossless=LosslessSettings(leaf_tokens=1_000))
WORDS = "the keeper counts the herring and writes each bucket down before the next one is opened "


def rounds(first: int, last: int) -> list[Message]:
    return [message for number in range(first, last) for message in _round(number)]


def _round(number: int) -> list[Message]:
    return [
        user(f"Count bucket {number}, please, for pool {number % 7}."),
        assistant(None, [call("read", {"path": f"buckets/{number}.txt"}, id=f"c{number}")]),
        tool(f"c{number}", f"bucket {number}: herring {number * 17}\n" + WORDS * 6),
        assistant(f"Bucket {number} holds {number * 17} herring."),
    ]


@asynccontextmanager
async def lossless_flow(
    folder: Path, *replies: Any, window: int = 16_000, settings: Settings = SMALL, **more: Any
) -> AsyncIterator[Flow]:
    engine: EngineFactory = more.pop("new_engine", LosslessEngine)
    provider = ScriptedProvider(*replies)
    async with flow_with(provider, folder, window=window, settings=settings, new_engine=engine, **more) as flow:
        yield flow


async def tool_call(flow: Flow, name: str, **arguments: Any) -> dict[str, Any]:
    engine = (await flow.conversation()).engine
    answer = json.loads(await engine.handle_tool_call(name, arguments))
    assert isinstance(answer, dict)
    return answer


async def opened(flow: Flow, id: str) -> list[Message]:
    """Everything below a node, opened part by part and page by page through the tool."""
    messages: list[Message] = []
    parts: list[str] = []
    after, half = "", ""
    while True:
        page = await tool_call(flow, "lcm_expand", id=id, **({"after": after} if after else {}))
        parts += [part["id"] for part in page.get("parts", ())]
        for entry in page.get("messages", ()):
            if "message" in entry:
                messages.append(entry["message"])
                continue
            half += entry["json_part"]
            _, end, total = entry["chars"].replace("of", "to").split(" to ")
            if end.strip() == total.strip():
                messages.append(json.loads(half))
                half = ""
        if "next" not in page:
            break
        after = page["next"]
    for part in parts:
        messages += await opened(flow, part)
    return messages


async def everything(flow: Flow) -> list[Message]:
    return [row.message for row in await flow.store.messages(flow.session)]


async def shown_ids(flow: Flow) -> list[str]:
    return [node.name for node in await flow.store.shown_nodes(await flow.store.get_compression_tip(SESSION))]


async def test_what_was_folded_is_opened_byte_for_byte(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        huge = [user("Read this. " + "漢字 and more, word for word. " * 3_000), assistant("Read.")]
        await receive(flow.runtime, SESSION, [*rounds(0, 60), *huge, *rounds(60, 300)])
        await flow.compact()
        whole = await everything(flow)
        read = [message for id in await shown_ids(flow) for message in await opened(flow, id)]
        assert read == whole[: len(read)]
        assert len(read) > 400
        nodes = await flow.store.nodes(await flow.store.get_compression_tip(SESSION))
        assert max(node.depth for node in nodes) >= 2
        assert await flow.store.check() == []


async def test_a_leaf_begins_with_a_request_and_ends_with_what_came_of_it(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 80))
        await flow.compact()
        leaves = [node for node in await flow.store.nodes(SESSION) if node.depth == 0]
        whole = await everything(flow)
        assert len(leaves) > 5
        assert {whole[node.first]["role"] for node in leaves} == {"user"}


async def test_requests_between_folds_extend_each_other_and_folds_are_rare(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path, *(answers(f"Answer {n}. " + WORDS * 4) for n in range(80))) as flow:
        for number in range(80):
            await flow.turn(user(f"Question {number}: " + WORDS * 3))
        folds = [event for event in flow.events_of(CompactionFinished) if event.continued_as]
        assert 2 <= len(folds) <= 8
        # The checker compared every request with the one before, but for the first and those behind a fold.
        assert flow.checker.checked >= 80 - 2 * len(folds) - 1
        assert await flow.store.check() == []


async def test_the_same_history_sent_again_after_a_restart_adds_nothing(tmp_path: Path) -> None:
    history = rounds(0, 120)
    for later in (0, 5, 60):
        folder = tmp_path / str(later)
        async with lossless_flow(folder) as flow:
            await receive(flow.runtime, SESSION, history)
            await flow.compact()
            sent = [*history, *rounds(120, 120 + later)]
            await receive(flow.runtime, SESSION, sent[len(history) :])
            before = await flow.store.nodes(SESSION), await shown_ids(flow)
        async with lossless_flow(folder) as flow:
            synced = await flow.store.sync(sent, session=await flow.store.get_compression_tip(SESSION))
            assert (synced.added, synced.is_branch, synced.is_new) == (0, False, False)
            assert (await flow.store.nodes(SESSION), await shown_ids(flow)) == before
            assert len(await everything(flow)) == len(sent)


async def test_the_map_goes_on_where_it_was_after_a_restart(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 60))
        await flow.compact()
        first = {node.name for node in await flow.store.nodes(SESSION)}
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(60, 120))
        done = await flow.compact()
        assert done is not None and done.nodes
        assert first.isdisjoint(node.id for node in done.nodes)
        assert first < {node.name for node in await flow.store.nodes(SESSION)}
        assert await flow.store.check() == []


async def test_switching_to_the_engine_and_back_loses_nothing(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path, new_engine=ContextCompressor.of) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 60))
        await flow.compact()
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(60, 110))
        done = await flow.compact()
        assert done is not None and done.shown_nodes
        whole, covered = await everything(flow), await flow.store.shown_nodes(done_session(flow))
        read = [message for id in await shown_ids(flow) for message in await opened(flow, id)]
        # The compressor has left the first messages in view; from there on the map has all, as it came.
        assert read == whole[covered[0].first : covered[-1].last]
        assert await flow.store.check() == []
    async with lossless_flow(tmp_path, new_engine=ContextCompressor.of) as flow:
        await receive(flow.runtime, SESSION, rounds(110, 170))
        done = await flow.compact()
        assert done is not None and done.changed
        last = (await flow.store.view(await flow.store.get_compression_tip(SESSION))).seqs[-1]
        assert last == len(await everything(flow)) - 1
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(170, 230))
        done = await flow.compact()
        assert done is not None and done.shown_nodes
        assert await flow.store.check() == []


def done_session(flow: Flow) -> str:
    return flow.events_of(CompactionFinished)[-1].continued_as or flow.session


async def test_undo_and_a_second_fold_use_the_leaves_that_there_are(tmp_path: Path) -> None:
    summaries = ScriptedProvider(*(says(handoff_text(goal=f"Part {n}.")) for n in range(60)), name="summaries")
    async with lossless_flow(tmp_path, auxiliary=summaries) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 40))
        before = list(await flow.view())
        await flow.compact()
        asked = len(summaries.requests)
        assert await flow.undo() and list(await flow.view()) == before
        again = await flow.compact()
        assert again is not None and again.shown_nodes
        assert not [node for node in again.nodes if node.depth == 0]
        assert len(summaries.requests) - asked <= len(again.nodes)
        assert await flow.store.check() == []


async def test_a_branch_has_its_own_map_from_there_on(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 60))
        await flow.compact()
        tip = await flow.store.get_compression_tip(SESSION)
        branch = (await flow.store.branch(tip)).id
        await receive(flow.runtime, branch, rounds(500, 550))
        await receive(flow.runtime, SESSION, rounds(60, 110))
        for session in (branch, SESSION):
            done = await (await flow.runtime.conversation(session)).compact_now()
            assert done is not None and done.shown_nodes
        flow.session = branch
        read = [message for node in await shown_of(flow, branch) for message in await opened(flow, node)]
        assert read == [row.message for row in await flow.store.messages(branch)][: len(read)]
        assert any("bucket 500" in text_of(message) for message in read)
        assert not any("Count bucket 100," in text_of(message) for message in read)
        assert await flow.store.check() == []


async def shown_of(flow: Flow, session: str) -> list[str]:
    return [node.name for node in await flow.store.shown_nodes(await flow.store.get_compression_tip(session))]


async def test_a_new_conversation_has_an_empty_view_and_leaves_the_map_alone(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path, answers("Hello.")) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 60))
        await flow.compact()
        await flow.store.start_session(NewSession(id="new"))
        flow.session = "new"
        assert (await tool_call(flow, "lcm_status"))["folded"] == "nothing"
        flow.session = SESSION
        assert (await tool_call(flow, "lcm_grep", query="bucket 13 herring"))["groups"]


# -- models: levels, provisional nodes, guard and breaker --------------------------------------------------------------


async def test_without_a_model_nodes_are_provisional_and_a_model_writes_them_again_in_the_background(
    tmp_path: Path,
) -> None:
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 40))
        await flow.compact()
        nodes = await flow.store.shown_nodes(await flow.store.get_compression_tip(SESSION))
        assert nodes and not any(node.is_final for node in nodes)
        text = list(await flow.view())
    summaries = ScriptedProvider(*(says(handoff_text(goal=f"Herring, part {n}.")) for n in range(30)), name="sums")
    async with lossless_flow(tmp_path, answers("Yes."), auxiliary=summaries) as flow:
        await flow.turn(user("Is all well?"))
        conversation = await flow.conversation()
        assert conversation.background is not None
        await conversation.background
        written = await flow.store.nodes(conversation.session)
        assert {node.replaces for node in written if node.replaces} == {node.name for node in nodes}
        # The prefix moves with the next fold, and not before.
        assert list(await flow.view())[: len(text)] == text
        assert not conversation.engine.has_background_work
        await receive(flow.runtime, SESSION, rounds(40, 60))
        await flow.compact()
        assert all(node.is_final for node in await flow.store.shown_nodes(conversation.session))
        assert await flow.store.check() == []


class LongWriter:
    """Writes more than there is room for; asked again in half the room, it may keep to it."""

    def __init__(self, *, keeps_to_half: bool) -> None:
        self.keeps_to_half = keeps_to_half
        self.rooms: list[int] = []

    async def __call__(self, source: SummaryInput, budget: int) -> Summary:
        del source
        is_second = bool(self.rooms) and budget == self.rooms[-1] // 2
        self.rooms.append(budget)
        words = "The buckets were counted." if is_second and self.keeps_to_half else "herring " * (2 * budget)
        return Summary(f"## Completed actions\n1. {words}", written_by="long-model", template="long/1")


@pytest.mark.parametrize("keeps_to_half", [True, False])
async def test_a_node_that_is_too_long_is_asked_for_in_half_the_room_and_then_written_without_a_model(
    tmp_path: Path, keeps_to_half: bool
) -> None:
    writer = LongWriter(keeps_to_half=keeps_to_half)

    def new_engine(setup: EngineSetup) -> LosslessEngine:
        return LosslessEngine(replace(setup, summarize=writer))

    async with lossless_flow(tmp_path, new_engine=new_engine) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 40))
        done = await flow.compact()
        assert done is not None
        assert writer.rooms[1] == writer.rooms[0] // 2
        assert [node.is_final for node in done.nodes] == [keeps_to_half] * len(done.nodes)
        assert await flow.store.check() == []


async def test_too_many_calls_within_an_hour_are_not_made_and_the_person_is_told(tmp_path: Path) -> None:
    settings = Settings(lossless=LosslessSettings(leaf_tokens=1_000, calls_per_hour=2))
    summaries = ScriptedProvider(*(says(handoff_text(goal=f"Part {n}.")) for n in range(9)), name="sums")
    async with lossless_flow(tmp_path, settings=settings, auxiliary=summaries) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 40))
        done = await flow.compact()
        assert done is not None and len(summaries.requests) == 2
        assert len({node.is_final for node in done.nodes}) == 2
        (told,) = [warning for warning in done.warnings if "lossless.calls_per_hour" in warning]
        assert told in flow.events_of(CompactionFinished)[-1].warnings
        assert not (await flow.conversation()).engine.has_background_work


async def test_after_repeated_failures_no_model_is_asked_and_the_person_is_told(tmp_path: Path) -> None:
    settings = Settings(lossless=LosslessSettings(leaf_tokens=1_000, failures_before_rest=2))
    summaries = ScriptedProvider(*(says("No.") for _ in range(40)), name="sums")
    async with lossless_flow(
        tmp_path, *(says("No.") for _ in range(40)), settings=settings, auxiliary=summaries
    ) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 40))
        done = await flow.compact()
        assert done is not None and done.changed and not any(node.is_final for node in done.nodes)
        assert any("none is asked" in warning for warning in done.warnings)
        first = len(summaries.requests)
        await receive(flow.runtime, SESSION, rounds(40, 60))
        await flow.compact()
        # By hand the rests of models end, but not the rest of the engine.
        assert len(summaries.requests) == first


# -- the other tools ---------------------------------------------------------------------------------------------------


async def test_a_search_groups_hits_by_the_part_of_the_map_and_shows_the_answer(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        said = [user("What is the code of the gate?"), assistant("The code of the gate is narwhal-8812. Keep it.")]
        await receive(flow.runtime, SESSION, [*rounds(0, 20), *said, *rounds(20, 70)])
        await flow.compact()
        found = await tool_call(flow, "lcm_grep", query="what was the code of the gate")
        group = found["groups"][0]
        assert group["in"] in await shown_ids(flow)
        assert "narwhal-8812" in json.dumps([group["hits"][0], group["hits"][1]])
        exact = await tool_call(flow, "lcm_grep", query="NARWHAL-8812", mode="exact", neighbours=1)
        (hit,) = exact["groups"][0]["hits"]
        assert hit["id"] == "m81" and "m80" in hit["around"]
        assert (await tool_call(flow, "lcm_grep", query=r"narwhal-\d{4}", mode="regex"))["groups"]
        nothing = await tool_call(flow, "lcm_grep", query="quokkaburger")
        assert nothing["hits"] == 0 and "282 messages" in nothing["searched"]


async def test_a_result_that_was_found_says_which_call_gave_it(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        calls = [call("read_file", {"path": f"tides/day_{day}.txt"}, id=f"call_{day}") for day in (1, 2)]
        results = [tool("call_1", "low water at 04:10, spring tide"), tool("call_2", "low water at 05:02, neap tide")]
        read = [assistant("Both days.", calls), *results, assistant("Read.")]
        await receive(flow.runtime, SESSION, [*rounds(0, 20), user("Read the tides."), *read, *rounds(20, 70)])
        await flow.compact()
        found = await tool_call(flow, "lcm_grep", query="neap tide", role="tool")
        assert found["groups"][0]["hits"][0]["of"] == "read_file tides/day_2.txt"


async def test_no_query_is_an_error_of_syntax(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 60))
        await flow.compact()
        for query in ('"', "a AND (", "'; DROP TABLE nodes; --", "* NEAR/", "\ud800", "[", "(?P<", "\x00", "%_"):
            for mode in ("words", "exact", "regex"):
                answer = await tool_call(flow, "lcm_grep", query=query, mode=mode)
                assert "groups" in answer or answer.get("hits") == 0, (query, mode, answer)
        assert "error" in await tool_call(flow, "lcm_grep")
        assert "error" in await tool_call(flow, "lcm_grep", query="x", mode="sideways")


async def test_describe_says_what_a_part_is_about_and_what_it_costs(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 120))
        await flow.compact()
        overview = await tool_call(flow, "lcm_describe")
        assert [part["id"] for part in overview["map"]] == await shown_ids(flow)
        part = overview["map"][0]
        told = await tool_call(flow, "lcm_describe", id=part["id"])
        assert told["text"] and told["opening_costs"] > 1_000 and told["messages"].startswith("m0 to m")
        stretch = await tool_call(flow, "lcm_describe", id="m8-m11")
        assert list(stretch["asked"]) == ["m8"] and stretch["tools"] == ["read"] and stretch["in_map"]
        for id in ("m99999", "n99999-100000", "sideways", "m9-m3"):
            assert "error" in await tool_call(flow, "lcm_describe", id=id), id
            assert "error" in await tool_call(flow, "lcm_expand", id=id), id


async def test_a_question_is_answered_with_its_support_or_with_the_evidence_itself(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 60))
        await flow.compact()
        found = await tool_call(flow, "lcm_expand_query", question="How many herring are in bucket 13?")
        assert any("221 herring" in said for said in found["evidence"].values())
    replies = [says(handoff_text(goal=f"Part {n}.")) for n in range(20)] + [says("221 herring (m55).")]
    async with lossless_flow(tmp_path / "b", auxiliary=ScriptedProvider(*replies, name="sums")) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 60))
        done = await flow.compact()
        assert done is not None
        sums = flow.runtime.options.auxiliary
        assert sums is not None and isinstance(sums.provider, ScriptedProvider)
        while len(sums.provider.requests) < 20:
            await sums.provider.send(sums.provider.requests[-1])
        found = await tool_call(flow, "lcm_expand_query", question="How many herring are in bucket 13?")
        assert found["answer"] == "221 herring (m55)." and found["support"] == ["m55"]


async def test_the_status_says_what_is_folded_and_that_all_is_well(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 120))
        await flow.compact()
        status = await tool_call(flow, "lcm_status")
        assert status["messages"] == 480 and status["folded"].startswith("m0 to m")
        assert status["problems"] == [] and status["provisional"] == status["shown"]


async def test_every_page_of_a_tool_is_bounded(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path) as flow:
        chinese = [user("读。" + "每一个桶都要数清楚，然后写下来。" * 4_000), assistant("好。")]
        await receive(flow.runtime, SESSION, [*rounds(0, 60), *chinese, *rounds(60, 130)])
        await flow.compact()
        engine = (await flow.conversation()).engine
        count = (await flow.conversation()).view.count
        calls: list[tuple[str, Mapping[str, Any]]] = [
            ("lcm_grep", {"query": "bucket herring"}),
            ("lcm_grep", {"query": "每一个桶", "neighbours": 3}),
            ("lcm_describe", {}),
            ("lcm_status", {}),
            *(("lcm_expand", {"id": id}) for id in await shown_ids(flow)),
            ("lcm_expand", {"id": "m240"}),
            ("lcm_expand", {"id": "m0-m481"}),
        ]
        for name, arguments in calls:
            answer = await engine.handle_tool_call(name, arguments)
            assert sum(count([user(answer)])) <= 5_000, (name, arguments)


async def test_budgets_that_cannot_hold_are_refused_with_the_numbers(tmp_path: Path) -> None:
    system = "You keep walruses. " * 900
    async with lossless_flow(tmp_path, window=4_000, system=system) as flow:
        await receive(flow.runtime, SESSION, rounds(0, 10))
        done = await flow.compact()
        assert done is not None and not done.changed
        (told,) = done.warnings
        assert "A window of 4,000 tokens" in told and "cannot hold" in told


async def test_the_tools_still_know_the_map_after_pictures_were_left_out(tmp_path: Path) -> None:
    async with lossless_flow(tmp_path, refuses("payload_too_large"), answers("seen")) as flow:
        said = [user("The code of the gate is zebra2quartz."), assistant("Noted.")]
        await receive(flow.runtime, SESSION, [*said, *rounds(0, 70)])
        await flow.compact()
        shown = await shown_ids(flow)
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
        await receive(flow.runtime, SESSION, [user([picture]), assistant("I saw it.")])
        await flow.turn(user([{"type": "text", "text": "And this?"}, picture]))
        assert shown and await shown_ids(flow) == shown
        found = await tool_call(flow, "lcm_grep", query="zebra2quartz")
        assert "m0" in [hit["id"] for group in found["groups"] for hit in group["hits"]]
        assert [part["id"] for part in (await tool_call(flow, "lcm_describe"))["map"]] == shown
        assert (await tool_call(flow, "lcm_status"))["folded"].startswith("m0 to m")
        assert await flow.store.check() == []
