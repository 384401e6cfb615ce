"""The store: an append-only history of conversations, with views, compactions, usage and search.

Messages are stored once and never changed. A compaction is an entry that refers to them; the view of a session is
computed from entries. SQLite and PostgreSQL have the same contract. Start with `open_store`, which gives a `Store`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clew.errors import (
    DamagedRow,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseFull,
    IndexDamaged,
    InUse,
    LeaseLost,
    ReadOnlyStore,
    SchemaTooNew,
    StaleHistory,
    StaleView,
    UnknownKey,
    UnknownSession,
)
from clew.store.base import (
    COMPRESSION,
    RECALLS,
    AppendResult,
    CommittedCompaction,
    CompactionEntry,
    EngineRecord,
    LearntWindow,
    Lease,
    NewMessage,
    Rows,
    Session,
    SessionKind,
    StoredMessage,
    StoredOutput,
    SyncResult,
    View,
    ViewItem,
    WrittenMessage,
)
from clew.store.calls import (
    AUXILIARY,
    CACHE_TTL_STATE,
    CLIENT_STATE,
    WINDOW_STATE,
    CallFilter,
    CallSource,
    Grouping,
    ModelCall,
    UsageTotal,
)
from clew.store.database import Clock, Database, wall_clock
from clew.store.export import export_in_shape, history_rows, system_message
from clew.store.files import FileModeProblem, back_up_database, check_file_modes, list_backups, make_private
from clew.store.keys import (
    AccessKey,
    CallBucket,
    KeyHandoffs,
    KeyMode,
    KeyRecall,
    KeyStore,
    NewKey,
    Reservation,
    TakenCalls,
)
from clew.store.maintenance import HealthProblem
from clew.store.nodes import LEFT_OUT, NewNode, NodePublication, StoredNode
from clew.store.overview import (
    CompactionAccount,
    CompactionStats,
    ConversationDigest,
    ConversationOverview,
    MessageSize,
    RecordedCall,
    StoredWindow,
    ViewOutline,
)
from clew.store.quarantine import QuarantinedRow
from clew.store.rows import chains_of
from clew.store.search.base import (
    DocKind,
    SearchCoverage,
    SearchHit,
    SearchHitGroup,
    SearchResult,
    SearchScope,
    Snippet,
    SnippetSizes,
)
from clew.store.search.parts import parts_around
from clew.store.search.ranking import excerpts_around
from clew.store.search.vectors import Embedder, installed_embedder
from clew.store.search.words import call_text
from clew.store.session_names import NO_LIMIT, find_session, plugin_session_id, sessions_by_id, short_ids
from clew.store.sessions import NewSession
from clew.store.sqlite import MEMORY, Flush, OnStatement, open_sqlite
from clew.store.state import NewOutput
from clew.store.store import Store

_POSTGRES = ("postgresql://", "postgres://")
_SQLITE = "sqlite://"


@asynccontextmanager
async def open_store(
    url: str | Path,
    *,
    busy_seconds: float = 30.0,
    flush: Flush = "full",
    clock: Clock = wall_clock,
    on_statement: OnStatement | None = None,
    embedder: Embedder | None = None,
) -> AsyncIterator[Store]:
    """A store in a file (created if it is not there), in memory (":memory:"), or on a server (postgresql://...).

    `busy_seconds` is how long to wait for other processes. `flush="normal"` is faster and may lose the last moments
    before a power cut; SQLite only. `on_statement` gets each statement before it runs, for tests and tracing.
    With an `embedder` questions are also found by what they mean.
    """
    text = str(url)
    database: Database
    if text.startswith(_POSTGRES):
        from clew.store.postgres import open_postgres

        database = await open_postgres(text, busy_seconds=busy_seconds, on_statement=on_statement)
    else:
        where = text[len(_SQLITE) :] or MEMORY if text.startswith(_SQLITE) else text
        database = await open_sqlite(where, busy_seconds=busy_seconds, flush=flush, on_statement=on_statement)
    store = Store(database, clock, embedder)
    try:
        yield store
    finally:
        await store.close()


__all__ = [
    "AUXILIARY",
    "CACHE_TTL_STATE",
    "CLIENT_STATE",
    "COMPRESSION",
    "LEFT_OUT",
    "NO_LIMIT",
    "RECALLS",
    "WINDOW_STATE",
    "AccessKey",
    "AppendResult",
    "CallBucket",
    "CallFilter",
    "CallSource",
    "CommittedCompaction",
    "CompactionAccount",
    "CompactionEntry",
    "CompactionStats",
    "ConversationDigest",
    "ConversationOverview",
    "DamagedRow",
    "DatabaseBusy",
    "DatabaseDamaged",
    "DatabaseFull",
    "DocKind",
    "Embedder",
    "EngineRecord",
    "FileModeProblem",
    "Grouping",
    "HealthProblem",
    "InUse",
    "IndexDamaged",
    "KeyHandoffs",
    "KeyMode",
    "KeyRecall",
    "KeyStore",
    "LearntWindow",
    "Lease",
    "LeaseLost",
    "MessageSize",
    "ModelCall",
    "NewKey",
    "NewMessage",
    "NewNode",
    "NewOutput",
    "NewSession",
    "NodePublication",
    "QuarantinedRow",
    "ReadOnlyStore",
    "RecordedCall",
    "Reservation",
    "Rows",
    "SchemaTooNew",
    "SearchCoverage",
    "SearchHit",
    "SearchHitGroup",
    "SearchResult",
    "SearchScope",
    "Session",
    "SessionKind",
    "Snippet",
    "SnippetSizes",
    "StaleHistory",
    "StaleView",
    "Store",
    "StoredMessage",
    "StoredNode",
    "StoredOutput",
    "StoredWindow",
    "SyncResult",
    "TakenCalls",
    "UnknownKey",
    "UnknownSession",
    "UsageTotal",
    "View",
    "ViewItem",
    "ViewOutline",
    "WrittenMessage",
    "back_up_database",
    "call_text",
    "chains_of",
    "check_file_modes",
    "excerpts_around",
    "export_in_shape",
    "find_session",
    "history_rows",
    "installed_embedder",
    "list_backups",
    "make_private",
    "open_store",
    "parts_around",
    "plugin_session_id",
    "sessions_by_id",
    "short_ids",
    "system_message",
]
