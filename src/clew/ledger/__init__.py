"""The ledger: facts out of messages, each with the number of its message; ranked, quoted and verified.

`Ledger` records a conversation, `QuoteSelector` picks what to quote of it, and `verify` checks a text against it.
Tokens, budgets, headings and models are not known here.
"""

from clew.ledger.atoms import AtomIndex, atoms_by_word, atoms_in, candidate_words, is_name, is_path, plain_words_in
from clew.ledger.entities import ENTITY_KINDS, Entity, EntityChange, EntityKind, EntityReader, entities_of
from clew.ledger.extract import (
    LedgerStatement,
    deliberates,
    is_opening,
    is_question,
    quotable_texts,
    rule_replaced_by,
    rules_in,
    shorten,
    text_with_calls,
)
from clew.ledger.failures import LastFailure, found_nothing, is_slip, last_failures, only_looks, outdated_results
from clew.ledger.focus import FocusTopic
from clew.ledger.ledger import (
    Action,
    FileFact,
    Ledger,
    LedgerExchange,
    UserRequest,
    WorkState,
    actions_by_exchange,
    owners_of,
)
from clew.ledger.outcomes import COMPLAINS, CallOutcome, outcome_of, read_outcome, result_line
from clew.ledger.quotes import QuoteSelector, ReadMessage
from clew.ledger.readable import left_out
from clew.ledger.requests import alike_in_a_row, goes_on, is_only_pleased, person_said, says_nothing, shows_command
from clew.ledger.spans import is_routine, joined_definitions
from clew.ledger.tools import (
    COMMAND_CHARS_READ,
    HERE_DOCUMENT,
    PlanItem,
    Verb,
    arguments_text,
    files_changed_by,
    verb_of,
    without_folder,
)
from clew.ledger.verify import UNVERIFIED_MARK

__all__ = [
    "COMMAND_CHARS_READ",
    "COMPLAINS",
    "ENTITY_KINDS",
    "HERE_DOCUMENT",
    "UNVERIFIED_MARK",
    "Action",
    "AtomIndex",
    "CallOutcome",
    "Entity",
    "EntityChange",
    "EntityKind",
    "EntityReader",
    "FileFact",
    "FocusTopic",
    "LastFailure",
    "Ledger",
    "LedgerExchange",
    "LedgerStatement",
    "PlanItem",
    "QuoteSelector",
    "ReadMessage",
    "UserRequest",
    "Verb",
    "WorkState",
    "actions_by_exchange",
    "alike_in_a_row",
    "arguments_text",
    "atoms_by_word",
    "atoms_in",
    "candidate_words",
    "deliberates",
    "entities_of",
    "files_changed_by",
    "found_nothing",
    "goes_on",
    "is_name",
    "is_only_pleased",
    "is_opening",
    "is_path",
    "is_question",
    "is_routine",
    "is_slip",
    "joined_definitions",
    "last_failures",
    "left_out",
    "only_looks",
    "outcome_of",
    "outdated_results",
    "owners_of",
    "person_said",
    "plain_words_in",
    "quotable_texts",
    "read_outcome",
    "result_line",
    "rule_replaced_by",
    "rules_in",
    "says_nothing",
    "shorten",
    "shows_command",
    "text_with_calls",
    "verb_of",
    "without_folder",
]
