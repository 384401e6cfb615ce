"""What changes while somebody looks is told as events, also when another process writes to the same store."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.store import open_store
from clew.testing.messages import user
from tests.support.dashboard import DashboardFlow, DashboardVisitor, add_chat, running_dashboard, visiting

PATIENCE = 30.0
OTHER_PROCESS = """
import asyncio, sys
from clew.store import open_store

async def main():
    async with open_store(sys.argv[1]) as store:
        await store.append(sys.argv[2], [{"role": "user", "content": "from elsewhere"}])

asyncio.run(main())
"""


class EventStream:
    """The events of a page, one after the other."""

    def __init__(self, lines: aiohttp.StreamReader) -> None:
        self._lines = lines

    async def next_of(self, name: str) -> Any:
        """The next event of a name; others are passed over."""
        async with asyncio.timeout(PATIENCE):
            kind = ""
            async for line in self._lines:
                text = line.decode().strip()
                if text.startswith("event: "):
                    kind = text.removeprefix("event: ")
                elif text.startswith("data: ") and kind == name:
                    return json.loads(text.removeprefix("data: "))
        raise AssertionError("the stream has ended")

    async def changes_of(self, session: str, what: str) -> Any:
        """The next change of a kind of one session."""
        while True:
            for each in (await self.next_of("changed"))["sessions"]:
                if each["id"] == session and what in each["what"]:
                    return each


@asynccontextmanager
async def following(visitor: DashboardVisitor) -> AsyncIterator[EventStream]:
    async with visitor.http.get(f"{visitor.address}/dashboard/api/events") as response:
        assert response.content_type == "text/event-stream"
        stream = EventStream(response.content)
        await stream.next_of("hello")
        yield stream


@pytest.fixture
async def flow(tmp_path: Path) -> AsyncIterator[DashboardFlow]:
    async with running_dashboard(tmp_path) as running:
        yield running


async def test_messages_titles_compactions_and_new_sessions_are_told(flow: DashboardFlow) -> None:
    chat = await add_chat(flow.store, 14)
    async with visiting(flow) as visitor, following(visitor) as stream:
        await flow.store.append(chat.id, [user("and one more thing")])
        told = await stream.changes_of(chat.id, "messages")
        assert told["messages"] == 43
        await visitor.act("PATCH", chat.id, {"title": "Another title"})
        await stream.changes_of(chat.id, "title")
        await visitor.act("POST", f"{chat.id}/compress", {})
        await stream.changes_of(chat.id, "compactions")
        new = await add_chat(flow.store, 1)
        await stream.changes_of(new.id, "new")
        await visitor.act("DELETE", new.id)
        assert (await stream.next_of("deleted"))["sessions"] == [new.id]


async def test_what_another_process_writes_is_told_too(flow: DashboardFlow) -> None:
    chat = await add_chat(flow.store, 1)
    async with visiting(flow) as visitor, following(visitor) as stream:
        command = [sys.executable, "-c", OTHER_PROCESS, flow.store.where, chat.id]
        done = await asyncio.to_thread(subprocess.run, command, check=True)
        assert done.returncode == 0
        assert (await stream.changes_of(chat.id, "messages"))["messages"] == 4
        page = await visitor.get(f"sessions/{chat.id}/messages", limit=1)
        assert page["messages"][0]["text"] == "from elsewhere"


async def test_a_mark_changes_with_every_write_and_only_then(tmp_path: Path) -> None:
    for where in (str(tmp_path / "state.db"), ":memory:"):
        async with open_store(where) as store:
            first = await store.change_mark()
            await store.list_sessions()
            assert await store.change_mark() == first
            chat = await add_chat(store, 1)
            second = await store.change_mark()
            assert second != first
            await store.rename(chat.id, "x")
            assert await store.change_mark() != second


async def test_a_server_that_stops_ends_the_streams(tmp_path: Path) -> None:
    async with running_dashboard(tmp_path) as flow:
        visits = visiting(flow)
        visitor = await visits.__aenter__()
        response = await visitor.http.get(f"{visitor.address}/dashboard/api/events")
        await EventStream(response.content).next_of("hello")
    async with asyncio.timeout(PATIENCE):
        assert (await response.content.read()).strip() == b""
    await visits.__aexit__(None, None, None)
