"""Replies on the wire of Google's generateContent, put together as they arrive.

Only replies: no provider of ours sends on this wire yet, and the gateway reads what passes through it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from clew.messages import Message, read_conversation
from clew.providers.base import Delta, FinishReason
from clew.providers.http.connection import SseEvent
from clew.providers.wires.http_provider import (
    ErrorInReply,
    ReplyAccumulator,
    event_json,
    json_list,
    json_object,
    json_text,
    status_in,
)


class GeminiReplyAccumulator(ReplyAccumulator):
    """Puts the first candidate of a reply together: texts grow, every other part is kept as received.

    Only the end of the stream says that there is no more.
    """

    dialect = "gemini"
    finishes: ClassVar[Mapping[str, FinishReason]] = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "refusal"}

    def __init__(self, provider: str) -> None:
        super().__init__(provider or "google")
        self._parts: list[dict[str, Any]] = []

    def add_event(self, event: SseEvent) -> Iterator[Delta]:
        yield from self._add(event_json(event))

    def add_body(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        yield from self._add(body)

    def _add(self, value: Mapping[str, Any]) -> Iterator[Delta]:
        if error := value.get("error"):
            raise ErrorInReply(status_in(error), json.dumps(value, ensure_ascii=False))
        self._model = json_text(value.get("modelVersion")) or self._model
        self._usage = json_object(value.get("usageMetadata")) or self._usage
        candidate = json_object(next(iter(json_list(value.get("candidates"))), None))
        for part in json_list(json_object(candidate.get("content")).get("parts")):
            if isinstance(part, dict):
                yield from self._add_part(part)
        self._finish = json_text(candidate.get("finishReason")) or self._finish

    def _add_part(self, part: dict[str, Any]) -> Iterator[Delta]:
        text = part.get("text")
        if not isinstance(text, str):
            self.content_chars += 1
            self._parts.append(part)
            if "functionCall" in part:
                yield Delta("call", json_text(json_object(part["functionCall"]).get("name")))
            return
        self.content_chars += len(text)
        last = self._parts[-1] if self._parts else {}
        if isinstance(last.get("text"), str) and bool(last.get("thought")) == bool(part.get("thought")):
            self._parts[-1] = {**last, **part, "text": last["text"] + text}
        else:
            self._parts.append(part)
        yield Delta("reasoning" if part.get("thought") else "text", text)

    def items(self) -> list[Any]:
        return [{"role": "model", "parts": self._parts}] if self._parts else []

    def message(self) -> Message | None:
        messages = read_conversation(self.items(), dialect="gemini").messages if self._parts else ()
        return messages[0] if messages else None
