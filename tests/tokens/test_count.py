from __future__ import annotations

import json
from typing import Any, cast

import pytest

from clew.errors import InvalidMessage
from clew.messages import Message
from clew.tokens import count_each, count_tokens, counter_for
from clew.tokens.count import EXACT_CHARS
from tests.support.cases import every_case


def as_message(value: Any) -> Message:
    return cast("Message", value)


def test_a_plain_request_has_the_size_that_openai_documents() -> None:
    # Three tokens a message, one for the role, one for the text, three to start the reply.
    assert count_tokens([{"role": "user", "content": "hello"}], model="gpt-4o") == 8


def test_without_a_model_texts_are_counted_with_o200k() -> None:
    text = "Bring the thread back to where the maze began. " * 30
    assert counter_for().text(text) == counter_for("gpt-4o").text(text)
    assert count_tokens(text) == count_tokens([{"role": "user", "content": text}])


def test_system_and_tools_are_part_of_the_size() -> None:
    messages: list[Message] = [{"role": "user", "content": "hello"}]
    tool = {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a part of a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
    alone = count_tokens(messages)
    assert count_tokens(messages, system="You are careful.") > alone + 3
    assert count_tokens(messages, tools=[tool]) > alone + 15
    assert count_tokens(messages, tools=[tool, tool]) > count_tokens(messages, tools=[tool]) + 10


def test_a_tool_costs_about_the_same_in_every_dialect() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "Where the file lies."}}}
    described = {"name": "read_file", "description": "Read a part of a file."}
    counter = counter_for()
    chat = counter.tools([{"type": "function", "function": {**described, "parameters": schema}}])
    assert chat == counter.tools([{"type": "function", **described, "parameters": schema}])
    assert chat == counter.tools([{**described, "input_schema": schema}])


def test_a_tools_choices_and_inner_objects_are_read() -> None:
    def tool(field: dict[str, Any]) -> dict[str, Any]:
        return {"name": "pick", "input_schema": {"type": "object", "properties": {"colour": field}}}

    counter = counter_for()
    bare = counter.tools([tool({"type": "string"})])
    assert counter.tools([tool({"type": "string", "enum": ["red", "green", "blue"]})]) > bare + 4
    inner = {"type": "object", "properties": {"shade": {"type": "number", "description": "From pale to deep."}}}
    assert counter.tools([tool(inner)]) > bare + 6
    assert counter.tools([tool({"type": "array", "items": inner})]) > bare + 6


@every_case(
    "system",
    [
        "You are careful.",
        [{"type": "text", "text": "You are careful."}],
        {"role": "system", "content": "You are careful."},
    ],
)
def test_a_system_prompt_costs_the_same_in_every_shape(system: object) -> None:
    bare = count_tokens([{"role": "user", "content": "hello"}])
    assert count_tokens([{"role": "user", "content": "hello"}], system=system) == bare + 8


def test_the_three_dialects_of_one_conversation_have_nearly_one_size() -> None:
    arguments = {"path": "src/maze.py", "limit": 40}
    result = "def walk(thread):\n    return [knot for knot in thread if knot.tight]\n" * 5
    chat = [
        {"role": "user", "content": "Read the maze."},
        {
            "role": "assistant",
            "content": "I will.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": json.dumps(arguments)}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]
    anthropic = [
        {"role": "user", "content": [{"type": "text", "text": "Read the maze."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I will."},
                {"type": "tool_use", "id": "c1", "name": "read_file", "input": arguments},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": result}]},
    ]
    responses = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Read the maze."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I will."}]},
        {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": json.dumps(arguments)},
        {"type": "function_call_output", "call_id": "c1", "output": result},
    ]
    for model in ("gpt-4o", "claude-sonnet-4-5", "gemini-3-pro"):
        sizes = [count_tokens(cast("list[Message]", wire), model=model) for wire in (chat, anthropic, responses)]
        assert max(sizes) - min(sizes) <= 12, (model, sizes)


def test_reasoning_is_counted_and_its_seal_is_not_read_as_text() -> None:
    thought = "First the walls, then the floor, and only then the thread that leads between them. " * 10
    bare: Message = {"role": "assistant", "content": "Done."}
    counter = counter_for("claude-sonnet-4-5")
    counted = counter.message(
        {**bare, "reasoning": [{"type": "thinking", "thinking": thought, "signature": "s" * 4_000}]}
    )
    assert counted == pytest.approx(counter.message(bare) + counter.text(thought), abs=2)
    sealed = counter.message({**bare, "reasoning": [{"type": "redacted_thinking", "data": "s" * 600}]})
    assert sealed == pytest.approx(counter.message(bare) + 100, abs=2)


def test_documents_and_audio_are_counted_and_text_documents_are_read() -> None:
    counter = counter_for("claude-sonnet-4-5")

    def cost(part: dict[str, Any]) -> int:
        return counter.message({"role": "user", "content": [part]})

    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 4_000_000}}
    assert 10_000 < cost(pdf) < 210_000
    assert cost({"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}) == 1_002
    assert cost({"type": "document", "source": {"type": "text", "data": "three small words"}}) < 12
    assert 32 < cost({"type": "input_audio", "input_audio": {"data": "A" * 1_000_000, "format": "mp3"}}) < 3_000
    assert cost({"type": "file", "file": {"file_id": "file_1"}}) == 1_002


@every_case(
    "odd",
    [
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": []},
        {"role": "user", "content": [None, 3, "text", {"type": None}, {"type": ["list"]}, {"text": 5}]},
        {"role": "user", "content": {"type": "text", "text": "a part without its list"}},
        {"role": "user", "content": "\ud800\udfff\ud83d lone"},
        {"role": None, "content": 12},
        {
            "role": "assistant",
            "tool_calls": [None, {}, {"function": None}, {"function": {"name": 3, "arguments": None}}],
        },
        {"role": "assistant", "tool_calls": "none"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"broken": '}}]},
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "tool", "content": [{"type": "tool_result", "content": [{"type": "image"}]}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "x" * 60},
        {"role": "user", "type": "something new", "value": {"deep": [1, 2.5, True, None, 10**5_000]}},
    ],
)
@every_case("model", [None, "claude-opus-4-7", "gemini-3-pro", "gpt-4", "nobody"])
def test_odd_messages_are_counted_without_complaint(odd: Any, model: str | None) -> None:
    assert 0 <= count_tokens([as_message(odd)], model=model) < 2_100


def test_odd_requests_are_counted_without_complaint() -> None:
    assert count_tokens(None) == 3
    assert count_tokens(as_message({"role": "user", "content": "hello"})) == 8
    assert count_tokens([], system=[None, {"type": "text"}], tools=[{}, {"function": 3}]) > 0
    assert count_tokens([], tools={"name": "single"}) > 0


def test_nesting_without_end_is_refused() -> None:
    deep: Any = "bottom"
    for _ in range(5_000):
        deep = [{"type": "tool_result", "content": deep}]
    loop: dict[str, Any] = {"type": "strange"}
    loop["self"] = loop
    for content in (deep, [loop]):
        with pytest.raises(InvalidMessage, match="nested too deeply"):
            count_tokens([as_message({"role": "user", "content": content})])


def test_arguments_that_claude_sees_plain_are_not_counted_as_escaped_json() -> None:
    text = 'first line\nsecond line with "quotes"\n' * 40
    message: Message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "write", "arguments": json.dumps({"text": text})}}],
    }
    claude = counter_for("claude-sonnet-4-5")
    assert claude.message(message) - claude.text(text) < 80


def test_a_long_history_is_estimated_and_scaled_by_an_exact_sample() -> None:
    line = "2026-02-11 08:14:{:02} worker {} finished job {} in {} ms\n"
    messages: list[Message] = [
        {"role": "user", "content": "".join(line.format(j % 60, i, i * j, j) for j in range(60))} for i in range(900)
    ]
    assert sum(len(str(message["content"])) for message in messages) > EXACT_CHARS
    counter = counter_for()
    exact = sum(counter.message(message) for message in messages)
    assert sum(count_each(messages)) == pytest.approx(exact, rel=0.01)


def test_a_text_of_fifty_megabytes_is_counted() -> None:
    text = "a line of fifty-two characters, again and again....\n" * 1_000_000
    assert count_tokens([{"role": "tool", "content": text}], model="claude-opus-4-5") > 5_000_000


def test_an_estimate_gives_whole_numbers_and_nothing_for_nothing() -> None:
    counter = counter_for("nobody")
    assert counter.text("") == 0
    assert isinstance(counter.text("a"), int)
    assert counter.text("a") in (1, 2)
    assert counter.tools(None) == counter.tools([]) == counter.system(None) == counter.system("") == 0
