"""Other users of the machine: what they reach of a gateway without keys, and of the one of `clew wrap`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from clew.gateway import GatewayOptions
from clew.testing.gateway import GATEWAY_MODEL
from tests.gateway.raw_http import answering, ask_raw
from tests.support.gateway import gateway_with

TOKEN = "fake-token-of-this-gateway"
SHOWN = ("x-clew-token", TOKEN)
PRIVATE = GatewayOptions(token=TOKEN, needs_token=True)


@pytest.mark.parametrize("secret", ["", "ollama", "sk-no-key-required", "EMPTY"])
async def test_a_credential_that_anybody_could_send_reads_no_conversation_without_the_token(
    tmp_path: Path, secret: str
) -> None:
    sent = (("Authorization", f"Bearer {secret}"),) if secret else ()
    async with gateway_with(answering(), tmp_path, listen=GatewayOptions(token=TOKEN)) as flow:
        reply = await ask_raw(flow, "/v1/chat/completions", *sent)
        session = reply.headers["x-clew-session"]
        await flow.wait_for_recordings()
        for method, path in (
            ("GET", "/clew/conversations"),
            ("GET", f"/clew/conversations/{session}/messages"),
            ("DELETE", f"/clew/conversations/{session}"),
            ("GET", "/clew/search?q=hello"),
        ):
            refused = await ask_raw(flow, path, *sent, method=method)
            assert refused.status == 401 and "x-clew-token" in refused.json["error"]["message"]
            assert (await ask_raw(flow, path, *sent, ("x-clew-token", "wrong"), method=method)).status == 401
        listed = await ask_raw(flow, "/clew/conversations", *sent, SHOWN, method="GET")
        assert [it["id"] for it in listed.json["conversations"]] == [session]
        assert not any("x-clew-token" in call.headers for call in flow.upstream.received)


async def test_a_credential_of_ones_own_reads_ones_own_conversations_without_a_token(tmp_path: Path) -> None:
    own = ("Authorization", "Bearer sk-fake-0123456789abcdef0123456789abcdef")
    async with gateway_with(answering(), tmp_path, listen=GatewayOptions(token=TOKEN)) as flow:
        await ask_raw(flow, "/v1/chat/completions", own)
        await flow.wait_for_recordings()
        assert len((await ask_raw(flow, "/clew/conversations", own, method="GET")).json["conversations"]) == 1


async def test_a_private_gateway_answers_only_who_has_the_token(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path, listen=PRIVATE) as flow:
        for path in ("/v1/chat/completions", "/v1/messages", f"/{TOKEN}x/v1/messages", "/v1/messages?token=" + TOKEN):
            refused = await ask_raw(flow, path)
            assert refused.status in (401, 404) and not flow.upstream.received
        assert (await ask_raw(flow, "/clew/conversations", method="GET")).status == 401
        assert (await ask_raw(flow, "/v1/messages", SHOWN)).status == 200
        async with AsyncOpenAI(base_url=f"{flow.root}/{TOKEN}/v1", api_key="fake") as client:
            await client.chat.completions.create(model=GATEWAY_MODEL, messages=[{"role": "user", "content": "hi"}])
        async with AsyncAnthropic(base_url=f"{flow.root}/{TOKEN}", api_key="fake") as anthropic:
            stream = anthropic.messages.stream(
                model=GATEWAY_MODEL, max_tokens=5, messages=[{"role": "user", "content": "hi"}]
            )
            async with stream as events:
                assert await events.get_final_text() == "ok"
        paths = [call.path for call in flow.upstream.calls]
        assert paths == ["/v1/messages", "/v1/chat/completions", "/v1/messages"]
        assert TOKEN not in json.dumps([dict(call.headers) for call in flow.upstream.received])
        listed = await ask_raw(flow, f"/{TOKEN}/clew/conversations", method="GET")
        assert listed.status == 200
