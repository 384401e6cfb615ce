"""Clients of a gateway for tests: agents that send their whole history with each request, as real ones do.

An agent's turns go on by themselves: a call of a tool is answered with a result, a text with the next question.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, ClassVar

import aiohttp

from clew.gateway.aws import FrameReader

FAKE_KEY = "fake-key-of-a-test"
_WORDS = "many words that a question or a result goes on with "
_REPEATED = 30


class GatewayClient(ABC):
    """An agent with one conversation. It keeps its history in the spelling of its wire."""

    path: str
    streamed_path: ClassVar[str] = ""
    """Where streams are asked for on a path of their own."""
    field: ClassVar[str] = "messages"

    def __init__(
        self,
        model: str,
        *,
        stream: bool,
        name: str = "",
        credential: str = FAKE_KEY,
        repeated: int = _REPEATED,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        """`repeated` times some words stand in each question and result; `fields` are further ones of its requests."""
        self.model = model
        self._words = _WORDS * repeated
        self._fields = fields or {}
        self.stream = stream
        self.name = name
        """Stands in each of its questions, and tells conversations apart."""
        self.mark = ""
        """Stands before the next question or result."""
        self.path = ((stream and self.streamed_path) or self.path).format(model=model)
        self.history: list[dict[str, Any]] = []
        self.usage: list[Mapping[str, Any]] = []
        """As it was told with each reply that was not streamed."""
        self._turns = 0
        # Each request over a connection of its own: any process of a gateway may take it.
        connector = aiohttp.TCPConnector(force_close=True)
        self._http = aiohttp.ClientSession(
            connector=connector,
            headers={"Authorization": f"Bearer {credential}"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),  # a busy machine is no fault of the gateway
        )

    async def __aenter__(self) -> GatewayClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def turn(self, root: str) -> None:
        """One request to a gateway: a result where the last answer called a tool, else the next question."""
        self.add_question()
        self.history += await self.ask(root)

    def add_question(self) -> None:
        """Put behind the history what the next request asks."""
        self.history += self._next()
        self._turns += 1

    async def count(self, root: str) -> None:
        """Let a gateway count the history, on a wire that has a path for it."""
        body = {name: value for name, value in self.body().items() if name in ("model", self.field)}
        async with self._http.post(f"{root}{self.path}/count_tokens", json=body) as response:
            await response.read()

    def pretend(self, turns: int) -> None:
        """Fill the history as if so many questions had been asked already, and ask another one."""
        for number in range(turns):
            words = f"question {self.name}{number}: {self._words}"
            said = [{"role": "user", "content": words}, {"role": "assistant", "content": f"answer {number}"}]
            self.history += said if number + 1 < turns else said[:1]
        self._turns = turns

    def _next(self) -> list[dict[str, Any]]:
        called = self.open_call()
        kind = "question" if called is None else "result"
        text = f"{self.mark}{kind} {self.name}{self._turns}: {self._words}"
        return [self.question(text) if called is None else self.result(called, text)]

    async def ask(self, root: str) -> list[dict[str, Any]]:
        """Send the history as it is; the items of the reply."""
        async with self._http.post(root + self.path, json=self.body()) as response:
            raw = await response.read()
            if response.status != 200:
                raise AssertionError(f"{response.status}: {raw.decode()[:500]}")
        if self.stream:
            return self.read_stream(self.events(raw))
        body = json.loads(raw)
        self.usage.append(body.get("usage") or {})
        return self.read_body(body)

    def body(self) -> dict[str, Any]:
        return {"model": self.model, self.field: self.history, "stream": self.stream, **self._fields}

    def events(self, raw: bytes) -> list[dict[str, Any]]:
        """The events of a whole stream."""
        return events_of(raw)

    def question(self, text: str) -> dict[str, Any]:
        """A question as this wire spells it."""
        return {"role": "user", "content": text}

    @abstractmethod
    def open_call(self) -> str | None:
        """The id of a call in the last answer; None where there is none."""

    @abstractmethod
    def result(self, called: str, text: str) -> dict[str, Any]:
        """A result as this wire spells it."""

    @abstractmethod
    def read_body(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The items of a reply."""

    @abstractmethod
    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The items of a reply that was streamed."""


class ChatClient(GatewayClient):
    """Chat completions. Sends no reasoning back, as most programs do."""

    path = "/v1/chat/completions"

    def body(self) -> dict[str, Any]:
        return {**super().body(), **({"stream_options": {"include_usage": True}} if self.stream else {})}

    def open_call(self) -> str | None:
        calls = self.history[-1].get("tool_calls") if self.history else None
        return calls[0]["id"] if calls else None

    def result(self, called: str, text: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": called, "content": text}

    def read_body(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        message = body["choices"][0]["message"]
        kept = {name: message[name] for name in ("role", "content", "tool_calls") if message.get(name)}
        return [kept]

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        text, calls = "", list[dict[str, Any]]()
        for event in events:
            for choice in event["choices"]:
                text += choice["delta"].get("content") or ""
                for piece in choice["delta"].get("tool_calls") or ():
                    if piece.get("id"):
                        calls.append({"id": piece["id"], "type": "function", "function": {**piece["function"]}})
                    else:
                        calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
        return [{"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}]


class MessagesClient(GatewayClient):
    """Anthropic's Messages. Marks its newest messages for the cache, so that markers move with each request."""

    path = "/v1/messages"
    marks = 2
    """How many of its newest messages it marks."""

    def body(self) -> dict[str, Any]:
        settled = len(self.history) - self.marks
        marked = [_marked(item) if at >= settled else item for at, item in enumerate(self.history)]
        return {**super().body(), self.field: marked, "max_tokens": self._fields.get("max_tokens", 500)}

    def open_call(self) -> str | None:
        content = self.history[-1]["content"] if self.history else ""
        calls = [block["id"] for block in content if isinstance(block, dict) and block["type"] == "tool_use"]
        return calls[0] if calls else None

    def result(self, called: str, text: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": called, "content": text}]}

    def read_body(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{"role": "assistant", "content": body["content"]}]

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        blocks = list[dict[str, Any]]()
        for event in events:
            if event["type"] == "content_block_start":
                blocks.append({**event["content_block"]})
            elif event["type"] == "content_block_delta":
                for name in ("text", "thinking", "signature", "partial_json"):
                    if name in event["delta"]:
                        blocks[-1][name] = blocks[-1].get(name, "") + event["delta"][name]
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(block.pop("partial_json") or "{}")
        return [{"role": "assistant", "content": blocks}]


class ResponsesClient(GatewayClient):
    """Responses. Keeps its history itself, and sends items back without the ids that the provider gave them."""

    path = "/v1/responses"
    field = "input"

    def open_call(self) -> str | None:
        last = self.history[-1] if self.history else {}
        return last["call_id"] if last.get("type") == "function_call" else None

    def result(self, called: str, text: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": called, "output": text}

    def read_body(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [{name: value for name, value in item.items() if name != "id"} for item in body["output"]]

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return self.read_body(events[-1]["response"])


class GeminiClient(GatewayClient):
    """Gemini's own wire, at Google or on Vertex AI."""

    path = "/v1beta/models/{model}:generateContent"
    streamed_path = "/v1beta/models/{model}:streamGenerateContent?alt=sse"
    field = "contents"

    def body(self) -> dict[str, Any]:
        return {self.field: self.history, **self._fields}

    def question(self, text: str) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": text}]}

    def open_call(self) -> str | None:
        parts = self.history[-1]["parts"] if self.history else ()
        return next((part["functionCall"]["name"] for part in parts if "functionCall" in part), None)

    def result(self, called: str, text: str) -> dict[str, Any]:
        return {"role": "user", "parts": [{"functionResponse": {"name": called, "response": {"output": text}}}]}

    def read_body(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [body["candidates"][0]["content"]]

    def read_stream(self, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        parts = [part for event in events for part in event["candidates"][0]["content"].get("parts") or ()]
        return [{"role": "model", "parts": parts}]


class AzureClient(ChatClient):
    """Chat completions at Azure OpenAI, by a deployment."""

    path = "/openai/deployments/{model}/chat/completions?api-version=2025-04-01-preview"


class VertexClient(MessagesClient):
    """Claude on Vertex AI: the model is in the path."""

    path = "/v1/projects/p/locations/l/publishers/anthropic/models/{model}:rawPredict"
    streamed_path = "/v1/projects/p/locations/l/publishers/anthropic/models/{model}:streamRawPredict"

    def body(self) -> dict[str, Any]:
        return {"anthropic_version": "vertex-2023-10-16", **_without(super().body(), "model")}


class BedrockClient(MessagesClient):
    """Claude on Amazon Bedrock: the model is in the path, and streams are binary frames."""

    path = "/model/{model}/invoke"
    streamed_path = "/model/{model}/invoke-with-response-stream"

    def body(self) -> dict[str, Any]:
        return {"anthropic_version": "bedrock-2023-05-31", **_without(super().body(), "model", "stream")}

    def events(self, raw: bytes) -> list[dict[str, Any]]:
        return [json.loads(frame.event) for frame, _ in FrameReader().frames(raw) if frame.event]


CLIENTS: dict[str, type[GatewayClient]] = {
    "chat": ChatClient,
    "messages": MessagesClient,
    "responses": ResponsesClient,
}
CLOUD_CLIENTS: dict[str, type[GatewayClient]] = {
    "gemini": GeminiClient,
    "azure": AzureClient,
    "vertex": VertexClient,
    "bedrock": BedrockClient,
}


def _without(body: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in names}


def _marked(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]}


def events_of(raw: bytes) -> list[dict[str, Any]]:
    """The JSON events of a whole stream."""
    lines = (line[5:].strip() for line in raw.decode().splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line != "[DONE]"]


# -- what an upstream must see -----------------------------------------------------------------------------------------


def find_folds(requests: Sequence[Sequence[Any]]) -> list[int]:
    """The numbers of the requests of one conversation that do not begin with the request before: its folds.

    Cache markers do not count. `AssertionError` where such a request is not shorter, so that a prefix moved for
    nothing, or where a call and its result do not stand together.
    """
    folds: list[int] = []
    for number, request in enumerate(requests):
        check_pairs(request)
        if number == 0:
            continue
        before = requests[number - 1]
        if _unmarked(request[: len(before)]) == _unmarked(before):
            continue
        assert len(json.dumps(request)) < len(json.dumps(before)), f"request {number} moves the prefix and is no fold"
        folds.append(number)
    return folds


def check_pairs(items: Sequence[Any]) -> None:
    """Each result answers a call before it, and each call has its result; on any of the wires."""
    calls, results = list[str](), list[str]()
    for piece in (piece for item in items for piece in _pieces(item)):
        kind = piece.get("type")
        if kind in ("tool_use", "function") and "id" in piece:
            calls.append(piece["id"])
        elif kind == "function_call":
            calls.append(piece["call_id"])
        elif kind == "tool_result":
            results.append(piece["tool_use_id"])
        elif kind == "function_call_output":
            results.append(piece["call_id"])
        elif piece.get("role") == "tool":
            results.append(piece["tool_call_id"])
    assert calls == results, f"calls {calls} and results {results} are no pairs"


def _pieces(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = item.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return [item, *blocks, *(item.get("tool_calls") or ())]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        plain = {name: _unmarked(inner) for name, inner in value.items() if name != "cache_control"}
        content = plain.get("content")
        if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
            plain["content"] = content[0]["text"]
        return plain
    return [_unmarked(inner) for inner in value] if isinstance(value, list) else value
