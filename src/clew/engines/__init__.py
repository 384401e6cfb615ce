"""Engines: when to compact a conversation, and how. One contract, the compressor behind it, others as plugins.

Knows messages, tokens, the ledger and summaries. Knows no database, no provider and no screen.
"""

from clew.engines.base import Compaction, ContextEngine, EngineStatus, Fate, SessionStart
from clew.engines.compressor import Budgets, CompressorSettings, ContextCompressor, budgets_for, budgets_for_target

__all__ = [
    "Budgets",
    "Compaction",
    "CompressorSettings",
    "ContextCompressor",
    "ContextEngine",
    "EngineStatus",
    "Fate",
    "SessionStart",
    "budgets_for",
    "budgets_for_target",
]
