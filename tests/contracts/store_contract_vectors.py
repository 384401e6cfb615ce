"""The store contract: with an embedding model questions are found by what they mean, and nothing else changes."""

from __future__ import annotations

import asyncio

import pytest

from clew.store import NewSession, SearchScope, Store, open_store
from clew.testing.messages import assistant, tool, user
from tests.contracts.store_contract_search import found
from tests.support.embedder import GroupEmbedder

QUESTION = "Which automobile does she own?"


def embedder(name: str = "groups") -> GroupEmbedder:
    return GroupEmbedder("automobile sedan hatchback", "physician surgeon", name=name)


async def talked(store: Store, session: str = "s", owner: str = "") -> None:
    await store.start_session(NewSession(id=session, owner=owner))
    said = [user("My sedan is red."), assistant("What a nice colour."), user("The surgeon called."), assistant("Oh.")]
    await store.append(session, said)


class VectorContract:
    async def test_a_question_without_a_word_of_its_answer_finds_it_by_meaning(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talked(store)
            assert await found(store, QUESTION) == []
        async with open_store(store_url, embedder=embedder()) as store:
            assert (await found(store, QUESTION))[0] == 0

    async def test_other_queries_find_their_words_and_no_others(self, store_url: str) -> None:
        model = embedder()
        async with open_store(store_url, embedder=model) as store:
            await talked(store)
            assert await found(store, "automobile") == []
            assert await found(store, "sedan") == [0]
            assert "automobile" not in model.embedded

    async def test_what_has_the_words_stays_before_what_is_only_like_them(self, store_url: str) -> None:
        async with open_store(store_url, embedder=embedder()) as store:
            await talked(store)
            await store.append("s", [user("She does own an automobile, an old one.")])
            hits = await found(store, QUESTION)
            assert hits[0] == 4 and 0 in hits and 2 not in hits

    async def test_what_the_one_who_asks_told_counts_for_more(self, store_url: str) -> None:
        async with open_store(store_url, embedder=embedder()) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("We have a sedan now."), assistant("A hatchback would have done.")])
            assert await found(store, "Which automobile did I buy?") == [0, 1]
            assert await found(store, "Which automobile did you suggest?") == [1, 0]

    async def test_results_of_tools_have_no_vectors(self, store_url: str) -> None:
        model = embedder()
        async with open_store(store_url, embedder=model) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("go"), tool("1", "a hatchback")])
            assert await store.embed_waiting() == 1
            assert model.embedded == ["go"]

    async def test_what_was_made_is_kept_and_made_once(self, store_url: str) -> None:
        async with open_store(store_url, embedder=embedder()) as store:
            await talked(store)
            assert await store.embed_waiting() == 4
            assert await store.vectors_waiting() == 0
        model = embedder()
        async with open_store(store_url, embedder=model) as store:
            await found(store, QUESTION)
            assert model.embedded == [QUESTION]
            await store.append("s", [user("Is it a hatchback?")])
            assert await store.embed_waiting() == 1

    async def test_vectors_are_made_in_the_background_where_many_rows_come(self, store_url: str) -> None:
        model = embedder()
        async with open_store(store_url, embedder=model) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user(f"turn {number}") for number in range(40)])
            async with asyncio.timeout(60):
                while await store.vectors_waiting() or len(model.embedded) < 40:  # noqa: ASYNC110 (nothing tells of it)
                    await asyncio.sleep(0.01)

    async def test_vectors_of_another_model_are_made_again_and_never_compared(self, store_url: str) -> None:
        async with open_store(store_url, embedder=embedder()) as store:
            await talked(store)
            await store.embed_waiting()
        async with open_store(store_url, embedder=embedder("other")) as store:
            assert await store.vectors_waiting() == 4
            assert await store.embed_waiting() == 4
            assert (await found(store, QUESTION))[0] == 0

    async def test_the_scope_and_the_owner_are_kept_to(self, store_url: str) -> None:
        async with open_store(store_url, embedder=embedder()) as store:
            await talked(store, "mine", "a")
            await talked(store, "theirs", "b")
            result = await store.search(QUESTION, SearchScope(owner="a"))
            assert {hit.session for hit in result.hits} == {"mine"}
            for scope in (SearchScope(session="theirs"), SearchScope(conversation_of="theirs")):
                assert {hit.session for hit in (await store.search(QUESTION, scope)).hits} == {"theirs"}
            branch = await store.branch("mine", 0)
            assert await found(store, QUESTION, SearchScope(conversation_of=branch.id)) == []
            assert await found(store, QUESTION, SearchScope(roles=("tool",))) == []

    @pytest.mark.parametrize("is_rebuilt", [False, True])
    async def test_vectors_go_with_what_they_were_made_of(self, store_url: str, is_rebuilt: bool) -> None:
        model = embedder()
        async with open_store(store_url, embedder=model) as store:
            await talked(store, "one")
            await talked(store, "two")
            await store.embed_waiting()
            if is_rebuilt:
                await store.rebuild_index()
                assert await store.vectors_waiting() == 8
            else:
                await store.delete("two")
                await talked(store, "three")
                assert await store.embed_waiting() == 4
            sessions = {hit.session for hit in (await store.search(QUESTION)).hits}
            assert sessions == ({"one", "two"} if is_rebuilt else {"one", "three"})
            assert await store.check() == []

    async def test_the_snippet_of_a_long_turn_is_the_passage_that_is_like_the_question(self, store_url: str) -> None:
        text = "Filler sentence number one. " * 36 + "A hatchback is in the garage. " + "More filler. " * 40
        async with open_store(store_url, embedder=embedder()) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user(text)])
            (hit,) = (await store.search(QUESTION, snippet_chars=200)).hits
            assert hit.snippet.marks == ()
            assert hit.snippet.start > 0 and "hatchback" in hit.snippet.text
