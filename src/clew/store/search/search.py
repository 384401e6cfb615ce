"""Search: candidates from the index, newest first and a bounded number; then ranked by their texts. As steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from clew.errors import InvalidArgument
from clew.store import sessions
from clew.store.database import Steps, WordIndex, as_datetime, as_micros, fetch_all, fetch_number, fetch_one
from clew.store.history import segments_of
from clew.store.search.base import (
    Candidates,
    Clause,
    DocKind,
    IndexQuery,
    Phrase,
    SearchCoverage,
    SearchFilters,
    SearchHit,
    SearchResult,
    SearchScope,
    Snippet,
)
from clew.store.search.index import filter_conditions
from clew.store.search.indexing import build_side_index, documents_where, drop_side_index
from clew.store.search.query import ParsedQuery, QueryTerm, parse_query
from clew.store.search.ranking import SNIPPET_CHARS, TextScore, cut_snippet, rarity, score_text

# Per term the newest documents are candidates; the best of them, by the index alone, are read and ranked.
_PER_TERM = 300
_PER_COMBINATION = 100
_READ = 80
_READ_OF_A_TERM = 2
"""So many more are read for a term that none of the best has."""
_RARE_TERM_SHARE = 3
"""One in so many hits may be shown for a term that the better hits do not have."""
_MOST_COMBINED = 6
_SHORTEST_PREFIX = 3


@dataclass(frozen=True, slots=True)
class _DocumentRow:
    """The row of a document."""

    id: int
    kind: DocKind
    ref: int
    start: int


@dataclass(frozen=True, slots=True)
class _RankedDocument:
    """A document that was read, with its score."""

    row: _DocumentRow
    text: str
    result: TextScore


def run_search(
    index: WordIndex, query: str, scope: SearchScope, limit: int, snippet_chars: int = SNIPPET_CHARS
) -> Steps[SearchResult]:
    """The best hits for a query."""
    if limit < 1:
        raise InvalidArgument(f"limit is {limit}; ask for at least 1 hit")
    filters = yield from _filters(scope)
    parsed = parse_query(query)
    hits: list[SearchHit] = []
    if parsed.terms:
        ranked, rarities = yield from _ranked(index, parsed, filters, max(_READ, limit * 2))
        for document in _first_page(ranked, rarities, limit):
            hits.append((yield from _hit(document, rarities, snippet_chars)))
    return SearchResult(query, tuple(hits), None if hits else (yield from _coverage(filters)))


def run_search_unwritten(
    index: WordIndex, query: str, scope: SearchScope, limit: int, snippet_chars: int = SNIPPET_CHARS
) -> Steps[SearchResult]:
    """The best hits, also among rows that wait to be indexed, without writing to the database."""
    indexed = yield from run_search(index, query, scope, limit, snippet_chars)
    yield from build_side_index(index)
    waiting = yield from run_search(index, query, scope, limit, snippet_chars)
    yield from drop_side_index()
    best: dict[tuple[str, str], SearchHit] = {}
    for hit in sorted((*waiting.hits, *indexed.hits), key=lambda hit: -hit.score):
        best.setdefault((hit.kind, hit.ref), hit)
    hits = tuple(best.values())[:limit]
    return SearchResult(query, hits, None if hits else indexed.searched)


def _first_page(
    ranked: Sequence[_RankedDocument], rarities: Mapping[QueryTerm, float], limit: int
) -> list[_RankedDocument]:
    """The best documents; the last of them give way to documents with terms that no better one has.

    Otherwise many rows with all the common words of a query would hide the one row with its rare word.
    """
    page, rest = list(ranked[:limit]), ranked[limit:]
    held = {term for document in page for term in document.result.found}
    with_rare_terms: list[_RankedDocument] = []
    for term in sorted(rarities, key=lambda term: -rarities[term]):
        if len(with_rare_terms) == limit // _RARE_TERM_SHARE:
            break
        if term not in held and (best := next((it for it in rest if term in it.result.found), None)) is not None:
            with_rare_terms.append(best)
            held.update(best.result.found)
    return [*page[: limit - len(with_rare_terms)], *with_rare_terms]


def _ranked(
    index: WordIndex, parsed: ParsedQuery, filters: SearchFilters, most: int
) -> Steps[tuple[list[_RankedDocument], dict[QueryTerm, float]]]:
    total = yield from fetch_number("SELECT max(id) FROM docs")
    terms, found = yield from _each_term(index, parsed, filters)
    if not found:
        return [], {}
    parsed = ParsedQuery(terms, parsed.neighbours)
    rarities = {term: rarity(found[term].estimate, total) for term in terms}
    votes: dict[int, float] = {}
    for term in terms:
        _vote(votes, found[term].docs, rarities[term] * term.weight)
    for clauses in _combinations(terms, rarities):
        together = yield from index.look_up(IndexQuery(clauses, filters, _PER_COMBINATION))
        # A document found only here counts for all of these terms; one found before gets a little more.
        gain = sum(rarities[term] * term.weight for term in terms if term.any_of in clauses)
        for doc in together.docs:
            votes[doc] = max(votes.get(doc, 0.0) + 0.01, gain + 0.01)
        if len(together.docs) == _PER_COMBINATION:
            # Fewer terms cannot give better candidates than these.
            break
    for pair in parsed.neighbours:
        beside = yield from index.look_up(IndexQuery(((pair,),), filters, _PER_COMBINATION))
        _vote(votes, beside.docs, 1.0)
    best = sorted(votes, key=lambda doc: (-votes[doc], -doc))[:most]
    for term in terms:
        docs = found[term].docs
        if docs and not set(docs).intersection(best):
            best += sorted(docs, key=lambda doc: (-votes[doc], -doc))[:_READ_OF_A_TERM]
    return (yield from _read_and_score(best, parsed, rarities)), rarities


def _each_term(
    index: WordIndex, parsed: ParsedQuery, filters: SearchFilters
) -> Steps[tuple[tuple[QueryTerm, ...], dict[QueryTerm, Candidates]]]:
    """The terms with their newest documents; a word without any is looked up as the beginning of a word."""
    found: dict[QueryTerm, Candidates] = {}
    for written in parsed.terms:
        term = yield from _with_known_forms(index, written)
        candidates = yield from index.look_up(IndexQuery((term.any_of,), filters, _PER_TERM))
        looser = _looser(term) if not candidates.docs else ()
        if not looser:
            found[term] = candidates
        for other in looser:
            found[other] = yield from index.look_up(IndexQuery((other.any_of,), filters, _PER_TERM))
    return tuple(found), found if any(it.docs for it in found.values()) else {}


def _with_known_forms(index: WordIndex, term: QueryTerm) -> Steps[QueryTerm]:
    """A word as it was written, and those of its forms that are in the index."""
    if term.kind != "word" or len(term.any_of) == 1:
        return term
    known = yield from index.known_words([phrase.words[0] for phrase in term.any_of[1:]])
    return QueryTerm(term.kind, (term.any_of[0], *(it for it in term.any_of[1:] if it.words[0] in known)), term.weight)


def _looser(term: QueryTerm) -> tuple[QueryTerm, ...]:
    """What to look up instead of a word or name that is not found: its beginning, and the words of a name."""
    written = term.any_of[0]
    if term.kind not in ("word", "name") or len(written.words[-1]) < _SHORTEST_PREFIX:
        prefix: tuple[QueryTerm, ...] = ()
    else:
        prefix = (QueryTerm(term.kind, (Phrase(written.words, is_prefix=True),), term.weight),)
    if term.kind == "name" and len(written.words) > 1:
        return (*prefix, *(QueryTerm("word", (Phrase((word,)),), 0.5) for word in dict.fromkeys(written.words)))
    return prefix


def _combinations(terms: Sequence[QueryTerm], rarities: dict[QueryTerm, float]) -> Iterable[tuple[Clause, ...]]:
    """Which terms to look up together: all, all but one, and each with the rarest."""
    if len(terms) < 2:
        return
    rarest = sorted(terms, key=lambda term: -rarities[term])[:_MOST_COMBINED]
    asked: set[tuple[Clause, ...]] = set()
    sets = [rarest, *([term for term in rarest if term is not left_out] for left_out in rarest)]
    for chosen in [*sets, *([rarest[0], other] for other in rarest[1:])]:
        clauses = tuple(term.any_of for term in chosen)
        if len(chosen) > 1 and clauses not in asked:
            asked.add(clauses)
            yield clauses


def _vote(votes: dict[int, float], docs: Iterable[int], weight: float) -> None:
    for doc in docs:
        votes[doc] = votes.get(doc, 0.0) + weight


def _read_and_score(
    docs: Sequence[int], parsed: ParsedQuery, rarities: dict[QueryTerm, float]
) -> Steps[list[_RankedDocument]]:
    """Documents with their texts and scores, the best first, each row once."""
    marks = ", ".join("?" * len(docs))
    read = yield from fetch_all(f"SELECT id, kind, ref, start FROM docs WHERE id IN ({marks})", *docs)  # noqa: S608
    rows = [_DocumentRow(*columns) for columns in read]
    texts = yield from _texts_of(rows)
    best: dict[tuple[str, int], _RankedDocument] = {}
    for row in rows:
        text = texts.get((row.kind, row.ref, row.start))
        if text is None:
            continue
        scored = score_text(text, parsed, rarities)
        key = (row.kind, row.ref)
        if scored.found and (key not in best or scored.score > best[key].result.score):
            best[key] = _RankedDocument(row, text, scored)
    return sorted(best.values(), key=lambda it: (-round(it.result.score, 6), -it.row.id))


def _texts_of(rows: Sequence[_DocumentRow]) -> Steps[dict[tuple[str, int, int], str]]:
    texts: dict[tuple[str, int, int], str] = {}
    for kind in dict.fromkeys(row.kind for row in rows):
        refs = list(dict.fromkeys(row.ref for row in rows if row.kind == kind))
        column = "t.id" if kind == "system" else "m.id"
        found = yield from documents_where(kind, f"{column} IN ({', '.join('?' * len(refs))})", *refs)
        for _, docs in found:
            texts.update({(kind, doc.origin.ref, doc.start): doc.text for doc in docs})
    return texts


def _hit(ranked: _RankedDocument, rarities: Mapping[QueryTerm, float], snippet_chars: int) -> Steps[SearchHit]:
    row = ranked.row
    read = yield from fetch_one(
        "SELECT s.name, s.title, d.conversation, d.seq, d.role, d.tool, d.at, o.name FROM docs d"
        " LEFT JOIN sessions s ON s.id = d.session LEFT JOIN outputs o ON o.id = d.ref AND d.kind = 'output'"
        " WHERE d.id = ?",
        row.id,
    )
    assert read is not None
    return SearchHit(
        kind=row.kind,
        score=ranked.result.score,
        snippet=_snippet(ranked, rarities, snippet_chars),
        session=read[0],
        conversation=read[2],
        seq=read[3],
        role=read[4],
        tool=read[5],
        at=as_datetime(read[6]),
        ref=read[7] if read[7] is not None else str(row.ref),
        title=read[1],
    )


def _snippet(ranked: _RankedDocument, rarities: Mapping[QueryTerm, float], chars: int) -> Snippet:
    marked = sorted(
        (
            (match, (number, rarities[term] * term.weight))
            for number, (term, matches) in enumerate(ranked.result.found.items())
            for match in matches
        ),
        key=lambda it: it[0].start,
    )
    matches, terms = [it[0] for it in marked], [it[1] for it in marked]
    return cut_snippet(ranked.text, matches, chars, ranked.row.start, terms)


def _filters(scope: SearchScope) -> Steps[SearchFilters]:
    segments: tuple[tuple[int, int | None], ...] = ()
    only: tuple[int, ...] = ()
    if scope.session is not None:
        only = ((yield from sessions.find(scope.session, scope.owner)).id,)
    if scope.conversation_of is not None:
        found = yield from sessions.find(scope.conversation_of, scope.owner)
        segments = tuple((it.conversation, it.stop) for it in (yield from segments_of(found)))
    return SearchFilters(
        owner=scope.owner,
        segments=segments,
        sessions=only,
        roles=scope.roles,
        tools=scope.tools,
        kinds=scope.kinds,
        since=None if scope.since is None else as_micros(scope.since),
        before=None if scope.before is None else as_micros(scope.before),
    )


def _coverage(filters: SearchFilters) -> Steps[SearchCoverage]:
    """How many rows of each kind pass the filters."""
    counts = {"message": 0, "summary": 0, "output": 0}
    for kind, table in (("message", "messages"), ("summary", "entries"), ("output", "outputs")):
        if filters.kinds and kind not in filters.kinds:
            continue
        conditions, params = filter_conditions(replace(filters, kinds=()), _coverage_columns(kind))
        if kind == "summary":
            conditions.append("m.summary IS NOT NULL")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        counts[kind] = yield from fetch_number(
            f"SELECT count(*) FROM {table} m JOIN conversations c ON c.id = m.conversation{where}",  # noqa: S608
            *params,
        )
    return SearchCoverage(counts["message"], counts["summary"], counts["output"])


def _coverage_columns(kind: str) -> dict[str, str]:
    return {
        "owner": "c.owner",
        "conversation": "m.conversation",
        "session": "m.session",
        "seq": "m.until" if kind == "summary" else "m.seq",
        "role": {"message": "m.role", "output": "'tool'"}.get(kind, "NULL"),
        "tool": "NULL" if kind == "summary" else "m.tool",
        "at": "m.at",
    }
