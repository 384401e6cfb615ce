"""A reply on the wire of chat completions, gathered from chunks or taken whole.

Keeps what servers add beside the standard (reasoning under its several names, signatures on calls) where they put it,
so that it can go back to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast
from uuid import uuid4

from clew.messages import Message
from clew.providers.base import Delta, FinishReason, Reply, Request
from clew.providers.loose import Growing, fields, items, place, settled, text
from clew.providers.sse import SseEvent
from clew.providers.wire import ErrorInReply, Gathering, event_json, status_in
from clew.usage import normalize_usage

_FINISHES: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}
_ERROR_TYPES = {
    "server_error": 500,
    "internal_server_error": 500,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "invalid_request_error": 400,
    "authentication_error": 401,
}
_REASONING_TEXTS = ("reasoning_content", "reasoning")


class ChatGathering(Gathering):
    """The first choice of a chat completion."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._fields: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._details: dict[int, dict[str, Any]] = {}
        self._finish = ""
        self._done = False
        self._usage: object = None
        self._model = ""

    @property
    def is_complete(self) -> bool:
        return bool(self._finish) or (self._done and self.message() is not None)

    @property
    def is_over(self) -> bool:
        return self._done

    def take(self, event: SseEvent) -> Iterator[Delta]:
        if event.data.strip() == "[DONE]":
            self._done = True
            return
        chunk = event_json(event)
        if event.name == "error" and "error" not in chunk:
            raise ErrorInReply(status_in(chunk, _ERROR_TYPES), event.data)
        yield from self._take_chunk(chunk, "delta", event.data)

    def take_whole(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        yield from self._take_chunk(body, "message", str(body))
        self._done = True

    def _take_chunk(self, chunk: Mapping[str, Any], field: str, raw: str) -> Iterator[Delta]:
        if chunk.get("error"):
            raise ErrorInReply(status_in(chunk["error"], _ERROR_TYPES), raw)
        self._model = text(chunk.get("model")) or self._model
        self._usage = chunk.get("usage") or fields(chunk.get("x_groq")).get("usage") or self._usage
        choice = fields(next(iter(items(chunk.get("choices"))), None))
        if choice.get("error"):
            raise ErrorInReply(status_in(choice["error"], _ERROR_TYPES), raw)
        yield from self._take_piece(fields(choice.get(field)))
        self._finish = text(choice.get("finish_reason")) or self._finish
        if self._finish == "error":
            raise ErrorInReply(None, raw)

    def _take_piece(self, piece: Mapping[str, Any]) -> Iterator[Delta]:
        has_shown_thought = False
        for name, value in piece.items():
            if value is None or value == "" or value == []:
                continue
            if name == "tool_calls" and isinstance(value, list):
                yield from self._take_calls(value)
            elif name == "reasoning_details" and isinstance(value, list):
                for at, detail in enumerate(value):
                    _merge(self._details, detail, at)
            elif name in ("content", "refusal", *_REASONING_TEXTS):
                self._add(name, value)
                if not isinstance(value, str) or (name in _REASONING_TEXTS and has_shown_thought):
                    continue  # some write one thought under two names
                has_shown_thought = has_shown_thought or name in _REASONING_TEXTS
                yield Delta("reasoning" if name in _REASONING_TEXTS else "text", value)
            elif name not in ("role", "function_call"):
                self._fields[name] = value

    def _take_calls(self, calls: list[Any]) -> Iterator[Delta]:
        for at, call in enumerate(calls):
            merged = _merge(self._calls, call, self._place_of(call, at))
            if merged is not None and not merged.get("_shown") and _name(merged):
                merged["_shown"] = True
                yield Delta("call", _name(merged))

    def _place_of(self, call: Any, at: int) -> int:
        """Servers that give no index send whole calls: a new id is a new call."""
        if not isinstance(call, Mapping) or isinstance(call.get("index"), int):
            return at
        if not call.get("id"):
            return max(self._calls, default=0)
        known = (place for place, former in self._calls.items() if former.get("id") == call["id"])
        return next(known, max(self._calls, default=-1) + 1)

    def _add(self, name: str, value: Any) -> None:
        before = self._fields.get(name)
        if isinstance(value, str) and isinstance(before, Growing):
            before.add(value)
        elif before is None:
            self._fields[name] = Growing(value) if isinstance(value, str) else value
        else:
            # Some write their thoughts as parts of a list, and the answer after them as text.
            self._fields[name] = _as_list(settled(before)) + _as_list(value)

    def message(self) -> Message | None:
        calls = [_finished(call) for _, call in sorted(self._calls.items())]
        if not calls and not self._fields and not self._details:
            return None
        gathered = settled(self._fields)
        message: dict[str, Any] = {"role": "assistant", "content": gathered.get("content")}
        if calls:
            message["tool_calls"] = calls
        if self._details:
            details = (settled(self._details[at]) for at in sorted(self._details))
            message["reasoning_details"] = [_without(detail, "index") for detail in details]
        return cast(Message, message | _without(gathered, "content"))

    def reply(self, request: Request) -> Reply:
        message = self.message() or {"role": "assistant", "content": ""}
        usage = normalize_usage(self._usage, self._provider, "openai_chat") if self._usage else None
        return Reply(message, usage, self._finished_as(message), self._model or request.model)

    def _finished_as(self, message: Message) -> FinishReason:
        if message.get("refusal"):
            return "refusal"
        finish = _FINISHES.get(self._finish or "stop", "other")
        return "tool_calls" if finish == "stop" and message.get("tool_calls") else finish


def _merge(known: dict[int, dict[str, Any]], piece: Any, at: int) -> dict[str, Any] | None:
    """A piece of a call or of a reasoning detail, added to what came of it: texts grow, the rest is set once."""
    if not isinstance(piece, Mapping):
        return None
    whole = known.setdefault(place(piece.get("index"), at), {})
    _grow(whole, piece)
    return whole


_GROWING = frozenset({"arguments", "input", "text", "summary", "data"})


def _grow(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for name, value in piece.items():
        before = whole.get(name)
        if isinstance(value, Mapping):
            whole[name] = before if isinstance(before, dict) else {}
            _grow(whole[name], value)
        elif name in _GROWING and isinstance(value, str):
            if isinstance(before, Growing):
                before.add(value)
            else:
                whole[name] = Growing(value)
        elif value is not None and (value != "" or before is None):
            whole[name] = value


def _finished(call: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(call.get("id"), str) or not call["id"]:
        call["id"] = f"call_{uuid4().hex[:24]}"  # a result must be able to name its call
    whole: dict[str, Any] = _without(settled(call), "index", "_shown")
    if isinstance(whole.get("custom"), dict):
        return {"type": "custom", **whole}
    function = fields(whole.get("function"))
    arguments = function.get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {**whole, "type": "function", "function": {**function, "name": _name(whole), "arguments": arguments}}


def _name(call: Mapping[str, Any]) -> str:
    return text(fields(call.get("function") or call.get("custom")).get("name"))


def _without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [{"type": "text", "text": value}]
