"""Summaries: handoffs written by a model or, with no model, out of the ledger; how they stand in a conversation.

Knows messages, the ledger and templates. A model is a callable; an engine, a store or a provider is not known here.
"""

from clew.summaries.builtin import BUILTIN, summarize_builtin, write_handoff
from clew.summaries.chunks import Coverage
from clew.summaries.cooldowns import Cooldowns
from clew.summaries.handoff import HEADINGS, Handoff, parse_handoff
from clew.summaries.model import SummaryModel, summary_model
from clew.summaries.policy import ModelSummarizer, ModelSummary, Patience, model_summarizer
from clew.summaries.story import CountTokens, Story, Summarize, Summary
from clew.summaries.wrapping import END_MARKER, PREFIX, SYSTEM_NOTE, Wrapped, unwrap, wrap

__all__ = [
    "BUILTIN",
    "END_MARKER",
    "HEADINGS",
    "PREFIX",
    "SYSTEM_NOTE",
    "Cooldowns",
    "CountTokens",
    "Coverage",
    "Handoff",
    "ModelSummarizer",
    "ModelSummary",
    "Patience",
    "Story",
    "Summarize",
    "Summary",
    "SummaryModel",
    "Wrapped",
    "model_summarizer",
    "parse_handoff",
    "summarize_builtin",
    "summary_model",
    "unwrap",
    "wrap",
    "write_handoff",
]
