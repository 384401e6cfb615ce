"""Search: candidates from the index, newest first and bounded; then ranked and cut to snippets from their own text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clew.errors import InvalidArgument
from clew.store import sessions
from clew.store.clock import as_datetime, as_micros
from clew.store.database import WordIndex
from clew.store.docs import DocKind
from clew.store.history import segments_of
from clew.store.indexing import docs_where
from clew.store.lookup import Candidates, Clause, Filters, Lookup, Phrase
from clew.store.query import ParsedQuery, Term, parse_query
from clew.store.rank import Scored, rarity, score_text
from clew.store.snippet import SNIPPET_CHARS, Snippet, cut_snippet
from clew.store.steps import Steps, one, rows

# Of each term the newest hits; of all candidates the best by what the index alone says; those are read.
_PER_TERM = 300
_PER_COMBINATION = 100
_READ = 80
_READ_OF_A_TERM = 2
"""Of a term that none of the best holds."""
_LET_IN_SHARE = 3
"""One in so many hits may be there for a term that the better ones do not hold."""
_MOST_COMBINED = 6
_SHORTEST_PREFIX = 3


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where to search; everywhere when nothing is said."""

    session: str | None = None
    """One session alone."""
    conversation_of: str | None = None
    """The whole conversation of a session, with what it shares as a branch."""
    owner: str | None = None
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    kinds: tuple[DocKind, ...] = ("message", "summary", "output")
    since: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A message, summary, output or system prompt that answers a query."""

    kind: DocKind
    score: float
    snippet: Snippet
    session: str | None
    conversation: int | None
    seq: int | None
    """The number of the message; for a summary or an output, how many messages came before it."""
    role: str | None
    tool: str | None
    at: datetime
    ref: str
    """An output's id; for the others what they are called in this database."""
    title: str | None


@dataclass(frozen=True, slots=True)
class HitGroup:
    """The hits of one conversation, the best first."""

    conversation: int | None
    title: str | None
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search covered."""

    messages: int
    summaries: int
    outputs: int

    def __str__(self) -> str:
        return f"{self.messages:,} messages, {self.summaries:,} summaries, {self.outputs:,} outputs"


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Hits, the best first; when there are none, what was searched (counting it takes a while)."""

    query: str
    hits: tuple[Hit, ...]
    searched: Searched | None

    @property
    def groups(self) -> tuple[HitGroup, ...]:
        """The hits by conversation, in the order of each one's best hit."""
        by_conversation: dict[int | None, list[Hit]] = {}
        for hit in self.hits:
            by_conversation.setdefault(hit.conversation, []).append(hit)
        return tuple(HitGroup(key, hits[0].title, tuple(hits)) for key, hits in by_conversation.items())

    def __str__(self) -> str:
        return f"{len(self.hits)} hits" if self.hits else f"searched {self.searched}: none"


@dataclass(frozen=True, slots=True)
class _Place:
    """A document's row."""

    id: int
    kind: DocKind
    ref: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Answer:
    """A document that was read, and how well it answers."""

    place: _Place
    text: str
    scored: Scored


def search(
    index: WordIndex, query: str, scope: SearchScope, limit: int, snippet_chars: int = SNIPPET_CHARS
) -> Steps[SearchAnswer]:
    """The best hits for a query."""
    if limit < 1:
        raise InvalidArgument(f"limit is {limit}; ask for at least 1 hit")
    filters = yield from _filters(scope)
    parsed = parse_query(query)
    hits: list[Hit] = []
    if parsed.terms:
        ranked, rarities = yield from _ranked(index, parsed, filters, max(_READ, limit * 2))
        for answer in _first_page(ranked, rarities, limit):
            hits.append((yield from _hit(answer, rarities, snippet_chars)))
    return SearchAnswer(query, tuple(hits), None if hits else (yield from _searched(filters)))


def _first_page(ranked: Sequence[_Answer], rarities: Mapping[Term, float], limit: int) -> list[_Answer]:
    """The best answers, the last of which make room for terms that none of them holds.

    Many rows that hold all the common words of a query would otherwise hide the one that holds its rare word.
    """
    page, rest = list(ranked[:limit]), ranked[limit:]
    held = {term for answer in page for term in answer.scored.found}
    let_in: list[_Answer] = []
    for term in sorted(rarities, key=lambda term: -rarities[term]):
        if len(let_in) == limit // _LET_IN_SHARE:
            break
        if term not in held and (best := next((it for it in rest if term in it.scored.found), None)) is not None:
            let_in.append(best)
            held.update(best.scored.found)
    return [*page[: limit - len(let_in)], *let_in]


def _ranked(
    index: WordIndex, parsed: ParsedQuery, filters: Filters, most: int
) -> Steps[tuple[list[_Answer], dict[Term, float]]]:
    total = yield from one("SELECT max(id) FROM docs")
    terms, found = yield from _each_term(index, parsed, filters)
    if not found:
        return [], {}
    parsed = ParsedQuery(terms, parsed.neighbours)
    rarities = {term: rarity(found[term].estimate, int(total[0] or 0) if total else 0) for term in terms}
    votes: dict[int, float] = {}
    for term in terms:
        _vote(votes, found[term].docs, rarities[term] * term.weight)
    for clauses in _combinations(terms, rarities):
        together = yield from index.look_up(Lookup(clauses, filters, _PER_COMBINATION))
        # What was found only together counts for all of its terms; what was found apart gets a little more.
        gain = sum(rarities[term] * term.weight for term in terms if term.any_of in clauses)
        for doc in together.docs:
            votes[doc] = max(votes.get(doc, 0.0) + 0.01, gain + 0.01)
        if len(together.docs) == _PER_COMBINATION:
            # So many hold these together that no looser set can do better.
            break
    for pair in parsed.neighbours:
        beside = yield from index.look_up(Lookup(((pair,),), filters, _PER_COMBINATION))
        _vote(votes, beside.docs, 1.0)
    best = sorted(votes, key=lambda doc: (-votes[doc], -doc))[:most]
    for term in terms:
        docs = found[term].docs
        if docs and not set(docs).intersection(best):
            best += sorted(docs, key=lambda doc: (-votes[doc], -doc))[:_READ_OF_A_TERM]
    return (yield from _read_and_score(best, parsed, rarities)), rarities


def _each_term(
    index: WordIndex, parsed: ParsedQuery, filters: Filters
) -> Steps[tuple[tuple[Term, ...], dict[Term, Candidates]]]:
    """The terms with their newest hits; a word that has none is asked for as the beginning of one."""
    found: dict[Term, Candidates] = {}
    for written in parsed.terms:
        term = yield from _with_known_forms(index, written)
        candidates = yield from index.look_up(Lookup((term.any_of,), filters, _PER_TERM))
        looser = _looser(term) if not candidates.docs else ()
        if not looser:
            found[term] = candidates
        for other in looser:
            found[other] = yield from index.look_up(Lookup((other.any_of,), filters, _PER_TERM))
    return tuple(found), found if any(it.docs for it in found.values()) else {}


def _with_known_forms(index: WordIndex, term: Term) -> Steps[Term]:
    """A word with those of its forms that stand anywhere, beside how it was written."""
    if term.kind != "word" or len(term.any_of) == 1:
        return term
    known = yield from index.known([phrase.words[0] for phrase in term.any_of[1:]])
    return Term(term.kind, (term.any_of[0], *(it for it in term.any_of[1:] if it.words[0] in known)), term.weight)


def _looser(term: Term) -> tuple[Term, ...]:
    """What to ask for instead of a word or name that stands nowhere: its beginning, and a name's words."""
    written = term.any_of[0]
    if term.kind not in ("word", "name") or len(written.words[-1]) < _SHORTEST_PREFIX:
        begun: tuple[Term, ...] = ()
    else:
        begun = (Term(term.kind, (Phrase(written.words, is_prefix=True),), term.weight),)
    if term.kind == "name" and len(written.words) > 1:
        return (*begun, *(Term("word", (Phrase((word,)),), 0.5) for word in dict.fromkeys(written.words)))
    return begun


def _combinations(terms: Sequence[Term], rarities: dict[Term, float]) -> Iterable[tuple[Clause, ...]]:
    """Which terms to ask for together: all, all but one, and each with the rarest."""
    if len(terms) < 2:
        return
    telling = sorted(terms, key=lambda term: -rarities[term])[:_MOST_COMBINED]
    asked: set[tuple[Clause, ...]] = set()
    sets = [telling, *([term for term in telling if term is not left_out] for left_out in telling)]
    for chosen in [*sets, *([telling[0], other] for other in telling[1:])]:
        clauses = tuple(term.any_of for term in chosen)
        if len(chosen) > 1 and clauses not in asked:
            asked.add(clauses)
            yield clauses


def _vote(votes: dict[int, float], docs: Iterable[int], weight: float) -> None:
    for doc in docs:
        votes[doc] = votes.get(doc, 0.0) + weight


def _read_and_score(docs: Sequence[int], parsed: ParsedQuery, rarities: dict[Term, float]) -> Steps[list[_Answer]]:
    """Documents with their texts, best first, each row once."""
    marks = ", ".join("?" * len(docs))
    read = yield from rows(f"SELECT id, kind, ref, start, stop FROM docs WHERE id IN ({marks})", *docs)  # noqa: S608
    places = [_Place(*row) for row in read]
    texts = yield from _texts_of(places)
    best: dict[tuple[str, int], _Answer] = {}
    for place in places:
        text = texts.get((place.kind, place.ref, place.start))
        if text is None:
            continue
        scored = score_text(text, parsed, rarities)
        key = (place.kind, place.ref)
        if scored.found and (key not in best or scored.score > best[key].scored.score):
            best[key] = _Answer(place, text, scored)
    return sorted(best.values(), key=lambda it: (-round(it.scored.score, 6), -it.place.id))


def _texts_of(places: Sequence[_Place]) -> Steps[dict[tuple[str, int, int], str]]:
    texts: dict[tuple[str, int, int], str] = {}
    for kind in dict.fromkeys(place.kind for place in places):
        refs = list(dict.fromkeys(place.ref for place in places if place.kind == kind))
        column = "t.id" if kind == "system" else "m.id"
        found = yield from docs_where(kind, f"{column} IN ({', '.join('?' * len(refs))})", *refs)
        for _, docs in found:
            texts.update({(kind, doc.origin.ref, doc.start): doc.text for doc in docs})
    return texts


def _hit(answer: _Answer, rarities: Mapping[Term, float], snippet_chars: int) -> Steps[Hit]:
    place = answer.place
    row = yield from one(
        "SELECT s.name, s.title, d.conversation, d.seq, d.role, d.tool, d.at, o.name FROM docs d"
        " LEFT JOIN sessions s ON s.id = d.session LEFT JOIN outputs o ON o.id = d.ref AND d.kind = 'output'"
        " WHERE d.id = ?",
        place.id,
    )
    assert row is not None
    return Hit(
        kind=place.kind,
        score=answer.scored.score,
        snippet=_snippet(answer, rarities, snippet_chars),
        session=row[0],
        conversation=row[2],
        seq=row[3],
        role=row[4],
        tool=row[5],
        at=as_datetime(row[6]),
        ref=row[7] if row[7] is not None else str(place.ref),
        title=row[1],
    )


def _snippet(answer: _Answer, rarities: Mapping[Term, float], chars: int) -> Snippet:
    marked = sorted(
        (
            (match, (number, rarities[term] * term.weight))
            for number, (term, matches) in enumerate(answer.scored.found.items())
            for match in matches
        ),
        key=lambda it: it[0].start,
    )
    matches, terms = [it[0] for it in marked], [it[1] for it in marked]
    return cut_snippet(answer.text, matches, chars, answer.place.start, terms)


def _filters(scope: SearchScope) -> Steps[Filters]:
    segments: tuple[tuple[int, int | None], ...] = ()
    only: tuple[int, ...] = ()
    if scope.session is not None:
        only = ((yield from sessions.find(scope.session, scope.owner)).id,)
    if scope.conversation_of is not None:
        found = yield from sessions.find(scope.conversation_of, scope.owner)
        segments = tuple((it.conversation, it.stop) for it in (yield from segments_of(found)))
    return Filters(
        owner=scope.owner,
        segments=segments,
        sessions=only,
        roles=scope.roles,
        tools=scope.tools,
        kinds=scope.kinds,
        since=None if scope.since is None else as_micros(scope.since),
        before=None if scope.before is None else as_micros(scope.before),
    )


def _searched(filters: Filters) -> Steps[Searched]:
    """How many rows of each kind passed the filters."""
    counts = {"message": 0, "summary": 0, "output": 0}
    for kind, table in (("message", "messages"), ("summary", "entries"), ("output", "outputs")):
        if filters.kinds and kind not in filters.kinds:
            continue
        where, params = _conditions(kind, filters)
        row = yield from one(
            f"SELECT count(*) FROM {table} m JOIN conversations c ON c.id = m.conversation WHERE {where}",  # noqa: S608
            *params,
        )
        counts[kind] = int(row[0]) if row else 0
    return Searched(counts["message"], counts["summary"], counts["output"])


def _conditions(kind: str, filters: Filters) -> tuple[str, list[Any]]:
    where, params = ["1 = 1" if kind != "summary" else "m.summary IS NOT NULL"], list[Any]()
    if filters.owner is not None:
        where.append("c.owner = ?")
        params.append(filters.owner)
    if filters.segments:
        seq = "m.until" if kind == "summary" else "m.seq"
        parts = []
        for conversation, stop in filters.segments:
            parts.append("m.conversation = ?" if stop is None else f"(m.conversation = ? AND {seq} < ?)")
            params += [conversation] if stop is None else [conversation, stop]
        where.append(f"({' OR '.join(parts)})")
    role = "m.role" if kind == "message" else "'tool'" if kind == "output" else "NULL"
    tool = "NULL" if kind == "summary" else "m.tool"
    for column, wanted in (("m.session", filters.sessions), (role, filters.roles), (tool, filters.tools)):
        if wanted:
            where.append(f"{column} IN ({', '.join('?' * len(wanted))})")
            params += wanted
    for condition, value in (("m.at >= ?", filters.since), ("m.at < ?", filters.before)):
        if value is not None:
            where.append(condition)
            params.append(value)
    return " AND ".join(where), params
