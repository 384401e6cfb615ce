"""Summaries by the model that a caller talks to: with a credential of ours only, at the end of what it was sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.raw_http import make_caller

from clew.events import CompactionFinished, SummaryReplied
from clew.testing.gateway import GATEWAY_MODEL, GatewayFlow, gateway_with
from clew.testing.gateway_clients import CLIENTS, GatewayClient
from clew.testing.scripted import handoff_text
from clew.testing.upstream import Upstream, UpstreamAnswer, UpstreamFault
from clew.usage import CanonicalUsage

OWN_KEY = "fake-key-of-the-upstream"
OWN = {"CLEW_MODEL_API_KEY_ENV": "FAKE_UPSTREAM_KEY", "FAKE_UPSTREAM_KEY": OWN_KEY}
WINDOW = 60_000
QUESTIONS = 14
HANDOFF = UpstreamAnswer(
    handoff_text(goal="Answer every question.", key_decisions="We chose the blue lantern."),
    usage=CanonicalUsage(input_tokens=500, output_tokens=900, cache_read_tokens=8_000),
)


def ask_much(client: GatewayClient) -> None:
    """Fill most of the window with few questions: the instruction names each of them."""
    for number in range(QUESTIONS):
        client.history.append(
            {"role": "user", "content": f"question {number}: " + "many words that it goes on with " * 506}
        )
        client.history.append({"role": "assistant", "content": f"answer {number}"})
    client.history.pop()


def written_by(flow: GatewayFlow) -> list[str | None]:
    return [event.written_by for event in flow.events if isinstance(event, CompactionFinished)]


@pytest.mark.parametrize("wire", CLIENTS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_it_is_asked_behind_the_bytes_that_it_was_sent(tmp_path: Path, wire: str, stream: bool) -> None:
    upstream = Upstream(HANDOFF, UpstreamAnswer("Here is the answer."))
    async with gateway_with(upstream, tmp_path, window=WINDOW, environ=OWN) as flow:
        key = await make_caller(flow, "ann")
        async with CLIENTS[wire](GATEWAY_MODEL, stream=stream, credential=key) as client:
            ask_much(client)
            sent = [*client.body()[client.field]]
            client.history += await client.ask(flow.root)
        await flow.wait_for_recordings()
        summary, folded = upstream.received
        asked = summary.body[client.field]
        assert json.dumps(asked[:-1]) == json.dumps(sent)
        assert "asks for a handoff" in json.dumps(asked[-1])
        # All else is the same, but for more room for the reply where the client asked for little.
        assert [*summary.body] == [*folded.body]
        assert {name for name in summary.body if summary.body[name] != folded.body[name]} <= {
            client.field,
            "max_tokens",
        }
        for request in (summary, folded):
            assert OWN_KEY in request.headers["authorization"] and key not in str(request.headers)
        assert "blue lantern" in json.dumps(folded.body) and len(folded.body[client.field]) < len(sent)
        assert written_by(flow) == [GATEWAY_MODEL]
        (told,) = [event for event in flow.events if isinstance(event, SummaryReplied)]
        assert told.extends and told.cache_read_tokens == 8_000


async def test_the_credential_of_a_caller_writes_no_summaries(tmp_path: Path) -> None:
    upstream = Upstream(UpstreamAnswer("Here is the answer."))
    async with (
        gateway_with(upstream, tmp_path, window=WINDOW, environ=OWN) as flow,
        CLIENTS["chat"](GATEWAY_MODEL, stream=False) as client,
    ):
        ask_much(client)
        await client.ask(flow.root)
        (folded,) = upstream.received
        assert len(folded.body["messages"]) < 2 * QUESTIONS - 1
        assert written_by(flow) == ["built-in"]


@pytest.mark.parametrize(
    "answer",
    [UpstreamFault(500, '{"error": {"message": "broken"}}'), UpstreamAnswer("I would rather not.")],
    ids=["refused", "no handoff"],
)
async def test_where_it_writes_none_the_built_in_summariser_does(tmp_path: Path, answer: Any) -> None:
    upstream = Upstream(*[answer] * 3, UpstreamAnswer("Here is the answer."))
    async with gateway_with(upstream, tmp_path, window=WINDOW, environ=OWN) as flow:
        key = await make_caller(flow, "ann")
        async with CLIENTS["messages"](GATEWAY_MODEL, stream=True, credential=key) as client:
            ask_much(client)
            await client.ask(flow.root)
        assert len(upstream.received[-1].body["messages"]) < 2 * QUESTIONS - 1


async def test_the_key_pays_for_its_summaries(tmp_path: Path) -> None:
    model = "claude-sonnet-4-5"
    named = {**OWN, "CLEW_MODEL_NAME": model}
    upstream = Upstream(HANDOFF, UpstreamAnswer("Here is the answer.", usage=CanonicalUsage(input_tokens=3_000)))
    async with gateway_with(upstream, tmp_path, window=WINDOW, environ=named) as flow:
        key = await make_caller(flow, "ann")
        async with CLIENTS["messages"](model, stream=False, credential=key) as client:
            ask_much(client)
            await client.ask(flow.root)
        await flow.wait_for_recordings()
        (kept,) = await flow.store.list_keys()
        # At 3 dollars for a million tokens of input, 15 of output and 0.30 out of the cache.
        assert kept.spent_micros == 500 * 3 + 900 * 15 + 8_000 * 0.3 + 3_000 * 3
