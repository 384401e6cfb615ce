"""From one dialect to another: what the target has a field for arrives."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from clew.errors import ClewError
from clew.messages import convert, convert_tools, read_conversation
from clew.testing import user

URL = "https://example.org/a.png"
DATA = "data:image/png;base64,iVBORw0KGgo="

CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
                {"type": "image_url", "image_url": {"url": DATA}},
            ],
        },
        {
            "role": "assistant",
            "content": "Looking.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "see", "arguments": '{"n":1}'}},
                {"id": "call_2", "type": "function", "function": {"name": "see", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a cat"},
        {"role": "tool", "tool_call_id": "call_2", "content": "a dog"},
        {"role": "assistant", "content": "Both."},
    ],
    "tools": [{"type": "function", "function": {"name": "see", "description": "d", "parameters": {"type": "object"}}}],
}


def test_chat_becomes_anthropic() -> None:
    wire = convert(CHAT, "anthropic")
    assert wire["system"] == "Be brief."
    assert wire["tools"] == [{"name": "see", "description": "d", "input_schema": {"type": "object"}}]
    asked, called, answered, closed = wire["messages"]
    assert asked["content"][1:] == [
        {"type": "image", "source": {"type": "url", "url": URL}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    ]
    assert called["content"] == [
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "call_1", "name": "see", "input": {"n": 1}},
        {"type": "tool_use", "id": "call_2", "name": "see", "input": {}},
    ]
    assert answered["content"] == [
        {"type": "tool_result", "tool_use_id": "call_1", "content": "a cat"},
        {"type": "tool_result", "tool_use_id": "call_2", "content": "a dog"},
    ]
    assert closed == {"role": "assistant", "content": "Both."}


def test_chat_becomes_responses() -> None:
    wire = convert(CHAT, "responses")
    assert wire["instructions"] == "Be brief."
    assert wire["tools"] == [{"type": "function", "name": "see", "description": "d", "parameters": {"type": "object"}}]
    kinds = ["message", "message", "function_call", "function_call", "function_call_output", "function_call_output"]
    assert [item["type"] for item in wire["input"]] == [*kinds, "message"]
    assert wire["input"][0]["content"][1:] == [
        {"type": "input_image", "image_url": URL, "detail": "low"},
        {"type": "input_image", "image_url": DATA},
    ]
    assert wire["input"][2] == {"type": "function_call", "call_id": "call_1", "name": "see", "arguments": '{"n":1}'}


def test_chat_becomes_gemini() -> None:
    wire = convert(CHAT, "gemini")
    assert wire["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    declared = {"name": "see", "description": "d", "parametersJsonSchema": {"type": "object"}}
    assert wire["tools"] == [{"functionDeclarations": [declared]}]
    asked, called, answered, closed = wire["contents"]
    assert asked["parts"][1:] == [
        {"fileData": {"mimeType": "image/png", "fileUri": URL}},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
    ]
    assert called == {
        "role": "model",
        "parts": [
            {"text": "Looking."},
            {"functionCall": {"id": "call_1", "name": "see", "args": {"n": 1}}},
            {"functionCall": {"id": "call_2", "name": "see", "args": {}}},
        ],
    }
    assert answered["parts"] == [
        {"functionResponse": {"id": "call_1", "name": "see", "response": {"output": "a cat"}}},
        {"functionResponse": {"id": "call_2", "name": "see", "response": {"output": "a dog"}}},
    ]
    assert closed == {"role": "model", "parts": [{"text": "Both."}]}


def test_thoughts_and_code_of_gemini_are_texts_elsewhere() -> None:
    thought = {"text": "a cat?", "thought": True, "thoughtSignature": "c2ln"}
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    wire = [{"role": "user", "parts": [{"text": "?"}]}, {"role": "model", "parts": [thought, code, {"odd": 1}]}]
    chat = convert(wire, "openai_chat")["messages"][1]
    assert chat == {"role": "assistant", "content": "print(1)\n[gemini part left out]", "reasoning_content": "a cat?"}
    blocks = convert(wire, "anthropic")["messages"][1]["content"]
    assert [block["text"] for block in blocks] == ["print(1)", "[gemini part left out]"]
    back = convert([{"role": "user", "content": "?"}, chat], "gemini")["contents"][1]["parts"]
    assert back == [{"text": "a cat?", "thought": True}, {"text": "print(1)\n[gemini part left out]"}]


@pytest.mark.parametrize("way", ["anthropic", "responses", "gemini"])
def test_there_and_back_again(way: Any) -> None:
    back = convert(convert(CHAT, way), "openai_chat")
    came, expected = back["messages"], CHAT["messages"]
    assert [message["role"] for message in came] == [message["role"] for message in expected]
    assert [part["image_url"]["url"] for part in came[1]["content"][1:]] == [URL, DATA]
    assert [call["id"] for call in came[2]["tool_calls"]] == ["call_1", "call_2"]
    assert back["tools"] == CHAT["tools"]


def anthropic_with_thinking() -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I should look", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "b3BhcXVl"},
                {"type": "tool_use", "id": "toolu_1", "name": "see", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "blurred"},
                        {"type": "image", "source": {"type": "url", "url": URL}},
                    ],
                }
            ],
        },
    ]


def test_signed_thinking_becomes_plain_text_where_there_is_a_field_and_nothing_elsewhere() -> None:
    chat = convert(anthropic_with_thinking(), "openai_chat")
    assert chat["messages"][1]["reasoning_content"] == "I should look"
    assert "reasoning" not in chat["messages"][1]
    assert "c2ln" not in str(chat) and "b3BhcXVl" not in str(chat)
    responses = convert(anthropic_with_thinking(), "responses")
    assert [item["type"] for item in responses["input"]] == ["message", "function_call", "function_call_output"]


def test_thinking_comes_back_signed_where_its_own_provider_reads_it() -> None:
    """A history in our form, as an agent holds it, sent to the provider whose thinking it carries."""
    history = list(read_conversation(anthropic_with_thinking()).messages)
    sent = convert(history, "anthropic", dialect="openai_chat")["messages"]
    assert sent == anthropic_with_thinking()


def test_encrypted_reasoning_is_sent_to_its_own_provider_alone() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "s"}],
        "encrypted_content": "x",
    }
    wire = [{"role": "user", "content": "go"}, item, {"type": "message", "role": "assistant", "content": "ok"}]
    history = list(read_conversation(wire).messages)
    assert convert(history, "responses", dialect="openai_chat")["input"][1] == item
    assert convert(wire, "anthropic")["messages"][1] == {"role": "assistant", "content": "ok"}
    assert convert(wire, "openai_chat")["messages"][1] == {
        "role": "assistant",
        "content": "ok",
        "reasoning_content": "s",
    }


def test_pictures_of_results_follow_the_group_as_the_users_because_chat_results_are_text() -> None:
    messages = convert(anthropic_with_thinking(), "openai_chat")["messages"]
    assert messages[2] == {"role": "tool", "tool_call_id": "toolu_1", "content": "blurred"}
    assert messages[3] == {"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}]}
    output = convert(anthropic_with_thinking(), "responses")["input"][2]["output"]
    assert output == [{"type": "input_text", "text": "blurred"}, {"type": "input_image", "image_url": URL}]


DOCUMENT = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}


def test_documents_are_carried_and_plain_ones_become_text() -> None:
    blocks = [
        {"type": "document", "source": DOCUMENT, "title": "a.pdf"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain words"}},
        {"type": "document", "source": {"type": "url", "url": "https://example.org/b.pdf"}},
    ]
    wire = [{"role": "user", "content": blocks}]
    pdf = "data:application/pdf;base64,JVBERi0="
    assert convert(wire, "openai_chat")["messages"][0]["content"] == [
        {"type": "file", "file": {"filename": "a.pdf", "file_data": pdf}},
        {"type": "text", "text": "plain words"},
        {"type": "text", "text": "[document left out]"},
    ]
    responses = convert(wire, "responses")
    assert responses["input"][0]["content"] == [
        {"type": "input_file", "filename": "a.pdf", "file_data": pdf},
        {"type": "input_text", "text": "plain words"},
        {"type": "input_file", "file_url": "https://example.org/b.pdf"},
    ]
    assert convert(responses, "anthropic")["messages"][0]["content"][0] == blocks[0]


def test_a_part_that_nobody_knows_leaves_a_note_in_another_dialect() -> None:
    wire = [{"role": "user", "content": [{"type": "hologram", "data": "x"}, {"type": "document", "source": DOCUMENT}]}]
    assert convert(wire, "openai_chat")["messages"][0]["content"][0] == {"type": "text", "text": "[hologram left out]"}


def test_a_refusal_is_what_the_assistant_said() -> None:
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "refusal": "I will not."}]
    assert convert(chat, "anthropic")["messages"][1] == {"role": "assistant", "content": "I will not."}
    assert convert(chat, "responses")["input"][1]["content"] == [{"type": "refusal", "refusal": "I will not."}]


def test_calls_of_built_in_tools_become_ordinary_calls_elsewhere() -> None:
    wire = [
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "ok"},
    ]
    chat = convert(wire, "openai_chat")["messages"]
    assert chat[0]["tool_calls"][0]["function"] == {"name": "patch", "arguments": '{"input": "*** Begin"}'}
    assert convert(wire, "anthropic")["messages"][0]["content"][0]["input"] == {"input": "*** Begin"}


def test_a_request_that_is_in_the_dialect_already_keeps_everything() -> None:
    wire = {"model": "m", "messages": [{"role": "user", "content": "a"}], "seed": 1}
    assert convert(wire, "openai_chat") == wire


def test_a_list_that_is_in_the_dialect_already_becomes_a_request_of_the_same_items() -> None:
    wire = anthropic_with_thinking()
    search = {"type": "web_search_20250305", "name": "web_search"}
    converted = convert(wire, "anthropic", system="s", tools=[search])
    assert converted == {"system": "s", "messages": wire, "tools": [search]}


def test_leading_developer_messages_are_part_of_the_system_prompt_for_anthropic() -> None:
    wire = [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, {"role": "user", "content": "c"}]
    assert convert(wire, "anthropic") == {"system": "a\n\nb", "messages": [{"role": "user", "content": "c"}]}


def test_tools_that_a_provider_runs_itself_are_left_out_of_another_dialect() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}
    assert convert_tools([search], "openai_chat") == []
    assert convert_tools([{"type": "web_search"}, CHAT["tools"][0]], "anthropic") == [
        {"name": "see", "description": "d", "input_schema": {"type": "object"}}
    ]


def test_tools_that_take_free_text_are_carried() -> None:
    chat = {"type": "custom", "custom": {"name": "patch", "description": "d", "format": {"type": "text"}}}
    responses = {"type": "custom", "name": "patch", "description": "d", "format": {"type": "text"}}
    assert convert_tools([chat], "responses") == [responses]
    assert convert_tools([responses], "openai_chat") == [chat]
    assert convert_tools([responses], "anthropic")[0]["input_schema"]["required"] == ["input"]
    assert convert_tools([{"name": "f", "input_schema": {"type": "object"}, "strict": True}], "openai_chat") == [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}
    ]


@pytest.mark.parametrize(
    ("dialect", "wire"),
    [
        ("openai_chat", [user("x"), {"role": "assistant", "tool_calls": [{"id": "c", "type": {}, "function": {}}]}]),
        ("openai_chat", [{"type": "text"}, {"x": "user"}]),
        ("responses", [{"type": "function_call", "call_id": {}, "name": "t", "arguments": "{}"}]),
        ("responses", [{"type": "message", "role": "assistant", "content": content} for content in ("x", 5)]),
    ],
)
@pytest.mark.parametrize("to", ["openai_chat", "anthropic", "responses", "gemini"])
def test_broken_messages_are_converted_or_refused_and_nothing_else(dialect: Any, wire: Any, to: Any) -> None:
    """Found by `./check fuzz`."""
    with suppress(ClewError):
        convert(read_conversation(wire, dialect=dialect), to)
