"""The frozen prefix proven by a real cache: SmolLM2 behind llama.cpp's server, behind the gateway, on three wires.

CLEW_TEST_GGUF names the file of the model, else these are skipped. What the model says is not asserted; what its server
says of its cache is.
"""

from __future__ import annotations

import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from clew.events import CompactionFinished, Event
from clew.testing.gateway import GATEWAY_MODEL, gateway_with
from clew.testing.upstream import Upstream
from tests.support.gateway_clients import CLIENTS

MODEL = os.environ.get("CLEW_TEST_GGUF", "")
WINDOW = 2_048
KEY = "fake-key-of-the-server"
SHORT: dict[str, dict[str, int]] = {
    "chat": {"max_tokens": 8},
    "messages": {"max_tokens": 8},
    "responses": {"max_output_tokens": 8},
}
"""How each wire says that a reply shall be short."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MODEL, reason="no model: name a SmolLM2 GGUF in CLEW_TEST_GGUF"),
    pytest.mark.skipif(find_spec("xllamacpp") is None, reason="xllamacpp is not installed: pip install 'clew[local]'"),
]


@asynccontextmanager
async def real_upstream() -> AsyncIterator[Upstream]:
    """A model's server, as the upstream of a gateway: in a process of its own, with one thread."""
    command = (sys.executable, "-m", "clew.providers.local.server")
    process = await create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    assert process.stdin is not None and process.stdout is not None
    options = {"model": MODEL, "alias": GATEWAY_MODEL, "context_length": WINDOW, "threads": 1, "key": KEY}
    process.stdin.write(json.dumps(options).encode() + b"\n")
    upstream = Upstream()
    upstream.base_url = json.loads(await process.stdout.readline())["address"]
    try:
        yield upstream
    finally:
        process.stdin.close()
        await process.wait()


@pytest.mark.parametrize("wire", CLIENTS)
async def test_between_two_folds_the_server_reads_all_of_the_last_request_from_its_cache(
    tmp_path: Path, wire: str
) -> None:
    async with (
        real_upstream() as upstream,
        gateway_with(upstream, tmp_path, window=WINDOW) as flow,
        CLIENTS[wire](GATEWAY_MODEL, stream=False, credential=KEY, repeated=12, fields=SHORT[wire]) as client,
    ):
        client.pretend(12)
        if wire == "responses":  # what this server asks of an assistant's message
            client.history = [{"type": "message", **item} for item in client.history]
        client.history += await client.ask(flow.root)
        while len(folds(flow.events)) < 2:
            await client.turn(flow.root)
            assert len(flow.exchanges) < 30
        await client.turn(flow.root)
        await flow.wait_for_recordings()
        assert all(it.status == 200 and not it.is_fallback and not it.recovered for it in flow.exchanges)
        used = [record.usage for record in flow.exchanges]
        fell = 0
        for before, now in pairwise(used):
            assert before is not None and now is not None
            if now.prompt_tokens > before.prompt_tokens:
                # All that was sent before, byte for byte: else it would have been read anew from where it differs.
                assert now.cache_read_tokens >= before.prompt_tokens - 5
            else:
                fell += 1
                assert 0 < now.cache_read_tokens < before.prompt_tokens  # what stands before the fold
        assert fell == 1  # the first request was folded before it was sent


def folds(events: Sequence[Event]) -> list[CompactionFinished]:
    return [event for event in events if isinstance(event, CompactionFinished) and event.continued_as]
