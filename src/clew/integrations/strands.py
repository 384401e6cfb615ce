"""Strands Agents: a conversation manager that folds an agent's messages before the model call that needs it.

    agent = Agent(model, tools=[...], conversation_manager=ClewConversation(store="~/.clew/state.db"))

The agent keeps what was folded, as with Strands' own managers; the store has every message, also over a restart where
the conversation has a `name` or the agent a session manager. Other options are those of `clew.Projection`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from strands.agent.conversation_manager import ConversationManager
from strands.hooks import AfterModelCallEvent, BeforeModelCallEvent

from clew.integrations.blocks import BlockFormat
from clew.integrations.framework import (
    FittedMessages,
    FrameworkConversations,
    as_content,
    function_tools,
    picture_part,
    text_part,
    tool_call,
    tool_message,
)
from clew.messages import Message, ToolCall, arguments_of_call, name_of_call, text_of
from clew.usage import CanonicalUsage


class ClewConversation(ConversationManager):
    """Folds the messages of one agent, once each time that they would pass the threshold."""

    def __init__(self, *, name: str | None = None, **options: Any) -> None:
        super().__init__()
        self.conversations = FrameworkConversations(FORMAT, _tool_definitions, **options)
        self._name = name
        self._fitted: FittedMessages | None = None
        self._written: list[Any] = []
        """The messages before the first that is as received: a session manager has only the others."""

    def register_hooks(self, registry: Any, **kwargs: Any) -> None:
        super().register_hooks(registry, **kwargs)
        registry.add_callback(BeforeModelCallEvent, self._before_model_call)
        registry.add_callback(AfterModelCallEvent, self._after_model_call)

    async def _before_model_call(self, event: Any) -> None:
        agent = event.agent
        self._show(agent, await self.conversations.afit(agent.messages, **self._beside(agent)))

    async def _after_model_call(self, event: Any) -> None:
        if self._fitted is not None and event.stop_response is not None:
            await self._fitted.aobserve(_usage_of(event.stop_response.message))

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Nothing: messages are folded before a call, and not after it."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """Fold now; where nothing can be folded, the overflow is raised again."""
        del kwargs
        if self.conversations.compact(agent.messages, self._name_of(agent)):
            self._show(agent, self.conversations.fit(agent.messages, **self._beside(agent)))
        elif e is not None:
            raise e

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "written": self._written}

    def restore_from_session(self, state: dict[str, Any]) -> list[Any]:
        super().restore_from_session(state)
        self._written = list(state.get("written") or ())
        return list(self._written)

    def _show(self, agent: Any, fitted: FittedMessages) -> None:
        original, self._fitted = agent.messages, fitted
        kept = {id(message) for message in original[len(self._written) :]}
        tail = sum(1 for _ in takewhile(lambda message: id(message) in kept, reversed(fitted.messages)))
        if fitted.is_folded:
            self.removed_message_count += len(kept) - tail
            self._written = fitted.messages[: len(fitted.messages) - tail]
            original[:] = fitted.messages

    def _beside(self, agent: Any) -> dict[str, Any]:
        named = agent.model.get_config().get("model_id")
        tools = agent.tool_registry.get_all_tool_specs()
        system = agent.system_prompt if isinstance(agent.system_prompt, str) else None
        return {"name": self._name_of(agent), "model": named, "system": system, "tools": tools}

    def _name_of(self, agent: Any) -> str | None:
        session = getattr(getattr(agent, "_session_manager", None), "session_id", None)
        return self._name or (f"{session}-{agent.agent_id}" if session else None)


def _tool_definitions(specs: Sequence[Any]) -> list[Any]:
    return function_tools((it["name"], it["description"], it["inputSchema"].get("json")) for it in specs)


def _usage_of(message: Any) -> CanonicalUsage:
    used = (message.get("metadata") or {}).get("usage") or {}
    read, written = used.get("cacheReadInputTokens") or 0, used.get("cacheWriteInputTokens") or 0
    # Bedrock and Anthropic count cached tokens beside the others, OpenAI inside of them: then the total is less.
    fresh, output = used.get("inputTokens") or 0, used.get("outputTokens") or 0
    if (used.get("totalTokens") or 0) <= fresh + output:
        fresh = max(0, fresh - read - written)
    return CanonicalUsage(fresh, output, read, written)


class StrandsBlocks(BlockFormat):
    """Content blocks, as Bedrock has them."""

    def open(self, item: Any) -> tuple[str, Sequence[Any]]:
        return item["role"], item.get("content") or ()

    def build(self, role: str, blocks: list[Any], original: Any) -> Any:
        return {**(original or {"role": "assistant" if role == "assistant" else "user"}), "content": blocks}

    def read_result(self, block: Any) -> Message | None:
        result = block.get("toolResult")
        if result is None:
            return None
        parts = [part for it in result.get("content") or () if (part := self.read_part(it)) is not None]
        return tool_message(result["toolUseId"], as_content(parts), is_error=result.get("status") == "error")

    def read_call(self, block: Any) -> ToolCall | None:
        use = block.get("toolUse")
        return None if use is None else tool_call(use["toolUseId"], use["name"], use.get("input") or {})

    def read_thinking(self, block: Any) -> dict[str, Any] | None:
        thought = block.get("reasoningContent")
        if thought is None:
            return None
        return {"type": "thinking", "thinking": (thought.get("reasoningText") or {}).get("text") or ""}

    def read_part(self, block: Any) -> dict[str, Any] | None:
        if "text" in block:
            return text_part(block["text"])
        if "json" in block:
            return text_part(json.dumps(block["json"], ensure_ascii=False, default=str))
        if "image" in block:
            return _read_picture(block["image"])
        kind = next(
            (name for name in ("document", "video", "audio", "guardContent", "citationsContent") if name in block), ""
        )
        return {"type": kind, kind: json.loads(json.dumps(block[kind], default=_encoded))} if kind else None

    def write_result(self, message: Message, original: Any) -> Any:
        result = original["toolResult"] if original is not None else {"status": "success"}
        written = {"toolUseId": message.get("tool_call_id", ""), "content": [{"text": text_of(message)}]}
        return {**(original or {}), "toolResult": {**result, **written}}

    def write_call(self, call: ToolCall, original: Any) -> Any:
        use = original["toolUse"] if original is not None else {}
        now = {"toolUseId": call["id"], "name": name_of_call(call), "input": arguments_of_call(call)}
        return {**(original or {}), "toolUse": {**use, **now}}

    def write_text(self, text: str) -> Any:
        return {"text": text}


def _read_picture(image: Any) -> dict[str, Any]:
    source = image.get("source") or {}
    if "bytes" in source:
        return picture_part(data=_encoded(source["bytes"]), media_type=f"image/{image.get('format', 'png')}")
    return picture_part(str((source.get("location") or {}).get("uri", "")))


def _encoded(value: Any) -> str:
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


FORMAT = StrandsBlocks().format()
