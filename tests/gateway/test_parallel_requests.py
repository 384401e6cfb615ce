"""Requests of one conversation at the same time: each reply is stored behind its own question."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import pytest

from clew.engines import Compaction, ContextCompressor
from clew.messages import text_of
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer, UpstreamRules
from tests.support.gateway import GatewayFlow, gateway_with


def echo(received: ReceivedRequest) -> UpstreamAnswer:
    return UpstreamAnswer(f"reply to <{received.body['messages'][-1]['content']}>")


async def ask(flow: GatewayFlow, items: list[Any]) -> dict[str, Any]:
    body = {"model": GATEWAY_MODEL, "messages": items}
    url = f"{flow.base_url}/chat/completions"
    async with aiohttp.ClientSession() as http, http.post(url, json=body) as response:
        answer = await response.json()
        assert response.status == 200, answer
        message: dict[str, Any] = answer["choices"][0]["message"]
        return message


async def stored_texts(flow: GatewayFlow) -> list[list[str]]:
    """The texts of each history that is the end of a branch."""
    await flow.wait_for_recordings()
    sessions = await flow.store.list_sessions()
    return [[text_of(row.message) for row in await flow.store.messages(it.id)] for it in sessions]


@pytest.mark.parametrize("count", [2, 3, 6])
async def test_parallel_continuations_each_keep_their_own_reply(tmp_path: Path, count: int) -> None:
    async with gateway_with(Upstream(answers=echo), tmp_path) as flow:
        history: list[Any] = [{"role": "user", "content": "one"}]
        history.append(await ask(flow, history))
        forks = [[*history, {"role": "user", "content": f"fork {at}"}] for at in range(count)]
        await asyncio.gather(*(ask(flow, fork) for fork in forks))
        stored = await stored_texts(flow)
        expected = [["one", "reply to <one>", f"fork {at}", f"reply to <fork {at}>"] for at in range(count)]
        assert sorted(stored) == expected


async def test_the_same_request_twice_at_once_is_one_history(tmp_path: Path) -> None:
    async with gateway_with(Upstream(answers=echo), tmp_path) as flow:
        history = [{"role": "user", "content": "one"}]
        await asyncio.gather(ask(flow, history), ask(flow, history))
        assert await stored_texts(flow) == [["one", "reply to <one>"]]


def plugged_in(engine: type[ContextCompressor], home: Path) -> dict[str, str]:
    """A plugin with an engine of this file in a home; the environment that chooses it."""
    folder = home / "plugins" / "context_engine" / engine.name
    folder.mkdir(parents=True)
    code = """
from clew.engines import register_context_engine
from tests.gateway.test_parallel_requests import {cls}

def register():
    register_context_engine("{name}", {cls}.of)
"""
    (folder / "__init__.py").write_text(code.format(cls=engine.__name__, name=engine.name))
    return {"CLEW_CONTEXT_ENGINE": engine.name}


class SlowEngine(ContextCompressor):
    """Computes until another request was answered."""

    name = "slow"
    has_begun, other_is_done = threading.Event(), threading.Event()
    waited: ClassVar[list[bool]] = []

    async def compress(self, *arguments: Any, **options: Any) -> Compaction:
        self.has_begun.set()
        self.waited.append(await self.compute(self.other_is_done.wait, 20))
        return await super().compress(*arguments, **options)


async def test_a_request_is_served_while_another_one_is_folded(tmp_path: Path) -> None:
    environ = plugged_in(SlowEngine, tmp_path)
    async with gateway_with(Upstream(answers=echo), tmp_path, environ=environ) as flow:
        large = [{"role": ("user", "assistant")[at % 2], "content": f"part {at} " * 100} for at in range(61)]
        folding = asyncio.create_task(ask(flow, large))
        await asyncio.to_thread(SlowEngine.has_begun.wait, 20)
        await ask(flow, [{"role": "user", "content": "short"}])
        assert not folding.done()
        SlowEngine.other_is_done.set()
        await folding
        assert SlowEngine.waited == [True]
        assert len(flow.upstream.received[-1].body["messages"]) < len(large)


async def test_a_fold_beside_another_process_that_went_on_otherwise_shows_none_of_its_messages(tmp_path: Path) -> None:
    """One gateway has a question and its reply stored that the other one, which folds, does not know of."""
    long = "words of a report that fills the window " * 60
    rules = UpstreamRules(window=8_000, pairs=True)
    async with Upstream(answers=echo, rules=rules) as upstream, AsyncExitStack() as last:
        one, two = [
            await last.enter_async_context(gateway_with(upstream, tmp_path / it, store_url=str(tmp_path / "shared.db")))
            for it in ("one", "two")
        ]
        history: list[Any] = []
        for at in range(6):
            history.append({"role": "user", "content": f"question {at}: {long}"})
            history.append(await ask(two, history))
        await two.wait_for_recordings()
        await ask(one, [*history, {"role": "user", "content": "asked elsewhere"}])
        await one.wait_for_recordings()
        asked = {"role": "user", "content": f"asked here: {long * 2}"}
        reply = await ask(two, [*history, asked])
        sent = upstream.calls[-1].body["messages"]
        assert [it.is_folded for it in two.exchanges][:-1] == [False] * 6
        assert len(sent) < len(history) and sent[-1] == asked
        assert "asked elsewhere" not in str(sent) and reply["content"] == f"reply to <{asked['content']}>"
        ends = [texts[-2:] for texts in await stored_texts(two)]
        assert ["asked elsewhere", "reply to <asked elsewhere>"] in ends
        assert [asked["content"], reply["content"]] in ends
        assert not any(record.is_fallback or record.recovered for record in two.exchanges)


async def test_a_request_again_after_its_reply_is_one_history_whatever_the_order(tmp_path: Path) -> None:
    """The reply to the first may be stored while the second is on its way to the upstream."""
    async with gateway_with(Upstream(answers=echo), tmp_path) as flow:
        for at in range(12):
            history = [{"role": "user", "content": f"question {at}"}]
            await asyncio.gather(*(ask(flow, history) for _ in range(4)))
        expected = [[f"question {at}", f"reply to <question {at}>"] for at in range(12)]
        assert sorted(await stored_texts(flow)) == sorted(expected)


class DeletingEngine(ContextCompressor):
    """The first time it compacts, the conversation is deleted meanwhile."""

    name = "deleting"
    flows: ClassVar[list[GatewayFlow]] = []

    async def compress(self, *arguments: Any, **options: Any) -> Compaction:
        while self.flows:
            store = self.flows.pop().store
            for session in await store.list_sessions():
                await store.delete(session.id)
        return await super().compress(*arguments, **options)


async def test_a_conversation_that_is_deleted_while_it_is_folded_begins_anew_and_is_folded(tmp_path: Path) -> None:
    environ = plugged_in(DeletingEngine, tmp_path)
    rules = UpstreamRules(window=8_000, pairs=True)
    environ["CLEW_MODEL_CONTEXT_LENGTH"] = "8000"
    async with gateway_with(Upstream(answers=echo, rules=rules), tmp_path, environ=environ) as flow:
        DeletingEngine.flows.append(flow)
        large = [{"role": ("user", "assistant")[at % 2], "content": f"part {at} " * 100} for at in range(61)]
        await ask(flow, large)
        await flow.wait_for_recordings()
        while not flow.exchanges:  # noqa: ASYNC110 (it ends shortly after the client has the reply)
            await asyncio.sleep(0)
        assert not DeletingEngine.flows and len(flow.upstream.received[-1].body["messages"]) < len(large)
        assert [record.is_fallback for record in flow.exchanges] == [False]
