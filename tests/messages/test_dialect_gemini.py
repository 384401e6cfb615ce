"""The Gemini wire: exact when untouched, right when encoded again, and calls without ids find their results."""

from __future__ import annotations

import json
from typing import Any

import pytest

import clew
from clew.errors import InvalidMessage
from clew.messages import History, Item, Message, convert, convert_tools, images_of, read_conversation, repair, text_of
from clew.testing import assistant, call, tool, user

PNG = "iVBORw0KGgo="


def request() -> dict[str, Any]:
    return {
        "contents": [
            {
                "role": "user",
                "parts": [{"text": "Fix the build"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}],
            },
            {
                "role": "model",
                "parts": [
                    {"text": "first look", "thought": True, "thoughtSignature": "c2lnMA=="},
                    {"text": "Looking."},
                    {
                        "functionCall": {"name": "read", "args": {"path": "a.py", "ratio": 1.0}},
                        "thoughtSignature": "c2ln",
                    },
                    {"functionCall": {"name": "read", "args": {}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "read-17-1", "name": "read", "response": {"output": "x = 1"}}},
                    {"functionResponse": {"id": "read-17-2", "name": "read", "response": {"error": "no such file"}}},
                    {"text": "go on", "unknownField": 7},
                ],
            },
            {
                "role": "model",
                "parts": [
                    {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
                    {"hologram": {"depth": 3}},
                    {"text": "Done.", "thoughtSignature": "ZW5k"},
                ],
            },
        ],
        "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
        "tools": [{"functionDeclarations": [{"name": "read", "parameters": {"type": "OBJECT"}}]}, {"googleSearch": {}}],
        "generationConfig": {"maxOutputTokens": 1024, "temperature": 1.0},
        "labels": {"n": 12345678901234567890},
    }


def snake(value: Any) -> Any:
    """The same with the other names of its fields."""
    if isinstance(value, list):
        return [snake(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    return {
        "".join(f"_{char.lower()}" if char.isupper() else char for char in name): snake(inner)
        for name, inner in value.items()
    }


def same_bytes(left: Any, right: Any) -> bool:
    return json.dumps(left) == json.dumps(right)


@pytest.mark.parametrize("wire", [request(), snake(request())])
def test_a_request_leaves_exactly_as_it_came(wire: dict[str, Any]) -> None:
    conversation = read_conversation(wire)
    assert conversation.dialect == "gemini" and conversation.is_request and conversation.list_field == "contents"
    written = conversation.write()
    assert same_bytes(written, wire)
    assert all(out is came for out, came in zip(written["contents"], wire["contents"], strict=True))
    assert conversation.max_output == 1024


@pytest.mark.parametrize("wire", [request(), snake(request())])
def test_results_calls_and_thoughts_are_separate_in_our_form(wire: dict[str, Any]) -> None:
    messages = read_conversation(wire).messages
    roles = ["system", "user", "assistant", "tool", "tool", "user", "assistant"]
    assert [message["role"] for message in messages] == roles
    assert messages[0]["content"] == "Be brief."
    assert text_of(messages[1]) == "Fix the build" and len(images_of(messages[1])) == 1
    called = messages[2]
    assert called["content"] == "Looking."
    assert called["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path": "a.py", "ratio": 1.0}'}
    assert [part["text"] for part in called["reasoning"]] == ["first look"]
    assert [messages[3]["content"], messages[4]["content"]] == ["x = 1", "no such file"]
    assert messages[4]["is_error"] is True
    assert text_of(messages[6]) == "print(1)\n1\n\nDone."


def test_calls_without_ids_are_paired_in_order_and_by_name() -> None:
    messages = read_conversation(request()).messages
    made = [each["id"] for each in messages[2]["tool_calls"]]
    assert len(set(made)) == 2
    # The client's own ids are in the responses alone, and stay there.
    assert [messages[3]["tool_call_id"], messages[4]["tool_call_id"]] == made
    assert not repair(messages).repairs

    def response(name: str) -> dict[str, Any]:
        return {"functionResponse": {"name": name, "response": {"output": name}}}

    names = ["a", "b", "a"]
    wire = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": name}} for name in names]},
        {"role": "user", "parts": [response("b"), response("a"), response("a")]},
    ]
    _, called, *results = read_conversation(wire).messages
    first, second, third = (each["id"] for each in called["tool_calls"])
    assert [result["tool_call_id"] for result in results] == [second, first, third]


def test_calls_with_ids_are_paired_by_them() -> None:
    wire = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"id": name, "name": "f"}} for name in "xy"]},
        {"role": "user", "parts": [{"functionResponse": {"id": name, "name": "f"}} for name in "yx"]},
    ]
    results = read_conversation(wire).messages[2:]
    assert [result["tool_call_id"] for result in results] == ["y", "x"]


def test_ids_that_were_made_are_never_written_and_those_that_came_are() -> None:
    conversation = read_conversation(request())
    messages = json.loads(json.dumps(conversation.messages))  # as a store gives them back
    called, answered = conversation.write(messages)["contents"][1:3]
    assert [part["functionCall"].keys() for part in called["parts"] if "functionCall" in part] == [{"name", "args"}] * 2
    assert "call_without_id" not in json.dumps(answered)
    written = convert([user("go"), assistant(None, [call("f", id="c1")]), tool("c1", "ok")], "gemini")
    assert written["contents"][1]["parts"] == [{"functionCall": {"id": "c1", "name": "f", "args": {}}}]
    assert written["contents"][2]["parts"] == [
        {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "ok"}}}
    ]


def test_one_changed_result_leaves_its_neighbours_as_they_came() -> None:
    wire = request()
    conversation = read_conversation(wire)
    messages = list(conversation.messages)
    messages[3] = {**messages[3], "content": "[read] a.py, 1 line"}
    contents = conversation.write(messages)["contents"]
    assert [contents[at] is wire["contents"][at] for at in range(4)] == [True, True, False, True]
    first, *others = contents[2]["parts"]
    told = {"id": "read-17-1", "name": "read", "response": {"output": "[read] a.py, 1 line"}}
    assert first == {"functionResponse": told}
    assert all(out is came for out, came in zip(others, wire["contents"][2]["parts"][1:], strict=True))


def test_a_shortened_call_keeps_its_signature_and_its_place() -> None:
    wire = request()
    conversation = read_conversation(wire)
    messages = list(conversation.messages)
    first, second = messages[2]["tool_calls"]
    shorter: Any = {**first, "function": {**first["function"], "arguments": '{"path": "a.py"}'}}
    messages[2] = {**messages[2], "tool_calls": [shorter, second]}
    parts = conversation.write(messages)["contents"][1]["parts"]
    came = wire["contents"][1]["parts"]
    assert parts[0] is came[0] and parts[1] == came[1] and parts[3] is came[3]
    assert parts[2] == {"functionCall": {"name": "read", "args": {"path": "a.py"}}, "thoughtSignature": "c2ln"}


def test_a_handoff_is_a_content_of_the_user_and_what_follows_is_untouched() -> None:
    wire = request()
    conversation = read_conversation(wire)
    handoff: Message = {"role": "user", "content": "What was done before."}
    contents = conversation.write([conversation.messages[0], handoff, *conversation.messages[2:]])["contents"]
    assert contents[0] == {"role": "user", "parts": [{"text": "What was done before."}]}
    assert all(out is came for out, came in zip(contents[1:], wire["contents"][1:], strict=True))


def test_what_would_begin_with_the_model_gets_an_opening_unless_it_came_so() -> None:
    conversation = read_conversation(request())
    contents = conversation.write(conversation.messages[2:])["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "model"]
    greeting = [{"role": "model", "parts": [{"text": "Hello."}]}, {"role": "user", "parts": [{"text": "Hi."}]}]
    assert read_conversation(greeting).write() == greeting


def test_calls_behind_new_words_of_the_model_are_in_one_content_with_them() -> None:
    wire = request()
    conversation = read_conversation(wire)
    messages = list(conversation.messages)
    messages.insert(2, {"role": "assistant", "content": "I shall look."})
    contents = conversation.write(messages)["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "model"]
    assert contents[1]["parts"] == [{"text": "I shall look."}, *wire["contents"][1]["parts"]]


def test_parallel_results_are_one_content_also_with_a_stub_among_them() -> None:
    wire = request()
    del wire["contents"][2]["parts"][1]
    conversation = read_conversation(wire)
    contents = conversation.write(repair(conversation.messages).messages)["contents"]
    responses = [part["functionResponse"] for part in contents[2]["parts"] if "functionResponse" in part]
    assert [response["name"] for response in responses] == ["read", "read"]
    assert contents[2]["parts"][0] is wire["contents"][2]["parts"][0]
    assert "text" in contents[3]["parts"][0] and len(contents) == 5


def test_a_system_prompt_with_a_note_keeps_its_shape() -> None:
    wire = request()
    conversation = read_conversation(wire)
    noted: Message = {"role": "system", "content": "Be brief.\n\nSome was folded."}
    written = conversation.write([noted, *conversation.messages[1:]])
    assert written["systemInstruction"] == {"role": "user", "parts": [{"text": "Be brief.\n\nSome was folded."}]}
    assert list(written) == list(wire)
    assert "systemInstruction" not in conversation.write(conversation.messages[1:])
    other = read_conversation(snake(wire)).write([noted, *conversation.messages[1:]])
    assert other["system_instruction"]["parts"] == [{"text": "Be brief.\n\nSome was folded."}]


def test_a_result_with_pictures_in_it_is_read_and_written() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    response = {"name": "see", "response": {"output": "one picture"}, "parts": [picture]}
    wire = [
        {"role": "user", "parts": [{"text": "look"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "see"}}]},
        {"role": "user", "parts": [{"functionResponse": response}]},
    ]
    conversation = read_conversation(wire)
    result = conversation.messages[2]
    assert text_of(result) == "one picture" and len(images_of(result)) == 1
    changed: Any = {**result, "is_error": True}
    written = conversation.write([*conversation.messages[:2], changed])[2]["parts"][0]["functionResponse"]
    assert written == {"name": "see", "response": {"error": "one picture"}, "parts": [picture]}


@pytest.mark.parametrize(
    ("mime", "kind"), [("image/png", "image"), ("audio/wav", "audio"), ("video/mp4", "video"), ("text/csv", "document")]
)
def test_media_come_back_from_our_form_also_where_the_part_is_not_known_any_more(mime: str, kind: str) -> None:
    came = {"inlineData": {"mimeType": mime, "data": PNG}}
    conversation = read_conversation([{"role": "user", "parts": [{"text": "this"}, came]}])
    (message,) = json.loads(json.dumps(conversation.messages))
    assert message["content"][1]["type"] == kind
    assert conversation.write([message]) == [{"role": "user", "parts": [{"text": "this"}, came]}]
    linked = {"fileData": {"fileUri": "gs://bucket/a.pdf", "mimeType": "application/pdf"}}
    conversation = read_conversation([{"role": "user", "parts": [linked]}])
    assert conversation.write(json.loads(json.dumps(conversation.messages))) == [{"role": "user", "parts": [linked]}]


def test_a_single_content_or_text_in_place_of_a_list_stays_so() -> None:
    for contents in ("What is it?", {"role": "user", "parts": [{"text": "What is it?"}]}, {"parts": [{"text": "It?"}]}):
        wire = {"contents": contents}
        conversation = read_conversation(wire)
        assert conversation.write()["contents"] is contents
        more = conversation.write([*conversation.messages, {"role": "assistant", "content": "It."}])
        assert len(more["contents"]) == 2


@pytest.mark.parametrize("wrong", [{"text": "hi"}, 7])
def test_what_is_no_content_is_refused_by_its_index(wrong: Any) -> None:
    with pytest.raises(InvalidMessage) as refused:
        read_conversation([{"role": "user", "parts": []}, wrong], dialect="gemini")
    assert refused.value.index == 1


@pytest.mark.parametrize("parts", [None, [], {}, [None], ["hi"], [{"text": None}], [{"functionCall": None}], [{}], [7]])
@pytest.mark.parametrize("role", ["user", "model", "function", "system", None])
def test_odd_contents_are_kept(parts: Any, role: Any) -> None:
    wire = [{"role": "user", "parts": [{"text": "hi"}]}, {"role": role, "parts": parts}]
    conversation = read_conversation(wire, dialect="gemini")
    assert all(out is came for out, came in zip(conversation.write(), wire, strict=True))
    json.dumps(repair(conversation.messages).messages)


def test_a_history_that_grows_is_read_as_a_whole_one_is() -> None:
    contents = request()["contents"]
    whole = read_conversation(contents, dialect="gemini").messages
    for cut in range(len(contents) + 1):
        growing = History("gemini")
        growing.extend(contents[:cut])
        assert growing.is_followed_by(contents)
        growing.extend(contents[cut:])
        assert [item.message for item in growing.items] == list(whole)
        assert all(out is came for out, came in zip(growing.write(growing.items), contents, strict=True))


def test_two_turns_that_call_the_same_get_ids_of_their_own() -> None:
    turn = request()["contents"][1:3]
    contents = [request()["contents"][0], *turn, *json.loads(json.dumps(turn))]
    messages = read_conversation(contents).messages
    made = [each["id"] for message in messages for each in message.get("tool_calls") or ()]
    assert len(set(made)) == 4
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == made


def test_tools_are_counted_and_converted_function_by_function() -> None:
    properties = {"path": {"type": "STRING", "description": "where it is"}}
    schema = {"type": "OBJECT", "properties": properties, "required": ["path"]}
    declared = [
        {"name": "read", "description": "Read a file", "parameters": schema},
        {"name": "list", "parametersJsonSchema": {"type": "object", "properties": {}}},
    ]
    tools: list[Any] = [{"functionDeclarations": declared}, {"googleSearch": {}}]
    plain = {"type": "object", "properties": {"path": {**properties["path"], "type": "string"}}, "required": ["path"]}
    function = {"name": "read", "description": "Read a file", "parameters": plain}
    chat = convert_tools(tools, "openai_chat")
    assert chat[0] == {"type": "function", "function": function}
    assert [each["function"]["name"] for each in chat] == ["read", "list"]
    assert convert_tools(tools, "anthropic")[0]["input_schema"] == plain
    back = convert_tools(chat, "gemini")
    assert back[0]["functionDeclarations"][0] == {
        "name": "read",
        "description": "Read a file",
        "parametersJsonSchema": plain,
    }
    both = clew.count_tokens([], tools=[{"functionDeclarations": declared}])
    assert both == clew.count_tokens([], tools=chat)


def test_counting_sees_texts_calls_results_and_pictures_and_no_base64() -> None:
    long = {"inlineData": {"mimeType": "image/png", "data": "A" * 100_000}}
    contents = [*request()["contents"], {"role": "user", "parts": [{"text": "word " * 1_000}, long]}]
    counted = clew.count_tokens(contents)
    assert 1_000 < counted < 5_000
    assert clew.count_tokens({"contents": contents}) == counted
    assert clew.count_tokens(contents[-1]) > 1_000


def test_parts_that_were_forgotten_are_never_written_for_new_ones() -> None:
    def contents(marker: str) -> list[dict[str, Any]]:
        parts = [{"text": f"old {number}"} for number in range(50)]
        return [{"role": "user", "parts": [*parts, {"text": "end", "thoughtSignature": marker}]}]

    growing = History("gemini")
    growing.extend(contents("before"))
    assert growing.follow(contents("after")) == 1
    new: list[Message] = [{"role": "user", "content": [{"type": "text", "text": f"new {at}"}]} for at in range(500)]
    written = growing.write(map(Item, new))
    assert written == [{"role": "user", "parts": [{"text": f"new {at}"}]} for at in range(500)]
