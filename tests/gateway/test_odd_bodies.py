"""Bodies that no client should send, and errors of our own: the client's bytes go on, and nothing is a 500."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.gateway.upstream import CHARS_PER_TOKEN, MAX_READ_BYTES
from clew.messages import text_of
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import RawAnswer, Upstream, UpstreamAnswer
from clew.testing.upstream_rules import UpstreamRules
from tests.support.gateway import gateway_with

ASKED = {"role": "user", "content": "hi"}
HUGE_NUMBER = "9" * 10_000
ODD: dict[str, str | bytes] = {
    "a message without a role": '{"model":"m","messages":[{"content":"hi"}]}',
    "a number as prompt": '{"model":"m","system":5,"messages":[{"role":"user","content":"hi"}]}',
    "a list of numbers": '{"model":"m","messages":[1,2]}',
    "calls that are a number": '{"model":"m","messages":[{"role":"user","content":"hi","tool_calls":5}]}',
    "tools that are a number": '{"model":"m","tools":7,"messages":[{"role":"user","content":"hi"}]}',
    "a huge number": '{"model":"m","messages":[{"role":"user","content":"hi","n":' + HUGE_NUMBER + "}]}",
    "a list as role": '{"model":"m","messages":[{"role":["user"],"content":"hi"}]}',
    "invalid UTF-8": b'{"model":"m","messages":[{"role":"user","content":"\xff\xfe"}]}',
    "half an emoji": '{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
    "a model that is a number": '{"model":5,"messages":[{"role":"user","content":"hi"}]}',
    "no list": '{"model":"m","messages":{"role":"user"}}',
}


def raw_body(case: str) -> bytes:
    body = ODD[case]
    return body.encode() if isinstance(body, str) else body


PATHS = ["chat/completions", "messages", "messages/count_tokens", "responses"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("case", list(ODD))
async def test_an_odd_body_goes_on_as_it_came(tmp_path: Path, path: str, case: str) -> None:
    raw = raw_body(case)
    raw = raw.replace(b'"messages":', b'"input":') if path == "responses" else raw
    upstream = Upstream(answers=lambda _: UpstreamAnswer("done"))
    async with gateway_with(upstream, tmp_path) as flow, aiohttp.ClientSession() as http:
        headers = {"Content-Type": "application/json"}
        async with http.post(f"{flow.base_url}/{path}", data=raw, headers=headers) as response:
            # The mock cannot count some of these.
            assert response.status == 200 or path.endswith("count_tokens"), await response.read()
        assert upstream.received[-1].raw == raw


@pytest.mark.parametrize("case", list(ODD))
async def test_an_odd_request_for_a_handle_goes_on_as_it_came(tmp_path: Path, case: str) -> None:
    raw = raw_body(case)
    raw = raw.replace(b'"messages":[', b'"input":[').replace(b"}]}", b'},{"type":"compaction_trigger"}]}')
    upstream = Upstream(answers=lambda _: UpstreamAnswer("done"))
    async with gateway_with(upstream, tmp_path) as flow, aiohttp.ClientSession() as http:
        headers = {"Content-Type": "application/json"}
        async with http.post(f"{flow.base_url}/responses", data=raw, headers=headers) as response:
            assert response.status == 200, await response.read()


async def test_half_an_emoji_is_recorded_and_folded(tmp_path: Path) -> None:
    upstream = Upstream(answers=lambda _: UpstreamAnswer("done"), rules=UpstreamRules(window=8_000))
    async with gateway_with(upstream, tmp_path) as flow, aiohttp.ClientSession() as http:
        items: list[Any] = []
        for turn in range(40):
            items.append({"role": "user", "content": f"{turn}: \ud83d " + "cut inside an emoji " * 30})
            raw = json.dumps({"model": GATEWAY_MODEL, "messages": items})
            async with http.post(f"{flow.base_url}/chat/completions", data=raw) as response:
                answer = await response.json()
                assert response.status == 200, answer
            items.append(answer["choices"][0]["message"])
            await flow.wait_for_recordings()
        assert any(record.is_folded for record in flow.exchanges)
        assert not any(record.is_fallback for record in flow.exchanges)
        (tip,) = [it for it in await flow.store.list_sessions() if it.ended is None]
        stored = [text_of(row.message) for row in await flow.store.messages(tip.id)]
        assert len(stored) == 80 and stored[0].startswith("0: \ufffd cut")


async def test_a_refusal_that_breaks_off_reaches_the_client_with_its_status(tmp_path: Path) -> None:
    broken = b'HTTP/1.1 401 Unauthorized\r\nContent-Length: 500\r\n\r\n{"error": {"message": "no'

    async def hang_up(_: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        out.write(broken)
        out.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        upstream = Upstream()
        upstream.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with gateway_with(upstream, tmp_path) as flow, aiohttp.ClientSession() as http:
            body = {"model": GATEWAY_MODEL, "messages": [ASKED]}
            async with http.post(f"{flow.base_url}/chat/completions", json=body) as response:
                assert response.status == 401


async def test_a_very_long_model_name_is_not_looked_at(tmp_path: Path) -> None:
    upstream = Upstream(answers=lambda _: UpstreamAnswer("done"))
    async with gateway_with(upstream, tmp_path) as flow, aiohttp.ClientSession() as http:
        body = {"model": "claude-a-" * 20_000, "messages": [ASKED]}
        async with asyncio.timeout(5), http.post(f"{flow.base_url}/messages", json=body) as response:
            assert response.status == 200
        await flow.wait_for_recordings()
        assert upstream.received[-1].body["model"] == body["model"]
        assert await flow.store.list_sessions() == []
    assert len(flow.exchanges[-1].model) <= 200


async def test_a_reply_without_end_is_not_kept_in_memory(tmp_path: Path) -> None:
    """What cannot be stored any more is passed on and forgotten."""
    piece = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % (b"x" * 500_000)
    upstream = Upstream(RawAnswer([piece] * 300, content_type="text/event-stream"))
    async with gateway_with(upstream, tmp_path) as flow, aiohttp.ClientSession() as http:
        body = {"model": GATEWAY_MODEL, "stream": True, "messages": [ASKED]}
        passed = 0
        async with http.post(f"{flow.base_url}/chat/completions", json=body) as response:
            async for chunk in response.content.iter_any():
                passed += len(chunk)
        assert passed == 300 * len(piece)
        await flow.wait_for_recordings()
        usage = flow.exchanges[-1].usage
        assert usage is not None
        assert 0.9 * MAX_READ_BYTES < usage.output_tokens * CHARS_PER_TOKEN <= MAX_READ_BYTES
        assert len(await flow.store.messages((await flow.store.list_sessions())[0].id)) == 1


async def test_a_request_with_more_messages_than_are_read_passes_and_is_counted_as_a_fallback(tmp_path: Path) -> None:
    item = b'{"role":"user","content":""}'
    raw = b'{"model":"mock-model","messages":[' + b",".join([item] * 50_001) + b"]}"
    async with gateway_with(Upstream(UpstreamAnswer("ok")), tmp_path) as flow, aiohttp.ClientSession() as http:
        async with http.post(f"{flow.base_url}/chat/completions", data=io.BytesIO(raw)) as response:
            assert response.status == 200
        await flow.wait_for_recordings()
        assert flow.upstream.calls[-1].raw == raw
        while not flow.exchanges:  # noqa: ASYNC110 (it ends shortly after the client has the reply)
            await asyncio.sleep(0)
        assert [(it.is_fallback, it.session) for it in flow.exchanges] == [(True, None)]
        (total,) = await flow.store.usage()
        assert total.calls == 1


async def test_a_name_that_is_no_models_is_passed_on_and_nothing_is_kept_of_it(tmp_path: Path) -> None:
    async with gateway_with(Upstream(answers=lambda _: UpstreamAnswer("ok")), tmp_path) as flow:
        for letter in "ab":
            body = {"model": letter * 50_000, "messages": [ASKED]}
            async with aiohttp.ClientSession() as http, http.post(f"{flow.base_url}/chat/completions", json=body) as it:
                assert it.status == 200
        await flow.wait_for_recordings()
        assert [call.body["model"] for call in flow.upstream.calls] == ["a" * 50_000, "b" * 50_000]
        assert await flow.store.list_sessions() == [] and not flow.events
        assert {len(record.model) for record in flow.exchanges} == {200}
