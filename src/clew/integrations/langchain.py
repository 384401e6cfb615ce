"""LangChain and LangGraph: middleware for agents, and a hook for prebuilt graphs.

    agent = create_agent(model, tools, middleware=[ClewMiddleware(store="~/.clew/state.db")])

`ClewMiddleware` shows the model a view and leaves the state as it is; `ClewStateMiddleware` writes what it folded into
the state, so that checkpoints stay small. Options are those of `clew.Projection`. A thread of a checkpointer is a
conversation of its own, by the name of the thread.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from clew.integrations.framework import (
    FittedMessages,
    FrameworkConversations,
    MessageFormat,
    assistant_message,
    picture_part,
    text_part,
    tool_call,
    tool_message,
    usage_within,
)
from clew.messages import Message, arguments_of_call, calls_of, name_of_call, text_of
from clew.usage import CanonicalUsage

_THINKING = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALLS = frozenset(
    {"tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta", "server_tool_call"}
)
"""Blocks that `tool_calls` repeats."""


class ClewMiddleware(AgentMiddleware):
    """Shows the model a view of the messages, folded once; the state keeps every message."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.conversations = FrameworkConversations(FORMAT, _tool_definitions, **options)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        fitted = self.conversations.fit(request.messages, **self._beside(request))
        response = handler(request.override(messages=fitted.messages))
        fitted.observe(_usage_of(response))
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        fitted = await self.conversations.afit(request.messages, **self._beside(request))
        response = await handler(request.override(messages=fitted.messages))
        await fitted.aobserve(_usage_of(response))
        return response

    def _beside(self, request: Any) -> dict[str, Any]:
        system = request.system_message.text if request.system_message is not None else None
        return {"name": _thread(), "model": _model_name(request.model), "system": system, "tools": request.tools}


class ClewStateMiddleware(AgentMiddleware):
    """Replaces folded messages in the state, before the model call that needs it."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.conversations = FrameworkConversations(FORMAT, **options)

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        del runtime
        return _state_update(self.conversations.fit(state["messages"], name=_thread()), state)

    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        del runtime
        return _state_update(await self.conversations.afit(state["messages"], name=_thread()), state)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        response = handler(request)
        self.conversations.observe(request.messages, _usage_of(response), _thread())
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        response = await handler(request)
        await self.conversations.aobserve(request.messages, _usage_of(response), _thread())
        return response


class ClewPreModelHook:
    """`pre_model_hook` of a prebuilt graph: the messages for the model, beside the state."""

    def __init__(self, **options: Any) -> None:
        self.conversations = FrameworkConversations(FORMAT, **options)

    def __call__(self, state: Any) -> dict[str, Any]:
        return {"llm_input_messages": self.conversations.fit(state["messages"], name=_thread()).messages}


def _state_update(fitted: FittedMessages, state: Any) -> dict[str, Any] | None:
    original = state["messages"]
    if len(original) == len(fitted.messages) and all(
        one is other for one, other in zip(original, fitted.messages, strict=True)
    ):
        return None
    return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *fitted.messages]}


def _thread() -> str | None:
    """The thread of the run that this is in, where it has one."""
    try:
        named = get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:  # called outside of a run
        return None
    return None if named is None else str(named)


def _model_name(model: Any) -> str | None:
    named = getattr(model, "model_name", None) or getattr(model, "model", None)
    return named if isinstance(named, str) else None


def _tool_definitions(tools: Sequence[Any]) -> list[Any]:
    return [convert_to_openai_tool(tool) for tool in tools]


def _usage_of(response: Any) -> CanonicalUsage | None:
    listed = getattr(response, "result", None) or [response]
    usage = next((it.usage_metadata for it in listed if isinstance(it, AIMessage) and it.usage_metadata), None)
    if usage is None:
        return None
    details = usage.get("input_token_details") or {}
    cached = details.get("cache_read"), details.get("cache_creation")
    return usage_within(usage["input_tokens"], usage["output_tokens"], *cached)


def read_message(item: Any) -> list[Message]:
    """A message of LangChain as a chat message."""
    if not isinstance(item, BaseMessage):
        return [item]  # dicts are chat messages already
    blocks = [item.content] if isinstance(item.content, str) else list(item.content)
    parts = [part for block in blocks for part in _read_block(block)]
    if isinstance(item, ToolMessage):
        return [tool_message(item.tool_call_id, _content(parts), is_error=item.status == "error")]
    if not isinstance(item, AIMessage):
        role = {"system": "system", "developer": "system", "ai": "assistant", "assistant": "assistant"}
        return [{"role": role.get(getattr(item, "role", item.type), "user"), "content": _content(parts)}]  # type: ignore[typeddict-item]
    thinking = [block for block in blocks if isinstance(block, dict) and block.get("type") in _THINKING]
    if reasoning := item.additional_kwargs.get("reasoning_content"):
        thinking.append({"type": "thinking", "thinking": str(reasoning)})
    calls = [tool_call(call["id"] or "", call["name"], call["args"]) for call in item.tool_calls]
    calls += [tool_call(it["id"] or "", it["name"] or "", it["args"] or "") for it in item.invalid_tool_calls]
    return [assistant_message(parts, calls, thinking)]


def _read_block(block: Any) -> list[dict[str, Any]]:
    if isinstance(block, str):
        return [text_part(block)] if block else []
    kind = block.get("type")
    if kind in _THINKING or kind in _CALLS:
        return []
    if kind == "image" and "source" not in block:
        return [picture_part(block.get("url"), data=block.get("base64"), media_type=block.get("mime_type"))]
    return [block]


def _content(parts: Sequence[dict[str, Any]]) -> Any:
    texts = [part["text"] for part in parts if part.get("type") == "text" and "text" in part]
    return "\n".join(texts) if len(texts) == len(parts) else list(parts)


def write_message(messages: Sequence[Message], original: Any) -> Any:
    """A changed or written chat message as one of LangChain: a copy of its original, where there is one."""
    (message,) = messages
    content: Any = message.get("content") or ""
    match message["role"]:
        case "tool" if isinstance(original, ToolMessage):
            return original.model_copy(update={"content": content})
        case "tool":
            return ToolMessage(content, tool_call_id=message.get("tool_call_id", ""))
        case "assistant" if isinstance(original, AIMessage):
            return _changed_reply(original, message)
        case "assistant":
            return AIMessage(content, tool_calls=_calls(message))
        case "system" | "developer":
            return SystemMessage(content)
    return HumanMessage(content)


def _changed_reply(original: AIMessage, message: Message) -> AIMessage:
    calls = _calls(message)
    content: Any = message.get("content") or ""
    if isinstance(original.content, list):
        texts = [text_part(text_of(message))] if text_of(message) else []
        blocks = [block for block in original.content if isinstance(block, dict) and block.get("type") != "text"]
        first = [block for block in blocks if block.get("type") in _THINKING]
        content = [*first, *texts, *(_with_arguments(block, calls) for block in blocks if block not in first)]
    kept = {name: value for name, value in original.additional_kwargs.items() if name != "tool_calls"}
    return original.model_copy(update={"content": content, "tool_calls": calls, "additional_kwargs": kept})


def _with_arguments(block: dict[str, Any], calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A block that repeats a call, with the arguments that the call has now."""
    call = next((it for it in calls if it["id"] in (block.get("id"), block.get("call_id"))), None)
    if call is None or block.get("type") not in _CALLS:
        return block
    if "arguments" in block:
        return {**block, "arguments": json.dumps(call["args"], ensure_ascii=False)}
    return {**block, ("input" if "input" in block else "args"): call["args"]}


def _calls(message: Message) -> list[dict[str, Any]]:
    return [
        {"type": "tool_call", "id": call["id"], "name": name_of_call(call), "args": arguments_of_call(call)}
        for call in calls_of(message)
    ]


FORMAT = MessageFormat(read_message, write_message)
