"""Counting never raises, never shrinks when text is added, and adds up the same in every order of steps."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from splintr import AnyTokenizer, Tokenizer

from clew.errors import InvalidArgument, InvalidMessage
from clew.tokens import ConversationSize, count_tokens, counter_for
from clew.tokens.count import vocabulary

MODELS = st.sampled_from([None, "gpt-4", "claude-opus-4-5", "claude-opus-4-7", "gemini-3-pro", "nobody"])
ANY_TEXT = st.text(st.characters(), max_size=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "image_url", "source", "data", "input"]), inner)
    ),
    max_leaves=12,
)
PART_TYPES = st.sampled_from(
    ["text", "image", "image_url", "tool_use", "tool_result", "document", "input_audio", "thinking", "function_call"]
)
PARTS = st.fixed_dictionaries(
    {"type": PART_TYPES}, optional={"text": JSON, "content": JSON, "source": JSON, "image_url": JSON, "input": JSON}
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["system", "user", "assistant", "tool"]) | JSON,
        "type": PART_TYPES,
        "content": ANY_TEXT | st.lists(PARTS | JSON, max_size=3) | JSON,
        "tool_calls": st.lists(st.fixed_dictionaries({"function": JSON}), max_size=2) | JSON,
        "reasoning": st.lists(PARTS, max_size=2) | JSON,
    },
)


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and "role" in value and (value["role"] is None or isinstance(value["role"], str))


@settings(max_examples=75, deadline=None)
@given(st.lists(MESSAGES | JSON, max_size=4), JSON, JSON, MODELS)
def test_what_json_can_hold_is_counted_or_refused_and_inside_a_message_always_counted(
    messages: list[Any], system: Any, tools: Any, model: str | None
) -> None:
    assert count_tokens([message for message in messages if _is_message(message)], model=model) >= 1
    try:
        assert count_tokens(messages, system=system, tools=tools, model=model) >= 1
    except InvalidMessage as refused:
        assert not _is_message(messages[refused.index])
    except InvalidArgument as refused:
        assert str(refused).startswith(("system is of type", "tools is of type", "tools["))


@settings(max_examples=75, deadline=None)
@given(ANY_TEXT, ANY_TEXT, MODELS)
def test_more_text_is_hardly_ever_fewer_tokens(before: str, after: str, model: str | None) -> None:
    counter = counter_for(model)
    # A few characters may join with what follows them into one token, and the end of a text has a weight of its own.
    assert counter.text(before + after) >= counter.text(before) - 6


@cache
def _o200k() -> AnyTokenizer:
    return Tokenizer.from_pretrained("o200k_base")


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=300) | st.text("<|endofxim_star>\n ", max_size=80))
def test_the_quick_way_through_a_vocabulary_gives_the_ordinary_count(text: str) -> None:
    assert vocabulary("o200k_base").count(text) == len(_o200k().encode_ordinary(text))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5_000), max_size=30), st.data())
def test_a_size_kept_up_to_date_is_the_size_counted_anew(counts: list[int], data: st.DataObject) -> None:
    counter = counter_for("nobody")
    size = ConversationSize(counter, counts=counts[:5])
    for count in counts[5:]:
        size.append({"role": "user", "content": ""}, count=count)
    start = data.draw(st.integers(0, len(counts)))
    stop = data.draw(st.integers(start, len(counts)))
    size.replace(start, stop, [17])
    expected = [*counts[:start], 17, *counts[stop:]]
    assert size.counts == expected
    assert size.counted == ConversationSize(counter, counts=expected).counted
    assert size.between(0, len(size)) == sum(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(-10, 10**9) | st.none()), max_size=30))
def test_no_sequence_of_figures_makes_a_size_negative_or_a_ratio_absurd(steps: list[tuple[int, int | None]]) -> None:
    size = ConversationSize(counter_for("nobody"))
    for count, real in steps:
        size.append({"role": "user", "content": ""}, count=count)
        was_taken = size.observe(real)
        assert not was_taken or size.tokens == real
    assert size.tokens > 0
    assert 0.6 <= size.calibration.ratio <= 1.8
