"""The wire of OpenAI's Responses API.

Nothing is kept on the server: reasoning comes encrypted, stays in the history, and goes back with it. A reply is made
of its finished items; the deltas before them are shown as they arrive, and are what is left where the stream breaks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from clew.messages import Message, Part, ToolCall, convert, read_conversation
from clew.providers.base import Delta, FinishReason, Request
from clew.providers.http.connection import SseEvent
from clew.providers.wires.http_provider import (
    ErrorInReply,
    GrowingText,
    HttpProvider,
    OptionalField,
    ReplyAccumulator,
    event_json,
    json_index,
    json_list,
    json_object,
    json_text,
    refusal_pattern,
    status_in,
)

ENCRYPTED = "reasoning.encrypted_content"


class ResponsesProvider(HttpProvider):
    """`POST {base_url}/responses`."""

    default_base_url: ClassVar[str] = "https://api.openai.com/v1"
    default_key_env: ClassVar[str] = "OPENAI_API_KEY"
    optional_fields: ClassVar[tuple[OptionalField, ...]] = (
        # Models that do not reason refuse it.
        OptionalField("include", refusal_pattern(r"include|encrypted[_ ]content")),
        OptionalField("prompt_cache_key", refusal_pattern("prompt_cache_key")),
        OptionalField("store", refusal_pattern(r"\bstore\b")),
    )

    def endpoint(self) -> str:
        return self._connection.url("/responses")

    def accumulator(self) -> ResponsesReplyAccumulator:
        return ResponsesReplyAccumulator(self.name)

    def encode(self, request: Request, omit: frozenset[str]) -> dict[str, Any]:
        source = read_conversation(request.messages, dialect="openai_chat", tools=request.tools)
        body: dict[str, Any] = {"model": request.model, **convert(source, "responses")}
        if request.max_tokens is not None:
            body["max_output_tokens"] = request.max_tokens
        if request.cache_key:
            body["prompt_cache_key"] = request.cache_key
        body["store"] = False
        body["include"] = [ENCRYPTED]
        body = {name: value for name, value in body.items() if name not in omit}
        if self._stream:
            body["stream"] = True
        body |= request.extra
        if body.get("store") is not True:
            body["input"] = [item for item in body["input"] if not _is_bare_reasoning(item)]
        return body


def _is_bare_reasoning(item: dict[str, Any]) -> bool:
    """Whether this is a reasoning item without its content: the server, which kept nothing, would not find it."""
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


_DELTA_KINDS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_END_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})


class ResponsesReplyAccumulator(ReplyAccumulator):
    """Puts the output of one response together."""

    dialect = "responses"
    finishes: ClassVar[Mapping[str, FinishReason]] = {"max_output_tokens": "length", "content_filter": "refusal"}

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._items: dict[int, Mapping[str, Any]] = {}
        self._texts: dict[int, GrowingText] = {}
        """The text so far of items that are not finished."""

    def add_event(self, event: SseEvent) -> Iterator[Delta]:
        if self.is_at_end:
            return  # a second response in the stream answers nothing that was asked
        value = event_json(event)
        kind = str(value.get("type") or event.name)
        if kind == "error" or (value.get("error") and "response" not in value):
            error = value.get("error") if isinstance(value.get("error"), Mapping) else value
            raise ErrorInReply(status_in(error), event.data)
        if kind.endswith(".delta"):
            self.content_chars += len(json_text(value.get("delta")))
        elif kind.startswith("response.output_item."):
            self.content_chars += 1
        if kind in _DELTA_KINDS:
            yield self._add_text(kind, value)
        elif kind == "response.output_item.added":
            yield from self._announce(json_object(value.get("item")))
        elif kind == "response.output_item.done":
            self._items[json_index(value.get("output_index"), len(self._items))] = json_object(value.get("item"))
        elif kind in _END_EVENTS:
            self._end(json_object(value.get("response")), event.data)
        elif kind == "response.created":
            self._model = json_text(json_object(value.get("response")).get("model")) or self._model

    def add_body(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        if body.get("error") and not body.get("status"):
            raise ErrorInReply(status_in(body["error"]), json.dumps(body, ensure_ascii=False))
        self._end(body, json.dumps(body, ensure_ascii=False))
        for item in self._items.values():
            yield from self._announce(item)
            for part in json_list(item.get("content")) if item.get("type") == "message" else ():
                if text := json_text(json_object(part).get("text")):
                    yield Delta("text", text)

    def _announce(self, item: Mapping[str, Any]) -> Iterator[Delta]:
        kind = json_text(item.get("type"))
        if kind.endswith("_call"):
            yield Delta("call", json_text(item.get("name")) or kind.removesuffix("_call"))

    def _add_text(self, kind: str, value: Mapping[str, Any]) -> Delta:
        piece = json_text(value.get("delta"))
        if _DELTA_KINDS[kind] == "reasoning":
            return Delta("reasoning", piece)
        self._texts.setdefault(json_index(value.get("output_index"), 0), GrowingText()).add(piece)
        return Delta("text", piece)

    def _end(self, response: Mapping[str, Any], raw: str) -> None:
        self._model = json_text(response.get("model")) or self._model
        if response.get("status") in ("failed", "cancelled"):
            raise ErrorInReply(status_in(response.get("error")), raw)
        if listed := json_list(response.get("output")):
            self._items = {at: item for at, item in enumerate(listed) if isinstance(item, dict)}
        self._usage = response.get("usage")
        self._finish = json_text(json_object(response.get("incomplete_details")).get("reason"))
        self.is_at_end = True

    def items(self) -> list[Any]:
        items = dict(self._items)
        for index, text in self._texts.items():
            if index not in items and str(text):
                items[index] = {"type": "message", "role": "assistant", "content": [_text_part(str(text))]}
        return [_sent_back(item) for _, item in sorted(items.items()) if isinstance(item.get("type"), str)]

    def message(self) -> Message | None:
        wire = self.items()
        return _join_messages(read_conversation(wire, dialect="responses").messages) if wire else None

    def finish_reason(self, message: Message) -> FinishReason:
        return "refusal" if message.get("refusal") and not self._finish else super().finish_reason(message)


def _join_messages(messages: tuple[Message, ...]) -> Message:
    """All text, reasoning and calls of one response as one message."""
    contents = [_content([part for part in _parts(message) if part.get("type") != "refusal"]) for message in messages]
    calls: list[ToolCall] = [call for message in messages for call in message.get("tool_calls") or ()]
    reasoning: list[Part] = [part for message in messages for part in message.get("reasoning") or ()]
    refusal = "".join(json_text(part.get("refusal")) for message in messages for part in _parts(message))
    joined: dict[str, Any] = {
        "role": "assistant",
        "content": _join_contents([content for content in contents if content]),
    }
    if calls:
        joined["tool_calls"] = calls
    if reasoning:
        joined["reasoning"] = reasoning
    if refusal:
        joined["refusal"] = refusal
    return cast(Message, joined)


def _join_contents(contents: list[str | list[Part]]) -> str | list[Part] | None:
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(cast("list[str]", contents)) or None
    return [part for content in contents for part in _as_parts(content)]


def _content(parts: list[Part]) -> str | list[Part]:
    if all(part.get("type") == "output_text" for part in parts):
        return "".join(json_text(part.get("text")) for part in parts)
    return parts


def _as_parts(content: str | list[Part]) -> list[Part]:
    return [_text_part(content)] if isinstance(content, str) else content


def _parts(message: Message) -> list[Part]:
    content = message.get("content")
    return [part for part in _as_parts(content) if isinstance(part, dict)] if isinstance(content, str | list) else []


def _text_part(text: str) -> Part:
    return {"type": "output_text", "text": text}


def _sent_back(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item as clients that keep their own history send it back.

    Null fields are left out, since the wire refuses them in requests; a text has no id, no status and no empty lists.
    """
    sent = {name: value for name, value in item.items() if value is not None}
    if sent.get("type") != "message":
        return sent
    sent["content"] = [_without_empty(part) for part in json_list(sent.get("content"))]
    return {name: value for name, value in sent.items() if name not in ("id", "status")}


def _without_empty(part: Any) -> Any:
    return {name: value for name, value in part.items() if value not in (None, [])} if isinstance(part, dict) else part
