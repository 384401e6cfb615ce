"""Reading, detecting, and the shapes around the messages."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clew.errors import InvalidArgument
from clew.messages import Message, ParsedConversation, detect_dialect, read_conversation

CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("wire", "dialect"),
    [
        ([], "openai_chat"),
        ([user("hi")], "openai_chat"),
        ([user("hi"), {"role": "assistant", "content": None, "tool_calls": [CALL]}], "openai_chat"),
        ([user([{"type": "image_url", "image_url": {"url": "https://example.org"}}])], "openai_chat"),
        ([user([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}])], "openai_chat"),
        ([user([{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}])], "openai_chat"),
        ([user([{"type": "tool_result", "tool_use_id": "a"}])], "anthropic"),
        ([user([{"type": "image", "source": {"type": "url", "url": "https://example.org"}}])], "anthropic"),
        ({"system": "s", "messages": [user("hi")]}, "anthropic"),
        ({"messages": [user("hi")], "tools": [{"name": "f", "input_schema": {}}]}, "anthropic"),
        ({"system": "s", "messages": [{"role": "assistant", "tool_calls": [CALL]}]}, "openai_chat"),
        ({"messages": [user("hi")], "tools": [{"type": "function", "function": {"name": "f"}}]}, "openai_chat"),
        ({"input": "hi"}, "responses"),
        ({"input": [user("hi")]}, "responses"),
        ([user("hi"), {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}], "responses"),
        ([user([{"type": "input_text", "text": "hi"}])], "responses"),
        ([{"type": "message", "role": "user", "content": "hi"}], "responses"),
        ([{"type": "compaction", "encrypted_content": "x"}], "responses"),
        ({"contents": "hi"}, "gemini"),
        ({"contents": [{"parts": [{"text": "hi"}]}]}, "gemini"),
        ([{"role": "user", "parts": [{"text": "hi"}]}], "gemini"),
        ([{"role": "model", "parts": []}], "gemini"),
        ([{"parts": [{"functionCall": {"name": "f"}}]}], "gemini"),
        ([SimpleNamespace(role="user", parts=[SimpleNamespace(text="hi")])], "gemini"),
        ([{"role": "user", "parts": [{"type": "text", "text": "hi"}]}], "openai_chat"),
        ([{"role": "user", "content": "hi", "parts": []}], "openai_chat"),
        ({"messages": [user("hi")], "contents": []}, "openai_chat"),
        (["no message", None, 3], "openai_chat"),
    ],
)
def test_a_dialect_is_detected_by_what_only_it_writes(wire: Any, dialect: str) -> None:
    assert detect_dialect(wire) == dialect


def test_chat_messages_are_used_as_they_are() -> None:
    wire = [{"role": "system", "content": "s"}, user("hi"), {"role": "assistant", "content": "ho", "odd": 1}]
    conversation = read_conversation(wire)
    assert all(message is came for message, came in zip(conversation.messages, wire, strict=True))
    written = conversation.write()
    assert written == wire and written is not wire
    assert conversation.items[2].raw == (wire[2],)


def test_a_chat_request_keeps_every_other_field_in_its_place() -> None:
    wire = {"model": "m", "messages": [user("hi")], "temperature": 0, "tools": [{"type": "function", "function": {}}]}
    conversation = read_conversation(wire)
    assert conversation.tools == ({"type": "function", "function": {}},)
    written = conversation.write([*conversation.messages, {"role": "assistant", "content": "ho"}])
    assert list(written) == list(wire)
    assert written["messages"] == [user("hi"), {"role": "assistant", "content": "ho"}]
    assert wire["messages"] == [user("hi")]


def test_a_chat_file_with_a_separate_system_prompt_keeps_it_there() -> None:
    wire = {"system": "s", "messages": [{"role": "assistant", "content": None, "tool_calls": [CALL]}]}
    conversation = read_conversation(wire)
    assert conversation.messages[0] == {"role": "system", "content": "s"}
    assert len(conversation.items) == 1
    assert conversation.write() == wire
    changed: list[Message] = [{"role": "system", "content": "s2"}, *conversation.messages[1:]]
    assert conversation.write(changed) == {**wire, "system": "s2"}


@pytest.mark.parametrize("empty", [None, "", []])
def test_an_empty_system_prompt_is_no_message_and_stays_as_it_is(empty: Any) -> None:
    wire = {"system": empty, "messages": [user("hi")]}
    conversation = read_conversation(wire)
    assert len(conversation.messages) == 1
    assert conversation.write() == wire


def test_tools_given_with_a_list_are_kept() -> None:
    assert read_conversation([], tools=[{"name": "f"}]).tools == ({"name": "f"},)


@pytest.mark.parametrize("wire", ["text", b"bytes", 3, None, {"model": "m"}, {"messages": "text"}])
def test_what_holds_no_messages_is_refused(wire: Any) -> None:
    with pytest.raises(InvalidArgument, match="pass a list of messages"):
        read_conversation(wire)


def test_an_unknown_dialect_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidArgument, match=r"'xml'.*openai_chat, responses, anthropic"):
        read_conversation([], dialect="xml")  # type: ignore[arg-type]


def test_a_conversation_made_by_hand_is_written_as_a_list() -> None:
    made = ParsedConversation("anthropic", ({"role": "user", "content": "hi"},))
    assert made.write() == [user("hi")]


@pytest.mark.parametrize(
    ("dialect", "system", "listed"),
    [
        ("openai_chat", "system", "messages"),
        ("anthropic", "system", "messages"),
        ("responses", "instructions", "input"),
    ],
)
def test_a_system_message_of_the_list_stays_there_when_the_messages_before_it_are_gone(
    dialect: Any, system: str, listed: str
) -> None:
    wire = {system: "top", listed: [{"role": role, "content": role} for role in ("user", "system", "assistant")]}
    conversation = read_conversation(wire, dialect=dialect)
    top, _, *rest = conversation.messages
    written = conversation.write([top, *rest])
    assert written[system] == "top"
    assert [id(item) for item in written[listed]] == [id(item) for item in wire[listed][1:]]
    assert conversation.write_system(rest) is None
