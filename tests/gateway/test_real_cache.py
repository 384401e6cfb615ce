"""A real cache and a real model: SmolLM2 behind llama.cpp's server, behind the gateway, on three wires.

Between two folds the server reads all of the last request from its cache, and so it does for the handoff that it is
asked for.

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

from clew.events import CompactionFinished, Event, SummaryReplied
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream
from tests.support.gateway import gateway_with
from tests.support.gateway_clients import CLIENTS

MODEL = os.environ.get("CLEW_TEST_GGUF", "")
WINDOW = 2_048
ROOMY = 8_192
"""With room for the conversation, the instruction and a handoff."""
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
    pytest.mark.skipif(
        find_spec("xllamacpp") is None, reason="xllamacpp is not installed: pip install 'clew-context[local]'"
    ),
]


@asynccontextmanager
async def real_upstream(window: int = WINDOW) -> AsyncIterator[Upstream]:
    """A model's server, as the upstream of a gateway: in a process of its own, with one thread."""
    command = (sys.executable, "-m", "clew.providers.local.server")
    process = await create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    assert process.stdin is not None and process.stdout is not None
    options = {"model": MODEL, "alias": GATEWAY_MODEL, "context_length": window, "threads": 1, "key": KEY}
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


@pytest.mark.skipif(
    "CLEW_TEST_HANDOFFS" not in os.environ, reason="takes seven minutes a wire: set CLEW_TEST_HANDOFFS=1"
)
@pytest.mark.parametrize("wire", CLIENTS)
async def test_the_model_is_asked_for_the_handoff_and_its_server_reads_the_last_request_from_its_cache(
    tmp_path: Path, wire: str
) -> None:
    async with (
        real_upstream(ROOMY) as upstream,
        gateway_with(upstream, tmp_path, window=ROOMY, handoffs="model") as flow,
        CLIENTS[wire](GATEWAY_MODEL, stream=False, credential=KEY, repeated=24, fields=SHORT[wire]) as client,
    ):
        client.pretend(4)
        if wire == "responses":  # what this server asks of an assistant's message
            client.history = [{"type": "message", **item} for item in client.history]
        client.history += await client.ask(flow.root)
        while not (asked := [event for event in flow.events if isinstance(event, SummaryReplied)]):
            await client.turn(flow.root)
            await flow.wait_for_handoffs()
            assert not folds(flow.events)
        last = flow.exchanges[-1].usage
        assert last is not None and last.prompt_tokens < 0.85 * ROOMY
        # All of the last request, byte for byte: what is read anew is the instruction.
        assert asked[0].extends and asked[0].prompt_tokens > asked[0].cache_read_tokens >= last.prompt_tokens - 5
        assert asked[0].output_tokens > 0
        while not folds(flow.events):
            await client.turn(flow.root)
            await flow.wait_for_handoffs()
            assert len(flow.exchanges) < 30
        # So small a model seldom writes a handoff that holds: then the built-in summariser does.
        assert folds(flow.events)[0].written_by in (GATEWAY_MODEL, "built-in")
        assert all(it.status == 200 and not it.is_fallback and not it.recovered for it in flow.exchanges)


def folds(events: Sequence[Event]) -> list[CompactionFinished]:
    return [event for event in events if isinstance(event, CompactionFinished) and event.continued_as]
