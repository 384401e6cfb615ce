"""The `google-genai` SDK against the mock upstream: a tool loop with its signatures, counts, models, refusals."""

from __future__ import annotations

from typing import Any

import pytest

from clew.testing import Upstream, UpstreamAnswer, UpstreamRules, call

genai: Any = pytest.importorskip("google.genai")
# The SDK makes a class of its own out of a session.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class .* from ClientSession:DeprecationWarning")
RULES = UpstreamRules(window=4_000, pairs=True, binds_thinking=True)


def client_of(upstream: Upstream) -> Any:
    options = genai.types.HttpOptions(base_url=upstream.origin)
    return genai.Client(api_key="fake", http_options=options).aio


@pytest.mark.parametrize("call_id", ["c1", ""])
async def test_a_tool_loop_of_the_sdk_is_taken_back_with_its_signatures(call_id: str) -> None:
    types = genai.types
    steps = [
        UpstreamAnswer(calls=(call("read", {"path": "a"}, call_id),), reasoning="which?"),
        UpstreamAnswer("It is 7."),
    ]
    async with Upstream(*steps, rules=RULES) as upstream:
        client = client_of(upstream)
        history = [types.Content(role="user", parts=[types.Part(text="Read a.")])]
        pieces = [
            chunk async for chunk in await client.models.generate_content_stream(model="gemini-mock", contents=history)
        ]
        parts = [part for chunk in pieces for part in chunk.candidates[0].content.parts]
        wanted = next(part for part in parts if part.function_call)
        assert (wanted.function_call.name, wanted.thought_signature) == ("read", b"signed-by-the-mock")
        history.append(types.Content(role="model", parts=[wanted]))
        response = types.Part.from_function_response(name="read", response={"output": "7"})
        history.append(types.Content(role="user", parts=[response]))
        reply = await client.models.generate_content(model="gemini-mock", contents=history)
        assert reply.text == "It is 7."
        counted = await client.models.count_tokens(model="gemini-mock", contents=history)
        assert counted.total_tokens == reply.usage_metadata.prompt_token_count
        await client.aclose()


async def test_refusals_and_models_are_read_by_the_sdk() -> None:
    async with Upstream(models=[{"id": "gemini-mock"}], rules=RULES) as upstream:
        client = client_of(upstream)
        with pytest.raises(genai.errors.ClientError, match="exceeds the maximum number of tokens allowed"):
            await client.models.generate_content(model="gemini-mock", contents="word " * 9_000)
        assert (await client.models.get(model="gemini-mock")).input_token_limit == 4_000
        assert [model.name async for model in await client.models.list()] == ["models/gemini-mock"]
        await client.aclose()
