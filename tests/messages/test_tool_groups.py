"""Groups and cuts."""

from __future__ import annotations

from typing import Any

from clew.messages import Message, last_cut_at_or_before, safe_cut_at_or_before, safe_cuts, tool_groups


def says(role: Any, text: str = "text") -> Message:
    return {"role": role, "content": text}


def calls(*ids: str) -> Message:
    made: Any = [{"id": identity, "type": "function", "function": {"name": "f", "arguments": "{}"}} for identity in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(identity: str) -> Message:
    return {"role": "tool", "tool_call_id": identity, "content": "done"}


def test_a_group_is_a_call_and_its_results() -> None:
    history = [says("user"), calls("a", "b"), result("b"), result("a"), says("assistant"), calls("c"), result("c")]
    assert tool_groups(history) == [range(1, 4), range(5, 7)]


def test_a_history_is_never_cut_inside_a_group() -> None:
    history = [says("user"), calls("a", "b"), result("b"), result("a"), says("assistant"), calls("c"), result("c")]
    assert safe_cuts(history) == [0, 1, 4, 5, 7]


def test_a_result_apart_from_its_call_keeps_everything_between_together() -> None:
    history = [calls("a"), says("user"), calls("b"), result("b"), result("a"), says("user")]
    assert tool_groups(history) == [range(5)]
    assert safe_cuts(history) == [0, 5, 6]


def test_a_repeated_id_belongs_to_the_nearest_call_before_it() -> None:
    history = [calls("a"), result("a"), says("user"), calls("a"), result("a")]
    assert tool_groups(history) == [range(2), range(3, 5)]


def test_a_result_without_a_call_does_not_begin_a_tail() -> None:
    assert safe_cuts([says("user"), result("x"), says("user")]) == [0, 2, 3]


def test_thinking_is_not_cut_from_what_it_led_to() -> None:
    thought: Message = {"role": "assistant", "content": None, "reasoning": [{"type": "thinking", "thinking": "t"}]}
    assert safe_cuts([says("user"), thought, says("assistant"), says("user")]) == [0, 1, 3, 4]


def test_an_empty_history_has_one_cut() -> None:
    assert safe_cuts([]) == [0]


def test_a_walk_back_finds_the_cut_before_an_index() -> None:
    history = [says("user"), calls("a", "b"), result("b"), result("a"), says("assistant")]
    cuts = safe_cuts(history)
    for index in range(-1, 8):
        assert safe_cut_at_or_before(history, index) == last_cut_at_or_before(cuts, index)
    assert safe_cut_at_or_before(history, 3) == 1
