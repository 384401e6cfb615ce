"""Whatever a conversation looks like: markers are few, change nothing else, and never move the prefix."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clew.caching import MARKER, apply_cache_control
from clew.caching.breakpoints import SEARCHED_FIRST, SEARCHED_LAST, MarkerPosition, markers_in
from clew.messages import Message, without_cache_markers
from clew.testing.runtime import plain_content

texts = st.text(st.characters(), max_size=8)  # lone surrogates too
ttls = st.sampled_from(["5m", "1h"])
markers = st.sampled_from([{"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}])


def perhaps_marked(part: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(part, st.builds(lambda plain, marker: {**plain, MARKER: marker}, part, markers))


plain_parts: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, texts),
    st.just({"type": "image", "source": {"type": "base64", "data": "AAAA"}}),
    st.builds(
        lambda given: {"type": "tool_use", "id": "t", "name": "n", "input": given}, st.dictionaries(texts, texts)
    ),
)
results: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda blocks: {"type": "tool_result", "tool_use_id": "t", "content": blocks},
    st.lists(perhaps_marked(plain_parts), max_size=2),
)
plain_contents = st.one_of(st.none(), texts, st.lists(plain_parts, max_size=3))
marked_contents = st.one_of(plain_contents, st.lists(perhaps_marked(st.one_of(plain_parts, results)), max_size=3))
roles = st.sampled_from(["user", "assistant", "tool", "system"])


def conversations(contents: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Message]]:
    message = st.builds(lambda role, content: {"role": role, "content": content}, roles, contents)
    lists: st.SearchStrategy[Any] = st.lists(message, max_size=SEARCHED_FIRST + SEARCHED_LAST)
    return lists


def positions(messages: list[Message]) -> list[tuple[MarkerPosition, str]]:
    return [found for index, message in enumerate(messages) for found in markers_in(message, index)]


@given(conversations(marked_contents), ttls, st.booleans(), st.integers(0, 5))
def test_there_are_never_more_than_four_markers(messages: list[Message], ttl: str, native: bool, taken: int) -> None:
    result = apply_cache_control(messages, ttl, native, taken=taken)
    assert len(positions(result)) <= max(0, 4 - taken)


@given(conversations(plain_contents), ttls, st.booleans())
def test_at_most_four_messages_are_copied_and_the_input_is_unchanged(
    messages: list[Message], ttl: str, native: bool
) -> None:
    before = copy.deepcopy(messages)
    result = apply_cache_control(messages, ttl, native)
    assert messages == before
    copied = {index for index, message in enumerate(result) if message is not messages[index]}
    assert len(copied) <= 4
    assert copied == {position.message for position, _ in positions(result)}


@given(conversations(marked_contents), ttls, st.booleans())
def test_a_valid_request_has_at_most_four_messages_copied(messages: list[Message], ttl: str, native: bool) -> None:
    before = copy.deepcopy(messages)
    result = apply_cache_control(messages, ttl, native)
    assert messages == before
    if len(positions(messages)) <= 4:
        assert sum(new is not old for new, old in zip(result, messages, strict=True)) <= 4


@given(conversations(marked_contents), ttls, st.booleans())
def test_nothing_but_markers_changes(messages: list[Message], ttl: str, native: bool) -> None:
    result = apply_cache_control(messages, ttl, native)
    assert list(map(plain_content, result)) == list(map(plain_content, messages))
    for new, old in zip(map(without_cache_markers, result), map(without_cache_markers, messages), strict=True):
        content = new.get("content")
        was_a_string = isinstance(old.get("content"), str) and not isinstance(content, str)
        assert ({**new, "content": content[0]["text"]} if was_a_string and content else new) == old  # type: ignore[index]


@given(conversations(plain_contents), ttls, st.booleans())
def test_marking_twice_is_marking_once(messages: list[Message], ttl: str, native: bool) -> None:
    once = apply_cache_control(messages, ttl, native)
    assert apply_cache_control(once, ttl, native) == once


@given(conversations(plain_contents), conversations(plain_contents), ttls, st.booleans())
def test_a_turn_later_the_earlier_request_is_a_prefix_of_the_next(
    messages: list[Message], new: list[Message], ttl: str, native: bool
) -> None:
    earlier = apply_cache_control(messages, ttl, native)
    later = apply_cache_control([*messages, *new], ttl, native)
    assert list(map(plain_content, later[: len(earlier)])) == list(map(plain_content, earlier))
