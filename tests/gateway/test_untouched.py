"""What must pass untouched: requests and replies of every wire, byte for byte, and also where something fails here."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.gateway.conversations import OpenConversations
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import RawAnswer, Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow, gateway_with

KEY = "fake-key-of-a-test"
MARK = b'"cache_control":{"type":"ephemeral","ttl":"1h"}'
ODD = b'"seed": 9007199254740993123, "t":1.0,\n"e":"\\ud83d\\ude00 \xf0\x9f\x98\x80 \\u00e9","deep":[1e-7,-0.0,1E3]'
CHAT = b'{"model": "mock-model", %s, "messages":[{"role":"user","content":"hi"},{"role":"user","content":"go"}]}' % ODD
MESSAGES = (
    b'{"model":"mock-model","max_tokens": 5,"system":[{"type":"text","text":"a",%s},{"type":"text","text":"b",%s}],'
    b'"messages":[{"role":"user","content":[{"type":"text","text":"hi",%s}]},{"role":"assistant","content":'
    b'[{"type":"thinking","thinking":"hm","signature":"abc=="},{"type":"text","text":"a"}]},'
    b'{"role":"user","content":[{"type":"text","text":"go",%s}]}], %s}'
) % (MARK, MARK, MARK, MARK, ODD)
RESPONSES = (
    b'{"model": "mock-model", "input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},'
    b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA=="},{"role":"user","content":"go"}], %s}'
) % ODD
GEMINI = (
    b'{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"a",'
    b'"thoughtSignature":"abc=="}]},{"role":"user","parts":[{"text":"go"}]}], %s}'
) % ODD
BODIES = {
    "/v1/chat/completions": CHAT,
    "/v1/messages?beta=true": MESSAGES,
    "/v1/responses": RESPONSES,
    f"/v1beta/models/{GATEWAY_MODEL}:generateContent": GEMINI,
    f"/v1beta/models/{GATEWAY_MODEL}:streamGenerateContent?alt=sse": GEMINI,
}
REPLIES = {
    "application/json": [
        b'{"id": "x",\n "odd": [1.0, 9007199254740993123, "\\ud83d\\ude00 ',
        b'\xf0\x9f\x98\x80"] }\n',
    ],
    "text/event-stream": [b': hello\r\n\r\nevent: odd\r\ndata: {"a": 1.0', b"}\r\n\r\ndata: [DONE]\n\n", b"\n"],
}


async def post(flow: GatewayFlow, path: str, body: bytes) -> bytes:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession() as http, http.post(flow.root + path, data=body, headers=headers) as response:
        assert response.status == 200
        return await response.read()


@pytest.mark.parametrize("kind", REPLIES)
@pytest.mark.parametrize("mode", ["observe", "compact"])
@pytest.mark.parametrize("path", BODIES)
async def test_requests_and_replies_pass_byte_for_byte(tmp_path: Path, path: str, mode: Any, kind: str) -> None:
    async with gateway_with(Upstream(RawAnswer(REPLIES[kind], kind)), tmp_path, mode=mode) as flow:
        answered = await post(flow, path, BODIES[path])
        (received,) = flow.upstream.received
        assert sha256(received.raw).digest() == sha256(BODIES[path]).digest()
        assert sha256(answered).digest() == sha256(b"".join(REPLIES[kind])).digest()
        assert f"?{received.query}" in path or not received.query
        await flow.wait_for_recordings()
        assert not flow.exchanges[0].is_fallback


async def test_what_is_no_conversation_passes(tmp_path: Path) -> None:
    async with gateway_with(Upstream(models=[{"id": GATEWAY_MODEL}]), tmp_path) as flow:
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as http:
            async with http.head(flow.root + "/") as response:
                assert response.status == 200
            async with http.get(flow.base_url + "/models") as response:
                assert [model["id"] for model in (await response.json())["data"]] == [GATEWAY_MODEL]
        await post(flow, "/v1/responses/compact", RESPONSES)
        assert flow.upstream.received[-1].raw == RESPONSES


BROKEN = """
from clew.engines import ContextCompressor, register_context_engine

class Broken(ContextCompressor):
    name = "broken"

    def should_compress(self, prompt_tokens=None):
        raise RuntimeError("private words")

def register():
    register_context_engine("broken", Broken.of)
"""


async def test_where_something_fails_inside_the_bytes_pass_and_that_is_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "plugins" / "context_engine" / "broken"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(BROKEN)
    upstream = Upstream(UpstreamAnswer("first"), UpstreamAnswer("second"))
    async with gateway_with(upstream, tmp_path, environ={"CLEW_CONTEXT_ENGINE": "broken"}) as flow:
        before = b'"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},'
        long = MESSAGES.replace(b'"messages":[', before)
        for body in (long, long.replace(b'"hi"', b'"hello"')):
            assert b"text" in await post(flow, "/v1/messages", body)
            assert flow.upstream.received[-1].raw == body
        await flow.wait_for_recordings()
        assert [record.is_fallback for record in flow.exchanges] == [True, True]
        assert "clew_gateway_fallbacks_total 2.0" in flow.server.metrics.page().decode()
    assert "a request passes unchanged: RuntimeError in should_compress" in caplog.text
    assert "private words" not in caplog.text


BREAKS_LATER = """
from clew.engines import ContextCompressor, register_context_engine

class BreaksLater(ContextCompressor):
    name = "breaks-later"

    async def compress(self, messages, *args, **options):
        if len(messages) > 40:
            raise RuntimeError("broken")
        return await super().compress(messages, *args, **options)

def register():
    register_context_engine("breaks-later", BreaksLater.of)
"""


async def test_the_bytes_pass_where_also_the_former_fold_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("private words")

    async with gateway_with(Upstream(UpstreamAnswer("first")), tmp_path) as flow:
        monkeypatch.setattr(OpenConversations, "matched", fails)
        monkeypatch.setattr(OpenConversations, "project", fails)
        assert b"text" in await post(flow, "/v1/messages", MESSAGES)
        assert flow.upstream.received[-1].raw == MESSAGES
        await flow.wait_for_recordings()
        assert [(record.is_fallback, record.is_folded) for record in flow.exchanges] == [(True, False)]
    assert caplog.text.count("a request passes unchanged: RuntimeError") == 2
    assert "private words" not in caplog.text


async def test_what_was_folded_stays_folded_where_something_fails_inside(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "context_engine" / "breaks-later"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(BREAKS_LATER)
    async with gateway_with(
        Upstream(*[UpstreamAnswer("a")] * 2), tmp_path, environ={"CLEW_CONTEXT_ENGINE": "breaks-later"}
    ) as flow:
        history: list[dict[str, str]] = []
        sent: list[list[Any]] = []
        for turns, words in ((15, 520), (60, 100)):
            for turn in range(turns):
                history += [
                    {"role": "user", "content": f"{turn} " + "word " * words},
                    {"role": "assistant", "content": "ok"},
                ]
            history.append({"role": "user", "content": "go on"})
            body = json.dumps({"model": GATEWAY_MODEL, "messages": history}).encode()
            await post(flow, "/v1/chat/completions", body)
            await flow.wait_for_recordings()
            sent.append(json.loads(flow.upstream.received[-1].raw)["messages"])
            history.append({"role": "assistant", "content": "a"})
        assert [record.is_fallback for record in flow.exchanges] == [False, True]
        first, second = sent
        assert len(first) < 31 and second[: len(first)] == first
        assert len(second) == len(first) + 1 + 2 * 60 + 1
