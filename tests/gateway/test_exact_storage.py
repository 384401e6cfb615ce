"""The store has the items of every wire exactly as they came, and a handle gives them back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp

from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow, gateway_with

ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": "Look at both.", "note": "kept"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "first", "signature": "c2lnbmVk"},
            {"type": "text", "text": "One."},
            {"type": "tool_use", "id": "toolu_01Aa2Bb3Cc4", "name": "look", "input": {}, "caller": {"type": "x"}},
            {"type": "text", "text": "Two."},
            {"type": "tool_use", "id": "toolu_01Dd5Ee6Ff7", "name": "look", "input": {"at": 2}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_01Aa2Bb3Cc4", "content": "a", "is_error": False},
            {"type": "tool_result", "tool_use_id": "toolu_01Dd5Ee6Ff7", "content": [{"type": "text", "text": "b"}]},
            {"type": "text", "text": "Go on."},
        ],
    },
]  # fmt: skip
RESPONSES = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Patch it."}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"},
    {"type": "function_call", "id": "f1", "call_id": "call_Aa11Bb22C", "name": "n", "arguments": "{}", "status": "x"},
    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "bW9yZQ=="},
    {"type": "custom_tool_call", "id": "ctc_2", "call_id": "call_Dd44Ee55Ff66", "name": "apply_patch", "input": "***"},
    {"type": "function_call_output", "call_id": "call_Aa11Bb22C", "output": "seen"},
    {"type": "custom_tool_call_output", "call_id": "call_Dd44Ee55Ff66", "output": "applied"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And the tests?"}]},
]  # fmt: skip


async def post(flow: GatewayFlow, path: str, **body: Any) -> dict[str, Any]:
    headers = {"Authorization": "Bearer fake-key-one", "x-api-key": "fake-key-one"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{flow.base_url}/{path}", json={"model": GATEWAY_MODEL, **body}) as response,
    ):
        answer: dict[str, Any] = await response.json()
        assert response.status == 200, answer
    await flow.wait_for_recordings()
    return answer


async def stored_items(flow: GatewayFlow) -> list[Any]:
    (session,) = await flow.store.list_sessions()
    rows = await flow.store.messages(session.id)
    return [item for row in rows if row.part == 0 for item in (row.items or [row.message])]


async def test_blocks_of_anthropic_are_stored_in_their_order_with_all_their_fields(tmp_path: Path) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("done")), tmp_path) as flow:
        await post(flow, "messages", messages=ANTHROPIC, max_tokens=100)
        assert (await stored_items(flow))[: len(ANTHROPIC)] == ANTHROPIC


async def test_items_of_responses_are_stored_in_their_order_with_ids_and_status(tmp_path: Path) -> None:
    async with gateway_with(Upstream(UpstreamAnswer("done")), tmp_path) as flow:
        await post(flow, "responses", input=RESPONSES)
        assert (await stored_items(flow))[: len(RESPONSES)] == RESPONSES


async def test_a_handle_gives_back_the_items_it_was_made_of(tmp_path: Path) -> None:
    answers = [UpstreamAnswer("done"), UpstreamAnswer("and on")]
    async with gateway_with(Upstream(*answers), tmp_path) as flow:
        await post(flow, "responses", input=RESPONSES)
        trigger = {"type": "compaction_trigger"}
        reply = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}
        handle = (await post(flow, "responses", input=[*RESPONSES, reply, trigger]))["output"][0]
        await post(flow, "responses", input=[handle, {"role": "user", "content": "now?"}])
        sent = flow.upstream.received[-1].body["input"]
        assert json.dumps(sent[: len(RESPONSES)]) == json.dumps(RESPONSES)
        assert sent[-1] == {"role": "user", "content": "now?"}
