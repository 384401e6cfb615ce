"""A reply on Anthropic's wire, gathered from events or taken whole, as a message of ours.

Blocks are kept as they came, signatures included; the dialect turns them into text, calls and thinking.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from clew.messages import Message, read_conversation
from clew.providers.base import Delta, FinishReason, Reply, Request
from clew.providers.loose import Growing, fields, items, place, settled, text
from clew.providers.sse import SseEvent
from clew.providers.wire import ErrorInReply, Gathering, event_json, status_in
from clew.usage import normalize_usage

_FINISHES: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
_ERROR_TYPES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
# Each kind of delta: the field it lengthens, and what a screen shows of it.
_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class AnthropicGathering(Gathering):
    """One message of the assistant."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._blocks: dict[int, dict[str, Any]] = {}
        self._json: dict[int, list[str]] = {}
        self._closed: set[int] = set()
        self._usage: dict[str, Any] = {}
        self._stop = ""
        self._over = False
        self._model = ""

    @property
    def is_complete(self) -> bool:
        return bool(self._stop) or self._over

    @property
    def is_over(self) -> bool:
        return self._over

    def take(self, event: SseEvent) -> Iterator[Delta]:
        value = event_json(event)
        match value.get("type") or event.name:
            case "error":
                raise ErrorInReply(status_in(value.get("error"), _ERROR_TYPES), event.data)
            case "message_start":
                self._take_head(fields(value.get("message")))
            case "content_block_start":
                yield from self._begin(place(value.get("index"), len(self._blocks)), fields(value.get("content_block")))
            case "content_block_delta":
                yield from self._lengthen(place(value.get("index"), self._newest()), fields(value.get("delta")))
            case "content_block_stop":
                self._closed.add(place(value.get("index"), self._newest()))
            case "message_delta":
                self._stop = text(fields(value.get("delta")).get("stop_reason")) or self._stop
                self._add_usage(value.get("usage"))
            case "message_stop":
                self._over = True
            case _ if value.get("error"):
                raise ErrorInReply(status_in(value["error"], _ERROR_TYPES), event.data)

    def take_whole(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        if body.get("type") == "error" or body.get("error"):
            raise ErrorInReply(status_in(body.get("error"), _ERROR_TYPES), json.dumps(body, ensure_ascii=False))
        self._take_head(body)
        for index, block in enumerate(items(body.get("content"))):
            yield from self._begin(index, fields(block))
            self._closed.add(index)
        self._stop = text(body.get("stop_reason")) or self._stop

    def _newest(self) -> int:
        return max(self._blocks, default=0)

    def _take_head(self, head: Mapping[str, Any]) -> None:
        self._model = text(head.get("model")) or self._model
        self._add_usage(head.get("usage"))

    def _add_usage(self, usage: Any) -> None:
        # The end repeats some figures of the start, corrected, and leaves others out.
        if isinstance(usage, Mapping):
            self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _begin(self, index: int, block: Mapping[str, Any]) -> Iterator[Delta]:
        self._blocks[index] = dict(block)
        match block.get("type"):
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                yield Delta("call", text(block.get("name")))
            case "text" if text(block.get("text")):
                yield Delta("text", block["text"])
            case "thinking" if text(block.get("thinking")):
                yield Delta("reasoning", block["thinking"])

    def _lengthen(self, index: int, delta: Mapping[str, Any]) -> Iterator[Delta]:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        kind = text(delta.get("type"))
        if kind == "input_json_delta":
            self._json.setdefault(index, []).append(text(delta.get("partial_json")))
        elif kind == "citations_delta":
            block["citations"] = [*items(block.get("citations")), delta.get("citation")]
        elif kind in _GROWS:
            field = _GROWS[kind]
            piece = text(delta.get(field))
            if not isinstance(block.get(field), Growing):
                block[field] = Growing(text(block.get(field)))
            block[field].add(piece)
            if piece and field != "signature":
                yield Delta("reasoning" if field == "thinking" else "text", piece)

    def message(self) -> Message | None:
        blocks = [block for index in sorted(self._blocks) if (block := self._block(index)) is not None]
        if not blocks:
            return None
        wire = [{"role": "assistant", "content": blocks}]
        message = read_conversation(wire, dialect="anthropic").messages[0]
        said = message.get("content")
        if isinstance(said, list) and len(said) == 1 and said[0].keys() == {"type", "text"}:
            return {**message, "content": said[0]["text"]}
        return message

    def _block(self, index: int) -> dict[str, Any] | None:
        """A block as it can be sent again; None for one that the wire would refuse."""
        block: dict[str, Any] = settled(self._blocks[index])
        if not isinstance(block.get("type"), str):
            return None
        if block["type"] == "thinking" and index not in self._closed:
            return None  # its signature had not come
        if block.get("type") == "text" and not text(block.get("text")).strip():
            return None
        written = "".join(self._json.get(index, ()))
        return {**block, "input": _object(written)} if written else block

    def reply(self, request: Request) -> Reply:
        message: Message = self.message() or {"role": "assistant", "content": ""}
        usage = normalize_usage(self._usage, self._provider, "anthropic") if self._usage else None
        finish = _FINISHES.get(self._stop or "end_turn", "other")
        if finish == "stop" and message.get("tool_calls"):
            finish = "tool_calls"  # some servers of this wire forget it
        return Reply(message, usage, finish, self._model or request.model)


def _object(written: str) -> Any:
    """The arguments of a call; as text, under a name of their own, where the model was cut off inside them."""
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return {"unreadable_arguments": written}
    return value if isinstance(value, dict) else {"unreadable_arguments": value}
