"""The mock upstream beside the calls of models: Gemini's wire, counts, models, compactions, and what it keeps."""

from __future__ import annotations

import json
import sys
from asyncio import create_subprocess_exec, subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest

from clew.testing import StreamedAnswer, Upstream, UpstreamAnswer, UpstreamRules, call
from clew.testing.upstream_wires import responses_body
from tests.support.shell_worker import UNKNOWN_TASK, ShellWorker

MODELS = [{"id": "mock-1"}, {"id": "mock-2"}]
CALLED = UpstreamAnswer("I look.", (call("read", {"path": "a"}, "c1"), call("read", {}, "")), "which file?")
PATH = "/v1beta/models/gemini-mock"
ASKED = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}


@asynccontextmanager
async def opened(upstream: Upstream) -> AsyncIterator[aiohttp.ClientSession]:
    async with upstream, aiohttp.ClientSession(upstream.origin) as session:
        yield session


def events_of(text: str) -> list[Any]:
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")]


async def test_geminis_wire_in_one_piece_as_events_and_as_a_list() -> None:
    async with opened(Upstream(*[CALLED] * 3)) as session:
        whole = await (await session.post(f"{PATH}:generateContent", json=ASKED)).json()
        streamed = events_of(await (await session.post(f"{PATH}:streamGenerateContent?alt=sse", json=ASKED)).text())
        listed = await (await session.post(f"{PATH}:streamGenerateContent", json=ASKED)).json()
    parts = whole["candidates"][0]["content"]["parts"]
    assert parts[0] == {"text": "which file?", "thought": True}
    assert (
        parts[2]["functionCall"] == {"id": "c1", "name": "read", "args": {"path": "a"}} and parts[2]["thoughtSignature"]
    )
    assert parts[3] == {"functionCall": {"name": "read", "args": {}}}
    assert whole["usageMetadata"]["totalTokenCount"] == 109
    assert listed == streamed
    pieces = [part for event in streamed for part in event["candidates"][0]["content"]["parts"]]
    assert "".join(part.get("text", "") for part in pieces) == "which file?I look."
    assert [event["candidates"][0].get("finishReason") for event in streamed][-2:] == [None, "STOP"]
    assert streamed[-1]["usageMetadata"] == whole["usageMetadata"]


async def test_counts_agree_with_the_usage_that_is_told_on_every_wire() -> None:
    chat: dict[str, Any] = {"messages": [{"role": "user", "content": "word " * 500}]}
    gemini = {"contents": [{"role": "user", "parts": [{"text": "word " * 500}]}]}
    upstream = Upstream(answers=lambda _: UpstreamAnswer("ok"), rules=UpstreamRules(window=10_000))
    async with opened(upstream) as session:

        async def post(path: str, body: Any) -> Any:
            return await (await session.post(path, json=body)).json()

        counted = (await post("/v1/messages/count_tokens", chat))["input_tokens"]
        assert (await post("/v1/messages", chat))["usage"]["input_tokens"] == counted > 600
        assert (await post("/v1/chat/completions", chat))["usage"]["prompt_tokens"] == counted
        total = (await post(f"{PATH}:countTokens", gemini))["totalTokens"]
        assert (await post(f"{PATH}:countTokens", {"generateContentRequest": gemini}))["totalTokens"] == total
        assert (await post(f"{PATH}:generateContent", gemini))["usageMetadata"]["promptTokenCount"] == total
        items = {"input": "word " * 500}
        told = (await post("/v1/responses/input_tokens", items))["input_tokens"]
        assert (await post("/v1/responses", items))["usage"]["input_tokens"] == told
    assert [received.wire for received in upstream.calls] == ["messages", "chat/completions", "gemini", "responses"]


async def test_what_was_read_before_is_told_as_cached_on_geminis_wire_too() -> None:
    long = [{"role": "user", "parts": [{"text": "word " * 2_000}]}]
    more = [*long, {"role": "model", "parts": [{"text": "ok"}]}, {"role": "user", "parts": [{"text": "And?"}]}]
    moved = [{"role": "user", "parts": [{"text": "Other."}]}, *more]
    told = []
    async with opened(Upstream(answers=lambda _: UpstreamAnswer("ok"), caches=True)) as session:
        for contents in (long, more, moved):
            reply = await (await session.post(f"{PATH}:generateContent", json={"contents": contents})).json()
            told.append(reply["usageMetadata"].get("cachedContentTokenCount", 0))
    assert told[0] == told[2] == 0 and told[1] > 2_000


async def test_models_are_listed_for_each_provider_and_one_by_one() -> None:
    async with opened(Upstream(models=MODELS, rules=UpstreamRules(window=9_000))) as session:

        async def get(path: str, **headers: str) -> tuple[int, Any]:
            response = await session.get(path, headers=headers)
            return response.status, await response.json()

        assert (await get("/v1/models"))[1] == {"object": "list", "data": MODELS}
        assert (await get("/v1/models/mock-2"))[1] == {"id": "mock-2"}
        status, body = await get("/v1/models/none")
        assert (status, body["error"]["code"]) == (404, "model_not_found")
        listed = (await get("/v1/models", **{"anthropic-version": "2023-06-01"}))[1]
        assert (listed["first_id"], listed["has_more"]) == ("mock-1", False)
        gemini = (await get("/v1beta/models"))[1]["models"]
        assert [model["name"] for model in gemini] == ["models/mock-1", "models/mock-2"]
        assert (await get("/v1beta/models/mock-1"))[1]["inputTokenLimit"] == 9_000
        assert (await session.head("/")).status == 200
        assert (await get("/v1/nothing"))[0] == 404
    async with opened(Upstream()) as session:
        assert (await session.get("/v1/models")).status == 404


async def test_every_request_is_kept_as_it_came(tmp_path: Path) -> None:
    journal = tmp_path / "requests.jsonl"
    raw = '{"messages": [], "n": 1.0, "big": 12345678901234567890, "\\u00e9": "👩‍👧"}'.encode()
    upstream = Upstream(UpstreamAnswer("ok"), journal=journal)
    async with opened(upstream) as session:
        await session.post(
            "/v1/messages?beta=true", data=raw, headers={"X-Own": "a", "content-type": "application/json"}
        )
        await session.post("/v1/messages", data=b"no json")
        await session.head("/")
    first, second, third = upstream.received
    assert (first.method, first.path, first.query, first.status) == ("POST", "/v1/messages", "beta=true", 200)
    assert first.raw == raw and first.headers["x-own"] == "a"
    assert (second.raw, second.body, second.status) == (b"no json", {}, 418)
    assert (third.method, third.path, third.wire) == ("HEAD", "/", "")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(line["method"], line["status"]) for line in lines] == [("POST", 200), ("POST", 418), ("HEAD", 200)]


async def test_native_compactions_are_made_and_taken_back() -> None:
    rules = UpstreamRules(pairs=True, binds_thinking=True)
    async with Upstream(*[UpstreamAnswer("ok")] * 3, rules=rules) as upstream:
        async with openai.AsyncOpenAI(base_url=upstream.base_url, api_key="sk-fake") as client:
            items: list[Any] = [{"role": "user", "content": "Read it."}, {"role": "assistant", "content": "Read."}]
            compacted = await client.responses.compact(model="mock-1", input=items)
            kept: list[Any] = [item.model_dump(exclude_none=True, warnings=False) for item in compacted.output]
            assert [item["type"] for item in kept] == ["message", "compaction"]
            again = await client.responses.create(model="mock-1", input=[*kept, {"role": "user", "content": "And?"}])
            assert again.output_text == "ok"
            asked: list[Any] = [*items, {"type": "compaction_trigger"}]
            events = [event async for event in await client.responses.create(model="m", input=asked, stream=True)]
            ended: Any = events[-1]
            assert [item.type for item in ended.response.output] == ["compaction"]
            own = {"type": "compaction", "encrypted_content": "made by another"}
            with pytest.raises(openai.BadRequestError, match="could not be verified"):
                await client.responses.create(model="mock-1", input=[own])  # type: ignore[list-item]
        async with anthropic.AsyncAnthropic(base_url=upstream.origin, api_key="fake") as other:
            talk: list[Any] = [{"role": "user", "content": "Read it."}]
            compact: Any = {"compaction": {"type": "summarize"}}
            reply = await other.messages.create(model="mock-1", max_tokens=99, messages=talk, extra_body=compact)
            assert str(reply.stop_reason) == "compaction"
            block = reply.content[0].model_dump(exclude_none=True)
            assert block["type"] == "compaction" and block["signature"]
            talk = [{"role": "assistant", "content": [block]}, {"role": "user", "content": "And?"}]
            after = await other.messages.create(model="mock-1", max_tokens=99, messages=talk)
            assert after.usage.input_tokens


async def test_events_can_be_slow_and_a_stream_can_break_on_every_wire() -> None:
    broken = StreamedAnswer(CALLED, cut_after=2, event_delay=0.001)
    async with opened(Upstream(*[broken] * 4, event_delay=0.001)) as session:
        for path in ("/v1/chat/completions", "/v1/responses", "/v1/messages", f"{PATH}:streamGenerateContent?alt=sse"):
            response = await session.post(path, json={"stream": True})
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()


COMMAND = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command", "description"]}
LISTED = {"type": "object", "properties": {"command": {"type": "array", "items": {"type": "string"}}}}
SHELLS: list[tuple[str, Any, str]] = [
    ("/v1/messages", {"tools": [{"name": "Bash", "input_schema": COMMAND}]}, "description"),
    ("/v1/responses", {"tools": [{"type": "function", "name": "shell", "parameters": LISTED}]}, '"bash\\", \\"-c'),
    (
        "/v1/chat/completions",
        {"tools": [{"type": "function", "function": {"name": "bash", "parameters": COMMAND}}]},
        "seq",
    ),
    (
        f"{PATH}:generateContent",
        {"tools": [{"functionDeclarations": [{"name": "run_shell_command", "parametersJsonSchema": COMMAND}]}]},
        "seq",
    ),
]


FIELDS = {"/v1/messages": "messages", "/v1/chat/completions": "messages", "/v1/responses": "input"}


@pytest.mark.parametrize(("path", "body", "told"), SHELLS)
async def test_a_worker_calls_the_shell_of_each_client_and_ends_with_its_task(path: str, body: Any, told: str) -> None:
    upstream = Upstream(answers=ShellWorker(rounds=2, lines=5))
    body = {**body, "note": "Please do TASK-7."}
    async with opened(upstream) as session:
        replies = [await (await session.post(path, json=body)).text() for _ in range(3)]
        assert told in replies[0] and "round 1;" in replies[0] and "round 2;" in replies[1]
        assert "Done with TASK-7." in replies[2]
        title = await (await session.post(path, json={"note": "Name TASK-7"})).text()
        assert "In short: TASK-7." in title
        summary = "TASK-7. Write a detailed summary of the conversation so far."
        last = {"role": "user", "content": [{"text": summary}]}
        told_all = await (await session.post(path, json={**body, FIELDS.get(path, "contents"): [last]})).text()
        assert "In short: TASK-7." in told_all
        lost = {**body, "note": "nothing"}
        others = [await (await session.post(path, json=lost)).text() for _ in range(3)]
        assert UNKNOWN_TASK in others[2]


async def test_it_runs_as_a_program_with_a_script_and_rules(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"text": "one", "calls": [{"name": "ls"}]}\n{"status": 429}\n{"text": "cut", "cut_after": 1}\n')
    journal = tmp_path / "journal.jsonl"
    options = ["--script", str(script), "--say", "later", "--window", "1000", "--strict", "--journal", str(journal)]
    program = await create_subprocess_exec(
        sys.executable, "-m", "clew.testing.upstream", *options, stdout=subprocess.PIPE
    )
    try:
        assert program.stdout is not None
        origin = (await program.stdout.readline()).decode().strip()
        async with aiohttp.ClientSession(origin) as session:
            body = {"messages": [{"role": "user", "content": "Hi."}]}
            first = await (await session.post("/v1/chat/completions", json=body)).json()
            assert first["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "ls"
            assert (await session.post("/v1/messages", json=body)).status == 429
            cut = await session.post("/v1/messages", json={**body, "stream": True})
            with pytest.raises(aiohttp.ClientPayloadError):
                await cut.read()
            later = await (await session.post("/v1/messages", json=body)).json()
            assert later["content"] == [{"type": "text", "text": "later"}]
            long = {"messages": [{"role": "user", "content": "word " * 2_000}]}
            refused = await (await session.post("/v1/messages", json=long)).json()
            assert "prompt is too long" in refused["error"]["message"]
            assert [model["id"] for model in (await (await session.get("/v1/models")).json())["data"]] == ["mock-model"]
    finally:
        program.terminate()
        await program.wait()
    assert [json.loads(line)["status"] for line in journal.read_text().splitlines()] == [200, 429, 200, 200, 400, 200]


@pytest.mark.parametrize("wrong", [["--fail-every", "x"], ["--script", "no-such-file"]])
async def test_a_wrong_option_is_told(wrong: list[str]) -> None:
    program = await create_subprocess_exec(
        sys.executable, "-m", "clew.testing.upstream", *wrong, stderr=subprocess.PIPE
    )
    _, told = await program.communicate()
    assert program.returncode == 2 and wrong[1] in told.decode()


async def test_a_tool_in_a_namespace_is_called_by_both_its_names() -> None:
    tools = [{"type": "namespace", "name": "mcp__clew", "tools": [{"type": "function", "name": "open_session"}]}]
    answer = UpstreamAnswer(calls=(call("mcp__clew__open_session", {}), call("mcp__clew__other", {}, "call_2")))
    body = responses_body(answer, {"tools": tools})
    named = [(item.get("namespace"), item["name"]) for item in body["output"]]
    assert named == [("mcp__clew", "open_session"), (None, "mcp__clew__other")]
