"""What nobody should send ends in a valid result, or in an error that names the message."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import clew
from clew.engines import Fate
from clew.errors import ClewError, InvalidMessage
from clew.messages import NO_RESULT, read_conversation, repair
from clew.testing import assistant, call, system, tool, user
from tests.support.cases import every_case

LOG = "".join(f"ship {line}: berth {line * 31}, cargo salt, master aboard\n" for line in range(30))


def rounds(count: int, first: int = 0) -> list[Any]:
    messages: list[Any] = []
    for number in range(first, first + count):
        messages += [
            user(f"Day {number}?"),
            assistant(None, [call("read_file", {"path": f"{number}.log"}, f"c{number}")]),
        ]
        messages += [tool(f"c{number}", f"{number}\n{LOG}"), assistant(f"Day {number}: salt.")]
    return messages


BROKEN: dict[str, list[Any]] = {
    "content is None": [{"role": "user", "content": None}, {"role": "assistant", "content": None}],
    "content is missing": [{"role": "user"}, {"role": "assistant"}],
    "empty lists": [{"role": "user", "content": []}, {"role": "assistant", "content": [], "tool_calls": []}],
    "broken arguments": [assistant(None, [call("ls", '{"path": "a', id="cut")]), tool("cut", "no such file")],
    "arguments that are no object": [assistant(None, [call("ls", "[1]", id="e")]), tool("e", "x")],
    "arguments that are nothing": [assistant(None, [call("ls", "", id="f")])],
    "a result for no call": [tool("never", "x" * 900)],
    "a result with no id": [{"role": "tool", "content": "x"}],
    "a call with no result": [assistant(None, [call("ls", id="lost")]), user("go on")],
    "a repeated id": [*rounds(1, 900), *rounds(1, 900)],
    "two calls of one id": [assistant(None, [call("ls", id="t"), call("ls", id="t")]), tool("t", "x")],
    "results turned around": [assistant(None, [call("a", id="o"), call("b", id="q")]), tool("q", "x"), tool("o", "y")],
    "a result far from its call": [assistant(None, [call("ls", id="far")]), user("hm"), tool("far", "x" * 900)],
    "a lone surrogate": [user("half \ud83d of it")],
    "two system prompts": [system("Speak Latin."), user("quid?")],
    "one role again and again": [user("and"), user("and"), user("and"), assistant("yes"), assistant("yes")],
    "content of another type": [{"role": "user", "content": 7}, {"role": "assistant", "content": {"type": "text"}}],
    "the old way of calling": [
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
        {"role": "function", "name": "ls", "content": "a b c"},
    ],
    "a call that is none": [{"role": "assistant", "content": "x", "tool_calls": ["ls", None, {}]}],
    "a call without an id": [{"role": "assistant", "tool_calls": [{"function": {"name": "ls", "arguments": "{}"}}]}],
}  # fmt: skip


def is_valid(wire: Any) -> bool:
    conversation = read_conversation(wire)
    json.dumps(wire, ensure_ascii=False).encode()
    return not repair(conversation.messages, open_end=True).repairs


@every_case("name", BROKEN)
@every_case("place", ["in the head", "in the middle", "in the tail"])
@every_case("how", [{"context_length": 16_000}, {"target_tokens": 2_500}])
def test_a_long_broken_conversation_becomes_a_short_valid_one(name: str, place: str, how: dict[str, Any]) -> None:
    before = {"in the head": 0, "in the middle": 12, "in the tail": 25}[place]
    messages = [system("Be brief."), *rounds(before), *copy.deepcopy(BROKEN[name]), *rounds(26 - before, 50)]
    as_it_was = copy.deepcopy(messages)
    done = clew.compress(messages, **how)
    assert messages == as_it_was
    assert done.changed and done.tokens_after < done.tokens_before
    assert is_valid(done.messages)
    assert len(done.fates) == len(messages)


@every_case("name", BROKEN)
def test_a_short_broken_conversation_is_mended_or_left_with_a_warning(name: str) -> None:
    messages = [user("Hello."), *BROKEN[name], user("Go on.")]
    done = clew.compress(messages, context_length=100_000)
    if repair(messages, open_end=True).repairs:
        assert any("message " in warning for warning in done.warnings)
        assert is_valid(done.messages) or (not done.changed and "larger" in "".join(done.warnings))
    else:
        assert done.messages is messages
    assert clew.count_tokens(done.messages) <= max(clew.count_tokens(messages), done.tokens_before)
    assert len(done.fates) == len(messages)


def test_a_mended_result_without_a_call_is_told_as_removed() -> None:
    done = clew.compress([user("Hello."), tool("never", "x" * 900), user("Go on.")], target_tokens=5_000)
    assert done.messages == [user("Hello."), user("Go on.")]
    assert done.fates == (Fate.KEPT, Fate.REMOVED, Fate.KEPT)
    assert "message 1: a result for 'never', which was never called (removed)" in done.warnings[0]


def test_a_call_without_a_result_gets_a_stub_in_a_folded_conversation() -> None:
    messages = [*rounds(26), assistant(None, [call("ls", id="lost")]), user("Go on."), assistant("I will.")]
    done = clew.compress(messages, context_length=16_000)
    assert tool("lost", NO_RESULT) in done.messages


@every_case(
    ("wrong", "index"),
    [("just text", 5), (None, 5), ({"content": "no role"}, 5), ({"role": 7, "content": "x"}, 5), (["a"], 5)],
)
def test_what_no_repair_can_save_is_refused_by_its_index(wrong: Any, index: int) -> None:
    messages = [*rounds(1), user("x"), wrong, *rounds(25, 10)]
    for how in ({"context_length": 16_000}, {"target_tokens": 900_000}):
        with pytest.raises(InvalidMessage, match=f"message {index}: ") as refused:
            clew.compress(messages, **how)  # type: ignore[arg-type]
        assert refused.value.index == index


@every_case("wrong", ["text", 7, None, {"messages": "text"}, {"messages": None}, b"bytes"])
def test_what_holds_no_messages_is_refused(wrong: Any) -> None:
    with pytest.raises(ClewError):
        clew.compress(wrong, context_length=16_000)


@every_case("empty", [[], [system("s")], {"messages": []}])
def test_where_there_is_nothing_nothing_happens(empty: Any) -> None:
    done = clew.compress(empty, context_length=16_000)
    assert not done.changed
    assert done.request is (empty if isinstance(empty, dict) else None)
    assert done.messages is (empty["messages"] if isinstance(empty, dict) else empty)


def test_a_text_of_many_megabytes_is_folded_too() -> None:
    huge = "salt and rope\n" * 400_000
    done = clew.compress([user("Read."), *rounds(2), user(huge), *rounds(20, 10)], context_length=16_000)
    assert done.tokens_after < 10_000
    last = clew.compress([user("Read."), *rounds(20), user("This:"), assistant(huge)], context_length=16_000)
    kept = str(last.messages[-1]["content"])
    assert last.changed and kept.startswith("salt and rope\n") and kept.endswith("salt and rope\n")
    assert "chars left out ...]" in kept
    assert last.tokens_after < 8_000
