"""Whatever a provider sends as usage is read without an exception and without a negative bucket."""

from __future__ import annotations

from dataclasses import astuple

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.usage import CanonicalUsage, normalize_usage
from clew.usage.normalize import ALL_FIELDS, WRAPPERS

NAMES = st.sampled_from(
    sorted({s.name for s in ALL_FIELDS} | {p for s in ALL_FIELDS for p in s.parents} | set(WRAPPERS))
)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.integers().map(str)
USAGES = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=6), inner, max_size=6),
    max_leaves=20,
)
HINTS = (
    st.none()
    | st.sampled_from(["anthropic", "openai", "xai", "bedrock", "responses", "messages"])
    | st.text(max_size=5)
)
COUNTS = st.integers(0, 10**9)


@given(USAGES, HINTS, HINTS)
@settings(max_examples=150, deadline=None)
def test_anything_becomes_a_usage_without_negative_buckets(raw: object, provider: str | None, api: str | None) -> None:
    found = normalize_usage(raw, provider, api)
    assert all(isinstance(bucket, int) and bucket >= 0 for bucket in astuple(found))


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_separate_and_included_cache_figures_give_the_same_usage(
    fresh: int, read: int, written: int, output: int
) -> None:
    separate = {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": output,
    }
    prompt_tokens = fresh + read + written
    inside = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output,
        "total_tokens": prompt_tokens + output,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
    }
    expected = CanonicalUsage(fresh, output, read, written)
    assert normalize_usage(separate) == expected
    assert normalize_usage(inside) == expected


@given(COUNTS, st.integers(1, 10**6), st.integers(1, 10**6))
def test_the_total_shows_whether_reasoning_is_separate(prompt: int, output: int, reasoning: int) -> None:
    raw = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output + reasoning,
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }
    assert normalize_usage(raw) == CanonicalUsage(prompt, output + reasoning, 0, 0, reasoning)
