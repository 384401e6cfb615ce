"""Spill and observe, folds that pay back, and money that is told honestly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.gateway.conversations import direct_usage, pays_back
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.usage import CanonicalUsage
from tests.support.gateway import GatewayFlow, gateway_with

LONG = "words to fill the window " * 60
PRICED = "claude-sonnet-4-5"


async def post(flow: GatewayFlow, items: list[Any], headers: dict[str, str] | None = None, **fields: Any) -> Any:
    body = {"model": GATEWAY_MODEL, "messages": items, **fields}
    url = f"{flow.base_url}/chat/completions"
    async with aiohttp.ClientSession(headers=headers or {}) as session, session.post(url, json=body) as response:
        assert response.status == 200, await response.read()
        return await response.json()


def sent(flow: GatewayFlow, number: int = -1) -> list[Any]:
    messages: list[Any] = flow.upstream.received[number].body["messages"]
    return messages


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def call(number: int) -> dict[str, Any]:
    function = {"name": "read_logs", "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }


def result(number: int, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": text}


async def test_spill_shortens_a_new_result_that_is_too_large_and_the_same_way_ever_after(tmp_path: Path) -> None:
    huge = "".join(f"line {number} of a log that nobody reads\n" for number in range(9_000))
    async with gateway_with(Upstream(*[UpstreamAnswer("ok")] * 3), tmp_path, mode="spill", window=1_000_000) as flow:
        items = [user("look"), call(1), result(1, "short"), call(2), result(2, huge)]
        await post(flow, items)
        first = sent(flow)
        assert first[:4] == items[:4] and len(first[4]["content"]) < 20_000
        assert first[4]["tool_call_id"] == "c2"
        await flow.wait_for_recordings()
        items += [{"role": "assistant", "content": "ok"}, user("on")]
        await post(flow, items)
        assert json.dumps(sent(flow)[: len(first)]) == json.dumps(first)
    async with gateway_with(Upstream(UpstreamAnswer("ok")), tmp_path, mode="spill", window=1_000_000) as flow:
        await post(flow, [*items, {"role": "assistant", "content": "ok"}, user("after a restart")])
        assert json.dumps(sent(flow)[: len(first)]) == json.dumps(first)
        found = await flow.store.search("line 8999 of a log")
        assert found.hits


async def test_spill_does_not_fold(tmp_path: Path) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("ok")), tmp_path, mode="spill") as flow:
        items = [user(LONG) if at % 2 == 0 else {"role": "assistant", "content": "a"} for at in range(61)]
        await post(flow, items)
        assert sent(flow) == items


@pytest.mark.parametrize(("asked", "is_folded"), [("observe", False), ("compact", True), ("nonsense", True)])
async def test_the_mode_of_a_request_counts_before_that_of_the_gateway(
    tmp_path: Path, asked: str, is_folded: bool
) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("ok")), tmp_path) as flow:
        items = [user(LONG) if at % 2 == 0 else {"role": "assistant", "content": "a"} for at in range(61)]
        await post(flow, items, {"x-clew-mode": asked})
        assert (sent(flow) != items) is is_folded


async def test_a_cap_that_fills_the_window_does_not_fold_every_request(tmp_path: Path) -> None:
    """Claude Code asks for 32,000 tokens of output at every call, whatever the window is."""
    async with gateway_with(Upstream(*[UpstreamAnswer("ok")] * 6), tmp_path, window=40_000) as flow:
        items: list[Any] = [{"role": "system", "content": "rules " * 12_000}]
        for turn in range(6):
            items.append(user(f"question {turn}"))
            await post(flow, items, max_tokens=32_000)
            assert sent(flow) == items
            await flow.wait_for_recordings()
            items.append({"role": "assistant", "content": "ok"})


def test_a_fold_waits_where_the_session_will_not_pay_it_back() -> None:
    assert not pays_back(170_000, 2, PRICED, None)
    assert pays_back(170_000, 40, PRICED, None)
    assert pays_back(170_000, 1, "a-model-nobody-priced", None)
    assert pays_back(170_000, 1, "llama3", "ollama")


async def test_a_fold_that_does_not_pay_waits_until_it_must_be(tmp_path: Path) -> None:
    environ = {"CLEW_MODEL_NAME": PRICED, "CLEW_MODEL_CONTEXT_LENGTH": "8000"}
    async with gateway_with(Upstream(*[UpstreamAnswer("ok")] * 2), tmp_path, environ=environ) as flow:
        few = [
            user(LONG * 9),
            {"role": "assistant", "content": LONG * 9},
            user(LONG * 4),
            {"role": "assistant", "content": "a"},
        ]
        items = [*few, user("x " * 100)]
        await post(flow, items, model=PRICED)
        assert sent(flow) == items
        await post(flow, [*few, user("x " * 1_100)], model=PRICED)
        assert len(json.dumps(sent(flow))) < len(json.dumps(items))


def test_a_direct_request_is_never_told_as_dearer_than_it_would_have_been() -> None:
    usage = CanonicalUsage(input_tokens=100, cache_read_tokens=20_000, cache_write_tokens=900, output_tokens=50)
    assert direct_usage(usage, 0, 0) is usage
    direct = direct_usage(usage, 100_000, 119_000)
    assert direct.prompt_tokens == 121_000
    assert direct.cache_read_tokens == 120_000 and direct.cache_write_tokens == 1_000


async def test_savings_are_recorded_beside_what_was_paid(tmp_path: Path) -> None:
    environ = {"CLEW_MODEL_NAME": PRICED, "CLEW_MODEL_CONTEXT_LENGTH": "8000"}
    async with gateway_with(Upstream(*[UpstreamAnswer("a")] * 40, caches=True), tmp_path, environ=environ) as flow:
        items: list[Any] = []
        for turn in range(40):
            items.append(user(f"question {turn} {LONG}"))
            await post(flow, items, model=PRICED)
            await flow.wait_for_recordings()
            items.append({"role": "assistant", "content": "a"})
        (total,) = await flow.store.usage()
        assert total.calls == total.compared_calls == 40
        assert total.cost_direct_micros > total.cost_compared_micros > 0
        before = sum(record.cost_micros or 0 for record in flow.exchanges)
        assert total.cost_micros == before
