"""A loop that appends messages one at a time and calls `clew.compress` when they grow: no real result is ever lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clew
from clew.engines import Fate
from clew.messages import NO_RESULT, text_of
from clew.testing import assistant, call, tool, user

_LIMIT, _TARGET = 4_000, 2_000


@st.composite
def parallel_rounds(draw: st.DrawFn) -> list[Any]:
    """Requests, each with several calls at once whose results come in any order; each result has a marker."""
    messages: list[Any] = []
    for number in range(draw(st.integers(6, 10))):
        names = [f"c{number}_{place}" for place in range(draw(st.integers(1, 4)))]
        messages += [user(f"Count the boats of day {number}."), assistant(None, [call("count", id=id) for id in names])]
        for name in draw(st.permutations(names)):
            filler = f"{name}: salt, rope and tar; " * draw(st.integers(1, 120))
            messages.append(tool(name, f"marker of {name}. {filler}"))
        messages.append(assistant(f"Day {number} is counted."))
    return messages


@settings(max_examples=25, deadline=None)
@given(parallel_rounds(), st.sampled_from(["compressor", "lcm"]))
def test_a_loop_that_compresses_after_each_message_loses_no_result(history: list[Any], engine: str) -> None:
    how: dict[str, Any] = {"target_tokens": _TARGET} if engine == "compressor" else {"context_length": 8_000}
    view: list[Any] = []
    folded: set[str] = set()
    for came in history:
        view = [*view, came]
        if clew.count_tokens(view) <= _LIMIT:
            continue
        before = view
        done = clew.compress(view, engine=None if engine == "compressor" else engine, **how)
        view = done.messages
        assert Fate.REMOVED not in done.fates
        assert not any("repaired" in warning for warning in done.warnings)
        gone = [fate is Fate.SUMMARISED for fate in done.fates]
        results = [it for it, is_gone in zip(before, gone, strict=True) if is_gone and it["role"] == "tool"]
        folded |= {result["tool_call_id"] for result in results}
    shown = {message["tool_call_id"]: message for message in view if message["role"] == "tool"}
    real = {message["tool_call_id"] for message in history if message["role"] == "tool"}
    assert folded | shown.keys() == real
    assert all(text_of(message) != NO_RESULT for message in shown.values())
    assert folded.isdisjoint(shown)


@pytest.mark.parametrize("engine", [None, "lcm"])
def test_a_result_that_comes_behind_a_stub_of_an_earlier_compress_replaces_it(engine: str | None) -> None:
    how: dict[str, Any] = {"context_length": 4_000, "engine": engine}
    calls = assistant(None, [call("count", id="a"), call("count", id="b")])
    early = [user("Count."), *[assistant("salt, rope and tar " * 40), user("More.")] * 40]
    first = clew.compress([*early, calls, tool("a", "12"), user("Hurry.")], **how).messages
    assert tool("b", NO_RESULT) in first
    second = clew.compress([*first, tool("b", "port 4711"), assistant("Done.")], target_tokens=20_000).messages
    assert second == [*first[:-2], tool("b", "port 4711"), first[-1], assistant("Done.")]
