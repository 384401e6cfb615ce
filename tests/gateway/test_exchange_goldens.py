"""What a client sent, what the upstream received and what the client got, byte for byte, compared with stored files.

The text of a handoff is replaced by a mark, because it changes with the summariser. After an intended change:
CLEW_WRITE_GOLDENS=1 python -m pytest -n 0 tests/gateway/test_exchange_goldens.py, then read the diff.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Step, StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault
from tests.support.gateway import GatewayFlow, gateway_with

GOLDEN = Path(__file__).parent / "golden"
WORDS = "each row of the register is copied by hand and compared "
WIRES = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "gemini": f"/v1beta/models/{GATEWAY_MODEL}:generateContent",
}
CASES = ("pass", "fold", "overflow")
REFUSAL = {"error": {"message": "maximum context length is 2000 tokens, 2500 given", "code": "context_length_exceeded"}}


def request(wire: str, turns: int, *, stream: bool) -> tuple[str, bytes]:
    """A path, and a body with odd spaces, numbers and escapes, which must be sent as written."""
    said = []
    for at in range(turns):
        said += [("user", f"question {at}: {WORDS * 6}\u00e9"), ("assistant", f"answer {at}: {WORDS * 6}")]
    said.append(("user", "the newest question"))
    odd = '"temperature": 1.0,  "metadata": {"n": 9007199254740993123, "s": "\\ud83d\\ude00"}'
    path = WIRES[wire]
    if wire == "gemini":
        roles = {"user": "user", "assistant": "model"}
        items: list[Any] = [{"role": roles[role], "parts": [{"text": text}]} for role, text in said]
        path = path.replace(":generateContent", ":streamGenerateContent?alt=sse") if stream else path
        return path, f'{{"contents": {json.dumps(items, ensure_ascii=False)}, "labels": {{{odd}}}}}'.encode()
    field = "input" if wire == "responses" else "messages"
    items = [{"role": role, "content": text} for role, text in said]
    streamed = ', "stream": true' if stream else ""
    return path, (
        f'{{"model": "{GATEWAY_MODEL}", {odd}, "max_tokens":200{streamed},\n'
        f' "{field}": {json.dumps(items, ensure_ascii=False)}}}'
    ).encode()


async def exchange(flow: GatewayFlow, path: str, body: bytes) -> str:
    headers = {"Content-Type": "application/json", "Authorization": "Bearer fake-key-of-a-test"}
    async with aiohttp.ClientSession() as http, http.post(flow.root + path, data=body, headers=headers) as response:
        return (await response.read()).decode()


async def handoffs_of(flow: GatewayFlow) -> list[str]:
    """The texts that the folds put into requests, as the JSON of a request has them."""
    await flow.wait_for_handoffs()
    found = []
    for session in await flow.store.list_sessions():
        for each in await flow.store.compactions(session.id):
            text = each.entry.summary["content"] if each.entry.summary else ""
            found.append(str(text))
    return sorted(set(found), key=len, reverse=True)


def without_handoffs(raw: bytes, handoffs: list[str]) -> str:
    text = raw.decode()
    for handoff in handoffs:
        for escaped in (json.dumps(handoff), json.dumps(handoff, ensure_ascii=False)):
            text = text.replace(escaped[1:-1], "<handoff>")
    return text


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("wire", WIRES)
async def test_an_exchange_is_the_recorded_one(tmp_path: Path, wire: str, case: str) -> None:
    answer = UpstreamAnswer("It is compared.", reasoning="I read it.")
    steps: list[Step] = [StreamedAnswer(answer) if case == "pass" else answer]
    if case == "overflow":
        steps.insert(0, UpstreamFault(400, REFUSAL))
    path, body = request(wire, {"pass": 2, "fold": 12, "overflow": 8}[case], stream=case == "pass")
    window = 2_000 if case == "fold" else 8_000
    upstream = Upstream(*steps)
    async with gateway_with(upstream, tmp_path, window=window, environ={"CLEW_GATEWAY_RECALL": "off"}) as flow:
        answered = await exchange(flow, path, body)
        handoffs = await handoffs_of(flow)
    sent = [without_handoffs(received.raw, handoffs) for received in upstream.received]
    assert bool(handoffs) == (case != "pass") == ("<handoff>" in sent[-1])
    now = {"path": path, "request": body.decode(), "upstream": sent, "response": answered}
    file = GOLDEN / f"{wire}_{case}.json"
    if os.environ.get("CLEW_WRITE_GOLDENS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(now, ensure_ascii=False, indent=1) + "\n")
    assert now == json.loads(file.read_text())
