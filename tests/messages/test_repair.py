"""The repair of histories that nobody should send."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from clew.errors import InvalidArgument, InvalidMessage
from clew.messages import NO_RESULT, Repair, repair


def call(identity: Any = "a", arguments: Any = "{}", name: Any = "f") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def asks(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(identity: Any = "a", content: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def user(content: Any = "hi") -> dict[str, Any]:
    return {"role": "user", "content": content}


def repaired(*messages: Any, **options: Any) -> tuple[list[Any], tuple[Repair, ...]]:
    before = copy.deepcopy(messages)
    done = repair(messages, **options)
    assert messages == before, "the input was changed"
    again = repair(done.messages, **options)
    assert again.messages is done.messages and not again.repairs, "not repaired at once"
    return list(done.messages), done.repairs


def test_a_valid_history_comes_back_as_the_object_it_was() -> None:
    history: list[Any] = [
        {"role": "system", "content": "s"},
        {"role": "system", "content": "s2"},
        user("日本語 and 😀"),
        user([{"type": "text", "text": "é"}, {"type": "image_url", "image_url": {"url": "https://example.org/é"}}]),
        {
            **asks(call("a"), call("b", ' {"x": [1, {"y": null}]} \n')),
            "reasoning": [{"type": "thinking", "thinking": "t"}],
        },
        result("b", "né"),
        {**result("a", [{"type": "text", "text": "1"}]), "is_error": True},
        {"role": "assistant", "content": "ok", "tool_calls": None, "function_call": None, "name": "x"},
        asks({"id": "c", "type": "custom", "custom": {"name": "patch", "input": "free text"}}),
        result("c"),
        {"role": "assistant", "content": None, "reasoning_content": "only thought"},
        {"role": "developer", "content": ""},
    ]
    done = repair(history)
    assert done.repairs == ()
    assert done.messages is history


def test_missing_content_becomes_an_empty_text() -> None:
    messages, repairs = repaired(user(None), {"role": "assistant"}, user([]), user("x"))
    assert [message["content"] for message in messages] == ["", "", "", "x"]
    assert [(done.index, done.remedy) for done in repairs] == [(at, "content is an empty text") for at in (0, 1, 2)]


def test_content_of_another_type_becomes_text_or_parts() -> None:
    part = {"type": "text", "text": "a"}
    messages, _ = repaired(user(3), user(part), user(["a", part, None]), user((part,)))
    assert messages[0]["content"] == "3"
    assert messages[1]["content"] == [part]
    assert messages[2]["content"] == [part, part, {"type": "text", "text": "null"}]
    assert messages[3]["content"] == [part]


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ('{"path": "a.py', {"unreadable_arguments": '{"path": "a.py'}),
        ("[1, 2]", {"unreadable_arguments": [1, 2]}),
        ("null", {"unreadable_arguments": None}),
        ('{"a": 1} and more', {"unreadable_arguments": '{"a": 1} and more'}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ("", {}),
        (None, {}),
        ({"a": 1}, {"a": 1}),
        ("1" * 5000, {"unreadable_arguments": "1" * 5000}),
        ("[" * 100_000, {"unreadable_arguments": "[" * 100_000}),
    ],
)
def test_broken_arguments_become_an_object_that_loses_nothing(broken: Any, expected: Any) -> None:
    messages, repairs = repaired(asks(call("a", broken)), result("a"))
    assert json.loads(messages[0]["tool_calls"][0]["function"]["arguments"]) == expected
    assert [done.index for done in repairs] == [0]


def test_calls_without_id_name_or_shape_are_made_calls_or_removed() -> None:
    messages, repairs = repaired(asks(call(None), call(7), call("c", name=None), "nonsense", {"id": "d"}), result("c"))
    calls = messages[0]["tool_calls"]
    assert [made["id"] for made in calls] == ["call_0_0", "7", "c", "d"]
    assert [made["function"]["name"] for made in calls] == ["f", "f", "unknown", "unknown"]
    assert "a call of type str" in [done.problem for done in repairs]


def test_an_empty_list_of_calls_is_no_call() -> None:
    messages, _ = repaired({"role": "assistant", "content": "a", "tool_calls": []}, {**user(), "tool_calls": [call()]})
    assert messages == [{"role": "assistant", "content": "a"}, user()]


def test_a_result_for_a_call_that_never_happened_is_removed() -> None:
    messages, repairs = repaired(user(), result("ghost"), result("a"), asks(call("a")), result("a"))
    assert messages == [user(), asks(call("a")), result("a")]
    assert repairs[0] == Repair(1, "a result for 'ghost', which was never called", "removed")


def test_a_call_without_a_result_gets_a_stub_behind_the_results_that_are_there() -> None:
    messages, repairs = repaired(asks(call("a"), call("b"), call("c")), result("b"), user())
    assert messages[1:4] == [result("b"), result("a", NO_RESULT), result("c", NO_RESULT)]
    assert repairs == (
        Repair(0, "the call 'a' has no result", "a stub says so"),
        Repair(0, "the call 'c' has no result", "a stub says so"),
    )


def test_the_last_calls_may_wait_where_the_turn_still_runs() -> None:
    history: Any = [user(), asks(call("a"), call("b")), result("a")]
    assert repair(history, open_end=True).messages is history
    messages, _ = repaired(user(None), *history[1:], open_end=True)
    assert messages == [user(""), *history[1:]]


def test_results_apart_from_their_calls_are_moved_to_them() -> None:
    messages, repairs = repaired(asks(call("a"), call("b")), result("a"), user(), result("b"))
    assert messages == [asks(call("a"), call("b")), result("a"), result("b"), user()]
    assert repairs == (Repair(3, "the result of 'b' does not follow its call", "moved behind message 0"),)


def test_a_result_replaces_the_stub_that_stands_for_it() -> None:
    stub = result("b", NO_RESULT)
    messages, repairs = repaired(asks(call("a"), call("b")), result("a"), stub, result("b", "real"), user())
    assert messages == [asks(call("a"), call("b")), result("a"), result("b", "real"), user()]
    assert repairs == (Repair(2, "a stub for 'b', whose result follows later", "removed; the result is kept"),)


def test_a_result_replaces_its_stub_wherever_it_stands() -> None:
    stub = {**result("b"), "content": [{"type": "text", "text": NO_RESULT}]}
    messages, repairs = repaired(asks(call("a"), call("b")), stub, result("a"), user(), result("b", "real"))
    assert messages == [asks(call("a"), call("b")), result("a"), result("b", "real"), user()]
    assert [done.index for done in repairs] == [1, 4]


def test_a_stub_never_replaces_a_result() -> None:
    messages, _ = repaired(asks(call("a")), result("a", NO_RESULT), result("a", NO_RESULT), result("a", "real"))
    assert messages == [asks(call("a")), result("a", "real")]
    messages, _ = repaired(asks(call("a")), result("a", "real"), result("a", NO_RESULT), result("a", "second"))
    assert messages == [asks(call("a")), result("a", "real")]


def test_an_id_used_again_later_belongs_to_the_nearest_call() -> None:
    history: Any = [asks(call("a")), result("a", "1"), user(), asks(call("a")), result("a", "2")]
    assert repair(history).messages is history


def test_one_id_twice_in_a_group_keeps_the_first() -> None:
    messages, repairs = repaired(asks(call("a"), call("a", '{"x": 1}')), result("a", "1"), result("a", "2"))
    assert messages == [asks(call("a")), result("a", "1")]
    assert [done.index for done in repairs] == [0, 2]


def test_a_result_that_names_no_call_goes_to_the_one_that_waits() -> None:
    unnamed = {"role": "tool", "content": "1"}
    messages, _ = repaired(unnamed, asks(call("a"), call("b")), result("a"), {**unnamed, "tool_call_id": None}, unnamed)
    assert messages == [asks(call("a"), call("b")), result("a"), {**unnamed, "tool_call_id": "b"}]


def test_calls_of_the_old_kind_become_tool_calls() -> None:
    messages, _ = repaired(
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
    )
    assert messages == [
        asks(call("call_0_0")),
        {"role": "tool", "name": "f", "content": "1", "tool_call_id": "call_0_0"},
    ]


def test_half_characters_are_replaced_and_halves_that_belong_together_joined() -> None:
    messages, repairs = repaired(
        user("a\ud83d b"),
        user("\ud83d\ude00"),
        user([{"type": "text", "text": "\udc00"}]),
        asks(call("a\ud800", '{"x": "\ud800"}')),
        result("a\ud800", "\ud800"),
    )
    assert messages[0]["content"] == "a\ufffd b"
    assert messages[1]["content"] == "😀"
    assert messages[2]["content"][0]["text"] == "\ufffd"
    assert messages[4] == result("a\ufffd", "\ufffd")
    assert {done.index for done in repairs} == {0, 1, 2, 3, 4}


def test_a_text_of_fifty_million_chars_passes_whole_unless_a_cut_is_asked_for() -> None:
    long: Any = [user("x" * 50_000_000 + "é")]
    assert repair(long).messages is long
    messages, repairs = repaired(*long, user([{"type": "text", "text": "y" * 2000}]), longest_text=1000)
    assert len(messages[0]["content"]) == 1000 and messages[0]["content"].endswith("xé")
    assert "49,999,001 chars cut" in messages[0]["content"]
    assert len(messages[1]["content"][0]["text"]) == 1000
    assert repairs[0] == Repair(0, "a text of 50,000,001 chars", "cut to 1,000 chars")


def test_a_cut_that_would_leave_nothing_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="longest_text=5"):
        repair([], longest_text=5)


def test_messages_of_one_role_are_joined_only_when_asked() -> None:
    history: Any = [user("a"), user([{"type": "text", "text": "b"}]), user("c"), asks(call("a")), result("a")]
    assert repair(history).messages is history
    messages, repairs = repaired(*history, merge_same_role=True)
    assert messages[0] == user([{"type": "text", "text": text} for text in "abc"])
    assert messages[1:] == history[3:]
    assert [done.index for done in repairs] == [1, 2]
    messages, _ = repaired({"role": "system", "content": "a"}, {"role": "system", "content": "b"}, merge_same_role=True)
    assert messages == [{"role": "system", "content": "a\n\nb"}]


def test_texts_are_cut_after_they_are_joined_so_that_a_second_repair_finds_nothing() -> None:
    messages, repairs = repaired(
        {"role": "system", "content": "0"},
        {"role": "system", "content": "x" * 120},
        merge_same_role=True,
        longest_text=100,
    )
    assert [len(message["content"]) for message in messages] == [100]
    assert messages[0]["content"].startswith("0\n\nxxx")
    assert repairs == (
        Repair(0, "a text of 123 chars", "cut to 100 chars"),
        Repair(1, "follows another system message", "joined to message 0"),
    )


def test_joined_assistant_messages_keep_thinking_that_is_a_text() -> None:
    thought = [{"role": "assistant", "content": None, "reasoning": text} for text in ("first", "then")]
    messages, _ = repaired(*thought, merge_same_role=True)
    assert messages == [{"role": "assistant", "content": None, "reasoning": "first\n\nthen"}]


def test_joined_assistant_messages_keep_their_calls_and_their_thinking() -> None:
    thought = {"role": "assistant", "content": "a", "reasoning": [{"type": "thinking", "thinking": "t"}], "name": "n"}
    messages, _ = repaired(thought, asks(call("a")), result("a"), merge_same_role=True)
    assert messages[0] == {**thought, "tool_calls": [call("a")]}


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ("text", "it is of type str, not a dict"),
        ({"content": "a"}, "it has no role"),
        ({"role": ["user"], "content": "a"}, "its role ['user'] is no text"),
        ({"role": 7, "content": "a"}, "its role 7 is no text"),
    ],
)
def test_a_message_without_meaning_is_refused_with_its_index_and_the_remedy(broken: Any, problem: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        repaired(user(), broken)
    assert refused.value.index == 1
    assert refused.value.problem == problem
    assert refused.value.remedy


def test_what_is_left_alone_is_the_same_object() -> None:
    history: Any = [user(), user(None), asks(call("a")), result("a")]
    done = repair(history)
    assert done.messages[0] is history[0] and done.messages[2] is history[2] and done.messages[3] is history[3]
