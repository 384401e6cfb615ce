"""Conversations whose prompt and tools take a large part of the window: a fold leaves room for many turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp

from clew.events import CompactionFinished
from clew.messages import ToolCall
from clew.testing.gateway import GATEWAY_MODEL, gateway_with
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer
from clew.testing.upstream_rules import UpstreamRules

WINDOW, ROUNDS = 48_000, 60
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}" if number else "shell",
            "description": f"{number} " + " ".join(WORDS) * 40,
            "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
        },
    }
    for number in range(16)
]
SYSTEM = {"role": "system", "content": "You are careful. " + "A rule that is to be followed at all times. " * 900}


def calls_shell(received: ReceivedRequest) -> UpstreamAnswer:
    number = len(received.body["messages"])
    arguments = json.dumps({"command": f"python -m pytest tests/test_{number}.py"})
    made: ToolCall = {
        "id": f"call_{number}abc",
        "type": "function",
        "function": {"name": "shell", "arguments": arguments},
    }
    return UpstreamAnswer("", (made,), number=number)


async def test_a_fold_leaves_room_although_prompt_and_tools_are_large(tmp_path: Path) -> None:
    upstream = Upstream(answers=calls_shell, rules=UpstreamRules(window=WINDOW))
    async with gateway_with(upstream, tmp_path, window=WINDOW) as flow, aiohttp.ClientSession() as http:
        items: list[Any] = [SYSTEM, {"role": "user", "content": "Make all tests of this project pass."}]
        for number in range(ROUNDS):
            body = {"model": GATEWAY_MODEL, "messages": items, "tools": TOOLS, "max_tokens": 12_500}
            async with http.post(f"{flow.base_url}/chat/completions", json=body) as response:
                assert response.status == 200, await response.read()
                said = (await response.json())["choices"][0]["message"]
            lines = [f"test_{line}_{number}.py::case {WORDS[line % 10]} passed" for line in range(110)]
            items += [said, {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "\n".join(lines)}]
        folds = [it for it in flow.events if isinstance(it, CompactionFinished) and it.continued_as]
        assert len(folds) <= 7
