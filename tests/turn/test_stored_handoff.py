"""A handoff is stored with its compaction as a value, and read from its text where only that was stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from clew.handoff import Handoff
from clew.store import CompactionEntry
from clew.testing import assistant, user
from clew.testing.scripted import ScriptedProvider
from clew.turn import handoff_of, handoff_text_of, prepared_from_plain, prepared_to_plain, receive
from tests.support.engines import PlainEngine
from tests.support.flow import SESSION, Flow, flow_with


async def talk(flow: Flow, turns: int = 15) -> None:
    for n in range(turns):
        await receive(flow.runtime, SESSION, [user(f"Part {n}. " + "of the plan " * 120), assistant(f"Did {n}.")])


async def stored_entry(flow: Flow) -> CompactionEntry:
    (made,) = await flow.store.compactions(SESSION)
    return made.entry


async def test_the_value_is_stored_with_the_compaction(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        done = await flow.compact()
        assert done is not None
        entry = await stored_entry(flow)
        assert handoff_of(entry) == done.handoff != Handoff()
        assert handoff_text_of(entry) == done.summary


async def test_an_entry_without_the_value_is_read_from_its_text(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        await flow.compact()
        entry = await stored_entry(flow)
        older = replace(entry, details={"replaced": [0, 9]})
        broken = replace(entry, details={"handoff": {"Goal": [7]}})
        assert handoff_of(older) == handoff_of(broken) == Handoff.of_text(handoff_text_of(entry) or "")
        assert handoff_of(older) != Handoff()
        assert handoff_of(replace(entry, summary={"role": "user", "content": "By hand."}, details={})) == (
            Handoff.of_text("By hand.")
        )


async def test_where_nothing_was_summarised_there_is_no_handoff(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path, new_engine=PlainEngine) as flow:
        await talk(flow)
        done = await flow.compact()
        assert done is not None and done.changed
        assert done.read_handoff() is None
        assert handoff_of(await stored_entry(flow)) is None


async def test_a_preview_that_another_process_applies_has_the_same_value(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        await talk(flow)
        conversation = await flow.runtime.conversation(SESSION)
        prepared = await conversation.preview_compaction()
        plain = json.loads(json.dumps(prepared_to_plain(prepared)))
        read = prepared_from_plain(plain, conversation.view)
        assert read is not None
        assert read.compaction.handoff == prepared.compaction.handoff is not None
