"""Whatever is asked, said or done: queries are data, views fold from entries, texts are found by their pieces."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.messages import Message
from clew.store import CompactionEntry, NewSession, Store, open_store
from clew.store.rows import FIRST_CHAIN, chains_after
from clew.store.search.query import FoldedText, parse_query
from clew.store.search.ranking import cut_snippet
from clew.store.search.words import case_folded, chunks_of, normalized_text, separate_unspaced, words_of
from clew.testing import assistant, user

texts = st.text(max_size=60) | st.text(alphabet="ab_ -\"'*():^&|!数据库éÉİß\u0301\ud800\x00AZ09.", max_size=40)


async def _answers(queries: list[str]) -> None:
    async with open_store(":memory:") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("plain words, 数据库 and getUserName_2 in src/a.py"), user("Éa ab AZ09 ß")])
        for query in queries:
            answer = await store.search(query)
            for hit in answer.hits:
                assert hit.snippet.text
            assert answer.hits or answer.searched is not None
        assert len(await store.messages("s")) == 2


@settings(max_examples=40, deadline=None)
@given(st.lists(texts, min_size=1, max_size=8))
def test_no_query_is_a_mistake(queries: list[str]) -> None:
    asyncio.run(_answers(queries))


async def _finds(text: str, piece: str) -> None:
    async with open_store(":memory:") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user(text)])
        answer = await store.search(piece)
        assert answer.hits, (text, piece)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(alphabet="abcxyzABC019数据库한글éü_-./", min_size=1, max_size=12), min_size=1, max_size=8),
    st.integers(0, 7),
)
def test_a_message_is_found_by_each_of_its_pieces(pieces: list[str], which: int) -> None:
    piece = pieces[which % len(pieces)]
    if words_of(case_folded(normalized_text(piece))):
        asyncio.run(_finds(" ".join(pieces), piece))


class _Model:
    """The history and the views as plain lists."""

    def __init__(self) -> None:
        self.history: list[Message] = []
        self.views: list[tuple[list[Message], int]] = [([], 0)]

    def view(self) -> list[Message]:
        shown, until = self.views[-1]
        return [*shown, *self.history[until:]]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("compact"), st.tuples(st.integers(0, 6), st.integers(0, 6))),
        st.tuples(st.just("undo"), st.none()),
        st.tuples(st.just("resend"), st.none()),
    ),
    max_size=14,
)


async def _step(store: Store, model: _Model, number: int, step: tuple[str, Any]) -> None:
    kind, value = step
    tip = await store.get_compression_tip("s")
    if kind == "append":
        said: list[Message] = [user(f"{number}.{part}") for part in range(value)]
        model.history += said
        await store.append("s", said)
    elif kind == "compact":
        head, tail = value
        view = await store.view(tip)
        shown = list(view.messages)
        summary = assistant(f"summary {number}")
        kept = [*shown[:head], summary, *shown[max(head, len(shown) - tail) :]]
        arrived = user(f"{number} meanwhile")
        await store.append(tip, [arrived])
        await store.commit_compaction(tip, CompactionEntry.of(view, kept, summary))
        model.views.append((kept, len(model.history)))
        model.history.append(arrived)
    elif kind == "undo":
        undone = await store.undo("s")
        assert (undone is None) == (len(model.views) == 1)
        if undone is not None:
            model.views.pop()
    else:
        assert (await store.sync(model.history, session=tip)).added == 0


async def _folds(done: list[tuple[str, Any]]) -> None:
    async with open_store(":memory:") as store:
        await store.start_session(NewSession(id="s"))
        model = _Model()
        for number, step in enumerate(done):
            await _step(store, model, number, step)
            tip = await store.get_compression_tip("s")
            assert list((await store.view(tip)).messages) == model.view()
            assert [it.message for it in await store.messages(tip)] == model.history
        assert await store.check() == []


@settings(max_examples=40, deadline=None)
@given(steps)
def test_views_fold_from_entries_and_the_history_only_grows(done: list[tuple[str, Any]]) -> None:
    asyncio.run(_folds(done))


@given(texts)
def test_case_folding_keeps_the_index_of_every_character(text: str) -> None:
    whole = normalized_text(text)
    assert len(case_folded(whole)) == len(whole)
    assert words_of(separate_unspaced(case_folded(whole))) == words_of(case_folded(whole))


@given(st.text(max_size=300), texts, st.integers(20, 120))
def test_a_snippet_is_a_piece_of_its_text(text: str, query: str, chars: int) -> None:
    for term in parse_query(query).terms:
        matches = FoldedText(text).matches(term)
        snippet = cut_snippet(text, matches, chars)
        assert snippet.text in text
        assert all(0 <= start < stop <= len(snippet.text) for start, stop in snippet.marks)


@given(st.integers(0, 30_000), st.integers(1, 9))
def test_chunks_cover_a_text(length: int, every: int) -> None:
    text = "".join(" " if place % (every * 100) == 0 else "x" for place in range(length))
    reached = 0
    for start, stop in chunks_of(text):
        assert start <= reached < stop
        reached = stop
    assert reached == length


@given(st.lists(st.text(max_size=5), min_size=2, max_size=5))
def test_only_the_same_texts_in_the_same_order_have_one_chain(said: list[str]) -> None:
    chain = chains_after(FIRST_CHAIN, [user(it) for it in said])[-1]
    other = chains_after(FIRST_CHAIN, [user(it) for it in reversed(said)])[-1]
    assert (chain == other) == (said == said[::-1])
