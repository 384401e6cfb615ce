"""Every request that a provider is paid for is charged to its key and stored, whatever becomes of the conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.gateway import hash_key, make_key
from clew.store import CallFilter, NewKey
from clew.testing.upstream import ReceivedRequest, Step, StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault
from clew.usage import CanonicalUsage
from tests.support.gateway import GatewayFlow, gateway_with

MODEL = "claude-sonnet-4-5"
ENVIRON = {"CLEW_MODEL_API_KEY_ENV": "UPSTREAM_KEY", "UPSTREAM_KEY": "fake-key-of-the-upstream"}
LONG = "many words of a reply that is paid for. " * 60
ASKED = {"role": "user", "content": "a question of some length. " * 40}
CHAT = {"model": MODEL, "messages": [ASKED]}
ODD_CALLS = {"model": MODEL, "messages": [{**ASKED, "tool_calls": 5}]}
SILENT = UpstreamAnswer(LONG, usage=None)
STATED = UpstreamAnswer(LONG)
CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "a stream without usage": ("chat/completions", {**CHAT, "stream": True}, SILENT),
    "a reply without usage": ("chat/completions", CHAT, SILENT),
    "a stream that breaks off": ("chat/completions", {**CHAT, "stream": True}, StreamedAnswer(SILENT, cut_after=20)),
    "previous_response_id": ("responses", {"model": MODEL, "input": "on", "previous_response_id": "r_1"}, STATED),
    "a provider's conversation": ("responses", {"model": MODEL, "input": "on", "conversation": "c_1"}, STATED),
    "a request that falls back": ("chat/completions", ODD_CALLS, STATED),
    "an odd prompt": ("messages", {"model": MODEL, "system": 5, "max_tokens": 9, "messages": [ASKED]}, STATED),
}


async def key_of(flow: GatewayFlow, budget_micros: int = 1_000_000_000) -> str:
    key = make_key()
    await flow.store.create_key(NewKey("ann", hash_key(key), budget_micros=budget_micros))
    return key


async def spent(flow: GatewayFlow) -> tuple[int, int]:
    """What the key was charged, and what its owner's calls cost by the store."""
    await flow.wait_for_recordings()
    (key,) = await flow.store.list_keys()
    (total,) = await flow.store.usage(which=CallFilter(owner="ann"))
    return key.spent_micros, total.cost_micros


@pytest.mark.parametrize("case", list(CASES))
async def test_the_key_is_charged_what_the_store_has(tmp_path: Path, case: str) -> None:
    path, body, answer = CASES[case]
    async with gateway_with(Upstream(answer, answer), tmp_path, environ=ENVIRON, window=200_000) as flow:
        headers = {"Authorization": f"Bearer {await key_of(flow)}"}
        for _ in range(2):
            async with aiohttp.ClientSession(headers=headers) as http:
                try:
                    async with http.post(f"{flow.base_url}/{path}", json=body) as response:
                        await response.read()
                except aiohttp.ClientPayloadError:
                    assert case == "a stream that breaks off"
        charged, stored = await spent(flow)
        assert charged == stored > 0
        (total,) = await flow.store.usage(which=CallFilter(owner="ann"))
        assert total.calls == 2


async def test_a_client_that_hangs_up_is_charged_for_what_came(tmp_path: Path) -> None:
    upstream = Upstream(UpstreamAnswer(LONG), event_delay=0.02)
    async with gateway_with(upstream, tmp_path, environ=ENVIRON, window=200_000) as flow:
        headers = {"Authorization": f"Bearer {await key_of(flow)}"}
        async with aiohttp.ClientSession(headers=headers) as http:
            body = {**CHAT, "stream": True}
            async with http.post(f"{flow.base_url}/chat/completions", json=body) as response:
                await response.content.readany()
                await response.content.readany()
        async with asyncio.timeout(10):
            while not (await spent(flow))[0]:  # noqa: ASYNC110 (nothing tells when the gateway has noticed)
                await asyncio.sleep(0.01)
        charged, stored = await spent(flow)
        assert charged == stored


async def test_a_hosted_key_is_charged_for_the_summaries_of_its_conversation_too(tmp_path: Path) -> None:
    def answers(received: ReceivedRequest) -> UpstreamAnswer:
        return UpstreamAnswer("a summary of all that" if "hand" in str(received.body)[-2_000:] else LONG)

    upstream = Upstream(answers=answers)
    async with gateway_with(upstream, tmp_path, environ=ENVIRON, window=200_000) as flow:
        headers = {"Authorization": f"Bearer {await key_of(flow)}"}
        async with aiohttp.ClientSession(f"{flow.root}/clew/", headers=headers) as http:
            async with http.post("conversations", json={"model": MODEL}) as response:
                id = (await response.json())["id"]
            for number in range(6):
                async with http.post(f"conversations/{id}/messages", json={"content": f"{number} {ASKED}"}) as response:
                    assert response.status == 200, await response.text()
            asked = len(upstream.calls)
            async with http.post(f"conversations/{id}/compress", json={}) as response:
                assert response.status == 200
        assert len(upstream.calls) > asked
        charged, stored = await spent(flow)
        assert charged == stored > 0


REQUESTS = st.lists(st.tuples(st.integers(1, 3_000), st.integers(0, 1_500), st.booleans()), min_size=6, max_size=12)


@settings(max_examples=12, deadline=None)
@given(requests=REQUESTS, budget=st.integers(1, 20_000))
async def test_requests_at_once_pass_a_budget_by_one_of_them_at_most(
    requests: list[tuple[int, int, bool]], budget: int
) -> None:
    """Of prompts and replies of any length, in two processes' gateways; some are refused by the upstream."""

    def answer(received: ReceivedRequest) -> Step:
        _, output, fails = asked[received.body["user"]]
        usage = CanonicalUsage(len(received.raw) // 4, output)
        return UpstreamFault(500, {}) if fails else UpstreamAnswer("yes", usage=usage)

    asked = {str(at): it for at, it in enumerate(requests)}
    with TemporaryDirectory() as folder:
        store_url, upstream = f"{folder}/state.db", Upstream(answers=answer)
        async with (
            upstream,
            gateway_with(upstream, Path(folder) / "one", environ=ENVIRON, store_url=store_url) as one,
            gateway_with(upstream, Path(folder) / "two", environ=ENVIRON, store_url=store_url) as two,
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {await key_of(one, budget)}"}) as http,
        ):

            async def ask(name: str) -> int:
                words = f"{name} " + "word " * asked[name][0]
                body = {"model": MODEL, "messages": [{"role": "user", "content": words}], "user": name}
                async with http.post(f"{(one, two)[int(name) % 2].base_url}/chat/completions", json=body) as response:
                    return response.status

            statuses = await asyncio.gather(*map(ask, asked))
            assert set(statuses) <= {200, 402, 429, 500} and {200, 500} & set(statuses)
            for flow in (one, two):
                await flow.wait_for_recordings()
            charged, stored = await spent(one) if 200 in statuses else (0, 0)
            costs = [it.cost_micros or 0 for it in (*one.exchanges, *two.exchanges)]
            assert charged == stored == sum(costs)
            assert charged - max(costs) < budget
            # Whatever was refused or failed left nothing reserved.
            (key,) = await one.store.list_keys()
            reserved = await one.store.reserve_spending(key.id, 1, 60.0)
            assert (reserved.id is None) == (charged >= budget)
