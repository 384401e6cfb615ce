"""The wire of OpenAI chat completions: OpenAI itself, and the many servers that speak it.

A request takes messages that may have been written on any wire; what is plain already passes as the same object. A
reply keeps what servers add beside the standard (reasoning under its several names, signatures on calls) where they
put it, so that it can go back to them. Fields that a server refuses by name are left out of later requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast
from uuid import uuid4

from clew.messages import (
    Message,
    ParsedConversation,
    Part,
    ToolCall,
    arguments_of_call,
    convert,
    convert_tools,
    name_of_call,
    repair,
)
from clew.providers.base import Delta, FinishReason, Request
from clew.providers.http.connection import SseEvent
from clew.providers.wires.http_provider import (
    ErrorInReply,
    GrowingText,
    HttpProvider,
    OptionalField,
    ReplyAccumulator,
    event_json,
    join_texts,
    json_index,
    json_list,
    json_object,
    json_text,
    refusal_pattern,
    status_in,
)

REASONING_FIELDS = ("reasoning_content", "reasoning_details", "reasoning")
"""Every field under which a server of this wire gives reasoning."""


class OpenAIChatProvider(HttpProvider):
    """`POST {base_url}/chat/completions`."""

    default_base_url: ClassVar[str] = "https://api.openai.com/v1"
    default_key_env: ClassVar[str] = "OPENAI_API_KEY"
    optional_fields: ClassVar[tuple[OptionalField, ...]] = (
        OptionalField("stream_options", refusal_pattern("stream_options|include_usage")),
        OptionalField("prompt_cache_key", refusal_pattern("prompt_cache_key")),
        # Some servers refuse in a history what they wrote themselves; their names do not show which.
        *(OptionalField(field, refusal_pattern(rf"\b{field}\b")) for field in REASONING_FIELDS),
        # Two names for one thing; newer models of OpenAI refuse the old one, most other servers know it alone.
        OptionalField("max_completion_tokens", refusal_pattern("max_completion_tokens")),
        OptionalField("max_tokens", re.compile(r"(?i)max_tokens[^.]{0,40}not supported|use '?max_completion_tokens")),
    )

    def __init__(
        self,
        base_url: str | None = None,
        *,
        reasoning_fields: Collection[str] | None = None,
        **options: Any,
    ) -> None:
        """`reasoning_fields`: those that the server wants back in the history; by default none for OpenAI, else all."""
        super().__init__(base_url, **options)
        host = self._connection.host
        self._is_openai = host == "api.openai.com" or host.endswith(".openai.azure.com")
        self._reasoning_fields = (
            reasoning_fields if reasoning_fields is not None else () if self._is_openai else REASONING_FIELDS
        )

    def endpoint(self) -> str:
        return self._connection.url("/chat/completions")

    def accumulator(self) -> ChatReplyAccumulator:
        return ChatReplyAccumulator(self.name)

    def encode(self, request: Request, omit: frozenset[str]) -> dict[str, Any]:
        messages = repair(request.messages, open_end=True).messages
        reasoning_fields = [field for field in self._reasoning_fields if field not in omit]
        body: dict[str, Any] = {"model": request.model, "messages": encode_messages(messages, reasoning_fields)}
        if request.tools:
            body["tools"] = convert_tools(request.tools, "openai_chat")
        if request.max_tokens is not None:
            body[self._cap_field(omit)] = request.max_tokens
        if request.cache_key and "prompt_cache_key" not in omit:
            body["prompt_cache_key"] = request.cache_key
        if self._stream:
            body["stream"] = True
            if "stream_options" not in omit:
                body["stream_options"] = {"include_usage": True}
        return {**body, **request.extra}

    def _cap_field(self, omit: frozenset[str]) -> str:
        if self._is_openai:
            return "max_completion_tokens" if "max_completion_tokens" not in omit else "max_tokens"
        return "max_tokens" if "max_tokens" not in omit else "max_completion_tokens"


_MARKER = "cache_control"
_NATIVE_PARTS = frozenset({"text", "image_url", "file", "input_audio", "refusal"})
_NATIVE_CALLS = frozenset({None, "function", "custom"})
_PLAIN_FIELDS = frozenset({"role", "content", "tool_call_id", "name"})
_INTERNAL_FIELDS = frozenset({"is_error", _MARKER, "annotations"})
"""Fields of a message that this wire does not have, or does not take back."""


def encode_messages(messages: Sequence[Message], reasoning_fields: Collection[str]) -> list[Message]:
    """The messages as this wire takes them; of reasoning, only `reasoning_fields` are sent.

    Fields of our own are taken off, cache markers are inside content parts, pictures of results follow them in a user
    message, and calls of other wires become functions.
    """
    encoded: list[Any] = []
    pictures: list[Part] = []
    for message in messages:
        if message["role"] != "tool" and pictures:
            encoded.append({"role": "user", "content": pictures})
            pictures = []
        one = _encode_message(message, reasoning_fields)
        if message["role"] == "tool" and isinstance(one.get("content"), list):
            one, removed = _without_pictures(one)
            pictures = pictures + removed
        encoded.append(one)
    return [*encoded, {"role": "user", "content": pictures}] if pictures else encoded


def _encode_message(message: Any, reasoning_fields: Collection[str]) -> dict[str, Any]:
    if message.keys() <= _PLAIN_FIELDS and not isinstance(message.get("content"), list):
        return message  # type: ignore[no-any-return]
    fields: dict[str, Any] = dict(message)
    for name in message:
        if name in _INTERNAL_FIELDS or (
            name in REASONING_FIELDS and not _is_sent_back(name, fields[name], reasoning_fields)
        ):
            del fields[name]
    content = message.get("content")
    if isinstance(content, list) and any(_is_foreign(part) for part in content):
        fields["content"] = [native for part in content for native in _native_parts(part)]
    if _MARKER in message and fields.get("content"):
        fields["content"] = _marked(fields["content"], message[_MARKER])
    calls = message.get("tool_calls")
    if calls and any(call.get("type") not in _NATIVE_CALLS for call in calls):
        fields["tool_calls"] = [_native_call(call) for call in calls]
    return fields


def _is_sent_back(name: str, value: Any, reasoning_fields: Collection[str]) -> bool:
    # Under `reasoning` this wire has a text, and other wires of ours a list of signed blocks.
    return name in reasoning_fields and not (name == "reasoning" and isinstance(value, list))


def _is_foreign(part: Any) -> bool:
    return not isinstance(part, dict) or (isinstance(part.get("type"), str) and part["type"] not in _NATIVE_PARTS)


def _native_parts(part: Any) -> list[Part]:
    if not _is_foreign(part):
        return [part]
    request = convert(ParsedConversation("anthropic", ({"role": "user", "content": [part]},)), "openai_chat")
    content = request["messages"][0]["content"] if request["messages"] else ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
    marker = part.get(_MARKER) if isinstance(part, dict) else None
    return _marked(parts, marker) if marker and parts else parts


def _marked(content: Any, marker: Any) -> list[Part]:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    return [*parts[:-1], {**parts[-1], _MARKER: marker}]


def _without_pictures(message: dict[str, Any]) -> tuple[dict[str, Any], list[Part]]:
    """A tool result as text alone, which is all that this wire takes there, and its pictures."""
    pictures = [part for part in message["content"] if part.get("type") in ("image_url", "file")]
    if not pictures:
        return message, []
    texts = [part for part in message["content"] if part.get("type") not in ("image_url", "file")]
    marker = next((part[_MARKER] for part in pictures if part.get(_MARKER)), None)
    parts = texts or [{"type": "text", "text": "[the picture follows]"}]
    content: Any = _marked(parts, marker) if marker else parts
    bare = [{name: value for name, value in part.items() if name != _MARKER} for part in pictures]
    return {**message, "content": content}, bare


def _native_call(call: ToolCall) -> ToolCall:
    if call.get("type") in _NATIVE_CALLS:
        return call
    function = call.get("function")
    arguments = function["arguments"] if function else ""
    if not isinstance(arguments, str) or not arguments:
        arguments = json.dumps(arguments_of_call(call), ensure_ascii=False)
    return {"id": call["id"], "type": "function", "function": {"name": name_of_call(call), "arguments": arguments}}


_REASONING_TEXTS = ("reasoning_content", "reasoning")
_CONTENT_FIELDS = frozenset({"content", "refusal", "tool_calls", "reasoning_details", *_REASONING_TEXTS})
_TEXT_FIELDS = frozenset({"arguments", "input", "text", "summary", "data"})
"""Fields of calls and reasoning details that arrive in pieces."""


class ChatReplyAccumulator(ReplyAccumulator):
    """Puts the first choice of a chat completion together."""

    dialect = "openai_chat"
    finishes: ClassVar[Mapping[str, FinishReason]] = {
        "stop": "stop",
        "eos": "stop",
        "length": "length",
        "max_tokens": "length",
        "tool_calls": "tool_calls",
        "function_call": "tool_calls",
        "content_filter": "refusal",
    }

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._fields: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._details: dict[int, dict[str, Any]] = {}

    @property
    def is_complete(self) -> bool:
        return bool(self._finish) or (self.is_at_end and self.message() is not None)

    def add_event(self, event: SseEvent) -> Iterator[Delta]:
        if event.data.strip() == "[DONE]":
            self.is_at_end = True
            return
        chunk = event_json(event)
        if event.name == "error" and "error" not in chunk:
            raise ErrorInReply(status_in(chunk), event.data)
        yield from self._add_chunk(chunk, "delta", event.data)

    def add_body(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        yield from self._add_chunk(body, "message", str(body))
        self.is_at_end = True

    def _add_chunk(self, chunk: Mapping[str, Any], field: str, raw: str) -> Iterator[Delta]:
        if chunk.get("error"):
            raise ErrorInReply(status_in(chunk["error"]), raw)
        self._model = json_text(chunk.get("model")) or self._model
        self._usage = chunk.get("usage") or json_object(chunk.get("x_groq")).get("usage") or self._usage
        choice = json_object(next(iter(json_list(chunk.get("choices"))), None))
        if choice.get("error"):
            raise ErrorInReply(status_in(choice["error"]), raw)
        yield from self._add_delta(json_object(choice.get(field)))
        self._finish = json_text(choice.get("finish_reason")) or self._finish
        if self._finish == "error":
            raise ErrorInReply(None, raw)

    def _add_delta(self, piece: Mapping[str, Any]) -> Iterator[Delta]:
        has_shown_reasoning = False
        for name, value in piece.items():
            if value is None or value == "" or value == []:
                continue
            if name in _CONTENT_FIELDS:
                self.content_chars += len(value) if isinstance(value, str) else 1
            if name == "tool_calls" and isinstance(value, list):
                yield from self._add_calls(value)
            elif name == "reasoning_details" and isinstance(value, list):
                for at, detail in enumerate(value):
                    _merge(self._details, detail, at)
            elif name in ("content", "refusal", *_REASONING_TEXTS):
                self._add_field(name, value)
                if not isinstance(value, str) or (name in _REASONING_TEXTS and has_shown_reasoning):
                    continue  # some send the same reasoning under two names
                has_shown_reasoning = has_shown_reasoning or name in _REASONING_TEXTS
                yield Delta("reasoning" if name in _REASONING_TEXTS else "text", value)
            elif name not in ("role", "function_call"):
                self._fields[name] = value

    def _add_calls(self, calls: list[Any]) -> Iterator[Delta]:
        for at, call in enumerate(calls):
            merged = _merge(self._calls, call, self._index_of(call, at))
            if merged is not None and not merged.get("_shown") and _call_name(merged):
                merged["_shown"] = True
                yield Delta("call", _call_name(merged))

    def _index_of(self, call: Any, at: int) -> int:
        """Servers that give no index send whole calls: a new id is a new call."""
        if not isinstance(call, Mapping) or isinstance(call.get("index"), int):
            return at
        if not call.get("id"):
            return max(self._calls, default=0)
        same = (index for index, former in self._calls.items() if former.get("id") == call["id"])
        return next(same, max(self._calls, default=-1) + 1)

    def _add_field(self, name: str, value: Any) -> None:
        before = self._fields.get(name)
        if isinstance(value, str) and isinstance(before, GrowingText):
            before.add(value)
        elif before is None:
            self._fields[name] = GrowingText(value) if isinstance(value, str) else value
        else:
            # Some send reasoning as a list of parts, and the answer after it as text.
            self._fields[name] = _as_list(join_texts(before)) + _as_list(value)

    def message(self) -> Message | None:
        calls = [_complete_call(call) for _, call in sorted(self._calls.items())]
        if not calls and not self._fields and not self._details:
            return None
        fields = join_texts(self._fields)
        message: dict[str, Any] = {"role": "assistant", "content": fields.get("content")}
        if calls:
            message["tool_calls"] = calls
        if self._details:
            details = (join_texts(self._details[at]) for at in sorted(self._details))
            message["reasoning_details"] = [_without(detail, "index") for detail in details]
        return cast(Message, message | _without(fields, "content"))

    def items(self) -> list[Any]:
        message = self.message()
        return [] if message is None else [message]

    def finish_reason(self, message: Message) -> FinishReason:
        return "refusal" if message.get("refusal") else super().finish_reason(message)


def _merge(by_index: dict[int, dict[str, Any]], piece: Any, at: int) -> dict[str, Any] | None:
    """Add a piece of a call or of a reasoning detail to what preceded: texts grow, other fields are set."""
    if not isinstance(piece, Mapping):
        return None
    merged = by_index.setdefault(json_index(piece.get("index"), at), {})
    _extend(merged, piece)
    return merged


def _extend(merged: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for name, value in piece.items():
        before = merged.get(name)
        if isinstance(value, Mapping):
            merged[name] = before if isinstance(before, dict) else {}
            _extend(merged[name], value)
        elif name in _TEXT_FIELDS and isinstance(value, str):
            if isinstance(before, GrowingText):
                before.add(value)
            else:
                merged[name] = GrowingText(value)
        elif value is not None and (value != "" or before is None):
            merged[name] = value


def _complete_call(call: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(call.get("id"), str) or not call["id"]:
        call["id"] = f"call_{uuid4().hex[:24]}"  # a result must be able to name its call
    complete: dict[str, Any] = _without(join_texts(call), "index", "_shown")
    if isinstance(complete.get("custom"), dict):
        return {"type": "custom", **complete}
    function = json_object(complete.get("function"))
    arguments = function.get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    function = {**function, "name": _call_name(complete), "arguments": arguments}
    return {**complete, "type": "function", "function": function}


def _call_name(call: Mapping[str, Any]) -> str:
    return json_text(json_object(call.get("function") or call.get("custom")).get("name"))


def _without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [{"type": "text", "text": value}]
