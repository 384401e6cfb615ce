"""The full-text index in both databases: `Fts5Index` for SQLite, `TsvectorIndex` for PostgreSQL.

Both hold words made by `words`: the parser of PostgreSQL splits file names, numbers and hyphens its own way. Every word
of a query has letters and digits only and is quoted, so that no query has a meaning to a database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

from clew.store.database import Row, Steps, execute, execute_many, fetch_all, fetch_number, fetch_one, marks
from clew.store.search.base import (
    KINDS,
    Candidates,
    Clause,
    DocumentOrigin,
    IndexQuery,
    Phrase,
    SearchDocument,
    SearchFilters,
)
from clew.store.search.words import camel_case_parts, case_folded, separate_unspaced, words_of

_COLUMNS = ("kind", "ref", "start", "stop", "owner", "conversation", "session", "seq", "role", "tool", "at")
BY_NAME = {name: name for name in _COLUMNS}
_NAMES = ", ".join(_COLUMNS)
_MARKS = marks(_COLUMNS)
_ADD_DOCUMENT = f"INSERT INTO docs (id, {_NAMES}) VALUES (?, {_MARKS})"  # noqa: S608 (fixed names)
_ADD_WORDS = "INSERT INTO words (rowid, text, parts, facets) VALUES (?, ?, ?, ?)"
_REMOVE_WORDS = "INSERT INTO words (words, rowid, text, parts, facets) VALUES ('delete', ?, ?, ?, ?)"
_ADD_VECTOR = f"INSERT INTO docs ({_NAMES}, words) VALUES ({_MARKS}, ?::tsvector)"  # noqa: S608 (fixed names)
# The server takes no word over 2,046 bytes; a longer one is found by its beginning.
_LONGEST_WORD = 255
INDEX_TABLES = ("words", "docs", "indexed", "vectors")
"""What is made from the rows, and can be made again."""


def filter_conditions(filters: SearchFilters, columns: Mapping[str, str]) -> tuple[list[str], list[Any]]:
    """SQL conditions for filters, and their parameters. `columns` has the SQL of each value that is filtered by."""
    conditions, params = list[str](), list[Any]()
    if filters.owner is not None:
        conditions.append(f"{columns['owner']} = ?")
        params.append(filters.owner)
    if filters.segments:
        conversation, seq = columns["conversation"], columns["seq"]
        parts = []
        for number, stop in filters.segments:
            parts.append(f"{conversation} = ?" if stop is None else f"({conversation} = ? AND {seq} < ?)")
            params += [number] if stop is None else [number, stop]
        conditions.append(f"({' OR '.join(parts)})")
    for name, wanted in (
        ("session", filters.sessions),
        ("role", filters.roles),
        ("tool", filters.tools),
        ("kind", filters.kinds),
    ):
        if wanted:
            conditions.append(f"{columns[name]} IN ({marks(wanted)})")
            params += wanted
    for sign, at in ((">=", filters.since), ("<", filters.before)):
        if at is not None:
            conditions.append(f"{columns['at']} {sign} ?")
            params.append(at)
    return conditions, params


def _column_values(doc: SearchDocument) -> tuple[object, ...]:
    it = doc.origin
    text = (it.kind, it.ref, doc.start, doc.stop)
    return (*text, it.owner, it.conversation, it.session, it.seq, it.role, it.tool, it.at)


def _candidates(found: Sequence[Row], limit: int) -> Steps[Candidates]:
    """Documents with an estimate of how many match: exact below the limit, else as dense as among the newest."""
    ids = tuple([int(row[0]) for row in found])
    if len(ids) < limit or not ids:
        return Candidates(ids, len(ids))
    newest = yield from fetch_number("SELECT max(id) FROM docs")
    return Candidates(ids, max(len(ids), len(ids) * newest // max(1, newest - ids[-1] + 1)))


def create_words_table(schema: Literal["main", "temp"]) -> Steps[None]:
    """Create the full-text table of SQLite."""
    yield from execute(
        f"CREATE VIRTUAL TABLE {schema}.words USING fts5 ("
        "text, parts, facets, content = '', tokenize = 'unicode61 remove_diacritics 0')"
    )


class Fts5Index:
    """SQLite: a contentless FTS5 table. Filters are words too, in a column of their own (`facets`)."""

    is_immediate = False

    def add(self, docs: Sequence[SearchDocument]) -> Steps[None]:
        if not docs:
            return
        newest = yield from fetch_number("SELECT max(id) FROM docs")
        numbered = list(enumerate(docs, newest + 1))
        yield from execute_many(_ADD_DOCUMENT, [(number, *_column_values(doc)) for number, doc in numbered])
        yield from execute_many(_ADD_WORDS, [_words_row(number, doc) for number, doc in numbered])

    def remove(self, docs: Sequence[SearchDocument]) -> Steps[None]:
        yield from execute_many(_REMOVE_WORDS, [_words_row(doc.id, doc) for doc in docs])
        yield from execute_many("DELETE FROM docs WHERE id = ?", [(doc.id,) for doc in docs])

    def clear(self) -> Steps[None]:
        # Deleting from a damaged table reads it; dropping and creating it does not depend on what it holds.
        yield from execute("DROP TABLE IF EXISTS words")
        yield from create_words_table("main")
        yield from execute("DELETE FROM docs")
        # A damaged page may have taken the rows of this table.
        yield from execute("DELETE FROM indexed")
        yield from execute_many("INSERT INTO indexed (kind, upto) VALUES (?, 0)", [(kind,) for kind in KINDS])

    def look_up(self, query: IndexQuery) -> Steps[Candidates]:
        # What facets cannot express: times, and conversations up to a number.
        bounded = any(stop is not None for _, stop in query.filters.segments)
        ranges = SearchFilters(
            segments=query.filters.segments if bounded else (), since=query.filters.since, before=query.filters.before
        )
        conditions, params = filter_conditions(ranges, {name: f"docs.{name}" for name in BY_NAME})
        joined = " CROSS JOIN docs ON docs.id = words.rowid" if conditions else ""
        if query.ids:
            conditions.insert(0, "words.rowid BETWEEN ? AND ?")
        where = " AND ".join(["words MATCH ?", *conditions])
        found = yield from fetch_all(
            f"SELECT words.rowid FROM words{joined} WHERE {where} ORDER BY words.rowid DESC LIMIT ?",  # noqa: S608 (fixed texts)
            match_text(query),
            *(query.ids or ()),
            *params,
            query.limit,
        )
        return (yield from _candidates(found, query.limit))

    def known_words(self, words: Sequence[str]) -> Steps[set[str]]:
        # One query each is cheap; an unknown form would cost as much in every combination that has it.
        known: set[str] = set()
        for word in words:
            found = yield from fetch_one(
                "SELECT rowid FROM words WHERE words MATCH ? LIMIT 1", f'{{text parts}} : "{word}"'
            )
            if found is not None:
                known.add(word)
        return known

    def count(self) -> Steps[int]:
        return (yield from fetch_number("SELECT count(*) FROM words_docsize"))

    def holds(self, doc: int, word: str) -> Steps[bool]:
        found = yield from fetch_one(
            "SELECT rowid FROM words WHERE words MATCH ? AND rowid = ?", f'{{text parts}} : "{word}"', doc
        )
        return found is not None

    def problems(self) -> Steps[list[str]]:
        # Raises where something is wrong, and that becomes `IndexDamaged`.
        yield from execute("INSERT INTO words (words) VALUES ('integrity-check')")
        return []


def match_text(query: IndexQuery) -> str:
    """A query in the language of FTS5."""
    clauses = [f"{{text parts}} : ({_fts5_clause(clause)})" for clause in query.clauses]
    clauses += [_facet_clause(facets) for facets in _facet_clauses(query.filters)]
    wanted = " AND ".join(f"({clause})" for clause in clauses)
    kinds = query.filters.kinds
    if "message" not in kinds:
        return wanted if not kinds else f"{wanted} AND ({_facet_clause([f'k{kind}' for kind in kinds])})"
    # Nearly all documents are messages: leaving out the few others takes half the time of intersecting with those.
    others = [f"k{kind}" for kind in KINDS if kind not in kinds]
    return f"({wanted}) NOT ({_facet_clause(others)})" if others else wanted


def _facet_clause(facets: Sequence[str]) -> str:
    return "facets : (" + " OR ".join(f'"{facet}"' for facet in facets) + ")"


def _fts5_clause(clause: Clause) -> str:
    return " OR ".join(_fts5_phrase(phrase) for phrase in clause)


def _fts5_phrase(phrase: Phrase) -> str:
    return '"' + " ".join(phrase.words) + '"' + (" *" if phrase.is_prefix else "")


def _facet_clauses(filters: SearchFilters) -> list[list[str]]:
    wanted = [
        [] if filters.owner is None else [_owner(filters.owner)],
        [f"c{conversation}" for conversation, _ in filters.segments],
        [f"s{session}" for session in filters.sessions],
        [_role(role) for role in filters.roles],
        [_tool(tool) for tool in filters.tools],
    ]
    return [facets for facets in wanted if facets]


def _facets(it: DocumentOrigin) -> str:
    return _facet_words(it.kind, it.owner, it.conversation, it.session, it.role, it.tool)


@lru_cache(maxsize=1024)
def _facet_words(
    kind: str, owner: str, conversation: int | None, session: int | None, role: str | None, tool: str | None
) -> str:
    facets = [_owner(owner), f"k{kind}"]
    if conversation is not None:
        facets.append(f"c{conversation}")
    if session is not None:
        facets.append(f"s{session}")
    if role is not None:
        facets.append(_role(role))
    if tool is not None:
        facets.append(_tool(tool))
    return " ".join(facets)


def _owner(owner: str) -> str:
    return "o" + _short(owner) if owner else "o"


def _role(role: str) -> str:
    return "r" + role if role.isascii() and role.isalnum() else "r" + _short(role)


def _tool(tool: str) -> str:
    return "t" + _short(tool)


@lru_cache(maxsize=4096)
def _short(name: str) -> str:
    """Any name as one word."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _words_row(number: int, doc: SearchDocument) -> tuple[object, ...]:
    return number, separate_unspaced(case_folded(doc.text)), " ".join(camel_case_parts(doc.text)), _facets(doc.origin)


class TsvectorIndex:
    """PostgreSQL: a tsvector column with a GIN index. Filters are ordinary columns."""

    is_immediate = True

    def add(self, docs: Sequence[SearchDocument]) -> Steps[None]:
        yield from execute_many(_ADD_VECTOR, [(*_column_values(doc), vector_text(doc)) for doc in docs])

    def remove(self, docs: Sequence[SearchDocument]) -> Steps[None]:
        yield from execute_many("DELETE FROM docs WHERE id = ?", [(doc.id,) for doc in docs])

    def clear(self) -> Steps[None]:
        yield from execute("DELETE FROM docs")

    def look_up(self, query: IndexQuery) -> Steps[Candidates]:
        conditions, params = filter_conditions(query.filters, BY_NAME)
        if query.ids:
            conditions.append("id BETWEEN ? AND ?")
            params += query.ids
        where = " AND ".join(["words @@ ?::tsquery", *conditions])
        found = yield from fetch_all(
            f"SELECT id FROM docs WHERE {where} ORDER BY id DESC LIMIT ?",  # noqa: S608 (fixed texts)
            query_text(query),
            *params,
            query.limit,
        )
        return (yield from _candidates(found, query.limit))

    def known_words(self, words: Sequence[str]) -> Steps[set[str]]:
        # Words that are in no document cost the server nothing.
        yield from ()
        return set(words)

    def count(self) -> Steps[int]:
        return (yield from fetch_number("SELECT count(words) FROM docs"))

    def holds(self, doc: int, word: str) -> Steps[bool]:
        found = yield from fetch_one(
            "SELECT id FROM docs WHERE words @@ ?::tsquery AND id = ?", f"'{word[:_LONGEST_WORD]}'", doc
        )
        return found is not None

    def problems(self) -> Steps[list[str]]:
        broken = yield from fetch_all(
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " WHERE c.relname = 'docs_by_words' AND NOT (i.indisvalid AND i.indisready)"
        )
        return [f"index {row[0]} is not valid" for row in broken]


def query_text(query: IndexQuery) -> str:
    """A query in the language of tsquery."""
    return " & ".join(f"({_tsquery_clause(clause)})" for clause in query.clauses)


def vector_text(doc: SearchDocument) -> str:
    """A document as a tsvector: its words with their positions, and parts of names without."""
    positions: dict[str, list[int]] = {}
    for position, word in enumerate(words_of(case_folded(doc.text)), 1):
        positions.setdefault(word[:_LONGEST_WORD], []).append(position)
    for part in camel_case_parts(doc.text):
        positions.setdefault(part[:_LONGEST_WORD], [])
    return " ".join(f"'{word}':{','.join(map(str, at))}" if at else f"'{word}'" for word, at in positions.items())


def _tsquery_clause(clause: Clause) -> str:
    return " | ".join(_tsquery_phrase(phrase) for phrase in clause)


def _tsquery_phrase(phrase: Phrase) -> str:
    words = [f"'{word[:_LONGEST_WORD]}'" for word in phrase.words]
    if phrase.is_prefix:
        words[-1] += ":*"
    return "(" + " <-> ".join(words) + ")"
