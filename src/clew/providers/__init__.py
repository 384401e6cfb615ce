"""Providers: send a request to a model, get a reply with usage, or a typed error.

`wires/` has the three wires (chat completions, Responses, Anthropic's Messages), `http/` the connection below them,
`local/` models in files on this machine, `errors/` the reading of refusals (`classify_error`), `presets` the providers
known by name. What a turn does about an error is not decided here. The HTTP client is imported with the first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.errors import ProviderRefused
from clew.lazy import lazy_names
from clew.providers.base import Delta, FinishReason, OnDelta, Provider, Reply, Request
from clew.providers.errors import ErrorClass, ErrorKind, RefusalText, classify_error, error_message, explain_refusal

if TYPE_CHECKING:
    from clew.errors import FetchFailed
    from clew.providers.http.connection import ConnectionFailed, EventTooLong, RetryPolicy, SseEvent, SseReader
    from clew.providers.local.fetch import fetch_model
    from clew.providers.local.models import (
        FETCHABLE_MODELS,
        FetchableModel,
        LocalModel,
        choose_local_model,
        chosen_local_model,
        local_model_file,
        local_models,
        models_folder,
        trained_window,
    )
    from clew.providers.local.provider import LocalProvider
    from clew.providers.presets import (
        PROVIDER_PRESETS,
        ProviderPreset,
        http_provider,
        is_local_model,
        key_variables,
        preset_for,
        provider_for,
    )
    from clew.providers.wires.anthropic import AnthropicProvider, AnthropicReplyAccumulator
    from clew.providers.wires.chat import ChatReplyAccumulator, OpenAIChatProvider
    from clew.providers.wires.gemini import GeminiReplyAccumulator
    from clew.providers.wires.http_provider import ErrorInReply, HttpProvider, ReplyAccumulator
    from clew.providers.wires.responses import ResponsesProvider, ResponsesReplyAccumulator

__all__ = [
    "FETCHABLE_MODELS",
    "PROVIDER_PRESETS",
    "AnthropicProvider",
    "AnthropicReplyAccumulator",
    "ChatReplyAccumulator",
    "ConnectionFailed",
    "Delta",
    "ErrorClass",
    "ErrorInReply",
    "ErrorKind",
    "EventTooLong",
    "FetchFailed",
    "FetchableModel",
    "FinishReason",
    "GeminiReplyAccumulator",
    "HttpProvider",
    "LocalModel",
    "LocalProvider",
    "OnDelta",
    "OpenAIChatProvider",
    "Provider",
    "ProviderPreset",
    "ProviderRefused",
    "RefusalText",
    "Reply",
    "ReplyAccumulator",
    "Request",
    "ResponsesProvider",
    "ResponsesReplyAccumulator",
    "RetryPolicy",
    "SseEvent",
    "SseReader",
    "choose_local_model",
    "chosen_local_model",
    "classify_error",
    "error_message",
    "explain_refusal",
    "fetch_model",
    "http_provider",
    "is_local_model",
    "key_variables",
    "local_model_file",
    "local_models",
    "models_folder",
    "preset_for",
    "provider_for",
    "trained_window",
]

# Imported when first used: most callers of this package only read errors and send nothing.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".http.connection": "ConnectionFailed EventTooLong RetryPolicy SseEvent SseReader",
        ".local.fetch": "FetchFailed fetch_model",
        ".local.models": "FETCHABLE_MODELS FetchableModel LocalModel choose_local_model chosen_local_model "
        "local_model_file local_models models_folder trained_window",
        ".local.provider": "LocalProvider",
        ".presets": "PROVIDER_PRESETS ProviderPreset http_provider is_local_model key_variables preset_for "
        "provider_for",
        ".wires.anthropic": "AnthropicProvider AnthropicReplyAccumulator",
        ".wires.chat": "ChatReplyAccumulator OpenAIChatProvider",
        ".wires.gemini": "GeminiReplyAccumulator",
        ".wires.http_provider": "ErrorInReply HttpProvider ReplyAccumulator",
        ".wires.responses": "ResponsesProvider ResponsesReplyAccumulator",
    },
)
