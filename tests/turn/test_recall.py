"""Recall: a page of hits that are each one thing, and messages opened by number."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from clew.errors import InvalidArgument
from clew.store import NewSession, SearchScope, Store, open_store
from clew.testing import assistant, call, tool, user
from clew.turn import FoundMessage, found_texts, open_messages, search_history


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store(":memory:") as opened:
        await opened.start_session(NewSession(id="s"))
        yield opened


async def hits(store: Store, query: str) -> list[FoundMessage]:
    return list((await search_history(store, query, SearchScope(conversation_of="s"))).hits)


async def test_a_call_and_its_result_are_one_hit(store: Store) -> None:
    await store.append(
        "s",
        [
            user("Look."),
            assistant(None, [call("terminal", {"command": "cat heron.txt"}, "c1")]),
            tool("c1", "heron: 7431 nests"),
        ],
    )
    (found,) = await hits(store, "heron")
    assert set(found.numbers) == {1, 2}
    shown = " ".join(text for _, text in found_texts(found))
    assert "7431" in shown and "cat heron.txt" in shown


async def test_a_call_that_was_found_shows_what_it_gave(store: Store) -> None:
    await store.append("s", [assistant(None, [call("read", {"path": "walrus.py"}, "c1")]), tool("c1", "limit = 48")])
    (found,) = await hits(store, "walrus.py")
    assert (found.hit.seq, found.preview) == (0, "limit = 48")


async def test_ids_that_are_used_again_pair_with_the_newest_call(store: Store) -> None:
    for number in range(3):
        calls = [call("a", {"n": number}, "x"), call("b", {"n": number}, "x")]
        await store.append("s", [assistant(None, calls), tool("x", f"first {number}"), tool("x", f"second {number}")])
    page = await open_messages(store, "s", "m0-")
    for first in (0, 3, 6):
        asked, one, two = page.messages[first : first + 3]
        assert [link.number for link in asked.results] == [one.number, two.number]
        assert one.call is not None and (one.call.number, one.call.call) == (first, f"a n: {first // 3}")
        assert two.call is not None and two.call.call == f"b n: {first // 3}"


async def test_a_call_without_a_result_says_so(store: Store) -> None:
    await store.append("s", [assistant(None, [call("a", {}, "x")])])
    (message,) = (await open_messages(store, "s", "m0")).messages
    assert [link.number for link in message.results] == [None]


async def test_a_long_conversation_is_opened_in_pages_without_a_gap(store: Store) -> None:
    await store.append("s", [user(f"{number} " + "word " * 200) for number in range(60)])
    seen, wanted = list[int](), "m0-"
    while wanted:
        page = await open_messages(store, "s", wanted)
        seen += [message.number for message in page.messages]
        wanted = page.next
    assert seen == list(range(60))


@pytest.mark.parametrize("wanted", ["", "x", "m5", "m1-m0", "m0,zebra", "m0@x"])
async def test_a_name_that_means_no_message_is_refused_with_the_remedy(store: Store, wanted: str) -> None:
    await store.append("s", [user("a"), user("b")])
    with pytest.raises(InvalidArgument, match=r"m0 to m1|m12"):
        await open_messages(store, "s", wanted)
