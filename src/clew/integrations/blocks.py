"""Messages that consist of blocks: texts, pictures, thinking, calls, results of several calls.

Frameworks with such messages say how they write each block; what a message is in chat messages, and what a changed one
is in blocks again, is the same for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from clew.integrations.framework import MessageFormat, as_content, assistant_message, text_part
from clew.messages import Message, ToolCall, calls_of, text_of


class BlockFormat(ABC):
    """How a framework writes blocks. Each `read` gives None for a block of another kind."""

    @abstractmethod
    def open(self, item: Any) -> tuple[str, Sequence[Any]]:
        """The role of a message of the framework, and its blocks."""

    @abstractmethod
    def build(self, role: str, blocks: list[Any], original: Any) -> Any:
        """A message of the framework, made from its original (None where there is none)."""

    @abstractmethod
    def read_result(self, block: Any) -> Message | None:
        """The result of a call."""

    @abstractmethod
    def read_call(self, block: Any) -> ToolCall | None: ...

    @abstractmethod
    def read_thinking(self, block: Any) -> dict[str, Any] | None: ...

    @abstractmethod
    def read_part(self, block: Any) -> dict[str, Any] | None:
        """A text, a picture, a file: whatever else a model is shown."""

    @abstractmethod
    def write_result(self, message: Message, original: Any) -> Any:
        """A block for a result, made from its original."""

    @abstractmethod
    def write_call(self, call: ToolCall, original: Any) -> Any: ...

    @abstractmethod
    def write_text(self, text: str) -> Any: ...

    def format(self) -> MessageFormat:
        return MessageFormat(self._read, self._write)

    def _read(self, item: Any) -> list[Message]:
        role, blocks = self.open(item)
        if role == "system":
            return [{"role": "system", "content": as_content(self._parts(blocks))}]
        return self.read_reply(blocks) if role == "assistant" else self.read_other(blocks)

    def _write(self, messages: Sequence[Message], original: Any) -> Any:
        role, blocks = messages[0]["role"], self.open(original)[1] if original is not None else ()
        written = self.write_reply(messages[0], blocks) if role == "assistant" else self.write_other(messages, blocks)
        return self.build(role, written, original)

    def read_reply(self, blocks: Sequence[Any]) -> list[Message]:
        """The blocks of a message of the model."""
        calls = [call for block in blocks if (call := self.read_call(block)) is not None]
        thinking = [thought for block in blocks if (thought := self.read_thinking(block)) is not None]
        return [assistant_message(self._parts(blocks), calls, thinking)]

    def read_other(self, blocks: Sequence[Any]) -> list[Message]:
        """The blocks of any other message: a message for each result, and one for what is between them."""
        messages: list[Message] = []
        between: list[Any] = []
        for block in blocks:
            result = self.read_result(block)
            if result is None:
                between.append(block)
            else:
                messages += self._user(between)
                messages.append(result)
                between = []
        return [*messages, *self._user(between)] or [{"role": "user", "content": ""}]

    def write_reply(self, message: Message, original: Sequence[Any] = ()) -> list[Any]:
        """The blocks of a message of the model that was changed: thinking first, since a signature holds for that."""
        texts = [block for block in original if (self.read_part(block) or {}).get("type") == "text"]
        text = text_of(message)
        if text != text_of({"role": "assistant", "content": self._parts(texts)}):
            texts = [self.write_text(text)] if text else []
        thinking = [block for block in original if self.read_thinking(block) is not None]
        calls = {call["id"]: call for call in calls_of(message)}
        others = [block for block in original if all(block is not it for it in (*thinking, *texts))]
        rest = [self._rest(block, calls) for block in others if (self.read_part(block) or {}).get("type") != "text"]
        return [*thinking, *texts, *rest, *(self.write_call(call, None) for call in calls.values())]

    def write_other(self, messages: Sequence[Message], original: Sequence[Any] = ()) -> list[Any]:
        """The blocks of any other message that was changed."""
        written: list[Any] = []
        for message in messages:
            if message["role"] == "tool":
                former = next((block for block in original if _answers(self.read_result(block), message)), None)
                is_same = former is not None and self.read_result(former) == message
                written.append(former if is_same else self.write_result(message, former))
                continue
            content: Any = message.get("content")
            for part in content if isinstance(content, list) else [text_part(content or "")]:
                same = next((block for block in original if self.read_part(block) == part), None)
                written.append(self.write_text(str(part.get("text", ""))) if same is None else same)
        return written

    def _rest(self, block: Any, calls: dict[str, ToolCall]) -> Any:
        call = self.read_call(block)
        now = calls.pop(call["id"], None) if call is not None else None
        return block if now is None or now == call else self.write_call(now, block)

    def _parts(self, blocks: Sequence[Any]) -> list[dict[str, Any]]:
        return [part for block in blocks if (part := self.read_part(block)) is not None]

    def _user(self, blocks: Sequence[Any]) -> list[Message]:
        return [{"role": "user", "content": as_content(self._parts(blocks))}] if blocks else []


def _answers(result: Message | None, message: Message) -> bool:
    return result is not None and result.get("tool_call_id") == message.get("tool_call_id")
