"""Providers: a request goes out, a reply with usage or a typed error comes back.

Three wires (chat completions, Responses, Anthropic's Messages), models in files, and the reading of refusals
(`classify_error`). This room knows how providers spell requests and word their refusals; it does not know what a turn
does about them. The HTTP client is imported with the first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.providers.base import Delta, FinishReason, OnDelta, Provider, ProviderRefused, Reply, Request
from clew.providers.classify import ErrorClass, classify_error
from clew.providers.error_table import ErrorKind

if TYPE_CHECKING:
    from clew.providers.anthropic import AnthropicProvider
    from clew.providers.chat import OpenAIChatProvider
    from clew.providers.choose import known_provider, means_local, provider_for
    from clew.providers.fetch import FetchFailed, fetch_model
    from clew.providers.gguf import trained_window
    from clew.providers.known import KNOWN, Known
    from clew.providers.local import LocalProvider
    from clew.providers.local_table import FETCHABLE, Fetchable
    from clew.providers.model_files import (
        LocalModel,
        choose_local_model,
        chosen_local_model,
        local_model_file,
        local_models,
        models_folder,
    )
    from clew.providers.patience import Patience
    from clew.providers.responses import ResponsesProvider

__all__ = [
    "FETCHABLE",
    "KNOWN",
    "AnthropicProvider",
    "Delta",
    "ErrorClass",
    "ErrorKind",
    "FetchFailed",
    "Fetchable",
    "FinishReason",
    "Known",
    "LocalModel",
    "LocalProvider",
    "OnDelta",
    "OpenAIChatProvider",
    "Patience",
    "Provider",
    "ProviderRefused",
    "Reply",
    "Request",
    "ResponsesProvider",
    "choose_local_model",
    "chosen_local_model",
    "classify_error",
    "fetch_model",
    "known_provider",
    "local_model_file",
    "local_models",
    "means_local",
    "models_folder",
    "provider_for",
    "trained_window",
]

# Most who come by this door read an error and send nothing.
_LATE = {
    "AnthropicProvider": "anthropic",
    "FETCHABLE": "local_table",
    "FetchFailed": "fetch",
    "Fetchable": "local_table",
    "KNOWN": "known",
    "Known": "known",
    "LocalModel": "model_files",
    "LocalProvider": "local",
    "OpenAIChatProvider": "chat",
    "Patience": "patience",
    "ResponsesProvider": "responses",
    "choose_local_model": "model_files",
    "chosen_local_model": "model_files",
    "fetch_model": "fetch",
    "known_provider": "choose",
    "local_model_file": "model_files",
    "local_models": "model_files",
    "means_local": "choose",
    "models_folder": "model_files",
    "provider_for": "choose",
    "trained_window": "gguf",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'clew.providers' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"clew.providers.{_LATE[name]}"), name)
