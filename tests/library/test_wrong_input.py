"""What cannot be read is refused by every door with an error of Clew's own, which names the place and the remedy."""

from __future__ import annotations

import math
from collections import OrderedDict, UserDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pydantic
import pytest
from pydantic import v1

import clew
from clew.engines import ContextCompressor
from clew.errors import ClewError, InvalidArgument, InvalidMessage
from clew.messages import read_conversation
from clew.store import NewMessage, NewSession
from tests.support.cases import every_case

USER = {"role": "user", "content": "Which ships came?"}
LONG = [
    {"role": role, "content": f"{number} salt and rope " * 60} for number in range(30) for role in ("user", "assistant")
]

DOORS: dict[str, Callable[[Any], Any]] = {
    "compress": lambda messages: clew.compress(messages, context_length=8_000),
    "compress to a target": lambda messages: clew.compress(messages, target_tokens=900_000),
    "preview": lambda messages: clew.preview(messages, context_length=8_000),
    "count_tokens": clew.count_tokens,
    "apply_cache_control": clew.apply_cache_control,
    "observe": lambda messages: ContextCompressor(8_000).observe(messages),
    "engine preview": lambda messages: ContextCompressor(8_000).preview(messages),
}


def kind_of(value: object) -> str:
    """For the name of a test, which must be the same in every process."""
    return type(value).__name__


async def store_door(messages: Any) -> None:
    async with clew.open_store(":memory:") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", messages)


async def sync_door(messages: Any) -> None:
    async with clew.open_store(":memory:") as store:
        await store.sync(messages)


ASYNC_DOORS: dict[str, Callable[[Any], Any]] = {
    "acompress": lambda messages: clew.acompress(messages, context_length=8_000),
    "engine compress": lambda messages: ContextCompressor(8_000).compress(messages),
    "store.append": store_door,
    "store.sync": sync_door,
}


async def knock(door: str, messages: Any) -> None:
    if door in DOORS:
        DOORS[door](messages)
    else:
        await ASYNC_DOORS[door](messages)


class Plain:
    """An object with no fields that anyone declared."""

    role = "user"
    content = "Which ships came?"


@every_case("door", [*DOORS, *ASYNC_DOORS])
@every_case("wrong", [[], "text", 5, None, b"bytes", Plain(), {"role", "content"}])
async def test_what_is_no_message_is_refused_by_its_index(door: str, wrong: Any) -> None:
    with pytest.raises(InvalidMessage, match=r"^message 1: it is of type ") as refused:
        await knock(door, [USER, wrong, *LONG[:10]])
    assert refused.value.index == 1 and refused.value.remedy


@every_case("door", [*DOORS, *ASYNC_DOORS])
@every_case("wrong", [5, b"bytes", math.nan, True, object(), list])
async def test_what_is_no_list_of_messages_is_refused(door: str, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="pass a list of messages"):
        await knock(door, wrong)


@every_case("door", [*DOORS, *ASYNC_DOORS])
@every_case(
    ("content", "place"),
    [
        (b"bytes", "content is of type bytes"),
        ([{"type": "text", "text": "a"}, Plain()], r"content\[1\] is of type Plain"),
        ([{"type": "text", "text": b"bytes"}], r"content\[0\]\.text is of type bytes"),
        ({"salt", "rope"}, "content is of type set"),
        (iter([{"type": "text"}]), "content is of type list_iterator"),
        ([{"type": "text", "text": "a", 5: "b"}], r"a field of content\[0\] is named 5"),
        ([{"type": "tool_use", "id": "t", "name": "ls", "input": {("a", 1): 2}}], r"named \('a', 1\)"),
    ],
)
async def test_what_cannot_be_read_inside_a_message_is_refused_by_its_place(
    door: str, content: Any, place: str
) -> None:
    with pytest.raises(InvalidMessage, match=f"^message 1: .*{place}.*[.] [A-Z]"):
        await knock(door, [USER, {"role": "assistant", "content": content}])


@every_case("door", [*DOORS, *ASYNC_DOORS])
async def test_a_field_that_is_named_by_a_number_is_refused(door: str) -> None:
    broken = {"role": "user", "content": [], 1: "one"}
    with pytest.raises(InvalidMessage, match="message 0: a field of it is named 1, which is no text"):
        await knock(door, [broken, USER])


@every_case("wrong", ["10k", math.inf, math.nan, 10_000.5, True, [10_000], b"1"])
@every_case("name", ["target_tokens", "context_length", "max_output"])
def test_what_is_no_number_of_tokens_is_refused(name: str, wrong: Any) -> None:
    for door in (clew.compress, clew.preview):
        with pytest.raises(InvalidArgument, match=f"{name}=.*is no number of tokens; pass a whole number"):
            door(LONG, **{name: wrong})
    with pytest.raises(InvalidArgument, match=r"context_length=.*is no number of tokens"):
        ContextCompressor(wrong)


@every_case("wrong", [0, -1])
def test_a_window_or_a_target_below_one_is_refused(wrong: int) -> None:
    with pytest.raises(InvalidArgument, match=f"context_length={wrong} is no window"):
        clew.compress(LONG, context_length=wrong)
    with pytest.raises(InvalidArgument, match=f"target_tokens={wrong} is too small"):
        clew.compress(LONG, target_tokens=wrong)


@every_case(
    ("argument", "value", "told"),
    [
        ("tools", 0, "tools is of type int; pass a list of tool definitions"),
        ("tools", "read_file", "tools is of type str"),
        ("tools", [{"name": "a"}, print], r"tools\[1\] is of type builtin_function_or_method"),
        ("tools", [None], r"tools\[0\] is of type NoneType"),
        ("system", 5, "system is of type int; pass a text, or a list of blocks"),
        ("system", b"bytes", "system is of type bytes"),
        ("system", object(), "system is of type object"),
        ("model", 7, "model=7 is no text"),
        ("focus_topic", 7, "focus_topic=7 is no text"),
        ("summarizer", 7, "summarizer is 7; pass a function"),
        ("settings", {"threshold": 1}, "settings=.* pass a clew.config.CompressionSettings"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused_by_its_name(argument: str, value: Any, told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        clew.compress(LONG, context_length=8_000, **{argument: value})
    if argument in ("tools", "system", "model"):
        with pytest.raises(InvalidArgument, match=told):
            clew.count_tokens(LONG, **{argument: value})
    if argument not in ("summarizer",):
        with pytest.raises(InvalidArgument, match=told):
            clew.preview(LONG, context_length=8_000, **{argument: value})


async def test_titles_and_names_that_no_database_takes_are_refused() -> None:
    async with clew.open_store(":memory:") as store:
        for broken in ({"title": "half \ud83d"}, {"model": "\udc80"}, {"source": "a\x00"}, {"title": 5}, {"system": 5}):
            with pytest.raises(InvalidArgument, match=next(iter(broken))):
                await store.start_session(NewSession(id="s", **broken))
        await store.start_session(NewSession(id="s"))
        for title in ("half \ud83d", 5, 0):
            with pytest.raises(InvalidArgument, match="title"):
                await store.rename("s", title)  # type: ignore[arg-type]
        with pytest.raises(InvalidMessage, match="message 0: it has no role"):
            await store.append("s", [{"content": "x"}])
        assert await store.messages("s") == []


def test_markers_and_figures_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="taken = 'x'"):
        clew.apply_cache_control([USER], taken="x")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="cache_ttl"):
        clew.apply_cache_control([USER], ttl=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="pass a list of messages"):
        clew.apply_cache_control({"messages": [USER]})


class Who(StrEnum):
    USER = "user"


class Pair(NamedTuple):
    role: str
    content: str


@dataclass
class Said:
    content: Any
    role: str = "user"
    name: str | None = None


@dataclass
class Text:
    text: str
    type: str = "text"
    at: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))


class Model(pydantic.BaseModel):
    content: Any
    role: str = "user"
    name: str | None = None


class OldModel(v1.BaseModel):
    content: str
    role: str = "user"


SAME: dict[str, Any] = {
    "a dataclass": Said("Which ships came?"),
    "a dataclass with parts": Said([Text("Which ships came?")]),
    "a dict with parts in a tuple": {"role": "user", "content": (Text("Which ships came?"),)},
    "a model": Model(content="Which ships came?"),
    "a model with parts": Model(content=[{"type": "text", "text": "Which ships came?"}]),
    "a model of pydantic 1": OldModel(content="Which ships came?"),
    "another mapping": UserDict(USER),
    "an ordered dict": OrderedDict(USER),
    "a namespace": SimpleNamespace(**USER),
    "a named tuple": Pair("user", "Which ships came?"),
    "an enum as the role": {"role": Who.USER, "content": "Which ships came?"},
}


@every_case("name", SAME)
@every_case("door", [*DOORS, *ASYNC_DOORS])
async def test_other_forms_of_a_message_are_read_by_every_door(door: str, name: str) -> None:
    await knock(door, [SAME[name], *LONG])


@every_case("name", SAME)
def test_other_forms_of_a_message_count_as_dicts_and_come_back_as_they_are(name: str) -> None:
    assert clew.count_tokens([SAME[name]]) == clew.count_tokens([USER])
    for how in ({"context_length": 8_000}, {"target_tokens": 900_000}):
        done = clew.compress([*LONG, SAME[name]], **how)  # type: ignore[arg-type]
        assert done.messages[-1] is SAME[name] and done.changed == ("context_length" in how)


@every_case("make", [tuple, iter, deque, lambda messages: (message for message in messages)])
def test_any_iterable_of_messages_is_taken_and_a_list_comes_back(make: Callable[[Any], Any]) -> None:
    of_list = clew.compress(LONG, context_length=8_000)
    assert clew.compress(make(LONG), context_length=8_000).messages == of_list.messages
    unchanged = clew.compress(make(LONG), target_tokens=900_000).messages
    assert type(unchanged) is list and all(one is other for one, other in zip(unchanged, LONG, strict=True))
    assert clew.count_tokens(make(LONG)) == clew.count_tokens(LONG)
    assert clew.apply_cache_control(make(LONG)) == clew.apply_cache_control(LONG)


def test_a_request_of_text_alone_has_its_message_in_a_list() -> None:
    done = clew.compress({"model": "gpt-5", "input": "Which ships came?"}, context_length=8_000)
    assert done.messages == [USER]
    assert done.request == {"model": "gpt-5", "input": "Which ships came?"}


def test_what_no_model_reads_stays_as_it_is() -> None:
    picture = {"type": "base64", "media_type": "image/png", "data": Path("ship.png")}
    at = datetime(2026, 1, 1, tzinfo=UTC)
    message = {"role": "user", "content": [{"type": "image", "source": picture}, Text("this")], "at": at}
    conversation = read_conversation([message])
    assert conversation.messages[0]["content"][0]["source"]["data"] == Path("ship.png")  # type: ignore[index]
    assert conversation.write()[0] is message
    assert clew.count_tokens([message]) > 20
    called = {"type": "tool_use", "id": "t", "name": "ls", "input": {"path": Path("a"), "at": at}}
    [asked] = read_conversation([{"role": "assistant", "content": [called]}]).messages
    assert '"path": "a"' in asked["tool_calls"][0]["function"]["arguments"]


def test_a_whole_request_is_counted_with_all_that_is_in_it() -> None:
    tool = {"name": "ls", "description": "Lists a folder.", "input_schema": {"type": "object", "properties": {}}}
    request = {"model": "claude-mock", "system": "You look after a harbour.", "messages": LONG, "tools": [tool]}
    assert clew.count_tokens(request) == clew.count_tokens(LONG, system=request["system"], tools=[tool])
    assert clew.count_tokens({"instructions": "Be brief.", "input": LONG}) == clew.count_tokens(LONG, "Be brief.")


def test_a_message_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {"type": "strange"}
    loop["one"] = loop["other"] = loop
    with pytest.raises(InvalidMessage, match="message 0: it holds itself"):
        clew.count_tokens([{"role": "user", "content": [{"type": "text", "text": "x", "of": loop}]}])


async def test_a_message_to_store_may_be_an_object_in_a_new_message() -> None:
    async with clew.open_store(":memory:") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [NewMessage(Said("Which ships came?"), tokens=5)])  # type: ignore[arg-type]
        [row] = await store.messages("s")
        assert (row.message, row.tokens) == (USER, 5)


@every_case("raw", [None, {}, [], 5, "text", "{}", b"\xff", {"cost": 3}, {"usage": {"words": 5}}, object()])
def test_a_usage_of_no_known_shape_says_so(raw: Any) -> None:
    used = clew.normalize_usage(raw)
    assert used == clew.CanonicalUsage() and used.is_known is False
    assert "is_known=False" in repr(used)
    engine = ContextCompressor(8_000)
    engine.update_from_response(clew.CanonicalUsage(input_tokens=700))
    engine.update_from_response(used)
    assert engine.last_prompt_tokens == 700


@every_case("raw", [{"prompt_tokens": 0, "completion_tokens": 0}, {"input_tokens": 5}, {"total_tokens": 9}])
def test_a_usage_of_a_known_shape_is_known_also_where_it_is_zero(raw: Any) -> None:
    used = clew.normalize_usage(raw)
    assert used.is_known and (used + used).is_known
    assert not (used + clew.normalize_usage({})).is_known


def test_every_error_here_is_one_of_clews() -> None:
    assert issubclass(InvalidArgument, ClewError) and issubclass(InvalidMessage, ClewError)
