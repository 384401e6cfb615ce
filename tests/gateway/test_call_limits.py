"""Requests in a minute and at the same time: of one caller, of all, and who is forgotten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from clew.gateway import CallLimits, CallMeter, GatewayOptions, Refusal, SharedCallCounts
from clew.gateway.limits import MAX_CALLERS
from clew.testing.gateway import GATEWAY_MODEL, gateway_with
from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer
from tests.gateway.raw_http import PROVIDER_KEY, answering, ask_raw, body_for, make_caller

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


def send(meter: CallMeter, caller: str = "ann") -> None:
    with meter.admit(caller):
        pass


def refusal(meter: CallMeter, caller: str = "ann") -> Refusal:
    with pytest.raises(Refusal) as refused:
        send(meter, caller)
    assert refused.value.status == 429
    return refused.value


def test_a_minutes_requests_may_come_at_once_and_then_steadily() -> None:
    meter, clock = meter_with(per_minute=30)
    for _ in range(30):
        send(meter)
    assert refusal(meter).headers["Retry-After"] == "2"
    send(meter, "bob")
    clock.now = 2.0
    send(meter)
    refusal(meter)
    clock.now = 1_000.0
    for _ in range(30):
        send(meter)
    refusal(meter)


def test_a_client_that_comes_when_it_was_told_to_is_served() -> None:
    meter, clock = meter_with(per_minute=7)
    for _ in range(7):
        send(meter)
    for _ in range(20):
        clock.now += int(refusal(meter).headers["Retry-After"])
        send(meter)


def test_requests_at_the_same_time_are_counted_until_they_end() -> None:
    meter, _ = meter_with(at_once=2)
    with meter.admit("ann"):
        with meter.admit("ann"):
            assert "2 requests under way" in str(refusal(meter))
            send(meter, "bob")
        send(meter)
    with pytest.raises(ValueError, match="breaks"), meter.admit("ann"):
        raise ValueError("breaks")
    assert meter.under_way == 0


def test_all_callers_together_have_limits_too() -> None:
    meter, clock = meter_with(total_at_once=1, total_per_minute=3)
    with meter.admit("ann"):
        assert "this gateway" in str(refusal(meter, "bob"))
    send(meter, "bob")
    send(meter, "eve")
    assert refusal(meter, "dan").headers["Retry-After"] == "20"
    clock.now = 20.0
    send(meter, "dan")


def test_no_limit_is_no_limit() -> None:
    meter = CallMeter(NO_LIMITS, SetClock())
    for _ in range(20_000):
        send(meter)


def test_callers_that_never_come_again_are_forgotten() -> None:
    meter, clock = meter_with(per_minute=10)
    with meter.admit("slow"):
        for number in range(100):
            send(meter, f"caller {number}")
        meter.forget_resting()
        assert meter.callers == 101
        clock.now = 60.0
        meter.forget_resting()
        assert meter.callers == 1
    clock.now = 120.0
    meter.forget_resting()
    assert meter.callers == 0


def test_the_table_of_callers_has_a_bound() -> None:
    meter, _ = meter_with(per_minute=10)
    with meter.admit("slow"):
        for number in range(MAX_CALLERS + 500):
            send(meter, f"caller {number}")
        assert meter.callers <= MAX_CALLERS
    for _ in range(9):
        send(meter, "slow")
    refusal(meter, "slow")  # whoever has something under way is not forgotten


# -- in several processes ----------------------------------------------------------------------------------------------


@contextmanager
def shared_meters(path: Path, **limits: int) -> Iterator[tuple[CallMeter, CallMeter]]:
    """Those of two workers."""
    none: dict[str, int | None] = dict.fromkeys(("per_minute", "at_once", "total_per_minute", "total_at_once"))
    with ExitStack() as last:
        counts = [SharedCallCounts(path, worker) for worker in (0, 1)]
        for one in counts:
            last.callback(one.close)
        first, second = (CallMeter(CallLimits(**{**none, **limits}), SetClock(), one) for one in counts)
        yield first, second


def test_workers_count_the_requests_of_a_minute_together(tmp_path: Path) -> None:
    with shared_meters(tmp_path / "calls", per_minute=6) as (one, two):
        for _ in range(3):
            send(one)
            send(two)
        assert refusal(one).headers["Retry-After"] == refusal(two).headers["Retry-After"] == "10"
        send(two, "bob")


def test_workers_count_requests_under_way_together(tmp_path: Path) -> None:
    with shared_meters(tmp_path / "calls", at_once=2, total_at_once=3) as (one, two):
        with one.admit("ann"), two.admit("ann"):
            assert "2 requests under way" in str(refusal(one))
            with two.admit("bob"):
                assert "this gateway has 3 requests" in str(refusal(one, "cid"))
            assert (one.under_way, two.under_way) == (1, 1)
        send(one)


def test_what_a_killed_worker_had_under_way_is_taken_back(tmp_path: Path) -> None:
    with shared_meters(tmp_path / "calls", at_once=2) as (one, two), one.admit("ann"), two.admit("ann"):
        refusal(two)
        SharedCallCounts(tmp_path / "calls", 0).close()  # another one begins in its place
        send(two)


def test_the_shared_table_makes_room_for_new_callers(tmp_path: Path) -> None:
    with shared_meters(tmp_path / "calls", per_minute=2) as (one, two):
        with one.admit("slow"):
            for number in range(6_000):
                send(two, f"caller {number}")
        send(one, "slow")
        refusal(two, "slow")


# -- on the wire -------------------------------------------------------------------------------------------------------


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
