"""Clients that send a reply back in their own spelling stay in one conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.messages import ToolCall
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow, gateway_with

TOOLS = [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}]
TURNS = 6


class RandomIdCaller:
    """Answers every request with text and a call, with ids as providers make them."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, received: ReceivedRequest) -> UpstreamAnswer:
        self.count += 1
        arguments = json.dumps({"path": f"src/{self.count}.py", "limit": 10})
        call: ToolCall = {
            "id": f"call_Ab3dEf9hIj{self.count:04d}",
            "type": "function",
            "function": {"name": "shell", "arguments": arguments},
        }
        return UpstreamAnswer(f"step {self.count}", calls=(call,), number=self.count)


def with_arguments(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def respell(message: dict[str, Any]) -> dict[str, Any]:
        calls = []
        for call in message["tool_calls"]:
            arguments = json.dumps(change(json.loads(call["function"]["arguments"])), indent=1)
            calls.append({**call, "function": {**call["function"], "arguments": arguments}})
        return {**message, "tool_calls": calls}

    return respell


SPELLINGS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "sorted keys": with_arguments(lambda it: dict(sorted(it.items()))),
    "defaults filled in": with_arguments(lambda it: {**it, "cwd": None, "timeout": 60}),
    "a newline more": lambda it: {**it, "content": f"{it['content']}\n"},
    "fields of the client": lambda it: {**it, "provider_specific_fields": {"refusal": None}, "function_call": None},
    "text in parts": lambda it: {**it, "content": [{"type": "text", "text": part} for part in it["content"]]},
    "without its text": lambda it: {**it, "content": None},
}


async def talk(flow: GatewayFlow, history: list[Any], turns: int, respell: Callable[[Any], Any]) -> None:
    async with aiohttp.ClientSession(headers={"Authorization": "Bearer fake-key-one"}) as session:
        for turn in range(turns):
            history.append({"role": "user", "content": f"go on {turn}"})
            body = {"model": GATEWAY_MODEL, "messages": history, "tools": TOOLS}
            async with session.post(f"{flow.base_url}/chat/completions", json=body) as response:
                reply = (await response.json())["choices"][0]["message"]
            history.append(respell(reply))
            results = [
                {"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in reply.get("tool_calls", ())
            ]
            history.extend(results)
    await flow.wait_for_recordings()


@pytest.mark.parametrize("spelling", list(SPELLINGS))
async def test_a_respelled_reply_is_the_same_reply_here_and_after_a_restart(tmp_path: Path, spelling: str) -> None:
    caller, history = RandomIdCaller(), list[Any]()
    for _ in range(2):
        async with gateway_with(Upstream(answers=caller), tmp_path) as flow:
            await talk(flow, history, TURNS, SPELLINGS[spelling])
            sessions = await flow.store.list_sessions()
            assert len(sessions) == 1
    async with gateway_with(Upstream(answers=caller), tmp_path) as flow:
        (session,) = await flow.store.list_sessions()
        # The result behind the last reply was not sent yet.
        assert len(await flow.store.messages(session.id)) == len(history) - 1
