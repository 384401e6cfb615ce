"""Requests of the real SDKs through the gateway: what passes, what is folded, and what is recorded."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from clew.messages import text_of
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer, UpstreamFault
from tests.support.gateway import GatewayFlow, gateway_with

KEY = "fake-key-of-a-test"
LONG = "many words of a question that goes on " * 80
TURNS = 20
TOOLS = [{"type": "function", "function": {"name": "look", "description": "looks", "parameters": {"type": "object"}}}]


def answers(count: int) -> list[UpstreamAnswer]:
    return [UpstreamAnswer(f"answer {number}") for number in range(count)]


async def ask_chat(client: AsyncOpenAI, history: list[Any], *, stream: bool) -> str:
    if not stream:
        reply = await client.chat.completions.create(model=GATEWAY_MODEL, messages=history)
        return reply.choices[0].message.content or ""
    text = ""
    async for chunk in await client.chat.completions.create(model=GATEWAY_MODEL, messages=history, stream=True):
        text += chunk.choices[0].delta.content or "" if chunk.choices else ""
    return text


async def ask_messages(client: AsyncAnthropic, history: list[Any], *, stream: bool) -> str:
    if not stream:
        reply = await client.messages.create(model=GATEWAY_MODEL, max_tokens=500, messages=history)
        return "".join(block.text for block in reply.content if block.type == "text")
    async with client.messages.stream(model=GATEWAY_MODEL, max_tokens=500, messages=history) as events:
        return await events.get_final_text()


async def ask_responses(client: AsyncOpenAI, history: list[Any], *, stream: bool) -> str:
    if not stream:
        return (await client.responses.create(model=GATEWAY_MODEL, input=history)).output_text
    text = ""
    async for event in await client.responses.create(model=GATEWAY_MODEL, input=history, stream=True):
        text += event.delta if event.type == "response.output_text.delta" else ""
    return text


WIRES: dict[str, tuple[Callable[..., Awaitable[str]], str]] = {
    "chat": (ask_chat, "messages"),
    "messages": (ask_messages, "messages"),
    "responses": (ask_responses, "input"),
}


def sdk_client(flow: GatewayFlow, wire: str) -> AsyncAnthropic | AsyncOpenAI:
    if wire == "messages":
        return AsyncAnthropic(base_url=flow.root, api_key=KEY, max_retries=0)
    return AsyncOpenAI(base_url=flow.base_url, api_key=KEY, max_retries=0)


def items_of(flow: GatewayFlow, number: int, field: str) -> list[Any]:
    items: list[Any] = flow.upstream.received[number].body[field]
    return items


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_session_passes_the_threshold_twice_and_goes_on(tmp_path: Path, wire: str, stream: bool) -> None:
    ask, field = WIRES[wire]
    async with gateway_with(Upstream(*answers(TURNS)), tmp_path) as flow, sdk_client(flow, wire) as client:
        history: list[dict[str, Any]] = []
        sizes: list[int] = []
        for turn in range(TURNS):
            history.append({"role": "user", "content": f"question {turn}: {LONG}"})
            assert await ask(client, history, stream=stream) == f"answer {turn}"
            history.append({"role": "assistant", "content": f"answer {turn}"})
            sent = items_of(flow, turn, field)
            sizes.append(len(sent))
            assert f"question {turn}: " in json.dumps(sent[-1])
        folds = [at for at in range(1, TURNS) if sizes[at] < sizes[at - 1]]
        assert len(folds) >= 2
        for turn in range(1, TURNS):
            if turn not in folds:  # between folds each request begins with the one before
                before, now = items_of(flow, turn - 1, field), items_of(flow, turn, field)
                assert json.dumps(now[: len(before)]) == json.dumps(before)
        await flow.wait_for_recordings()
        (root,) = [it for it in await flow.store.list_sessions() if it.kind == "root"]
        tip = await flow.store.resume(root.id)
        rows = await flow.store.messages(tip.id)
        assert [text_of(row.message) for row in rows] == [str(item["content"]) for item in history]
        assert await flow.store.check() == []


async def raw_post(flow: GatewayFlow, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> bytes:
    async with aiohttp.ClientSession() as session:
        given = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}", **(headers or {})}
        async with session.post(flow.root + path, data=body, headers=given) as response:
            return await response.read()


SMALL = b'{"model": "mock-model", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}'


async def test_headers_that_nobody_knows_pass_and_our_own_do_not(tmp_path: Path) -> None:
    async with gateway_with(Upstream(*answers(1)), tmp_path) as flow:
        sent = {"anthropic-beta": "one-2026,two-2026", "X-Something": "else", "x-clew-mode": "observe"}
        await raw_post(flow, "/v1/messages?beta=true", SMALL, sent)
        headers = flow.upstream.received[0].headers
        assert headers["anthropic-beta"] == "one-2026,two-2026"
        assert headers["x-something"] == "else"
        assert headers["authorization"] == f"Bearer {KEY}"
        assert not [name for name in headers if name.startswith("x-clew")]


async def test_a_refusal_that_is_no_overflow_passes_as_it_came(tmp_path: Path) -> None:
    fault = UpstreamFault(429, {"error": {"message": "slow down"}}, {"Retry-After": "7", "x-request-id": "r-1"})
    async with gateway_with(Upstream(fault), tmp_path) as flow, aiohttp.ClientSession() as session:
        async with session.post(flow.base_url + "/chat/completions", data=SMALL) as response:
            assert response.status == 429
            assert response.headers["Retry-After"] == "7" and response.headers["x-request-id"] == "r-1"
            assert await response.json() == {"error": {"message": "slow down"}}
        assert len(flow.upstream.received) == 1


@pytest.mark.parametrize("path", ["/api/show", "/api/v1/models", "/v1/embeddings", "/v1/../etc", "/clew"])
async def test_what_is_not_served_is_a_404_and_never_reaches_the_upstream(tmp_path: Path, path: str) -> None:
    async with gateway_with(Upstream(), tmp_path) as flow, aiohttp.ClientSession() as session:
        async with session.post(flow.root + path, data=b"{}") as response:
            assert response.status == 404
        assert flow.upstream.received == []


@pytest.mark.parametrize("body", [b"", b'{"model": ', b"[1]", b'{"model":"m","messages":3}', b"[" * 50_000])
async def test_a_body_that_cannot_be_read_passes_for_the_upstream_to_judge(tmp_path: Path, body: bytes) -> None:
    came: list[bytes] = []

    async def judge(request: web.Request) -> web.Response:
        came.append(await request.read())
        return web.Response(status=400, text="not what I take")

    server = web.Application()
    server.router.add_post("/v1/chat/completions", judge)
    async with TestServer(server) as judging:
        upstream = Upstream()
        upstream.base_url = str(judging.make_url("/v1"))
        async with gateway_with(upstream, tmp_path) as flow:
            assert await raw_post(flow, "/v1/chat/completions", body) == b"not what I take"
    assert came == [body]


@pytest.mark.parametrize("has_own", [False, True])
async def test_breakpoints_are_added_only_where_that_is_chosen_and_the_client_sets_none(
    tmp_path: Path, has_own: bool
) -> None:
    marker = {"cache_control": {"type": "ephemeral"}} if has_own else {}
    items = [{"role": "user", "content": [{"type": "text", "text": f"m{at}", **marker}]} for at in range(2)]
    body = {"model": GATEWAY_MODEL, "max_tokens": 9, "system": "You help.", "messages": items}
    async with gateway_with(Upstream(*answers(2)), tmp_path, adds_breakpoints=True) as flow:
        raw = json.dumps(body).encode()
        await raw_post(flow, "/v1/messages", raw)
        if has_own:
            assert flow.upstream.received[0].raw == raw
            return
        received = flow.upstream.received[0].body
        assert received["system"][-1]["cache_control"] == {"type": "ephemeral"}
        assert [item["content"][-1]["cache_control"] for item in received["messages"]] == [{"type": "ephemeral"}] * 2
