"""Engines: when to compact a conversation, and how. One contract, the compressor behind it, others as plugins.

Knows messages, tokens, the ledger and summaries. Knows no database, no provider and no screen.
"""

from clew.engines.base import Compaction, ContextEngine, EngineStatus, Fate, Place, Preview, SessionStart
from clew.engines.compressor import Budgets, ContextCompressor, budgets_for, budgets_for_target, repairs_told
from clew.engines.promises import broken_promises
from clew.engines.selfcheck import check_engine
from clew.engines.setup import CONTEXT_ENGINE, EngineFactory, EngineSetup, register_context_engine

__all__ = [
    "CONTEXT_ENGINE",
    "Budgets",
    "Compaction",
    "ContextCompressor",
    "ContextEngine",
    "EngineFactory",
    "EngineSetup",
    "EngineStatus",
    "Fate",
    "Place",
    "Preview",
    "SessionStart",
    "broken_promises",
    "budgets_for",
    "budgets_for_target",
    "check_engine",
    "register_context_engine",
    "repairs_told",
]
