"""What is kept once by its hash: system prompts, spilled outputs, messages that a compaction wrote. As steps."""

from __future__ import annotations

import secrets
from hashlib import blake2b

from clew.store.base import Output
from clew.store.clock import as_datetime
from clew.store.encoding import json_text, json_value
from clew.store.steps import Steps, one, run

HASH_BYTES = 20


def keep_text(owner: str, text: str) -> Steps[int]:
    """The id of a text, which is stored if it is not there yet."""
    # As JSON, because a text may hold what no text column takes: NUL, or half a character.
    return (yield from keep_body(owner, json_text(text)))


def keep_body(owner: str, body: str) -> Steps[int]:
    digest = blake2b(body.encode(), digest_size=HASH_BYTES).digest()
    found = yield from one("SELECT id FROM texts WHERE owner = ? AND hash = ?", owner, digest)
    if found is None:
        yield from run(
            "INSERT INTO texts (owner, hash, body) VALUES (?, ?, ?) ON CONFLICT (owner, hash) DO NOTHING",
            owner,
            digest,
            body,
        )
        found = yield from one("SELECT id FROM texts WHERE owner = ? AND hash = ?", owner, digest)
    assert found is not None
    return int(found[0])


def text_at(text: int) -> Steps[str | None]:
    found = yield from one("SELECT body FROM texts WHERE id = ?", text)
    return None if found is None else json_value(found[0])


def new_output_name() -> str:
    return "o_" + secrets.token_hex(10)


def read_output(name: str, owner: str | None) -> Steps[Output | None]:
    """A spilled output by its id, within its owner where one is given."""
    found = yield from one(
        "SELECT o.name, s.name, o.tool, o.path, t.body, o.at, t.owner FROM outputs o"
        " JOIN texts t ON t.id = o.text JOIN sessions s ON s.id = o.session WHERE o.name = ?",
        name,
    )
    if found is None or (owner is not None and found[6] != owner):
        return None
    return Output(found[0], found[1], found[2], found[3], json_value(found[4]), as_datetime(found[5]))
