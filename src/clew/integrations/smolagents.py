"""smolagents: the memory of an agent, as messages that stay inside the window.

    agent = CodeAgent(tools=[...], model=model)
    clew = ClewMemory(agent, store="~/.clew/state.db")

The steps of the memory stay as they are; the model is shown a view of them. Options are those of `clew.Projection`, and
`name`, by which the conversation is known over a restart.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from smolagents.memory import ActionStep
from smolagents.models import ChatMessage, MessageRole
from smolagents.utils import encode_image_base64

from clew.integrations.framework import (
    FittedMessages,
    FrameworkConversations,
    MessageFormat,
    assistant_message,
    picture_part,
    text_part,
    tool_call,
    tool_message,
)
from clew.messages import Message, arguments_of_call, calls_of, name_of_call, text_of
from clew.usage import CanonicalUsage

_CALLING = "Calling tools:\n"
"""The beginning of a message with calls."""


class ClewMemory:
    """Shows the model of an agent a view of its memory, folded once; the memory keeps every step."""

    def __init__(self, agent: Any, *, name: str | None = None, **options: Any) -> None:
        self.conversations = FrameworkConversations(FORMAT, **options)
        self._name = name
        self._model = getattr(agent.model, "model_id", None)
        self._fitted: FittedMessages | None = None
        self._write: Callable[..., list[Any]] = agent.write_memory_to_messages
        agent.write_memory_to_messages = self.write_memory_to_messages
        agent.step_callbacks.register(ActionStep, self._observe)

    def write_memory_to_messages(self, summary_mode: bool = False) -> list[Any]:
        """The messages of the next model call; with `summary_mode`, which leaves out replies, of another history."""
        name = f"{self._name}-summary" if self._name and summary_mode else self._name
        shown = list(_in_sequence(self._write(summary_mode=summary_mode)))
        fitted = self.conversations.fit(shown, name=name, model=self._model)
        if not summary_mode:
            self._fitted = fitted
        return [item.message for item in fitted.messages]

    def _observe(self, step: Any) -> None:
        used = step.token_usage
        if self._fitted is not None and used is not None:
            self._fitted.observe(CanonicalUsage(used.input_tokens, used.output_tokens))


@dataclass(frozen=True, slots=True)
class MemoryMessage:
    """A message of the memory. The framework writes calls and results as texts, and a result without its call's id."""

    message: Any
    answers: str = ""
    """The id of the calls that it is the result of."""


def _in_sequence(messages: Sequence[Any]) -> Iterator[MemoryMessage]:
    """Messages with the calls they answer: the first one that follows calls and is not the model's."""
    called = ""
    for message in messages:
        if message.role == MessageRole.TOOL_CALL:
            called = _read_calls(message)[0]
            yield MemoryMessage(message)
        elif message.role == MessageRole.ASSISTANT:
            called = ""
            yield MemoryMessage(message)
        else:
            yield MemoryMessage(message, called)
            called = ""


def _read_calls(message: Any) -> tuple[str, str, dict[str, Any]]:
    """Id, name and arguments of the calls of a message; of several, those of the first, and all of them."""
    text = _text_of(message.content).removeprefix(_CALLING)
    try:
        calls = ast.literal_eval(text)
        first = calls[0]
        function = first["function"]
        several = {"calls": text} if len(calls) > 1 or not isinstance(function["arguments"], dict) else None
        return first["id"], function["name"], several or function["arguments"]
    except (ValueError, SyntaxError, TypeError, LookupError):  # arguments that Python writes otherwise than it reads
        return f"call-{crc32(text.encode()):x}", "tool", {"calls": text}


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else text_of({"role": "user", "content": content or ""})


def read_message(item: MemoryMessage) -> list[Message]:
    """A message of the memory as a chat message."""
    role, content = item.message.role, item.message.content
    if role == MessageRole.TOOL_CALL:
        return [assistant_message([], [tool_call(*_read_calls(item.message))])]
    parts = [text_part(content)] if isinstance(content, str) else [_read_part(part) for part in content or ()]
    plain = parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
    if item.answers:
        return [tool_message(item.answers, plain)]
    if role == MessageRole.ASSISTANT:
        return [assistant_message(parts)]
    return [{"role": "system" if role == MessageRole.SYSTEM else "user", "content": plain or ""}]


def _read_part(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("type") == "image":
        return picture_part(data=encode_image_base64(part["image"]))
    return part


def write_message(messages: Sequence[Message], original: MemoryMessage | None) -> MemoryMessage:
    """A changed or written chat message as one of the memory."""
    (message,) = messages
    text = text_of(message)
    if message["role"] == "tool":
        role = original.message.role if original is not None else MessageRole.TOOL_RESPONSE
        return MemoryMessage(ChatMessage(role, [text_part(text)]), message.get("tool_call_id", ""))
    if calls := calls_of(message):
        written = _CALLING + str([_written_call(call) for call in calls])
        return MemoryMessage(ChatMessage(MessageRole.TOOL_CALL, [text_part(f"{text}\n{written}" if text else written)]))
    role = MessageRole.ASSISTANT if message["role"] == "assistant" else MessageRole.USER
    return MemoryMessage(ChatMessage(role, [text_part(text)]))


def _written_call(call: Any) -> dict[str, Any]:
    arguments = arguments_of_call(call)
    return {"id": call["id"], "type": "function", "function": {"name": name_of_call(call), "arguments": arguments}}


FORMAT = MessageFormat(read_message, write_message)
