"""Limits that an upstream states: for the caller they were stated to, and never from words of the request itself."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import aiohttp

from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer, UpstreamFault
from clew.testing.upstream_rules import UpstreamRules
from tests.support.gateway import GatewayFlow, gateway_with

OVERFLOW = "This model's maximum context length is 4200 tokens. However, your messages resulted in 9000 tokens."


async def ask(flow: GatewayFlow, body: dict[str, Any], key: str, **headers: str) -> tuple[int, dict[str, Any]]:
    sent = {"Authorization": f"Bearer {key}", **headers}
    url = f"{flow.base_url}/chat/completions"
    async with aiohttp.ClientSession(headers=sent) as http, http.post(url, json=body) as response:
        answer = await response.json()
        await flow.wait_for_recordings()
        return response.status, answer


def talk(turns: int, words: int = 60) -> dict[str, Any]:
    said = [
        ({"role": "user", "content": f"{n} " + "words " * words}, {"role": "assistant", "content": "yes"})
        for n in range(turns)
    ]
    return {
        "model": GATEWAY_MODEL,
        "messages": [*(it for pair in said for it in pair), {"role": "user", "content": "on"}],
    }


def refused(message: str, code: str | None = None) -> UpstreamFault:
    return UpstreamFault(400, {"error": {"message": message, "type": "invalid_request_error", "code": code}})


async def test_words_that_an_error_quotes_from_the_request_teach_nothing(tmp_path: Path) -> None:
    upstream = Upstream(refused(f"Invalid value: '{OVERFLOW}'"), answers=lambda _: UpstreamAnswer("done"))
    async with gateway_with(upstream, tmp_path, window=60_000) as flow:
        status, answer = await ask(flow, {**talk(30), "tool_choice": OVERFLOW}, "fake-key-a")
        assert (status, answer["error"]["message"]) == (400, f"Invalid value: '{OVERFLOW}'")
        body = talk(60)
        await ask(flow, body, "fake-key-a")
        assert upstream.received[-1].body["messages"] == body["messages"]


async def test_a_limit_that_one_caller_is_told_is_not_another_callers(tmp_path: Path) -> None:
    upstream = Upstream(refused(OVERFLOW, "context_length_exceeded"), answers=lambda _: UpstreamAnswer("done"))
    async with gateway_with(upstream, tmp_path, window=60_000) as flow:
        assert (await ask(flow, talk(60), "fake-key-a"))[0] == 200
        folded = len(upstream.received[-1].body["messages"])
        assert folded < 121
        other = talk(61)
        await ask(flow, other, "fake-key-b")
        assert upstream.received[-1].body["messages"] == other["messages"]
        await ask(flow, talk(62), "fake-key-a")
        assert len(upstream.received[-1].body["messages"]) < 125


async def test_an_output_cap_that_was_refused_once_is_lowered_at_once_the_next_time(tmp_path: Path) -> None:
    rules = UpstreamRules(window=8_000, counts_output=True)
    upstream = Upstream(answers=lambda _: UpstreamAnswer("done"), rules=rules)
    async with gateway_with(upstream, tmp_path) as flow:
        body: dict[str, Any] = {"model": GATEWAY_MODEL, "max_tokens": 64_000, "messages": []}
        for turn in range(60):
            body["messages"].append({"role": "user", "content": f"{turn} " + "words " * 100})
            status, answer = await ask(flow, body, "fake-key-a")
            assert status == 200, answer
            body["messages"].append(answer["choices"][0]["message"])
        assert sum(it.status == 400 for it in upstream.received) <= 2
        assert any(record.is_folded for record in flow.exchanges)


async def test_a_client_with_the_long_window_is_not_folded_at_the_short_one(tmp_path: Path) -> None:
    upstream = Upstream(answers=lambda _: UpstreamAnswer("done"))
    environ = {"CLEW_MODEL_NAME": "", "CLEW_MODEL_CONTEXT_LENGTH": ""}
    async with gateway_with(upstream, tmp_path, environ=environ) as flow:
        body = {**talk(60, words=4_000), "model": "claude-sonnet-4-5", "max_tokens": 1_000}
        url, key = f"{flow.base_url}/messages", {"x-api-key": "fake-key-a"}
        for beta, is_whole in (("context-1m-2025-08-07,other", True), ("other", False)):
            raw, headers = io.BytesIO(json.dumps(body).encode()), {**key, "anthropic-beta": beta}
            async with aiohttp.ClientSession(headers=headers) as http, http.post(url, data=raw) as response:
                assert response.status == 200
            await flow.wait_for_recordings()
            assert (upstream.received[-1].body["messages"] == body["messages"]) is is_whole
