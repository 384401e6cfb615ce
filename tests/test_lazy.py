"""`clew.lazy.dataclass` makes the same classes as the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from clew import lazy


def make(dataclass: Any, **options: Any) -> Any:
    @dataclass(**options)
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: list[str] = dataclasses.field(default_factory=list, compare=False)
        note: str = dataclasses.field(default="n", repr=False, kw_only=True)

        @property
        def total(self) -> int:
            return self.x + self.y

    return Point


OPTIONS = (
    {"frozen": True, "slots": True},
    {"frozen": True},
    {"slots": True},
    {"slots": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_objects_equal_those_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = make(lazy.dataclass, **options), make(dataclasses.dataclass, **options)
    for arguments, named in (((1,), {}), ((1, 5), {"note": "z"}), ((), {"x": 3, "names": ["a"]})):
        mine, other = ours(*arguments, **named), theirs(*arguments, **named)
        assert dataclasses.asdict(mine) == dataclasses.asdict(other)
        assert dataclasses.asdict(dataclasses.replace(mine, y=9)) == dataclasses.asdict(dataclasses.replace(other, y=9))
        assert (mine == ours(*arguments, **named)) is (other == theirs(*arguments, **named))
        assert (mine == ours(77)) is (other == theirs(77)) is False
        assert (ours.__hash__ is None) is (theirs.__hash__ is None)
        assert mine.total == other.total
        if options.get("repr", True):
            assert repr(mine) == repr(other)
    assert ours.__match_args__ == theirs.__match_args__
    assert hasattr(ours(1), "__dict__") is hasattr(theirs(1), "__dict__")


def test_a_call_with_wrong_arguments_fails() -> None:
    point = make(lazy.dataclass, frozen=True, slots=True)
    for arguments, named in (((), {}), ((1, 2, [], 4), {}), ((1,), {"z": 1})):
        with pytest.raises(TypeError):
            point(*arguments, **named)


def test_a_frozen_object_cannot_be_changed_and_has_a_hash() -> None:
    point = make(lazy.dataclass, frozen=True, slots=True)(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    assert hash(point) == hash(make_again := copy.copy(point)) and point == make_again


@lazy.dataclass(frozen=True, slots=True)
class Base:
    """At module level, so that it can be pickled."""

    a: int
    b: int = 2


@lazy.dataclass(frozen=True, slots=True)
class Derived(Base):
    """Adds a field."""

    c: int = 3


def test_frozen_objects_are_copied_pickled_and_inherited() -> None:
    derived = Derived(1, c=4)
    assert (derived.a, derived.b, derived.c) == (1, 2, 4)
    for other in (copy.copy(derived), copy.deepcopy(derived), pickle.loads(pickle.dumps(derived))):
        assert other == derived
    with pytest.raises(dataclasses.FrozenInstanceError):
        derived.c = 5  # type: ignore[misc]


def test_post_init_runs() -> None:
    @lazy.dataclass(frozen=True, slots=True)
    class Doubled:
        a: int
        twice: int = dataclasses.field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2 * self.a)

    assert Doubled(4).twice == 8
