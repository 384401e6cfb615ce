"""Recall behind the gateway, on every wire: the model asks for what was folded, and the client sees nothing of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from clew.dashboard.session_page import recall_notes
from clew.events import HistoryRecalled
from clew.gateway.recall import tool_tokens
from clew.messages import ToolCall
from clew.store import RECALLS
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import ReceivedRequest, Step, StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault
from clew.testing.upstream_rules import UpstreamRules
from clew.tokens import counter_for
from clew.usage import CanonicalUsage
from tests.gateway.test_tool_sessions import BOUND, CLIENTS, WireClient, user
from tests.support.gateway import GatewayFlow, gateway_with

FACT = "QX-4417"
LONG = "a line of output that says little\n" * 80
STRICT = UpstreamRules(window=8_000, pairs=True, binds_thinking=True)
WIRES = tuple(CLIENTS)
Reply = Callable[[ReceivedRequest], Step]


def call(name: str, number: int, **arguments: Any) -> ToolCall:
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def is_offered(received: ReceivedRequest) -> bool:
    return '"clew_search"' in json.dumps(received.body.get("tools"))


class RecallingModel:
    """Calls the client's tool until it may recall; then replies as its script says, and then with a text."""

    def __init__(self, *script: Step) -> None:
        self.script = list(script)
        self.count = 0

    def __call__(self, received: ReceivedRequest) -> Step:
        self.count += 1
        number = self.count
        if self.script and is_offered(received):
            return self.script.pop(0)
        if not is_offered(received):
            made = call("shell", 1_000 + number, command=f"step {number}")
            return UpstreamAnswer("", (made,), reasoning=f"thought {number}", number=number)
        return UpstreamAnswer(f"answer {number}", number=number)


def searches(number: int, *beside: ToolCall, text: str = "", query: str = "vault code") -> UpstreamAnswer:
    made = call("clew_search", number, query=query)
    return UpstreamAnswer(text, (made, *beside), reasoning="what was it", number=number)


class Session:
    """A client of a wire and its history."""

    def __init__(self, flow: GatewayFlow, wire: str, model: str = GATEWAY_MODEL) -> None:
        self.flow, self.wire, self.model = flow, wire, model
        self.client: WireClient = CLIENTS[wire]
        self.items: list[Any] = [user(wire, "Find out how the hall is locked.")]
        self.replies: list[dict[str, Any]] = []

    async def ask(self, **beside: Any) -> dict[str, Any]:
        client = self.client
        changed = WireClient(client.path, client.field, {**client.beside, **beside}, client.said, client.results)
        body = {"model": self.model, **changed.beside, client.field: self.items}
        if self.wire == "gemini":
            del body["model"]
        async with aiohttp.ClientSession() as http, http.post(self.flow.root + client.path, json=body) as response:
            raw = await response.read()
            assert response.status == 200, raw
        reply: dict[str, Any] = json.loads(raw)
        self.replies.append(reply)
        await self.flow.wait_for_recordings()
        said = client.said(reply)
        results = client.results(said)
        if len(self.replies) == 1:
            results = json.loads(json.dumps(results).replace("a line of", f"the vault code is {FACT}; a line of", 1))
        self.items += [*said, *(results or [user(self.wire, f"Go on with {len(self.items)}.")])]
        return reply

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[aiohttp.StreamReader]:
        """The bytes of a streamed reply, which stays out of the history."""
        path, client = self.client.path, self.client
        body = {"model": self.model, **client.beside, client.field: self.items, "stream": True}
        if self.wire == "gemini":
            del body["model"], body["stream"]
            path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
        async with aiohttp.ClientSession() as http, http.post(self.flow.root + path, json=body) as response:
            assert response.status == 200
            yield response.content

    async def until_offered(self) -> dict[str, Any]:
        """Work until the conversation was folded and its model could recall; the reply to that request."""
        for _ in range(20):
            reply = await self.ask()
            if is_offered(self.flow.upstream.calls[-1]):
                return reply
        raise AssertionError("it was never folded")

    def sent(self, at: int = -1) -> list[Any]:
        sent: list[Any] = self.flow.upstream.calls[at].body[self.client.field]
        return sent


def usage_told(reply: dict[str, Any]) -> tuple[int, int]:
    """Prompt and output tokens that a client is told."""
    usage = reply.get("usage") or reply.get("usageMetadata")
    assert isinstance(usage, dict)
    prompt = sum(usage.get(name) or 0 for name in ("prompt_tokens", "promptTokenCount", "input_tokens"))
    prompt += sum(usage.get(name) or 0 for name in ("cache_creation_input_tokens", "cache_read_input_tokens"))
    output = sum(usage.get(name) or 0 for name in ("completion_tokens", "output_tokens"))
    return prompt, output + sum(usage.get(name) or 0 for name in ("candidatesTokenCount", "thoughtsTokenCount"))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_reply_that_only_recalls_is_answered_and_the_client_gets_the_reply_behind_it(
    tmp_path: Path, wire: str
) -> None:
    model = BOUND if wire == "messages" else GATEWAY_MODEL
    script = (searches(1, text="let me look"), UpstreamAnswer(f"it is {FACT}", number=2))
    upstream = Upstream(answers=RecallingModel(*script), rules=STRICT)
    async with gateway_with(upstream, tmp_path, environ={"CLEW_MODEL_NAME": model}) as flow:
        session = Session(flow, wire, model)
        reply = await session.until_offered()
        told = json.dumps(reply)
        assert "clew_" not in told and FACT in told and "let me look" in told
        first, second = flow.upstream.calls[-2:]
        assert session.sent()[: len(session.sent(-2))] == session.sent(-2)
        assert FACT in json.dumps(session.sent()[len(session.sent(-2)) :])
        assert first.body["tools"] == second.body["tools"]
        # The window of the mock counts both prompts, and the client is told the sum.
        assert usage_told(reply)[1] == 2 * 9
        # In the next request the model sees what it saw before, and everything is where it was.
        before = session.sent()
        await session.ask()
        assert session.sent()[: len(before)] == before
        assert len([it for it in await flow.store.list_sessions() if it.kind == "root"]) == 1
        assert not any(record.recovered or record.is_fallback for record in flow.exchanges)
        assert "clew_" not in json.dumps(session.items)
        recalled = [event for event in flow.events if isinstance(event, HistoryRecalled)]
        assert [event.tool for event in recalled] == ["clew_search"] and recalled[0].messages
        (kept,) = await flow.store.engine_records(recalled[0].session, RECALLS)
        assert kept.value["asked"] == ["clew_search vault code"]
        assert "clew_search vault code" in recall_notes([kept])[0][1]
        await session.ask()
        assert session.sent()[: len(before)] == before


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_beside_the_clients_own_is_answered_with_the_clients_results(tmp_path: Path, wire: str) -> None:
    model = BOUND if wire == "messages" else GATEWAY_MODEL
    script = (searches(1, call("shell", 2, command="ls"), call("clew_open", 3, messages="m2"), text="both at once"),)
    upstream = Upstream(answers=RecallingModel(*script), rules=STRICT)
    async with gateway_with(upstream, tmp_path, environ={"CLEW_MODEL_NAME": model}) as flow:
        session = Session(flow, wire, model)
        reply = await session.until_offered()
        told = json.dumps(reply)
        assert "clew_" not in told and "both at once" in told and "ls" in told
        before = session.sent()
        await session.ask()
        assert session.sent()[: len(before)] == before
        behind = json.dumps(session.sent()[len(before) :])
        assert FACT in behind and behind.count("clew_search") >= 1 and behind.count("clew_open") >= 1
        # Another process serves the next one, and sends the same.
        before = session.sent()
        async with gateway_with(upstream, tmp_path, environ={"CLEW_MODEL_NAME": model}) as other:
            session.flow = other
            await session.ask()
            assert session.sent()[: len(before)] == before
        assert not any(record.recovered or record.is_fallback for record in [*flow.exchanges, *other.exchanges])


@pytest.mark.parametrize("wire", WIRES)
async def test_no_more_than_four_replies_in_a_row_are_answered(tmp_path: Path, wire: str) -> None:
    model = BOUND if wire == "messages" else GATEWAY_MODEL
    upstream = Upstream(answers=RecallingModel(*(searches(number) for number in range(1, 20))), rules=STRICT)
    async with gateway_with(upstream, tmp_path, environ={"CLEW_MODEL_NAME": model}) as flow:
        session = Session(flow, wire, model)
        for _ in range(20):
            before = len(flow.upstream.calls)
            reply = await session.ask()
            if len(flow.upstream.calls) > before + 1:
                break
        calls = flow.upstream.calls[before:]
        assert len(calls) == 6 and all(map(is_offered, calls))
        choices = [it.body.get("tool_choice") or it.body.get("toolConfig") for it in calls]
        assert choices[:5] == [None] * 5 and "none" in json.dumps(choices[5]).lower()
        assert "clew_" not in json.dumps(reply)
        assert len([event for event in flow.events if isinstance(event, HistoryRecalled)]) == 4


async def test_results_of_a_round_have_no_more_than_four_thousand_tokens(tmp_path: Path) -> None:
    many = tuple(call("clew_open", number, messages="m0-") for number in range(2, 6))
    upstream = Upstream(answers=RecallingModel(searches(1, *many), UpstreamAnswer("done")), rules=STRICT)
    async with gateway_with(upstream, tmp_path) as flow:
        session = Session(flow, "chat")
        await session.until_offered()
        results = [
            it
            for it in session.sent()
            if it["role"] == "tool" and it["tool_call_id"] in {f"call_{n}" for n in range(1, 6)}
        ]
        assert len(results) == 5
        assert sum(counter_for(GATEWAY_MODEL).text(it["content"]) for it in results) <= 4_000


@pytest.mark.parametrize("wire", WIRES)
async def test_rounds_of_recall_fit_a_small_window(tmp_path: Path, wire: str) -> None:
    model = BOUND if wire == "messages" else GATEWAY_MODEL
    opens = (UpstreamAnswer("", (call("clew_open", number, messages="m0-"),), number=number) for number in range(1, 6))
    rules = UpstreamRules(window=5_000, pairs=True, binds_thinking=True)
    upstream = Upstream(answers=RecallingModel(*opens, UpstreamAnswer("done")), rules=rules)
    environ = {"CLEW_MODEL_NAME": model, "CLEW_MODEL_CONTEXT_LENGTH": "5000"}
    async with gateway_with(upstream, tmp_path, environ=environ) as flow:
        session = Session(flow, wire, model)
        await session.until_offered()
        assert sum(isinstance(event, HistoryRecalled) for event in flow.events) >= 2
        assert not any(record.is_fallback or record.recovered for record in flow.exchanges)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_two_tools_take_less_than_two_hundred_tokens(wire: str) -> None:
    dialects = {"chat": "openai_chat", "messages": "anthropic"}
    assert tool_tokens(dialects.get(wire, wire), counter_for("gpt-5").text) < 200  # type: ignore[arg-type]


NOT_OFFERED: dict[str, tuple[str, dict[str, Any]]] = {
    "no call": ("chat", {"tool_choice": "none"}),
    "any call": ("chat", {"tool_choice": "required"}),
    "one call": ("chat", {"tool_choice": {"type": "function", "function": {"name": "shell"}}}),
    "no legacy call": ("chat", {"function_call": "none"}),
    "one legacy call": ("chat", {"function_call": {"name": "shell"}}),
    "legacy functions": ("chat", {"functions": [{"name": "shell", "parameters": {"type": "object"}}]}),
    "json": ("chat", {"response_format": {"type": "json_object"}}),
    "a grammar": ("chat", {"response_format": {"type": "grammar", "grammar": "root ::= [0-9]+"}}),
    "a tag": ("chat", {"response_format": {"type": "structural_tag", "structures": []}}),
    "guided json": ("chat", {"guided_json": {"type": "object"}}),
    "guided choice": ("chat", {"guided_choice": ["yes", "no"]}),
    "structured outputs": ("chat", {"structured_outputs": {"regex": "[0-9]+"}}),
    "a grammar of its own": ("chat", {"grammar": "root ::= [0-9]+"}),
    "a schema of its own": ("chat", {"json_schema": {"type": "object"}}),
    "a regex": ("chat", {"regex": "[0-9]+"}),
    "choices": ("chat", {"n": 2}),
    "no tools": ("chat", {"tools": []}),
    "own tools": ("chat", {"tools": [{"type": "function", "function": {"name": "mcp__clew__clew_search"}}]}),
    "no call of messages": ("messages", {"tool_choice": {"type": "none"}}),
    "any call of messages": ("messages", {"tool_choice": {"type": "any"}}),
    "json of messages": ("messages", {"output_config": {"format": {"type": "json_schema", "schema": {}}}}),
    "no call of responses": ("responses", {"tool_choice": "none"}),
    "some tools of responses": (
        "responses",
        {"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "shell"}]}},
    ),
    "json of responses": ("responses", {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}}}}),
    "a grammar of responses": ("responses", {"text": {"format": {"type": "grammar", "syntax": "lark"}}}),
    "guided json of responses": ("responses", {"guided_json": {"type": "object"}}),
    "an older format of messages": ("messages", {"output_format": {"type": "json_schema", "schema": {}}}),
    "guided json of messages": ("messages", {"guided_json": {"type": "object"}}),
    "no call of gemini": ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}),
    "json of gemini": ("gemini", {"generationConfig": {"responseMimeType": "application/json"}}),
    "one of some words of gemini": ("gemini", {"generationConfig": {"responseMimeType": "text/x.enum"}}),
    "a schema of gemini": ("gemini", {"generationConfig": {"responseJsonSchema": {"type": "object"}}}),
    "a call of gemini in its other spelling": (
        "gemini",
        {"tool_config": {"function_calling_config": {"mode": "NONE"}}},
    ),
    "other tools of gemini": ("gemini", {"tools": [{"googleSearch": {}}]}),
}


@pytest.mark.parametrize("case", NOT_OFFERED)
async def test_it_is_not_offered_where_the_client_would_notice(tmp_path: Path, case: str) -> None:
    wire, beside = NOT_OFFERED[case]
    async with gateway_with(Upstream(answers=RecallingModel()), tmp_path) as flow:
        session = Session(flow, wire)
        await session.until_offered()
        await session.ask(**beside)
        assert not is_offered(flow.upstream.calls[-1])


OFFERED: dict[str, tuple[str, dict[str, Any]]] = {
    "text": ("chat", {"response_format": {"type": "text"}, "tool_choice": "auto", "function_call": "auto"}),
    "null": ("chat", {"response_format": None, "guided_json": None, "grammar": None, "functions": None}),
    "text of responses": ("responses", {"text": {"format": {"type": "text"}, "verbosity": "low"}}),
    "text of messages": ("messages", {"output_config": {"effort": "high"}, "tool_choice": {"type": "auto"}}),
    "text of gemini": ("gemini", {"generationConfig": {"responseMimeType": "text/plain", "temperature": 0.1}}),
}


@pytest.mark.parametrize("case", OFFERED)
async def test_it_is_offered_where_the_reply_is_free(tmp_path: Path, case: str) -> None:
    wire, beside = OFFERED[case]
    async with gateway_with(Upstream(answers=RecallingModel()), tmp_path) as flow:
        session = Session(flow, wire)
        await session.until_offered()
        await session.ask(**beside)
        assert is_offered(flow.upstream.calls[-1])


async def test_an_upstream_that_refuses_the_tools_is_asked_without_them(tmp_path: Path) -> None:
    refusal = UpstreamFault(400, {"error": {"message": "Invalid tool: clew_search is not allowed"}})
    async with gateway_with(Upstream(answers=RecallingModel(refusal)), tmp_path) as flow:
        session = Session(flow, "chat")
        for _ in range(14):
            await session.ask()
        offered = [is_offered(it) for it in flow.upstream.calls]
        assert sum(offered) == 1 and not offered[-1]


@pytest.mark.parametrize("wire", WIRES)
async def test_an_error_behind_a_recall_reaches_the_client(tmp_path: Path, wire: str) -> None:
    upstream = Upstream(
        answers=RecallingModel(searches(1), UpstreamFault(529), searches(3), UpstreamAnswer("in the end"))
    )
    async with gateway_with(upstream, tmp_path) as flow:
        session = Session(flow, wire)
        with pytest.raises(AssertionError, match="error"):
            await session.until_offered()
        # Asked again by the client, it works.
        assert "in the end" in json.dumps(await session.ask())


async def test_what_recalls_took_is_recorded_and_charged(tmp_path: Path) -> None:
    usage = CanonicalUsage(input_tokens=1_000, output_tokens=10)
    asked = UpstreamAnswer(calls=(call("clew_search", 1, query="vault"),), usage=usage)
    upstream = Upstream(answers=RecallingModel(asked, UpstreamAnswer("done", usage=usage)))
    async with gateway_with(upstream, tmp_path) as flow:
        session = Session(flow, "chat")
        reply = await session.until_offered()
        assert usage_told(reply) == (2_000, 20)
        assert flow.exchanges[-1].usage == usage + usage
        (total,) = [it for it in await flow.store.usage(["source"]) if it.group["source"] == "auxiliary"]
        assert (total.calls, total.usage) == (1, usage)


async def test_recall_is_off_where_the_request_or_the_gateway_says_so(tmp_path: Path) -> None:
    async with gateway_with(
        Upstream(answers=RecallingModel()), tmp_path, environ={"CLEW_GATEWAY_RECALL": "off"}
    ) as flow:
        session = Session(flow, "chat")
        for _ in range(12):
            await session.ask()
        assert any(record.is_folded for record in flow.exchanges)
        assert not any(map(is_offered, flow.upstream.calls))
        assert "clew_open" not in json.dumps([it.body for it in flow.upstream.calls])
        body = {"model": GATEWAY_MODEL, **session.client.beside, "messages": session.items}
        url, headers = flow.root + session.client.path, {"x-clew-recall": "on"}
        async with aiohttp.ClientSession() as http, http.post(url, json=body, headers=headers) as response:
            assert response.status == 200
        assert is_offered(flow.upstream.calls[-1])


async def test_the_handoff_says_that_messages_can_be_opened_only_where_they_can(tmp_path: Path) -> None:
    async with gateway_with(Upstream(answers=RecallingModel()), tmp_path) as flow:
        session = Session(flow, "chat")
        await session.until_offered()
        assert "clew_open" in json.dumps(session.sent())


async def test_a_fold_ends_what_was_recalled_before_it(tmp_path: Path) -> None:
    shell = [UpstreamAnswer("", (call("shell", 500 + n, command=f"{n}"),), number=500 + n) for n in range(14)]
    upstream = Upstream(answers=RecallingModel(searches(1), *shell), rules=STRICT)
    async with gateway_with(upstream, tmp_path) as flow:
        session = Session(flow, "messages")
        await session.until_offered()
        await session.ask()
        assert 'call_1"' in json.dumps(session.sent())
        for _ in range(12):
            await session.ask()
        assert len([it for it in await flow.store.list_sessions() if it.kind == "continuation"]) >= 2
        assert 'call_1"' not in json.dumps(session.sent())
        assert not any(record.recovered or record.is_fallback for record in flow.exchanges)


async def test_a_client_that_hangs_up_behind_a_recall_leaves_a_whole_history(tmp_path: Path) -> None:
    stalled = StreamedAnswer(UpstreamAnswer("half of an answer", number=2), stall_after=3)
    upstream = Upstream(answers=RecallingModel(searches(1), stalled), rules=STRICT)
    async with gateway_with(upstream, tmp_path) as flow:
        session = Session(flow, "chat")
        body = {"model": GATEWAY_MODEL, **session.client.beside, "stream": True}
        url = flow.root + session.client.path
        for _ in range(20):
            if len(flow.upstream.calls) and is_offered(flow.upstream.calls[-1]):
                break
            if len(session.items) >= 17:
                async with aiohttp.ClientSession() as http:
                    response = await http.post(url, json={**body, "messages": session.items})
                    if is_offered(flow.upstream.calls[-1]):
                        await flow.upstream.stalled.wait()
                        response.close()
                        break
                    await response.read()
                continue
            await session.ask()
        await flow.wait_for_recordings()
        assert "clew_" not in json.dumps(
            [
                row.message
                for row in await flow.store.messages(
                    flow.server.exchanges.conversations.by_use()[-1].view.session or ""
                )
            ]
        )
        await session.ask()


async def openai_once(session: Session) -> str:
    async with AsyncOpenAI(base_url=session.flow.base_url, api_key="fake-key-of-a-test", max_retries=0) as client:
        made: Any = await client.chat.completions.create(
            model=GATEWAY_MODEL, messages=session.items, **session.client.beside
        )
        assert made.usage.completion_tokens == 2 * 9
        return str(made.model_dump_json())


async def responses_once(session: Session) -> str:
    async with AsyncOpenAI(base_url=session.flow.base_url, api_key="fake-key-of-a-test", max_retries=0) as client:
        made: Any = await client.responses.create(model=GATEWAY_MODEL, input=session.items, **session.client.beside)
        assert made.usage.output_tokens == 2 * 9
        return str(made.model_dump_json())


async def anthropic_once(session: Session) -> str:
    async with AsyncAnthropic(base_url=session.flow.root, api_key="fake-key-of-a-test", max_retries=0) as client:
        made: Any = await client.messages.create(model=GATEWAY_MODEL, messages=session.items, **session.client.beside)
        assert made.usage.output_tokens == 2 * 9
        return str(made.model_dump_json())


async def google_once(session: Session) -> str:
    genai: Any = pytest.importorskip("google.genai")
    types = genai.types
    beside: Any = session.client.beside
    config = types.GenerateContentConfig(tools=[types.Tool.model_validate(it) for it in beside["tools"]])
    client = genai.Client(api_key="fake-key-of-a-test", http_options=types.HttpOptions(base_url=session.flow.root)).aio
    history = [types.Content.model_validate(it) for it in session.items]
    made = await client.models.generate_content(model=GATEWAY_MODEL, contents=history, config=config)
    await client.aclose()
    assert made.usage_metadata.candidates_token_count + (made.usage_metadata.thoughts_token_count or 0) == 2 * 9
    return str(made.model_dump_json())


ONCE = {"chat": openai_once, "responses": responses_once, "messages": anthropic_once, "gemini": google_once}


# The SDK of Google makes a class of its own out of a session.
@pytest.mark.filterwarnings("ignore:Inheritance class .* from ClientSession:DeprecationWarning")
@pytest.mark.parametrize("wire", ONCE)
async def test_an_sdk_that_does_not_stream_gets_one_whole_reply(tmp_path: Path, wire: str) -> None:
    script = (UpstreamAnswer("ready"), searches(1, text="let me look"), UpstreamAnswer(f"it is {FACT}", number=2))
    async with gateway_with(Upstream(answers=RecallingModel(*script)), tmp_path) as flow:
        session = Session(flow, wire)
        await session.until_offered()
        told = await ONCE[wire](session)
        assert FACT in told and "let me look" in told and "clew_" not in told
        assert is_offered(flow.upstream.calls[-1])


@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_is_kept_alive_while_the_reply_behind_a_recall_is_waited_for(tmp_path: Path, wire: str) -> None:
    never = StreamedAnswer(UpstreamAnswer("never written", number=2), stall_after=0)
    script = (UpstreamAnswer("ready"), searches(1, text="let me look"), never)
    ping = b"event: ping" if wire == "messages" else b": keep-alive"
    async with gateway_with(Upstream(answers=RecallingModel(*script)), tmp_path, ping_seconds=0.02) as flow:
        session = Session(flow, wire)
        await session.until_offered()
        before, pings = len(flow.upstream.calls), 0
        async with session.stream() as content, asyncio.timeout(30):
            while pings < 3:
                more = await content.readany()
                assert more and b"clew_" not in more
                pings += more.count(ping) if len(flow.upstream.calls) == before + 2 else 0
        assert FACT in json.dumps(session.sent()), "it was recalled"
