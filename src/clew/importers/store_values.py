"""What a session file says, as the store keeps it: ids, titles, times, usage."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from clew.facts import title_of
from clew.importers.session import SourceEntry, SourceMetadata
from clew.messages import Message
from clew.store import CallSource, ModelCall, chains_of
from clew.usage import cost_of, normalize_usage

IMPORTED: CallSource = "import"
"""The source of calls that another program made."""

_MAX_ID_CHARS = 200
_MIN_CALL_ID_CHARS = 16
_MILLIS_FROM = 1e11
"""Seconds since 1970 reach this in the year 5138; a greater number counts milliseconds."""
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def session_id(kind: str, metadata: SourceMetadata, opening: Iterable[Message]) -> str:
    """The id of a session in the store: from the program's own id, else from how the conversation begins."""
    return program_session_id(kind, metadata.session) if metadata.session else f"import-{_beginning_hash(opening)}"


def program_session_id(kind: str, name: str) -> str:
    """The id in the store of a session to which its program gave this id."""
    plain = f"{kind.replace('_', '-')}-{_UNPRINTABLE.sub('-', name)}"
    if len(plain) <= _MAX_ID_CHARS:
        return plain
    return f"{plain[: _MAX_ID_CHARS - 17]}-{blake2b(name.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def branch_id(session: str, position: int, message: Message) -> str:
    """The id of the branch that leaves a session at a position with this message: the same in every run."""
    return f"{session}@{position}-{chains_of([message])[0].hex()[:8]}"


def title_from(entries: Iterable[SourceEntry]) -> str | None:
    """The first thing that a person asked for, as a title; None where only programs spoke."""
    return title_of(entry.message for entry in entries if not entry.is_summary)


def model_name(name: str | None) -> str | None:
    return None if name is None else _UNPRINTABLE.sub(" ", name).strip() or None


def parse_time(text: Any) -> datetime | None:
    """A time as programs write it: ISO 8601, or seconds or milliseconds since 1970; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        count = float(text)
    except ValueError:
        return _from_iso(text)
    if not math.isfinite(count) or count < 0:
        return None
    try:
        return datetime.fromtimestamp(count / 1000 if count > _MILLIS_FROM else count, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def start_time(entries: Iterable[SourceEntry]) -> datetime | None:
    """When a session began: the first time that its entries have."""
    return next(filter(None, (parse_time(entry.timestamp) for entry in entries)), None)


def model_call(usage: Any, model: str | None, time: datetime | None, name: str) -> ModelCall | None:
    """The call behind a reply; None where the file has no usage of it."""
    used = normalize_usage(usage)
    if not used.total_tokens:
        return None
    called = model_name(model) or "unknown"
    cost = cost_of(used, called)
    micros = None if cost is None else cost.micros
    return ModelCall(used, called, "", IMPORTED, micros, name, time)


def call_name(session: str, entry: SourceEntry, seq: int) -> str:
    """The name under which a call counts once.

    Programs copy messages into new files when a session is resumed, and a gateway may have seen the call: the id that
    the provider gave is the same in all of them. A short one may be made up, and counts for its session alone.
    """
    own = None if entry.call_id is None else _UNPRINTABLE.sub("-", entry.call_id)
    if own is not None and _MIN_CALL_ID_CHARS <= len(own) <= _MAX_ID_CHARS:
        return own
    return f"{session}:{(own or str(seq))[:_MAX_ID_CHARS]}"


def _beginning_hash(opening: Iterable[Message]) -> str:
    """The hash of everything up to the first user message: it stays the same when the conversation grows."""
    messages: list[Message] = []
    for message in opening:
        messages.append(message)
        if message.get("role") == "user":
            break
    return chains_of(messages)[-1].hex()


def _from_iso(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text.strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
