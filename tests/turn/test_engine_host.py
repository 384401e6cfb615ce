"""What an engine gets from a conversation in the store: its rows by number, and records of its own that last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from clew.engines import Compaction, ContextEngine
from clew.errors import StoreError
from clew.messages import Message, text_of
from clew.store import CompactionEntry, EngineRecord
from clew.testing import assistant, user
from clew.testing.scripted import ScriptedProvider
from clew.turn import receive
from tests.support.engines import PlainEngine
from tests.support.flow import SESSION, Flow, flow_with


class NodeEngine(PlainEngine):
    """Keeps a record for each compaction that it makes."""

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        done = await super().compress(messages, current_tokens, focus_topic, force)
        assert self.host is not None
        number = len(await self.host.records())
        return replace(done, records={f"n{number}": {"messages": len(messages)}})


async def talk(flow: Flow, turns: int = 20) -> None:
    said = [m for n in range(turns) for m in (user(f"Part {n}. " + "of the plan " * 80), assistant(f"Did {n}."))]
    await receive(flow.runtime, SESSION, said)


async def engine_of(flow: Flow) -> ContextEngine:
    return (await flow.conversation()).engine


async def test_rows_are_the_original_messages_also_when_a_compaction_has_folded_them(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path, new_engine=PlainEngine) as flow:
        await talk(flow)
        await flow.compact()
        host = (await engine_of(flow)).host
        assert host is not None
        assert [text_of(message) for message in await host.rows(1, 4)][::2] == ["Did 0.", "Did 1."]
        assert len(await host.rows(0, 1_000)) == 40


async def test_the_records_of_a_compaction_are_stored_with_it_and_there_after_a_restart(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path, new_engine=NodeEngine) as flow:
        await talk(flow)
        await flow.compact()
        assert [record.until for record in await flow.store.engine_records(SESSION, "plain")] == [40]
        await (await flow.conversation()).preview_compaction()
    async with flow_with(ScriptedProvider(), tmp_path, new_engine=NodeEngine) as flow:
        await talk(flow)
        await flow.compact()
        host = (await engine_of(flow)).host
        assert host is not None
        assert [*await host.records()] == ["n0", "n1"]
        assert await host.records(["n0", "missing"]) == {"n0": {"messages": 40}}


async def test_records_may_be_stored_at_any_time_and_are_read_however_many_there_are(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path, new_engine=PlainEngine) as flow:
        await talk(flow, turns=1)
        host = (await engine_of(flow)).host
        assert host is not None
        records = {f"n{number}": number for number in range(2_500)}
        await host.put_records(records)
        assert await host.records() == records
        assert (await flow.store.engine_records(SESSION, "plain", ["n7"])) == [EngineRecord("n7", 7, until=2)]


async def test_a_compaction_that_is_refused_leaves_no_record(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(), tmp_path, new_engine=NodeEngine) as flow:
        await talk(flow)
        prepared = await (await flow.conversation()).preview_compaction()
        other = await flow.store.view(SESSION)
        await flow.store.commit_compaction(SESSION, CompactionEntry.of(other, other.messages[20:]))
        with pytest.raises(StoreError):
            await (await flow.conversation()).apply_compaction(prepared)
        assert await flow.store.engine_records(SESSION, "plain") == []
