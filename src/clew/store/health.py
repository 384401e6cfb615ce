"""Health: what must hold in a sound store, checked, and the index rebuilt. As steps; whoever asks decides when.

These checks read everything, so that they run on request and never at a start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from clew.store.database import WordIndex
from clew.store.docs import Doc, DocKind
from clew.store.encoding import json_value
from clew.store.identity import FIRST_CHAIN, next_chain
from clew.store.indexing import KINDS, docs_where
from clew.store.problems import IndexDamaged
from clew.store.rowtext import BODY, read_messages
from clew.store.steps import Steps, one, rows
from clew.store.words import folded, words_of

ProblemKind: TypeAlias = Literal["database", "chain", "gap", "orphan", "entry", "index"]
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
    """Something that does not hold."""

    kind: ProblemKind
    what: str

    @property
    def is_repairable(self) -> bool:
        """Whether `rebuild_index` mends it: the index is derived, nothing else is."""
        return self.kind == "index"


def check_rows() -> Steps[list[HealthProblem]]:
    """Numbers without gaps, chains that hold, entries that refer to rows, nothing without its owner."""
    problems: list[HealthProblem] = []
    conversations = yield from rows("SELECT id, origin, origin_seq FROM conversations ORDER BY id")
    ends: dict[int, int] = {}
    for conversation, origin, origin_seq in conversations:
        problems += yield from _check_chain(conversation, origin, origin_seq, ends)
    for what, sql in _ORPHANS.items():
        found = yield from rows(sql)
        if found:
            problems.append(HealthProblem("orphan", f"{len(found)} {what}, the first is {found[0][0]}"))
    return problems + (yield from _check_entries(ends))


def check_index(index: WordIndex) -> Steps[list[HealthProblem]]:
    """Every searchable row is in the index, and nothing else is."""
    try:
        problems = [HealthProblem("index", problem) for problem in (yield from index.problems())]
        held = yield from index.count()
    except IndexDamaged as error:
        return [HealthProblem("index", str(error))]
    listed = yield from one("SELECT count(*) FROM docs")
    if listed is not None and held != listed[0]:
        problems.append(HealthProblem("index", f"the index holds {held} documents, and {listed[0]} are listed"))
    for kind in KINDS:
        problems += yield from _check_kind(index, kind)
    return problems


def _check_kind(index: WordIndex, kind: DocKind) -> Steps[list[HealthProblem]]:
    """Whether the documents of one kind are all listed, and found by what they say."""
    wanted, last, lost = 0, 0, 0
    upto = yield from _upto(index, kind)
    while page := (yield from docs_where(kind, "m.id > ? AND m.id <= ? ORDER BY m.id LIMIT ?", last, upto, _PAGE_ROWS)):
        last = page[-1][0]
        for doc in (doc for _, docs in page for doc in docs):
            wanted += 1
            lost += not (yield from _is_found(index, doc))
    problems: list[HealthProblem] = []
    listed = yield from one("SELECT count(*) FROM docs WHERE kind = ?", kind)
    if listed is not None and listed[0] != wanted:
        problems.append(HealthProblem("index", f"{listed[0]} documents of kind {kind} are listed instead of {wanted}"))
    if lost:
        problems.append(HealthProblem("index", f"{lost} documents of kind {kind} are not found by their own words"))
    return problems


def _is_found(index: WordIndex, doc: Doc) -> Steps[bool]:
    """Whether a document is found by its longest word, the one least likely to be found by chance."""
    words = words_of(folded(doc.text))
    if not words:
        return True
    row = yield from one(
        "SELECT id FROM docs WHERE kind = ? AND ref = ? AND start = ?", doc.origin.kind, doc.origin.ref, doc.start
    )
    return row is not None and (yield from index.holds(row[0], max(words, key=len)))


def _upto(index: WordIndex, kind: str) -> Steps[int]:
    if index.is_immediate:
        return 2**62
    row = yield from one("SELECT upto FROM indexed WHERE kind = ?", kind)
    return int(row[0]) if row else 0


def _check_chain(conversation: int, origin: int | None, first: int, ends: dict[int, int]) -> Steps[list[HealthProblem]]:
    chain, expected = FIRST_CHAIN, first
    if origin is not None and first > 0:
        chain = yield from _chain_at(origin, first - 1)
    while True:
        page = yield from rows(
            f"SELECT m.seq, {BODY}, m.dialect, m.part, m.chain FROM messages m"  # noqa: S608 (fixed text)
            " WHERE m.conversation = ? AND m.seq >= ? ORDER BY m.seq LIMIT ?",
            conversation,
            expected,
            _PAGE_ROWS,
        )
        messages = read_messages((row[1], row[2], row[3]) for row in page)
        for row, message in zip(page, messages, strict=True):
            if row[0] != expected:
                return [HealthProblem("gap", f"conversation {conversation} has no message {expected}")]
            chain = next_chain(chain, message)
            if chain != bytes(row[4]):
                return [HealthProblem("chain", f"message {expected} of conversation {conversation} is not what it was")]
            expected += 1
        if len(page) < _PAGE_ROWS:
            ends[conversation] = expected
            return []


def _chain_at(conversation: int, seq: int) -> Steps[bytes]:
    """The chain after a message that may stand further up, in the origin's origin."""
    while True:
        row = yield from one("SELECT chain FROM messages WHERE conversation = ? AND seq = ?", conversation, seq)
        if row is not None:
            return bytes(row[0])
        above = yield from one("SELECT origin FROM conversations WHERE id = ?", conversation)
        if above is None or above[0] is None:
            return b""
        conversation = above[0]


def _check_entries(ends: dict[int, int]) -> Steps[list[HealthProblem]]:
    problems: list[HealthProblem] = []
    found = yield from rows("SELECT id, conversation, until, view FROM entries WHERE kind = 'compaction' ORDER BY id")
    for entry, conversation, until, view in found:
        reach = max([until, *(item[1] for item in json_value(view) if isinstance(item, list))])
        if reach > ends.get(conversation, reach):
            problems.append(
                HealthProblem("entry", f"compaction {entry} refers to message {reach - 1}, which is not there")
            )
    return problems
