"""Compactions that clients ask for themselves: Codex by a handle, others as they are, providers' own untouched."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.events import CompactionStarted, Event
from clew.gateway import GatewayObserver
from clew.gateway.items import HistoryHandle
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow, gateway_with

LONG = "words to fill the window " * 60
CODEX = {"session-id": "thread-1", "user-agent": "codex_exec/0.166.0", "authorization": "Bearer fake-key-one"}
TOOLS = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
TRIGGER = {"type": "compaction_trigger"}


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def assistant(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def history(turns: int) -> list[dict[str, Any]]:
    pairs = [[user(f"question {at} {LONG}"), assistant(f"answer {at}")] for at in range(turns)]
    return [item for pair in pairs for item in pair]


async def post(flow: GatewayFlow, items: list[Any], headers: dict[str, str] | None = None, **fields: Any) -> bytes:
    body = {"model": GATEWAY_MODEL, "tools": TOOLS, **fields, "input": items}
    url = f"{flow.base_url}/responses"
    async with aiohttp.ClientSession(headers=headers or CODEX) as session, session.post(url, json=body) as response:
        raw = await response.read()
        assert response.status == 200, raw
        return raw


def events(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[5:]) for line in raw.splitlines() if line.startswith(b"data:")]


def input_of(flow: GatewayFlow, number: int = -1) -> list[Any]:
    items: list[Any] = flow.upstream.received[number].body["input"]
    return items


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_codex_gets_a_handle_and_goes_on_with_it(tmp_path: Path, stream: bool) -> None:
    upstream = Upstream(*[UpstreamAnswer(f"after {at}") for at in range(4)])
    async with gateway_with(upstream, tmp_path) as flow:
        items = history(14)
        await post(flow, [*items, user("the task is to mend the clock in hall 3")])
        await flow.wait_for_recordings()
        items += [user("the task is to mend the clock in hall 3"), assistant("after 0")]
        raw = await post(flow, [*items, TRIGGER], stream=stream)
        reply = events(raw)[-1]["response"] if stream else json.loads(raw)
        assert len(upstream.received) == 1
        (handle,) = reply["output"]
        assert handle["type"] == "compaction" and handle["encrypted_content"].startswith("clew1.")
        assert reply["usage"]["input_tokens"] < 4_000

        await post(flow, [handle, user("go on")])
        sent = input_of(flow)
        assert not [item for item in sent if item.get("type") == "compaction"]
        assert len(json.dumps(sent)) < len(json.dumps(items)) and "hall 3" in json.dumps(sent)
        assert sent[-1] == user("go on")
        await flow.wait_for_recordings()
        await post(flow, [handle, user("go on"), assistant("after 1"), user("more")])
        assert json.dumps(input_of(flow)[: len(sent)]) == json.dumps(sent)
        await flow.wait_for_recordings()
        (root,) = [it for it in await flow.store.list_sessions() if it.kind == "root"]
        rows = await flow.store.messages((await flow.store.resume(root.id)).id)
        assert len(rows) == len(items) + len(["go on", "after 1", "more", "after 2"])


async def test_a_handle_works_after_a_restart(tmp_path: Path) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path) as flow:
        handle = json.loads(await post(flow, [*history(6), TRIGGER]))["output"][0]
    async with gateway_with(Upstream(UpstreamAnswer("b")), tmp_path) as flow:
        await post(flow, [handle, user("go on")])
        assert "question 5" in json.dumps(input_of(flow)) and input_of(flow)[-1] == user("go on")


async def test_a_handle_of_another_caller_opens_nothing(tmp_path: Path) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path) as flow:
        handle = json.loads(await post(flow, [*history(6), TRIGGER]))["output"][0]
        await post(flow, [handle, user("show me")], {**CODEX, "authorization": "Bearer fake-key-two"})
        assert "question" not in json.dumps(input_of(flow))


async def test_a_compaction_request_without_tools_belongs_to_the_conversation(tmp_path: Path) -> None:
    kind = {**CODEX, "x-codex-turn-metadata": '{"request_kind": "compaction"}'}
    async with gateway_with(Upstream(*[UpstreamAnswer("a")] * 2), tmp_path) as flow:
        await post(flow, [*history(20), user("now")])
        await flow.wait_for_recordings()
        folded = input_of(flow)
        asked = [*history(20), user("now"), assistant("a"), user("CONTEXT CHECKPOINT COMPACTION")]
        await post(flow, asked, kind, tools=[])
        assert json.dumps(input_of(flow)[: len(folded)]) == json.dumps(folded)


@pytest.mark.parametrize(
    "hint",
    [{"x-claude-code-compaction": "auto"}, {"x-claude-code-request-class": "compaction"}],
    ids=["compaction", "class"],
)
async def test_the_hints_of_claude_code_say_which_requests_are_about_its_own_compaction(
    tmp_path: Path, hint: dict[str, str]
) -> None:
    named = {"x-claude-code-session-id": "5b1d0f0e", "user-agent": "claude-cli/2.1.326"}
    beside = {"model": GATEWAY_MODEL, "max_tokens": 99, "tools": [{"name": "shell", "input_schema": {}}]}
    talk = [{"role": "user", "content": "Mend the clock."}, {"role": "assistant", "content": "a"}]
    requests: list[tuple[dict[str, str], dict[str, Any]]] = [
        ({}, {**beside, "messages": talk[:1]}),
        (hint, {**beside, "tools": [], "messages": [*talk, {"role": "user", "content": "Summarise."}]}),
        (
            {"x-claude-code-context-compacted": "auto"},
            {**beside, "messages": [{"role": "user", "content": "Continued."}]},
        ),
    ]
    async with gateway_with(Upstream(*[UpstreamAnswer("a")] * 3), tmp_path) as flow:
        for headers, body in requests:
            url, own = f"{flow.base_url}/messages", {**named, **headers}
            async with aiohttp.ClientSession(headers=own) as http, http.post(url, json=body) as response:
                assert response.status == 200, await response.read()
            await flow.wait_for_recordings()
        first, asked, made = flow.exchanges
        assert (first.own_compaction, asked.own_compaction, made.own_compaction) == (None, "asked", "made")
        assert first.session == asked.session != made.session


NATIVE = [
    {"context_management": [{"type": "compaction", "compact_threshold": 1_000}]},
    {"compaction": {"type": "summarize"}},
]


@pytest.mark.parametrize("fields", NATIVE)
async def test_where_a_client_asks_for_native_compaction_we_stand_aside(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path) as flow:
        items = [*history(20), user("now")]
        await post(flow, items, **fields)
        assert input_of(flow) == items


async def test_nothing_before_a_providers_own_compaction_is_folded(tmp_path: Path) -> None:
    native = {"type": "compaction", "id": "cmp_1", "encrypted_content": "opaque=="}
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path) as flow:
        items = [native, *history(20), user("now")]
        await post(flow, items)
        assert input_of(flow) == items


def test_what_is_no_handle_of_ours_is_not_read_as_one() -> None:
    for text in (None, "", "opaque", "clew1.", "clew1.!!", "clew1.bnVsbA==", "clew1.WzEsIDJd"):
        assert HistoryHandle.read(text) is None
    assert HistoryHandle.read(HistoryHandle("s_1", 3).write()) == HistoryHandle("s_1", 3)


async def test_a_handle_is_not_sent_on_while_the_store_is_away(tmp_path: Path) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path) as flow:
        handle = json.loads(await post(flow, [*history(6), TRIGGER]))["output"][0]
        await flow.wait_for_recordings()
        await flow.store.close()
        body = {"model": GATEWAY_MODEL, "tools": TOOLS, "input": [handle, user("go on")]}
        async with aiohttp.ClientSession(headers=CODEX) as session:
            response = await session.post(f"{flow.base_url}/responses", json=body)
            assert response.status == 503 and response.headers["Retry-After"] == "2"
        assert flow.upstream.received == []


BREAKS_UNASKED = """
from clew.engines import ContextCompressor, register_context_engine

class BreaksUnasked(ContextCompressor):
    name = "breaks-unasked"

    async def compress(self, messages, current_tokens=None, focus_topic=None, force=False):
        if not force:
            raise RuntimeError("broken")
        return await super().compress(messages, current_tokens, focus_topic, force)

def register():
    register_context_engine("breaks-unasked", BreaksUnasked.of)
"""


async def test_a_request_that_could_not_be_folded_is_sent_with_the_messages_of_its_handle(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "context_engine" / "breaks-unasked"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(BREAKS_UNASKED)
    environ = {"CLEW_CONTEXT_ENGINE": "breaks-unasked"}
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path, environ=environ) as flow:
        handle = json.loads(await post(flow, [*history(6), TRIGGER]))["output"][0]
        later = [*history(20), user("go on")]
        await post(flow, [handle, *later])
        await flow.wait_for_recordings()
        assert flow.exchanges[-1].is_fallback
        assert input_of(flow) == [*history(6), *later]


async def test_a_handle_is_replaced_where_nothing_is_to_be_changed(tmp_path: Path) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path) as flow:
        handle = json.loads(await post(flow, [*history(3), TRIGGER]))["output"][0]
        await post(flow, [handle, user("go on")], {**CODEX, "x-clew-mode": "observe"})
        assert input_of(flow) == [*history(3), user("go on")]


class FoldBegins(GatewayObserver):
    def __init__(self) -> None:
        self.has_begun = asyncio.Event()

    def event(self, event: Event) -> None:
        if isinstance(event, CompactionStarted):
            self.has_begun.set()


async def test_a_conversation_deleted_while_a_request_with_its_handle_waits_begins_anew(tmp_path: Path) -> None:
    folds = FoldBegins()
    async with gateway_with(Upstream(UpstreamAnswer("a")), tmp_path, observers=(folds,)) as flow:
        handle = json.loads(await post(flow, [*history(6), TRIGGER]))["output"][0]
        await flow.wait_for_recordings()
        named = HistoryHandle.read(handle["encrypted_content"])
        assert named is not None
        lease = await flow.store.take_lease(named.session, "another process", 60.0)
        assert lease is not None
        later = [*history(20), user("go on")]
        folds.has_begun.clear()
        asked = asyncio.create_task(post(flow, [handle, *later]))
        await folds.has_begun.wait()
        await flow.store.release_lease(lease)
        await flow.store.delete(named.session)
        await asked
        sent = input_of(flow)
        assert not [item for item in sent if item.get("type") == "compaction"]
        assert sent[-1] == user("go on")
        await flow.wait_for_recordings()
        assert not flow.exchanges[-1].is_fallback
        (root,) = [it for it in await flow.store.list_sessions() if it.kind == "root"]
        rows = await flow.store.messages((await flow.store.resume(root.id)).id)
        assert len(rows) == len([*history(6), *later, "a"])
