"""The provider that plays a script."""

from __future__ import annotations

import pytest

from clew.errors import InvalidArgument
from clew.providers import Delta, ProviderRefused, Reply, Request
from clew.testing.messages import call, user
from clew.testing.scripted import ScriptedProvider, breaks_off, calls, overflow, says

ASK = Request("m", [user("go")])


async def test_it_plays_its_steps_and_keeps_the_requests() -> None:
    provider = ScriptedProvider(overflow(limit=131_072), calls(call("t", {})), says("done now", prompt_tokens=12))
    seen: list[Delta] = []
    with pytest.raises(ProviderRefused) as refused:
        await provider.send(ASK)
    assert (refused.value.fault.kind, refused.value.fault.limit) == ("prompt_too_long", 131_072)
    assert (await provider.send(ASK, seen.append)).finish == "tool_calls"
    reply = await provider.send(ASK, seen.append)
    assert reply.usage is not None and reply.usage.prompt_tokens == 12
    assert [delta.text for delta in seen] == ["t", "done ", "now"]
    assert provider.requests == [ASK, ASK, ASK]
    assert provider.steps_left == 0


async def test_a_step_may_look_at_the_request() -> None:
    def echo(request: Request) -> Reply:
        return says(str(request.messages[-1]["content"]).upper())

    assert (await ScriptedProvider(echo).send(ASK)).message["content"] == "GO"


async def test_a_broken_connection_shows_what_had_come() -> None:
    seen: list[Delta] = []
    with pytest.raises(ProviderRefused) as refused:
        await ScriptedProvider(breaks_off("half a")).send(ASK, seen.append)
    assert refused.value.partial == {"role": "assistant", "content": "half a"}
    assert "".join(delta.text for delta in seen) == "half a"


async def test_a_call_beyond_the_script_says_so() -> None:
    provider = ScriptedProvider(says("one"))
    await provider.send(ASK)
    with pytest.raises(InvalidArgument, match="1 steps, and this is call 2"):
        await provider.send(ASK)
