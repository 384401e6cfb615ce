"""Search pages for arbitrary scores, and matches for arbitrary texts."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from clew.store.search.base import DocumentOrigin, Phrase, SearchDocument
from clew.store.search.passages import RankedDocument, first_page, places_beside, with_neighbours
from clew.store.search.query import FoldedText, QueryTerm, TermMatch, parse_query
from clew.store.search.ranking import TextScore
from clew.store.search.words import case_folded, words_of

TERMS = tuple(QueryTerm("word", (Phrase((word,)),)) for word in ("alpha", "beta", "gamma"))
RARITIES = {term: float(number + 1) for number, term in enumerate(TERMS)}
TEXTS = st.text(st.sampled_from("ab aB_/.-?é数据"), max_size=40)


def _ranked(number: int, row: tuple[float, frozenset[int], str, str]) -> RankedDocument:
    score, held, role, text = row
    origin = DocumentOrigin("message", number, "", 1, 1, number, role, None, 0)
    found: dict[QueryTerm, Sequence[TermMatch]] = {TERMS[term]: [TermMatch(0, 1, 0)] for term in held}
    result = TextScore(score if found else 0.0, found)
    return RankedDocument(SearchDocument(origin, 0, len(text), text), result, result.score, number + 1)


def _terms_of(documents: Sequence[RankedDocument]) -> set[QueryTerm]:
    return {term for it in documents for term in it.result.found}


ROWS = st.lists(
    st.tuples(
        st.floats(0.1, 50),
        st.frozensets(st.integers(0, 2)),
        st.sampled_from(["user", "assistant", "tool"]),
        TEXTS,
    ),
    max_size=60,
)


@given(ROWS, st.integers(1, 20))
@example([(1.0, frozenset({0}), "user", "?"), (1.0, frozenset({1}), "user", "?")], 9)
@example([*[(9.0, frozenset({2}), "user", "")] * 9, (1.0, frozenset({0}), "user", "a")], 9)
def test_a_page_has_each_row_once_and_every_term_that_has_room(
    rows: list[tuple[float, frozenset[int], str, str]], limit: int
) -> None:
    documents = [_ranked(number, row) for number, row in enumerate(rows)]
    ranked = with_neighbours(documents)
    page = first_page(ranked, RARITIES, limit)
    shown = [it.doc.origin.ref for it in page]
    assert len(shown) == len(set(shown)) <= limit
    assert set(shown) <= {it.doc.origin.ref for it in ranked}
    # Where not all rows fit, a common term replaces no better row; the rarest does, from three rows on.
    certain = set(TERMS) if len(ranked) <= limit else {TERMS[-1]} if limit >= 3 else set()
    assert certain & _terms_of(ranked) <= _terms_of(page)


@given(ROWS)
def test_neighbours_never_lower_a_score_and_results_of_tools_get_nothing(
    rows: list[tuple[float, frozenset[int], str, str]],
) -> None:
    documents = [_ranked(number, row) for number, row in enumerate(rows)]
    after = {it.doc.origin.ref: it.score for it in with_neighbours(documents)}
    for it in documents:
        if it.doc.origin.role == "tool" and it.score > 0:
            assert after[it.doc.origin.ref] == it.score
        assert after.get(it.doc.origin.ref, 0.0) >= it.score
    known = {it.place for it in documents}
    assert not known.intersection(places_beside(documents))


@given(TEXTS, st.lists(TEXTS.filter(lambda text: bool(words_of(case_folded(text)))), min_size=1, max_size=3))
def test_a_phrase_matches_where_its_words_stand_in_a_row(text: str, pieces: list[str]) -> None:
    words = tuple(words_of(case_folded(" ".join(pieces))))
    joined = f"{text} {' '.join(pieces)} {text}"
    found = FoldedText(joined).find_phrase(Phrase(words))
    assert any(start <= len(text) + 1 + len(pieces[0]) and stop > len(text) + 1 for start, stop in found)
    for start, stop in found:
        assert words_of(case_folded(joined[start:stop])) == list(words)


@given(st.text(max_size=60))
def test_every_text_is_a_query(text: str) -> None:
    parsed = parse_query(text, 738_000)
    assert all(phrase.words for term in parsed.terms for phrase in term.any_of)
