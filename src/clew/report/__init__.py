"""The report: what a compaction did, as an account for people and as a page to look at.

Knows engines, the ledger and messages. Knows no terminal, no file and no network: a page is a text that needs
nothing but itself.
"""

from clew.report.account import (
    Account,
    Cell,
    CostPerRequest,
    Share,
    Stretch,
    account_of,
    foreseen,
    merged_handoff,
    stretches_of,
)
from clew.report.facts import Fact, LostString, Survival, survival_of
from clew.report.page import report_page
from clew.report.texts import shown_text

__all__ = [
    "Account",
    "Cell",
    "CostPerRequest",
    "Fact",
    "LostString",
    "Share",
    "Stretch",
    "Survival",
    "account_of",
    "foreseen",
    "merged_handoff",
    "report_page",
    "shown_text",
    "stretches_of",
    "survival_of",
]
