"""A conversation counts, folds and goes back the same, whichever of its values are objects and whichever are dicts."""

from __future__ import annotations

import copy
from collections import OrderedDict, UserDict
from collections.abc import Callable
from dataclasses import make_dataclass
from functools import cache
from random import Random
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pydantic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import clew
from clew.errors import InvalidMessage
from clew.messages import DialectName, convert, plain_messages
from tests.support.strategies import broken_histories, histories

DIALECTS: list[DialectName] = ["openai_chat", "anthropic", "responses", "gemini"]
unhurried = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class AnyModel(pydantic.BaseModel, extra="allow"):
    """A model of whatever fields it is given."""


@cache
def _dataclass_of(names: tuple[str, ...]) -> type:
    return make_dataclass("Fields", names)


def as_dataclass(fields: dict[str, Any]) -> Any:
    return _dataclass_of(tuple(fields))(**fields)


KEEPS_NULLS: list[Callable[[dict[str, Any]], Any]] = [UserDict, OrderedDict, MappingProxyType, lambda it: it]
DROPS_NULLS: list[Callable[[dict[str, Any]], Any]] = [
    as_dataclass,
    lambda fields: AnyModel(**fields),
    lambda fields: SimpleNamespace(**fields),
]


def disguised(value: Any, random: Random) -> Any:
    """The same value with objects of several kinds in place of some of its dicts, and tuples for some of its lists."""
    if isinstance(value, list):
        inside = [disguised(inner, random) for inner in value]
        return tuple(inside) if random.random() < 0.3 else inside
    if not isinstance(value, dict):
        return value
    fields = {name: disguised(inner, random) for name, inner in value.items()}
    nulls = {name for name, inner in value.items() if inner is None} - ({"content"} if "role" in value else set())
    kinds = KEEPS_NULLS if nulls or not all(name.isidentifier() for name in fields) else KEEPS_NULLS + DROPS_NULLS
    return random.choice(kinds)(fields)


@st.composite
def wires(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """A conversation of dicts in one of the dialects, and the same with objects in it."""
    dialect = draw(st.sampled_from(DIALECTS))
    if dialect == "openai_chat":
        plain: list[Any] = draw(histories() | broken_histories())
    else:
        history = [message for message in draw(histories()) if message["role"] != "system"]
        request = convert(history, dialect)
        plain = request[{"responses": "input", "gemini": "contents"}.get(dialect, "messages")]
    random = Random(draw(st.integers(0, 2**32)))
    return plain, [disguised(message, random) for message in plain]


@unhurried
@given(wires())
def test_objects_are_read_as_the_dicts_they_stand_for(both: tuple[list[Any], list[Any]]) -> None:
    plain, objects = both
    assert plain_messages(plain) is plain
    assert plain_messages(objects) == plain
    assert clew.count_tokens(objects) == clew.count_tokens(plain)


@unhurried
@given(wires(), st.sampled_from([{"context_length": 1_000}, {"target_tokens": 600}, {"target_tokens": 10**6}]))
def test_objects_fold_as_the_dicts_they_stand_for(both: tuple[list[Any], list[Any]], how: dict[str, Any]) -> None:
    plain, objects = both
    before = copy.copy(objects)
    try:
        expected = clew.compress(plain, **how)
    except InvalidMessage as refused:
        try:
            clew.compress(objects, **how)
        except InvalidMessage as also:
            assert (also.index, also.problem) == (refused.index, refused.problem)
            return
        raise
    done = clew.compress(objects, **how)
    assert all(one is other for one, other in zip(objects, before, strict=True))
    assert (done.changed, done.summary, done.fates) == (expected.changed, expected.summary, expected.fates)
    assert (done.tokens_before, done.tokens_after) == (expected.tokens_before, expected.tokens_after)
    assert done.conversation.dialect == expected.conversation.dialect
    assert plain_messages(done.messages) == expected.messages
    came = {id(message) for message in objects}
    assert all(type(message) is dict for message in done.messages if id(message) not in came)


@unhurried
@given(wires(), st.booleans())
def test_objects_get_the_markers_of_the_dicts_they_stand_for(both: tuple[list[Any], list[Any]], native: bool) -> None:
    plain, objects = both
    marked = clew.apply_cache_control(objects, native=native)
    expected = clew.apply_cache_control(plain, native=native)
    assert plain_messages(marked) == expected
    for one, other, came, was in zip(marked, expected, objects, plain, strict=True):
        assert (one is came) == (other is was)
