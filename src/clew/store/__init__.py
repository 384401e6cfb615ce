"""The store: an append-only history of conversations, with views, compactions, usage and search.

Rows are written once; a compaction is an entry that refers to them, and what a session shows is folded from entries.
SQLite and PostgreSQL fulfil one contract. Knows no engine, no provider and no turn.
"""

from clew.store.base import (
    COMPRESSION,
    Appended,
    Compaction,
    CompactionEntry,
    LearntWindow,
    Lease,
    NewMessage,
    Output,
    Rows,
    Session,
    SessionKind,
    StoredMessage,
    Synced,
    View,
    ViewItem,
    Written,
)
from clew.store.calls import AUXILIARY, CallFilter, CallSource, Grouping, ModelCall, UsageTotal
from clew.store.docs import DocKind
from clew.store.health import HealthProblem
from clew.store.identity import Chain
from clew.store.opening import open_store
from clew.store.outputs import NewOutput
from clew.store.problems import (
    DatabaseBusy,
    DatabaseFull,
    IndexDamaged,
    InUse,
    LeaseLost,
    SchemaTooNew,
    StaleHistory,
    StaleView,
    UnknownSession,
)
from clew.store.search import Hit, HitGroup, SearchAnswer, Searched, SearchScope
from clew.store.sessions import NewSession
from clew.store.snippet import Snippet
from clew.store.store import Store

__all__ = [
    "AUXILIARY",
    "COMPRESSION",
    "Appended",
    "CallFilter",
    "CallSource",
    "Chain",
    "Compaction",
    "CompactionEntry",
    "DatabaseBusy",
    "DatabaseFull",
    "DocKind",
    "Grouping",
    "HealthProblem",
    "Hit",
    "HitGroup",
    "InUse",
    "IndexDamaged",
    "LearntWindow",
    "Lease",
    "LeaseLost",
    "ModelCall",
    "NewMessage",
    "NewOutput",
    "NewSession",
    "Output",
    "Rows",
    "SchemaTooNew",
    "SearchAnswer",
    "SearchScope",
    "Searched",
    "Session",
    "SessionKind",
    "Snippet",
    "StaleHistory",
    "StaleView",
    "Store",
    "StoredMessage",
    "Synced",
    "UnknownSession",
    "UsageTotal",
    "View",
    "ViewItem",
    "Written",
    "open_store",
]
