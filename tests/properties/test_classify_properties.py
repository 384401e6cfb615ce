"""Whatever comes back as an error is classified, quickly, and never with a number that cannot be a window."""

from __future__ import annotations

from typing import get_args

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.providers import ErrorKind, classify_error

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
STATUSES = st.none() | st.integers(-1, 600)
VOCABULARY = (
    "prompt input tokens context length window exceeds maximum limit of is max_tokens too long > + ( ) 4096 8192 "
    "131,072 128k 0 . : ' requested messages output completion per minute rate \\ < bytes 20 超过 输入"
)
WORDS = st.lists(st.sampled_from(VOCABULARY.split()), max_size=60).map(" ".join)


@given(STATUSES, JSON | st.binary(max_size=200) | WORDS, st.none() | st.text(max_size=8))
@example(None, "MAXTOKENS<0", None)
@example(400, "max_tokens must be less than 1", None)
@settings(max_examples=100, deadline=None)
def test_anything_gets_a_kind_and_no_impossible_number(status: int | None, body: object, provider: str | None) -> None:
    answer = classify_error(status, body, provider)
    assert answer.kind in get_args(ErrorKind)
    assert answer.limit is None or answer.limit > 0
    assert answer.available_output is None or answer.available_output > 0
    assert answer.limit is None or answer.kind in ("prompt_too_long", "output_cap_too_large")


@given(st.integers(1_000, 3_000_000), st.integers(1, 3_000_000), st.integers(1, 200_000))
@settings(deadline=None)
def test_prompt_or_output_is_arithmetic(limit: int, prompt: int, output: int) -> None:
    if prompt + output <= limit:
        return
    body = f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {limit}"
    answer = classify_error(400, body)
    assert answer.limit == limit
    assert answer.kind == ("output_cap_too_large" if prompt < limit else "prompt_too_long")
    assert answer.available_output == (limit - prompt if prompt < limit else None)


@given(WORDS, st.sampled_from(["tokens per minute", "TPM", "requests per day", "RPM"]))
@settings(deadline=None)
def test_a_limit_per_time_is_never_overflow(words: str, per_time: str) -> None:
    assert classify_error(429, f"{words} on {per_time}").kind not in ("prompt_too_long", "output_cap_too_large")
