"""The full-text index in PostgreSQL: a tsvector of our own words with a GIN index, filters as ordinary columns.

The words are made here and not by the server's parser, which has its own idea of file names, numbers and hyphens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.store.docs import Doc
from clew.store.index_sqlite import estimated
from clew.store.lookup import Candidates, Clause, Filters, Lookup, Phrase
from clew.store.steps import Steps, one, rows, run, run_many
from clew.store.words import folded, hump_parts, words_of

_ADD = (
    "INSERT INTO docs (kind, ref, start, stop, owner, conversation, session, seq, role, tool, at, words)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?::tsvector)"
)
# The server takes no word over 2,046 bytes; what is longer is found by its beginning.
_LONGEST_WORD = 255


class TsvectorIndex:
    is_immediate = True

    def add(self, docs: Sequence[Doc]) -> Steps[None]:
        yield from run_many(_ADD, [_row(doc) for doc in docs])

    def remove(self, docs: Sequence[Doc]) -> Steps[None]:
        yield from run_many("DELETE FROM docs WHERE id = ?", [(doc.id,) for doc in docs])

    def clear(self) -> Steps[None]:
        yield from run("DELETE FROM docs")

    def look_up(self, lookup: Lookup) -> Steps[Candidates]:
        where, params = _conditions(lookup.filters)
        found = yield from rows(
            f"SELECT id FROM docs WHERE words @@ ?::tsquery{where} ORDER BY id DESC LIMIT ?",  # noqa: S608 (fixed texts)
            query_text(lookup),
            *params,
            lookup.limit,
        )
        newest = yield from one("SELECT max(id) FROM docs")
        ids = tuple(int(row[0]) for row in found)
        return Candidates(ids, estimated(ids, lookup.limit, int(newest[0] or 0) if newest else 0))

    def known(self, words: Sequence[str]) -> Steps[set[str]]:
        # The server drops what it does not have by itself.
        yield from ()
        return set(words)

    def count(self) -> Steps[int]:
        found = yield from one("SELECT count(words) FROM docs")
        return int(found[0]) if found else 0

    def holds(self, doc: int, word: str) -> Steps[bool]:
        found = yield from one(
            "SELECT id FROM docs WHERE words @@ ?::tsquery AND id = ?", f"'{word[:_LONGEST_WORD]}'", doc
        )
        return found is not None

    def problems(self) -> Steps[list[str]]:
        broken = yield from rows(
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE c.relname = 'docs_by_words' AND NOT (i.indisvalid AND i.indisready)"
        )
        return [f"index {row[0]} is not valid" for row in broken]


def query_text(lookup: Lookup) -> str:
    """A lookup in the server's words. All of them are quoted, and hold letters and digits only."""
    return " & ".join(f"({_any_of(clause)})" for clause in lookup.clauses)


def vector_text(doc: Doc) -> str:
    """A document's words with their places, as the server reads them; parts of names have none."""
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words_of(folded(doc.text)), 1):
        places.setdefault(word[:_LONGEST_WORD], []).append(place)
    for part in hump_parts(doc.text):
        places.setdefault(part[:_LONGEST_WORD], [])
    return " ".join(f"'{word}':{','.join(map(str, where))}" if where else f"'{word}'" for word, where in places.items())


def _any_of(clause: Clause) -> str:
    return " | ".join(_phrase(phrase) for phrase in clause)


def _phrase(phrase: Phrase) -> str:
    words = [f"'{word[:_LONGEST_WORD]}'" for word in phrase.words]
    if phrase.is_prefix:
        words[-1] += ":*"
    return "(" + " <-> ".join(words) + ")"


def _conditions(filters: Filters) -> tuple[str, list[Any]]:
    where, params = "", list[Any]()
    if filters.owner is not None:
        where += " AND owner = ?"
        params.append(filters.owner)
    if filters.segments:
        parts = []
        for conversation, stop in filters.segments:
            parts.append("conversation = ?" if stop is None else "(conversation = ? AND seq < ?)")
            params += [conversation] if stop is None else [conversation, stop]
        where += f" AND ({' OR '.join(parts)})"
    for column, wanted in (
        ("session", filters.sessions),
        ("role", filters.roles),
        ("tool", filters.tools),
        ("kind", filters.kinds),
    ):
        if wanted:
            where += f" AND {column} IN ({', '.join('?' * len(wanted))})"
            params += wanted
    for condition, value in ((" AND at >= ?", filters.since), (" AND at < ?", filters.before)):
        if value is not None:
            where += condition
            params.append(value)
    return where, params


def _row(doc: Doc) -> tuple[object, ...]:
    it = doc.origin
    return (
        it.kind,
        it.ref,
        doc.start,
        doc.stop,
        it.owner,
        it.conversation,
        it.session,
        it.seq,
        it.role,
        it.tool,
        it.at,
        vector_text(doc),
    )
