"""What is particular to Anthropic's wire: markers on blocks, signed thinking, a cap with every request."""

from __future__ import annotations

from typing import Any, cast

import pytest

from clew.caching import apply_cache_control
from clew.messages import Message
from clew.providers import AnthropicProvider, ProviderRefused, Request
from clew.testing.messages import assistant, call, system, tool, user
from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer

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
