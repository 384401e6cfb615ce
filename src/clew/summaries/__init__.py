"""Summaries: handoffs written by a model or, with no model, out of the ledger; how they stand in a conversation.

Knows messages, the ledger and templates. A model is a callable; an engine, a store or a provider is not known here.
"""

from clew.summaries.builtin import BUILTIN, summarize_builtin, write_handoff
from clew.summaries.handoff import HEADINGS, Handoff, parse_handoff
from clew.summaries.story import CountTokens, Story, Summarize, Summary
from clew.summaries.wrapping import END_MARKER, PREFIX, SYSTEM_NOTE, Wrapped, unwrap, wrap

__all__ = [
    "BUILTIN",
    "END_MARKER",
    "HEADINGS",
    "PREFIX",
    "SYSTEM_NOTE",
    "CountTokens",
    "Handoff",
    "Story",
    "Summarize",
    "Summary",
    "Wrapped",
    "parse_handoff",
    "summarize_builtin",
    "unwrap",
    "wrap",
    "write_handoff",
]
