"""Handoffs: written by a model or, without one, by the built-in summariser; their value, text and form in messages.

An engine gives a `SummaryInput` and a budget, and gets a `Summary`. A model is a callable; engines, stores and
providers are not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.handoff.builtin import BUILTIN, summarize_builtin, write_handoff
from clew.handoff.candidates import Candidate, ReadMessage, read_material
from clew.handoff.select import Choice, Frame, excerpt, select
from clew.handoff.summary import Compute, Cooldowns, CountTokens, Summarize, Summary, SummaryInput, compute_now
from clew.handoff.value import (
    ACTIVE_TASK,
    COMPLETED,
    END_MARKER,
    HANDOFF_OPENING,
    HEADINGS,
    PREFIX,
    SHORTENED,
    SYSTEM_NOTE,
    Entry,
    Handoff,
    ListStyle,
    WrappedSummary,
    list_style,
    unwrap,
    wrap,
)
from clew.handoff.worth import Worth
from clew.lazy import lazy_names

if TYPE_CHECKING:
    from clew.handoff.chunks import Coverage
    from clew.handoff.complete import UNVERIFIED_MARK
    from clew.handoff.model import (
        Complete,
        ConversationExtension,
        SummaryModel,
        summary_model,
        summary_model_for,
    )
    from clew.handoff.prompt import is_instruction
    from clew.handoff.spans import Line, Span, read_line, references_in
    from clew.handoff.writer import ModelSummarizer, ModelSummary

__all__ = [
    "ACTIVE_TASK", "BUILTIN", "COMPLETED", "END_MARKER", "HANDOFF_OPENING", "HEADINGS", "PREFIX", "SHORTENED",
    "SYSTEM_NOTE", "UNVERIFIED_MARK", "Candidate", "Choice", "Complete", "Compute", "ConversationExtension",
    "Cooldowns", "CountTokens", "Coverage", "Entry", "Frame", "Handoff", "Line", "ListStyle", "ModelSummarizer",
    "ModelSummary", "ReadMessage", "Span", "Summarize", "Summary", "SummaryInput", "SummaryModel", "Worth",
    "WrappedSummary", "compute_now", "excerpt", "is_instruction", "list_style", "read_line", "read_material",
    "references_in", "select", "summarize_builtin", "summary_model", "summary_model_for", "unwrap", "wrap",
    "write_handoff",
]  # fmt: skip

# The built-in summariser needs none of these.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".chunks": "Coverage",
        ".complete": "UNVERIFIED_MARK",
        ".model": "Complete ConversationExtension SummaryModel summary_model summary_model_for",
        ".prompt": "is_instruction",
        ".spans": "Line Span read_line references_in",
        ".writer": "ModelSummarizer ModelSummary",
    },
)
