"""Summaries: handoffs written by a model or, without one, by the built-in summariser, and their form in messages.

An engine gives a `SummaryInput` and a budget, and gets a `Summary`. A model is a callable; engines, stores and
providers are not known here.
"""

from clew.summaries.builtin import BUILTIN, summarize_builtin, write_handoff
from clew.summaries.chunks import Coverage
from clew.summaries.handoff import (
    END_MARKER,
    HEADINGS,
    PREFIX,
    SYSTEM_NOTE,
    Cooldowns,
    CountTokens,
    Handoff,
    Summarize,
    Summary,
    SummaryInput,
    WrappedSummary,
    parse_handoff,
    unwrap,
    wrap,
)
from clew.summaries.model import Complete, ConversationExtension, SummaryModel, summary_model
from clew.summaries.prompt import is_instruction
from clew.summaries.summarizer import ModelSummarizer, ModelSummary

__all__ = [
    "BUILTIN",
    "END_MARKER",
    "HEADINGS",
    "PREFIX",
    "SYSTEM_NOTE",
    "Complete",
    "ConversationExtension",
    "Cooldowns",
    "CountTokens",
    "Coverage",
    "Handoff",
    "ModelSummarizer",
    "ModelSummary",
    "Summarize",
    "Summary",
    "SummaryInput",
    "SummaryModel",
    "WrappedSummary",
    "is_instruction",
    "parse_handoff",
    "summarize_builtin",
    "summary_model",
    "unwrap",
    "wrap",
    "write_handoff",
]
