"""Recall: a page of hits that are each one thing, and messages opened by number."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import InvalidArgument
from clew.store import NewSession, SearchScope, Store, open_store, parts_around
from clew.testing import assistant, call, tool, user
from clew.turn import (
    PAGE_CHARS,
    FoundMessage,
    OpenedPage,
    found_texts,
    open_messages,
    opened_label,
    search_history,
)


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


STEPS = [f"step {number}: did something about module {number}." for number in range(20)]


@pytest.mark.parametrize(
    "text",
    [
        "the heron nests at 8443\n",
        "\n\n  the heron nests at 8443",
        "\n".join([*STEPS, "", "heron 7", "", *STEPS[:6]]),
        "\n".join(["heron 7 " + "x" * 330, *STEPS, "and the heron 8"]),
    ],
)
async def test_a_short_message_is_shown_whole_and_not_marked_as_cut(store: Store, text: str) -> None:
    await store.append("s", [user("Look."), assistant(text)])
    (found,) = await hits(store, "heron nests")
    assert [shown.strip() for _, shown in found_texts(found)] == [text.strip()]


@given(before=st.integers(5_000, 6_400), words=st.integers(1, 40), line=st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_an_excerpt_of_a_long_message_begins_and_ends_with_a_whole_word(before: int, words: int, line: int) -> None:
    async def check() -> None:
        filler = "".join(f"lorem{number}{' ' if number % line else chr(10)}" for number in range(1_500))
        text = f"{filler[:before]} {'heron ' * words}{filler}"
        async with open_store(":memory:") as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user("Look."), assistant(text)])
            found = await hits(store, "heron")
        for excerpt in (it for hit in found for it in hit.hit.excerpts):
            start, stop = excerpt.start, excerpt.start + len(excerpt.text)
            assert text[start:stop] == excerpt.text
            assert start == 0 or text[start - 1].isspace()
            assert stop == len(text) or text[stop].isspace()

    asyncio.run(check())


async def test_the_end_of_a_longer_word_at_the_start_of_a_part_is_not_shown_as_a_word(store: Store) -> None:
    filler = "ab " * 2_000
    # The second part of a text that long begins 200 characters before the end of the first.
    text = f"{filler[:5_796]} zzheron   {filler[:5_000]}"
    await store.append("s", [user("Look."), assistant(text)])
    for found in await hits(store, "heron"):
        assert not any(it.text.startswith("heron") for it in found.hit.excerpts)


NEARLY_EQUAL = st.builds(
    lambda base, changes, number: [changes.get(at, f"{word}{number}") for at, word in enumerate(base)],
    base=st.sampled_from([[f"{stem}{at}x" for at in range(14)] for stem in ("alder", "birch", "cedar")]),
    changes=st.dictionaries(st.integers(0, 13), st.sampled_from(["oak", "elm", "yew", "ash"]), max_size=3),
    number=st.integers(0, 3),
)


@given(results=st.lists(NEARLY_EQUAL, min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_every_result_is_a_hit_or_is_listed_beside_one_that_differs_in_a_word_at_most(results: list[list[str]]) -> None:
    async def check() -> None:
        async with open_store(":memory:") as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [tool(str(at), " ".join(["heron", *words])) for at, words in enumerate(results)])
            page = await search_history(store, "heron", SearchScope(conversation_of="s"), limit=40)
        assert sorted(number for found in page.hits for number in found.numbers) == list(range(len(results)))
        texts = [[re.sub(r"\d+", "", word) for word in words] for words in results]
        for found in page.hits:
            for number in found.hit.copies:
                assert len(set(texts[number]) ^ set(texts[found.hit.seq or 0])) <= 2

    asyncio.run(check())


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


def shown_chars(page: OpenedPage) -> int:
    return sum(len(part) for message in page.messages for part in message.parts)


@given(
    lengths=st.lists(st.one_of(st.integers(0, 300), st.integers(0, 40_000)), min_size=1, max_size=40),
    words=st.sampled_from(["", "heron", "heron 12 nowhere"]),
)
@settings(max_examples=40, deadline=None)
def test_a_range_shows_something_of_every_message_within_the_budget(lengths: list[int], words: str) -> None:
    async def check() -> None:
        texts = [(f"heron {number} walks. " * (1 + chars // 12))[:chars] for number, chars in enumerate(lengths)]
        async with open_store(":memory:") as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", [user(text) for text in texts])
            page = await open_messages(store, "s", "m0-", words=words)
        assert not page.next or len(lengths) == 1
        assert [message.number for message in page.messages] == list(range(len(lengths)))
        assert shown_chars(page) <= PAGE_CHARS
        for message in page.messages:
            assert message.is_whole or sum(map(len, message.parts)) >= 100
        cut = [sum(map(len, message.parts)) for message in page.messages if not message.is_whole]
        whole = [len(message.text) for message in page.messages if message.is_whole]
        assert not cut or not whole or max(whole) <= 1.2 * min(cut) + 20, "a short one is not cut for a long one"

    asyncio.run(check())


async def test_a_range_that_is_too_long_says_where_it_ends_and_what_is_next(store: Store) -> None:
    await store.append("s", [user(f"{number} " + "word " * 2_000) for number in range(190)])
    seen, wanted = list[int](), "m2-m180"
    while wanted:
        page = await open_messages(store, "s", wanted)
        assert shown_chars(page) <= PAGE_CHARS and all(len(message.parts[0]) >= 100 for message in page.messages)
        seen += [message.number for message in page.messages]
        wanted = page.next
        assert wanted in ("", f"m{seen[-1] + 1}-m180")
    assert seen == list(range(2, 181))


@pytest.mark.parametrize(("length", "shown"), [(2_126, 2_126), (6_000, 6_000), (9_000, 6_000)])
async def test_one_message_is_whole_up_to_six_thousand_characters(store: Store, length: int, shown: int) -> None:
    text = ("seven ducks swim. " * 600)[:length]
    await store.append("s", [user(text)])
    page = await open_messages(store, "s", "m0")
    (part,) = page.messages[0].parts
    assert part.start == 0 and 0.95 * shown <= len(part) <= shown
    assert page.next == ("" if len(part) == length else f"m0@{part.stop}")


@given(
    chars=st.integers(400, 14_000),
    length=st.integers(1, 30_000),
    line=st.integers(20, 700),
    places=st.lists(st.tuples(st.integers(0, 30_000), st.sampled_from(["heron", "walrus", "otter"])), max_size=5),
    words=st.sampled_from(["", "heron", "heron walrus otter"]),
)
@settings(max_examples=150, deadline=None)
def test_as_many_characters_are_shown_as_were_asked_for(
    chars: int, length: int, line: int, places: list[tuple[int, str]], words: str
) -> None:
    text = ("lorem ipsum dolor sit amet " * (1 + line // 27) + "\n") * (1 + length // 20)
    for at, word in places:
        text = f"{text[:at]} {word} {text[at:]}"
    text = text[:length]
    parts = parts_around(text, words, chars)
    wanted = min(chars, len(text))
    assert 0.95 * wanted <= sum(map(len, parts)) <= wanted
    assert all(one.stop < other.start for one, other in itertools.pairwise(parts))
    for part in parts:
        assert part.start == 0 or text[part.start - 1].isspace()
        assert part.stop == len(text) or text[part.stop - 1].isspace()


@pytest.mark.parametrize("chars", [1_500, 4_500, 7_000])
async def test_words_that_are_close_together_are_shown_at_one_place(store: Store, chars: int) -> None:
    filler = "Nothing happens on the shore today.\n" * 300
    single = "".join(f"{word} passes alone.\n" * 50 + filler for word in ("heron", "walrus", "otter", "lynx"))
    text = f"{single}heron, walrus and otter meet a lynx at noon: 7431.\n{filler}"
    await store.append("s", [user(text)])
    page = await open_messages(store, "s", "m0", words="heron walrus otter lynx", chars=chars)
    (part,) = page.messages[0].parts
    assert "7431" in text[part.start : part.stop] and 0.95 * chars <= len(part) <= chars


async def test_several_results_are_named_by_their_calls(store: Store) -> None:
    calls = [call("read", {"path": "a.log"}, "one"), call("read", {"path": "b.log"}, "two"), call("ls", {}, "three")]
    await store.append("s", [assistant(None, calls), tool("two", "of b"), tool("one", "of a")])
    label = opened_label((await open_messages(store, "s", "m0")).messages[0])
    assert re.search(r"a\.log: m2; .*b\.log: m1; ls\W*: none", label), label
