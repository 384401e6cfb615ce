"""Odd messages: each door refuses the same ones with `InvalidMessage`, first or later, and takes the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.caching import apply_cache_control
from clew.errors import InvalidMessage
from clew.messages import convert, read_conversation
from clew.store import NewSession, open_store
from clew.testing import assistant, call, tool, user

LONG = [
    message
    for number in range(40)
    for message in (
        user(f"Question {number}."),
        assistant(f"Looking {number}.", [call("read_file", {"path": f"{number}.py"}, id=f"k{number}")]),
        tool(f"k{number}", "data " * 80),
    )
]


def cyclic() -> dict[str, Any]:
    message: dict[str, Any] = {"role": "user", "content": "x"}
    message["self"] = message
    return message


NO_MESSAGES: dict[str, Any] = {
    "a text": "hello",
    "None": None,
    "no role": {"tool_call_id": "c", "content": "x"},
    "a list as role": {"role": ["user"], "content": "x"},
    "a number as role": {"role": 5, "content": "x"},
    "itself inside": cyclic(),
}
ODD_MESSAGES: dict[str, Any] = {
    "no role but null": {"role": None, "content": "x"},
    "an unknown role": {"role": "critic", "content": "Think again about the walrus."},
    "calls that are a text": {"role": "assistant", "content": "x", "tool_calls": "abc"},
    "a number as call": {"role": "assistant", "content": "x", "tool_calls": [5]},
    "None as call": {"role": "assistant", "content": "x", "tool_calls": [None]},
    "a list as call id": {
        "role": "assistant",
        "content": "x",
        "tool_calls": [{"id": ["a"], "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    "a number as function": {"role": "assistant", "content": "x", "tool_calls": [{"id": "z", "function": 5}]},
    "a list as id of a result": {"role": "tool", "tool_call_id": ["a"], "content": "x"},
    "a number as content": {"role": "user", "content": 5},
    "a number as part": {"role": "user", "content": [5]},
    "a list as type": {"role": "user", "content": [{"type": ["text"], "text": "a"}]},
}


def _compress(history: list[Any], _odd: Any) -> None:
    clew.compress(history, target_tokens=1_500)


def _projected(engine: str) -> Callable[[list[Any], Any], None]:
    def fit(history: list[Any], _odd: Any) -> None:
        with clew.Projection(engine=engine, context_length=3_000) as view:
            view.fit(history)
            assert clew.count_tokens(view.fit([*history, user("And now?")])) < 3_000, "it still folds"

    return fit


def _projected_later(engine: str) -> Callable[[list[Any], Any], None]:
    def fit(history: list[Any], odd: Any) -> None:
        with clew.Projection(engine=engine, context_length=3_000) as view:
            view.fit(LONG)
            view.fit([*LONG, odd])
            grown = [*LONG, odd, *LONG[:30], user("And now?")]
            assert clew.count_tokens(view.fit(grown)) < 3_000, "it still folds"
            assert len(view.history) == len(grown)

    return fit


def _cached(history: list[Any], _odd: Any) -> None:
    apply_cache_control(history[-3:])


DOORS: dict[str, Callable[[list[Any], Any], object]] = {
    "compress": _compress,
    "a projection": _projected("compressor"),
    "a lossless projection": _projected("lcm"),
    "a projection, later": _projected_later("compressor"),
    "a lossless projection, later": _projected_later("lcm"),
    "cache control": _cached,
    "a count": lambda history, _odd: int(clew.count_tokens(history) > 0),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("odd", NO_MESSAGES)
def test_what_is_no_message_is_refused_at_every_door(door: str, odd: str) -> None:
    if (door, odd) == ("cache control", "itself inside"):
        pytest.skip("cache control reads the content alone")
    for history in ([NO_MESSAGES[odd], *LONG[-2:]], [*LONG, NO_MESSAGES[odd]]):
        with pytest.raises(InvalidMessage):
            DOORS[door](history, NO_MESSAGES[odd])


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("odd", ODD_MESSAGES)
def test_an_odd_message_is_taken_at_every_door_and_does_not_stop_folding(door: str, odd: str) -> None:
    for history in ([ODD_MESSAGES[odd], *LONG], [*LONG, ODD_MESSAGES[odd]]):
        DOORS[door](history, ODD_MESSAGES[odd])


@pytest.mark.parametrize("value", [b"x", {1, 2}, object()], ids=["bytes", "a set", "an object"])
def test_a_projection_refuses_what_json_cannot_say_in_every_place(value: object) -> None:
    with clew.Projection(context_length=3_000) as view:
        for history in ([{**user("x"), "extra": value}], [user("x"), {**user("y"), "extra": value}]):
            with pytest.raises(InvalidMessage, match="JSON"):
                view.fit(history)


@pytest.mark.parametrize("odd", NO_MESSAGES)
async def test_the_store_refuses_what_is_no_message(odd: str) -> None:
    async with open_store(":memory:") as store:
        await store.start_session(NewSession(id="s"))
        for _ in range(2):
            with pytest.raises(InvalidMessage):
                await store.append("s", [user("a"), NO_MESSAGES[odd]])
            with pytest.raises(InvalidMessage):
                await store.sync([user("a"), NO_MESSAGES[odd]])
            await store.append("s", LONG[:3])


@pytest.mark.parametrize("odd", ODD_MESSAGES)
async def test_the_store_gives_an_odd_message_back_and_searches_it(odd: str) -> None:
    async with open_store(":memory:") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [*LONG[:3], ODD_MESSAGES[odd]])
        assert [row.message for row in await store.messages("s")][-1] == ODD_MESSAGES[odd]
        await store.search("walrus")
        assert await store.check() == []


def test_a_message_of_an_unknown_role_keeps_it() -> None:
    odd = {"role": "critic", "content": "Think again."}
    assert clew.compress([*LONG, odd], target_tokens=2_000).messages[-1] == odd


@pytest.mark.parametrize("dialect", ["anthropic", "responses", "gemini"])
def test_a_message_of_an_unknown_role_can_be_converted(dialect: Any) -> None:
    read = read_conversation([user("a"), {"role": "critic", "content": "Think again."}])
    assert "Think again." in str(convert(read, dialect))
