"""Replies that are merged for the client: one without our calls passes byte for byte, several become one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.gateway.aws import STREAM_TYPE, event_frame
from clew.gateway.merged_replies import MergedReply
from clew.gateway.recall import RECALL_TOOLS
from clew.gateway.upstream import ReplyReader
from clew.gateway.wires import BEDROCK, CHAT, GEMINI, MESSAGES, RESPONSES, GatewayWire
from clew.messages import ToolCall
from clew.testing.upstream_wires import (
    UpstreamAnswer,
    anthropic_events,
    chat_events,
    gemini_events,
    responses_events,
)

WIRES: dict[str, tuple[GatewayWire, Any]] = {
    "chat": (CHAT, chat_events),
    "responses": (RESPONSES, responses_events),
    "messages": (MESSAGES, anthropic_events),
    "gemini": (GEMINI, gemini_events),
    "bedrock": (BEDROCK, anthropic_events),
}
ASKED: dict[str, Any] = {"stream_options": {"include_usage": True}}


def call(name: str, id: str) -> ToolCall:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": '{"query": "depot"}'}}


def stream_of(wire: str, answer: UpstreamAnswer) -> bytes:
    pieces = []
    for name, value in WIRES[wire][1](answer, ASKED):
        data = value if isinstance(value, str) else json.dumps(value)
        if wire == "bedrock":
            pieces.append(event_frame(data.encode()).encode())
        else:
            pieces.append((f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode())
    return b"".join(pieces)


def kind_of(wire: str) -> str:
    return STREAM_TYPE if wire == "bedrock" else "text/event-stream"


def merged(wire: str, *answers: UpstreamAnswer, cut: int = 1_000_000) -> bytes:
    reply = MergedReply(WIRES[wire][0].dialect, RECALL_TOOLS)
    passed = b""
    for at, answer in enumerate(answers):
        reply.begin_reply(kind_of(wire))
        raw = stream_of(wire, answer)
        passed += b"".join(reply.feed(raw[start : start + cut]) for start in range(0, len(raw), cut))
        passed += reply.end() if at == len(answers) - 1 else reply.next_reply()
    return passed


def read(wire: str, raw: bytes) -> ReplyReader:
    reader = ReplyReader(WIRES[wire][0], kind_of(wire))
    reader.feed(raw)
    reader.end()
    assert not reader.problem
    return reader


@pytest.mark.parametrize("wire", WIRES)
@given(
    text=st.text(max_size=40).filter(lambda it: it == it.strip()),
    reasoning=st.text(max_size=20),
    calls=st.integers(0, 3),
    cut=st.integers(1, 400),
)
@settings(max_examples=25, deadline=None)
def test_a_reply_that_does_not_recall_passes_byte_for_byte(
    wire: str, text: str, reasoning: str, calls: int, cut: int
) -> None:
    made = tuple(call("shell", f"c{number}") for number in range(calls))
    answer = UpstreamAnswer(text, made, reasoning)
    assert merged(wire, answer, cut=cut) == stream_of(wire, answer)


@pytest.mark.parametrize("wire", WIRES)
@given(
    texts=st.lists(st.sampled_from(["", "first", "one more"]), min_size=2, max_size=4),
    before=st.integers(0, 2),
    behind=st.integers(0, 2),
    beside=st.booleans(),
    cut=st.integers(1, 700),
)
@settings(max_examples=25, deadline=None)
def test_several_replies_become_one_that_says_all_and_recalls_nothing(
    wire: str, texts: list[str], before: int, behind: int, beside: bool, cut: int
) -> None:
    own = [call("clew_search", f"own{number}") for number in range(10)]
    shell = [call("shell", f"c{number}") for number in range(before + behind)]
    last = (*shell[:before], *([own[-1]] if beside else []), *shell[before:])
    rounds = [UpstreamAnswer(text, (own[at],), number=at) for at, text in enumerate(texts[:-1])]
    answers = [*rounds, UpstreamAnswer(texts[-1], last, number=9)]
    raw = merged(wire, *answers, cut=cut)
    assert merged(wire, *answers) == raw
    assert b"clew_search" not in raw
    reader = read(wire, raw)
    assert reader.is_complete
    reply = reader.reply("m")
    assert reply is not None
    said = json.dumps(reader.items())
    assert all(text in said for text in texts)
    names = [it["function"]["name"] for it in reply.message.get("tool_calls") or ()]
    assert names == ["shell"] * len(shell)
    assert reply.finish == ("tool_calls" if shell else "stop")
    single = read(wire, stream_of(wire, answers[0])).usage()
    assert single is not None and reply.usage is not None
    assert reply.usage.total_tokens == len(answers) * single.total_tokens
