"""A reply on the Responses wire, gathered from events or taken whole, as one message of ours.

The finished items are what counts; the deltas before them are for screens, and for what was there when a line broke.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from clew.messages import Message, Part, ToolCall, read_conversation
from clew.providers.base import Delta, FinishReason, Reply, Request
from clew.providers.loose import Growing, fields, items, place, text
from clew.providers.sse import SseEvent
from clew.providers.wire import ErrorInReply, Gathering, event_json, status_in
from clew.usage import normalize_usage

_ERROR_CODES = {
    "server_error": 500,
    "internal_error": 500,
    "rate_limit_exceeded": 429,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "authentication_error": 401,
}
_SHOWN = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
_INCOMPLETE: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "refusal"}
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})


class ResponsesGathering(Gathering):
    """The output of one response."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._items: dict[int, Mapping[str, Any]] = {}
        self._texts: dict[int, Growing] = {}
        """Of items that are not finished."""
        self._end: Mapping[str, Any] | None = None
        self._model = ""

    @property
    def is_complete(self) -> bool:
        return self._end is not None

    @property
    def is_over(self) -> bool:
        return self._end is not None

    def take(self, event: SseEvent) -> Iterator[Delta]:
        value = event_json(event)
        kind = str(value.get("type") or event.name)
        if kind == "error" or (value.get("error") and "response" not in value):
            error = value.get("error") if isinstance(value.get("error"), Mapping) else value
            raise ErrorInReply(status_in(error, _ERROR_CODES), event.data)
        if kind in _SHOWN:
            yield self._lengthen(kind, value)
        elif kind == "response.output_item.added":
            yield from self._begin(fields(value.get("item")))
        elif kind == "response.output_item.done":
            self._items[place(value.get("output_index"), len(self._items))] = fields(value.get("item"))
        elif kind in _ENDS:
            self._finish(fields(value.get("response")), event.data)
        elif kind == "response.created":
            self._model = text(fields(value.get("response")).get("model")) or self._model

    def take_whole(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        if body.get("error") and not body.get("status"):
            raise ErrorInReply(status_in(body["error"], _ERROR_CODES), json.dumps(body, ensure_ascii=False))
        self._finish(body, json.dumps(body, ensure_ascii=False))
        for item in self._items.values():
            yield from self._begin(item)
            for part in items(item.get("content")) if item.get("type") == "message" else ():
                if said := text(fields(part).get("text")):
                    yield Delta("text", said)

    def _begin(self, item: Mapping[str, Any]) -> Iterator[Delta]:
        kind = text(item.get("type"))
        if kind.endswith("_call"):
            yield Delta("call", text(item.get("name")) or kind.removesuffix("_call"))

    def _lengthen(self, kind: str, value: Mapping[str, Any]) -> Delta:
        piece = text(value.get("delta"))
        if _SHOWN[kind] == "reasoning":
            return Delta("reasoning", piece)
        self._texts.setdefault(place(value.get("output_index"), 0), Growing()).add(piece)
        return Delta("text", piece)

    def _finish(self, response: Mapping[str, Any], raw: str) -> None:
        self._model = text(response.get("model")) or self._model
        if response.get("status") in ("failed", "cancelled"):
            raise ErrorInReply(status_in(response.get("error"), _ERROR_CODES), raw)
        if listed := items(response.get("output")):
            self._items = {at: item for at, item in enumerate(listed) if isinstance(item, dict)}
        self._end = response

    def message(self) -> Message | None:
        whole = dict(self._items)
        for index, said in self._texts.items():
            if index not in whole and str(said):
                whole[index] = {"type": "message", "role": "assistant", "content": [_text_part(str(said))]}
        wire = [_without_nulls(item) for _, item in sorted(whole.items()) if isinstance(item.get("type"), str)]
        return _joined(read_conversation(wire, dialect="responses").messages) if wire else None

    def reply(self, request: Request) -> Reply:
        message: Message = self.message() or {"role": "assistant", "content": ""}
        end = self._end or {}
        usage = normalize_usage(end["usage"], self._provider, "responses") if end.get("usage") else None
        return Reply(message, usage, _finish_of(message, end), self._model or request.model)


def _finish_of(message: Message, end: Mapping[str, Any]) -> FinishReason:
    reason = text(fields(end.get("incomplete_details")).get("reason"))
    if reason:
        return _INCOMPLETE.get(reason, "other")
    if message.get("refusal"):
        return "refusal"
    return "tool_calls" if message.get("tool_calls") else "stop"


def _joined(messages: tuple[Message, ...]) -> Message:
    """All that was said, thought and called in one response, as one message."""
    said = [_content([part for part in _parts(message) if part.get("type") != "refusal"]) for message in messages]
    calls: list[ToolCall] = [call for message in messages for call in message.get("tool_calls") or ()]
    thought: list[Part] = [part for message in messages for part in message.get("reasoning") or ()]
    refusal = "".join(text(part.get("refusal")) for message in messages for part in _parts(message))
    joined: dict[str, Any] = {"role": "assistant", "content": _all_said([content for content in said if content])}
    if calls:
        joined["tool_calls"] = calls
    if thought:
        joined["reasoning"] = thought
    if refusal:
        joined["refusal"] = refusal
    return cast(Message, joined)


def _all_said(contents: list[str | list[Part]]) -> str | list[Part] | None:
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(cast("list[str]", contents)) or None
    return [part for content in contents for part in _as_parts(content)]


def _content(parts: list[Part]) -> str | list[Part]:
    if all(part.get("type") == "output_text" for part in parts):
        return "".join(text(part.get("text")) for part in parts)
    return parts


def _as_parts(content: str | list[Part]) -> list[Part]:
    return [_text_part(content)] if isinstance(content, str) else content


def _parts(message: Message) -> list[Part]:
    return [part for part in _as_parts(message.get("content") or []) if isinstance(part, dict)]


def _text_part(text: str) -> Part:
    return {"type": "output_text", "text": text}


def _without_nulls(item: Mapping[str, Any]) -> dict[str, Any]:
    """The wire writes fields as null that it refuses as null when they come back."""
    return {name: value for name, value in item.items() if value is not None}
