"""What `Projection` refuses: wrong arguments, calls after its end, an engine that returns something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import clew
from clew.engines.compressor.plan import Strikes
from clew.errors import InvalidArgument, PluginError
from clew.testing import assistant, user
from tests.support.engines import PlainEngine


@pytest.mark.parametrize(
    "wrong",
    [
        {"context_length": 10},
        {"context_length": "8000"},
        {"context_length": -1},
        {"max_output": 0},
        {"max_output": "many"},
        {"model": 5},
        {"session": 5},
        {"name": b"x"},
        {"settings": {"threshold": 0.5}},
        {"engine": 5},
        {"engine": []},
        {"store": 5},
        {"store": b"x"},
        {"store": ""},
        {"summarizer": "a model"},
        {"on_event": 5},
        {"name": ""},
        {"session": "a", "name": "b"},
    ],
    ids=str,
)
def test_arguments_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        clew.Projection(**wrong)


@pytest.mark.parametrize(
    "use",
    [
        lambda view: view.fit([user("a")], dialect="klingon"),
        lambda view: view.fit([user("a")], dialect=["responses"]),
        lambda view: view.recall(5),
        lambda view: view.recall("words", around=5),
        lambda view: view.recall("words", chars="many"),
        lambda view: view.compact(focus=5),
        lambda view: view.another(session=5),
        lambda view: view.another(session="a", name="b"),
    ],
)
def test_arguments_of_each_call_are_checked_too(use: Callable[[clew.Projection], object]) -> None:
    with clew.Projection(context_length=8_000) as view, pytest.raises(InvalidArgument):
        use(view)


async def test_nothing_works_after_the_end() -> None:
    with clew.Projection(context_length=8_000) as view:
        view.fit([user("a")])
        other = view.another()
    for use in (lambda: view.fit([user("a")]), view.compact, view.undo, lambda: other.fit([user("b")])):
        with pytest.raises(InvalidArgument, match="the projection is closed"):
            use()
    with pytest.raises(InvalidArgument, match="the projection is closed"):
        await view.afit([user("a")])
    view.close()


def test_an_engine_that_returns_a_list_is_named_in_one_sentence() -> None:
    class ListEngine(PlainEngine):
        name = "lists"

        async def compress(self, messages: Any, *_: Any, **__: Any) -> Any:
            return list(messages)

    history = [message for n in range(200) for message in (user(f"q{n} " * 50), assistant(f"a{n} " * 50))]
    with pytest.raises(PluginError, match=r"engine 'lists': compress\(\) returned list"):
        clew.compress(history, context_length=8_000, engine=ListEngine)


def test_a_compaction_by_hand_is_no_strike() -> None:
    strikes = Strikes().after_compaction(4_000, 3_900, 64_000).after_compaction(3_900, 3_900, 64_000)
    assert not strikes.is_paused and strikes.compactions == 2
    assert Strikes().after_compaction(70_000, 69_000, 64_000).after_compaction(70_000, 69_000, 64_000).is_paused
