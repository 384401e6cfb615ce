"""The wire of Anthropic's Messages API: Anthropic itself, and servers that speak it.

The wire wants an output cap with every request. Blocks of a reply are kept as received, signatures included; the
dialect of `clew.messages` turns them into text, calls and reasoning.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from clew.messages import Message, convert, read_conversation
from clew.providers.base import Delta, FinishReason, Request
from clew.providers.http.connection import ConnectionFailed, SseEvent
from clew.providers.wires.http_provider import (
    ErrorInReply,
    GrowingText,
    HttpProvider,
    ReplyAccumulator,
    event_json,
    join_texts,
    json_index,
    json_list,
    json_object,
    json_text,
    status_in,
)
from clew.tokens import known_model

API_VERSION = "2023-06-01"
MAX_OUTPUT_TOKENS = 32_000
"""The output cap where none is given: long enough for a file, and models that allow less are in the table."""
_MARKER = "cache_control"


class AnthropicProvider(HttpProvider):
    """`POST {base_url}/v1/messages`; the base URL may end in /v1 or not."""

    default_base_url: ClassVar[str] = "https://api.anthropic.com"
    default_key_env: ClassVar[str] = "ANTHROPIC_API_KEY"
    default_key_header: ClassVar[str] = "x-api-key"

    def endpoint(self) -> str:
        return self._connection.url("/messages", version="/v1")

    def _all_headers(self) -> dict[str, str]:
        return {"anthropic-version": API_VERSION, **super()._all_headers()}

    def _models_url(self) -> str:
        return self._connection.url("/models", version="/v1", query="limit=1000")

    def accumulator(self) -> AnthropicReplyAccumulator:
        return AnthropicReplyAccumulator(self.name)

    def encode(self, request: Request, omit: frozenset[str]) -> dict[str, Any]:  # noqa: ARG002 (this wire has no optional fields)
        source = read_conversation(_lift_markers(request.messages), dialect="openai_chat", tools=request.tools)
        body = {"model": request.model, "max_tokens": request.max_tokens or _max_output_tokens(request.model)}
        body |= convert(source, "anthropic")
        if self._stream:
            body["stream"] = True
        return {**body, **request.extra}


def _max_output_tokens(model: str) -> int:
    known = known_model(model)
    return min(MAX_OUTPUT_TOKENS, known.max_output or MAX_OUTPUT_TOKENS) if known else MAX_OUTPUT_TOKENS


def _lift_markers(messages: Sequence[Message]) -> list[Message]:
    """Move a cache marker from a picture or file to its message: the conversion writes such parts anew."""
    return [_lift_marker(message) if isinstance(message.get("content"), list) else message for message in messages]


def _lift_marker(message: Message) -> Message:
    content: Any = message["content"]
    last = content[-1] if content else None
    if not isinstance(last, dict) or _MARKER not in last or last.get("type") == "text":
        return message
    bare = {name: value for name, value in last.items() if name != _MARKER}
    return cast(Message, {**message, "content": [*content[:-1], bare], _MARKER: last[_MARKER]})


# The field of a block that each kind of delta extends.
_DELTA_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class AnthropicReplyAccumulator(ReplyAccumulator):
    """Puts one assistant message together."""

    dialect = "anthropic"
    finishes: ClassVar[Mapping[str, FinishReason]] = {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "refusal": "refusal",
    }

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, list[str]] = {}
        self._closed: set[int] = set()
        self._usage: dict[str, Any] = {}

    def add_event(self, event: SseEvent) -> Iterator[Delta]:
        if self.is_at_end:
            return  # a second message in the stream answers nothing that was asked
        value = event_json(event)
        match value.get("type") or event.name:
            case "error":
                raise ErrorInReply(status_in(value.get("error")), event.data)
            case "message_start" if self._blocks:
                self._end_at_second_message()
            case "message_start":
                self._usage = {}
                self._add_head(json_object(value.get("message")))
            case "content_block_start":
                yield from self._begin_block(
                    json_index(value.get("index"), len(self._blocks)), json_object(value.get("content_block"))
                )
            case "content_block_delta":
                yield from self._extend_block(
                    json_index(value.get("index"), self._last_index()), json_object(value.get("delta"))
                )
            case "content_block_stop":
                self._closed.add(json_index(value.get("index"), self._last_index()))
            case "message_delta":
                self._finish = json_text(json_object(value.get("delta")).get("stop_reason")) or self._finish
                self._add_usage(value.get("usage"))
            case "message_stop":
                self.is_at_end = True
            case _ if value.get("error"):
                raise ErrorInReply(status_in(value["error"]), event.data)

    def add_body(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        if body.get("type") == "error" or body.get("error"):
            raise ErrorInReply(status_in(body.get("error")), json.dumps(body, ensure_ascii=False))
        self._add_head(body)
        for index, block in enumerate(json_list(body.get("content"))):
            yield from self._begin_block(index, json_object(block))
            self._closed.add(index)
        self._finish = json_text(body.get("stop_reason")) or self._finish

    def _end_at_second_message(self) -> None:
        """Another message must not be taken for more of this one."""
        if not self._finish:
            raise ConnectionFailed("another message began in the stream before the first had ended")
        self.is_at_end = True

    def _last_index(self) -> int:
        return max(self._blocks, default=0)

    def _add_head(self, head: Mapping[str, Any]) -> None:
        self._model = json_text(head.get("model")) or self._model
        self._add_usage(head.get("usage"))

    def _add_usage(self, usage: Any) -> None:
        # The end repeats some numbers of the start, corrected, and leaves others out.
        if isinstance(usage, Mapping):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _begin_block(self, index: int, block: Mapping[str, Any]) -> Iterator[Delta]:
        self._blocks[index] = dict(block)
        self.content_chars += 1
        match block.get("type"):
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                yield Delta("call", json_text(block.get("name")))
            case "text" if json_text(block.get("text")):
                yield Delta("text", block["text"])
            case "thinking" if json_text(block.get("thinking")):
                yield Delta("reasoning", block["thinking"])

    def _extend_block(self, index: int, delta: Mapping[str, Any]) -> Iterator[Delta]:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        kind = json_text(delta.get("type"))
        if kind == "input_json_delta":
            piece = json_text(delta.get("partial_json"))
            self._json.setdefault(index, []).append(piece)
            self.content_chars += len(piece)
        elif kind == "citations_delta":
            self.content_chars += 1
            block["citations"] = [*json_list(block.get("citations")), delta.get("citation")]
        elif kind in _DELTA_FIELDS:
            field = _DELTA_FIELDS[kind]
            piece = json_text(delta.get(field))
            if not isinstance(block.get(field), GrowingText):
                block[field] = GrowingText(json_text(block.get(field)))
            block[field].add(piece)
            self.content_chars += len(piece)
            if piece and field != "signature":
                yield Delta("reasoning" if field == "thinking" else "text", piece)

    def items(self) -> list[Any]:
        blocks = [block for index in sorted(self._blocks) if (block := self._block(index)) is not None]
        return [{"role": "assistant", "content": blocks}] if blocks else []

    def message(self) -> Message | None:
        wire = self.items()
        if not wire:
            return None
        message = read_conversation(wire, dialect="anthropic").messages[0]
        content = message.get("content")
        if isinstance(content, list) and len(content) == 1 and content[0].keys() == {"type", "text"}:
            return {**message, "content": content[0]["text"]}
        return message

    def _block(self, index: int) -> dict[str, Any] | None:
        """A block as it can be sent back; None for one that the wire would refuse."""
        block: dict[str, Any] = join_texts(self._blocks[index])
        if not isinstance(block.get("type"), str):
            return None
        if block["type"] == "thinking" and index not in self._closed:
            return None  # its signature is missing
        if block.get("type") == "text" and not json_text(block.get("text")).strip():
            return None
        arguments = "".join(self._json.get(index, ()))
        return {**block, "input": _parse_arguments(arguments)} if arguments else block


def _parse_arguments(text: str) -> Any:
    """The arguments of a call; under `unreadable_arguments` where they are no JSON object, for example cut off."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"unreadable_arguments": text}
    return value if isinstance(value, dict) else {"unreadable_arguments": value}
