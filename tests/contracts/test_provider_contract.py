"""What every provider does, whichever wire it speaks: one suite over all three, against a mock upstream on loopback."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from clew.providers import (
    AnthropicProvider,
    Delta,
    OpenAIChatProvider,
    ProviderRefused,
    Reply,
    Request,
    ResponsesProvider,
    RetryPolicy,
    explain_refusal,
)
from clew.providers.wires.http_provider import HttpProvider
from clew.testing.messages import assistant, call, system, tool, user
from clew.testing.upstream import HangUp, RawAnswer, StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault
from clew.usage import CanonicalUsage
from tests.support.summaries import RecordedSleep

PROVIDERS = (OpenAIChatProvider, ResponsesProvider, AnthropicProvider)
KEY = "not-" + "a-real-" + "key-0123456789"
ASK = Request("mock-model", [system("Be brief."), user("Hello?")])
TOOLS = [
    {"type": "function", "function": {"name": "read_file", "description": "Reads", "parameters": {"type": "object"}}}
]
STREAMED_ERRORS: dict[type[HttpProvider], tuple[str, Any]] = {
    OpenAIChatProvider: ("", {"error": {"code": 502, "message": "the model is overloaded"}}),
    ResponsesProvider: ("error", {"type": "error", "code": "server_error", "message": "the model is overloaded"}),
    AnthropicProvider: ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
}


@pytest.fixture(params=PROVIDERS, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest) -> type[HttpProvider]:
    return request.param  # type: ignore[no-any-return]


async def ask(
    kind: type[HttpProvider],
    upstream: Upstream,
    request: Request = ASK,
    *,
    seen: list[Delta] | None = None,
    **options: Any,
) -> Reply:
    options.setdefault("retry_policy", RetryPolicy(sleep=RecordedSleep()))
    provider = kind(upstream.base_url, api_key=KEY, name="mock", **options)
    try:
        return await provider.send(request, None if seen is None else seen.append)
    finally:
        await provider.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_text_comes_back_with_usage_and_the_name_of_the_model(kind: type[HttpProvider], stream: bool) -> None:
    async with Upstream(UpstreamAnswer("Hello, world.")) as upstream:
        reply = await ask(kind, upstream, stream=stream)
    assert reply.message == {"role": "assistant", "content": "Hello, world."}
    assert reply.finish == "stop"
    assert reply.model == "mock-model-2026"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.cache_read_tokens, reply.usage.output_tokens) == (100, 30, 9)


@pytest.mark.parametrize("stream", [True, False])
async def test_pieces_are_shown_and_make_up_the_reply(kind: type[HttpProvider], stream: bool) -> None:
    seen: list[Delta] = []
    answer = UpstreamAnswer(
        "Ein größerer Text, 一二三四五六七.", reasoning="First think.", calls=(call("read_file", {"p": 1}),)
    )
    async with Upstream(answer) as upstream:
        reply = await ask(kind, upstream, stream=stream, seen=seen)
    said = "".join(delta.text for delta in seen if delta.kind == "text")
    assert said == answer.text == reply.message["content"]
    assert [delta.text for delta in seen if delta.kind == "call"] == ["read_file"]
    if stream:
        assert "".join(delta.text for delta in seen if delta.kind == "reasoning") == "First think."


@pytest.mark.parametrize("stream", [True, False])
async def test_parallel_calls_keep_ids_names_and_arguments(kind: type[HttpProvider], stream: bool) -> None:
    wanted = (call("read_file", {"path": "a é"}, "call_a"), call("search", {"q": [1, {"x": None}]}, "call_b"))
    async with Upstream(UpstreamAnswer("", calls=wanted)) as upstream:
        reply = await ask(kind, upstream, Request("m", [user("go")], TOOLS), stream=stream)
        assert len(upstream.received[0].body["tools"]) == 1
    assert reply.finish == "tool_calls"
    assert not reply.message["content"]
    got = [
        (one["id"], one["function"]["name"], json.loads(one["function"]["arguments"]))
        for one in reply.message["tool_calls"]
    ]
    assert got == [("call_a", "read_file", {"path": "a é"}), ("call_b", "search", {"q": [1, {"x": None}]})]


async def test_a_reply_goes_back_with_its_calls_and_signed_reasoning(kind: type[HttpProvider]) -> None:
    first = UpstreamAnswer("Looking.", calls=(call("read_file", {"path": "a"}, "call_a"),), reasoning="Think hard.")
    async with Upstream(first, UpstreamAnswer("Done.")) as upstream:
        reply = await ask(kind, upstream, Request("m", [user("go")], TOOLS))
        # Through a store and back: nothing may hang on the identity of objects.
        history = json.loads(json.dumps([user("go"), reply.message, tool("call_a", "contents")]))
        await ask(kind, upstream, Request("m", history, TOOLS))
        sent = json.dumps(upstream.received[1].body)
    assert sent.count("call_a") == 2
    assert "Looking." in sent and "contents" in sent
    proof = {ResponsesProvider: "encrypted-by-the-mock", AnthropicProvider: "signed-by-the-mock"}
    assert proof.get(kind, "Think hard.") in sent


async def test_what_was_sent_stays_as_sent(kind: type[HttpProvider]) -> None:
    rounds = 4
    answers = [
        UpstreamAnswer(f"Step {at}.", calls=(call("read_file", {"n": at}, f"call_{at}"),), reasoning=f"Thought {at}.")
        for at in range(rounds)
    ]
    async with Upstream(*answers) as upstream:
        history = [system("Be brief."), user("go")]
        for at in range(rounds):
            reply = await ask(kind, upstream, Request("m", history, TOOLS))
            history = json.loads(json.dumps([*history, reply.message, tool(f"call_{at}", f"result {at}")]))
        bodies = [one.body for one in upstream.received]
    for before, after in pairwise(bodies):
        earlier, later = (body.get("messages") or body["input"] for body in (before, after))
        assert later[: len(earlier)] == earlier
        assert json.dumps(later).startswith(json.dumps(earlier)[:-1])
        for name in ("system", "instructions", "tools"):
            assert before.get(name) == after.get(name)


@pytest.mark.parametrize("finish", ["length", "refusal", "other"])
async def test_the_reason_for_the_end_is_told(kind: type[HttpProvider], finish: Any) -> None:
    if kind is ResponsesProvider and finish == "other":
        pytest.skip("this wire has no further reason")
    async with Upstream(UpstreamAnswer("Half", finish=finish)) as upstream:
        assert (await ask(kind, upstream)).finish == finish


async def test_usage_that_nobody_told_is_none(kind: type[HttpProvider]) -> None:
    async with Upstream(UpstreamAnswer("Hi", usage=None)) as upstream:
        reply = await ask(kind, upstream)
    assert reply.usage is None or reply.usage == CanonicalUsage()


@pytest.mark.parametrize("how", [{"chunk_bytes": 1}, {"line_end": "\r\n"}, {"line_end": "\r", "comments": True}])
async def test_odd_streams_read_the_same(kind: type[HttpProvider], how: dict[str, Any]) -> None:
    answer = UpstreamAnswer("größer 一二三 🎈", calls=(call("t", {"a": "é"}),), reasoning="思考")
    async with Upstream(answer, StreamedAnswer(answer, **how)) as upstream:
        plain, odd = await ask(kind, upstream), await ask(kind, upstream)
    assert plain == odd


async def test_an_image_and_tools_reach_the_wire(kind: type[HttpProvider]) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    async with Upstream(UpstreamAnswer("A dot.")) as upstream:
        await ask(kind, upstream, Request("m", [user([{"type": "text", "text": "What?"}, picture])], TOOLS))
        sent = json.dumps(upstream.received[0].body)
    assert "iVBORw0KGgo=" in sent and "read_file" in sent


async def test_a_request_of_megabytes_and_a_reply_of_many_pieces_pass(kind: type[HttpProvider]) -> None:
    long = "word " * 600_000
    async with Upstream(UpstreamAnswer("piece " * 3_000)) as upstream:
        reply = await ask(kind, upstream, Request("m", [user(long)]))
        assert long in json.dumps(upstream.received[0].body)
    assert reply.message["content"] == "piece " * 3_000


async def test_caps_keys_and_extra_fields_reach_the_wire(kind: type[HttpProvider]) -> None:
    request = Request("m", [user("x")], max_tokens=77, cache_key="clew-abc", extra={"temperature": 0.25})
    async with Upstream(UpstreamAnswer("y")) as upstream:
        await ask(kind, upstream, request)
        body = upstream.received[0].body
    assert 77 in (body.get("max_tokens"), body.get("max_output_tokens"), body.get("max_completion_tokens"))
    assert body["temperature"] == 0.25
    assert body.get("prompt_cache_key") == (None if kind is AnthropicProvider else "clew-abc")


async def test_a_refusal_is_typed_and_not_retried(kind: type[HttpProvider]) -> None:
    told = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
    waits = RecordedSleep()
    async with Upstream(
        UpstreamFault(400, {"error": {"message": told, "code": "context_length_exceeded"}})
    ) as upstream:
        with pytest.raises(ProviderRefused) as refused:
            await ask(kind, upstream, retry_policy=RetryPolicy(sleep=waits))
    assert (refused.value.fault.kind, refused.value.fault.limit) == ("prompt_too_long", 8192)
    assert refused.value.partial is None
    assert waits.seconds == []


async def test_a_rate_limit_is_waited_for_as_long_as_it_says(kind: type[HttpProvider]) -> None:
    waits = RecordedSleep()
    limited = UpstreamFault(429, {"error": {"message": "Rate limit reached"}}, {"Retry-After": "7"})
    async with Upstream(limited, limited, UpstreamAnswer("At last.")) as upstream:
        reply = await ask(kind, upstream, retry_policy=RetryPolicy(sleep=waits, jitter=lambda: 0.0))
    assert reply.message["content"] == "At last."
    assert waits.seconds == [7.0, 7.0]


async def test_overload_and_broken_connections_are_retried_with_growing_waits(kind: type[HttpProvider]) -> None:
    waits = RecordedSleep()
    async with Upstream(HangUp(), UpstreamFault(529, "Overloaded"), RawAnswer([]), UpstreamAnswer("Here.")) as upstream:
        reply = await ask(kind, upstream, retry_policy=RetryPolicy(sleep=waits, jitter=lambda: 1.0))
        assert len(upstream.received) == 4
    assert reply.message["content"] == "Here."
    assert waits.seconds == [0.5, 1.0, 2.0]


async def test_a_kept_connection_that_breaks_costs_neither_a_wait_nor_a_retry(kind: type[HttpProvider]) -> None:
    waits = RecordedSleep()
    async with Upstream(UpstreamAnswer("One."), HangUp(), UpstreamAnswer("Two.")) as upstream:
        provider = kind(upstream.base_url, retry_policy=RetryPolicy(retries=0, sleep=waits))
        await provider.send(ASK)
        assert (await provider.send(ASK)).message["content"] == "Two."
        await provider.close()
    assert waits.seconds == []


async def test_several_replies_come_over_one_connection(kind: type[HttpProvider]) -> None:
    async with Upstream(UpstreamAnswer("One."), UpstreamAnswer("Two.")) as upstream:
        provider = kind(upstream.base_url)
        await provider.send(ASK)
        await provider.send(ASK)
        await provider.close()
        assert len({one.peer for one in upstream.received}) == 1


async def test_a_request_whose_sender_tries_again_by_itself_is_sent_once(kind: type[HttpProvider]) -> None:
    waits = RecordedSleep()
    async with Upstream(UpstreamFault(429, "rate limit"), UpstreamAnswer("late")) as upstream:
        with pytest.raises(ProviderRefused):
            await ask(kind, upstream, replace(ASK, is_single_attempt=True), retry_policy=RetryPolicy(sleep=waits))
    assert len(upstream.received) == 1


async def test_retries_end(kind: type[HttpProvider]) -> None:
    waits = RecordedSleep()
    async with Upstream(*[UpstreamFault(503, "service unavailable")] * 9) as upstream:
        with pytest.raises(ProviderRefused) as refused:
            await ask(kind, upstream, retry_policy=RetryPolicy(retries=2, sleep=waits))
        assert len(upstream.received) == 3
    assert refused.value.fault.kind == "overloaded"


async def test_a_wait_longer_than_the_policy_allows_is_left_to_the_person(kind: type[HttpProvider]) -> None:
    waits = RecordedSleep()
    async with Upstream(UpstreamFault(429, "rate limit", {"Retry-After": "3600"})) as upstream:
        with pytest.raises(ProviderRefused) as refused:
            await ask(kind, upstream, retry_policy=RetryPolicy(sleep=waits))
    assert refused.value.fault.retry_after == 3600
    assert waits.seconds == []


async def test_nobody_there_is_a_network_fault(kind: type[HttpProvider]) -> None:
    async with Upstream() as upstream:
        address = upstream.base_url
    gone = kind(address, retry_policy=RetryPolicy(retries=1, sleep=RecordedSleep()))
    with pytest.raises(ProviderRefused) as refused:
        await gone.send(ASK)
    await gone.close()
    assert refused.value.fault.kind == "network"


async def test_a_cut_stream_raises_with_what_had_come(kind: type[HttpProvider]) -> None:
    seen: list[Delta] = []
    async with Upstream(StreamedAnswer(UpstreamAnswer("One two three four five"), cut_after=5)) as upstream:
        with pytest.raises(ProviderRefused) as refused:
            await ask(kind, upstream, seen=seen)
        assert len(upstream.received) == 1
    partial = refused.value.partial
    assert refused.value.fault.kind == "network"
    assert partial is not None and partial["content"]
    assert "One two three four five".startswith(str(partial["content"]))
    assert "".join(delta.text for delta in seen) == partial["content"]


async def test_an_error_inside_the_stream_is_typed_and_keeps_what_had_come(kind: type[HttpProvider]) -> None:
    cut = StreamedAnswer(UpstreamAnswer("One two three four"), error_after=5, error=STREAMED_ERRORS[kind])
    async with Upstream(cut) as upstream:
        with pytest.raises(ProviderRefused) as refused:
            await ask(kind, upstream)
    assert refused.value.fault.kind == "overloaded"
    assert refused.value.partial is not None


async def test_an_error_at_the_start_of_a_stream_is_retried(kind: type[HttpProvider]) -> None:
    early = StreamedAnswer(UpstreamAnswer("never"), error_after=1, error=STREAMED_ERRORS[kind])
    async with Upstream(early, UpstreamAnswer("Second try.")) as upstream:
        assert (await ask(kind, upstream)).message["content"] == "Second try."


async def test_a_stream_that_falls_silent_is_given_up(kind: type[HttpProvider]) -> None:
    retry_policy = RetryPolicy(idle_seconds=0.05, sleep=RecordedSleep())
    async with Upstream(StreamedAnswer(UpstreamAnswer("One two three four five six"), stall_after=5)) as upstream:
        with pytest.raises(ProviderRefused) as refused:
            await ask(kind, upstream, retry_policy=retry_policy)
        await asyncio.wait_for(upstream.hung_up.wait(), 5)
    assert "timed out" in refused.value.body
    assert refused.value.partial is not None


KEEP_ALIVES: dict[type[HttpProvider], list[bytes]] = {
    OpenAIChatProvider: [
        b": waiting\n\n",
        b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n',
    ],
    ResponsesProvider: [b": waiting\n\n", b'data: {"type":"response.in_progress","response":{}}\n\n'],
    AnthropicProvider: [b": waiting\n\n", b'event: ping\ndata: {"type":"ping"}\n\n'],
}


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("begun", [False, True])
async def test_keep_alives_alone_do_not_hold_a_stream_open(kind: type[HttpProvider], which: int, begun: bool) -> None:
    limits = RetryPolicy(content_seconds=0.1, retries=0)
    after = 5 if begun else 0
    drip = StreamedAnswer(
        UpstreamAnswer("One two three four five six"), keep_alives_after=after, keep_alive=KEEP_ALIVES[kind][which]
    )
    async with Upstream(drip) as upstream:
        with pytest.raises(ProviderRefused, match="keep-alives aside") as refused:
            await asyncio.wait_for(ask(kind, upstream, retry_policy=limits), 20)
    assert (refused.value.partial is not None) == begun


async def test_a_stream_without_an_end_is_cut_and_what_came_is_kept(kind: type[HttpProvider]) -> None:
    limits = RetryPolicy(max_stream_bytes=20_000, sleep=RecordedSleep())
    async with Upstream(UpstreamAnswer("word " * 50_000)) as upstream:
        with pytest.raises(ProviderRefused, match="beyond 20,000 bytes and was cut there") as refused:
            await ask(kind, upstream, retry_policy=limits)
        assert len(upstream.received) == 1
    assert refused.value.partial is not None
    assert str(refused.value.partial["content"]).startswith("word word ")
    assert "is kept" in str(explain_refusal(refused.value))


async def test_cancelling_hangs_up(kind: type[HttpProvider]) -> None:
    async with Upstream(StreamedAnswer(UpstreamAnswer("One two three four"), stall_after=4)) as upstream:
        asking = asyncio.create_task(ask(kind, upstream))
        await asyncio.wait_for(upstream.stalled.wait(), 5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(upstream.hung_up.wait(), 5)


async def test_what_the_listener_raises_comes_through_as_it_is(kind: type[HttpProvider]) -> None:
    class StopError(OSError):
        pass

    def stop(_: Delta) -> None:
        raise StopError

    async with Upstream(UpstreamAnswer("Hello")) as upstream:
        provider = kind(upstream.base_url)
        with pytest.raises(StopError):
            await provider.send(ASK, stop)
        await provider.close()


async def test_a_page_instead_of_a_reply_is_refused_with_its_text(kind: type[HttpProvider]) -> None:
    async with Upstream(RawAnswer([b"<html>Please log in</html>"], "text/html")) as upstream:
        with pytest.raises(ProviderRefused, match="Please log in"):
            await ask(kind, upstream)


async def test_a_redirect_is_not_followed(kind: type[HttpProvider]) -> None:
    moved = UpstreamFault(307, "", {"Location": "http://127.0.0.1:1/elsewhere"})
    async with Upstream(moved) as upstream:
        with pytest.raises(ProviderRefused, match="307"):
            await ask(kind, upstream)


async def test_the_key_is_sent_and_shown_nowhere(kind: type[HttpProvider]) -> None:
    async with Upstream(UpstreamFault(401, f"Incorrect API key provided: {KEY}")) as upstream:
        provider = kind(upstream.base_url, api_key=KEY)
        with pytest.raises(ProviderRefused) as refused:
            await provider.send(ASK)
        await provider.close()
        headers = upstream.received[0].headers
    assert KEY in (headers.get("authorization", "").removeprefix("Bearer "), headers.get("x-api-key"))
    assert refused.value.fault.kind == "auth"
    for shown in (repr(provider), str(vars(provider)), str(refused.value), refused.value.body):
        assert KEY not in shown


async def test_the_key_can_come_from_a_named_variable(kind: type[HttpProvider]) -> None:
    async with Upstream(UpstreamAnswer("Hi")) as upstream:
        provider = kind(upstream.base_url, api_key_env="MY_KEY", environ={"MY_KEY": KEY, "OPENAI_API_KEY": "other"})
        await provider.send(ASK)
        await provider.close()
        assert KEY in str(upstream.received[0].headers)


async def test_models_are_listed_as_the_endpoint_wrote_them(kind: type[HttpProvider]) -> None:
    async with Upstream(models=[{"id": "small", "max_model_len": 4096}]) as upstream:
        provider = kind(upstream.base_url)
        assert await provider.models() == [{"id": "small", "max_model_len": 4096}]
        await provider.close()
    async with Upstream() as upstream:
        provider = kind(upstream.base_url)
        assert await provider.models() == []
        await provider.close()


async def test_a_broken_history_is_repaired_on_the_way(kind: type[HttpProvider]) -> None:
    history = [user("a \ud800 b"), tool("nobody", "orphan"), assistant(None, [call("t", "{broken", "c1")])]
    async with Upstream(UpstreamAnswer("Fine.")) as upstream:
        reply = await ask(kind, upstream, Request("m", [*history, user("go on")]))
        sent = json.dumps(upstream.received[0].body)
    assert reply.message["content"] == "Fine."
    assert "nobody" not in sent and sent.count("c1") == 2


def test_a_provider_serves_one_event_loop_after_another(kind: type[HttpProvider]) -> None:
    made: list[HttpProvider] = []

    async def once(port: int) -> int:
        async with Upstream(UpstreamAnswer("Hi"), port=port) as upstream:
            made.append(made[0] if made else kind(upstream.base_url))
            assert (await made[0].send(ASK)).message["content"] == "Hi"
            return upstream.port

    asyncio.run(once(asyncio.run(once(0))))
    asyncio.run(made[0].close())
