"""Whatever the text: redaction ends, repeats nothing, keeps JSON, and keeps what it did not find."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from clew.redact import CATALOG, redact, redact_arguments, redact_messages, redact_text
from tests.support.secret_examples import cases_in, example_secret, text_before

CORPUS = Path(__file__).resolve().parents[1] / "redact"
TRICKY = [
    *(
        "password",
        "PASSWORD",
        "token",
        "secret_key",
        "Authorization",
        "Bearer ",
        "Basic ",
        "Cookie",
        "api_key",
        "--token",
        "curl -u ",
    ),
    *(
        "=",
        ": ",
        '"',
        "'",
        "\\",
        '\\"',
        "\\n",
        "\n",
        "@",
        "://",
        "[",
        "]",
        "<",
        "&",
        ";",
        ",",
        "-",
        "_",
        ".",
        "%20",
        " ",
        "~",
        "+",
        "/",
    ),
    *(
        "hunter2",
        "a1b2c3d4e5f6g7h8i9",
        "[REDACTED:token]",
        "[REDACTED:",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
    ),
    *("eyJhbGciOiJIUzI1NiJ9", "密", "name", "value", "x", "A" * 20),
]


def secret_of(kind: int, seed: int) -> str:
    return text_before(CATALOG[kind]) + example_secret(CATALOG[kind], seed)


secrets = st.builds(secret_of, st.integers(0, len(CATALOG) - 1), st.integers(0, 50))
CASES = [case.text for case in (*cases_in(CORPUS / "secrets.txt"), *cases_in(CORPUS / "not_secrets.txt"))]
# By number: Hypothesis warns about strategies that it prints as very long texts.
cases = st.integers(0, len(CASES) - 1).map(lambda number: CASES[number])
pieces = st.one_of(st.sampled_from(TRICKY), st.sampled_from(TRICKY), secrets, cases, st.text(max_size=8))
texts = st.lists(pieces, max_size=12).map("".join)


@given(texts)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once


@given(texts)
def test_what_was_not_found_is_still_there_in_order(text: str) -> None:
    result = redact(text)
    rebuilt, done = "", 0
    for finding in result.found:
        assert done <= finding.start < finding.end <= len(text)
        rebuilt += text[done : finding.start] + finding.placeholder
        done = finding.end
    assert rebuilt + text[done:] == result.text


@given(
    st.lists(secrets, min_size=1, max_size=4),
    st.lists(st.sampled_from([" ", "\n", '"', ", ", "\\n", " | "]), min_size=5, max_size=5),
)
def test_no_secret_of_the_catalog_survives(made: list[str], between: list[str]) -> None:
    text = between[4] + "".join(secret + gap for secret, gap in zip(made, between, strict=False))
    clean = redact_text(text)
    assert all(secret.rsplit(":", 1)[-1] not in clean for secret in made)


trees = st.recursive(
    st.one_of(texts, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["password", "cmd", "token", "name", "value", "a"]), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(trees, st.booleans())
def test_arguments_that_were_json_stay_json_of_the_same_form(tree: object, is_ascii: bool) -> None:
    clean = redact_arguments(json.dumps(tree, ensure_ascii=is_ascii))
    assert form_of(json.loads(clean)) == form_of(json.loads(json.dumps(tree)))
    assert redact_arguments(clean) == clean


def form_of(value: object) -> object:
    """A value with its strings, and the names of its fields, taken out."""
    if isinstance(value, list):
        return [form_of(item) for item in value]
    if isinstance(value, dict):
        return [form_of(item) for item in value.values()]
    return "text" if isinstance(value, str) else value


@given(st.lists(texts, max_size=4))
def test_messages_are_the_same_objects_exactly_when_nothing_was_found(contents: list[str]) -> None:
    for content in contents:
        message = {"role": "user", "content": content}
        (clean,) = redact_messages([message])  # type: ignore[list-item]
        assert (clean is message) == (not redact(content).found)
