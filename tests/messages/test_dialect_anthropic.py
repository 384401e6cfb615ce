"""The Anthropic wire: exact when untouched, right when encoded again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.errors import InvalidMessage
from clew.messages import Message, read_conversation

MARKER = {"type": "ephemeral"}


def request() -> dict[str, Any]:
    return {
        "model": "some-model",
        "system": [{"type": "text", "text": "Be brief.", "cache_control": MARKER}],
        "messages": [
            {"role": "user", "content": "Fix the build", "metadata": {"n": 1}},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "first look", "signature": "c2ln"},
                    {"type": "redacted_thinking", "data": "b3BhcXVl"},
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py", "ratio": 1.0}},
                    {"type": "thinking", "thinking": "and the other", "signature": "c2lnMg"},
                    {"type": "tool_use", "id": "toolu_2", "name": "read", "input": {}, "caller": {"type": "direct"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"tool_use_id": "toolu_1", "type": "tool_result", "content": [{"type": "text", "text": "x = 1"}]},
                    {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True, "content": "no such file"},
                    {"type": "text", "text": "go on", "unknown_field": 7},
                ],
            },
            {"role": "assistant", "content": "Done."},
        ],
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
        "max_tokens": 1024,
    }


def same_bytes(left: Any, right: Any) -> bool:
    return json.dumps(left) == json.dumps(right)


def test_a_request_leaves_exactly_as_it_came() -> None:
    wire = request()
    written = read_conversation(wire).write()
    assert same_bytes(written, wire)
    assert all(out is came for out, came in zip(written["messages"], wire["messages"], strict=True))


def test_results_calls_and_thinking_are_separate_in_our_form() -> None:
    messages = read_conversation(request()).messages
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
    ]
    assistant = messages[2]
    assert [call["id"] for call in assistant["tool_calls"]] == ["toolu_1", "toolu_2"]
    assert assistant["tool_calls"][0]["function"]["arguments"] == '{"path": "a.py", "ratio": 1.0}'
    assert [part["type"] for part in assistant["reasoning"]] == ["thinking", "redacted_thinking", "thinking"]
    assert messages[4]["is_error"] is True


def test_one_changed_result_leaves_its_neighbours_as_they_came() -> None:
    wire = request()
    conversation = read_conversation(wire)
    messages = list(conversation.messages)
    messages[3] = {**messages[3], "content": "[read] a.py, 1 line"}
    written = conversation.write(messages)["messages"]
    assert written[0] is wire["messages"][0] and written[1] is wire["messages"][1] and written[3] is wire["messages"][3]
    blocks = written[2]["content"]
    assert blocks[0] == {"type": "tool_result", "tool_use_id": "toolu_1", "content": "[read] a.py, 1 line"}
    assert blocks[1:] == wire["messages"][2]["content"][1:]


@pytest.mark.parametrize("blank", ["\r", "", None, [], [{"type": "text", "text": " "}]])
def test_an_unchanged_message_that_says_nothing_is_not_joined_to_a_changed_one(blank: Any) -> None:
    wire = [{"role": "assistant", "content": []}, {"role": "user", "content": None}, {"role": "user", "content": blank}]
    conversation = read_conversation(wire, dialect="anthropic")
    messages = list(conversation.messages)
    messages[1] = {**messages[1], "content": "changed"}
    written = conversation.write(messages)
    assert written[0] is wire[0] and written[2] is wire[2]
    assert written[1] == {"role": "user", "content": "changed"}
    messages = [*conversation.messages, {"role": "user", "content": "new"}]
    assert conversation.write(messages) == [*wire, {"role": "user", "content": "new"}]


def test_a_marked_message_keeps_the_order_in_which_it_thought_and_called() -> None:
    wire = request()
    conversation = read_conversation(wire)
    messages = list(conversation.messages)
    messages[2] = {**messages[2], "cache_control": MARKER}  # type: ignore[call-overload]
    blocks = conversation.write(messages)["messages"][1]["content"]
    came = wire["messages"][1]["content"]
    assert blocks[:-1] == came[:-1]
    assert blocks[-1] == {**came[-1], "cache_control": MARKER}


def test_a_marked_result_is_the_block_that_came_and_the_marker() -> None:
    wire = request()
    conversation = read_conversation(wire)
    messages = list(conversation.messages)
    messages[4] = {**messages[4], "cache_control": MARKER}  # type: ignore[call-overload]
    block = conversation.write(messages)["messages"][2]["content"][1]
    assert same_bytes(block, {**wire["messages"][2]["content"][1], "cache_control": MARKER})


def test_a_new_message_is_joined_to_its_neighbour_of_the_same_role() -> None:
    conversation = read_conversation(request())
    summary: Message = {"role": "user", "content": "What happened so far"}
    written = conversation.write([conversation.messages[0], summary, conversation.messages[1]])["messages"]
    assert written == [
        {"role": "user", "content": [{"type": "text", "text": t} for t in ("What happened so far", "Fix the build")]}
    ]


def test_messages_of_one_role_that_came_in_a_row_stay_so() -> None:
    wire = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]
    conversation = read_conversation(wire, dialect="anthropic")
    assert conversation.write() == wire
    assert conversation.write([*conversation.messages, {"role": "user", "content": "d"}]) == [
        *wire,
        {"role": "user", "content": "d"},
    ]


def test_what_became_neighbours_by_a_cut_is_joined() -> None:
    wire = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    conversation = read_conversation(wire, dialect="anthropic")
    first, _, last = conversation.messages
    assert conversation.write([first, last]) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "c"}]}
    ]


def test_results_come_first_in_the_user_message_and_thinking_first_in_the_assistants() -> None:
    conversation = read_conversation([], dialect="anthropic")
    messages: list[Message] = [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "reading",
            "reasoning": [{"type": "thinking", "thinking": "t", "signature": "s"}],
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "user", "content": "and now"},
    ]
    written = conversation.write(messages)
    assert [block["type"] for block in written[1]["content"]] == ["thinking", "text", "tool_use"]
    assert [block["type"] for block in written[2]["content"]] == ["tool_result", "text"]


def test_blank_texts_are_left_out_because_the_wire_refuses_them() -> None:
    conversation = read_conversation([], dialect="anthropic")
    call: Any = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Message] = [
        {"role": "user", "content": "  "},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    assert conversation.write(messages) == [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}
    ]


def test_arguments_that_are_no_object_are_sent_whole_inside_one() -> None:
    conversation = read_conversation([], dialect="anthropic")
    call: Any = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"path": "a'}}
    written = conversation.write([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert written[0]["content"][0]["input"] == {"unreadable_arguments": '{"path": "a'}


def test_a_changed_system_prompt_takes_the_place_of_the_old_one() -> None:
    wire = request()
    conversation = read_conversation(wire)
    note = {"type": "text", "text": "Earlier turns were compacted."}
    first: Message = {"role": "system", "content": [*wire["system"], note]}
    written = conversation.write([first, *conversation.messages[1:]])
    assert list(written) == list(wire)
    assert written["system"] == [*wire["system"], note]
    assert "system" not in conversation.write(conversation.messages[1:])


def test_a_system_prompt_is_added_where_the_wire_wants_it() -> None:
    conversation = read_conversation(
        {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}, dialect="anthropic"
    )
    written = conversation.write([{"role": "system", "content": "Be kind."}, *conversation.messages])
    assert written == {"system": "Be kind.", "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}


def test_a_system_prompt_given_separate_from_a_list_is_written_separate_from_it() -> None:
    wire = [{"role": "user", "content": "a"}]
    conversation = read_conversation(wire, dialect="anthropic", system="Be kind.")
    assert conversation.messages[0] == {"role": "system", "content": "Be kind."}
    assert conversation.write() == wire
    assert conversation.write_system() == "Be kind."
    assert conversation.write_system([{"role": "system", "content": "Be kinder."}]) == "Be kinder."


def test_a_system_message_in_the_list_stays_in_the_list() -> None:
    wire = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}], "stop_sequences": []}
    conversation = read_conversation(wire, dialect="anthropic")
    assert conversation.write() == wire
    changed: Message = {"role": "system", "content": "s2"}
    assert conversation.write([changed, conversation.messages[1]])["messages"][0] == changed


def test_a_system_message_in_the_middle_becomes_the_users_so_that_no_prefix_moves() -> None:
    conversation = read_conversation([{"role": "user", "content": "a"}], dialect="anthropic", system="Be kind.")
    late: Message = {"role": "system", "content": "The time is up."}
    written = conversation.write([*conversation.messages, {"role": "assistant", "content": "b"}, late])
    assert written[-1] == {"role": "user", "content": "The time is up."}


def test_the_origin_of_a_message_is_the_item_it_stood_in() -> None:
    wire = request()
    conversation = read_conversation(wire)
    origin = next(item for item in conversation.items if item.message is conversation.messages[4])
    assert (origin.raw, origin.part, origin.parts) == ((wire["messages"][2],), 1, 3)


def test_an_item_that_is_no_message_is_refused_with_its_index() -> None:
    with pytest.raises(InvalidMessage, match=r"message 1: .*role"):
        read_conversation([{"role": "user", "content": "a"}, {"content": "b"}], dialect="anthropic")
