"""Clew keeps a long conversation inside a model's window, at the lowest cost, without losing a word.

The names below are public; everything else may move. They are imported when first used, so that `import clew`
stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.caching import apply_cache_control
    from clew.engines import ContextCompressor, ContextEngine
    from clew.library import compress
    from clew.providers import classify_error
    from clew.store import open_store
    from clew.tokens import count_tokens
    from clew.usage import CanonicalUsage, normalize_usage

__version__ = "0.1.0"
__all__ = [
    "CanonicalUsage",
    "ContextCompressor",
    "ContextEngine",
    "apply_cache_control",
    "classify_error",
    "compress",
    "count_tokens",
    "normalize_usage",
    "open_store",
]

_HOMES = {
    "CanonicalUsage": "clew.usage",
    "ContextCompressor": "clew.engines",
    "ContextEngine": "clew.engines",
    "apply_cache_control": "clew.caching",
    "classify_error": "clew.providers",
    "compress": "clew.library",
    "count_tokens": "clew.tokens",
    "normalize_usage": "clew.usage",
    "open_store": "clew.store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'clew' has no attribute {name!r}; its public names are {', '.join(__all__)}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
