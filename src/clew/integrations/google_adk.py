"""Google's Agent Development Kit: a plugin that keeps the contents of each model request inside the window.

    runner = InMemoryRunner(agent, app_name="app", plugins=[ClewPlugin(store="~/.clew/state.db")])

The events of a session stay as they are; the model is shown a view of them. Each agent of a session is a conversation
of its own, named after both. Options are those of `clew.Projection`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.adk.plugins.base_plugin import BasePlugin
from google.genai.types import Content, Tool

from clew.integrations.framework import (
    FittedMessages,
    FrameworkConversations,
    MessageFormat,
    function_tools,
    usage_within,
)
from clew.usage import CanonicalUsage


class ClewPlugin(BasePlugin):
    """Shows the models of an app a view of their contents, folded once."""

    def __init__(self, *, name: str = "clew", **options: Any) -> None:
        super().__init__(name)
        self.conversations = FrameworkConversations(FORMAT, _tool_definitions, **options)
        self._calls: dict[tuple[str, str], FittedMessages] = {}
        """The calls without a reply yet, by invocation and conversation."""

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        config, name = llm_request.config, _conversation_name(callback_context)
        fitted = await self.conversations.afit(
            llm_request.contents,
            name=name,
            model=llm_request.model,
            system=_text_of(config.system_instruction),
            tools=config.tools,
        )
        llm_request.contents = fitted.messages
        self._calls[callback_context.invocation_id, name] = fitted

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        if llm_response.partial:
            return
        fitted = self._calls.pop((callback_context.invocation_id, _conversation_name(callback_context)), None)
        if fitted is not None and llm_response.usage_metadata is not None:
            await fitted.aobserve(_usage_of(llm_response.usage_metadata))

    async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> None:
        del llm_request, error
        self._calls.pop((callback_context.invocation_id, _conversation_name(callback_context)), None)

    async def close(self) -> None:
        self.conversations.close()


def _conversation_name(context: Any) -> str:
    return f"{context.session.id}-{context.branch or context.agent_name}"


def _text_of(instruction: Any) -> str | None:
    """A system instruction, for its size: a text, a content, a part, or several."""
    if instruction is None or isinstance(instruction, str):
        return instruction
    parts = getattr(instruction, "parts", None) or (instruction if isinstance(instruction, list) else [instruction])
    return "\n".join(part if isinstance(part, str) else getattr(part, "text", None) or "" for part in parts)


def _tool_definitions(tools: Sequence[Any]) -> list[Any]:
    declared = [it for tool in tools if isinstance(tool, Tool) for it in tool.function_declarations or ()]
    return function_tools((it.name or "", it.description, _schema_of(it)) for it in declared)


def _schema_of(declaration: Any) -> Any:
    if declaration.parameters_json_schema is not None or declaration.parameters is None:
        return declaration.parameters_json_schema
    return declaration.parameters.model_dump(exclude_none=True, mode="json")


def _usage_of(used: Any) -> CanonicalUsage:
    output = (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)
    return usage_within(used.prompt_token_count, output, used.cached_content_token_count)


def write_content(messages: Sequence[Any], original: Any = None) -> Any:
    """A content that was written, as an object of the SDK."""
    del original
    (content,) = messages
    return content if isinstance(content, Content) else Content.model_validate(content)


FORMAT = MessageFormat(lambda content: [content], write_content, dialect="gemini")
