"""Idle conversations are folded before the provider's cache expires, and earlier once it has, where that pays."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from clew.events import CompactionStarted
from clew.store import CACHE_TTL_STATE
from clew.testing.upstream import StreamedAnswer, UpstreamAnswer, UpstreamFault
from tests.gateway.test_model_handoffs import (
    HANDOFF,
    WINDOW,
    Agent,
    Model,
    asked,
    gateway,
    own,
    prompt_share,
    written_by,
)
from tests.gateway.test_tool_sessions import CLIENTS, ToolCaller
from tests.support.gateway import GatewayFlow

PRICED = "claude-sonnet-4-5"
MARKED: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}


class Clock:
    """Shows the time that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._began = time.time() - self.now

    def __call__(self) -> float:
        return self.now

    def time(self) -> float:
        """The same as the time of day."""
        return self._began + self.now


def idle_gateway(folder: Path, model: Model, clock: Clock, name: str = PRICED, **more: Any) -> Any:
    environ = {"CLEW_MODEL_NAME": name, **more.pop("environ", {})}
    return gateway(folder, model, environ=environ, **{"clock": clock, "store_clock": clock.time, **more})


async def filled(
    flow: GatewayFlow, wire: str = "chat", share: float = 0.5, *, returned: Clock | None = None, **more: Any
) -> Agent:
    """An agent whose newest reply leaves the conversation at that share of the window, with no call open.

    By the clock `returned` its person was away for more than an hour behind the first reply, and came back.
    """
    agent = Agent(flow, wire, model=more.pop("model", PRICED), **more)
    if returned is not None:
        await agent.turn()
        await flow.wait_for_handoffs()
        returned.now += 4_000
    while prompt_share(flow) < share:
        await agent.turn(words=400)
        await flow.wait_for_handoffs()
    return agent


async def pause(flow: GatewayFlow, clock: Clock, seconds: float) -> None:
    """Nothing happens for so long, and the gateway looks after what is idle meanwhile."""
    end = clock.now + seconds
    while clock.now < end:
        clock.now = min(end, clock.now + 15.0)
        await asyncio.sleep(0)  # so that the server can end what it has answered
        await flow.server.exchanges.look_after_idle()
        await flow.wait_for_handoffs()


def reasons(flow: GatewayFlow) -> list[str]:
    return [it.reason for it in flow.events if isinstance(it, CompactionStarted)]


@pytest.mark.parametrize("wire", CLIENTS)
async def test_a_large_idle_conversation_is_folded_before_the_cache_expires(tmp_path: Path, wire: str) -> None:
    clock = Clock()
    async with idle_gateway(tmp_path, Model(HANDOFF, says=True), clock) as flow:
        agent = await filled(flow, wire, returned=clock, fields=MARKED if wire == "messages" else {})
        before = len(own(flow)[-1].raw)
        await pause(flow, clock, 255)
        assert not asked(flow)
        await pause(flow, clock, 45)
        assert len(asked(flow)) == 1 and written_by(flow) == [PRICED] and reasons(flow) == ["idle"]
        await pause(flow, clock, 900)
        assert len(asked(flow)) == 1
        await agent.turn()
        assert "blue lantern" in own(flow)[-1].raw.decode() and len(own(flow)[-1].raw) < before
        assert {record.status for record in flow.exchanges} == {200}


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [(MARKED, 270), ({"cache_control": {"type": "ephemeral", "ttl": "1h"}}, 3_570), ({}, None)],
    ids=["five minutes", "an hour", "not cached"],
)
async def test_the_markers_of_a_client_say_when_its_cache_expires(
    tmp_path: Path, fields: dict[str, Any], seconds: int | None
) -> None:
    clock = Clock()
    async with idle_gateway(tmp_path, Model(HANDOFF, says=True), clock) as flow:
        await filled(flow, "messages", returned=clock, fields=fields)
        started = clock.now
        while not asked(flow) and clock.now < started + 4_000:
            await pause(flow, clock, 15)
        folded_after = clock.now - started if asked(flow) else None
        assert folded_after == seconds
        (session,) = [it.id for it in await flow.store.list_sessions(only_tips=True)]
        assert (await flow.store.state(session)).get(CACHE_TTL_STATE) == ("1h" if seconds == 3_570 else None)


@pytest.mark.parametrize(
    "more",
    [
        {"share": 0.2},
        {"returned": False},
        {"environ": {"CLEW_PROMPT_CACHING_FOLD_IDLE": "false"}},
        {"name": "a-model-without-a-price"},
        {"handoffs": "built-in"},
        {"headers": {"x-clew-mode": "observe"}},
    ],
    ids=["small", "never returned to", "switched off", "no price", "built-in", "observed"],
)
async def test_an_idle_conversation_stays_as_it_is(tmp_path: Path, more: dict[str, Any]) -> None:
    clock, options = Clock(), dict(more)
    share, headers = options.pop("share", 0.5), options.pop("headers", {})
    returned = clock if options.pop("returned", True) else None
    async with idle_gateway(tmp_path, Model(HANDOFF, says=True), clock, **options) as flow:
        await filled(flow, share=share, returned=returned, headers=headers, model=options.get("name", PRICED))
        await pause(flow, clock, 400)
        assert not asked(flow) and not reasons(flow)


async def test_nothing_is_folded_while_a_call_is_open(tmp_path: Path) -> None:
    clock, model = Clock(), Model(HANDOFF)
    model.work = lambda received: UpstreamAnswer("ok") if prompt_share(flow) < 0.1 else ToolCaller()(received)
    async with idle_gateway(tmp_path, model, clock) as flow:
        await filled(flow, returned=clock)
        await pause(flow, clock, 400)
        assert not asked(flow) and not reasons(flow)


@pytest.mark.parametrize("last", ["answered", "a call is open", "under way"])
async def test_a_conversation_that_another_gateway_continued_is_not_folded(tmp_path: Path, last: str) -> None:
    clock, other = Clock(), Model(HANDOFF, says=True)
    async with idle_gateway(tmp_path, Model(HANDOFF, says=True), clock) as flow:
        agent = await filled(flow, returned=clock)
        async with idle_gateway(tmp_path, other, clock) as later:
            if last == "a call is open":
                other.work = ToolCaller()
            elif last == "under way":
                other.work = lambda _: StreamedAnswer(UpstreamAnswer("ok"), stall_after=0)
            agent.flow, agent.stream = later, last == "under way"
            clock.now += 200
            (session,) = [it.id for it in await flow.store.list_sessions(only_tips=True)]
            known = await flow.store.next_seq(session)
            turn = asyncio.create_task(agent.turn())
            if last == "under way":
                await later.upstream.stalled.wait()
                while await flow.store.next_seq(session) == known:
                    pass  # the question is stored while it is being answered
            else:
                await turn
                await later.wait_for_handoffs()
            await pause(flow, clock, 90)
            assert not asked(flow) and not reasons(flow)
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
            if last == "answered":  # it is folded by whom it was last answered by, when its own cache expires
                await pause(later, clock, 200)
                assert len(asked(later)) == 1 and reasons(later) == ["idle"]


async def test_a_fold_is_given_up_where_another_gateway_continues_while_the_model_writes(tmp_path: Path) -> None:
    clock, model = Clock(), Model(StreamedAnswer(HANDOFF, first_delay=0.5), says=True)
    async with idle_gateway(tmp_path, model, clock) as flow:
        agent = await filled(flow, returned=clock)
        async with idle_gateway(tmp_path, Model(HANDOFF, says=True), clock) as later:
            clock.now += 275
            await flow.server.exchanges.look_after_idle()
            await model.was_asked.wait()
            agent.flow = later
            await agent.turn()
            await later.wait_for_recordings()
            await flow.wait_for_handoffs()
            assert len(asked(flow)) == 1 and not reasons(flow)


async def test_a_request_that_comes_meanwhile_does_not_wait_and_goes_on_unfolded(tmp_path: Path) -> None:
    clock = Clock()
    model = Model(StreamedAnswer(UpstreamAnswer("never written"), stall_after=0), says=True)
    async with idle_gateway(tmp_path, model, clock) as flow:
        agent = await filled(flow, returned=clock, stream=True)
        clock.now += 275
        await flow.server.exchanges.look_after_idle()
        await model.was_asked.wait()
        before = len(own(flow)[-1].raw)
        await agent.turn()
        await agent.turn()
        assert len(own(flow)[-1].raw) > before and not reasons(flow)


async def test_a_refusal_while_idle_changes_nothing(tmp_path: Path) -> None:
    clock = Clock()
    async with idle_gateway(tmp_path, Model(UpstreamFault(403), says=True), clock) as flow:
        agent = await filled(flow, returned=clock)
        await pause(flow, clock, 400)
        assert len(asked(flow)) == 1 and not reasons(flow)
        await agent.turn()
        assert {record.status for record in flow.exchanges} == {200}


@pytest.mark.parametrize(
    ("handoffs", "recall", "expected"),
    [("built-in", "off", ["cold"]), ("model", "on", ["cold"]), ("model", "off", [])],
)
async def test_once_the_cache_has_expired_a_built_in_handoff_is_used_earlier(
    tmp_path: Path, handoffs: str, recall: str, expected: list[str]
) -> None:
    clock = Clock()
    environ = {"CLEW_GATEWAY_RECALL": recall}
    # By a model that writes none: it is used where that model can open what was folded.
    model = Model(UpstreamFault(500), says=True)
    async with idle_gateway(tmp_path, model, clock, handoffs=handoffs, environ=environ) as flow:
        agent = await filled(flow, share=0.7)
        await agent.turn()
        assert not reasons(flow)
        clock.now += 301
        await agent.turn()
        assert reasons(flow) == expected and written_by(flow) == ["built-in"] * len(expected)


@pytest.mark.parametrize(("seconds_ago", "expected"), [(200, []), (400, ["cold"])])
async def test_the_store_knows_when_a_conversation_was_last_answered(
    tmp_path: Path, seconds_ago: int, expected: list[str]
) -> None:
    clock, ago = Clock(), lambda: time.time() - seconds_ago
    async with idle_gateway(tmp_path, Model(HANDOFF, says=True), clock, handoffs="built-in", store_clock=ago) as flow:
        agent = await filled(flow, share=0.82)
        async with idle_gateway(tmp_path, Model(HANDOFF, says=True), clock, handoffs="built-in") as later:
            agent.flow = later
            await agent.turn()
            assert reasons(later) == expected


async def test_a_handoff_that_is_ready_is_used_once_the_cache_has_expired(tmp_path: Path) -> None:
    clock = Clock()
    async with idle_gateway(tmp_path, Model(HANDOFF, says=True), clock, environ={"CLEW_MODEL_NAME": PRICED}) as flow:
        agent = await filled(flow, share=0.80)
        assert len(asked(flow)) == 1 and not reasons(flow)
        clock.now += 301
        await agent.turn()
        assert reasons(flow) == ["cold"] and written_by(flow) == [PRICED]


async def test_a_finished_task_is_folded_before_the_next_one(tmp_path: Path) -> None:
    clock = Clock()

    class Finishing(Model):
        """Calls tools, and reports the work as done where the window is full enough."""

        def __call__(self, received: Any) -> Any:
            if not received.asks_for_handoff and prompt_share(flow) > 0.62:
                return UpstreamAnswer("The clock in hall 3 runs again; all 12 gears were cleaned.")
            return super().__call__(received)

    async with idle_gateway(tmp_path, Finishing(HANDOFF), clock) as flow:
        agent = Agent(flow, "chat", model=PRICED)
        while not reasons(flow):
            await agent.turn()
            await flow.wait_for_handoffs()
        assert reasons(flow) == ["finished"] and written_by(flow) == [PRICED]
        assert max(it.usage.prompt_tokens for it in flow.exchanges if it.usage) < 0.7 * WINDOW
