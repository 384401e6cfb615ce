"""What is particular to Anthropic's wire: markers on blocks, signed thinking, a cap with every request."""

from __future__ import annotations

from typing import Any, cast

import pytest

from clew.caching import apply_cache_control
from clew.messages import Message
from clew.providers import AnthropicProvider, ProviderRefused, Request
from clew.testing.messages import assistant, call, system, tool, user
from clew.testing.upstream import RawAnswer, StreamedAnswer, Upstream, UpstreamAnswer
from clew.testing.upstream_wires import anthropic_events, as_json

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def encoded(messages: list[Message], **fields: Any) -> dict[str, Any]:
    provider = AnthropicProvider("http://127.0.0.1:9")
    return provider.encode(Request(fields.pop("model", "claude-opus-4-1"), messages, **fields), frozenset())


def markers(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(markers, value))
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(markers, value.values()))
    return 0


def test_breakpoints_stand_on_the_blocks() -> None:
    history = [system("s"), user("u"), assistant(None, [call("t", {}, "c")]), tool("c", "r"), user([PICTURE])]
    body = encoded(apply_cache_control(history, native=True))
    assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert markers(body) == 4
    last = body["messages"][-1]["content"]
    assert [block["type"] for block in last] == ["tool_result", "image"]
    assert all("cache_control" in block for block in last)


def test_there_is_always_a_cap_and_the_caller_has_the_last_word() -> None:
    assert encoded([user("x")], model="claude-3-haiku-20240307")["max_tokens"] == 4096
    assert encoded([user("x")], model="nobody-knows")["max_tokens"] == 32_000
    assert encoded([user("x")], max_tokens=9)["max_tokens"] == 9


def test_the_system_prompt_stands_beside_the_messages() -> None:
    body = encoded([system("Be brief."), user("x")])
    assert body["system"] == "Be brief."
    assert [message["role"] for message in body["messages"]] == ["user"]


def stream_of(*events: tuple[str, Any]) -> RawAnswer:
    return RawAnswer([b"".join(f"event: {name}\ndata: {as_json(value)}\n\n".encode() for name, value in events)])


def two_messages(first_ends: bool) -> RawAnswer:
    first, second = (list(anthropic_events(UpstreamAnswer(text), {})) for text in ("The first.", "The second."))
    ends = [event for event in first if event[0] in ("message_delta", "message_stop")]
    began = [event for event in first if event not in ends]
    return stream_of(*began, *(ends if first_ends else ()), *second)


async def test_a_second_message_in_a_stream_is_not_part_of_the_first() -> None:
    async with Upstream(two_messages(first_ends=True)) as upstream:
        provider = AnthropicProvider(upstream.base_url)
        assert (await provider.send(Request("m", [user("x")]))).message["content"] == "The first."
        await provider.close()


async def test_a_second_message_that_cuts_the_first_off_is_an_error_that_keeps_the_first() -> None:
    async with Upstream(two_messages(first_ends=False)) as upstream:
        provider = AnthropicProvider(upstream.base_url)
        with pytest.raises(ProviderRefused, match="another message began") as refused:
            await provider.send(Request("m", [user("x")]))
        await provider.close()
    assert refused.value.partial is not None and refused.value.partial["content"] == "The first."


@pytest.mark.parametrize("base", ["", "/v1", "/v1/"])
async def test_the_base_url_may_name_the_version_or_not(base: str) -> None:
    async with Upstream(UpstreamAnswer("a")) as upstream:
        provider = AnthropicProvider(upstream.base_url.removesuffix("/v1") + base, api_key="k" * 9)
        await provider.send(Request("m", [user("x")]))
        await provider.close()
        assert upstream.received[0].path == "/v1/messages"
        assert upstream.received[0].headers["anthropic-version"] == "2023-06-01"


async def test_thinking_that_was_cut_before_its_signature_is_not_kept() -> None:
    cut = StreamedAnswer(UpstreamAnswer("text", reasoning="long and careful thought"), cut_after=5)
    async with Upstream(cut) as upstream:
        provider = AnthropicProvider(upstream.base_url)
        seen: list[str] = []
        with pytest.raises(ProviderRefused) as refused:
            await provider.send(Request("m", [user("x")]), lambda delta: seen.append(delta.text))
        await provider.close()
    assert seen
    assert refused.value.partial == {"role": "assistant", "content": ""}


async def test_thinking_is_kept_with_its_signature() -> None:
    async with Upstream(UpstreamAnswer("text", reasoning="thought")) as upstream:
        provider = AnthropicProvider(upstream.base_url)
        reply = await provider.send(Request("m", [user("x")]))
        await provider.close()
    block = {"type": "thinking", "thinking": "thought", "signature": "signed-by-the-mock"}
    assert reply.message == cast(Message, {"role": "assistant", "content": "text", "reasoning": [block]})
    assert encoded([user("x"), reply.message])["messages"][1]["content"] == [block, {"type": "text", "text": "text"}]
