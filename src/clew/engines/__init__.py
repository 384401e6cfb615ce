"""Engines: when to compact a conversation, and how. One contract, the compressor behind it, others as plugins.

Knows messages, tokens, the ledger and summaries. Knows no database, no provider and no screen.
"""

from clew.engines.base import Compaction, ContextEngine, EngineStatus, Fate, SessionStart

__all__ = ["Compaction", "ContextEngine", "EngineStatus", "Fate", "SessionStart"]
