"""Microsoft Agent Framework: chat middleware that keeps the messages of each model request inside the window.

    agent = Agent(client, tools=[...], middleware=[ClewChatMiddleware(store="~/.clew/state.db")])

The agent and its session keep every message; the model is shown a view of them. A session is a conversation of its own,
by its id. Options are those of `clew.Projection`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any

from agent_framework import ChatMiddleware, Content, FunctionTool
from agent_framework import Message as ChatMessage

from clew.integrations.blocks import BlockFormat
from clew.integrations.framework import (
    FrameworkConversations,
    as_content,
    function_tools,
    picture_part,
    text_part,
    tool_call,
    tool_message,
    usage_within,
)
from clew.messages import Message, ToolCall, name_of_call, text_of
from clew.usage import CanonicalUsage


class ClewChatMiddleware(ChatMiddleware):
    """Shows the model a view of the messages, folded once; one serves any number of agents and sessions."""

    def __init__(self, **options: Any) -> None:
        self.conversations = FrameworkConversations(FORMAT, _tool_definitions, **options)

    async def process(self, context: Any, call_next: Callable[[], Awaitable[None]]) -> None:
        options = context.options or {}
        fitted = await self.conversations.afit(
            context.messages,
            name=context.session.session_id if context.session is not None else None,
            model=options.get("model") or getattr(context.client, "model", None),
            system=options.get("instructions"),
            tools=options.get("tools"),
        )
        context.messages = fitted.messages
        if context.stream:

            async def observe(response: Any) -> None:
                await fitted.aobserve(_usage_of(response))

            context.stream_result_hooks.append(observe)
        await call_next()
        if not context.stream:
            await fitted.aobserve(_usage_of(context.result))


def _tool_definitions(tools: Sequence[Any]) -> list[Any]:
    functions = [tool for tool in tools if isinstance(tool, FunctionTool)]
    return function_tools((tool.name, tool.description, tool.parameters()) for tool in functions)


def _usage_of(response: Any) -> CanonicalUsage | None:
    used = getattr(response, "usage_details", None) or {}
    names = (
        "input_token_count",
        "output_token_count",
        "cache_read_input_token_count",
        "cache_creation_input_token_count",
    )
    return usage_within(*map(used.get, names)) if used else None


class AgentFrameworkBlocks(BlockFormat):
    """Contents of messages."""

    def open(self, item: Any) -> tuple[str, Sequence[Any]]:
        return item.role, item.contents

    def build(self, role: str, blocks: list[Any], original: Any) -> Any:
        if original is None:
            return ChatMessage(role, blocks)
        changed = copy(original)
        changed.contents, changed.raw_representation = blocks, None
        return changed

    def read_result(self, block: Any) -> Message | None:
        if block.type != "function_result":
            return None
        parts = [self.read_part(it) or text_part("") for it in block.items or ()] or [text_part(_as_text(block.result))]
        return tool_message(block.call_id or "", as_content(parts), is_error=block.exception is not None)

    def read_call(self, block: Any) -> ToolCall | None:
        if block.type != "function_call":
            return None
        return tool_call(block.call_id or "", block.name or "", "" if block.arguments is None else block.arguments)

    def read_thinking(self, block: Any) -> dict[str, Any] | None:
        return {"type": "thinking", "thinking": block.text or ""} if block.type == "text_reasoning" else None

    def read_part(self, block: Any) -> dict[str, Any] | None:
        if block.type in ("function_call", "function_result", "text_reasoning", "usage"):
            return None
        if block.type == "text":
            return text_part(block.text)
        if block.type in ("data", "uri") and str(block.media_type or "").startswith("image/"):
            return picture_part(block.uri)
        # Files and the work of provider tools: they count for the size and are kept unchanged.
        return {"type": block.type, "content": block.to_dict()}

    def write_result(self, message: Message, original: Any) -> Any:
        written = Content.from_function_result(message.get("tool_call_id", ""), result=text_of(message))
        if original is None:
            return written
        changed = copy(original)
        changed.result, changed.items, changed.raw_representation = written.result, written.items, None
        return changed

    def write_call(self, call: ToolCall, original: Any) -> Any:
        arguments = call["function"]["arguments"]
        if original is None:
            return Content.from_function_call(call["id"], name_of_call(call), arguments=arguments)
        changed = copy(original)
        changed.arguments, changed.raw_representation = arguments, None
        return changed

    def write_text(self, text: str) -> Any:
        return Content.from_text(text)


def _as_text(result: Any) -> str:
    return result if isinstance(result, str) else "" if result is None else json.dumps(result, default=str)


FORMAT = AgentFrameworkBlocks().format()
