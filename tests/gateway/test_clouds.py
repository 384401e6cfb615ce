"""The same models in the clouds: Azure, Bedrock, Vertex and a ChatGPT login, by the real SDKs where there are any."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from anthropic import AsyncAnthropicBedrock, AsyncAnthropicVertex, AuthenticationError
from google import genai
from google.genai import types
from openai import AsyncAzureOpenAI, AsyncOpenAI

from clew.gateway.aws import AwsCredential, EventFrame, FrameReader, event_frame, is_signed_with, signed_headers
from clew.messages import text_of
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault, UpstreamRules
from tests.gateway.raw_http import PROVIDER_KEY, ask_raw, make_caller
from tests.support.gateway import GatewayFlow, gateway_with

boto = pytest.importorskip("botocore.auth")
LONG = "many words of a question that goes on " * 80
BEDROCK_MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123"
AWS = {"AWS_ACCESS_KEY_ID": "FAKEKEYID", "AWS_SECRET_ACCESS_KEY": "fake-secret", "AWS_REGION": "us-west-2"}
SIGNS: dict[str, Any] = {"aws_access_key": "FAKEKEYID", "aws_secret_key": "fake-secret", "aws_region": "us-west-2"}


def small(model: str) -> dict[str, str]:
    """A window that a few long turns fill."""
    return {"CLEW_MODEL_NAME": model, "CLEW_MODEL_CONTEXT_LENGTH": "8000"}


def answering(**more: Any) -> Upstream:
    return Upstream(answers=lambda call: UpstreamAnswer("ok", model=str(call.body.get("model", ""))), **more)


async def talk(flow: GatewayFlow, ask: Any, turns: int = 14) -> int:
    """A conversation that does not fit its window; how many requests were folded. Every answer has to come."""
    history: list[Any] = []
    for number in range(turns):
        history.append({"role": "user", "content": f"question {number}: {LONG}"})
        assert await ask(history) == "ok"
        history.append({"role": "assistant", "content": "ok"})
        await flow.wait_for_recordings()
    assert not any(record.is_fallback for record in flow.exchanges)
    assert all(record.usage is not None for record in flow.exchanges)
    return sum(record.is_folded for record in flow.exchanges)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("suffix", ["", "/openai", "/openai/v1"])
async def test_azure_chat_goes_on_with_its_deployment_and_version_and_is_folded(
    tmp_path: Path, stream: bool, suffix: str
) -> None:
    async with answering() as upstream, AsyncExitStack() as last:
        given = (f"azure={upstream.origin}{suffix}",)
        flow = await last.enter_async_context(
            gateway_with(upstream, tmp_path, environ=small("my-gpt"), upstreams=given)
        )
        client = await last.enter_async_context(
            AsyncAzureOpenAI(azure_endpoint=flow.root, api_key=PROVIDER_KEY, api_version="2025-04-01-preview")
        )

        async def ask(history: list[Any]) -> str:
            if not stream:
                reply = await client.chat.completions.create(model="my-gpt", messages=history)
                return reply.choices[0].message.content or ""
            text = ""
            async for chunk in await client.chat.completions.create(model="my-gpt", messages=history, stream=True):
                text += chunk.choices[0].delta.content or "" if chunk.choices else ""
            return text

        assert await talk(flow, ask) > 0
        last_call = upstream.calls[-1]
        assert last_call.path == "/openai/deployments/my-gpt/chat/completions"
        assert last_call.query == "api-version=2025-04-01-preview"
        assert last_call.headers["api-key"] == PROVIDER_KEY


async def test_azure_responses_and_a_key_of_clew(tmp_path: Path) -> None:
    environ = {**small("my-gpt"), "CLEW_MODEL_API_KEY": PROVIDER_KEY}
    async with answering() as upstream:
        given = (f"{upstream.origin}/openai",)
        async with gateway_with(upstream, tmp_path, environ=environ, upstreams=given) as flow:
            key = await make_caller(flow, "ann")
            async with AsyncAzureOpenAI(azure_endpoint=flow.root, api_key=key, api_version="2025-04-01") as client:
                reply = await client.responses.create(model="my-gpt", input=[{"role": "user", "content": "hi"}])
            assert reply.output_text == "ok"
        assert upstream.calls[-1].path == "/openai/responses" and upstream.calls[-1].query == "api-version=2025-04-01"
        assert upstream.calls[-1].headers["api-key"] == PROVIDER_KEY
        assert key not in json.dumps(dict(upstream.calls[-1].headers))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_claude_on_vertex_is_folded_and_counted(tmp_path: Path, stream: bool) -> None:
    model = "claude-sonnet-4-5@20250929"
    async with answering() as upstream, AsyncExitStack() as last:
        flow = await last.enter_async_context(
            gateway_with(upstream, tmp_path, environ=small(model), upstreams=(upstream.origin,))
        )
        client = await last.enter_async_context(
            AsyncAnthropicVertex(
                region="us-east5", project_id="my-project", access_token="fake-token", base_url=f"{flow.root}/v1"
            )
        )

        async def ask(history: list[Any]) -> str:
            if not stream:
                reply = await client.messages.create(model=model, max_tokens=100, messages=history)
                return "".join(block.text for block in reply.content if block.type == "text")
            async with client.messages.stream(model=model, max_tokens=100, messages=history) as events:
                return await events.get_final_text()

        assert await talk(flow, ask) > 0
        method = "streamRawPredict" if stream else "rawPredict"
        path = f"/v1/projects/my-project/locations/us-east5/publishers/anthropic/models/{model}:{method}"
        assert upstream.calls[-1].path == path
        assert upstream.calls[-1].headers["authorization"] == "Bearer fake-token"
        counted = await client.messages.count_tokens(model=model, messages=[{"role": "user", "content": "hi"}])
        assert counted.input_tokens > 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_gemini_on_vertex_is_folded(tmp_path: Path, stream: bool) -> None:
    model = "gemini-2.5-pro"
    async with answering() as upstream, AsyncExitStack() as last:
        flow = await last.enter_async_context(
            gateway_with(upstream, tmp_path, environ=small(model), upstreams=(f"vertex={upstream.origin}",))
        )
        options = types.HttpOptions(base_url=flow.root, api_version="v1beta1")
        client = last.enter_context(genai.Client(vertexai=True, api_key=PROVIDER_KEY, http_options=options))

        async def ask(history: list[Any]) -> str:
            roles = {"user": "user", "assistant": "model"}
            contents: Any = [{"role": roles[it["role"]], "parts": [{"text": it["content"]}]} for it in history]
            if not stream:
                reply = await asyncio.to_thread(client.models.generate_content, model=model, contents=contents)
                return reply.text or ""
            chunks = client.models.generate_content_stream(model=model, contents=contents)
            return "".join([chunk.text or "" for chunk in await asyncio.to_thread(list, chunks)])

        assert await talk(flow, ask) > 0
        method = "streamGenerateContent" if stream else "generateContent"
        assert upstream.calls[-1].path == f"/v1beta1/publishers/google/models/{model}:{method}"


def is_signed_for(upstream: Upstream, call: Any, path: str) -> bool:
    """Whether Amazon's own library comes to the same signature for what the upstream got."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    told: Mapping[str, str] = call.headers
    names = told["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    headers = {name: told[name] for name in names}
    request = AWSRequest("POST", upstream.origin + path, headers=headers, data=call.raw)
    request.context["timestamp"] = told["x-amz-date"]
    token = told.get("x-amz-security-token")
    signer = SigV4Auth(Credentials("FAKEKEYID", "fake-secret", token), "bedrock", "us-west-2")
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    return bool(told["authorization"].endswith(f"Signature={signature}"))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", [BEDROCK_MODEL, ARN], ids=["model", "profile"])
async def test_claude_on_bedrock_is_folded_and_signed_anew(tmp_path: Path, stream: bool, model: str) -> None:
    environ = {**small(model), **AWS, "AWS_SESSION_TOKEN": "fake-session"}
    async with answering() as upstream, AsyncExitStack() as last:
        flow = await last.enter_async_context(
            gateway_with(upstream, tmp_path, environ=environ, upstreams=(f"bedrock={upstream.origin}",))
        )
        client = await last.enter_async_context(
            AsyncAnthropicBedrock(base_url=flow.root, aws_session_token="fake-session", max_retries=0, **SIGNS)
        )

        async def ask(history: list[Any]) -> str:
            if not stream:
                reply = await client.messages.create(model=model, max_tokens=100, messages=history)
                return "".join(block.text for block in reply.content if block.type == "text")
            async with client.messages.stream(model=model, max_tokens=100, messages=history) as events:
                return await events.get_final_text()

        assert await talk(flow, ask) > 0
        assert {record.model for record in flow.exchanges} == {model}
        method = "invoke-with-response-stream" if stream else "invoke"
        quoted = model.replace("/", "%2F")
        assert upstream.calls[-1].path == f"/model/{model}/{method}"
        for call in upstream.calls:
            assert is_signed_for(upstream, call, f"/model/{quoted}/{method}")


async def test_who_signed_with_another_credential_is_not_signed_for(tmp_path: Path) -> None:
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
    async with answering() as upstream:
        given = (f"bedrock={upstream.origin}",)
        async with gateway_with(upstream, tmp_path, environ=AWS, upstreams=given) as flow:
            other = {**SIGNS, "aws_secret_key": "another-secret"}
            async with AsyncAnthropicBedrock(base_url=flow.root, max_retries=0, **other) as client:
                with pytest.raises(AuthenticationError, match="AWS_ACCESS_KEY_ID"):
                    await client.messages.create(
                        model=BEDROCK_MODEL, max_tokens=5, messages=[{"role": "user", "content": "x"}]
                    )
            # Nobody at all is not signed for either.
            raw = json.dumps(body).encode()
            assert (await ask_raw(flow, f"/model/{BEDROCK_MODEL}/invoke", body=raw)).status == 401
            assert not upstream.received
            # A bearer token is the caller's own, and passes.
            bearer = ("Authorization", "Bearer fake-bedrock-token")
            assert (await ask_raw(flow, f"/model/{BEDROCK_MODEL}/invoke", bearer, body=raw)).status == 200
            assert upstream.calls[0].headers["authorization"] == "Bearer fake-bedrock-token"
            assert upstream.calls[0].raw == raw
            # Converse has another format, which is not read: it is not served.
            assert (await ask_raw(flow, f"/model/{BEDROCK_MODEL}/converse", bearer, body=raw)).status == 404
            key = await make_caller(flow, "ann")
            async with AsyncAnthropicBedrock(base_url=flow.root, api_key=key, aws_region="us-west-2") as client:
                await client.messages.create(
                    model=BEDROCK_MODEL, max_tokens=5, messages=[{"role": "user", "content": "x"}]
                )
        assert is_signed_for(upstream, upstream.calls[-1], f"/model/{BEDROCK_MODEL}/invoke")


async def test_a_stream_of_frames_is_passed_byte_for_byte_in_any_pieces_and_an_overflow_is_recovered(
    tmp_path: Path,
) -> None:
    environ = {**small(BEDROCK_MODEL), **AWS}
    rules = UpstreamRules(6_000, pairs=True)
    path = f"/model/{BEDROCK_MODEL}/invoke-with-response-stream"
    turns = [{"role": role, "content": f"{number} {LONG}"} for number in range(8) for role in ("user", "assistant")]
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 50, "messages": [*turns, turns[0]]}
    whole = StreamedAnswer(UpstreamAnswer("hello there"), chunk_bytes=7)
    async with Upstream(whole, rules=rules) as upstream:
        given = (f"bedrock={upstream.origin}",)
        async with gateway_with(upstream, tmp_path, environ=environ, upstreams=given) as flow:
            headers = {"Authorization": "Bearer fake"}
            async with aiohttp.ClientSession(headers=headers) as http, http.post(flow.root + path, json=body) as reply:
                assert reply.status == 200
                frames = list(FrameReader().frames(await reply.read()))
            text = "".join(json.loads(it.event or b"{}").get("delta", {}).get("text", "") for it, _ in frames)
            assert text == "hello there"
            await flow.wait_for_recordings()
            assert flow.exchanges[-1].is_folded and flow.exchanges[-1].usage is not None
            session = flow.exchanges[-1].session
            assert session is not None
            assert text_of((await flow.store.messages(session))[-1].message) == "hello there"


def test_the_signature_is_the_one_that_amazons_documentation_computes() -> None:
    now = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
    credential = AwsCredential("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", region="us-east-1")
    scope = "20150830/us-east-1/service/aws4_request"
    signed = f"AWS4-HMAC-SHA256 Credential=X/{scope}, SignedHeaders=host, Signature={'0' * 64}"
    before = {"Authorization": signed}
    told = signed_headers(credential, "GET", "https://example.amazonaws.com/", before.items(), b"", now)
    assert told["Authorization"].endswith("5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31")
    lower = {**{name.lower(): value for name, value in told.items()}, "host": "example.amazonaws.com"}
    assert is_signed_with(credential, "GET", "https://example.amazonaws.com/", lower, b"", now)
    assert not is_signed_with(credential, "GET", "https://example.amazonaws.com/", lower, b"x", now)
    assert not is_signed_with(credential, "GET", "https://example.amazonaws.com/", lower, b"", now + timedelta(hours=1))


@pytest.mark.parametrize("size", [1, 5, 16, 1_000])
def test_frames_come_in_any_pieces_and_a_damaged_one_loses_no_byte(size: int) -> None:
    sent = [event_frame(json.dumps({"n": number}).encode()) for number in range(3)]
    raw = b"".join(frame.encode() for frame in sent)
    reader = FrameReader()
    pieces = [raw[at : at + size] for at in range(0, len(raw), size)]
    assert [frame for piece in pieces for frame, _ in reader.frames(piece)] == sent
    assert reader.take_rest() == b""
    damaged = raw[:-1] + b"?"
    with pytest.raises(ValueError, match="damaged"):
        list(reader.frames(damaged))
    assert damaged.endswith(reader.take_rest())
    assert EventFrame({":event-type": "other"}, b"x").event is None


@pytest.mark.parametrize("client_path", ["/v1", "/backend-api/codex"])
@pytest.mark.parametrize("upstream_path", ["/backend-api/codex", "/backend-api/codex/"])
async def test_codex_with_a_chatgpt_login_goes_to_its_own_path(
    tmp_path: Path, client_path: str, upstream_path: str
) -> None:
    async with answering() as upstream:
        given = (f"{upstream.origin}{upstream_path}",)
        async with gateway_with(upstream, tmp_path, upstreams=given) as flow:
            more = {"chatgpt-account-id": "fake-account"}
            async with AsyncOpenAI(base_url=flow.root + client_path, api_key="fake", default_headers=more) as client:
                reply = await client.responses.create(model=GATEWAY_MODEL, input=[{"role": "user", "content": "hi"}])
            assert reply.output_text == "ok"
        assert upstream.calls[-1].path == "/backend-api/codex/responses"
        assert upstream.calls[-1].headers["chatgpt-account-id"] == "fake-account"


async def ask_plain(flow: GatewayFlow, path: str, model: str, *headers: tuple[str, str]) -> int:
    field = "input" if "responses" in path else "messages"
    body = {"model": model, "max_tokens": 5, field: [{"role": "user", "content": "hi"}]}
    return (await ask_raw(flow, path, *headers, body=json.dumps(body).encode())).status


async def test_wires_and_models_choose_the_upstream(tmp_path: Path) -> None:
    async with answering() as one, answering() as two, answering() as three:
        given = (f"messages={one.origin}", f"qwen*,chat={two.origin}/v1", f"chat,responses={three.origin}")
        async with gateway_with(one, tmp_path, upstreams=given) as flow:
            assert await ask_plain(flow, "/v1/messages", "claude-x") == 200
            assert await ask_plain(flow, "/v1/chat/completions", "qwen3-coder") == 200
            assert await ask_plain(flow, "/v1/chat/completions", "org/Qwen3") == 200
            assert await ask_plain(flow, "/v1/chat/completions", "gpt-5") == 200
            assert await ask_plain(flow, "/v1/responses", "qwen3-coder") == 200
            refused = await ask_raw(flow, f"/v1beta/models/{GATEWAY_MODEL}:generateContent")
            assert refused.status == 404 and "no upstream" in refused.json["error"]["message"]
        assert [len(each.calls) for each in (one, two, three)] == [1, 2, 2]


async def test_a_config_names_upstreams_with_their_credentials_and_the_next_one_helps_out(tmp_path: Path) -> None:
    async with Upstream(UpstreamFault(529), UpstreamFault(400)) as one, answering() as two:
        (tmp_path / "config.yaml").write_text(
            "gateway:\n  upstreams:\n"
            f"    main: {{url: {one.origin}, wires: [messages], api_key_env: KEY_ONE}}\n"
            f"    spare: {{url: {two.origin}, wires: [messages], models: ['claude-*'], api_key_env: KEY_TWO}}\n"
        )
        environ = {"KEY_ONE": "fake-one", "KEY_TWO": "fake-two"}
        async with gateway_with(one, tmp_path, environ=environ, upstreams=()) as flow:
            key = ("x-api-key", await make_caller(flow, "ann"))
            assert await ask_plain(flow, "/v1/messages", "claude-x", key) == 200
            assert await ask_plain(flow, "/v1/messages", "claude-x", key) == 400
        assert [call.headers["x-api-key"] for call in (*one.calls, *two.calls)] == ["fake-one", "fake-one", "fake-two"]


async def test_a_callers_own_credential_goes_to_the_first_upstream_alone(tmp_path: Path) -> None:
    async with answering() as two, answering() as three:
        given = ("http://127.0.0.1:9", two.origin, f"gpt-*={three.origin}")
        async with gateway_with(two, tmp_path, upstreams=given) as flow:
            own = ("Authorization", "Bearer fake-own-key")
            assert await ask_plain(flow, "/v1/chat/completions?a=b", "some-model", own) == 200
        assert "authorization" not in two.calls[0].headers and two.calls[0].query == "a=b"
        assert not three.calls


@pytest.mark.parametrize(
    ("address", "path", "reached"),
    [
        ("https://h/v1", "/v1/chat/completions", "/v1/chat/completions"),
        ("https://h", "/chat/completions", "/v1/chat/completions"),
        ("https://h/api/paas/v4", "/v1/chat/completions", "/api/paas/v4/chat/completions"),
        ("https://h/v1beta/openai/", "/v1/chat/completions", "/v1beta/openai/chat/completions"),
        ("https://h/api/anthropic", "/v1/messages", "/api/anthropic/v1/messages"),
        ("https://h/anthropic", "/anthropic/v1/messages", "/anthropic/v1/messages"),
        ("https://h", "/anthropic/v1/messages", "/anthropic/v1/messages"),
        ("https://h/v1", "/v1/messages/count_tokens", "/v1/messages/count_tokens"),
        ("https://h/backend-api/codex", "/v1/responses/compact", "/backend-api/codex/responses/compact"),
        ("https://h/v1beta", "/v1beta/models/m:countTokens", "/v1beta/models/m:countTokens"),
        ("https://h/proxy", "/v1beta/models/m:countTokens", "/proxy/v1beta/models/m:countTokens"),
    ],
)
def test_an_upstream_is_written_as_for_the_sdk_of_its_wire(address: str, path: str, reached: str) -> None:
    from clew.gateway import UpstreamServer
    from clew.gateway.wires import wire_path

    found = wire_path(path)
    assert found is not None
    assert UpstreamServer(address).url(path, "x=1", found.kind) == f"https://h{reached}?x=1"
