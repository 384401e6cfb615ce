"""Whatever comes in, what a repair gives back is valid, and stays as it is."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.messages import Repaired, convert, repair, safe_cut_at_or_before, safe_cuts, tool_groups

# Other work on the machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

long = st.sampled_from(["x" * 120, "é" * 200])
texts = st.text(st.characters(), max_size=6) | st.sampled_from(["\ud800", "a\udfffb", "\ud83d\ude00"])
ids = st.sampled_from(["a", "b", "c", "", "\ud800", "call_1_0"])
odd = st.none() | st.integers() | texts | st.lists(texts, max_size=2)
arguments = st.sampled_from(["{}", '{"x": 1}', '{"x": ', "[]", "", "null", '"{}"']) | odd | st.just({"x": 1})
functions = st.fixed_dictionaries({"name": st.just("f") | odd, "arguments": arguments}) | odd
calls = st.fixed_dictionaries({"id": ids | odd, "function": functions}) | st.fixed_dictionaries(
    {"id": ids, "type": st.just("custom"), "custom": st.fixed_dictionaries({"name": texts, "input": texts}) | odd}
)
parts = st.fixed_dictionaries({"type": st.just("text"), "text": texts}) | odd
contents = (
    texts | long | odd | st.lists(parts, max_size=3) | st.fixed_dictionaries({"type": st.just("text"), "text": texts})
)


def with_some(**fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def messages(draw: st.DrawFn) -> Any:
    role = draw(st.sampled_from(["system", "developer", "user", "assistant", "assistant", "tool", "tool", "function"]))
    fields = draw(
        with_some(
            content=contents,
            tool_calls=st.lists(calls | odd, max_size=3) | odd,
            tool_call_id=ids | odd,
            function_call=functions,
            reasoning=st.lists(parts, max_size=1) | texts,
            refusal=odd,
            odd=odd,
        )
    )
    return {"role": role, **fields}


histories = st.lists(messages(), max_size=8)
options = st.fixed_dictionaries(
    {}, optional={"merge_same_role": st.booleans(), "open_end": st.booleans(), "longest_text": st.integers(100, 150)}
)


def check_pairs(history: Any, open_end: bool = False) -> None:
    """Every call has one result directly behind it, and every result has a call."""
    waiting: set[str] = set()
    for message in history:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting
        made = message.get("tool_calls") or []
        assert made == [] or message["role"] == "assistant"
        waiting = {call["id"] for call in made}
        assert len(waiting) == len(made)
        for call in made:
            if "function" in call:
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert open_end or not waiting


@unhurried
@given(histories, options)
def test_a_repaired_history_is_valid_and_a_second_repair_finds_nothing(history: Any, chosen: dict[str, Any]) -> None:
    before = copy.deepcopy(history)
    done: Repaired = repair(history, **chosen)
    assert history == before
    check_pairs(done.messages, chosen.get("open_end", False))
    json.dumps(done.messages, ensure_ascii=False).encode()
    for message in done.messages:
        assert message.get("content") is not None or message["role"] == "assistant"
        assert message.get("content") != []
    again = repair(done.messages, **chosen)
    assert again.messages is done.messages
    assert again.repairs == ()


@unhurried
@given(histories)
def test_what_was_changed_is_reported_and_what_was_not_is_the_same(history: Any) -> None:
    done = repair(history)
    if not done.repairs:
        assert done.messages is history
    touched = {step.index for step in done.repairs}
    kept = {id(message) for message in done.messages}
    assert all(id(message) in kept for index, message in enumerate(history) if index not in touched)
    assert all(0 <= step.index < len(history) and step.problem and step.remedy for step in done.repairs)


@unhurried
@given(histories)
def test_a_cut_never_splits_a_group(history: Any) -> None:
    valid = repair(history).messages
    cuts = safe_cuts(valid)
    assert cuts[0] == 0 and cuts[-1] == len(valid)
    for cut in cuts:
        check_pairs(valid[:cut])
        check_pairs(valid[cut:])
    for group in tool_groups(valid):
        assert not set(cuts) & set(group[1:])
    for index in range(len(valid) + 1):
        assert safe_cut_at_or_before(valid, index) == max(cut for cut in cuts if cut <= index)


@unhurried
@given(histories, st.sampled_from(["anthropic", "responses", "openai_chat"]))
def test_even_a_broken_history_can_be_said_in_every_dialect(history: Any, to: Any) -> None:
    json.dumps(convert(history, to, dialect="openai_chat"))
