"""What must not be forgotten over a restart: strikes and cooldowns of engines, windows that providers stated."""

from __future__ import annotations

from typing import Any

from clew.errors import InvalidArgument
from clew.store import sessions
from clew.store.base import LearntWindow
from clew.store.clock import as_datetime
from clew.store.encoding import json_text, json_value
from clew.store.steps import Steps, one, rows, run


def read_state(session: str) -> Steps[dict[str, Any]]:
    """All that is remembered for a session's conversation: it survives continuations and restarts."""
    found = yield from sessions.find(session)
    read = yield from rows("SELECT name, value FROM states WHERE conversation = ? ORDER BY name", found.conversation)
    return {row[0]: json_value(row[1]) for row in read}


def write_state(session: str, values: dict[str, Any], now: int) -> Steps[None]:
    """Remember values by name; None forgets one."""
    found = yield from sessions.find(session)
    for name, value in values.items():
        if value is None:
            yield from run("DELETE FROM states WHERE conversation = ? AND name = ?", found.conversation, name)
        else:
            yield from run(
                "INSERT INTO states (conversation, name, value, at) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (conversation, name) DO UPDATE SET value = excluded.value, at = excluded.at",
                found.conversation,
                name,
                json_text(value),
                now,
            )


def learn_window(model: str, base_url: str, tokens: int, now: int) -> Steps[None]:
    """Remember a window that a provider stated. A guess has no place here."""
    if tokens <= 0:
        raise InvalidArgument(f"a window of {tokens} tokens for {model!r} cannot be; pass what the provider stated")
    yield from run(
        "INSERT INTO windows (model, base_url, tokens, at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (model, base_url) DO UPDATE SET tokens = excluded.tokens, at = excluded.at",
        model,
        base_url,
        tokens,
        now,
    )


def forget_window(model: str, base_url: str) -> Steps[None]:
    yield from run("DELETE FROM windows WHERE model = ? AND base_url = ?", model, base_url)


def learnt_window(model: str, base_url: str) -> Steps[LearntWindow | None]:
    row = yield from one(
        "SELECT model, base_url, tokens, at FROM windows WHERE model = ? AND base_url = ?", model, base_url
    )
    return None if row is None else LearntWindow(row[0], row[1], int(row[2]), as_datetime(row[3]))


def learnt_windows() -> Steps[list[LearntWindow]]:
    read = yield from rows("SELECT model, base_url, tokens, at FROM windows ORDER BY model, base_url")
    return [LearntWindow(row[0], row[1], int(row[2]), as_datetime(row[3])) for row in read]
