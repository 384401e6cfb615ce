"""A model writes summaries in the background; a client that waits for another process hears that it does."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from clew.events import CompactionPhase
from clew.gateway import PING_SECONDS
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer
from tests.support.gateway import gateway_with
from tests.support.gateway_clients import CLIENTS, FAKE_KEY

STALLS = StreamedAnswer(UpstreamAnswer("never written"), stall_after=0)
PINGS = {"chat": b": keep-alive", "responses": b": keep-alive", "messages": b"event: ping"}


def written_by(summariser: Upstream) -> dict[str, str]:
    named = {"provider": "openai", "base_url": summariser.base_url, "model": "writer", "api_key": "fake"}
    return {f"CLEW_AUXILIARY_COMPRESSION_{name.upper()}": value for name, value in named.items()}


def test_signs_of_life_are_at_most_fifteen_seconds_apart() -> None:
    assert PING_SECONDS <= 15


@pytest.mark.parametrize("wire", CLIENTS)
async def test_a_stream_that_waits_for_another_process_is_kept_alive_and_goes_on(tmp_path: Path, wire: str) -> None:
    async with AsyncExitStack() as last:
        upstream = await last.enter_async_context(Upstream(*[UpstreamAnswer("Here is the answer.")] * 2))
        flow = await last.enter_async_context(gateway_with(upstream, tmp_path, ping_seconds=0.02))
        client = await last.enter_async_context(CLIENTS[wire](GATEWAY_MODEL, stream=True))
        http = await last.enter_async_context(aiohttp.ClientSession(headers={"Authorization": f"Bearer {FAKE_KEY}"}))
        await client.turn(flow.root)
        await flow.wait_for_recordings()
        (session,) = await flow.store.list_sessions()
        lease = await flow.store.take_lease(session.id, "another process", 60.0)
        assert lease is not None
        rest, client.history = client.history, []
        client.pretend(20)
        client.history = [*rest, *client.history]
        async with http.post(flow.root + client.path, json=client.body()) as reply:
            assert reply.status == 200 and "event-stream" in reply.headers["Content-Type"]
            heard = b""
            while heard.count(PINGS[wire]) < 3:
                more = await reply.content.readany()
                assert more, heard
                heard += more
            assert len(upstream.received) == 1
            await flow.store.release_lease(lease)
            heard += await reply.content.read()
        assert len(upstream.received[1].body[client.field]) < len(client.history)
        assert b"answer" in heard[heard.rindex(PINGS[wire]) :]


async def test_a_summary_is_prepared_in_the_background_and_nobody_waits_for_it(tmp_path: Path) -> None:
    async with Upstream(*[UpstreamAnswer(f"answer {at}") for at in range(40)]) as upstream, AsyncExitStack() as last:
        summariser = await last.enter_async_context(Upstream(STALLS))
        served = gateway_with(upstream, tmp_path, environ=written_by(summariser), handoffs="model")
        flow = await last.enter_async_context(served)
        client = await last.enter_async_context(CLIENTS["messages"](GATEWAY_MODEL, stream=True))
        while not any(isinstance(it, CompactionPhase) for it in flow.events):
            await client.turn(flow.root)
            await flow.wait_for_recordings()
        await summariser.stalled.wait()
        before = len(upstream.received)
        await client.turn(flow.root)  # answered, while the summary is still being written
        assert len(upstream.received) == before + 1
        assert not any(record.is_folded for record in flow.exchanges)
