"""Facts: what happened in a conversation, as values. A message becomes parts, parts become facts, facts a record.

Serves handoffs, `/state`, recall and search labels. Budgets, headings, engines and models are not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.facts.outcomes import Outcome, read_outcome
from clew.facts.parts import Part, PartKind, code_parts, file_parts, output_parts, prose_parts
from clew.facts.record import Action, Exchange, FileFact, Record, Rule, StateLine
from clew.facts.speech import announces, asks_back, is_question, person_text, rules_in
from clew.facts.text import CUT, Terms, flatten, prose_pieces, sentences, shorten, tagged_blocks, without_blocks
from clew.facts.tools import CallReading, FileEffect, PlanEntry, Verb, file_effects, read_call, verb_of
from clew.lazy import lazy_names

if TYPE_CHECKING:
    from clew.facts.state import FACT_KINDS, Entity, Fact, FactKind, StateRecord, entities_of
    from clew.facts.titles import clean_title, title_of

__all__ = [
    "CUT", "FACT_KINDS", "Action", "CallReading", "Entity", "Exchange", "Fact", "FactKind", "FileEffect", "FileFact",
    "Outcome", "Part", "PartKind", "PlanEntry", "Record", "Rule", "StateLine", "StateRecord", "Terms", "Verb",
    "announces", "asks_back", "clean_title", "code_parts", "entities_of", "file_effects", "file_parts", "flatten",
    "is_question", "output_parts", "person_text", "prose_parts", "prose_pieces", "read_call", "read_outcome",
    "rules_in", "sentences", "shorten", "tagged_blocks", "title_of", "verb_of", "without_blocks",
]  # fmt: skip

# `/state` and lists of conversations need these, a fold does not.
__getattr__, __dir__ = lazy_names(
    __name__,
    {".state": "FACT_KINDS Entity Fact FactKind StateRecord entities_of", ".titles": "clean_title title_of"},
)
