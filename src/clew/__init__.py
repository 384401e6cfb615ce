"""Clew keeps a long conversation inside a model's window, at the lowest cost, without losing a word.

Fold a conversation:

    compress, acompress, preview      make a conversation shorter; the same, async; what it would do, without doing it
    Compressed                        what `compress` gives back: messages, summary, tokens, warnings

Keep one inside the window, call after call:

    Projection                        give it the whole history, send what comes back: folded once, then the same bytes

Count, cache, read what providers say:

    count_tokens                      the size of messages, system prompt and tools
    normalize_usage, CanonicalUsage   any provider's usage in one shape
    classify_error                    what a refusal means: kind, limit, when to try again
    apply_cache_control               where a request's cache breakpoints go

Keep it:

    open_store                        sessions, compactions, search, usage; on SQLite or PostgreSQL

Contracts to implement (`clew.testing` has the test suite of context engines):

    ContextEngine                     when to compact, and how; `compress` is its one abstract method
    ContextCompressor                 the default engine: head, handoff, tail
    LosslessEngine                    the engine `lcm`: a map of summaries, each of which can be opened again
    clew.store.Store                  where history lives
    clew.providers.Provider           who answers a request

Errors, all below `ClewError`; `clew.errors` says what each means:

    InvalidArgument, InvalidMessage, UnreadableTranscript, PluginError, NoModel, SummaryFailed, ProviderRefused,
    FetchFailed, ConflictingCredentials, ContextExhausted, MemoryUnusable, UnreadableCommand, SandboxUnavailable
    ConfigError, and below it InvalidConfig
    StoreError, and below it UnknownSession, UnknownKey, AmbiguousSession, NoDatabase, StaleView, StaleHistory,
    LeaseLost, InUse, SchemaTooNew, DatabaseBusy, DatabaseFull, ReadOnlyStore, DatabaseDamaged, IndexDamaged, DamagedRow

Everything else may move. Names are imported when first used, so that `import clew` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.lazy import lazy_names

if TYPE_CHECKING:
    from clew.caching import apply_cache_control
    from clew.engines import ContextCompressor, ContextEngine, LosslessEngine
    from clew.errors import (
        AmbiguousSession,
        ClewError,
        ConfigError,
        ConflictingCredentials,
        ContextExhausted,
        DamagedRow,
        DatabaseBusy,
        DatabaseDamaged,
        DatabaseFull,
        FetchFailed,
        IndexDamaged,
        InUse,
        InvalidArgument,
        InvalidConfig,
        InvalidMessage,
        LeaseLost,
        MemoryUnusable,
        NoDatabase,
        NoModel,
        PluginError,
        ProviderRefused,
        ReadOnlyStore,
        SandboxUnavailable,
        SchemaTooNew,
        StaleHistory,
        StaleView,
        StoreError,
        SummaryFailed,
        UnknownKey,
        UnknownSession,
        UnreadableCommand,
        UnreadableTranscript,
    )
    from clew.library import Compressed, acompress, compress, preview
    from clew.providers import classify_error
    from clew.store import open_store
    from clew.tokens import count_tokens
    from clew.turn import Projection
    from clew.usage import CanonicalUsage, normalize_usage

__version__ = "0.1.0"
__all__ = [
    "AmbiguousSession",
    "CanonicalUsage",
    "ClewError",
    "Compressed",
    "ConfigError",
    "ConflictingCredentials",
    "ContextCompressor",
    "ContextEngine",
    "ContextExhausted",
    "DamagedRow",
    "DatabaseBusy",
    "DatabaseDamaged",
    "DatabaseFull",
    "FetchFailed",
    "InUse",
    "IndexDamaged",
    "InvalidArgument",
    "InvalidConfig",
    "InvalidMessage",
    "LeaseLost",
    "LosslessEngine",
    "MemoryUnusable",
    "NoDatabase",
    "NoModel",
    "PluginError",
    "Projection",
    "ProviderRefused",
    "ReadOnlyStore",
    "SandboxUnavailable",
    "SchemaTooNew",
    "StaleHistory",
    "StaleView",
    "StoreError",
    "SummaryFailed",
    "UnknownKey",
    "UnknownSession",
    "UnreadableCommand",
    "UnreadableTranscript",
    "acompress",
    "apply_cache_control",
    "classify_error",
    "compress",
    "count_tokens",
    "normalize_usage",
    "open_store",
    "preview",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".caching": "apply_cache_control",
        ".engines": "ContextCompressor ContextEngine LosslessEngine",
        ".errors": "AmbiguousSession ClewError ConfigError ConflictingCredentials ContextExhausted DamagedRow "
        "DatabaseBusy DatabaseDamaged DatabaseFull FetchFailed InUse IndexDamaged InvalidArgument InvalidConfig "
        "InvalidMessage LeaseLost MemoryUnusable NoDatabase NoModel PluginError ProviderRefused ReadOnlyStore "
        "SandboxUnavailable SchemaTooNew StaleHistory StaleView StoreError SummaryFailed UnknownKey UnknownSession "
        "UnreadableCommand UnreadableTranscript",
        ".library": "Compressed acompress compress preview",
        ".providers": "classify_error",
        ".store": "open_store",
        ".tokens": "count_tokens",
        ".turn": "Projection",
        ".usage": "CanonicalUsage normalize_usage",
    },
)
