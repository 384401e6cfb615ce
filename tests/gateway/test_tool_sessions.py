"""A session full of tools on every wire, against an upstream with a window, with pairs and with bound thinking."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.messages import ToolCall
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer
from clew.testing.upstream_rules import UpstreamRules
from tests.support.gateway import GatewayFlow, gateway_with

OUTPUT = "a line of output that says little\n" * 80
TURNS = 30
BOUND = "claude-mock-5-1"
STRICT = UpstreamRules(window=8_000, pairs=True, binds_thinking=True)


@dataclass(frozen=True)
class WireClient:
    """What a client of a wire does: where it posts, and how it keeps its history."""

    path: str
    field: str
    beside: dict[str, Any]
    said: Callable[[dict[str, Any]], list[Any]]
    """What of a reply goes into the history."""
    results: Callable[[list[Any]], list[Any]]
    """The results for its calls."""


def chat_results(said: list[Any]) -> list[Any]:
    return [{"role": "tool", "tool_call_id": it["id"], "content": OUTPUT} for it in said[-1].get("tool_calls") or ()]


def messages_results(said: list[Any]) -> list[Any]:
    calls = [block["id"] for block in said[-1]["content"] if block["type"] == "tool_use"]
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": OUTPUT} for id in calls]
    return [{"role": "user", "content": blocks}] if blocks else []


def responses_results(said: list[Any]) -> list[Any]:
    calls = [item["call_id"] for item in said if item["type"] == "function_call"]
    return [{"type": "function_call_output", "call_id": id, "output": OUTPUT} for id in calls]


def gemini_results(said: list[Any]) -> list[Any]:
    calls = [part["functionCall"] for part in said[-1]["parts"] if "functionCall" in part]
    parts = [{"functionResponse": {"name": it["name"], "response": {"output": OUTPUT}}} for it in calls]
    return [{"role": "user", "parts": parts}] if parts else []


FUNCTION = {"name": "shell", "description": "runs", "parameters": {"type": "object"}}
CLIENTS = {
    "chat": WireClient(
        "/v1/chat/completions",
        "messages",
        {"tools": [{"type": "function", "function": FUNCTION}]},
        lambda reply: [reply["choices"][0]["message"]],
        chat_results,
    ),
    "messages": WireClient(
        "/v1/messages",
        "messages",
        {"max_tokens": 500, "tools": [{"name": "shell", "input_schema": {"type": "object"}}]},
        lambda reply: [{"role": "assistant", "content": reply["content"]}],
        messages_results,
    ),
    "responses": WireClient(
        "/v1/responses",
        "input",
        {"tools": [{"type": "function", **FUNCTION}]},
        lambda it: it["output"],
        responses_results,
    ),
    "gemini": WireClient(
        f"/v1beta/models/{GATEWAY_MODEL}:generateContent",
        "contents",
        {"tools": [{"functionDeclarations": [FUNCTION]}]},
        lambda reply: [reply["candidates"][0]["content"]],
        gemini_results,
    ),
}


def user(wire: str, text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": text}]} if wire == "gemini" else {"role": "user", "content": text}


class ToolCaller:
    """Calls a tool three times out of four, and thinks aloud."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, received: ReceivedRequest) -> UpstreamAnswer:
        self.count += 1
        number = self.count
        if number % 4 == 0:
            return UpstreamAnswer(f"round {number} is done", reasoning=f"thought {number}", number=number)
        made: ToolCall = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "shell", "arguments": json.dumps({"command": f"step {number}"})},
        }
        return UpstreamAnswer("", (made,), reasoning=f"thought {number}", number=number)


async def post(flow: GatewayFlow, client: WireClient, items: list[Any], model: str) -> dict[str, Any]:
    body = {"model": model, **client.beside, client.field: items}
    if client is CLIENTS["gemini"]:
        del body["model"]
    async with aiohttp.ClientSession() as session, session.post(flow.root + client.path, json=body) as response:
        raw = await response.read()
        assert response.status == 200, raw
        answer: dict[str, Any] = json.loads(raw)
        return answer


@pytest.mark.parametrize("wire", CLIENTS)
async def test_a_session_of_tools_is_folded_twice_and_no_rule_of_the_provider_is_broken(
    tmp_path: Path, wire: str
) -> None:
    client, model = CLIENTS[wire], BOUND if wire == "messages" else GATEWAY_MODEL
    environ = {"CLEW_MODEL_NAME": model}
    async with gateway_with(Upstream(answers=ToolCaller(), rules=STRICT), tmp_path, environ=environ) as flow:
        items: list[Any] = [user(wire, "TASK-7: mend the clock in hall 3")]
        sizes: list[int] = []
        for turn in range(TURNS):
            said = client.said(await post(flow, client, items, model))
            await flow.wait_for_recordings()
            sizes.append(len(flow.upstream.received[-1].body[client.field]))
            items += said
            results = client.results(said)
            items += results or [user(wire, f"go on with part {turn}")]
        folds = [at for at in range(1, len(sizes)) if sizes[at] < sizes[at - 1]]
        assert len(folds) >= 2
        # Each was answered at once: no refusal of the upstream had to be recovered from.
        assert len(flow.upstream.received) == TURNS
        assert not [record for record in flow.exchanges if record.recovered or record.is_fallback]
        assert "TASK-7" in json.dumps(flow.upstream.received[-1].body[client.field])
        for turn in range(1, TURNS):
            before, now = (flow.upstream.received[at].body[client.field] for at in (turn - 1, turn))
            assert turn in folds or json.dumps(now[: len(before)]) == json.dumps(before)
        assert {it.kind for it in await flow.store.list_sessions()} == {"root", "continuation"}


async def test_counting_agrees_with_the_usage_that_is_told_and_leaves_no_trace(tmp_path: Path) -> None:
    rules = UpstreamRules(window=8_000)
    client = CLIENTS["messages"]
    async with gateway_with(Upstream(answers=ToolCaller(), rules=rules), tmp_path) as flow:
        items: list[Any] = [user("messages", "TASK-7")]
        for turn in range(16):
            answer = await post(flow, client, items, GATEWAY_MODEL)
            await flow.wait_for_recordings()
            usage = answer["usage"]
            told = sum(usage.get(name) or 0 for name in usage if name.endswith("input_tokens"))
            body = {"model": GATEWAY_MODEL, "tools": client.beside["tools"], "messages": items}
            url = f"{flow.base_url}/messages/count_tokens"
            async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
                assert (await response.json())["input_tokens"] == told
            said = client.said(answer)
            items += [*said, *(client.results(said) or [user("messages", f"on {turn}")])]
        assert any(record.is_folded for record in flow.exchanges)
        assert len([it for it in await flow.store.list_sessions() if it.kind == "root"]) == 1


async def test_a_model_is_not_told_of_engine_tools_that_its_client_does_not_have(tmp_path: Path) -> None:
    client, items = CLIENTS["messages"], [user("messages", "Count the files, and tell me when you are done.")]
    environ = {"CLEW_CONTEXT_ENGINE": "lcm"}
    async with gateway_with(Upstream(answers=ToolCaller(), rules=STRICT), tmp_path, environ=environ) as flow:
        for _ in range(TURNS + 10):
            items += client.said(await post(flow, client, items, GATEWAY_MODEL))
            items += client.results(items[-1:]) or [user("messages", "And now?")]
        sent = [it.body for it in flow.upstream.received]
        assert any(len(it["messages"]) < len(before["messages"]) for before, it in pairwise(sent))
        assert not any("lcm_" in json.dumps(it) for it in sent)
