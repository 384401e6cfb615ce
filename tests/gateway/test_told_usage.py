"""What clients are told of usage: it falls after a fold, agrees with count_tokens, and never makes them compact."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.gateway.clients import MAX_CLIENT_BYTES, UNKNOWN_CLIENT, client_of, told_prompt_tokens
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.usage import CanonicalUsage
from tests.support.gateway import GatewayFlow, gateway_with

LONG = "words to fill the window " * 60
CLAUDE = {"user-agent": "claude-cli/2.1.197 (external, cli)"}


async def post(flow: GatewayFlow, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[bytes, Any]:
    url = flow.base_url + path
    async with aiohttp.ClientSession(headers=headers or {}) as session, session.post(url, json=body) as response:
        raw = await response.read()
        assert response.status == 200, raw
        return raw, json.loads(raw) if raw.startswith(b"{") else None


def prompt(usage: dict[str, Any]) -> int:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(usage.get(name) or 0 for name in names)


async def test_usage_falls_after_every_fold(tmp_path: Path) -> None:
    async with gateway_with(Upstream(*[UpstreamAnswer("a")] * 40, caches=True), tmp_path) as flow:
        items: list[Any] = []
        told: list[int] = []
        sent: list[int] = []
        for turn in range(40):
            items.append({"role": "user", "content": f"question {turn} {LONG}"})
            body = {"model": GATEWAY_MODEL, "max_tokens": 100, "messages": items}
            _, answer = await post(flow, "/messages", body)
            told.append(prompt(answer["usage"]))
            sent.append(len(flow.upstream.received[-1].body["messages"]))
            items.append({"role": "assistant", "content": answer["content"]})
        folds = [at for at in range(1, 40) if sent[at] < sent[at - 1]]
        assert len(folds) >= 2
        assert all(told[at] < told[at - 1] for at in folds)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_client_is_never_told_so_much_that_it_compacts_by_itself(tmp_path: Path, stream: bool) -> None:
    usage = CanonicalUsage(input_tokens=1_000, cache_read_tokens=5_000, cache_write_tokens=700, output_tokens=9)
    async with gateway_with(Upstream(*[UpstreamAnswer("hello there", usage=usage)] * 2), tmp_path) as flow:
        body = {"model": GATEWAY_MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "a"}]}
        raw, answer = await post(flow, "/messages", {**body, "stream": stream}, CLAUDE)
        if stream:
            events = [json.loads(line[5:]) for line in raw.decode().splitlines() if line.startswith("data:")]
            answer = events[0]["message"]
            assert events[-1] == {"type": "message_stop"}
        # It would compact at 80% of 8,000.
        assert prompt(answer["usage"]) <= 0.8 * 8_000
        _, unknown = await post(flow, "/messages", body)
        assert prompt(unknown["usage"]) == 6_700
        await flow.wait_for_recordings()
        (total, *_) = await flow.store.usage()
        assert total.usage.prompt_tokens == 2 * 6_700  # what is recorded is what it was


async def test_pi_is_known_by_its_prompt_where_it_has_the_user_agent_of_openais_sdk(tmp_path: Path) -> None:
    agent = {"user-agent": "OpenAI/JS 6.26.0"}
    prompt = "You are an expert coding assistant operating inside pi, a coding agent harness. You help users."
    async with gateway_with(Upstream(*[UpstreamAnswer("a")] * 2), tmp_path) as flow:
        for system in (prompt, "You are helpful."):
            talk = [{"role": "system", "content": system}, {"role": "user", "content": "a"}]
            await post(flow, "/chat/completions", {"model": GATEWAY_MODEL, "messages": talk}, agent)
        while len(flow.exchanges) < 2:  # noqa: ASYNC110 (they end shortly after the client has the reply)
            await asyncio.sleep(0.01)
        assert [it.client for it in flow.exchanges] == ["pi", ""]


def test_a_client_whose_own_history_is_huge_is_told_that_its_window_is_full() -> None:
    for client in (client_of(CLAUDE), UNKNOWN_CLIENT):
        assert told_prompt_tokens(client, 200_000, 60_000, MAX_CLIENT_BYTES + 1) >= 200_000


async def test_a_client_that_sends_very_large_requests_is_told_that_its_window_is_full(tmp_path: Path) -> None:
    usage = CanonicalUsage(input_tokens=1_000, output_tokens=9)
    async with gateway_with(Upstream(*[UpstreamAnswer("hello", usage=usage)] * 2), tmp_path) as flow:
        body = {"model": GATEWAY_MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "a"}]}
        _, answer = await post(flow, "/messages", body)
        assert prompt(answer["usage"]) == 1_000
        large = io.BytesIO(json.dumps({**body, "metadata": {"padding": "x" * MAX_CLIENT_BYTES}}).encode())
        async with aiohttp.ClientSession() as http, http.post(f"{flow.base_url}/messages", data=large) as response:
            assert prompt((await response.json())["usage"]) == 8_000


def test_clients_are_known_by_what_they_send() -> None:
    assert client_of({"user-agent": "codex_exec/0.166.0 (Linux)"}).name == "Codex"
    assert client_of({"x-codex-window-id": "abc:1"}).name == "Codex"
    assert client_of(CLAUDE).name == "Claude Code"
    assert client_of({"user-agent": "opencode/1.18.33 ai-sdk/provider-utils"}).name == "opencode"
    assert client_of({"user-agent": "GeminiCLI/0.61.0 (linux; x64)"}).name == "Gemini CLI"
    assert client_of({"user-agent": "QwenCode/0.15.10 (linux; x64)"}).name == "Qwen Code"
    assert client_of({"user-agent": "AsyncOpenAI/Python 3.49"}).name == ""
