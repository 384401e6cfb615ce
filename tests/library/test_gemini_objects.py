"""Objects of the `google-genai` SDK go in as they are, and come back as the very objects."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.errors import InvalidMessage
from clew.messages import images_of, read_conversation

types: Any = pytest.importorskip("google.genai.types")
WINDOW = 8_000


def history(rounds: int) -> list[Any]:
    picture = types.Part.from_bytes(data=b"\x89PNG\r\n\x1a\n", mime_type="image/png")
    contents = [types.Content(role="user", parts=[types.Part(text="Which ships?"), picture])]
    for number in range(rounds):
        call = types.FunctionCall(name="read_file", args={"path": number})
        output = {"output": f"ship {number}: salt\n" * 60}
        contents += [
            types.Content(role="model", parts=[types.Part(function_call=call, thought_signature=b"signed")]),
            types.Content(role="user", parts=[types.Part.from_function_response(name="read_file", response=output)]),
        ]
    return [*contents, types.Content(role="model", parts=[types.Part(text="Salt.")])]


def test_contents_are_read_and_come_back_as_the_very_objects() -> None:
    contents = history(2)
    conversation = read_conversation(contents)
    assert conversation.dialect == "gemini"
    assert len(images_of(conversation.messages[0])) == 1
    assert conversation.messages[2]["tool_call_id"] == conversation.messages[1]["tool_calls"][0]["id"]
    assert all(out is came for out, came in zip(conversation.write(), contents, strict=True))
    plain = [content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in contents]
    assert clew.count_tokens(contents) == clew.count_tokens(plain)


def test_a_long_history_of_contents_folds_to_what_the_sdk_takes() -> None:
    contents = history(40)
    done = clew.compress(contents, context_length=WINDOW)
    assert done.changed and done.messages[-1] is contents[-1]
    assert all(types.Content.model_validate(item) for item in done.messages)
    instruction = types.Content(parts=[types.Part(text="You look after a harbour.")])
    with clew.Projection(context_length=WINDOW) as view:
        fitted = view.fit(contents, system=instruction)
        assert len(view.compactions) == 1 and fitted[-1] is contents[-1]
        more = [*contents, types.Content(role="user", parts=[types.Part(text="And then?")])]
        again = view.fit(more, system=instruction)
        assert again[-1] is more[-1] and again[: len(fitted)] == fitted


def test_a_whole_reply_is_refused_with_where_its_content_is() -> None:
    reply = types.GenerateContentResponse(candidates=[types.Candidate(content=history(0)[-1])])
    with pytest.raises(InvalidMessage, match=r"candidates\[0\]\.content"):
        clew.compress([history(0)[0], reply], context_length=WINDOW)


def test_declared_functions_and_usage_are_read() -> None:
    schema = types.Schema(type="OBJECT", properties={"path": types.Schema(type="STRING", description="where it is")})
    declared = types.FunctionDeclaration(name="read_file", description="Read a file", parameters=schema)
    tools = [types.Tool(function_declarations=[declared])]
    assert clew.count_tokens(history(0), tools=tools) > clew.count_tokens(history(0)) + 10
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=100, cached_content_token_count=60, candidates_token_count=9, thoughts_token_count=2
    )
    used = clew.normalize_usage(usage)
    assert (used.input_tokens, used.cache_read_tokens, used.output_tokens) == (40, 60, 11)
