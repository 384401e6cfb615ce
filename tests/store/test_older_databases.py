"""Databases that earlier versions wrote: they open, read as they did, and go on."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
from pathlib import Path

import pytest

from clew.handoff import HANDOFF_OPENING
from clew.messages import text_of
from clew.store import CallFilter, EngineRecord, SearchScope, Store, open_store
from clew.store.migrate import latest_version
from clew.testing import ScriptedProvider, user
from tests.support.flow import SESSION, answers, flow_with

FIXTURES = Path(__file__).parent / "fixtures"
RELEASES = sorted(FIXTURES.glob("version_*.db.gz"))


@pytest.fixture(params=RELEASES, ids=lambda path: path.name.removesuffix(".db.gz"))
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a database that a release wrote in whole turns; `make_fixtures.py` made it."""
    return copied(request.param, tmp_path)


def copied(fixture: Path, folder: Path) -> Path:
    where = folder / "state.db"
    where.write_bytes(gzip.decompress(fixture.read_bytes()))
    return where


async def shown(store: Store, session: str) -> list[str]:
    return [text_of(message) for message in (await store.view(session)).messages]


@pytest.mark.parametrize("version", range(1, latest_version("sqlite") + 1))
async def test_a_database_of_every_released_schema_still_opens(tmp_path: Path, version: int) -> None:
    where = copied(FIXTURES / f"schema_{version}.db.gz", tmp_path)
    async with open_store(where) as store:
        assert await store.check() == []
        tip = await store.get_compression_tip("old")
        assert tip != "old"
        assert [it["content"] for it in (await store.view(tip)).messages] == [
            "Where is the walrus?",
            "It was asked where the walrus is.",
            "In the third pool.",
            "谢谢",
        ]
        assert {hit.kind for hit in (await store.search("walrus")).hits} == {"message", "summary", "output"}
        assert [hit.seq for hit in (await store.search("谢")).hits] == [3]
        (total,) = await store.usage(["model"])
        assert (total.group["model"], total.usage.prompt_tokens, total.cost_micros) == ("m-1", 15, 42)
        assert await store.state("old") == {"strikes": 1}
        records = await store.engine_records(tip, "tree")
        assert records == ([EngineRecord("n1", {"rows": [0, 3]}, until=3)] if version > 1 else [])
        assert [it.tokens for it in await store.learnt_windows()] == [8_192]
        keys = [(it.owner, it.mode, it.budget_micros) for it in await store.list_keys()]
        assert keys == ([("keeper", "spill", 5_000_000)] if version > 4 else [])
        nodes = [(it.name, it.first, it.last, it.is_final) for it in await store.shown_nodes(tip)]
        assert nodes == ([("n1-1", 1, 2, False)] if version > 5 else [])
        assert await store.system_prompt("old") == "You keep walruses."
        await store.undo(tip)
        assert len((await store.view(tip)).messages) == 4
        await store.append(tip, [user("on")])
        assert await store.check() == []


def test_there_is_a_database_of_a_release() -> None:
    assert RELEASES


async def test_sessions_compactions_and_a_branch_are_as_they_were(where: Path) -> None:
    async with open_store(where) as store:
        assert await store.check() == []
        tip = await store.get_compression_tip(SESSION)
        first, second, last = await store.sessions_of((await store.session(SESSION)).conversation)
        assert (first.id, first.title, first.end_reason, last.id) == (SESSION, "Herring", "compression", tip)
        assert [it.kind for it in (first, second, last)] == ["root", "continuation", "continuation"]
        assert [(it.id, it.kind) for it in await store.children_of(second.id)] == [
            ("branch", "branch"),
            (tip, last.kind),
        ]
        one, two = await store.compactions(SESSION)
        assert (one.session, two.session, two.previous, two.is_in_effect) == (second.id, tip, one.id, True)
        assert (one.entry.engine, one.entry.template_version, one.entry.written_by) == (
            "compressor",
            "first/1",
            "summary-model",
        )
        assert (one.entry.focus_topic, one.entry.until, two.entry.until) == ("herring", 36, 70)
        assert one.entry.details == {"unverified": [], "replaced": [3, 21]}
        assert one.entry.summary is not None and "narwhal" in text_of(one.entry.summary)
        assert two.entry.warnings[0].startswith("This conversation has been compacted 2 times")
        assert await store.system_prompt(tip) == "You are a careful assistant."


async def test_the_view_before_and_after_undo_and_what_is_appended_then(where: Path) -> None:
    async with open_store(where) as store:
        tip = await store.get_compression_tip(SESSION)
        compacted = await shown(store, tip)
        assert len(compacted) == 21 and compacted[-2:] == ["谢谢, and the gate?", "Answer 2."]
        assert any(text.startswith(HANDOFF_OPENING) for text in compacted)
        undone = await store.undo(tip)
        assert undone is not None and undone.entry.until == 70
        once = await shown(store, tip)
        assert len(once) == 55 and once[-2:] == compacted[-2:]
        assert await store.undo(tip) is not None
        whole = await shown(store, tip)
        assert len(whole) == 72 and whole[0] == "Where is the walrus?"
        assert whole == [text_of(row.message) for row in await store.messages(tip)]
        appended = await store.append(SESSION, [user("on we go")])
        assert (appended.session, appended.first_seq) == (tip, 72)
        assert await shown(store, tip) == [*whole, "on we go"]
        assert await store.check() == []


async def test_the_branch_goes_on_from_the_first_compaction(where: Path) -> None:
    async with open_store(where) as store:
        texts = await shown(store, "branch")
        assert texts[-2:] == ["What if there were none?", "Then it would starve."]
        assert any(text.startswith(HANDOFF_OPENING) for text in texts)
        assert len(await store.messages("branch")) == 40
        await store.append("branch", [user("and then?")])
        assert await shown(store, "branch") == [*texts, "and then?"]
        assert (await store.state("branch"))["pins"] == (await store.state(SESSION))["pins"]


async def test_search_finds_messages_summaries_and_the_spilled_output(where: Path) -> None:
    async with open_store(where) as store:
        assert {hit.kind for hit in (await store.search("narwhal")).hits} == {"summary"}
        assert [hit.seq for hit in (await store.search("谢谢")).hits] == [70]
        mine = await store.search("walrus", SearchScope(owner=""))
        assert mine.hits and all(hit.session != "other" for hit in mine.hits)
        (hit,) = (await store.search("quokka 0117", SearchScope(kinds=("output",)))).hits
        output = await store.output(hit.ref)
        assert output is not None and output.tool == "terminal"
        assert output.text.startswith("0000 the quokka log") and output.text.count("\n") == 120
        assert output.path is not None and output.path in text_of((await store.messages(SESSION, 2, 3))[0].message)


async def test_usage_windows_and_states_are_as_they_were(where: Path) -> None:
    async with open_store(where) as store:
        by_model = {it.group["model"]: it for it in await store.usage(["model"])}
        assert {name: it.calls for name, it in by_model.items()} == {"scripted-model": 3, "summary-model": 2}
        (auxiliary,) = await store.usage([], CallFilter(auxiliary=True))
        assert (auxiliary.usage.input_tokens, auxiliary.calls_of_unknown_cost) == (1_800, 2)
        assert [(it.model, it.tokens) for it in await store.learnt_windows()] == [("scripted-model", 8_000)]
        assert await store.state(SESSION) == {
            "calibration.scripted-model": {"ratio": 1.0, "evidence": 975.0},
            "engine.compressor": {"strikes": 0, "left_at": 1399, "compactions": 2, "cooldowns": {}},
            "pins": [{"label": "rule", "text": "Never feed the walrus on a Friday."}],
        }


async def test_a_turn_goes_on_with_the_pins_and_the_engine_memory_of_the_file(where: Path) -> None:
    provider = ScriptedProvider(answers("In the third pool."))
    async with flow_with(provider, where.parent, window=8_000) as flow:
        conversation = await flow.conversation()
        assert [it.text for it in conversation.pins] == ["Never feed the walrus on a Friday."]
        assert conversation.engine.get_status().compactions == 2
        paused = (await flow.runtime.conversation("other")).engine.get_status()
        assert paused.compactions == 3 and paused.paused is not None
        await flow.turn(user("Where is it?"))
        sent = [text_of(message) for message in provider.requests[0].messages]
        assert "Never feed the walrus on a Friday." in sent[0] and sent[-1] == "Where is it?"
        assert (await flow.view())[-1]["content"] == "In the third pool."


async def test_replies_that_an_earlier_build_hashed_otherwise_are_not_called_changed(tmp_path: Path) -> None:
    part = {"type": "output_text", "text": "In the third pool.", "annotations": []}
    replies = [
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]},
        {"role": "assistant", "content": "Yes.", "reasoning_content": "He asks again."},
    ]
    where = tmp_path / "state.db"
    async with open_store(where) as store:
        await store.sync(replies)
    with contextlib.closing(sqlite3.connect(where)) as raw, raw:
        for seq, chain in enumerate(("91ab3a0d89f098cce40ea3d4a125b00d", "290b5cc8b99fbe48a9ac7b855334e404")):
            raw.execute("UPDATE messages SET chain = ? WHERE seq = ?", (bytes.fromhex(chain), seq))
    async with open_store(where) as store:
        assert await store.check() == []
