"""Keeping the index up to date with the rows: which texts are searchable, and how far the index reaches. As steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from clew.errors import IndexDamaged
from clew.messages import Message
from clew.store.database import (
    Row,
    RowDamage,
    Steps,
    Turns,
    WordIndex,
    execute,
    fetch_all,
    fetch_number,
    fetch_one,
    fetch_readable,
    read_json,
    require_ascending,
)
from clew.store.rows import BODY, read_message, read_messages
from clew.store.search.base import KINDS, DocKind, DocumentOrigin, SearchDocument
from clew.store.search.index import create_words_table
from clew.store.search.words import chunks_of, normalized_text, searchable_text

TABLES: dict[DocKind, str] = {
    "message": "messages",
    "summary": "entries",
    "output": "outputs",
    "system": "sessions",
}
BATCH_ROWS = 256
BATCH_CHARS = 2_000_000
_NOT_INDEXED = "NOT EXISTS (SELECT 1 FROM docs d WHERE d.kind = 'system' AND d.ref = t.id)"
"""A condition on system prompts: many sessions may have the same one, which is indexed once."""
# Each gives: key, ref, owner, conversation, session, seq, role, tool, at, and what the text is read from.
_SOURCES: dict[DocKind, str] = {
    "message": f"SELECT m.id, m.id, c.owner, m.conversation, m.session, m.seq, m.role, m.tool, m.at, {BODY}, m.dialect,"  # noqa: S608
    " m.part FROM messages m JOIN conversations c ON c.id = m.conversation",
    "summary": "SELECT m.id, m.id, t.owner, m.conversation, m.session, m.until, NULL, NULL, m.at, t.body"
    " FROM entries m JOIN texts t ON t.id = m.summary",
    "output": "SELECT m.id, m.id, t.owner, m.conversation, m.session, m.seq, 'tool', m.tool, m.at, t.body"
    " FROM outputs m JOIN texts t ON t.id = m.text",
    # Of the sessions with the same prompt the first represents all; the prompt belongs to no conversation.
    "system": "SELECT m.id, t.id, t.owner, NULL, NULL, NULL, 'system', NULL, m.created, t.body"
    " FROM sessions m JOIN texts t ON t.id = m.system"
    " WHERE NOT EXISTS (SELECT 1 FROM sessions o WHERE o.system = m.system AND o.id < m.id)",
}

_BEHIND = "SELECT 1 WHERE " + " OR ".join(  # noqa: S608 (fixed names)
    f"(SELECT max(id) FROM {table}) > COALESCE((SELECT upto FROM indexed WHERE kind = '{kind}'), 0)"  # noqa: S608
    for kind, table in TABLES.items()
)


def documents_where(
    kind: DocKind, condition: str, *params: Any, fetch: Callable[..., Steps[list[Row]]] = fetch_all
) -> Steps[list[tuple[int, list[SearchDocument]]]]:
    """The rows of one kind that fulfil a condition on `m`: the key of each, and its documents."""
    link = " AND " if kind == "system" else " WHERE "
    read = yield from fetch(_SOURCES[kind] + link + condition, *params)
    return [
        (int(row[0]), list(documents_of(_origin(kind, row), text)))
        for row, text in zip(read, _texts(kind, read), strict=True)
    ]


def documents_of(origin: DocumentOrigin, text: str) -> Iterator[SearchDocument]:
    """A text as documents of bounded length; none for an empty text."""
    for start, stop in chunks_of(text):
        yield SearchDocument(origin, start, stop, text[start:stop], chars=len(text))


def system_documents(text: int) -> Steps[list[SearchDocument]]:
    """The documents of a system prompt, even when no session has it any more."""
    row = yield from fetch_one("SELECT owner, body FROM texts WHERE id = ?", text)
    if row is None:
        return []
    origin = DocumentOrigin("system", text, row[0], None, None, None, "system", None, 0)
    return list(documents_of(origin, _plain_text(row[1])))


def index_rows(index: WordIndex, kind: DocKind, condition: str, *params: Any) -> Steps[None]:
    """Index the rows of one kind that fulfil a condition."""
    found = yield from documents_where(kind, condition, *params)
    yield from index.add([doc for _, docs in found for doc in docs])


def index_messages(index: WordIndex, session: str, first_seq: int) -> Steps[None]:
    """Index the messages of a session's conversation from a number on, which were just appended."""
    of_session = "m.conversation = (SELECT conversation FROM sessions WHERE name = ?) AND m.seq >= ?"
    yield from index_rows(index, "message", of_session, session, first_seq)


def index_system_prompt(index: WordIndex, session: str) -> Steps[None]:
    """Index the system prompt of a session that was just started, unless it is indexed already."""
    of_session = f"m.id = (SELECT id FROM sessions WHERE name = ?) AND {_NOT_INDEXED}"  # noqa: S608 (fixed text)
    yield from index_rows(index, "system", of_session, session)


def build_side_index(index: WordIndex) -> Steps[None]:
    """Index the rows that wait in tables of this connection alone, where the database itself cannot be written.

    Until `drop_side_index`, those represent the tables of the same names. SQLite only: elsewhere no rows wait.
    """
    yield from execute("CREATE TEMP TABLE indexed AS SELECT kind, upto FROM main.indexed")
    yield from _create_side_tables()
    while (yield from catch_up(index)):
        pass


def index_readable_rows(index: WordIndex) -> Turns[None]:
    """As `build_side_index`, of every row that can be read; the index of the database itself is not read.

    Reading and indexing take turns: SQLite writes nothing in a transaction that met a damaged page.
    """
    yield _create_side_tables
    for kind, table in TABLES.items():
        last = yield partial(_newest_row, table)
        first, size, missed = 1, BATCH_ROWS, 0
        while first <= last:
            stop = min(first + size, last + 1)
            known: dict[int, list[SearchDocument]] = yield partial(_readable_documents, kind, first, stop)
            if known and stop - first > BATCH_ROWS:
                # Some of so many rows may be unreadable: they are read again in smaller batches.
                size //= 2
                continue
            for number in range(first, stop) if len(known) < stop - first <= BATCH_ROWS else ():
                if number not in known:
                    known |= yield partial(_readable_documents, kind, number, number + 1)
            yield partial(index.add, [doc for docs in known.values() for doc in docs])
            size, missed = (BATCH_ROWS, 0) if known else (size, missed + stop - first)
            if not known:
                following = yield partial(_row_from, table, stop)
                if following is None and missed > _MOST_MISSED:
                    size *= 2
                stop = max(stop, following or stop)
            first = stop


# A damaged row number may be of any size. Where the table does not tell the next one, so many are tried one by one.
_MOST_MISSED = 20_000


def _row_from(table: str, first: int) -> Steps[int | None]:
    """The number of the first row from a number on; None where that cannot be read."""
    found = yield from fetch_readable(f"SELECT min(id) FROM {table} WHERE id >= ?", first)  # noqa: S608 (fixed names)
    return int(found[0][0]) if found and found[0][0] is not None else None


def _newest_row(table: str) -> Steps[int]:
    found = yield from fetch_readable(f"SELECT max(id) FROM {table}")  # noqa: S608 (fixed names)
    if not found:
        found = yield from fetch_readable(f"SELECT id FROM {table} ORDER BY id")  # noqa: S608 (fixed names)
    return max((int(row[0] or 0) for row in found), default=0)


def _readable_documents(kind: DocKind, first: int, stop: int) -> Steps[dict[int, list[SearchDocument]]]:
    """The documents of the rows with ids from the first on and below the last, as far as they can be read."""
    condition = "m.id >= ? AND m.id < ? ORDER BY m.id"
    return dict((yield from documents_where(kind, condition, first, stop, fetch=fetch_readable)))


def _create_side_tables() -> Steps[None]:
    yield from execute("CREATE TEMP TABLE docs AS SELECT * FROM main.docs WHERE 0")
    yield from create_words_table("temp")


def drop_side_index() -> Steps[None]:
    for table in ("words", "docs", "indexed"):
        yield from execute(f"DROP TABLE IF EXISTS temp.{table}")


def catch_up(index: WordIndex) -> Steps[bool]:
    """Index the next batch of rows; whether more may be waiting."""
    more = False
    for kind in KINDS:
        more = (yield from _advance(index, kind)) or more
    return more


def _advance(index: WordIndex, kind: DocKind) -> Steps[bool]:
    upto = yield from fetch_number("SELECT upto FROM indexed WHERE kind = ?", kind)
    condition = "m.id > ? ORDER BY m.id LIMIT ?"
    if kind == "system":
        # The first session that had a prompt may be deleted; the prompt is not indexed again for the next.
        condition = f"{_NOT_INDEXED} AND {condition}"
    found = yield from documents_where(kind, condition, upto, BATCH_ROWS)
    batch: list[SearchDocument] = []
    chars = 0
    for number, (key, docs) in enumerate(found):
        batch += docs
        require_ascending(upto, key, "row")
        upto = key
        chars += sum(doc.stop - doc.start for doc in docs)
        if chars > BATCH_CHARS and number + 1 < len(found):
            break
    if len(found) == BATCH_ROWS or (found and upto != found[-1][0]):
        more = True
    else:
        # Rows with nothing to index lie behind the last one found.
        more, newest = False, (yield from fetch_number(f"SELECT max(id) FROM {TABLES[kind]}"))  # noqa: S608 (fixed names)
        upto = max(upto, newest)
    yield from index.add(batch)
    yield from execute("UPDATE indexed SET upto = ? WHERE kind = ? AND upto <> ?", upto, kind, upto)
    if more and (yield from fetch_number("SELECT upto FROM indexed WHERE kind = ?", kind)) != upto:
        # Otherwise the same rows would be indexed again without end.
        raise IndexDamaged(
            "the search index does not keep how far it reaches", remedy="`clew doctor --repair` rebuilds it"
        )
    return more


def is_behind() -> Steps[bool]:
    """Whether any row waits to be indexed."""
    return (yield from fetch_one(_BEHIND)) is not None


def _origin(kind: DocKind, row: Row) -> DocumentOrigin:
    return DocumentOrigin(kind, *row[1:9])


def _texts(kind: DocKind, read: Sequence[Row]) -> list[str]:
    if kind == "message":
        return [_message_text(message) for message in read_messages((row[9], row[10], row[11]) for row in read)]
    if kind == "summary":
        return [_message_text(read_message(row[9])) for row in read]
    return [_plain_text(row[9]) for row in read]


# A row that cannot be read has no text to find; a search continues with the others.
def _message_text(message: Message | RowDamage) -> str:
    return "" if isinstance(message, RowDamage) else searchable_text(message)


def _plain_text(body: Any) -> str:
    text = read_json(body)
    return normalized_text(text) if isinstance(text, str) else ""
