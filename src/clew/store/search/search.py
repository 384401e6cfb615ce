"""Search: candidates from the index, newest first and a bounded number; then ranked by their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from clew.errors import DatabaseDamaged, DatabaseFull, IndexDamaged, InvalidArgument, ReadOnlyStore
from clew.store import sessions
from clew.store.database import (
    Clock,
    Database,
    Operations,
    Row,
    Steps,
    Turns,
    WordIndex,
    as_datetime,
    as_micros,
    fetch_all,
    fetch_number,
    marks,
    wall_clock,
)
from clew.store.history import segments_of
from clew.store.search.base import (
    KINDS,
    SearchCoverage,
    SearchDocument,
    SearchFilters,
    SearchHit,
    SearchResult,
    SearchScope,
    Snippet,
    SnippetSizes,
)
from clew.store.search.candidates import FoundCandidates, find_candidates
from clew.store.search.days import day_of
from clew.store.search.index import filter_conditions
from clew.store.search.index_updates import (
    build_side_index,
    catch_up,
    documents_where,
    drop_side_index,
    index_readable_rows,
    index_rows,
    is_behind,
)
from clew.store.search.passages import Place, RankedDocument, first_page, places_beside, with_neighbours
from clew.store.search.query import ParsedQuery, QueryTerm, may_ask, parse_query
from clew.store.search.ranking import (
    SNIPPET_CHARS,
    USUAL_CHARS,
    USUAL_TURN_CHARS,
    TextScore,
    cut_excerpts,
    cut_snippet,
    project_folder,
    score_days,
    score_text,
)
from clew.store.search.vectors import (
    NEAREST,
    AskedMeaning,
    DocumentKey,
    Embedder,
    NearDocument,
    VectorMaker,
    fused_ranks,
    nearest_documents,
    passages_of,
)

_READ = 60
_SHOWN_WELL = 6
"""Hits with long snippets, where later ones are to be shorter."""
_OTHER_PART = 0.5
"""Another part of the same text is shown too from this share of the best one's score on."""
_LONGEST_NEIGHBOUR = 8_000
"""The characters of JSON above which a neighbour of a hit is not read."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A query, where to search, and what to show; `meaning` is the vector of a question."""

    query: str
    scope: SearchScope
    limit: int
    sizes: SnippetSizes
    meaning: AskedMeaning | None = None


class SearchStore(Operations):
    """Search in a database, whose index is kept up to date. Without an embedding model there are no vectors."""

    def __init__(self, database: Database, clock: Clock = wall_clock, embedder: Embedder | None = None) -> None:
        super().__init__(database, clock)
        self._vectors = (
            None if embedder is None or database.unwritable else VectorMaker(embedder, database, self.index_waiting)
        )
        self._waiting_rows = 0

    async def search(
        self,
        query: str,
        scope: SearchScope | None = None,
        *,
        limit: int = 20,
        snippet_chars: int | SnippetSizes = SNIPPET_CHARS,
    ) -> SearchResult:
        """The best hits for any of the words of a query. Every text is a valid query."""
        sizes = SnippetSizes(snippet_chars) if isinstance(snippet_chars, int) else snippet_chars
        asked = SearchRequest(query, scope or SearchScope(), limit, sizes)
        index, read = self._database.index, self._database.read
        try:
            if self._vectors is not None and may_ask(query):
                asked = replace(asked, meaning=await self._vectors.meaning_of(query))
            if (found := await read(lambda: _search_if_indexed(index, asked))) is not None:
                return found
            await self.index_waiting()
            return await read(lambda: _search(index, asked))
        except (DatabaseFull, ReadOnlyStore):
            return await read(lambda: _search_unwritten(index, asked))
        except DatabaseDamaged:
            return await self._database.read_in_turns(_search_readable_rows(index, asked))
        except IndexDamaged:
            # Nothing is lost: the index is made from the rows.
            try:
                await self.rebuild_index()
                return await read(lambda: _search(index, asked))
            except (IndexDamaged, DatabaseDamaged, DatabaseFull, ReadOnlyStore):
                return await self._database.read_in_turns(_search_readable_rows(index, asked))

    async def index_waiting(self) -> None:
        """Index every row that waits for it."""
        if self._database.index.is_immediate:
            return
        if await self._database.read(is_behind):
            while await self._database.write(lambda: catch_up(self._database.index)):
                pass
        self._waiting_rows = 0

    async def rebuild_index(self) -> None:
        """Make the full-text index again from the rows. Vectors go with it, and are made again in their time."""
        index = self._database.index

        def operation() -> Steps[None]:
            yield from index.clear()
            for kind in KINDS if index.is_immediate else ():
                yield from index_rows(index, kind, "1 = 1")

        try:
            await self._database.write(operation)
            await self.index_waiting()
        except (IndexDamaged, DatabaseDamaged):
            await self._database.recreate_index()
            await self._database.write(operation)
            await self.index_waiting()
        if self._vectors is not None:
            self._vectors.forget()

    async def embed_waiting(self, most: int | None = None) -> int:
        """Make vectors of every document that waits for them, or of the newest; of how many they were made."""
        return 0 if self._vectors is None else await self._vectors.embed_waiting(most)

    async def vectors_waiting(self) -> int | None:
        """How many documents have no vectors yet; None where no embedding model is in use."""
        return None if self._vectors is None else await self._vectors.count_waiting()


def _search(index: WordIndex, asked: SearchRequest) -> Steps[SearchResult]:
    """The best hits for a query; with the meaning of a question also by that."""
    query, limit, meaning = asked.query, asked.limit, asked.meaning
    if limit < 1:
        raise InvalidArgument(f"limit is {limit}", remedy="ask for at least 1 hit")
    filters = yield from _filters(asked.scope)
    today = None
    if may_ask(query):
        newest = yield from fetch_number("SELECT at FROM docs ORDER BY id DESC LIMIT 1")
        today = day_of(newest if filters.before is None else min(newest, filters.before))
    parsed = parse_query(query, today)
    ranks = limit if meaning is None or not parsed.is_question else max(NEAREST, limit)
    hits: list[SearchHit] = []
    if parsed.terms or parsed.days is not None:
        found = yield from find_candidates(index, parsed, filters, max(_READ, ranks * 2))
        ranked = yield from _read_and_score(found)
        if found.query.is_question:
            places = places_beside(ranked, found.query.speaker)
            beside = yield from _read_beside(places, filters, found.query, found.rarities)
            ranked = with_neighbours([*ranked, *beside], found.query.speaker)
        near: list[NearDocument] = []
        if meaning is not None and found.query.is_question:
            near = yield from nearest_documents(meaning, filters, found.query.speaker)
        page = first_page(ranked, found.rarities, ranks if near else limit)
        if near:
            page = yield from _fused_page(page, near, found, limit)
        hits = yield from _hits(page, found.rarities, asked.sizes)
    return SearchResult(query, tuple(hits), None if hits else (yield from _coverage(filters)))


def _search_if_indexed(index: WordIndex, asked: SearchRequest) -> Steps[SearchResult | None]:
    """The best hits, where no row waits to be indexed; else None. In one transaction: nearly always none does."""
    is_waiting = not index.is_immediate and (yield from is_behind())
    return None if is_waiting else (yield from _search(index, asked))


def _search_unwritten(index: WordIndex, asked: SearchRequest) -> Steps[SearchResult]:
    """The best hits, also among rows that wait to be indexed, without writing to the database."""
    indexed = yield from _search(index, asked)
    yield from build_side_index(index)
    waiting = yield from _search(index, asked)
    yield from drop_side_index()
    best: dict[tuple[str, str], SearchHit] = {}
    for hit in sorted((*waiting.hits, *indexed.hits), key=lambda hit: -hit.score):
        best.setdefault((hit.kind, hit.ref), hit)
    hits = tuple(best.values())[: asked.limit]
    return SearchResult(asked.query, hits, None if hits else indexed.searched)


def _search_readable_rows(index: WordIndex, asked: SearchRequest) -> Turns[SearchResult]:
    """The best hits among the rows of a damaged database that can be read, without its index."""
    try:
        yield from index_readable_rows(index)
        found: SearchResult = yield partial(_search, index, replace(asked, meaning=None))
    finally:
        yield drop_side_index
    problem = "the database is damaged: only rows that can be read were searched; run `clew doctor --repair`"
    return replace(found, problem=problem)


def _read_and_score(found: FoundCandidates) -> Steps[list[RankedDocument]]:
    """Documents with their texts and scores, the best first, each row once."""
    of_rows: dict[tuple[str, int], list[RankedDocument]] = {}
    read = yield from _read(found.docs)
    folder = project_folder([doc.text for _, doc in read]) if found.query.has_plain_words else ""
    for number, doc in read:
        scored = _scored(doc, found.query, found.rarities, folder)
        if scored.score > 0:
            key = (doc.origin.kind, doc.origin.ref)
            of_rows.setdefault(key, []).append(RankedDocument(doc, scored, scored.score, number))
    best: list[RankedDocument] = []
    for parts in of_rows.values():
        parts.sort(key=lambda it: (-round(it.score, 9), -it.id))
        best.append(replace(parts[0], others=tuple(parts[1:])) if len(parts) > 1 else parts[0])
    return sorted(best, key=lambda it: (-round(it.score, 9), -it.id))


def _fused_page(
    by_words: Sequence[RankedDocument], near: Sequence[NearDocument], found: FoundCandidates, limit: int
) -> Steps[list[RankedDocument]]:
    """The best hits by words and by meaning together. Of those by meaning only what is shown is read."""
    documents: dict[DocumentKey, RankedDocument] = {it.key: it for it in by_words}
    scores = fused_ranks(list(documents), [it.key for it in near], limit)
    best = {it.key: it for it in reversed(near)}
    wanted = {it.id: it for key, it in best.items() if key in scores and key not in documents}
    for number, doc in (yield from _read(tuple(wanted))):
        it = wanted[number]
        starts = [start for start, _ in passages_of(doc.text)]
        begins = starts[it.passage] if it.passage < len(starts) else 0
        scored = _scored(doc, found.query, found.rarities)
        documents[it.key] = RankedDocument(doc, scored, scored.score, number, begins)
    return [replace(documents[key], score=score) for key, score in scores.items() if key in documents]


def _read(docs: Sequence[int]) -> Steps[list[tuple[int, SearchDocument]]]:
    """Some documents with their texts, by their ids."""
    listed = yield from _rows_by_id("docs", "id, kind, ref, start", docs)
    ids = {(kind, ref, start): int(number) for number, kind, ref, start in listed.values()}
    read: list[tuple[int, SearchDocument]] = []
    for kind in dict.fromkeys(kind for kind, _, _ in ids):
        if kind not in KINDS:
            raise IndexDamaged(
                f"the search index names {kind!r}, which is no kind of row", remedy="`clew doctor --repair` rebuilds it"
            )
        refs = list(dict.fromkeys(ref for its_kind, ref, _ in ids if its_kind == kind))
        column = "t.id" if kind == "system" else "m.id"
        found = yield from documents_where(kind, f"{column} IN ({marks(refs)})", *refs)
        for doc in (doc for _, docs_of_row in found for doc in docs_of_row):
            number = ids.get((kind, doc.origin.ref, doc.start))
            if number is not None:
                read.append((number, doc))
    return read


def _scored(
    doc: SearchDocument, parsed: ParsedQuery, rarities: Mapping[QueryTerm, float], folder: str = ""
) -> TextScore:
    is_turn = doc.origin.kind == "message" and doc.origin.role in ("user", "assistant")
    # A word of the project's own path is in every message with a path.
    text = doc.text.replace(folder, " " * len(folder)) if folder else doc.text
    scored = score_text(text, parsed, rarities, USUAL_TURN_CHARS if is_turn else USUAL_CHARS)
    of_days = score_days(doc.origin.at, parsed.days) if doc.origin.kind == "message" else 0.0
    return TextScore(scored.score + of_days, scored.found) if of_days else scored


def _read_beside(
    places: Sequence[Place], filters: SearchFilters, parsed: ParsedQuery, rarities: Mapping[QueryTerm, float]
) -> Steps[list[RankedDocument]]:
    """Turns beside the best ones, which the query's words did not find."""
    if not places or (filters.kinds and "message" not in filters.kinds):
        return []
    conditions, params = filter_conditions(replace(filters, kinds=()), _coverage_columns("message"))
    by_conversation: dict[int, list[int]] = {}
    for conversation, seq in places:
        by_conversation.setdefault(conversation, []).append(seq)
    ranked: list[RankedDocument] = []
    for conversation, numbers in by_conversation.items():
        where = [
            f"m.conversation = ? AND m.seq IN ({marks(numbers)})",
            "m.role IN ('user', 'assistant')",
            f"COALESCE(length(m.body), 0) <= {_LONGEST_NEIGHBOUR}",
            *conditions,
        ]
        found = yield from documents_where("message", " AND ".join(where), conversation, *numbers, *params)
        for _, docs in found:
            if docs:
                scored = _scored(docs[0], parsed, rarities)
                ranked.append(RankedDocument(docs[0], scored, scored.score))
    return ranked


def _hits(
    page: Sequence[RankedDocument], rarities: Mapping[QueryTerm, float], sizes: SnippetSizes
) -> Steps[list[SearchHit]]:
    origins = [it.doc.origin for it in page]
    of_sessions = yield from _rows_by_id("sessions", "name, title", [it.session for it in origins])
    of_outputs = yield from _rows_by_id("outputs", "name", [it.ref for it in origins if it.kind == "output"])
    hits: list[SearchHit] = []
    well_shown = 0
    for document, it in zip(page, origins, strict=True):
        name, title = of_sessions.get(it.session, (None, None))
        is_seen = it.kind == "message" and it.conversation == sizes.seen_in and it.seq in sizes.seen
        is_later = is_seen or well_shown == _SHOWN_WELL
        well_shown += not is_later
        chars = sizes.later if is_later and sizes.later is not None else sizes.best
        snippet, *more = _excerpts(document, rarities, replace(sizes, best=chars))
        hits.append(
            SearchHit(
                kind=it.kind,
                score=document.score,
                snippet=snippet,
                session=name,
                conversation=it.conversation,
                seq=it.seq,
                role=it.role,
                tool=it.tool,
                at=as_datetime(it.at),
                ref=of_outputs[it.ref][0] if it.kind == "output" else str(it.ref),
                title=title,
                chars=document.doc.chars,
                excerpts=tuple(sorted((snippet, *more), key=lambda it: it.start)),
                copies=document.copies,
            )
        )
    return hits


def _rows_by_id(table: str, columns: str, ids: Sequence[int | None]) -> Steps[dict[int | None, Row]]:
    wanted = list(dict.fromkeys(id for id in ids if id is not None))
    if not wanted:
        return {}
    read = yield from fetch_all(f"SELECT id, {columns} FROM {table} WHERE id IN ({marks(wanted)})", *wanted)  # noqa: S608
    return {row[0]: row[1:] for row in read}


def _excerpts(ranked: RankedDocument, rarities: Mapping[QueryTerm, float], sizes: SnippetSizes) -> list[Snippet]:
    """What is shown of a hit, the best part first."""
    doc = ranked.doc
    if not ranked.result.found and ranked.begins:
        snippet = cut_snippet(doc.text[ranked.begins :], (), sizes.best)
        start, is_end = doc.start + ranked.begins + snippet.start, snippet.is_end and doc.stop == doc.chars
        return [replace(snippet, start=start, is_start=False, is_end=is_end)]
    is_whole = doc.chars == len(doc.text) <= sizes.whole
    terms = [(rarities[term] * term.weight, matches) for term, matches in ranked.result.found.items()]
    found = cut_excerpts(doc.text, terms, max(sizes.best, doc.chars) if is_whole else sizes.best, sizes.excerpts, doc)
    for other in ranked.others if sizes.excerpts > 1 else ():
        if len(found) == sizes.excerpts or other.score < _OTHER_PART * ranked.score:
            break
        of_other = [(rarities[term] * term.weight, matches) for term, matches in other.result.found.items()]
        found += cut_excerpts(other.doc.text, of_other, sizes.best // sizes.excerpts, 1, other.doc)
    return found


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
