"""Turns: from a message to a reply, the same for library, agent and gateway.

`run_turn` puts messages into the history, makes the request fit, sends it, makes it smaller where the provider says it
is too large, and records the reply. `Runtime` opens conversations; whatever changes one is a method of `Conversation`.
Knows the store, engines, caching and providers; knows no tool, screen or wire.
"""

from clew.errors import ContextExhausted
from clew.turn.automatic_recall import RecallCounts, is_recall, recall_counts
from clew.turn.compaction import (
    PreparedCompaction,
    handoff_of,
    handoff_text_of,
    prepared_from_plain,
    prepared_to_plain,
    uninterruptible,
)
from clew.turn.context_parts import ContextPart, context_parts, share_of
from clew.turn.conversation import Conversation
from clew.turn.fold_prices import (
    CACHE_SECONDS,
    COLD_AT,
    FINISHED_AT,
    FOLD_BEFORE_SECONDS,
    HANDOFF_SHARE,
    IDLE_AT,
    KEPT_SHARE,
    NextMessageCost,
    cold_fold_pays,
    early_fold_pays,
    handoff_pays,
    next_message_cost,
    reports_finished,
)
from clew.turn.projection import EventLoopThread, Projection
from clew.turn.recall import (
    OPENED_CHARS,
    PAGE_CHARS,
    SHORT_CHARS,
    CallLink,
    FoundMessage,
    FoundPage,
    OpenedMessage,
    OpenedPage,
    found_label,
    found_texts,
    hit_text,
    is_message_name,
    message_text,
    open_messages,
    opened_label,
    position_of,
    reading_on,
    search_history,
)
from clew.turn.recover import Recovery, is_overflow, largest_parts
from clew.turn.request import (
    HostCalls,
    ModelTarget,
    RuntimeOptions,
    ServingModel,
    TurnOptions,
    call_of,
    summary_model_of,
    window_for,
)
from clew.turn.run import BROKEN_OFF, STOPPED, answer, bound_newest, keep_partial_reply, receive, run_turn
from clew.turn.runtime import Runtime, spill_folder
from clew.turn.sent_history import ProjectedConversation, RecalledMessage, TakenHistory
from clew.turn.state_entities import ConversationState, describe_entity, read_conversation_state, state_lines
from clew.turn.view import Pin

__all__ = [
    "BROKEN_OFF",
    "CACHE_SECONDS",
    "COLD_AT",
    "FINISHED_AT",
    "FOLD_BEFORE_SECONDS",
    "HANDOFF_SHARE",
    "IDLE_AT",
    "KEPT_SHARE",
    "OPENED_CHARS",
    "PAGE_CHARS",
    "SHORT_CHARS",
    "STOPPED",
    "CallLink",
    "ContextExhausted",
    "ContextPart",
    "Conversation",
    "ConversationState",
    "EventLoopThread",
    "FoundMessage",
    "FoundPage",
    "HostCalls",
    "ModelTarget",
    "NextMessageCost",
    "OpenedMessage",
    "OpenedPage",
    "Pin",
    "PreparedCompaction",
    "ProjectedConversation",
    "Projection",
    "RecallCounts",
    "RecalledMessage",
    "Recovery",
    "Runtime",
    "RuntimeOptions",
    "ServingModel",
    "TakenHistory",
    "TurnOptions",
    "answer",
    "bound_newest",
    "call_of",
    "cold_fold_pays",
    "context_parts",
    "describe_entity",
    "early_fold_pays",
    "found_label",
    "found_texts",
    "handoff_of",
    "handoff_pays",
    "handoff_text_of",
    "hit_text",
    "is_message_name",
    "is_overflow",
    "is_recall",
    "keep_partial_reply",
    "largest_parts",
    "message_text",
    "next_message_cost",
    "open_messages",
    "opened_label",
    "position_of",
    "prepared_from_plain",
    "prepared_to_plain",
    "read_conversation_state",
    "reading_on",
    "recall_counts",
    "receive",
    "reports_finished",
    "run_turn",
    "search_history",
    "share_of",
    "spill_folder",
    "state_lines",
    "summary_model_of",
    "uninterruptible",
    "window_for",
]
