"""A request that is too large: recovered inside, on every wire; and what cannot be made smaller ends with its sizes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.events import Overflowed
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import (
    RawAnswer,
    ReceivedRequest,
    Step,
    StreamedAnswer,
    Upstream,
    UpstreamAnswer,
    UpstreamFault,
)
from tests.support.gateway import GatewayFlow, gateway_with

PATHS = {"chat": "/chat/completions", "messages": "/messages", "responses": "/responses"}
LISTS = {"chat": "messages", "messages": "messages", "responses": "input"}
REFUSALS: dict[str, Any] = {
    "chat": {
        "error": {
            "message": "This model's maximum context length is 4000 tokens. However, your messages resulted in 6100 "
            "tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    },
    "messages": {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 6100 tokens > 4000 maximum"},
    },
    "responses": {
        "error": {
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "type": "invalid_request_error",
            "param": "input",
            "code": "context_length_exceeded",
        }
    },
}


def history(turns: int, words: int = 150) -> list[dict[str, Any]]:
    said = [(f"question {at} " + "word " * words, f"answer {at} " + "word " * words) for at in range(turns)]
    both = [[{"role": "user", "content": q}, {"role": "assistant", "content": a}] for q, a in said]
    return [*(item for pair in both for item in pair), {"role": "user", "content": "the newest question"}]


async def post(flow: GatewayFlow, wire: str, items: list[Any], **fields: Any) -> tuple[int, bytes]:
    body = {"model": GATEWAY_MODEL, LISTS[wire]: items, **fields}
    if wire == "messages":
        body.setdefault("max_tokens", 100)
    async with aiohttp.ClientSession() as session, session.post(flow.base_url + PATHS[wire], json=body) as response:
        return response.status, await response.read()


@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_an_overflow_is_recovered_inside_and_the_client_sees_the_answer(
    tmp_path: Path, wire: str, stream: bool
) -> None:
    upstream = Upstream(UpstreamFault(400, REFUSALS[wire]), UpstreamAnswer("here it is"), UpstreamAnswer("and on"))
    async with gateway_with(upstream, tmp_path) as flow:
        items = history(14)
        status, body = await post(flow, wire, items, stream=stream)
        assert status == 200
        assert b"prompt is too long" not in body and b"context_length_exceeded" not in body
        first, second = (request.body[LISTS[wire]] for request in upstream.received)
        assert len(json.dumps(second)) < len(json.dumps(first)) * 0.7
        assert second[-1] == items[-1]
        assert [event.attempt for event in flow.events if isinstance(event, Overflowed)] == [1]
        # What was folded stays folded.
        await flow.wait_for_recordings()
        said = [*items, {"role": "assistant", "content": "here it is"}, {"role": "user", "content": "on"}]
        assert (await post(flow, wire, said))[0] == 200
        third = upstream.received[2].body[LISTS[wire]]
        assert json.dumps(third[: len(second)]) == json.dumps(second)


async def test_an_overflow_inside_a_stream_of_responses_never_reaches_the_client(tmp_path: Path) -> None:
    failed = {"id": "r", "status": "failed", "error": {"code": "context_length_exceeded", "message": "too long"}}
    events = [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        {"type": "response.in_progress", "response": {"id": "r", "status": "in_progress"}},
        {"type": "response.failed", "response": failed},
    ]
    pieces = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    async with gateway_with(Upstream(RawAnswer(pieces), UpstreamAnswer("fine")), tmp_path) as flow:
        status, body = await post(flow, "responses", history(14), stream=True)
        assert status == 200
        assert b"context_length_exceeded" not in body and b"response.completed" in body
        assert body.count(b"event: response.created") == 1


async def test_another_error_inside_a_stream_passes_as_it_came(tmp_path: Path) -> None:
    failed = {"id": "r", "status": "failed", "error": {"code": "server_error", "message": "the model broke"}}
    events = [{"type": "response.created", "response": {"id": "r"}}, {"type": "response.failed", "response": failed}]
    pieces = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    async with gateway_with(Upstream(RawAnswer(pieces)), tmp_path) as flow:
        _, body = await post(flow, "responses", history(2), stream=True)
        assert body == b"".join(pieces)


@pytest.mark.parametrize("wire", PATHS)
async def test_what_cannot_be_made_smaller_stops_with_the_sizes(tmp_path: Path, wire: str) -> None:
    tools = [{"type": "function", "name": f"t{at}", "description": "d " * 200, "parameters": {}} for at in range(20)]
    async with gateway_with(Upstream(*[UpstreamFault(400, REFUSALS[wire])] * 8), tmp_path) as flow:
        status, body = await post(flow, wire, history(14), tools=tools)
        assert status == 400
        assert len(flow.upstream.received) <= 4
        message = json.loads(body)["error"]["message"]
        assert "the tools (" in message and "the system prompt (" in message
        assert not [word for word in ("too long", "context length", "maximum", "exceed") if word in message]


@pytest.mark.parametrize("wire", PATHS)
async def test_where_the_store_fails_during_the_recovery_the_refusal_passes_as_received(
    tmp_path: Path, wire: str
) -> None:
    """A client that compacts by itself does so by the words of its provider."""
    flows: list[GatewayFlow] = []
    closing: list[asyncio.Task[None]] = []

    def refuse(_: ReceivedRequest) -> Step:
        closing.append(asyncio.get_running_loop().create_task(flows[0].store.close()))
        return UpstreamFault(400, REFUSALS[wire])

    async with gateway_with(Upstream(answers=refuse), tmp_path) as flow:
        flows.append(flow)
        status, body = await post(flow, wire, history(14))
        await asyncio.gather(*closing)
        assert (status, json.loads(body)) == (400, REFUSALS[wire])
        assert len(flow.upstream.received) == 1


@pytest.mark.parametrize("count", [1, 2])
async def test_a_stream_of_responses_that_breaks_off_before_any_content_passes_as_far_as_received(
    tmp_path: Path, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    cut = StreamedAnswer(UpstreamAnswer("never sent"), cut_after=count)
    async with gateway_with(Upstream(cut), tmp_path) as flow:
        body = {"model": GATEWAY_MODEL, "input": history(2), "stream": True}
        received = b""
        async with aiohttp.ClientSession() as http, http.post(f"{flow.base_url}/responses", json=body) as response:
            with pytest.raises(aiohttp.ClientError):
                while True:
                    received += await response.content.readany()
                    assert not response.content.at_eof()
        assert received.count(b"event: response.") == count and b"never sent" not in received
    assert not [record for record in caplog.records if "AssertionError" in record.getMessage()]


@pytest.mark.parametrize("wire", PATHS)
async def test_in_observe_an_overflow_passes_as_it_came(tmp_path: Path, wire: str) -> None:
    async with gateway_with(Upstream(UpstreamFault(400, REFUSALS[wire])), tmp_path, mode="observe") as flow:
        status, body = await post(flow, wire, history(3))
        assert (status, json.loads(body)) == (400, REFUSALS[wire])


async def test_an_output_cap_that_is_too_large_is_lowered(tmp_path: Path) -> None:
    refusal = {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "input length and `max_tokens` exceed context limit: 1200 + 64000 > 8000, decrease input length "
            "or `max_tokens` and try again",
        },
    }
    async with gateway_with(Upstream(UpstreamFault(400, refusal), UpstreamAnswer("ok")), tmp_path) as flow:
        status, _ = await post(flow, "messages", history(2), max_tokens=4_000)
        assert status == 200
        assert flow.upstream.received[1].body["max_tokens"] < 4_000
        assert flow.upstream.received[1].body["messages"] == flow.upstream.received[0].body["messages"]
