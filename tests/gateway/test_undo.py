"""A compaction that a person undoes: in effect from the next request, and not made again at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp

from clew.messages import CACHE_MARKER
from clew.store import open_store
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.testing.upstream_rules import UpstreamRules
from tests.support.gateway import GatewayFlow, gateway_with

QUESTION = "a question with some words behind it. " * 12


async def ask(flow: GatewayFlow, items: list[Any]) -> int:
    """Send a history that gets a question and then a reply; how many items went on."""
    items.append({"role": "user", "content": f"{len(items)}: {QUESTION}"})
    body = {"model": GATEWAY_MODEL, "messages": items}
    url = f"{flow.base_url}/chat/completions"
    async with aiohttp.ClientSession() as http, http.post(url, json=body) as response:
        items.append((await response.json())["choices"][0]["message"])
    await flow.wait_for_recordings()
    return len(flow.upstream.received[-1].body["messages"])


async def test_an_undo_in_another_process_counts_from_the_next_request_and_holds(tmp_path: Path) -> None:
    upstream = Upstream(answers=lambda _: UpstreamAnswer("done"), rules=UpstreamRules(window=8_000))
    async with gateway_with(upstream, tmp_path) as flow, open_store(tmp_path / "state.db") as other:
        items: list[Any] = []
        while await ask(flow, items) == len(items) - 1:
            assert len(items) < 400
        (session,) = [it for it in await other.list_sessions() if it.kind == "continuation"]
        undone = await other.undo(session.id)
        assert undone is not None
        sent = [await ask(flow, items) for _ in range(3)]
        assert sent == [len(items) - 5, len(items) - 3, len(items) - 1]
        while await ask(flow, items) == len(items) - 1:
            assert len(items) < 800
        made = await other.compactions(session.id)
        assert made[-1].entry.tokens_before >= 1.1 * undone.entry.tokens_before


async def test_a_fold_sends_no_cache_marker_that_the_client_has_moved(tmp_path: Path) -> None:
    def markers(value: Any) -> int:
        return json.dumps(value).count(f'"{CACHE_MARKER}"')

    upstream = Upstream(answers=lambda _: UpstreamAnswer("done"), rules=UpstreamRules(window=8_000))
    async with gateway_with(upstream, tmp_path, window=8_000) as flow, aiohttp.ClientSession() as http:
        items: list[Any] = []
        folded = 0
        for turn in range(60):
            words = QUESTION * (40 if turn % 7 == 6 else 1)
            items.append({"role": "user", "content": [{"type": "text", "text": f"{turn}: {words}"}]})
            for at, item in enumerate(items):
                for block in item["content"]:
                    block.pop(CACHE_MARKER, None)
                    if at >= len(items) - 3:
                        block[CACHE_MARKER] = {"type": "ephemeral"}
            body = {"model": GATEWAY_MODEL, "max_tokens": 100, "messages": items}
            body["system"] = [{"type": "text", "text": "Be brief.", CACHE_MARKER: {"type": "ephemeral"}}]
            async with http.post(f"{flow.base_url}/messages", json=body) as response:
                reply = await response.json()
                assert response.status == 200, reply
            await flow.wait_for_recordings()
            sent = upstream.received[-1].body
            folded += len(sent["messages"]) < len(items)
            assert markers(sent) <= markers(body)
            items.append({"role": "assistant", "content": reply["content"]})
        assert folded > 5
