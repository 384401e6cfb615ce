"""Conversations that nobody planned: whatever happens in whatever order, view, history and requests hold together."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from clew.messages import Message, text_of
from clew.providers import OnDelta, Provider, ProviderRefused, Reply, Request
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import overflow
from clew.turn import ContextExhausted
from clew.usage import CanonicalUsage
from tests.support.flow import SESSION, Flow, flow_with, request_tokens
from tests.support.groups import calls_have_results

LIMIT = 9_000


class Moody(Provider):
    """Answers, calls tools, and refuses what is too large for it; some of it states the limit."""

    name = "moody"

    def __init__(self, random: Random) -> None:
        self.random = random
        self.requests: list[Request] = []

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        del on_delta
        self.requests.append(request)
        size = request_tokens(request)
        if size > LIMIT:
            raise overflow(limit=self.random.choice((LIMIT, None)))
        usage = CanonicalUsage(input_tokens=int(size * 1.1), output_tokens=20)
        if self.random.random() < 0.5:
            ids = [f"c{len(self.requests)}_{n}" for n in range(self.random.randint(1, 3))]
            called = assistant(None, [call("terminal", {"command": f"run {one}"}, id=one) for one in ids])
            return Reply(called, usage, "tool_calls", request.model)
        return Reply(assistant(f"Answer {len(self.requests)}."), usage, "stop", request.model)


async def step(flow: Flow, random: Random, waiting: list[str]) -> list[str]:
    """One thing that may happen; the ids of calls that wait for results afterwards."""
    await _something_by_hand(flow, random)
    size = random.choice((5, 40, 200))
    incoming: list[Message] = [tool(one, f"result of {one} " * size) for one in waiting]
    if not incoming or random.random() < 0.1:
        incoming.append(user(f"Request {random.random()} " + "about the next part of it " * size))
    try:
        reply = await flow.turn(*incoming)
    except (ProviderRefused, ContextExhausted):
        return []
    return [one["id"] for one in reply.message.get("tool_calls", [])]


async def _something_by_hand(flow: Flow, random: Random) -> None:
    chance = random.random()
    if chance < 0.08:
        await flow.compact(random.choice((None, "the next part")))
    elif chance < 0.12:
        await flow.undo()
    elif chance < 0.16:
        await (await flow.conversation()).apply_compaction(await (await flow.conversation()).preview_compaction())


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_view_history_and_requests_hold_together(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    provider = Moody(random)
    window = random.choice((16_000, 40_000))
    waiting: list[str] = []
    known = 0
    for _ in range(3):
        # Each time round is another process on the same store.
        async with flow_with(provider, tmp_path, window=window) as flow:
            for _ in range(14):
                waiting = await step(flow, random, waiting)
                conversation = await flow.runtime.conversation(SESSION)
                assert tuple(conversation.messages) == tuple(await flow.view())
                rows = await flow.store.messages(SESSION)
                assert [row.seq for row in rows] == list(range(len(rows)))
                assert len(rows) > known
                known = len(rows)
            assert not await flow.store.check()
    assert all(calls_have_results(request.messages) for request in provider.requests)
    newest = [text_of(message) for message in provider.requests[-1].messages]
    assert newest[0].startswith("You are a careful assistant.")
