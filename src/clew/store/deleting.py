"""Deleting a conversation: the one operation that removes rows, and only when it is asked for. As steps."""

from __future__ import annotations

from collections.abc import Sequence

from clew.store import sessions
from clew.store.database import WordIndex
from clew.store.docs import Doc
from clew.store.indexing import KINDS, TABLES, docs_where, system_docs
from clew.store.problems import InUse
from clew.store.steps import Steps, one, rows, run


def delete_conversation(index: WordIndex, name: str, owner: str | None) -> Steps[int]:
    """Remove a session's conversation with all its sessions, rows and index entries; how many messages that were.

    Usage stays, without its links: what was spent was spent.
    """
    found = yield from sessions.find(name, owner)
    conversation = found.conversation
    yield from run("SELECT id FROM conversations WHERE id = ? FOR_UPDATE", conversation)
    leaning = yield from rows(
        "SELECT s.name FROM conversations c JOIN sessions s ON s.conversation = c.id WHERE c.origin = ? ORDER BY s.id",
        conversation,
    )
    if leaning:
        names = ", ".join(row[0] for row in leaning)
        raise InUse(f"session {name!r} is the origin of {names}; delete those first")
    yield from _remove_docs(index, "d.conversation = ?", conversation)
    texts = yield from rows(
        "SELECT text FROM outputs WHERE conversation = ? UNION SELECT x.text FROM entry_texts x"
        " JOIN entries e ON e.id = x.entry WHERE e.conversation = ? UNION"
        " SELECT system FROM sessions WHERE conversation = ? AND system IS NOT NULL",
        conversation,
        conversation,
        conversation,
    )
    count = yield from one("SELECT count(*) FROM messages WHERE conversation = ?", conversation)
    yield from _remove_rows(conversation)
    yield from _remove_unneeded(index, [int(row[0]) for row in texts])
    if not index.is_immediate:
        yield from _pull_back()
    return int(count[0]) if count else 0


def _remove_rows(conversation: int) -> Steps[None]:
    yield from run(
        "UPDATE calls SET conversation = NULL, session = NULL, seq = NULL WHERE conversation = ?", conversation
    )
    yield from run(
        "DELETE FROM entry_texts WHERE entry IN (SELECT id FROM entries WHERE conversation = ?)", conversation
    )
    for table in ("outputs", "entries", "states", "leases", "messages", "sessions"):
        yield from run(f"DELETE FROM {table} WHERE conversation = ?", conversation)  # noqa: S608 (fixed names)
    yield from run("DELETE FROM conversations WHERE id = ?", conversation)


def _remove_unneeded(index: WordIndex, texts: Sequence[int]) -> Steps[None]:
    """Texts that nothing refers to any more."""
    for text in texts:
        needed = yield from one(
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM outputs WHERE text = ?)"
            " OR EXISTS (SELECT 1 FROM entry_texts WHERE text = ?) OR EXISTS (SELECT 1 FROM sessions WHERE system = ?)",
            text,
            text,
            text,
        )
        if needed is None:
            yield from _remove_system_docs(index, text)
            yield from run("DELETE FROM texts WHERE id = ?", text)


def _remove_system_docs(index: WordIndex, text: int) -> Steps[None]:
    """Out of the text itself: the sessions that led to it are gone."""
    known = yield from rows("SELECT id, start FROM docs WHERE kind = 'system' AND ref = ?", text)
    ids = {int(row[1]): int(row[0]) for row in known}
    if ids:
        docs = yield from system_docs(text)
        yield from index.remove([Doc(doc.origin, doc.start, doc.stop, doc.text, ids[doc.start]) for doc in docs])


def _remove_docs(index: WordIndex, condition: str, value: int) -> Steps[None]:
    known = yield from rows(f"SELECT d.id, d.kind, d.ref, d.start FROM docs d WHERE {condition}", value)  # noqa: S608
    ids = {(row[1], row[2], row[3]): int(row[0]) for row in known}
    removed: list[Doc] = []
    for kind in KINDS:
        refs = {ref for its_kind, ref, _ in ids if its_kind == kind}
        for ref in refs:
            column = "t.id" if kind == "system" else "m.id"
            for _, docs in (yield from docs_where(kind, f"{column} = ?", ref)):
                removed += (
                    Doc(doc.origin, doc.start, doc.stop, doc.text, ids[kind, ref, doc.start])
                    for doc in docs
                    if (kind, ref, doc.start) in ids
                )
    yield from index.remove(removed)


def _pull_back() -> Steps[None]:
    """An id that was deleted at the end may be given again: the index must not think that it has it."""
    for kind, table in TABLES.items():
        yield from run(
            "UPDATE indexed SET upto = COALESCE((SELECT max(id) FROM "  # noqa: S608 (fixed names)
            f"{table} WHERE id <= indexed.upto), 0) WHERE kind = ?",
            kind,
        )
