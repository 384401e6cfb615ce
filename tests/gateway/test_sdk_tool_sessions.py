"""Long sessions of tools with the official SDKs, streamed, whose own objects go back into the history."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import ReceivedRequest, Upstream, UpstreamAnswer
from tests.gateway.test_tool_sessions import FUNCTION, OUTPUT, STRICT, ToolCaller
from tests.support.gateway import GatewayFlow, gateway_with
from tests.support.gateway_clients import find_folds

KEY = "fake-key-of-a-test"
ROUNDS = 24
TASK = "Go through the house step by step, and never touch the blue door."
# The SDK of Google makes a class of its own out of a session.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Inheritance class .* from ClientSession:DeprecationWarning"),
]


async def chat_with_openai(flow: GatewayFlow) -> None:
    tools: Any = [{"type": "function", "function": FUNCTION}]
    history: list[Any] = [{"role": "user", "content": TASK}]
    async with AsyncOpenAI(base_url=flow.base_url, api_key=KEY, max_retries=0) as client:
        for number in range(ROUNDS):
            streamed = client.chat.completions.stream(model=GATEWAY_MODEL, messages=history, tools=tools)
            async with streamed as events:
                message = (await events.get_final_completion()).choices[0].message
            history.append(message)
            calls = message.tool_calls or []
            history += [{"role": "tool", "tool_call_id": call.id, "content": OUTPUT} for call in calls]
            if not calls:
                history.append({"role": "user", "content": f"Go on with {number}."})


async def respond_with_openai(flow: GatewayFlow) -> None:
    tools: Any = [{"type": "function", "strict": False, **FUNCTION}]
    history: list[Any] = [{"role": "user", "content": TASK}]
    async with AsyncOpenAI(base_url=flow.base_url, api_key=KEY, max_retries=0) as client:
        for number in range(ROUNDS):
            async with client.responses.stream(model=GATEWAY_MODEL, input=history, tools=tools) as events:
                reply = await events.get_final_response()
            history += reply.output
            calls = [item.call_id for item in reply.output if item.type == "function_call"]
            history += [{"type": "function_call_output", "call_id": id, "output": OUTPUT} for id in calls]
            if not calls:
                history.append({"role": "user", "content": f"Go on with {number}."})


async def talk_with_anthropic(flow: GatewayFlow) -> None:
    tools: Any = [{"name": "shell", "input_schema": {"type": "object"}}]
    history: list[Any] = [{"role": "user", "content": TASK}]
    async with AsyncAnthropic(base_url=flow.root, api_key=KEY, max_retries=0) as client:
        for number in range(ROUNDS):
            streamed = client.messages.stream(model=GATEWAY_MODEL, max_tokens=500, messages=history, tools=tools)
            async with streamed as events:
                message = await events.get_final_message()
            history.append({"role": "assistant", "content": message.content})
            calls = [block.id for block in message.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": id, "content": OUTPUT} for id in calls]
            history.append({"role": "user", "content": results or f"Go on with {number}."})


async def generate_with_google(flow: GatewayFlow) -> None:
    genai: Any = pytest.importorskip("google.genai")
    types = genai.types
    declared = types.FunctionDeclaration(name="shell", description="runs", parameters_json_schema={"type": "object"})
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[declared])])
    client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=flow.root)).aio
    history = [types.Content(role="user", parts=[types.Part(text=TASK)])]
    for number in range(ROUNDS):
        chunks = await client.models.generate_content_stream(model=GATEWAY_MODEL, contents=history, config=config)
        parts = [part async for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
        history.append(types.Content(role="model", parts=[part for part in parts if not part.thought]))
        called = [part.function_call for part in parts if part.function_call]
        results = [types.Part.from_function_response(name=call.name, response={"output": OUTPUT}) for call in called]
        history.append(types.Content(role="user", parts=results or [types.Part(text=f"Go on with {number}.")]))
    await client.aclose()


SESSIONS: dict[str, tuple[Callable[[GatewayFlow], Awaitable[None]], str]] = {
    "openai chat": (chat_with_openai, "messages"),
    "openai responses": (respond_with_openai, "input"),
    "anthropic": (talk_with_anthropic, "messages"),
    "google": (generate_with_google, "contents"),
}


class RecallingCaller(ToolCaller):
    """The same, and recalls wherever it may: alone, beside the client's tool, and twice at once."""

    def __init__(self) -> None:
        super().__init__()
        self.recalls = 0

    def __call__(self, received: ReceivedRequest) -> UpstreamAnswer:
        if '"clew_search"' not in json.dumps(received.body["tools"]) or self.recalls > self.count:
            return super().__call__(received)
        self.recalls += 2
        number = 1_000 + self.recalls
        search, opening = (
            {"id": f"call_{number}_{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(
                (("clew_search", '{"query": "blue door"}'), ("clew_open", '{"messages": "m0"}'))
            )
        )
        answer = super().__call__(received)
        calls: Any = ((search,), (search, opening), (opening, *answer.calls, search))[self.recalls // 2 % 3]
        return replace(answer, text=f"looking {number}", calls=calls)


@pytest.mark.parametrize("sdk", SESSIONS)
async def test_an_sdk_sees_nothing_of_what_its_model_recalls(tmp_path: Path, sdk: str) -> None:
    run, field = SESSIONS[sdk]
    model = RecallingCaller()
    async with gateway_with(Upstream(answers=model, rules=STRICT), tmp_path) as flow:
        await run(flow)
        await flow.wait_for_recordings()
        assert model.recalls > 8
        answered = [it for it in flow.upstream.received if it.status == 200]
        assert len(answered) > ROUNDS + 4
        assert len(flow.upstream.received) <= len(answered) + 1
        assert {record.status for record in flow.exchanges} == {200}
        assert not any(record.is_fallback for record in flow.exchanges)
        assert len([it for it in await flow.store.list_sessions() if it.kind != "continuation"]) == 1
        (tip,) = await flow.store.list_sessions(only_tips=True)
        stored = json.dumps([row.message for row in await flow.store.messages(tip.id)])
        assert "clew_" not in stored and "looking" in stored
        assert sum("call_10" in json.dumps(it.body[field]) for it in answered) > 4
        # Each request begins with the one before it, but for those of a fold.
        moved = [
            at for at in range(1, len(answered)) if not _extends(answered[at].body[field], answered[at - 1].body[field])
        ]
        assert len(moved) == len(find_folds([it.body[field] for it in answered]))


def _extends(now: list[Any], before: list[Any]) -> bool:
    return now[: len(before)] == before


@pytest.mark.parametrize("sdk", SESSIONS)
async def test_a_session_of_an_sdk_is_folded_twice_and_keeps_its_task(tmp_path: Path, sdk: str) -> None:
    run, field = SESSIONS[sdk]
    async with gateway_with(Upstream(answers=ToolCaller(), rules=STRICT), tmp_path) as flow:
        await run(flow)
        await flow.wait_for_recordings()
        received = flow.upstream.received
        # At most one refusal was recovered from: of thinking behind a fold, or before the first usage was told.
        assert ROUNDS <= len(received) <= ROUNDS + 1
        answered = [it for it in received if it.status == 200]
        assert len(answered) == ROUNDS
        assert len(find_folds([it.body[field] for it in answered])) >= 2
        assert "never touch the blue door" in json.dumps(received[-1].body[field])
        assert {record.status for record in flow.exchanges} == {200}
        assert not any(record.is_fallback for record in flow.exchanges)
        assert len([it for it in await flow.store.list_sessions() if it.kind != "continuation"]) == 1
