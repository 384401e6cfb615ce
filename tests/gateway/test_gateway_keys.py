"""Keys of callers: made, hashed, read from every header style, and judged."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest

from clew.errors import ConflictingCredentials
from clew.gateway import (
    KEY_PREFIX,
    CallerCredential,
    hash_key,
    is_access_key,
    is_same_secret,
    make_key,
    owner_of_credential,
    read_credential,
    state_of_key,
)
from clew.redact import redact_text
from clew.store import AccessKey

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = AccessKey("k_1", "ann", None, None, 0, NOW, None, None, None)


def test_keys_are_long_random_and_known_by_their_beginning() -> None:
    keys = {make_key() for _ in range(100)}
    assert len(keys) == 100
    for key in keys:
        assert is_access_key(key) and key.startswith(KEY_PREFIX)
        assert len(key) == len(KEY_PREFIX) + 43 and key.removeprefix(KEY_PREFIX).isalnum()
    assert not is_access_key("sk-ant-not-ours")


def test_a_key_is_redacted_wherever_it_stands() -> None:
    for _ in range(20):
        key = make_key()
        for text in (key, f"use {key}.", f'{{"x": "{key}"}}', f"?key={key}&alt=sse", f"Bearer {key}"):
            assert key not in redact_text(text)
            assert key.removeprefix(KEY_PREFIX) not in redact_text(text)


def test_the_hash_is_plain_sha256() -> None:
    assert hash_key("clew_sk_fake") == sha256(b"clew_sk_fake").digest()
    assert hash_key("half \ud83d") != hash_key("half")
    assert is_same_secret("a", "a") and not is_same_secret("a", "b") and not is_same_secret("é", "e")


@pytest.mark.parametrize(
    ("headers", "query", "places"),
    [
        ([("Authorization", "Bearer the-key")], [], ("authorization",)),
        ([("authorization", "bearer   the-key  ")], [], ("authorization",)),
        ([("X-Api-Key", "the-key")], [], ("x-api-key",)),
        ([("x-goog-api-key", " the-key")], [], ("x-goog-api-key",)),
        ([], [("alt", "sse"), ("key", "the-key")], ("?key",)),
        ([("x-api-key", "the-key"), ("AUTHORIZATION", "Bearer the-key")], [], ("x-api-key", "authorization")),
        ([("x-api-key", "the-key"), ("x-api-key", "the-key")], [], ("x-api-key",)),
        ([("Authorization", "Bearer"), ("x-api-key", "the-key")], [], ("x-api-key",)),
        ([("Authorization", "Bearer "), ("x-goog-api-key", "the-key"), ("x-api-key", "")], [], ("x-goog-api-key",)),
    ],
)
def test_a_credential_is_read_from_every_place(
    headers: list[tuple[str, str]], query: list[tuple[str, str]], places: tuple[str, ...]
) -> None:
    assert read_credential(headers, query) == CallerCredential("the-key", places)


def test_no_credential_is_none() -> None:
    assert read_credential([("accept", "*/*"), ("x-api-key", " ")], [("keys", "x")]) is None


def test_another_scheme_counts_whole() -> None:
    found = read_credential([("Authorization", "Basic dXNlcjpwYXNz")])
    assert found == CallerCredential("Basic dXNlcjpwYXNz", ("authorization",))


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([("Authorization", "Bearer kite"), ("x-api-key", "gull")], []),
        ([("Authorization", "Bearer kite"), ("authorization", "Bearer gull")], []),
        ([("x-api-key", "kite"), ("x-api-key", "Kite")], []),
        ([("x-goog-api-key", "kite")], [("key", "gull")]),
        ([], [("key", "kite"), ("key", "gull")]),
        ([("Authorization", "Basic kite"), ("x-api-key", "kite")], []),
    ],
)
def test_credentials_that_differ_are_refused_without_being_told(
    headers: list[tuple[str, str]], query: list[tuple[str, str]]
) -> None:
    with pytest.raises(ConflictingCredentials) as refused:
        read_credential(headers, query)
    assert not any(secret in str(refused.value) for secret in ("kite", "Kite", "gull"))
    assert refused.value.places


def test_a_credential_does_not_show_its_secret() -> None:
    assert "the-key" not in repr(CallerCredential("the-key", ("x-api-key",)))


def test_callers_without_keys_are_parted_by_what_they_send() -> None:
    one, same, other = (CallerCredential(secret, (place,)) for secret, place in [("a", "x"), ("a", "y"), ("b", "x")])
    assert owner_of_credential(one) == owner_of_credential(same) != owner_of_credential(other)
    assert owner_of_credential(None) not in ("", owner_of_credential(one))


@pytest.mark.parametrize(
    ("key", "state"),
    [
        (KEY, "valid"),
        (replace(KEY, expires=NOW + timedelta(microseconds=1)), "valid"),
        (replace(KEY, expires=NOW), "expired"),
        (replace(KEY, budget_micros=5, spent_micros=4), "valid"),
        (replace(KEY, budget_micros=5, spent_micros=5), "over_budget"),
        (replace(KEY, revoked=NOW, expires=NOW), "revoked"),
        (replace(KEY, expires=NOW, budget_micros=5, spent_micros=9), "expired"),
    ],
)
def test_a_key_is_judged_by_the_first_reason_against_it(key: AccessKey, state: str) -> None:
    assert state_of_key(key, NOW) == state
