"""Which documents may answer a query: the newest of each term, and of terms together, by the index. As steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from clew.store.database import Steps, WordIndex, fetch_all, fetch_number
from clew.store.search.base import Candidates, Clause, IndexQuery, Phrase, SearchFilters
from clew.store.search.days import WRITTEN_WITHIN, micros_of_day
from clew.store.search.index import BY_NAME, filter_conditions
from clew.store.search.query import ParsedQuery, QueryTerm
from clew.store.search.ranking import DAY_WEIGHT, rarity

# Per term the newest documents are candidates; the best of them, by the index alone, are read and ranked.
_PER_TERM = 300
_PER_COMBINATION = 100
_READ_OF_A_TERM = 2
"""Documents read in addition for a term that none of the best has."""
_MOST_COMBINED = 4
_SHORTEST_PREFIX = 3
_DAYS_READ_WHOLE = 3
_READ_OF_DAYS = 40


@dataclass(frozen=True, slots=True)
class FoundCandidates:
    """The documents to read, the most promising first, and the terms that the index knows, with their rarities."""

    docs: tuple[int, ...]
    query: ParsedQuery
    rarities: dict[QueryTerm, float]


def find_candidates(index: WordIndex, parsed: ParsedQuery, filters: SearchFilters, most: int) -> Steps[FoundCandidates]:
    """At most `most` documents that promise most, and a few more for terms that none of these has."""
    terms, found = yield from _each_term(index, parsed, filters)
    if not parsed.is_question and not any(it.docs for it in found.values()):
        return FoundCandidates((), parsed, {})
    parsed = replace(parsed, terms=terms)
    if len(terms) == 1 and not parsed.is_question:
        # A single term needs no weight.
        total, rarities = 0, dict.fromkeys(terms, 1.0)
    else:
        total = yield from _documents_in(filters)
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
    if parsed.days is not None:
        for doc, weight in (yield from _from_days(index, parsed, filters)).items():
            votes[doc] = votes.get(doc, 0.0) + weight
    best = sorted(votes, key=lambda doc: (-votes[doc], -doc))[:most]
    for term in terms:
        docs = found[term].docs
        if docs and not set(docs).intersection(best):
            best += sorted(docs, key=lambda doc: (-votes[doc], -doc))[:_READ_OF_A_TERM]
    return FoundCandidates(tuple(best), parsed, rarities)


def _documents_in(filters: SearchFilters) -> Steps[int]:
    """About how many documents are searched: a word of every message of a conversation says nothing in it."""
    total = yield from fetch_number("SELECT max(id) FROM docs")
    if not filters.segments:
        return total
    rows = yield from fetch_number("SELECT max(id) FROM messages")
    numbers = 0
    for conversation, stop in filters.segments:
        newest = yield from fetch_number("SELECT max(seq) FROM messages WHERE conversation = ?", conversation)
        numbers += newest + 1 if stop is None else min(stop, newest + 1)
    return total * numbers // max(1, rows)


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
    return tuple(found), found


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


def _from_days(index: WordIndex, parsed: ParsedQuery, filters: SearchFilters) -> Steps[dict[int, float]]:
    """Documents of the days that a query names, and of the few behind them; those with its words first.

    Of a few days also what has none of its words, up to a number of documents: "What happened on 12 March?".
    """
    assert parsed.days is not None
    first, last = parsed.days.first, parsed.days.last
    ids = yield from _ids_between(filters, micros_of_day(first), micros_of_day(last + WRITTEN_WITHIN + 1))
    found: dict[int, float] = {}
    any_term = tuple(phrase for term in parsed.terms for phrase in term.any_of)
    if ids is not None and any_term:
        with_words = yield from index.look_up(IndexQuery((any_term,), filters, _PER_COMBINATION, ids))
        found = dict.fromkeys(with_words.docs, DAY_WEIGHT)
    if ids is not None and last - first < _DAYS_READ_WHOLE:
        conditions, params = filter_conditions(filters, BY_NAME)
        where = " AND ".join(["id BETWEEN ? AND ?", "role IN ('user', 'assistant')", *conditions])
        rows = yield from fetch_all(
            f"SELECT id FROM docs WHERE {where} ORDER BY id LIMIT ?",  # noqa: S608 (fixed texts)
            *ids,
            *params,
            _READ_OF_DAYS,
        )
        for (doc,) in rows:
            found.setdefault(int(doc), DAY_WEIGHT / 2)
    return found


def _ids_between(filters: SearchFilters, since: int, before: int) -> Steps[tuple[int, int] | None]:
    """The ids of documents of messages of a certain time, in the last conversation that is searched, or in all.

    Messages come in the order of time, so that halving finds the first of a day without reading the others.
    """
    where, params = ("conversation = ?", (filters.segments[-1][0],)) if filters.segments else ("1 = 1", ())
    column = "seq" if filters.segments else "id"
    newest = yield from fetch_number(f"SELECT max({column}) FROM messages WHERE {where}", *params)  # noqa: S608
    next_row = f"FROM messages WHERE {where} AND {column} >= ? ORDER BY {column} LIMIT 1"
    ends: list[int] = []
    for at in (since, before):
        low, high = 0, 1 + newest
        while low < high:
            middle = (low + high) // 2
            there = yield from fetch_number(f"SELECT at {next_row}", *params, middle)
            low, high = (low, middle) if there >= at else (middle + 1, high)
        message = yield from fetch_number(f"SELECT id {next_row}", *params, low)
        doc = "SELECT id FROM docs WHERE kind = 'message' AND ref >= ? ORDER BY ref LIMIT 1"
        ends.append((yield from fetch_number(doc, message)) if message else 0)
    first, end = ends
    last = end - 1 if end else (yield from fetch_number("SELECT max(id) FROM docs"))
    return (first, last) if 0 < first <= last else None
