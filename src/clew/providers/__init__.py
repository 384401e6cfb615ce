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
    from clew.providers.choose import known_provider, provider_for
    from clew.providers.known import KNOWN, Known
    from clew.providers.local import LocalProvider
    from clew.providers.patience import Patience
    from clew.providers.responses import ResponsesProvider

__all__ = [
    "KNOWN",
    "AnthropicProvider",
    "Delta",
    "ErrorClass",
    "ErrorKind",
    "FinishReason",
    "Known",
    "LocalProvider",
    "OnDelta",
    "OpenAIChatProvider",
    "Patience",
    "Provider",
    "ProviderRefused",
    "Reply",
    "Request",
    "ResponsesProvider",
    "classify_error",
    "known_provider",
    "provider_for",
]

# Most who come by this door read an error and send nothing.
_LATE = {
    "AnthropicProvider": "anthropic",
    "KNOWN": "known",
    "Known": "known",
    "LocalProvider": "local",
    "OpenAIChatProvider": "chat",
    "Patience": "patience",
    "ResponsesProvider": "responses",
    "known_provider": "choose",
    "provider_for": "choose",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'clew.providers' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"clew.providers.{_LATE[name]}"), name)
