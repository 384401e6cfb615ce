"""What is particular to the wire of chat completions, and to the many servers that speak it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from clew.messages import Message
from clew.providers import OpenAIChatProvider, ProviderRefused, Reply, Request, RetryPolicy
from clew.testing.messages import assistant, call, system, tool, user
from clew.testing.upstream import HangUp, RawAnswer, StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault
from tests.support.summaries import RecordedSleep

MARKER = {"type": "ephemeral"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def encoded(*messages: Message, **options: Any) -> list[Any]:
    provider = OpenAIChatProvider("http://127.0.0.1:9/v1", **options)
    return cast("list[Any]", provider.encode(Request("m", list(messages)), frozenset())["messages"])


def events(*chunks: Any) -> RawAnswer:
    return RawAnswer([f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks] + [b"data: [DONE]\n\n"])


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


async def answered(upstream: Upstream, *, times: int = 1, request: Request | None = None) -> Reply:
    provider = OpenAIChatProvider(upstream.base_url, retry_policy=RetryPolicy(sleep=RecordedSleep()))
    try:
        for _ in range(times):
            reply = await provider.send(request or Request("m", [user("hi")], max_tokens=5, cache_key="k"))
        return reply
    finally:
        await provider.close()


async def test_a_server_that_refuses_to_count_at_the_end_is_asked_without_and_remembered() -> None:
    async with Upstream(UpstreamAnswer("a"), UpstreamAnswer("b"), unknown_fields=["stream_options"]) as upstream:
        reply = await answered(upstream, times=2)
        asked = ["stream_options" in one.body for one in upstream.received]
    assert reply.message["content"] == "b"
    assert reply.usage is None
    assert asked == [True, False, False]


async def test_several_unknown_fields_are_left_out_one_by_one() -> None:
    async with Upstream(UpstreamAnswer("a"), unknown_fields=["stream_options", "prompt_cache_key"]) as upstream:
        assert (await answered(upstream)).message["content"] == "a"
        assert len(upstream.received) == 3


async def test_a_model_that_knows_only_the_new_name_of_the_cap_gets_it() -> None:
    told = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    async with Upstream(UpstreamFault(400, {"error": {"message": told}}), UpstreamAnswer("a")) as upstream:
        await answered(upstream)
        assert upstream.received[1].body["max_completion_tokens"] == 5
        assert "max_tokens" not in upstream.received[1].body


async def test_a_server_that_refuses_reasoning_in_a_history_gets_none() -> None:
    told = "messages.1.assistant.reasoning_content: property 'messages.1.assistant.reasoning_content' is unsupported"
    thought = cast(Message, {**assistant("a"), "reasoning_content": "hm"})
    request = Request("m", [user("x"), thought, user("y")])
    async with Upstream(
        UpstreamFault(400, {"message": told, "code": "wrong_api_format"}), UpstreamAnswer("b"), UpstreamAnswer("c")
    ) as upstream:
        assert (await answered(upstream, times=2, request=request)).message["content"] == "c"
        sent = ["reasoning_content" in json.dumps(one.body) for one in upstream.received]
    assert sent == [True, False, False]


async def test_a_server_that_misses_reasoning_in_a_history_is_not_misread() -> None:
    told = "The `reasoning_content` in the thinking mode must be passed back to the API."
    async with Upstream(UpstreamFault(400, {"error": {"message": told}})) as upstream:
        with pytest.raises(ProviderRefused):
            await answered(upstream)
        assert len(upstream.received) == 1


async def test_a_cap_that_is_too_large_is_no_unknown_field() -> None:
    told = "max_tokens is too large: 99999. This model supports at most 4096 completion tokens."
    async with Upstream(UpstreamFault(400, {"error": {"message": told}})) as upstream:
        with pytest.raises(ProviderRefused) as refused:
            await answered(upstream)
        assert len(upstream.received) == 1
    assert refused.value.fault.kind == "output_cap_too_large"


async def test_reasoning_details_are_put_together_and_go_back() -> None:
    details = [
        {"type": "reasoning.text", "index": 0, "text": "Let "},
        {"type": "reasoning.text", "index": 0, "text": "me"},
    ]
    signed = {"type": "reasoning.text", "index": 0, "signature": "sig-1", "format": "x"}
    parts = [chunk({"reasoning": "Let me", "reasoning_details": [one]}) for one in (*details, signed)]
    async with Upstream(events(*parts, chunk({"content": "ok"}, "stop"))) as upstream:
        reply = await answered(upstream)
    kept = dict(reply.message)["reasoning_details"]
    assert kept == [{"type": "reasoning.text", "text": "Let me", "signature": "sig-1", "format": "x"}]
    assert encoded(reply.message, reasoning_fields=["reasoning_details"])[0] == {
        "role": "assistant", "content": "ok", "reasoning_details": kept,
    }  # fmt: skip
    assert encoded(reply.message, reasoning_fields=()) == [{"role": "assistant", "content": "ok"}]


async def test_what_a_server_hangs_on_a_call_stays_on_it() -> None:
    signed = {"google": {"thought_signature": "abc"}}
    begun = {"index": 0, "id": "c1", "type": "function", "extra_content": signed}
    pieces = [
        chunk({"tool_calls": [{**begun, "function": {"name": "t", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"name": None, "arguments": '{"a":'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}, "tool_calls"),
    ]
    async with Upstream(events(*pieces)) as upstream:
        reply = await answered(upstream)
    function = {"name": "t", "arguments": '{"a":1}'}
    assert reply.message["tool_calls"] == [
        {"id": "c1", "type": "function", "extra_content": signed, "function": function}
    ]


async def test_whole_calls_without_index_or_id_stay_apart_and_get_ids() -> None:
    one = {"function": {"name": "a", "arguments": "{}"}}
    pieces = [
        chunk({"tool_calls": [{"id": "x", **one}]}),
        chunk({"tool_calls": [{"id": "y", "function": {"name": "b", "arguments": {"k": 1}}}]}),
    ]
    async with Upstream(events(*pieces, chunk({}, "stop")), events(chunk({"tool_calls": [one]}, "stop"))) as upstream:
        first, second = await answered(upstream), await answered(upstream)
    assert [(it["id"], it["function"]["arguments"]) for it in first.message["tool_calls"]] == [
        ("x", "{}"),
        ("y", '{"k": 1}'),
    ]
    assert first.finish == "tool_calls"
    assert second.message["tool_calls"][0]["id"].startswith("call_")


async def test_thoughts_in_a_list_and_text_behind_them_are_both_kept() -> None:
    thought = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    async with Upstream(events(chunk({"content": thought}), chunk({"content": "yes"}, "stop"))) as upstream:
        reply = await answered(upstream)
    assert reply.message["content"] == [*thought, {"type": "text", "text": "yes"}]


async def test_a_refusal_in_words_is_told_as_one() -> None:
    async with Upstream(events(chunk({"refusal": "I will "}), chunk({"refusal": "not."}, "stop"))) as upstream:
        reply = await answered(upstream)
    assert reply.finish == "refusal"
    assert dict(reply.message)["refusal"] == "I will not."


async def test_a_stream_without_its_last_line_is_whole_when_the_model_had_finished() -> None:
    async with Upstream(RawAnswer([f"data: {json.dumps(chunk({'content': 'a'}, 'stop'))}\n\n".encode()])) as upstream:
        assert (await answered(upstream)).message["content"] == "a"


async def test_a_connection_that_breaks_behind_the_last_word_costs_only_the_usage() -> None:
    async with Upstream(StreamedAnswer(UpstreamAnswer("Whole."), cut_after=3)) as upstream:
        reply = await answered(upstream)
    assert (reply.message["content"], reply.usage) == ("Whole.", None)


async def test_a_server_that_falls_silent_behind_the_last_word_is_not_waited_for() -> None:
    async with Upstream(StreamedAnswer(UpstreamAnswer("Whole."), stall_after=3)) as upstream:
        provider = OpenAIChatProvider(upstream.base_url, retry_policy=RetryPolicy(usage_seconds=0.01))
        reply = await provider.send(Request("m", [user("hi")]))
        await provider.close()
    assert (reply.message["content"], reply.usage) == ("Whole.", None)


async def test_a_key_in_the_query_of_an_address_is_not_in_the_error() -> None:
    async with Upstream(HangUp()) as upstream:
        provider = OpenAIChatProvider(upstream.base_url + "?key=hidden-value", retry_policy=RetryPolicy(retries=0))
    with pytest.raises(ProviderRefused) as refused:
        await provider.send(Request("m", [user("hi")]))
    await provider.close()
    assert "hidden-value" not in str(refused.value)


async def test_an_event_that_is_cut_is_a_broken_connection() -> None:
    half = json.dumps(chunk({"content": "never"}))[:30]
    broken = [f"data: {json.dumps(chunk({'content': 'a'}))}\n\n".encode(), f"data: {half}\n\n".encode()]
    async with Upstream(RawAnswer(broken)) as upstream:
        with pytest.raises(ProviderRefused) as refused:
            await answered(upstream)
    assert refused.value.fault.kind == "network"
    assert refused.value.partial == {"role": "assistant", "content": "a"}


def test_plain_messages_pass_as_the_same_objects() -> None:
    messages = [system("s"), user("u"), assistant("a")]
    assert all(sent is given for sent, given in zip(encoded(*messages), messages, strict=True))


def test_fields_of_ours_do_not_reach_the_wire() -> None:
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    said = cast(Message, {**assistant("a", [call("t", {}, "c")]), "reasoning": thinking})
    sent = encoded(said, tool("c", "no", is_error=True))
    assert sent[0] == assistant("a", [call("t", {}, "c")])
    assert sent[1] == {"role": "tool", "tool_call_id": "c", "content": "no"}


def test_markers_stand_inside_the_parts() -> None:
    marked = cast(Message, {**tool("c", "result"), "cache_control": MARKER})
    parts = [{"type": "text", "text": "sys", "cache_control": MARKER}]
    sent = encoded({"role": "system", "content": parts}, assistant(None, [call("t", {}, "c")]), marked)
    assert sent[0]["content"] == parts
    assert sent[2] == {
        "role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "result", "cache_control": MARKER}],
    }  # fmt: skip


def test_pictures_of_results_follow_them() -> None:
    shown = cast(Message, {**tool("c", ""), "content": [{"type": "text", "text": "see"}, PICTURE]})
    calls = [call("t", {}, "c"), call("t", {}, "d")]
    sent = encoded(assistant(None, calls), shown, tool("d", "x"), user("so?"))
    assert [one["role"] for one in sent] == ["assistant", "tool", "tool", "user", "user"]
    assert sent[1]["content"] == [{"type": "text", "text": "see"}]
    assert sent[3]["content"] == [PICTURE]


def test_blocks_of_another_wire_are_put_into_the_words_of_this_one() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    shell = cast(Any, {"id": "c", "type": "local_shell_call", "function": {"name": "local_shell", "arguments": "{}"}})
    sent = encoded(user([image]), assistant(None, [shell]), tool("c", "ok"))
    assert sent[0]["content"] == [PICTURE]
    assert sent[1]["tool_calls"] == [call("local_shell", "{}", "c")]
