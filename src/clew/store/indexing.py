"""Keeping the index in step with the rows: which texts are searchable, and how far the index reaches. As steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.store.database import WordIndex
from clew.store.docs import Doc, DocKind, Origin, docs_of
from clew.store.encoding import json_value, message_of
from clew.store.rowtext import BODY, read_messages
from clew.store.steps import Row, Steps, one, rows, run
from clew.store.words import searchable_text, whole_text

KINDS: tuple[DocKind, ...] = ("message", "summary", "output", "system")
TABLES: dict[DocKind, str] = {
    "message": "messages",
    "summary": "entries",
    "output": "outputs",
    "system": "sessions",
}
BATCH_ROWS = 256
BATCH_CHARS = 2_000_000
NOT_INDEXED = "NOT EXISTS (SELECT 1 FROM docs d WHERE d.kind = 'system' AND d.ref = t.id)"
"""A condition on system prompts: one may have been started with before, and is indexed once."""

# Each gives: key, ref, owner, conversation, session, seq, role, tool, at, and what the text is read from.
_SOURCES: dict[DocKind, str] = {
    "message": f"SELECT m.id, m.id, c.owner, m.conversation, m.session, m.seq, m.role, m.tool, m.at, {BODY}, m.dialect,"  # noqa: S608
    " m.part FROM messages m JOIN conversations c ON c.id = m.conversation",
    "summary": "SELECT m.id, m.id, t.owner, m.conversation, m.session, m.until, NULL, NULL, m.at, t.body"
    " FROM entries m JOIN texts t ON t.id = m.summary",
    "output": "SELECT m.id, m.id, t.owner, m.conversation, m.session, m.seq, 'tool', m.tool, m.at, t.body"
    " FROM outputs m JOIN texts t ON t.id = m.text",
    # Indexed once, however many sessions have it; it belongs to no conversation.
    "system": "SELECT m.id, t.id, t.owner, NULL, NULL, NULL, 'system', NULL, m.created, t.body"
    " FROM sessions m JOIN texts t ON t.id = m.system"
    " WHERE NOT EXISTS (SELECT 1 FROM sessions o WHERE o.system = m.system AND o.id < m.id)",
}


def docs_where(kind: DocKind, condition: str, *params: Any) -> Steps[list[tuple[int, list[Doc]]]]:
    """The documents of the rows of one kind for which a condition on `m` holds: per row its key and documents."""
    link = " AND " if kind == "system" else " WHERE "
    read = yield from rows(_SOURCES[kind] + link + condition, *params)
    return [
        (int(row[0]), list(docs_of(_origin(kind, row), text)))
        for row, text in zip(read, _texts(kind, read), strict=True)
    ]


def system_docs(text: int) -> Steps[list[Doc]]:
    """The documents of a system prompt, whether or not a session still has it."""
    row = yield from one("SELECT owner, body FROM texts WHERE id = ?", text)
    if row is None:
        return []
    return list(
        docs_of(Origin("system", text, row[0], None, None, None, "system", None, 0), whole_text(json_value(row[1])))
    )


def index_where(index: WordIndex, kind: DocKind, condition: str, *params: Any) -> Steps[None]:
    """Index rows in the transaction that wrote them."""
    found = yield from docs_where(kind, condition, *params)
    yield from index.add([doc for _, docs in found for doc in docs])


def catch_up(index: WordIndex) -> Steps[bool]:
    """Index the next rows that wait for it; whether more may be waiting."""
    more = False
    for kind in KINDS:
        more = (yield from _advance(index, kind)) or more
    return more


def _advance(index: WordIndex, kind: DocKind) -> Steps[bool]:
    reached = yield from one("SELECT upto FROM indexed WHERE kind = ?", kind)
    upto = int(reached[0]) if reached else 0
    condition = "m.id > ? ORDER BY m.id LIMIT ?"
    if kind == "system":
        # The session that brought it first may be gone; what is indexed is not indexed again for the next.
        condition = f"{NOT_INDEXED} AND {condition}"
    found = yield from docs_where(kind, condition, upto, BATCH_ROWS)
    batch: list[Doc] = []
    chars = 0
    for number, (key, docs) in enumerate(found):
        batch += docs
        upto = key
        chars += sum(doc.stop - doc.start for doc in docs)
        if chars > BATCH_CHARS and number + 1 < len(found):
            break
    if len(found) == BATCH_ROWS or (found and upto != found[-1][0]):
        more = True
    else:
        # Rows with nothing to index lie behind the last one found.
        more, newest = False, (yield from one(f"SELECT max(id) FROM {TABLES[kind]}"))  # noqa: S608 (fixed names)
        upto = max(upto, int(newest[0] or 0) if newest else 0)
    yield from index.add(batch)
    yield from run("UPDATE indexed SET upto = ? WHERE kind = ? AND upto <> ?", upto, kind, upto)
    return more


def is_behind() -> Steps[bool]:
    """Whether any row waits to be indexed."""
    read = yield from rows("SELECT kind, upto FROM indexed")
    reached = {row[0]: int(row[1]) for row in read}
    for kind, table in TABLES.items():
        newest = yield from one(f"SELECT max(id) FROM {table}")  # noqa: S608 (fixed names)
        if newest is not None and newest[0] is not None and newest[0] > reached.get(kind, 0):
            return True
    return False


def _origin(kind: DocKind, row: Row) -> Origin:
    return Origin(kind, row[1], row[2], row[3], row[4], row[5], row[6], row[7], row[8])


def _texts(kind: DocKind, read: Sequence[Row]) -> list[str]:
    if kind == "message":
        messages = read_messages((row[9], row[10], row[11]) for row in read)
        return [searchable_text(message) for message in messages]
    if kind == "summary":
        return [searchable_text(message_of(row[9])) for row in read]
    return [whole_text(json_value(row[9])) for row in read]
