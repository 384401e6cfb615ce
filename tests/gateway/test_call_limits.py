"""Requests in a minute and at the same time: of one caller, of all, and who is forgotten."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from clew.gateway import CallLimits, CallMeter, GatewayOptions, Refusal
from clew.gateway.admission import MAX_CALLERS
from clew.store import open_store
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer
from tests.gateway.raw_http import PROVIDER_KEY, answering, ask_raw, body_for, make_caller
from tests.support.gateway import gateway_with

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", f"/v1beta/models/{GATEWAY_MODEL}:generateContent")
NO_LIMITS = CallLimits(None, None, None, None)


@dataclass(slots=True)
class SetClock:
    """A clock that stands until it is set."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def meter_with(**limits: int) -> tuple[CallMeter, SetClock]:
    clock = SetClock()
    none: dict[str, int | None] = dict.fromkeys(("per_minute", "at_once", "total_per_minute", "total_at_once"))
    return CallMeter(CallLimits(**{**none, **limits}), clock), clock


async def send(meter: CallMeter, caller: str = "ann") -> None:
    async with meter.admit(caller):
        pass


async def refusal(meter: CallMeter, caller: str = "ann") -> Refusal:
    with pytest.raises(Refusal) as refused:
        await send(meter, caller)
    assert refused.value.status == 429
    return refused.value


async def test_a_minutes_requests_may_come_at_once_and_then_steadily() -> None:
    meter, clock = meter_with(per_minute=30)
    for _ in range(30):
        await send(meter)
    assert (await refusal(meter)).headers["Retry-After"] == "2"
    await send(meter, "bob")
    clock.now = 2.0
    await send(meter)
    await refusal(meter)
    clock.now = 1_000.0
    for _ in range(30):
        await send(meter)
    await refusal(meter)


async def test_a_client_that_comes_when_it_was_asked_to_is_served() -> None:
    meter, clock = meter_with(per_minute=7)
    for _ in range(7):
        await send(meter)
    for _ in range(20):
        clock.now += int((await refusal(meter)).headers["Retry-After"])
        await send(meter)


async def test_requests_at_the_same_time_are_counted_until_they_end() -> None:
    meter, _ = meter_with(at_once=2)
    async with meter.admit("ann"):
        async with meter.admit("ann"):
            assert "2 requests under way" in str(await refusal(meter))
            await send(meter, "bob")
        await send(meter)
    with pytest.raises(ValueError, match="breaks"):
        async with meter.admit("ann"):
            raise ValueError("breaks")
    assert meter.under_way == 0


async def test_all_callers_together_have_limits_too() -> None:
    meter, clock = meter_with(total_at_once=1, total_per_minute=3)
    async with meter.admit("ann"):
        assert "this gateway" in str(await refusal(meter, "bob"))
    await send(meter, "bob")
    await send(meter, "eve")
    assert (await refusal(meter, "dan")).headers["Retry-After"] == "20"
    clock.now = 20.0
    await send(meter, "dan")


async def test_no_limit_is_no_limit() -> None:
    meter = CallMeter(NO_LIMITS, SetClock())
    for _ in range(20_000):
        await send(meter)


async def test_callers_that_never_come_again_are_forgotten() -> None:
    meter, clock = meter_with(per_minute=10)
    async with meter.admit("slow"):
        for number in range(100):
            await send(meter, f"caller {number}")
        await meter.forget_resting()
        assert meter.callers == 101
        clock.now = 60.0
        await meter.forget_resting()
        assert meter.callers == 1
    clock.now = 120.0
    await meter.forget_resting()
    assert meter.callers == 0


async def test_the_table_of_callers_has_a_bound() -> None:
    meter, _ = meter_with(per_minute=10)
    async with meter.admit("slow"):
        for number in range(MAX_CALLERS + 500):
            await send(meter, f"caller {number}")
        assert meter.callers <= MAX_CALLERS
        for _ in range(9):
            await send(meter, "slow")
        await refusal(meter, "slow")  # whoever has something under way is not forgotten


@pytest.mark.parametrize("per_minute", [1, 6, 130, 1_000])
async def test_processes_count_the_requests_of_a_minute_together(tmp_path: Path, per_minute: int) -> None:
    clock = SetClock(1_000_000.0)
    path, limits = tmp_path / "state.db", CallLimits(per_minute=per_minute)
    async with open_store(path, clock=clock) as first, open_store(path, clock=clock) as second:
        meters = [CallMeter(limits, clock, store) for store in (first, second)]
        served = 0
        for _ in range(20):
            for at in range(per_minute // 10 + 1):
                try:
                    await send(meters[at % 2])
                    served += 1
                except Refusal as refused:
                    assert refused.status == 429
        # What one of them took and has not used is all that may be missing.
        assert per_minute - per_minute // 64 - 1 < served <= per_minute
        await send(meters[0], "bob")
        clock.now += 60
        await send(meters[1])
        clock.now += 300
        await meters[0].forget_resting()
        assert meters[0].callers == 0


async def test_callers_are_served_while_the_store_is_away(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state.db")
    async with store as opened:
        meter = CallMeter(CallLimits(per_minute=2), SetClock(), opened)
    for _ in range(5):
        await send(meter)  # the store is closed
    assert meter.under_way == 0


@pytest.mark.parametrize("path", PATHS)
async def test_one_request_too_many_is_told_when_to_come_again_as_its_wire_tells_it(tmp_path: Path, path: str) -> None:
    listen = GatewayOptions(limits=CallLimits(per_minute=2))
    async with gateway_with(answering(), tmp_path, listen=listen) as flow:
        key = ("x-api-key", PROVIDER_KEY)
        assert [(await ask_raw(flow, path, key)).status for _ in range(2)] == [200, 200]
        refused = await ask_raw(flow, path, key)
        assert refused.status == 429 and refused.headers["retry-after"] == "30"
        error = refused.json["error"]
        assert error.get("type", error.get("status")) in ("rate_limit_error", "RESOURCE_EXHAUSTED")
        assert (await ask_raw(flow, path, ("x-api-key", "fake-key-of-another"))).status == 200
        assert (await ask_raw(flow, "/healthz", key, method="GET")).status == 200
        assert len(flow.upstream.received) == 3


async def test_the_limits_of_a_key_count_whatever_header_it_stands_in(tmp_path: Path) -> None:
    listen = GatewayOptions(limits=CallLimits(per_minute=2))
    async with gateway_with(answering(), tmp_path, listen=listen) as flow:
        ann, bob = await make_caller(flow, "ann"), await make_caller(flow, "bob")
        places = [("x-api-key", ann), ("Authorization", f"Bearer {ann}"), ("x-goog-api-key", ann), ("x-api-key", bob)]
        replies = [await ask_raw(flow, "/v1/messages", place) for place in places]
        assert [reply.status for reply in replies] == [200, 200, 429, 200]
        unknown = [await ask_raw(flow, "/v1/messages", ("x-api-key", f"{ann}{number}")) for number in range(5)]
        assert {reply.status for reply in unknown} == {401} and flow.server.meter.callers == 2


async def test_a_stream_counts_until_its_end(tmp_path: Path) -> None:
    listen = GatewayOptions(limits=CallLimits(at_once=1))
    upstream = Upstream(StreamedAnswer(UpstreamAnswer("one two"), stall_after=2), UpstreamAnswer("ok"))
    async with gateway_with(upstream, tmp_path, listen=listen) as flow:
        key = ("x-api-key", PROVIDER_KEY)
        body = json.dumps({**body_for("/v1/messages"), "stream": True}).encode()
        streaming = asyncio.create_task(ask_raw(flow, "/v1/messages", key, body=body))
        await upstream.stalled.wait()
        refused = await ask_raw(flow, "/v1/messages", key)
        assert refused.status == 429 and refused.headers["retry-after"] == "1"
        streaming.cancel()
        await upstream.hung_up.wait()
        while flow.server.meter.under_way:  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0)
        assert (await ask_raw(flow, "/v1/messages", key)).status == 200
