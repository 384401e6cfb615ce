"""Engines: when to compact a conversation, and how. One contract, the compressor behind it, others as plugins.

Knows messages, tokens, facts and handoffs. Knows no database, no provider and no screen.
"""

from clew.engines.base import (
    CONTEXT_ENGINE,
    AskModel,
    ContextEngine,
    EngineFactory,
    EngineSetup,
    EngineStatus,
    SessionStart,
    checked_tokens,
    checked_topic,
    checked_window,
    problem_with_engine,
    register_context_engine,
    threshold_for,
)
from clew.engines.built_in import EngineCatalog, engine_catalog, register_built_in_engines
from clew.engines.checks import account_problems, broken_promises, check_engine
from clew.engines.compaction import (
    Added,
    Changed,
    Compaction,
    CompactionItem,
    CompactionPreview,
    CompactionRegion,
    Fate,
    Kept,
    Node,
    Removed,
    Summarized,
    messages_of,
)
from clew.engines.compressor import (
    Budgets,
    ContextCompressor,
    budgets_for,
    budgets_for_target,
    kept_items,
    repair_warnings,
)
from clew.engines.host import EngineHost, HistoryHit, HistoryHits, HistoryQuery, HistoryRow
from clew.engines.lossless import LosslessEngine, map_problems
from clew.engines.lossless.nodes import nodes_in_map

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
