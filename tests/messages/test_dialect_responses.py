"""The Responses wire: exact when untouched, right when encoded again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.errors import InvalidMessage
from clew.messages import Message, read_conversation


def request() -> dict[str, Any]:
    return {
        "model": "some-model",
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Use tabs."}]},
            {"role": "user", "content": "Fix the build"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": '{"path":"a"}'},
            {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "the other"}]},
            {
                "type": "function_call",
                "id": "fc_2",
                "call_id": "call_2",
                "name": "read",
                "arguments": "{}",
                "status": "x",
            },
            {"type": "function_call_output", "call_id": "call_1", "output": "x = 1", "id": "fco_1"},
            {
                "type": "function_call_output",
                "call_id": "call_2",
                "output": [{"type": "input_image", "image_url": "https://example.org/a.png"}],
            },
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "phase": "final_answer",
                "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
            },
        ],
        "store": False,
    }


def test_a_request_leaves_exactly_as_it_came() -> None:
    wire = request()
    written = read_conversation(wire).write()
    assert json.dumps(written) == json.dumps(wire)
    assert all(out is came for out, came in zip(written["input"], wire["input"], strict=True))


def test_the_items_of_one_turn_are_one_message() -> None:
    messages = read_conversation(request()).messages
    roles = ["system", "developer", "user", "assistant", "tool", "tool", "assistant"]
    assert [message["role"] for message in messages] == roles
    assert [call["id"] for call in messages[3]["tool_calls"]] == ["call_1", "call_2"]
    assert [item["id"] for item in messages[3]["reasoning"]] == ["rs_1", "rs_2"]
    assert messages[4] == {"role": "tool", "tool_call_id": "call_1", "content": "x = 1"}


def test_shortened_arguments_leave_every_other_item_of_the_turn_as_it_came() -> None:
    wire = request()
    conversation = read_conversation(wire)
    messages = list(conversation.messages)
    first, second = messages[3]["tool_calls"]
    shorter: Any = {**first, "function": {"name": "read", "arguments": "{}"}}
    messages[3] = {**messages[3], "tool_calls": [shorter, second]}
    written = conversation.write(messages)["input"]
    assert written[3] == {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}
    assert [item for place, item in enumerate(written) if place != 3] == [
        item for place, item in enumerate(wire["input"]) if place != 3
    ]


def test_a_changed_result_answers_the_same_call() -> None:
    conversation = read_conversation(request())
    messages = list(conversation.messages)
    messages[4] = {**messages[4], "content": "[read] a, 1 line"}
    written = conversation.write(messages)["input"][6]
    assert written == {"type": "function_call_output", "call_id": "call_1", "output": "[read] a, 1 line"}


def test_a_single_text_as_input_stays_a_text_until_something_joins_it() -> None:
    wire = {"model": "m", "input": "Hello"}
    conversation = read_conversation(wire)
    assert conversation.messages == ({"role": "user", "content": "Hello"},)
    assert conversation.write() == wire
    longer = conversation.write([*conversation.messages, {"role": "assistant", "content": "Hi"}])
    assert [item["content"] for item in longer["input"]] == ["Hello", "Hi"]


def test_calls_of_built_in_tools_are_calls_and_keep_their_type() -> None:
    wire = [
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "c1",
            "status": "completed",
            "action": {"command": ["ls"]},
        },
        {"type": "local_shell_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
    ]
    conversation = read_conversation(wire)
    assert conversation.dialect == "responses"
    assert conversation.write() == wire
    fresh: list[Any] = json.loads(json.dumps(conversation.messages))
    assert conversation.write(fresh) == wire


def test_new_messages_are_encoded_with_the_parts_of_the_wire() -> None:
    conversation = read_conversation([], dialect="responses")
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages: list[Message] = [
        {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
        {"role": "assistant", "content": [{"type": "text", "text": "seen"}]},
    ]
    assert conversation.write(messages) == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
            ],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "seen"}]},
    ]


def test_reasoning_is_written_before_the_calls_it_led_to() -> None:
    conversation = read_conversation([], dialect="responses")
    message: Message = {
        "role": "assistant",
        "content": "reading",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        "reasoning": [{"type": "reasoning", "id": "rs", "summary": []}],
    }
    assert [item["type"] for item in conversation.write([message])] == ["reasoning", "message", "function_call"]


def test_a_message_after_a_message_is_one_of_its_own() -> None:
    wire = [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": t}]} for t in ("a", "b")
    ]
    assert len(read_conversation(wire).messages) == 2


def test_an_item_that_is_nothing_is_refused_with_its_index() -> None:
    with pytest.raises(InvalidMessage, match=r"message 1: .*type"):
        read_conversation([{"role": "user", "content": "a"}, {"text": "b"}], dialect="responses")


def test_a_changed_system_prompt_becomes_the_instructions() -> None:
    conversation = read_conversation(request())
    changed: Message = {"role": "system", "content": [{"type": "text", "text": "Be kind."}]}
    written = conversation.write([changed, *conversation.messages[1:]])
    assert written["instructions"] == "Be kind."
    assert list(written) == list(request())


def test_parts_that_are_no_dicts_are_written_as_text() -> None:
    for dialect, kind in (("responses", "output_text"), ("anthropic", "text")):
        conversation = read_conversation([], dialect=dialect)  # type: ignore[arg-type]
        written = conversation.write([{"role": "assistant", "content": ["loose"]}])  # type: ignore[list-item]
        assert written[0]["content"] == [{"type": kind, "text": "loose"}]
