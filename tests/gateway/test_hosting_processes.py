"""Hosted conversations behind several processes, and a process that ends before it has kept everything."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault
from tests.support.hosting import hosting_with

KEY = {"Idempotency-Key": "order-17"}


async def test_one_key_at_two_processes_at_once_asks_the_model_once(tmp_path: Path) -> None:
    slow = StreamedAnswer(UpstreamAnswer("done"), first_delay=0.5)
    async with (
        Upstream(slow, UpstreamAnswer("asked twice")) as upstream,
        hosting_with(upstream, tmp_path) as one,
        hosting_with(upstream, tmp_path) as other,
    ):
        id = await one.begin()
        path, body = f"conversations/{id}/messages", {"content": "order it", "stream": False}
        both = await asyncio.gather(*(bot.call("POST", path, body, headers=KEY) for bot in (one, other)))
        assert [answer["content"] for _, answer in both] == ["done", "done"]
        assert sorted(answer["is_repeated"] for _, answer in both) == [False, True]
        assert len(upstream.calls) == 1
        rows = await one.flow.store.messages(id)
        assert [row.message["role"] for row in rows] == ["user", "assistant"]


async def test_a_question_without_an_answer_is_kept_once_when_another_process_gets_it_again(tmp_path: Path) -> None:
    async with (
        Upstream(UpstreamAnswer("hi"), UpstreamFault(503, "down"), UpstreamAnswer("at last")) as upstream,
        hosting_with(upstream, tmp_path) as one,
        hosting_with(upstream, tmp_path) as other,
    ):
        id = await one.begin()
        await other.done("GET", f"conversations/{id}")
        await one.ask(id, "hello")
        assert (await one.call("POST", f"conversations/{id}/messages", {"content": "order it"}))[0] == 503
        assert (await other.ask(id, "order it"))["content"] == "at last"
        rows = await one.flow.store.messages(id)
        assert [row.message["role"] for row in rows] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_process_that_ended_before_the_answer_was_kept_with_its_key(tmp_path: Path, is_answered: bool) -> None:
    async with hosting_with(Upstream(UpstreamAnswer("done")), tmp_path) as bot:
        id = await bot.begin()
        path, body = f"conversations/{id}/messages", {"content": "order it"}
        await bot.call("POST", path, body, headers=KEY)
        state = await bot.flow.store.state(id)
        (name,) = [name for name in state if "sent" in name]
        # As the store is between the transaction of the reply and that of the key.
        (entry,) = state[name]
        await bot.flow.store.set_state(id, {name: [{**entry, "answer": None, "until": 0}]})
        if not is_answered:
            asked = await bot.flow.store.branch(id, 1)
            assert asked.id != id
    async with hosting_with(Upstream(UpstreamAnswer("asked again")), tmp_path) as bot:
        target = id if is_answered else asked.id
        status, answer = await bot.call("POST", f"conversations/{target}/messages", body, headers=KEY)
        assert (status, answer["content"]) == (200, "done" if is_answered else "asked again")
        assert len(await bot.flow.store.messages(target)) == 2
