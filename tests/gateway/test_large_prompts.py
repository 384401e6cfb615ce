"""Conversations whose prompt and tools take a large part of the window: a fold leaves room for many turns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import clew
from clew.events import CompactionFinished
from clew.messages import ToolCall
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer
from clew.testing.upstream_rules import UpstreamRules
from tests.support.gateway import gateway_with

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


def result_of(text: str) -> list[Any]:
    function = {"name": "shell", "arguments": json.dumps({"command": "cat big.log"})}
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    return [
        {"role": "user", "content": "Read the log."},
        asked,
        {"role": "tool", "tool_call_id": "call_1", "content": text},
    ]


def transcript_of(text: str) -> list[Any]:
    return [{"role": "system", "content": "You summarise."}, {"role": "user", "content": f"Summarise this.\n{text}"}]


@pytest.mark.parametrize("messages_of", [result_of, transcript_of])
async def test_a_single_oversized_message_uses_the_free_window_and_fits_it(
    tmp_path: Path, messages_of: Callable[[str], list[Any]]
) -> None:
    window = 64_000
    log = "\n".join(f"line {number} has the value {number * 7919 % 10007}" for number in range(25_000))
    upstream = Upstream(answers=lambda _: UpstreamAnswer("ok"), rules=UpstreamRules(window=window, pairs=True))
    async with gateway_with(upstream, tmp_path, window=window) as flow, aiohttp.ClientSession() as http:
        messages = messages_of(log)
        body = {"model": GATEWAY_MODEL, "messages": messages, "tools": TOOLS[:1]}
        async with http.post(f"{flow.base_url}/chat/completions", json=body) as response:
            assert response.status == 200, await response.read()
        sent = upstream.calls[-1].body["messages"]
        counted = clew.count_tokens(sent, tools=TOOLS[:1], model=GATEWAY_MODEL)
        assert 0.65 * window < counted < 0.85 * window
        assert "line 3 has" in sent[-1]["content"] and "line 24999 has" in sent[-1]["content"]
        assert len(upstream.calls) == 1
