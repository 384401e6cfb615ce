"""Pydantic AI: a capability that keeps the messages of each model request inside the window.

    agent = Agent("openai:gpt-5", capabilities=[ClewCapability(store="~/.clew/state.db")])

It shows the model a view and leaves the history of the run as it is; with `persistent=True` it folds that, too. Other
options are those of `clew.Projection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    BinaryContent,
    FilePart,
    ImageUrl,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

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


class ClewCapability(AbstractCapability[Any]):
    """Keeps the messages of an agent's requests inside the window; one serves all runs of its agent."""

    def __init__(self, *, persistent: bool = False, **options: Any) -> None:
        self.conversations = FrameworkConversations(FORMAT, _tool_definitions, **options)
        self._persistent = persistent

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        asked = request_context.model_request_parameters
        fitted = await self.conversations.afit(
            request_context.messages,
            name=ctx.conversation_id,
            model=request_context.model.model_name,
            system=_instructions(asked, request_context.messages),
            tools=asked.function_tools,
        )
        request_context.messages = fitted.messages
        if self._persistent:
            ctx.messages[:] = fitted.messages
        return request_context

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        used = response.usage
        usage = usage_within(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens)
        await self.conversations.aobserve(request_context.messages, usage, ctx.conversation_id)
        return response


def _instructions(asked: Any, messages: Sequence[Any]) -> str | None:
    texts = [part.content for part in getattr(asked, "instruction_parts", None) or ()]
    newest = messages[-1].instructions if messages and isinstance(messages[-1], ModelRequest) else None
    return "\n\n".join(texts) or newest


def _tool_definitions(tools: Sequence[Any]) -> list[Any]:
    return function_tools((tool.name, tool.description, tool.parameters_json_schema) for tool in tools)


class PydanticBlocks(BlockFormat):
    """Parts of requests and responses. What is inside one prompt are several parts of a chat message, and stay one."""

    def open(self, item: Any) -> tuple[str, Sequence[Any]]:
        return "assistant" if isinstance(item, ModelResponse) else "user", item.parts

    def build(self, role: str, blocks: list[Any], original: Any) -> Any:
        if original is not None:
            return replace(original, parts=blocks)
        return ModelResponse(blocks) if role == "assistant" else ModelRequest(blocks)

    def read_result(self, block: Any) -> Message | None:
        if isinstance(block, BaseToolReturnPart):
            content = [text_part(block.model_response_str()), *map(_read_content, block.files)]
            return tool_message(block.tool_call_id, as_content(content), is_error=block.outcome == "failed")
        if isinstance(block, RetryPromptPart) and block.tool_name is not None:
            return tool_message(block.tool_call_id, block.model_response(), is_error=True)
        return None

    def read_call(self, block: Any) -> ToolCall | None:
        is_call = isinstance(block, BaseToolCallPart)
        return tool_call(block.tool_call_id, block.tool_name, block.args_as_json_str()) if is_call else None

    def read_thinking(self, block: Any) -> dict[str, Any] | None:
        return {"type": "thinking", "thinking": block.content} if isinstance(block, ThinkingPart) else None

    def read_part(self, block: Any) -> dict[str, Any] | None:
        if isinstance(block, ThinkingPart | BaseToolCallPart | BaseToolReturnPart):
            return None
        if isinstance(block, FilePart):
            return _read_content(block.content)
        content = block.model_response() if isinstance(block, RetryPromptPart) else getattr(block, "content", None)
        return text_part(content if isinstance(content, str) else "" if content is None else str(content))

    def write_result(self, message: Message, original: Any) -> Any:
        if original is None:
            return ToolReturnPart("tool", text_of(message), message.get("tool_call_id", ""))
        return replace(original, content=text_of(message))

    def write_call(self, call: ToolCall, original: Any) -> Any:
        arguments = call["function"]["arguments"]
        return (
            replace(original, args=arguments) if original else ToolCallPart(name_of_call(call), arguments, call["id"])
        )

    def write_text(self, text: str) -> Any:
        return TextPart(text)

    # A prompt of several contents is one part here, so that requests are read and written part by part.

    def read_other(self, blocks: Sequence[Any]) -> list[Message]:
        return [self._read_request_part(block) for block in blocks] or [{"role": "user", "content": ""}]

    def write_other(self, messages: Sequence[Message], original: Sequence[Any] = ()) -> list[Any]:
        written: list[Any] = []
        for message in messages:
            same = next((block for block in original if self._read_request_part(block) == message), None)
            if message["role"] == "tool" and same is None:
                waiting = (
                    block for block in original if getattr(block, "tool_call_id", "") == message.get("tool_call_id")
                )
                written.append(self.write_result(message, next(waiting, None)))
            else:
                written.append(UserPromptPart(text_of(message)) if same is None else same)
        return written

    def _read_request_part(self, block: Any) -> Message:
        result = self.read_result(block)
        if result is not None:
            return result
        if isinstance(block, SystemPromptPart):
            return {"role": "system", "content": block.content}
        if isinstance(block, UserPromptPart) and not isinstance(block.content, str):
            return {"role": "user", "content": as_content([_read_content(content) for content in block.content])}
        return {"role": "user", "content": as_content([self.read_part(block) or text_part("")])}


def _read_content(content: Any) -> dict[str, Any]:
    """One content of a prompt or of a result."""
    if isinstance(content, str):
        return text_part(content)
    if isinstance(content, ImageUrl):
        return picture_part(content.url)
    if isinstance(content, BinaryContent):
        if content.is_image:
            return picture_part(data=content.base64, media_type=content.media_type)
        return {"type": "file", "file": {"file_data": f"data:{content.media_type};base64,{content.base64}"}}
    value = getattr(content, "content", None) or getattr(content, "url", None) or ""
    return text_part(value if isinstance(value, str) else str(value))


FORMAT = PydanticBlocks().format()
