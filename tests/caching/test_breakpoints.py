"""Where cache breakpoints go."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from clew.caching import MARKER, apply_cache_control
from clew.caching.breakpoints import markers_in
from clew.errors import InvalidArgument
from clew.messages import Message, convert
from clew.testing import assistant, call, system, tool, user
from clew.testing.runtime import plain_content

EPHEMERAL = {"type": "ephemeral"}
ONE_HOUR = {"type": "ephemeral", "ttl": "1h"}


def block(text: str, marker: dict[str, str] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": text, MARKER: marker} if marker else {"type": "text", "text": text}


def marked(messages: list[Message]) -> list[int]:
    return [index for index, message in enumerate(messages) for _ in markers_in(message, index)]


def content(message: Message) -> Any:
    return message.get("content")


def talk(rounds: int) -> list[Message]:
    messages = [system("Be brief.")]
    for number in range(rounds):
        messages += [user(f"question {number}"), assistant(f"answer {number}")]
    return messages


def test_the_system_prompt_and_the_last_three_messages_are_marked() -> None:
    messages = talk(5)
    result = apply_cache_control(messages)
    assert marked(result) == [0, 8, 9, 10]
    assert content(result[0]) == [block("Be brief.", EPHEMERAL)]
    assert content(result[10]) == [block("answer 4", EPHEMERAL)]


def test_the_input_is_untouched_and_only_marked_messages_are_copied() -> None:
    messages = talk(5)
    before = copy.deepcopy(messages)
    result = apply_cache_control(messages)
    assert messages == before
    assert [index for index in range(11) if result[index] is not messages[index]] == [0, 8, 9, 10]


@pytest.mark.parametrize("native", [False, True])
def test_a_short_conversation_is_marked_as_far_as_it_goes(native: bool) -> None:
    assert apply_cache_control([], native=native) == []
    assert marked(apply_cache_control([system("s")], native=native)) == [0]
    assert marked(apply_cache_control([user("u")], native=native)) == [0]
    assert marked(apply_cache_control([system("s"), user("u")], native=native)) == [0, 1]


def test_without_a_system_prompt_three_are_marked() -> None:
    assert marked(apply_cache_control(talk(5)[1:])) == [7, 8, 9]


def test_a_later_system_message_is_neither_the_prompt_nor_a_turn() -> None:
    messages = [*talk(1), system("note"), user("more")]
    assert marked(apply_cache_control(messages)) == [0, 1, 2, 4]


def test_a_developer_message_is_a_system_prompt() -> None:
    messages: list[Message] = [{"role": "developer", "content": "Be brief."}, user("u")]
    assert marked(apply_cache_control(messages)) == [0, 1]


def test_one_hour_is_written_into_the_marker() -> None:
    assert content(apply_cache_control([user("u")], ttl="1h")[0]) == [block("u", ONE_HOUR)]


@pytest.mark.parametrize("ttl", ["", "10m", "1H", "60m", None, 5])
def test_another_ttl_is_an_error_that_names_both(ttl: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"'5m'.*'1h'"):
        apply_cache_control([user("u")], ttl=ttl)


def test_a_list_is_marked_on_its_last_element() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    result = apply_cache_control([user([block("look"), picture])])
    assert content(result[0]) == [block("look"), {**picture, MARKER: EPHEMERAL}]
    assert MARKER not in picture


def test_an_element_that_cannot_carry_a_marker_is_passed_over() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "abc"}
    result = apply_cache_control([user([block("look"), thinking, block("")])])
    assert content(result[0]) == [block("look", EPHEMERAL), thinking, block("")]


def test_a_message_of_thinking_alone_leaves_its_place_to_the_one_before() -> None:
    only_thinking: Message = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "abc"}]}
    for native in (False, True):
        assert marked(apply_cache_control([user("u"), only_thinking], native=native)) == [0]


@pytest.mark.parametrize("nothing", [None, "", []])
def test_empty_content_carries_its_marker_on_the_message_natively(nothing: Any) -> None:
    message: Message = {"role": "assistant", "content": nothing, "tool_calls": [call("terminal")]}
    result = apply_cache_control([message], native=True)
    assert result == [{**message, MARKER: EPHEMERAL}]


@pytest.mark.parametrize("nothing", [None, "", []])
def test_empty_content_is_passed_over_where_the_wire_would_ignore_the_marker(nothing: Any) -> None:
    empty: Message = {"role": "assistant", "content": nothing, "tool_calls": [call("terminal")]}
    messages = [user("a"), user("b"), user("c"), empty]
    result = apply_cache_control(messages)
    assert marked(result) == [0, 1, 2]
    assert result[3] is empty


def test_a_message_without_content_at_all_is_like_one_with_none() -> None:
    bare: Message = {"role": "assistant", "tool_calls": [call("terminal")]}
    assert marked(apply_cache_control([bare])) == []
    assert marked(apply_cache_control([bare], native=True)) == [0]


def test_a_tool_message_carries_its_marker_itself_natively() -> None:
    result = apply_cache_control([tool("c1", "done")], native=True)
    assert result == [{"role": "tool", "tool_call_id": "c1", "content": "done", MARKER: EPHEMERAL}]


def test_a_tool_message_carries_its_marker_inside_for_openrouter() -> None:
    result = apply_cache_control([tool("c1", "done")])
    assert content(result[0]) == [block("done", EPHEMERAL)]
    assert result[0]["tool_call_id"] == "c1"
    listed: Message = {"role": "tool", "tool_call_id": "c1", "content": [block("a"), block("b")]}
    assert content(apply_cache_control([listed])[0]) == [block("a"), block("b", EPHEMERAL)]


def test_markers_do_not_share_one_dict() -> None:
    result = apply_cache_control([user("a"), user("b")])
    assert content(result[0])[0][MARKER] is not content(result[1])[0][MARKER]


def test_anthropic_blocks_are_marked_where_they_are() -> None:
    outcome = {"type": "tool_result", "tool_use_id": "t1", "content": [block("ok")]}
    use = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}
    messages: list[Message] = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [outcome]}]
    result = apply_cache_control(messages, native=True)
    assert content(result[0]) == [{**use, MARKER: EPHEMERAL}]
    assert content(result[1]) == [{**outcome, MARKER: EPHEMERAL}]


class TestMarkersOfTheCaller:
    """They count, and stay while there is room."""

    def test_a_marker_already_in_the_right_place_is_left_as_it_is(self) -> None:
        messages = apply_cache_control(talk(5), ttl="1h")
        result = apply_cache_control(messages, ttl="1h")
        assert all(new is old for new, old in zip(result, messages, strict=True))

    def test_one_on_a_document_stays_and_takes_one_place(self) -> None:
        messages = talk(5)
        messages[1] = user([block("a long document", EPHEMERAL), block("what does it say?")])
        result = apply_cache_control(messages)
        assert marked(result) == [0, 1, 9, 10]
        assert result[1] is messages[1]

    def test_four_old_ones_make_room_for_the_system_prompt_and_the_newest(self) -> None:
        messages = talk(5)
        for index in (2, 3, 4, 5):
            messages[index] = {**messages[index], "content": [block(f"m{index}", EPHEMERAL)]}
        result = apply_cache_control(messages)
        assert marked(result) == [0, 4, 5, 10]
        assert content(result[2]) == [block("m2")]
        assert sum(new is not old for new, old in zip(result, messages, strict=True)) == 4
        assert content(messages[2]) == [block("m2", EPHEMERAL)]

    def test_a_host_that_keeps_marked_messages_still_gets_its_newest_marked(self) -> None:
        messages = talk(1)
        for turn in range(20):
            messages = apply_cache_control([*messages, user(f"q{turn}"), assistant(f"a{turn}")])
            assert len(marked(messages)) == 4
            assert len(messages) - 1 in marked(messages)
            assert 0 in marked(messages)

    def test_more_than_four_are_brought_down_to_four(self) -> None:
        messages: list[Message] = [user([block(f"m{index}", EPHEMERAL)]) for index in range(9)]
        assert marked(apply_cache_control(messages)) == [5, 6, 7, 8]

    def test_one_inside_a_tool_result_counts_and_can_be_taken_away(self) -> None:
        inside = {"type": "tool_result", "tool_use_id": "t", "content": [block("ok", EPHEMERAL)]}
        messages: list[Message] = [{"role": "user", "content": [inside]} for _ in range(6)]
        result = apply_cache_control(messages, native=True)
        assert marked(result) == [3, 4, 5, 5]
        assert content(result[0]) == [{**inside, "content": [block("ok")]}]

    def test_those_on_messages_and_in_one_message_count_each(self) -> None:
        several = user([block("a", EPHEMERAL), block("b", EPHEMERAL), block("c")])
        on_message = cast(Message, {**tool("c1", "done"), MARKER: EPHEMERAL})
        messages = [system("s"), several, on_message, user("new")]
        assert marked(apply_cache_control(messages, native=True)) == [0, 1, 2, 3]

    def test_those_elsewhere_in_the_request_are_given_by_taken(self) -> None:
        assert marked(apply_cache_control(talk(5), taken=2)) == [0, 10]
        assert marked(apply_cache_control(talk(5), taken=4)) == []
        assert marked(apply_cache_control(talk(5), taken=9)) == []
        with pytest.raises(InvalidArgument, match="taken = -1"):
            apply_cache_control(talk(5), taken=-1)

    def test_no_hour_is_asked_for_after_five_minutes(self) -> None:
        messages = [system("s"), user([block("doc", EPHEMERAL)]), assistant("a"), user("u")]
        result = apply_cache_control(messages, ttl="1h")
        assert content(result[0]) == [block("s", ONE_HOUR)]
        assert content(result[3]) == [block("u", EPHEMERAL)]

    def test_no_five_minutes_are_asked_for_before_an_hour(self) -> None:
        messages = [system("s"), user([block("doc", ONE_HOUR)]), assistant("a"), user("u")]
        result = apply_cache_control(messages, ttl="5m")
        assert content(result[0]) == [block("s", ONE_HOUR)]
        assert content(result[3]) == [block("u", EPHEMERAL)]


def test_markers_on_messages_reach_the_anthropic_wire_on_blocks() -> None:
    messages = [
        system("Be brief."),
        user("list the files"),
        assistant("I look.", [call("ls")]),
        tool("call_1", "a.txt"),
        assistant(None, [call("cat", id="call_2")]),
        tool("call_2", "text"),
    ]
    request = convert(apply_cache_control(messages, native=True), "anthropic")
    assert request["system"] == [block("Be brief.", EPHEMERAL)]
    assert [content(message)[-1].get(MARKER) for message in request["messages"][-3:]] == [EPHEMERAL] * 3
    assert all(MARKER not in message for message in request["messages"])
    plain = convert(messages, "anthropic")
    assert list(map(plain_content, request["messages"])) == list(map(plain_content, plain["messages"]))
