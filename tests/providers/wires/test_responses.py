"""What is particular to the Responses wire: nothing is kept over there, reasoning travels encrypted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.caching import apply_cache_control
from clew.messages import Message
from clew.providers import ProviderRefused, Reply, Request, ResponsesProvider, RetryPolicy
from clew.testing.messages import assistant, call, system, tool, user
from clew.testing.upstream import RawAnswer, Upstream, UpstreamAnswer
from tests.support.summaries import RecordedSleep


def encoded(messages: list[Message], **fields: Any) -> dict[str, Any]:
    provider = ResponsesProvider("http://127.0.0.1:9/v1")
    return provider.encode(Request("m", messages, **fields), frozenset())


async def answered(upstream: Upstream) -> Reply:
    provider = ResponsesProvider(upstream.base_url, retry_policy=RetryPolicy(retries=0, sleep=RecordedSleep()))
    try:
        return await provider.send(Request("m", [user("x")]))
    finally:
        await provider.close()


def test_nothing_is_stored_and_reasoning_is_asked_for_encrypted() -> None:
    body = encoded([system("s"), user("x")])
    assert (body["store"], body["include"], body["instructions"]) == (False, ["reasoning.encrypted_content"], "s")


def test_reasoning_that_only_the_server_could_find_is_left_out() -> None:
    bare: Message = {**assistant("a"), "reasoning": [{"type": "reasoning", "id": "rs_1", "summary": []}]}
    kinds = [item["type"] for item in encoded([user("x"), bare])["input"]]
    assert kinds == ["message", "message"]
    kept = encoded([user("x"), bare], extra={"store": True})["input"]
    assert [item["type"] for item in kept] == ["message", "reasoning", "message"]


def test_cache_markers_do_not_reach_a_wire_that_has_none() -> None:
    history = [system("s"), user("u"), assistant(None, [call("t", {}, "c")]), tool("c", "r"), user("v")]
    for native in (True, False):
        assert "cache_control" not in json.dumps(encoded(apply_cache_control(history, native=native)))


async def test_a_model_that_does_not_reason_is_asked_without_encrypted_content() -> None:
    async with Upstream(UpstreamAnswer("a"), unknown_fields=["include"]) as upstream:
        assert (await answered(upstream)).message["content"] == "a"
        assert "include" not in upstream.received[1].body


async def test_two_messages_in_one_response_are_one_message_and_stay_apart() -> None:
    items = [
        _said("First I look."),
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        _said("Then this."),
    ]
    async with Upstream(_response(items), _response([items[0], items[2]])) as upstream:
        with_item, texts = await answered(upstream), await answered(upstream)
    assert texts.message["content"] == "First I look.\n\nThen this."
    content: Any = with_item.message["content"]
    assert [part["type"] for part in content] == ["output_text", "responses_item", "output_text"]


async def test_a_refusal_is_told_as_one() -> None:
    said = {**_said(""), "content": [{"type": "refusal", "refusal": "No."}]}
    async with Upstream(_response([said])) as upstream:
        reply = await answered(upstream)
    assert reply.finish == "refusal"
    assert dict(reply.message)["refusal"] == "No."


async def test_a_response_that_failed_is_typed() -> None:
    failed = {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Slow down"}, "output": []}
    async with Upstream(_events({"type": "response.failed", "response": failed})) as upstream:
        with pytest.raises(ProviderRefused) as refused:
            await answered(upstream)
    assert refused.value.fault.kind == "rate_limit"


def _said(text: str) -> dict[str, Any]:
    return {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _response(items: list[dict[str, Any]]) -> RawAnswer:
    return _events({"type": "response.completed", "response": {"status": "completed", "output": items}})


def _events(*values: dict[str, Any]) -> RawAnswer:
    return RawAnswer([f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode() for value in values])
