"""What readers tell beside a message, in the words of the store: ids, titles, times, usage."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from hashlib import blake2b
from typing import Any

from clew.importers.entries import Entry, Margin
from clew.messages import Message, text_of
from clew.store import CallSource, Chain, ModelCall
from clew.usage import cost_of, normalize_usage

IMPORTED: CallSource = "import"
"""The source of calls that another program made."""

_LONGEST_ID = 200
_SHORTEST_OWN_ID = 16
_LONGEST_TITLE = 80
_LONGEST_OPENING = 4_000
"""So much of a message is looked at for a title."""
_MILLIS_FROM = 1e11
"""Seconds since 1970 reach this in the year 5138; what is greater counts milliseconds."""
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
# What programs say in the user's name, before the user has said anything; and bare commands to the program.
_PROGRAM_SPEAKS = re.compile(
    r"\s*(<(environment_context|user_instructions|permissions|turn_|skills_instructions|command-|local-command"
    r"|task-notification|system-reminder|bash-)|# AGENTS\.md instructions|Caveat: The messages below|\[CONTEXT "
    r"|/[\w:.-]+\s*$)"
)
_TAG = re.compile(r"^\s*</?[A-Za-z][\w-]*>\s*")


def session_id(kind: str, margin: Margin, opening: Iterable[Message]) -> str:
    """The id under which a session is kept: the program's own, or told from how the conversation begins."""
    return known_id(kind, margin.session) if margin.session else f"import-{_beginning(opening)}"


def known_id(kind: str, name: str) -> str:
    """The id of a session that its program names so."""
    plain = f"{kind.replace('_', '-')}-{_UNPRINTABLE.sub('-', name)}"
    if len(plain) <= _LONGEST_ID:
        return plain
    return f"{plain[: _LONGEST_ID - 17]}-{blake2b(name.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


def branch_id(session: str, at: int, message: Message) -> str:
    """The id of the branch that leaves a session at a message, with this one in its place: the same in every run."""
    return f"{session}@{at}-{Chain().of([message])[0].hex()[:8]}"


def title_from(entries: Iterable[Entry]) -> str | None:
    """The first thing that the user asked for, on one line."""
    for entry in entries:
        text = text_of(entry.message)
        is_asked = entry.message.get("role") == "user" and not entry.is_summary and not _PROGRAM_SPEAKS.match(text)
        if is_asked and (title := tidy_title(text)):
            return title
    return None


def tidy_title(text: str) -> str | None:
    """The first line that says something, short enough for a list."""
    lines = (_TAG.sub(" ", line, count=1) for line in text[:_LONGEST_OPENING].splitlines())
    words = " ".join(_UNPRINTABLE.sub(" ", next(filter(str.strip, lines), "")).split())
    return (words if len(words) <= _LONGEST_TITLE else words[: _LONGEST_TITLE - 1].rstrip() + "…") or None


def name_of_model(name: str | None) -> str | None:
    return None if name is None else _UNPRINTABLE.sub(" ", name).strip() or None


def moment(text: Any) -> datetime | None:
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


def began(entries: Iterable[Entry]) -> datetime | None:
    """When a session began: the first time that its entries tell."""
    return next(filter(None, (moment(entry.at) for entry in entries)), None)


def model_call(usage: Any, model: str | None, at: datetime | None, name: str) -> ModelCall | None:
    """The call behind a reply; None where the file tells nothing of it."""
    used = normalize_usage(usage)
    if not used.total_tokens:
        return None
    called = name_of_model(model) or "unknown"
    cost = cost_of(used, called)
    return ModelCall(used, called, "", IMPORTED, None if cost is None else micros(cost.total), name, at)


def name_of_call(session: str, entry: Entry, seq: int) -> str:
    """The name under which a call counts once.

    Programs copy what was said into new files when a session is resumed, and a gateway may have seen the call: a
    provider's own id is the same in all of them. A short one may be a stranger's, and counts for its session alone.
    """
    own = None if entry.call is None else _UNPRINTABLE.sub("-", entry.call)
    if own is not None and _SHORTEST_OWN_ID <= len(own) <= _LONGEST_ID:
        return own
    return f"{session}:{(own or str(seq))[:_LONGEST_ID]}"


def micros(dollars: Decimal) -> int:
    return int((dollars * 1_000_000).to_integral_value(ROUND_HALF_EVEN))


def _beginning(opening: Iterable[Message]) -> str:
    """The hash of everything up to the first thing the user says: it stays the same when the conversation grows."""
    messages: list[Message] = []
    for message in opening:
        messages.append(message)
        if message.get("role") == "user":
            break
    return Chain().of(messages)[-1].hex()


def _from_iso(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text.strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
