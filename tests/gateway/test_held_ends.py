"""A client sees the end of a reply when the reply is stored, so that a killed gateway loses none that was seen."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.messages import text_of
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import RawAnswer, ReceivedRequest, Step, StreamedAnswer, Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow, gateway_with
from tests.support.gateway_clients import FAKE_KEY

WORDS = "the whole answer"
GEMINI = f"/v1beta/models/{GATEWAY_MODEL}"
ASKED = [{"role": "user", "content": "a question"}]
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "a question"}]}]}
STREAMS: dict[str, tuple[str, dict[str, Any], bytes]] = {
    "chat": ("/v1/chat/completions", {"messages": ASKED, "stream": True}, b"[DONE]"),
    "responses": ("/v1/responses", {"input": ASKED, "stream": True}, b"response.completed"),
    "messages": ("/v1/messages", {"messages": ASKED, "stream": True, "max_tokens": 99}, b"message_stop"),
    "gemini": (f"{GEMINI}:streamGenerateContent?alt=sse", CONTENTS, b"finishReason"),
}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": ASKED}),
    "responses": ("/v1/responses", {"input": ASKED}),
    "messages": ("/v1/messages", {"messages": ASKED, "max_tokens": 99}),
    "gemini": (f"{GEMINI}:generateContent", CONTENTS),
}


KILLED = Path(__file__).parents[1] / "faults" / "gateway_killed.py"


class BlockedStore:
    """Another program that holds the database from the moment the upstream is asked: nothing is committed meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._where = folder / "state.db"
        self._held: sqlite3.Connection | None = None

    def answering(self, step: Step) -> Upstream:
        """An upstream that plays this step, with the database held."""

        def answer(_: ReceivedRequest) -> Step:
            self._held = sqlite3.connect(self._where, isolation_level=None)
            self._held.execute("BEGIN IMMEDIATE")
            return step

        return Upstream(answers=answer)

    def release(self) -> None:
        if self._held is not None:
            self._held.close()


@pytest.fixture
def blocked(tmp_path: Path) -> Iterator[BlockedStore]:
    store = BlockedStore(tmp_path)
    yield store
    store.release()


@asynccontextmanager
async def asking(flow: GatewayFlow, path: str, body: dict[str, Any]) -> AsyncIterator[aiohttp.ClientResponse]:
    headers = {"Authorization": f"Bearer {FAKE_KEY}"}
    async with (
        aiohttp.ClientSession(headers=headers) as http,
        http.post(flow.root + path, json={"model": GATEWAY_MODEL, **body}) as response,
    ):
        yield response


async def many_turns() -> None:
    """Give the upstream and the gateway, which run in this loop, the turns to pass on all that they have."""
    for _ in range(500):
        await asyncio.sleep(0)


async def is_stored(flow: GatewayFlow) -> bool:
    rows = [row for it in await flow.store.list_sessions() for row in await flow.store.messages(it.id)]
    return any(text_of(row.message) == WORDS for row in rows)


@pytest.mark.parametrize("wire", STREAMS)
async def test_the_end_of_a_stream_comes_after_the_commit_and_the_text_before_it(
    tmp_path: Path, blocked: BlockedStore, wire: str
) -> None:
    path, body, end = STREAMS[wire]
    upstream = blocked.answering(UpstreamAnswer(WORDS))
    async with gateway_with(upstream, tmp_path, hold_seconds=60.0) as flow, asking(flow, path, body) as response:
        heard = b""
        try:
            while b"the" not in heard:
                heard += await response.content.readany()
            await many_turns()
            heard += response.content.read_nowait()
            assert end not in heard and not response.content.at_eof()
        finally:
            blocked.release()
        while end not in heard:
            heard += await response.content.readany()
        assert await is_stored(flow)


@pytest.mark.parametrize("wire", BODIES)
async def test_a_body_is_whole_after_the_commit(tmp_path: Path, blocked: BlockedStore, wire: str) -> None:
    path, body = BODIES[wire]
    upstream = blocked.answering(UpstreamAnswer(WORDS))
    async with gateway_with(upstream, tmp_path, hold_seconds=60.0) as flow, asking(flow, path, body) as response:
        reading = asyncio.create_task(response.read())
        try:
            await many_turns()
            assert not reading.done()
        finally:
            blocked.release()
        assert WORDS.encode() in await reading and await is_stored(flow)


@pytest.mark.parametrize("wire", STREAMS)
@pytest.mark.parametrize("kind", ["stream", "body"])
async def test_a_store_that_does_not_answer_delays_the_end_by_the_bound_and_the_reply_is_kept(
    tmp_path: Path, blocked: BlockedStore, wire: str, kind: str
) -> None:
    path, body = STREAMS[wire][:2] if kind == "stream" else BODIES[wire]
    upstream = blocked.answering(UpstreamAnswer(WORDS))
    async with gateway_with(upstream, tmp_path, hold_seconds=0.0) as flow:
        try:
            async with asking(flow, path, body) as response:
                whole = await response.read()
            assert response.status == 200 and (kind == "body" or STREAMS[wire][2] in whole)
            assert not await is_stored(flow)
        finally:
            blocked.release()
        await flow.wait_for_recordings()
        assert await is_stored(flow)


async def test_a_stream_that_breaks_behind_its_finish_reason_is_passed_as_far_as_it_came(tmp_path: Path) -> None:
    """On the chat wire only the last event is missing: the reply is whole, and stored."""
    path, body, end = STREAMS["chat"]
    upstream = Upstream()
    async with gateway_with(upstream, tmp_path) as flow:
        upstream.then(UpstreamAnswer(WORDS))
        async with asking(flow, path, body) as response:
            events = (await response.read()).count(b"data:")
    other = tmp_path / "other"
    other.mkdir()
    cut = StreamedAnswer(UpstreamAnswer(WORDS), cut_after=events - 1)
    async with gateway_with(Upstream(cut), other) as flow:
        heard = b""
        async with asking(flow, path, body) as response:
            with pytest.raises(aiohttp.ClientError):
                while True:
                    heard += await response.content.readany()
                    assert not response.content.at_eof()
        await flow.wait_for_recordings()
        assert end not in heard and await is_stored(flow)


async def test_several_choices_go_on_while_the_first_one_has_finished(tmp_path: Path, blocked: BlockedStore) -> None:
    path, body, end = STREAMS["chat"]
    events = [_choice(0, WORDS), _choice(0, "", "stop"), *(_choice(1, f"word{number}") for number in range(9))]
    pieces = [*(b"data: %s\n\n" % json.dumps(event).encode() for event in events), b"data: [DONE]\n\n"]
    upstream = blocked.answering(RawAnswer(pieces))
    ask = {**body, "n": 2}
    async with gateway_with(upstream, tmp_path, hold_seconds=60.0) as flow, asking(flow, path, ask) as response:
        heard = b""
        try:
            while b"word5" not in heard:
                heard += await response.content.readany()
            assert end not in heard
        finally:
            blocked.release()
        assert heard + await response.read() == b"".join(pieces)


def _choice(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": index, "delta": {"content": text}, "finish_reason": finish}]}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="starts gateways from one process that has all imports")
def test_a_gateway_that_is_killed_again_and_again_has_every_reply_that_was_seen_to_its_end() -> None:
    command = [sys.executable, str(KILLED), "--kills", "8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("8 kills, ") and done.stdout.rstrip().endswith("0 problems")
