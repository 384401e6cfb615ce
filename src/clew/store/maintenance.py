"""Checking the invariants of a store, and deleting a conversation.

The checks read everything: they run on request, never at a start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from clew.errors import DatabaseDamaged, DatabaseFull, IndexDamaged, InUse, ReadOnlyStore
from clew.messages import Message
from clew.store import sessions
from clew.store.database import (
    RowDamage,
    Steps,
    WordIndex,
    execute,
    fetch_all,
    fetch_number,
    fetch_one,
    read_json,
    require_ascending,
)
from clew.store.nodes import broken_maps, check_nodes, remove_nodes
from clew.store.quarantine import (
    damaged_compactions,
    damaged_texts,
    damaged_values,
    message_words,
    quarantined_messages,
)
from clew.store.rows import BODY, CHAIN_BYTES, FIRST_CHAIN, next_chain, read_messages
from clew.store.search.base import KINDS, DocKind, SearchDocument
from clew.store.search.index_updates import TABLES, documents_where, system_documents
from clew.store.search.search import SearchStore
from clew.store.search.words import case_folded, words_of

ProblemKind: TypeAlias = Literal[
    "database", "unwritable", "row", "chain", "gap", "orphan", "entry", "node", "map", "index"
]
_PAGE_ROWS = 500
# Each finds rows that refer to something that is not there.
_ORPHANS = {
    "messages without a session": "SELECT m.id FROM messages m LEFT JOIN sessions s ON s.id = m.session"
    " WHERE s.id IS NULL OR s.conversation <> m.conversation",
    "sessions without a conversation": "SELECT s.id FROM sessions s LEFT JOIN conversations c ON c.id = s.conversation"
    " WHERE c.id IS NULL",
    "compacted sessions without a continuation": "SELECT s.id FROM sessions s WHERE s.end_reason = 'compression'"
    " AND NOT EXISTS (SELECT 1 FROM sessions n WHERE n.parent = s.id AND n.kind = 'continuation')",
    "entries without a text": "SELECT x.entry FROM entry_texts x LEFT JOIN texts t ON t.id = x.text WHERE t.id IS NULL",
    "outputs without a text": "SELECT o.id FROM outputs o LEFT JOIN texts t ON t.id = o.text WHERE t.id IS NULL",
    "texts that nothing refers to": "SELECT t.id FROM texts t"
    " WHERE NOT EXISTS (SELECT 1 FROM outputs WHERE text = t.id)"
    " AND NOT EXISTS (SELECT 1 FROM entry_texts WHERE text = t.id)"
    " AND NOT EXISTS (SELECT 1 FROM sessions WHERE system = t.id)",
}


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """Something that a check found wrong."""

    kind: ProblemKind
    what: str

    @property
    def is_repairable(self) -> bool:
        """Whether something repairs it: `rebuild_index` the index, `quarantine` a row that cannot be read,
        `undo_broken_maps` a map that leaves messages out."""
        return self.kind in ("index", "row", "map")


class MaintenanceStore(SearchStore):
    """Checking and repairing a database, and deleting conversations."""

    async def check(self) -> list[HealthProblem]:
        """Everything that is wrong with the database, its rows and its index. Reads the whole database."""
        own = await self._database.check()
        problems = [HealthProblem("index" if problem.is_in_index else "database", problem.what) for problem in own]
        try:
            problems += await self._database.read(check_rows)
            if not own:
                problems += await self._check_index()
        except DatabaseDamaged as error:
            # What could not be read is mostly among what the database has found itself.
            if not problems:
                problems.append(HealthProblem("database", error.problem))
        return problems

    async def _check_index(self) -> list[HealthProblem]:
        database, index = self._database, self._database.index
        try:
            if database.unwritable is not None:
                raise ReadOnlyStore(database.unwritable)
            await self.index_waiting()
            found = await database.write(lambda: check_index_itself(index))
            return found + await database.read(lambda: check_index(index))
        except IndexDamaged as error:
            return [HealthProblem("index", str(error))]
        except (DatabaseFull, ReadOnlyStore) as error:
            found = await database.read(lambda: check_index(index))
            return [HealthProblem("unwritable", str(error)), *found]

    async def delete(self, session: str, *, owner: str | None = None) -> int:
        """Delete the whole conversation of a session; how many messages it had. `InUse` where it has branches.

        The usage of its calls stays, without links.
        """
        await self.index_waiting()
        return await self._database.write(lambda: _delete_conversation(self._database.index, session, owner))


def check_rows() -> Steps[list[HealthProblem]]:
    """Rows that cannot be read, gaps in numbers, messages that do not match their chain, links to what is missing."""
    problems: list[HealthProblem] = []
    conversations = yield from fetch_all("SELECT id, origin, origin_seq FROM conversations ORDER BY id")
    ends: dict[int, int] = {}
    set_aside = yield from quarantined_messages()
    for conversation, origin, origin_seq in conversations:
        numbers = {seq for its, seq in set_aside if its == conversation}
        problems += yield from _check_chain(conversation, origin, origin_seq, numbers, ends)
    for find in (damaged_texts, damaged_compactions, damaged_values):
        problems += [_unreadable(item.what, item.damage) for item in (yield from find())]
    for what, sql in _ORPHANS.items():
        found = yield from fetch_all(sql)
        if found:
            problems.append(HealthProblem("orphan", f"{len(found)} {what}, the first is {found[0][0]}"))
    problems += [HealthProblem("node", problem) for problem in (yield from check_nodes())]
    problems += [HealthProblem("map", problem) for _, problem in (yield from broken_maps())]
    return problems + (yield from _check_entries(ends))


def check_index_itself(index: WordIndex) -> Steps[list[HealthProblem]]:
    """What the index finds wrong with itself, which only a transaction that can write may ask. It locks out writers."""
    if not index.is_immediate:
        # Changes nothing, and needs room in the log: a full disk is noticed here, not at the next message.
        yield from execute("UPDATE indexed SET upto = upto WHERE kind = 'message'")
    return [HealthProblem("index", problem) for problem in (yield from index.problems())]


def check_index(index: WordIndex) -> Steps[list[HealthProblem]]:
    """Searchable rows that are not in the index, and documents in it that belong to no row."""
    problems: list[HealthProblem] = []
    try:
        held = yield from index.count()
    except IndexDamaged as error:
        return [HealthProblem("index", str(error))]
    listed = yield from fetch_number("SELECT count(*) FROM docs")
    if held != listed:
        problems.append(HealthProblem("index", f"the index holds {held} documents, and {listed} are listed"))
    for kind in KINDS:
        problems += yield from _check_kind(index, kind)
    return problems


def _check_kind(index: WordIndex, kind: DocKind) -> Steps[list[HealthProblem]]:
    """Whether the documents of one kind are all listed, and found by their own words."""
    wanted, last, lost = 0, 0, 0
    upto = yield from _upto(index, kind)
    while page := (
        yield from documents_where(kind, "m.id > ? AND m.id <= ? ORDER BY m.id LIMIT ?", last, upto, _PAGE_ROWS)
    ):
        require_ascending(last, page[-1][0], "row")
        last = page[-1][0]
        for doc in (doc for _, docs in page for doc in docs):
            wanted += 1
            lost += not (yield from _is_found(index, doc))
    problems: list[HealthProblem] = []
    listed = yield from fetch_number("SELECT count(*) FROM docs WHERE kind = ?", kind)
    if listed != wanted:
        problems.append(HealthProblem("index", f"{listed} documents of kind {kind} are listed instead of {wanted}"))
    if lost:
        problems.append(HealthProblem("index", f"{lost} documents of kind {kind} are not found by their own words"))
    return problems


def _is_found(index: WordIndex, doc: SearchDocument) -> Steps[bool]:
    """Whether a document is found by its longest word."""
    words = words_of(case_folded(doc.text))
    if not words:
        return True
    row = yield from fetch_one(
        "SELECT id FROM docs WHERE kind = ? AND ref = ? AND start = ?", doc.origin.kind, doc.origin.ref, doc.start
    )
    return row is not None and (yield from index.holds(row[0], max(words, key=len)))


def _upto(index: WordIndex, kind: str) -> Steps[int]:
    if index.is_immediate:
        return 2**62
    return (yield from fetch_number("SELECT upto FROM indexed WHERE kind = ?", kind))


def _unreadable(what: str, damage: RowDamage) -> HealthProblem:
    return HealthProblem("row", f"{what} cannot be read: {damage.problem}")


def _check_chain(
    conversation: int, origin: int | None, first: int, set_aside: set[int], ends: dict[int, int]
) -> Steps[list[HealthProblem]]:
    """What is wrong with the messages of a conversation; those numbered in `set_aside` are not what they were."""
    problems: list[HealthProblem] = []
    chain, expected = FIRST_CHAIN, first
    if origin is not None and first > 0:
        chain = yield from _chain_at(origin, first - 1)
    while True:
        page = yield from fetch_all(
            f"SELECT m.seq, {BODY}, m.dialect, m.part, m.chain, s.name FROM messages m"  # noqa: S608 (fixed text)
            " LEFT JOIN sessions s ON s.id = m.session WHERE m.conversation = ? AND m.seq >= ? ORDER BY m.seq LIMIT ?",
            conversation,
            expected,
            _PAGE_ROWS,
        )
        messages = read_messages((row[1], row[2], row[3]) for row in page)
        for row, message in zip(page, messages, strict=True):
            if row[0] != expected:
                return [*problems, HealthProblem("gap", f"conversation {conversation} has no message {expected}")]
            if isinstance(message, RowDamage):
                problems.append(_unreadable(message_words(row[0], row[5]), message))
            elif expected not in set_aside and not _is_next(chain, message, row[4]):
                what = f"message {expected} of conversation {conversation} is not what it was"
                problems.append(HealthProblem("chain", what))
            # What follows is checked against the chain as it was written.
            chain = row[4]
            expected += 1
        if len(page) < _PAGE_ROWS:
            ends[conversation] = expected
            return problems


def _is_next(before: Any, message: Message, chain: Any) -> bool:
    try:
        # A shorter chain is of an earlier build, and cannot be checked.
        return len(bytes(chain)) < CHAIN_BYTES or bytes(chain) == next_chain(bytes(before), message)
    except (TypeError, ValueError, AttributeError, RecursionError):
        # A stored message has no such shape, and a chain no other type than bytes.
        return False


def _chain_at(conversation: int, seq: int) -> Steps[bytes]:
    """The chain after a message, which may be in an origin of the conversation."""
    while True:
        row = yield from fetch_one("SELECT chain FROM messages WHERE conversation = ? AND seq = ?", conversation, seq)
        if row is not None:
            return bytes(row[0])
        above = yield from fetch_one("SELECT origin FROM conversations WHERE id = ?", conversation)
        if above is None or above[0] is None:
            return b""
        require_ascending(above[0], conversation, "conversation")
        conversation = above[0]


def _check_entries(ends: dict[int, int]) -> Steps[list[HealthProblem]]:
    problems: list[HealthProblem] = []
    found = yield from fetch_all(
        "SELECT id, conversation, until, view FROM entries WHERE kind = 'compaction' ORDER BY id"
    )
    for entry, conversation, until, view in found:
        items = read_json(view)
        if not isinstance(items, list):
            continue
        reach = max([until, *(item[1] for item in items if isinstance(item, list) and len(item) == 2)])
        if reach > ends.get(conversation, reach):
            problems.append(
                HealthProblem("entry", f"compaction {entry} refers to message {reach - 1}, which is not there")
            )
    return problems


def _delete_conversation(index: WordIndex, name: str, owner: str | None) -> Steps[int]:
    """Delete a session's conversation with all its sessions, rows and index entries; how many messages it had."""
    found = yield from sessions.find(name, owner)
    conversation = found.conversation
    yield from execute("SELECT id FROM conversations WHERE id = ? FOR_UPDATE", conversation)
    branches = yield from fetch_all(
        "SELECT s.name FROM conversations c JOIN sessions s ON s.conversation = c.id WHERE c.origin = ? ORDER BY s.id",
        conversation,
    )
    if branches:
        names = ", ".join(row[0] for row in branches)
        raise InUse(f"session {name!r} is the origin of {names}", remedy="delete those first")
    yield from _remove_documents(index, conversation)
    texts = yield from fetch_all(
        "SELECT text FROM outputs WHERE conversation = ? UNION SELECT x.text FROM entry_texts x"
        " JOIN entries e ON e.id = x.entry WHERE e.conversation = ? UNION"
        " SELECT system FROM sessions WHERE conversation = ? AND system IS NOT NULL",
        conversation,
        conversation,
        conversation,
    )
    count = yield from fetch_number("SELECT count(*) FROM messages WHERE conversation = ?", conversation)
    yield from _remove_rows(conversation)
    yield from _remove_unneeded(index, [int(row[0]) for row in texts])
    if not index.is_immediate:
        yield from _rewind_indexed()
    return count


def _remove_rows(conversation: int) -> Steps[None]:
    yield from execute(
        "UPDATE calls SET conversation = NULL, session = NULL, seq = NULL WHERE conversation = ?", conversation
    )
    yield from execute(
        "DELETE FROM entry_texts WHERE entry IN (SELECT id FROM entries WHERE conversation = ?)", conversation
    )
    yield from remove_nodes(conversation)
    for table in ("outputs", "entries", "states", "engine_records", "leases", "messages", "quarantine", "sessions"):
        yield from execute(f"DELETE FROM {table} WHERE conversation = ?", conversation)  # noqa: S608 (fixed names)
    yield from execute("DELETE FROM conversations WHERE id = ?", conversation)


def _remove_unneeded(index: WordIndex, texts: Sequence[int]) -> Steps[None]:
    """Delete those of some texts that nothing refers to any more."""
    for text in texts:
        needed = yield from fetch_one(
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM outputs WHERE text = ?)"
            " OR EXISTS (SELECT 1 FROM entry_texts WHERE text = ?) OR EXISTS (SELECT 1 FROM sessions WHERE system = ?)",
            text,
            text,
            text,
        )
        if needed is None:
            yield from _remove_system_documents(index, text)
            yield from execute("DELETE FROM texts WHERE id = ?", text)


def _remove_system_documents(index: WordIndex, text: int) -> Steps[None]:
    """Take a system prompt out of the index, when no session has it any more."""
    known = yield from fetch_all("SELECT id, start FROM docs WHERE kind = 'system' AND ref = ?", text)
    ids = {int(row[1]): int(row[0]) for row in known}
    if ids:
        docs = yield from system_documents(text)
        yield from index.remove([replace(doc, id=ids[doc.start]) for doc in docs])


def _remove_documents(index: WordIndex, conversation: int) -> Steps[None]:
    """Take the documents of a conversation out of the index; those of system prompts belong to none."""
    known = yield from fetch_all("SELECT id, kind, ref, start FROM docs WHERE conversation = ?", conversation)
    ids = {(row[1], row[2], row[3]): int(row[0]) for row in known}
    removed: list[SearchDocument] = []
    for kind in KINDS:
        for ref in {ref for its_kind, ref, _ in ids if its_kind == kind}:
            for _, docs in (yield from documents_where(kind, "m.id = ?", ref)):
                removed += (replace(doc, id=ids[kind, ref, doc.start]) for doc in docs if (kind, ref, doc.start) in ids)
    if len(removed) == len(ids) or index.is_immediate:
        yield from index.remove(removed)
        yield from execute("DELETE FROM docs WHERE conversation = ?", conversation)
    else:
        # A damaged row no longer says by which words it was indexed, and none of them may stay.
        yield from index.clear()


def _rewind_indexed() -> Steps[None]:
    """Lower how far the index reaches: the highest ids were deleted and may be given again."""
    for kind, table in TABLES.items():
        yield from execute(
            "UPDATE indexed SET upto = COALESCE((SELECT max(id) FROM "  # noqa: S608 (fixed names)
            f"{table} WHERE id <= indexed.upto), 0) WHERE kind = ?",
            kind,
        )
