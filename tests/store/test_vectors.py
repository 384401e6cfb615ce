"""Vectors: passages, two rankings in one, the model of the extra, and when there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.install import has_extra
from clew.store import NewSession, SearchScope, installed_embedder, open_store
from clew.store.search.vectors import PASSAGE_CHARS, passages_of
from clew.testing import assistant, user
from tests.support.embedder import GroupEmbedder


def test_a_text_has_few_passages_of_bounded_length_that_follow_each_other() -> None:
    text = "One sentence of a long turn, and another one. " * 200
    passages = passages_of(text)
    assert len(passages) == 3
    assert [start for start, _ in passages[1:]] == [stop for _, stop in passages[:-1]]
    assert all(0 < stop - start <= PASSAGE_CHARS for start, stop in passages)
    assert all(text[start:stop].endswith(". ") for start, stop in passages)
    assert passages_of("short") == [(0, 5)]
    assert passages_of("") == []
    assert passages_of("x" * 2_500) == [(0, 1_000), (1_000, 2_000), (2_000, 2_500)]


def test_without_being_wanted_there_is_no_model() -> None:
    assert installed_embedder(wanted=False) is None
    assert (installed_embedder(wanted=True) is None) == (not has_extra("vectors"))


async def test_making_of_vectors_goes_on_where_a_process_ended(tmp_path: Path) -> None:
    where = tmp_path / "state.db"
    said = [user(f"turn {number}") for number in range(40)]
    async with open_store(where) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", said)
    first, second = GroupEmbedder("turn"), GroupEmbedder("turn")
    async with open_store(where, embedder=first) as store:
        assert 0 < await store.embed_waiting(most=1) < len(said)
        waiting = await store.vectors_waiting()
        assert waiting == len(said) - len(first.embedded)
    assert first.embedded[0] == "turn 39", "the newest first"
    async with open_store(where, embedder=second) as store:
        assert await store.embed_waiting() == waiting
    assert sorted(first.embedded + second.embedded) == sorted(f"turn {number}" for number in range(40))


@pytest.mark.skipif(not has_extra("vectors"), reason="needs the extra `vectors`")
async def test_the_model_of_the_extra_finds_what_shares_no_word(tmp_path: Path) -> None:
    embedder = installed_embedder(wanted=True)
    assert embedder is not None
    async with open_store(tmp_path / "state.db", embedder=embedder) as store:
        await store.start_session(NewSession(id="s"))
        await store.append(
            "s",
            [
                user("I bake sourdough bread every Sunday."),
                assistant("That sounds delicious."),
                user("My daughter is studying marine biology at university."),
                assistant("How interesting!"),
                user("The heating in the cellar broke down again. \ud83d"),
                assistant("Call the plumber."),
            ],
        )
        assert await store.embed_waiting() == 6
        best = [hit.seq for hit in (await store.search("Which ocean sciences do her children learn?")).hits]
        assert best[:1] == [2]
        scope = SearchScope(conversation_of="s")
        assert (await store.search("quetzalcoatlus", scope)).hits == ()
