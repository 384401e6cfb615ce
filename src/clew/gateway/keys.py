"""Keys of callers: making one, hashing it, reading it from a request, and whether it may be used now.

A key is long and random, so that a plain SHA-256 of it can be kept and looked up: nobody can guess back from it.
"""

from __future__ import annotations

import hmac
import secrets
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeAlias

from clew.errors import ConflictingCredentials

if TYPE_CHECKING:
    from clew.store import AccessKey

KEY_PREFIX = "clew_sk_"
KeyState: TypeAlias = Literal["valid", "revoked", "expired", "over_budget"]
_KEY_CHARS = string.ascii_letters + string.digits
# 62 ** 43 is a little more than 2 ** 256.
_RANDOM_CHARS = 43
_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
_AUTHORIZATION = "authorization"
_KEY_QUERY = "key"
_BEARER = "bearer"
_OWNER_CHARS = 32


@dataclass(frozen=True, slots=True)
class CallerCredential:
    """What a caller names itself by."""

    secret: str = field(repr=False)
    """A key of Clew or of a provider; an `Authorization` of another scheme than Bearer, whole."""
    places: tuple[str, ...]
    """Where it stood: names of headers in small letters, or `?key`. It is taken out there before a request goes on."""


def make_key() -> str:
    """A new key, which nobody has."""
    return KEY_PREFIX + "".join(secrets.choice(_KEY_CHARS) for _ in range(_RANDOM_CHARS))


def hash_key(key: str) -> bytes:
    """What is kept of a key, and what it is found by."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def is_access_key(secret: str) -> bool:
    """Whether a secret says that it is a key of Clew, known or not: it never goes to a provider."""
    return secret.startswith(KEY_PREFIX)


def is_same_secret(one: str, other: str) -> bool:
    """Whether two secrets are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(hash_key(one), hash_key(other))


def owner_of_credential(credential: CallerCredential | None) -> str:
    """The owner that stands for a caller where there are no keys: one for each credential, none of it readable."""
    if credential is None:
        return "caller:none"
    return f"caller:{hash_key(credential.secret).hex()[:_OWNER_CHARS]}"


def read_credential(
    headers: Iterable[tuple[str, str]], query: Iterable[tuple[str, str]] = ()
) -> CallerCredential | None:
    """The credential of a request; None where it has none. `ConflictingCredentials` where two of them differ.

    It stands in `Authorization: Bearer`, `x-api-key`, `x-goog-api-key` or Azure's `api-key`, or, as Gemini's clients
    may write it, in the query as `key`: give `query` on Gemini's routes only. Every occurrence of a header counts, also
    a repeated one.
    """
    found = [*_in_headers(headers), *(("?key", value.strip()) for name, value in query if name == _KEY_QUERY)]
    named = [(place, secret) for place, secret in found if secret]
    if not named:
        return None
    places = tuple(dict.fromkeys(place for place, _ in named))
    first = named[0][1]
    if not all(is_same_secret(first, secret) for _, secret in named):
        raise ConflictingCredentials(places)
    return CallerCredential(first, places)


def state_of_key(key: AccessKey, now: datetime) -> KeyState:
    """Whether a key may be used: the first reason why not."""
    if key.revoked is not None:
        return "revoked"
    if key.expires is not None and key.expires <= now:
        return "expired"
    if key.budget_micros is not None and key.spent_micros >= key.budget_micros:
        return "over_budget"
    return "valid"


def _in_headers(headers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for written, value in headers:
        name = written.lower()
        if name in _KEY_HEADERS:
            yield name, value.strip()
        elif name == _AUTHORIZATION:
            scheme, _, rest = value.strip().partition(" ")
            # The SDKs write a bare "Bearer" where they were given an empty key.
            yield name, rest.strip() if scheme.lower() == _BEARER else value.strip()
