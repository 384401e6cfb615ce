"""Which conversation a stateless request belongs to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from clew.messages import text_of
from clew.store import Session
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow, gateway_with

TOOL = {"name": "look", "description": "looks", "input_schema": {"type": "object"}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def upstream(count: int = 40) -> Upstream:
    return Upstream(*(UpstreamAnswer(f"answer {number}") for number in range(count)))


async def post(
    flow: GatewayFlow, messages: list[Any], headers: Mapping[str, str] | None = None, **fields: Any
) -> dict[str, Any]:
    body = {"model": GATEWAY_MODEL, "max_tokens": 100, "messages": messages, **fields}
    async with aiohttp.ClientSession() as session:
        given = {"x-api-key": "fake-key-one", **(headers or {})}
        async with session.post(f"{flow.base_url}/messages", json=body, headers=given) as response:
            answer: dict[str, Any] = await response.json()
            assert response.status == 200, answer
            return {**answer, "session": response.headers.get("x-clew-session")}


async def texts(flow: GatewayFlow, session: str | None) -> list[str]:
    assert session is not None
    await flow.wait_for_recordings()
    return [text_of(row.message) for row in await flow.store.messages(session)]


async def roots(flow: GatewayFlow) -> list[Session]:
    return [it for it in await flow.store.list_sessions() if it.kind == "root"]


async def test_a_history_that_goes_on_is_one_conversation(tmp_path: Path) -> None:
    async with gateway_with(upstream(), tmp_path) as flow:
        first = await post(flow, [user("a")])
        second = await post(flow, [user("a"), assistant("answer 0"), user("b")])
        assert first["session"] == second["session"]
        assert await texts(flow, second["session"]) == ["a", "answer 0", "b", "answer 1"]


async def test_a_moved_marker_and_a_text_as_a_block_are_the_same_history(tmp_path: Path) -> None:
    def marked(text: str) -> dict[str, Any]:
        block = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
        return {"role": "user", "content": [block]}

    async with gateway_with(upstream(), tmp_path) as flow:
        await post(flow, [marked("a")])
        reply = {"role": "assistant", "content": [{"type": "text", "text": "answer 0"}]}
        await post(flow, [user("a"), reply, marked("b")])
        last = await post(flow, [user("a"), reply, user("b"), assistant("answer 1"), marked("c")])
        assert await texts(flow, last["session"]) == ["a", "answer 0", "b", "answer 1", "c", "answer 2"]
        assert len(await flow.store.list_sessions()) == 1


async def test_two_sessions_of_one_name_and_beginning_never_merge(tmp_path: Path) -> None:
    async with gateway_with(upstream(), tmp_path) as flow:
        one = await post(flow, [user("hi")], {"x-clew-session": "one"})
        two = await post(flow, [user("hi")], {"x-clew-session": "two"})
        assert one["session"] != two["session"]
        await post(flow, [user("hi"), assistant("answer 0"), user("more")], {"x-clew-session": "one"})
        await post(flow, [user("hi"), assistant("answer 1"), user("else")], {"x-clew-session": "two"})
        assert await texts(flow, one["session"]) == ["hi", "answer 0", "more", "answer 2"]
        assert await texts(flow, two["session"]) == ["hi", "answer 1", "else", "answer 3"]


async def test_without_a_name_sessions_that_begin_alike_part_where_they_differ(tmp_path: Path) -> None:
    async with gateway_with(upstream(), tmp_path) as flow:
        await post(flow, [user("hi")])
        other = await post(flow, [user("hi")])
        one = await post(flow, [user("hi"), assistant("answer 0"), user("more")])
        two = await post(flow, [user("hi"), assistant("answer 1"), user("else")])
        assert two["session"] == other["session"] != one["session"]
        assert await texts(flow, one["session"]) == ["hi", "answer 0", "more", "answer 2"]
        assert await texts(flow, two["session"]) == ["hi", "answer 1", "else", "answer 3"]


async def test_title_requests_and_subagents_stay_apart_although_they_share_the_name(tmp_path: Path) -> None:
    named = {"x-session-id": "ses_1", "user-agent": "opencode/1.18"}
    async with gateway_with(upstream(), tmp_path) as flow:
        main = await post(flow, [user("mend it")], named, system="You are an agent.", tools=[TOOL])
        title = await post(flow, [user("mend it")], named, system="You write titles.")
        sub = await post(flow, [user("mend it")], named, system="You are a subagent that looks.", tools=[TOOL])
        assert len({main["session"], title["session"], sub["session"]}) == 3
        on = [user("mend it"), assistant("answer 0"), user("go on")]
        again = await post(flow, on, named, system="You are an agent.", tools=[TOOL])
        assert again["session"] == main["session"]


async def test_a_prompt_with_another_date_is_the_same_conversation(tmp_path: Path) -> None:
    async with gateway_with(upstream(), tmp_path) as flow:
        first = await post(flow, [user("a")], system="Today is 2026-11-16. You help.")
        second = await post(
            flow, [user("a"), assistant("answer 0"), user("b")], system="Today is 2026-11-17. You help."
        )
        assert first["session"] == second["session"]


async def test_a_rewind_is_a_branch_and_the_old_end_stays(tmp_path: Path) -> None:
    async with gateway_with(upstream(), tmp_path) as flow:
        await post(flow, [user("a")])
        old = await post(flow, [user("a"), assistant("answer 0"), user("b")])
        new = await post(flow, [user("a"), assistant("answer 0"), user("c")])
        assert new["session"] != old["session"]
        assert await texts(flow, old["session"]) == ["a", "answer 0", "b", "answer 1"]
        assert await texts(flow, new["session"]) == ["a", "answer 0", "c", "answer 2"]
        assert flow.upstream.received[2].body["messages"][-1] == user("c")
        assert len(await roots(flow)) == 1


async def test_the_same_request_again_asks_for_another_answer(tmp_path: Path) -> None:
    async with gateway_with(upstream(), tmp_path) as flow:
        await post(flow, [user("a")])
        again = await post(flow, [user("a")])
        assert flow.upstream.received[1].body["messages"] == [user("a")]
        assert await texts(flow, again["session"]) == ["a", "answer 1"]


async def test_callers_are_parted_by_their_credential(tmp_path: Path) -> None:
    async with gateway_with(upstream(), tmp_path) as flow:
        one = await post(flow, [user("a")])
        two = await post(
            flow, [user("a"), assistant("answer 0"), user("b")], {"x-api-key": "fake-key-two", "x-clew-session": "s"}
        )
        assert one["session"] != two["session"]
        assert {it.owner for it in await flow.store.list_sessions()} != {""}
        assert len({it.owner for it in await flow.store.list_sessions()}) == 2


async def test_a_conversation_is_found_again_after_a_restart(tmp_path: Path) -> None:
    long = "words that fill the window " * 120
    history: list[Any] = []
    async with gateway_with(upstream(), tmp_path) as flow:
        for turn in range(13):
            history.append(user(f"{turn} {long}"))
            reply = await post(flow, history)
            history.append({"role": "assistant", "content": reply["content"]})
        before = flow.upstream.received[-1].body["messages"]
        assert len(before) < len(history) - 1
        session = reply["session"]
    async with gateway_with(upstream(), tmp_path) as flow:
        history.append(user("after the restart"))
        reply = await post(flow, history)
        after = flow.upstream.received[-1].body["messages"]
        assert json.dumps(after[: len(before)]) == json.dumps(before)
        assert after[-1] == user("after the restart")
        assert reply["session"] == session


async def test_requests_of_one_conversation_at_the_same_time_do_no_harm(tmp_path: Path) -> None:
    async with gateway_with(upstream(), tmp_path) as flow:
        await post(flow, [user("a")])
        history = [user("a"), assistant("answer 0")]
        await asyncio.gather(*(post(flow, [*history, user(f"b{at}")]) for at in range(8)))
        assert await flow.store.check() == []
        ends = [row for it in await flow.store.list_sessions() for row in await texts(flow, it.id)]
        assert all(f"b{at}" in ends for at in range(8))


async def test_a_conversation_deleted_while_its_client_goes_on_begins_anew(tmp_path: Path) -> None:
    long = "words that fill the window " * 120
    history: list[Any] = []
    async with gateway_with(upstream(), tmp_path) as flow:
        for turn in range(16):
            history.append(user(f"{turn} {long}"))
            reply = await post(flow, history)
            await flow.wait_for_recordings()
            history.append({"role": "assistant", "content": reply["content"]})
            if turn == 3:
                await flow.store.delete(reply["session"])
        assert [it.is_fallback for it in flow.exchanges[6:]] == [False] * 10
        assert len(flow.upstream.received[-1].body["messages"]) < len(history) - 1
        assert len(await texts(flow, reply["session"])) == len(history)
