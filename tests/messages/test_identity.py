"""What makes another message, and what is only another spelling of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.messages import Message, ToolCall, digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(min_size=1, max_size=8), JSON, max_size=4)


def calling(call_id: str, arguments: Any, text: str | None = None) -> Message:
    spelled = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call: ToolCall = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": spelled}}
    return {"role": "assistant", "content": text, "tool_calls": [call]}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"role": "user", "content": "a"}, {"content": "a", "role": "user"}, True),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "name": None}, True),
        ({"role": "assistant", "content": None}, {"role": "assistant", "content": ""}, True),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "cache_control": {}}, True),
        ({"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}, False),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "name": "x"}, False),
        ({"role": "tool", "content": "a"}, {"role": "tool", "content": "a", "is_error": True}, False),
        ({"role": "tool", "content": "a"}, {"role": "tool", "content": "a", "is_error": False}, True),
        ({"role": "tool", "content": "a"}, {"role": "tool", "content": "a", "name": "shell"}, True),
        ({"role": "tool", "content": "a", "tool_call_id": "x"}, {"role": "tool", "content": "a"}, False),
        (
            # A reply as it came, and as clients send it back.
            {"role": "assistant", "content": "a", "reasoning_content": "hm", "id": "msg_1", "status": "completed"},
            {"role": "assistant", "content": "a", "provider_specific_fields": {"x": 1}},
            True,
        ),
        (
            {"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": [{"n": 1}]}]},
            {"role": "assistant", "content": "a\n"},
            True,
        ),
        (
            {"role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "image", "n": 1}]},
            {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image", "n": 2}]},
            False,
        ),
        (
            {"role": "assistant", "content": None, "reasoning": [{"t": 1}]},
            {"role": "assistant", "content": None, "reasoning": [{"t": 2}]},
            False,
        ),
    ],
)
def test_what_makes_another_message(one: Message, other: Message, same: bool) -> None:
    assert (digest(one) == digest(other)) is same


@given(ARGUMENTS, st.booleans())
def test_order_space_and_nulls_of_arguments_do_not_count(arguments: dict[str, Any], indent: bool) -> None:
    respelled = {**dict(reversed(arguments.items())), "a default of the client": None}
    spelled = json.dumps(respelled, indent=2 if indent else None)
    assert digest(calling("call_1", arguments)) == digest(calling("call_1", spelled))


@given(ARGUMENTS)
def test_other_arguments_are_another_message_where_ids_may_repeat(arguments: dict[str, Any]) -> None:
    other = {**arguments, "one more": 1}
    for repeated in ("call_1", "functions.read_file:12", "call_without_id_3_0"):
        assert digest(calling(repeated, arguments)) != digest(calling(repeated, other))


@given(ARGUMENTS, st.text())
def test_a_random_id_identifies_a_reply(arguments: dict[str, Any], text: str) -> None:
    for random_id in ("call_Ab3dEf9hIjKl", "toolu_01A09q90qw90lq917835lq9", "chatcmpl-tool-9f3c2ab1d4e5f6a7"):
        assert digest(calling(random_id, arguments)) == digest(calling(random_id, {"timeout": 60}, text))
    assert digest(calling("call_Ab3dEf9hIjKl", arguments)) != digest(calling("call_Zb3dEf9hIjKl", arguments))


@given(st.lists(st.text(), max_size=4))
def test_a_text_is_the_same_in_any_number_of_parts(parts: list[str]) -> None:
    split: Message = {"role": "assistant", "content": [{"type": "text", "text": part} for part in parts]}
    assert digest(split) == digest({"role": "assistant", "content": "".join(parts)})
