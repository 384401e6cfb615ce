"""The turn: one walk from a message to a reply, the same for library, agent and gateway.

Messages enter the history, the request is made to fit, sent, recovered where a provider says it is too large, and the
reply is recorded with what it took. Knows the store, engines, caching and providers; knows no tool, screen or wire.
"""

from clew.turn.build import Ask, cache_policy
from clew.turn.compaction import Draft
from clew.turn.fit import apply_draft, compact_now, preview_compaction, undo_compaction
from clew.turn.intake import follow_sync
from clew.turn.live import LiveConversation
from clew.turn.pins import Pin, pin, pins_of, unpin
from clew.turn.problems import ContextExhausted
from clew.turn.run import answer, receive, run_turn
from clew.turn.runtime import Host, Runtime, spill_folder
from clew.turn.summarizer import summary_model_of
from clew.turn.target import Target
from clew.turn.unbroken import unbroken

__all__ = [
    "Ask",
    "ContextExhausted",
    "Draft",
    "Host",
    "LiveConversation",
    "Pin",
    "Runtime",
    "Target",
    "answer",
    "apply_draft",
    "cache_policy",
    "compact_now",
    "follow_sync",
    "pin",
    "pins_of",
    "preview_compaction",
    "receive",
    "run_turn",
    "spill_folder",
    "summary_model_of",
    "unbroken",
    "undo_compaction",
    "unpin",
]
