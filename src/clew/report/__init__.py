"""The report of a compaction: the fate of every message, as values for the terminal and as a page to look at.

A page is a text that needs no file and no network.
"""

from clew.report.compaction_report import (
    CompactionReport,
    MessageOutcome,
    RegionGroup,
    RequestCost,
    RequestPart,
    build_report,
    compaction_outcomes,
    group_by_region,
    merged_handoff_tokens,
    previewed_outcomes,
    redacted_report,
    request_parts,
    summary_tokens,
)
from clew.report.page import page_style, page_templates, report_page, shown_text, style_hash
from clew.report.retention import FoldedFact, LostString, Retention, measure_retention, text_with_calls

__all__ = [
    "CompactionReport",
    "FoldedFact",
    "LostString",
    "MessageOutcome",
    "RegionGroup",
    "RequestCost",
    "RequestPart",
    "Retention",
    "build_report",
    "compaction_outcomes",
    "group_by_region",
    "measure_retention",
    "merged_handoff_tokens",
    "page_style",
    "page_templates",
    "previewed_outcomes",
    "redacted_report",
    "report_page",
    "request_parts",
    "shown_text",
    "style_hash",
    "summary_tokens",
    "text_with_calls",
]
