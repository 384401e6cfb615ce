"""Thinking behind a fold: left out whole where a model binds it, learnt from a refusal where that was not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from clew.gateway.items import binds_thinking, refuses_thinking
from clew.testing.upstream import Upstream, UpstreamAnswer, UpstreamFault
from tests.support.gateway import GatewayFlow, gateway_with

BOUND = "claude-fable-5-1"
LONG = "words to fill the window " * 60
REFUSAL: dict[str, Any] = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation",
    },
}


def thought(number: int) -> dict[str, Any]:
    thinking = {"type": "thinking", "thinking": f"thought {number}", "signature": f"sig-{number}=="}
    return {"role": "assistant", "content": [thinking, {"type": "text", "text": f"answer {number}"}]}


def history(turns: int) -> list[dict[str, Any]]:
    pairs = [[{"role": "user", "content": f"question {at} {LONG}"}, thought(at)] for at in range(turns)]
    return [*(item for pair in pairs for item in pair), {"role": "user", "content": f"question {turns} {LONG}"}]


async def post(flow: GatewayFlow, items: list[Any], model: str) -> tuple[int, Any]:
    body = {"model": model, "max_tokens": 100, "messages": items, "thinking": {"type": "adaptive"}}
    async with aiohttp.ClientSession() as session, session.post(f"{flow.base_url}/messages", json=body) as response:
        return response.status, await response.json()


def thoughts(flow: GatewayFlow, number: int = -1) -> list[str]:
    messages = flow.upstream.received[number].body["messages"]
    blocks = [block for item in messages if isinstance(item["content"], list) for block in item["content"]]
    return [block["thinking"] for block in blocks if block.get("type") == "thinking"]


def environ(model: str) -> dict[str, str]:
    return {"CLEW_MODEL_NAME": model, "CLEW_MODEL_CONTEXT_LENGTH": "8000"}


async def test_before_a_fold_all_thinking_passes(tmp_path: Path) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path, environ=environ(BOUND)) as flow:
        await post(flow, history(3), BOUND)
        assert thoughts(flow) == ["thought 0", "thought 1", "thought 2"]


async def test_after_a_fold_old_thinking_is_left_out_and_new_thinking_stays(tmp_path: Path) -> None:
    upstream = Upstream(*[UpstreamAnswer("a")] * 3)
    async with gateway_with(upstream, tmp_path, environ=environ(BOUND)) as flow:
        items = history(20)
        await post(flow, items, BOUND)
        assert len(upstream.received[0].body["messages"]) < len(items)
        assert thoughts(flow) == []
        assert "answer 19" in str(upstream.received[0].body["messages"])
        await flow.wait_for_recordings()
        items = [*items, thought(20), {"role": "user", "content": "on"}]
        items[-2]["content"][1]["text"] = "a"
        await post(flow, items, BOUND)
        assert thoughts(flow) == ["thought 20"]
        before, now = (request.body["messages"] for request in upstream.received)
        assert now[: len(before)] == before


async def test_a_model_that_does_not_bind_keeps_its_thinking(tmp_path: Path) -> None:
    model = "claude-sonnet-4-5"
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path, environ=environ(model)) as flow:
        await post(flow, history(20), model)
        assert "thought 19" in thoughts(flow)


async def test_a_refusal_about_a_bound_block_is_recovered_once_and_remembered(tmp_path: Path) -> None:
    model = "claude-newest"
    upstream = Upstream(UpstreamFault(400, REFUSAL), UpstreamAnswer("a"), UpstreamAnswer("b"))
    async with gateway_with(upstream, tmp_path, environ=environ(model)) as flow:
        items = history(20)
        status, _ = await post(flow, items, model)
        assert status == 200 and len(upstream.received) == 2
        assert thoughts(flow, 0) and not thoughts(flow, 1)
        await flow.wait_for_recordings()
        said = {"role": "assistant", "content": [{"type": "text", "text": "a"}]}
        status, _ = await post(flow, [*items, said, {"role": "user", "content": "on"}], model)
        assert status == 200 and len(upstream.received) == 3
        assert not thoughts(flow, 2)


async def test_a_second_refusal_passes_to_the_client(tmp_path: Path) -> None:
    upstream = Upstream(*[UpstreamFault(400, REFUSAL)] * 3)
    async with gateway_with(upstream, tmp_path, environ=environ(BOUND)) as flow:
        status, body = await post(flow, history(20), BOUND)
        assert (status, body) == (400, REFUSAL)
        assert len(upstream.received) <= 2


def test_which_models_bind_is_told_by_their_version() -> None:
    assert binds_thinking("claude-fable-5-1") and binds_thinking("anthropic/claude-sonnet-5.5-20261001")
    assert not binds_thinking("claude-sonnet-4-5-20250929") and not binds_thinking("claude-opus-4-1")
    assert not binds_thinking("gpt-5.6") and not binds_thinking("claude-3-5-sonnet-20241022")
    assert refuses_thinking(REFUSAL["error"]["message"]) and not refuses_thinking("prompt is too long")
