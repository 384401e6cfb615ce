"""Providers: a request goes out, a reply with usage or a typed error comes back.

So far this room can say what an error means (`classify_error`). It knows how providers word their refusals; it does
not know what a turn does about them.
"""

from __future__ import annotations

from clew.providers.base import Delta, FinishReason, Provider, ProviderRefused, Reply, Request
from clew.providers.classify import ErrorClass, ErrorKind, classify_error

__all__ = [
    "Delta",
    "ErrorClass",
    "ErrorKind",
    "FinishReason",
    "Provider",
    "ProviderRefused",
    "Reply",
    "Request",
    "classify_error",
]
