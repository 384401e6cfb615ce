"""The mock upstream refuses what a provider refuses, in words that are recognised as the provider's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

import clew
from clew.messages import DialectName, convert
from clew.testing import Upstream, UpstreamAnswer, UpstreamFault, UpstreamRules, assistant, call, tool, user

PATHS: dict[DialectName, str] = {
    "openai_chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/mock:generateContent",
}
PROVIDERS = {"openai_chat": "openai", "responses": "openai", "anthropic": "anthropic", "gemini": "gemini"}
TALK = [
    user("Read it."),
    assistant(None, [call("read", id="c1"), call("read", id="c2")]),
    tool("c1", "x"),
    tool("c2", "y"),
]
PAIRS = UpstreamRules(pairs=True)
BINDS = UpstreamRules(binds_thinking=True)


@asynccontextmanager
async def posting(upstream: Upstream) -> AsyncIterator[Any]:
    async with upstream, aiohttp.ClientSession(upstream.origin) as session:

        async def post(path: str, body: Any, headers: Any = None) -> tuple[int, Any]:
            async with session.post(path, json=body, headers=headers) as response:
                return response.status, await response.json()

        yield post


def said() -> UpstreamAnswer:
    return UpstreamAnswer("ok")


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_prompt_over_the_window_is_refused_and_known_as_that(dialect: DialectName) -> None:
    short, long = (convert([user("word " * count)], dialect) for count in (10, 2_000))
    async with posting(Upstream(said(), rules=UpstreamRules(window=1_000))) as post:
        assert (await post(PATHS[dialect], short))[0] == 200
        status, body = await post(PATHS[dialect], long)
    error = clew.classify_error(status, body, PROVIDERS[dialect])
    assert (status, error.kind) == (400, "prompt_too_long")
    assert error.limit == (None if dialect == "responses" else 1_000)


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
async def test_where_output_counts_what_is_asked_for_has_to_fit_too(dialect: DialectName) -> None:
    asked = {**convert([user("word " * 400)], dialect), "max_tokens": 900}
    async with posting(Upstream(said(), rules=UpstreamRules(window=1_000, counts_output=True))) as post:
        status, body = await post(PATHS[dialect], asked)
        assert clew.classify_error(status, body, PROVIDERS[dialect]).kind == "output_cap_too_large"
        assert (await post(PATHS[dialect], {**asked, "max_tokens": 100}))[0] == 200


async def test_a_stream_of_responses_opens_and_says_that_it_failed() -> None:
    rules = UpstreamRules(window=100)
    async with Upstream(rules=rules) as upstream, aiohttp.ClientSession(upstream.origin) as session:
        body = {"input": "word " * 1_000, "stream": True}
        async with session.post("/v1/responses", json=body) as response:
            assert response.status == 200
            text = await response.text()
    assert "event: response.failed" in text and '"code": "context_length_exceeded"' in text


@pytest.mark.parametrize("dialect", PATHS)
async def test_whole_pairs_are_answered_and_halves_refused(dialect: DialectName) -> None:
    field = {"responses": "input", "gemini": "contents"}.get(dialect, "messages")
    whole = convert(TALK, dialect)
    items = whole[field]
    no_result = [item for item in items if item is not items[-1]]
    no_call = [items[0], items[-1]]
    async with posting(Upstream(said(), said(), rules=PAIRS)) as post:
        assert (await post(PATHS[dialect], whole))[0] == 200
        more = convert([*TALK, assistant("Read."), user("And?")], dialect)
        assert (await post(PATHS[dialect], more))[0] == 200
        for broken in (no_result, no_call):
            status, body = await post(PATHS[dialect], {**whole, field: broken})
            assert status == 400, broken
            assert clew.classify_error(status, body, PROVIDERS[dialect]).kind == "bad_request"


async def test_gemini_wants_calls_behind_the_user_and_as_many_responses() -> None:
    wire = convert(TALK, "gemini")["contents"]
    path = PATHS["gemini"]
    async with posting(Upstream(rules=PAIRS)) as post:
        _, first = await post(path, {"contents": wire[1:]})
        assert "comes immediately after a user turn" in first["error"]["message"]
        fewer = {**wire[2], "parts": wire[2]["parts"][:1]}
        _, second = await post(path, {"contents": [*wire[:2], fewer]})
        assert "number of function response parts" in second["error"]["message"]


async def test_five_markers_and_a_wrong_order_are_refused_on_anthropics_wire() -> None:
    def marked(*lives: str) -> dict[str, Any]:
        blocks = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": ttl}} for ttl in lives]
        return {"system": blocks[:1], "messages": [{"role": "user", "content": blocks[1:]}]}

    async with posting(Upstream(said(), rules=PAIRS)) as post:
        assert (await post("/v1/messages", marked("1h", "1h", "5m", "5m")))[0] == 200
        _, body = await post("/v1/messages", marked(*["5m"] * 5))
        assert body["error"]["message"] == "A maximum of 4 blocks with cache_control may be provided. Found 5."
        _, body = await post("/v1/messages", marked("5m", "1h"))
        assert "must not come after" in body["error"]["message"]


async def test_thinking_is_taken_back_behind_the_same_prefix_only() -> None:
    asked: dict[str, Any] = {"system": "Be brief.", "messages": [{"role": "user", "content": "Read it."}]}
    steps = [UpstreamAnswer("ok", reasoning="a file"), *[said()] * 3]
    async with posting(Upstream(*steps, rules=BINDS)) as post:
        _, reply = await post("/v1/messages", asked)
        said_by_it = {"role": "assistant", "content": reply["content"]}
        marker = {"cache_control": {"type": "ephemeral"}}
        marked = {"role": "user", "content": [{"type": "text", "text": "Read it.", **marker}]}
        more = {**asked, "messages": [marked, said_by_it, {"role": "user", "content": "And?"}]}
        assert (await post("/v1/messages", more))[0] == 200

        folded = {**more, "messages": [{"role": "user", "content": "A summary."}, *more["messages"][1:]]}
        status, body = await post("/v1/messages", folded)
        assert status == 400
        assert body["error"]["message"] == (
            "messages.1.content.0: Invalid `signature` in `thinking` block. "
            "The block is bound to a different conversation"
        )
        controls = {"type": "enabled", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        beta = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
        assert (await post("/v1/messages", {**folded, "thinking": controls}))[0] == 400
        _, dropped = await post("/v1/messages", {**folded, "thinking": controls}, beta)
        assert dropped["input_transformations"] == [
            {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
        ]
        without = [{**message, "content": reply["content"][1:]} if message is said_by_it else message
                   for message in folded["messages"]]  # fmt: skip
        assert (await post("/v1/messages", {**folded, "messages": without}))[0] == 200


async def test_encrypted_content_of_others_and_calls_without_signatures_are_refused() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ours"}
    contents = convert(TALK, "gemini")["contents"]
    async with posting(Upstream(said(), rules=BINDS)) as post:
        status, body = await post("/v1/responses", {"input": [reasoning, {"role": "assistant", "content": "a"}]})
        assert (status, body["error"]["code"]) == (400, "invalid_encrypted_content")
        status, body = await post(PATHS["gemini"], {"contents": contents})
        assert status == 400 and "missing a thought_signature" in body["error"]["message"]
        # Of an earlier turn it is not asked for.
        later = [
            *contents,
            {"role": "model", "parts": [{"text": "Read."}]},
            {"role": "user", "parts": [{"text": "And?"}]},
        ]
        assert (await post(PATHS["gemini"], {"contents": later}))[0] == 200


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit"), (500, "overloaded"), (503, "overloaded"), (401, "auth")]
)
async def test_a_fault_without_a_body_speaks_as_its_provider(dialect: DialectName, status: int, kind: str) -> None:
    async with posting(Upstream(UpstreamFault(status))) as post:
        got, body = await post(PATHS[dialect], convert([user("Hi.")], dialect))
    assert (got, clew.classify_error(got, body, PROVIDERS[dialect]).kind) == (status, kind)
