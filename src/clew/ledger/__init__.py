"""The ledger: facts out of messages, each with where it came from; ranked, quoted and checked.

Knows messages and characters. Knows no tokens, no budget of a window, no headings, no model.
"""

from clew.ledger.atoms import atoms_in, is_name, is_path
from clew.ledger.fragments import FragmentChooser, ReadMessage
from clew.ledger.index import AtomIndex, parts_of, whole_text
from clew.ledger.ledger import Action, Ask, FileFact, Ledger, State
from clew.ledger.outcomes import Outcome, read_outcome
from clew.ledger.plans import PlanItem
from clew.ledger.pruned import outcome_of
from clew.ledger.statements import (
    Statement,
    first_sentence,
    is_question,
    replaced_by,
    replaces,
    rules_in,
    shorten,
    spoken,
)
from clew.ledger.tools import Verb, arguments_of, plain_name, target_of, verb_of

__all__ = [
    "Action",
    "Ask",
    "AtomIndex",
    "FileFact",
    "FragmentChooser",
    "Ledger",
    "Outcome",
    "PlanItem",
    "ReadMessage",
    "State",
    "Statement",
    "Verb",
    "arguments_of",
    "atoms_in",
    "first_sentence",
    "is_name",
    "is_path",
    "is_question",
    "outcome_of",
    "parts_of",
    "plain_name",
    "read_outcome",
    "replaced_by",
    "replaces",
    "rules_in",
    "shorten",
    "spoken",
    "target_of",
    "verb_of",
    "whole_text",
]
