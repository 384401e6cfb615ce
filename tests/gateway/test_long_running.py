"""A gateway that runs for days: what rests is closed whatever failed before, and its memory is bounded in bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from clew.gateway.conversations import ConversationKey, OpenConversations
from clew.gateway.wires import CHAT, RequestBody, bounded_cache, wire_path
from clew.store import ModelCall
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.scripted import ScriptedProvider
from clew.usage import CanonicalUsage
from tests.support.flow import flow_with


async def test_conversations_that_rest_are_closed_although_the_store_failed_once(tmp_path: Path) -> None:
    now = 0.0
    path = wire_path("/v1/chat/completions")
    assert path is not None
    async with flow_with(ScriptedProvider(), tmp_path) as flow:
        conversations = OpenConversations(flow.runtime, lambda: now)
        bodies = (json.dumps({"model": GATEWAY_MODEL, "messages": [{"role": "user", "content": it}]}) for it in "ab")
        for body in bodies:
            request = CHAT.read(RequestBody(body.encode()), path)
            assert request is not None
            async with conversations.matched(ConversationKey("owner", "lineage"), request) as matched:
                target = replace(flow.runtime.target, model=GATEWAY_MODEL)
                conversation = await matched.opened.take(request, matched, target)
                await conversation.settled()
        # A summary that was paid for and not used is stored when its conversation is closed.
        paid = ModelCall(CanonicalUsage(input_tokens=5), GATEWAY_MODEL)
        conversation.pending_calls.append(paid)
        now = 1_000.0
        await flow.store.close()
        await conversations.close_idle()
        assert conversations.count == 1
        conversation.pending_calls.clear()
        await conversations.close_idle()
        assert conversations.count == 0


def test_what_is_kept_of_prompts_and_tools_is_bounded_in_bytes() -> None:
    read: list[bytes] = []

    @bounded_cache(1_000)
    def size_of(raw: bytes) -> int:
        read.append(raw)
        return len(raw)

    for letter in (b"a", b"b", b"c", b"a"):
        assert size_of(letter * 400) == 400
    assert size_of(b"d" * 5_000) == size_of(b"d" * 5_000) == 5_000
    assert [raw[:1] for raw in read] == [b"a", b"b", b"c", b"a", b"d", b"d"]
