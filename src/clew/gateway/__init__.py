"""The gateway: what stands between programs and their providers, and who may use it.

`keys` makes and reads the keys of callers; the store has what is known of them. Knows no command and no screen.
"""

from __future__ import annotations

from clew.gateway.keys import (
    KEY_PREFIX,
    CallerCredential,
    KeyState,
    hash_key,
    is_access_key,
    is_same_secret,
    make_key,
    owner_of_credential,
    read_credential,
    state_of_key,
)

__all__ = [
    "KEY_PREFIX",
    "CallerCredential",
    "KeyState",
    "hash_key",
    "is_access_key",
    "is_same_secret",
    "make_key",
    "owner_of_credential",
    "read_credential",
    "state_of_key",
]
