"""Engines: when to compact a conversation, and how. One contract, the compressor behind it, others as plugins.

Knows messages, tokens, facts and handoffs. Knows no database, no provider and no screen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.engines.base import (
    Added,
    AskModel,
    Changed,
    Compaction,
    CompactionItem,
    CompactionPreview,
    CompactionRegion,
    ContextEngine,
    EngineFactory,
    EngineHost,
    EngineSetup,
    EngineStatus,
    Fate,
    HistoryHit,
    HistoryHits,
    HistoryQuery,
    HistoryRow,
    Kept,
    Node,
    Removed,
    SessionStart,
    Summarized,
    checked_compaction,
    checked_tokens,
    checked_topic,
    checked_window,
    messages_of,
    threshold_for,
)
from clew.engines.compressor import (
    Budgets,
    ContextCompressor,
    budgets_for,
    budgets_for_target,
    kept_items,
    repair_warnings,
)
from clew.lazy import lazy_names

if TYPE_CHECKING:
    from clew.engines.built_in import (
        CONTEXT_ENGINE,
        EngineCatalog,
        engine_catalog,
        problem_with_engine,
        register_built_in_engines,
        register_context_engine,
    )
    from clew.engines.checks import account_problems, broken_promises, check_engine
    from clew.engines.lossless import LosslessEngine, map_problems
    from clew.engines.lossless.map_text import nodes_in_map

__all__ = [
    "CONTEXT_ENGINE",
    "Added",
    "AskModel",
    "Budgets",
    "Changed",
    "Compaction",
    "CompactionItem",
    "CompactionPreview",
    "CompactionRegion",
    "ContextCompressor",
    "ContextEngine",
    "EngineCatalog",
    "EngineFactory",
    "EngineHost",
    "EngineSetup",
    "EngineStatus",
    "Fate",
    "HistoryHit",
    "HistoryHits",
    "HistoryQuery",
    "HistoryRow",
    "Kept",
    "LosslessEngine",
    "Node",
    "Removed",
    "SessionStart",
    "Summarized",
    "account_problems",
    "broken_promises",
    "budgets_for",
    "budgets_for_target",
    "check_engine",
    "checked_compaction",
    "checked_tokens",
    "checked_topic",
    "checked_window",
    "engine_catalog",
    "kept_items",
    "map_problems",
    "messages_of",
    "nodes_in_map",
    "problem_with_engine",
    "register_built_in_engines",
    "register_context_engine",
    "repair_warnings",
    "threshold_for",
]

# A fold with the compressor needs none of these.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".built_in": "CONTEXT_ENGINE EngineCatalog engine_catalog problem_with_engine register_built_in_engines "
        "register_context_engine",
        ".checks": "account_problems broken_promises check_engine",
        ".lossless": "LosslessEngine map_problems",
        ".lossless.map_text": "nodes_in_map",
    },
)
