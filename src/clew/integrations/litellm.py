"""LiteLLM's proxy: a hook that keeps the messages of each request inside the window of its model.

    litellm_settings:
      callbacks: clew.integrations.litellm.clew_hook

`clew_hook` keeps its conversations in Clew's usual store. For other options, which are those of `clew.Projection`, make
a `ClewHook` of your own in a file beside the config. Conversations are recognised by how their histories begin.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import litellm
from litellm.integrations.custom_logger import CustomLogger

from clew.config import clew_home
from clew.integrations.framework import FittedMessages, FrameworkConversations, MessageFormat
from clew.messages import DialectName
from clew.usage import normalize_usage

_WIRES: dict[str, tuple[DialectName, str, str]] = {
    "completion": ("openai_chat", "messages", ""),
    "acompletion": ("openai_chat", "messages", ""),
    "anthropic_messages": ("anthropic", "messages", "system"),
    "aanthropic_messages": ("anthropic", "messages", "system"),
    "responses": ("responses", "input", "instructions"),
    "aresponses": ("responses", "input", "instructions"),
}
"""By the type of a call: its dialect, and the fields that have its messages and its system prompt."""
MAX_WAITING = 1_000
"""Calls whose usage is awaited; beyond that the oldest is dropped."""


class ClewHook(CustomLogger):
    """Shows models a view of what clients send, folded once. Each model has its own window."""

    def __init__(self, *, context_length: int | None = None, **options: Any) -> None:
        super().__init__()
        self._options = options
        self._context_length = context_length
        self._conversations: dict[tuple[str, DialectName], FrameworkConversations] = {}
        self._waiting: dict[str, FittedMessages] = {}

    @property
    def conversations(self) -> Sequence[FrameworkConversations]:
        """One for each model and wire."""
        return list(self._conversations.values())

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: Any) -> Any:
        del user_api_key_dict, cache
        dialect, field, prompt = _WIRES.get(str(call_type), (None, "", ""))
        if dialect is None or not isinstance(data.get(field), list):
            return data
        conversations = self._conversations_of(str(data.get("model") or ""), dialect)
        fitted = await conversations.afit(data[field], system=data.get(prompt), tools=data.get("tools"))
        data[field] = fitted.messages
        if call_id := data.get("litellm_call_id"):
            self._waiting[call_id] = fitted
            while len(self._waiting) > MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
        return data

    async def async_log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        del start_time, end_time
        fitted = self._waiting.pop(str(kwargs.get("litellm_call_id")), None)
        usage = getattr(response_obj, "usage", None)
        if fitted is not None and usage is not None:
            await fitted.aobserve(normalize_usage(usage))

    async def async_log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None:
        del response_obj, start_time, end_time
        self._waiting.pop(str(kwargs.get("litellm_call_id")), None)

    def _conversations_of(self, model: str, dialect: DialectName) -> FrameworkConversations:
        if (model, dialect) not in self._conversations:
            format = MessageFormat(lambda item: [item], lambda messages, _: messages[0], dialect)
            window = self._context_length or _window_of(model)
            made = FrameworkConversations(format, model=model or None, context_length=window, **self._options)
            self._conversations[model, dialect] = made
        return self._conversations[model, dialect]


def _window_of(model: str) -> int | None:
    """The window that LiteLLM knows a model to have."""
    window = litellm.model_cost.get(model, {}).get("max_input_tokens")
    return window if isinstance(window, int) else None


clew_hook = ClewHook(store=clew_home(os.environ) / "state.db")
