"""Hypothesis strategies for histories: valid ones, and broken ones of the kinds that real clients send.

Needs Hypothesis, which only tests depend on; so the door of `clew.testing` does not import this module.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import strategies as st

from clew.messages import Message, ToolCall
from clew.testing.messages import assistant, call, system, tool, user

History: TypeAlias = list[Message]

_NAMES = st.sampled_from(["read_file", "write_file", "patch", "search_files", "terminal", "mcp__db__query"])
_SCRIPTS = st.sampled_from(
    [
        "The build is red.",
        "请先看日志。",
        "Bitte zuerst die Tests.",
        "ログを確認して",
        "👩‍👩‍👧 ok",
        "def f():\n    return 1\n",
    ]
)


def texts(max_size: int = 200) -> st.SearchStrategy[str]:
    """Valid text: any script, no lone surrogates."""
    return _SCRIPTS | st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)


def arguments() -> st.SearchStrategy[str]:
    """Arguments of a call as a model writes them: a JSON object in text."""
    values = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | texts(80) | st.lists(texts(20), max_size=3)
    objects = st.dictionaries(st.sampled_from(["path", "command", "content", "limit", "query"]), values, max_size=3)
    return objects.map(lambda found: json.dumps(found, ensure_ascii=False))


@st.composite
def turns(draw: st.DrawFn, first_call: int = 0, max_rounds: int = 2) -> History:
    """A user message, rounds of calls with their results, and perhaps a final answer."""
    messages: History = [user(draw(texts()))]
    made = first_call
    for _ in range(draw(st.integers(0, max_rounds))):
        calls: list[ToolCall] = []
        for _ in range(draw(st.integers(1, 3))):
            calls.append(call(draw(_NAMES), draw(arguments()), id=f"call_{made}"))
            made += 1
        messages.append(assistant(draw(st.none() | texts()), calls))
        messages.extend(tool(one["id"], draw(texts())) for one in draw(st.permutations(calls)))
    if draw(st.booleans()):
        messages.append(assistant(draw(texts().filter(bool))))
    return messages


@st.composite
def histories(draw: st.DrawFn, max_turns: int = 3) -> History:
    """A valid history: every call has its result, every id is used once, a system prompt is the first message."""
    messages: History = [system(draw(texts()))] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(0, max_turns))):
        messages.extend(draw(turns(first_call=turn * 100)))
    return messages


@st.composite
def broken_histories(draw: st.DrawFn, max_faults: int = 4) -> History:
    """A history with faults that real clients have sent."""
    messages = draw(histories())
    for _ in range(draw(st.integers(1, max_faults))):
        fault = draw(st.sampled_from(_FAULTS))
        messages = fault(draw, messages)
    return messages


def _at(draw: st.DrawFn, messages: History) -> int:
    return draw(st.integers(0, len(messages)))


def _insert(draw: st.DrawFn, messages: History, message: Any) -> History:
    index = _at(draw, messages)
    return [*messages[:index], message, *messages[index:]]


def _drop_one(draw: st.DrawFn, messages: History) -> History:
    """Leaves calls without results, or results without calls."""
    index = _at(draw, messages)
    return [*messages[:index], *messages[index + 1 :]]


def _repeat_one(draw: st.DrawFn, messages: History) -> History:
    """Repeats ids, and roles in a row."""
    index = _at(draw, messages)
    return [*messages[: index + 1], *messages[index:]]


def _shuffle_two(draw: st.DrawFn, messages: History) -> History:
    index = _at(draw, messages)
    return [*messages[:index], *reversed(messages[index : index + 2]), *messages[index + 2 :]]


def _unasked_result(draw: st.DrawFn, messages: History) -> History:
    return _insert(draw, messages, tool(draw(st.sampled_from(["call_none", "", "call_0"])), draw(texts())))


def _broken_arguments(draw: st.DrawFn, messages: History) -> History:
    odd = draw(st.sampled_from(['{"path": ', "", "null", "[1]", "{'a': 1}", '{"a": "\ud800"}']))
    return _insert(draw, messages, assistant(None, [call("terminal", odd, id="call_odd")]))


def _odd_content(draw: st.DrawFn, messages: History) -> History:
    odd: Any = draw(
        st.sampled_from([None, [], "", [None], [{"type": "text"}], [{"type": "image_url"}], "half \ud83d", 7, {}])
    )
    role = draw(st.sampled_from(["user", "assistant", "tool", "system"]))
    return _insert(draw, messages, {"role": role, "content": odd})


def _second_system(draw: st.DrawFn, messages: History) -> History:
    return _insert(draw, messages, system(draw(texts())))


_FAULTS: tuple[Callable[[st.DrawFn, History], History], ...] = (
    _drop_one,
    _repeat_one,
    _shuffle_two,
    _unasked_result,
    _broken_arguments,
    _odd_content,
    _second_system,
)
