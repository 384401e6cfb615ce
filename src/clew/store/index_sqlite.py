"""The full-text index in SQLite: contentless FTS5, with the filters as words of a column of their own.

Knows FTS5's language and nothing of ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from clew.store.docs import Doc, Origin
from clew.store.lookup import Candidates, Clause, Filters, Lookup, Phrase
from clew.store.steps import Steps, one, rows, run, run_many
from clew.store.words import folded, hump_parts, spaced

_ADD_DOC = (
    "INSERT INTO docs (id, kind, ref, start, stop, owner, conversation, session, seq, role, tool, at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_ADD_WORDS = "INSERT INTO words (rowid, text, parts, facets) VALUES (?, ?, ?, ?)"
_REMOVE_WORDS = "INSERT INTO words (words, rowid, text, parts, facets) VALUES ('delete', ?, ?, ?, ?)"


class Fts5Index:
    is_immediate = False

    def add(self, docs: Sequence[Doc]) -> Steps[None]:
        if not docs:
            return
        last = yield from one("SELECT max(id) FROM docs")
        first = (last[0] or 0) + 1 if last else 1
        numbered = list(enumerate(docs, first))
        yield from run_many(_ADD_DOC, [_doc_row(number, doc) for number, doc in numbered])
        yield from run_many(_ADD_WORDS, [_words_row(number, doc) for number, doc in numbered])

    def remove(self, docs: Sequence[Doc]) -> Steps[None]:
        yield from run_many(_REMOVE_WORDS, [_words_row(doc.id, doc) for doc in docs])
        yield from run_many("DELETE FROM docs WHERE id = ?", [(doc.id,) for doc in docs])

    def clear(self) -> Steps[None]:
        # Dropping reads the damaged tables; making them anew does not depend on what they hold.
        yield from run("DROP TABLE IF EXISTS words")
        yield from run(
            "CREATE VIRTUAL TABLE words USING fts5 ("
            "text, parts, facets, content = '', tokenize = 'unicode61 remove_diacritics 0')"
        )
        yield from run("DELETE FROM docs")
        yield from run("UPDATE indexed SET upto = 0")

    def look_up(self, lookup: Lookup) -> Steps[Candidates]:
        match = match_text(lookup)
        filters = lookup.filters
        bounded = [(conversation, end) for conversation, end in filters.segments if end is not None]
        if filters.since is None and filters.before is None and not bounded:
            found = yield from rows(
                "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?", match, lookup.limit
            )
        else:
            where, params = _row_filters(filters, bounded)
            found = yield from rows(
                "SELECT words.rowid FROM words CROSS JOIN docs ON docs.id = words.rowid"  # noqa: S608 (fixed texts)
                f" WHERE words MATCH ?{where} ORDER BY words.rowid DESC LIMIT ?",
                match,
                *params,
                lookup.limit,
            )
        ids = tuple(int(row[0]) for row in found)
        newest = yield from one("SELECT max(id) FROM docs")
        return Candidates(ids, estimated(ids, lookup.limit, int(newest[0] or 0) if newest else 0))

    def known(self, words: Sequence[str]) -> Steps[set[str]]:
        # Each look costs little; a spelling that stands nowhere costs as much again in every combination it is in.
        known: set[str] = set()
        for word in words:
            found = yield from one("SELECT rowid FROM words WHERE words MATCH ? LIMIT 1", f'{{text parts}} : "{word}"')
            if found is not None:
                known.add(word)
        return known

    def count(self) -> Steps[int]:
        found = yield from one("SELECT count(*) FROM words_docsize")
        return int(found[0]) if found else 0

    def holds(self, doc: int, word: str) -> Steps[bool]:
        found = yield from one(
            "SELECT rowid FROM words WHERE words MATCH ? AND rowid = ?", f'{{text parts}} : "{word}"', doc
        )
        return found is not None

    def problems(self) -> Steps[list[str]]:
        # Raises where something is wrong; the runner says what.
        yield from run("INSERT INTO words (words) VALUES ('integrity-check')")
        return []


def estimated(ids: Sequence[int], limit: int, newest: int) -> int:
    """How many documents match: exact when all were found, else as dense as among the newest."""
    if len(ids) < limit or not ids:
        return len(ids)
    return max(len(ids), len(ids) * newest // max(1, newest - ids[-1] + 1))


def match_text(lookup: Lookup) -> str:
    """A lookup in FTS5's words. All of them are quoted, and hold letters and digits only."""
    clauses = [f"{{text parts}} : ({_any_of(clause)})" for clause in lookup.clauses]
    for facets in _facet_clauses(lookup.filters):
        clauses.append("facets : (" + " OR ".join(f'"{facet}"' for facet in facets) + ")")
    return " AND ".join(f"({clause})" for clause in clauses)


def _any_of(clause: Clause) -> str:
    return " OR ".join(_phrase(phrase) for phrase in clause)


def _phrase(phrase: Phrase) -> str:
    return '"' + " ".join(phrase.words) + '"' + (" *" if phrase.is_prefix else "")


def _facet_clauses(filters: Filters) -> list[list[str]]:
    wanted = [
        [] if filters.owner is None else [_owner(filters.owner)],
        [f"c{conversation}" for conversation, _ in filters.segments],
        [f"s{session}" for session in filters.sessions],
        [_role(role) for role in filters.roles],
        [_tool(tool) for tool in filters.tools],
        [f"k{kind}" for kind in filters.kinds],
    ]
    return [facets for facets in wanted if facets]


def _facets(it: Origin) -> str:
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
    """A name of any spelling as one word."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _row_filters(filters: Filters, bounded: Sequence[tuple[int, int]]) -> tuple[str, list[int]]:
    where, params = "", []
    if filters.since is not None:
        where += " AND docs.at >= ?"
        params.append(filters.since)
    if filters.before is not None:
        where += " AND docs.at < ?"
        params.append(filters.before)
    for conversation, end in bounded:
        where += " AND (docs.conversation <> ? OR docs.seq < ?)"
        params += [conversation, end]
    return where, params


def _doc_row(number: int, doc: Doc) -> tuple[object, ...]:
    it = doc.origin
    return (
        number,
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
    )


def _words_row(number: int, doc: Doc) -> tuple[object, ...]:
    return number, spaced(folded(doc.text)), " ".join(hump_parts(doc.text)), _facets(doc.origin)
