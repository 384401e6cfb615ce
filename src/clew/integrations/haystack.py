"""Haystack: a compactor for the `CompactionHook` of an agent.

    hook = CompactionHook(ClewCompactor(store="~/.clew/state.db"), context_window=200_000)
    agent = Agent(chat_generator=generator, tools=[...], hooks={"before_llm": [hook]})

The hook decides when to compact and to what size. The agent keeps what was folded; the store has every message, also
over a restart where the compactor has a `name`. Other options are those of `clew.Projection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from haystack.core.serialization import default_to_dict
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.hooks.compaction.types import Compactor

from clew.engines import ContextCompressor, EngineSetup, budgets_for_target
from clew.integrations.framework import (
    FrameworkConversations,
    MessageFormat,
    as_content,
    assistant_message,
    picture_part,
    text_part,
    tool_call,
    tool_message,
)
from clew.messages import Message, arguments_of_call, calls_of, name_of_call, text_of

_ANY_WINDOW = 10_000_000
"""The hook decides when to compact: no history reaches a threshold of our own."""


class ClewCompactor(Compactor):
    """Folds the messages of one agent to the size that its hook asks for."""

    def __init__(self, *, name: str | None = None, **options: Any) -> None:
        self._options = {"name": name, **options}
        self._name = name
        self._target = 0
        self.conversations = FrameworkConversations(
            FORMAT, **{"context_length": _ANY_WINDOW, "engine": self._engine, **options}
        )

    def compact(self, messages: list[Any], target_tokens: int, token_counter: Any) -> list[Any] | None:
        """A shorter list; None where nothing can be folded."""
        self._target = max(1, target_tokens)
        # An engine with the budgets of a target folds whatever is larger.
        shown = self.conversations.fit(messages, name=self._name).messages
        return shown if token_counter.count(messages=shown) < token_counter.count(messages=messages) else None

    async def compact_async(self, messages: list[Any], target_tokens: int, token_counter: Any) -> list[Any] | None:
        # A fold is work for this process; the conversations have a thread of their own for the store.
        return self.compact(messages, target_tokens, token_counter)

    def to_dict(self) -> dict[str, Any]:
        """The options; a store that is named by a `Path` is written as a text."""
        written: dict[str, Any] = default_to_dict(self, **{key: _plain(it) for key, it in self._options.items()})
        return written

    def _engine(self, setup: EngineSetup) -> ContextCompressor:
        return ContextCompressor(
            setup.context_length,
            settings=setup.compression,
            model=setup.model,
            summarize=setup.summarize,
            budgets=budgets_for_target(self._target, setup.compression),
        )


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def read_message(item: Any) -> list[Message]:
    """A message of Haystack as chat messages: each result of a call is a separate message."""
    if item.tool_call_results:
        return [
            tool_message(it.origin.id or it.origin.tool_name, _result_text(it.result), is_error=it.error)
            for it in item.tool_call_results
        ]
    parts = [text_part(text) for text in item.texts]
    parts += [picture_part(data=image.base64_image, media_type=image.mime_type) for image in item.images]
    parts += [{"type": "file", "file": {"filename": file.filename or ""}} for file in item.files]
    if item.role.value == "assistant":
        calls = [tool_call(call.id or call.tool_name, call.tool_name, call.arguments) for call in item.tool_calls]
        reasoning = [{"type": "thinking", "thinking": it.reasoning_text} for it in item.reasonings]
        return [assistant_message(parts, calls, reasoning)]
    return [{"role": item.role.value, "content": as_content(parts)}]


def _result_text(result: Any) -> str:
    if isinstance(result, str):
        return result
    return "\n".join(getattr(part, "text", "") for part in result)


def write_message(messages: Sequence[Message], original: Any) -> Any:
    """Changed or written chat messages as one of Haystack's."""
    if messages[0]["role"] == "tool":
        return _write_results(messages, original)
    (message,) = messages
    text = text_of(message)
    meta = dict(original.meta) if original is not None else None
    if message["role"] != "assistant":
        make = ChatMessage.from_system if message["role"] == "system" else ChatMessage.from_user
        return make(text, meta=meta)
    calls = [ToolCall(name_of_call(call), arguments_of_call(call), call["id"]) for call in calls_of(message)]
    return ChatMessage.from_assistant(text or None, meta=meta, tool_calls=calls or None)


def _write_results(messages: Sequence[Message], original: Any) -> Any:
    """Results of calls; Haystack keeps in each its call."""
    if original is None:
        (message,) = messages
        return ChatMessage.from_tool(text_of(message), ToolCall("tool", {}, message.get("tool_call_id")))
    pairs = zip(messages, original.tool_call_results, strict=True)
    return replace(original, _content=[replace(result, result=text_of(message)) for message, result in pairs])


FORMAT = MessageFormat(read_message, write_message)
