"""Model calls: the tokens and cost of each, written with the reply it brought, and their totals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from clew.errors import InvalidArgument
from clew.store.database import (
    Operations,
    Row,
    Steps,
    as_micros,
    execute,
    execute_many,
    fetch_all,
    marks,
    reads,
    writes,
)
from clew.store.sessions import SessionKey, find
from clew.usage import CanonicalUsage, normalize_usage

CallSource: TypeAlias = Literal["terminal", "gateway", "scheduled", "subagent", "library", "import", "auxiliary"]
AUXILIARY: CallSource = "auxiliary"
"""The source of calls beside a turn, such as the summariser's."""
GATEWAY: CallSource = "gateway"
Grouping: TypeAlias = Literal["session", "conversation", "model", "provider", "source", "client", "day"]
_INSERT = (
    "INSERT INTO calls (name, owner, conversation, session, seq, at, model, provider, source, input_tokens,"
    " output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_micros, cost_direct_micros)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING"
)
CACHE_TTL_STATE = "cache_ttl"
"""The state that holds how long the provider caches a conversation, unless it is five minutes."""
CLIENT_STATE = "client"
"""The state that holds the name of the client program of a conversation, where one server serves several."""
WINDOW_STATE = "window"
"""The state in which a gateway keeps the `StoredWindow` of a conversation, as JSON."""
CLIENT_OF = "(SELECT st.value FROM states st WHERE st.conversation = {} AND st.name = 'client')"
_COMPARED = "k.cost_direct_micros IS NOT NULL AND k.cost_micros IS NOT NULL"
# In the order of the fields of `CanonicalUsage`, and then of `UsageTotal`.
_SUMS = (
    "k.input_tokens",
    "k.output_tokens",
    "k.cache_read_tokens",
    "k.cache_write_tokens",
    "k.reasoning_tokens",
    "k.cost_micros",
    "CASE WHEN k.cost_micros IS NULL THEN 1 END",
    "CASE WHEN k.cache_read_tokens > 0 THEN 1 END",
    f"CASE WHEN {_COMPARED} AND k.source <> 'auxiliary' THEN 1 END",
    f"CASE WHEN {_COMPARED} THEN k.cost_direct_micros END",
    f"CASE WHEN {_COMPARED} THEN k.cost_micros END",
    "CASE WHEN k.cost_direct_micros IS NOT NULL AND k.cost_micros IS NULL THEN 1 END",
)
_FIGURES = ", ".join(["count(*)", *(f"COALESCE(sum({it}), 0)" for it in _SUMS)])
_MICROS_PER_DAY = 86_400_000_000
_LARGEST_FIGURE = 10**12
"""Larger figures are cut to this: columns and totals have 64 bits, and a reply must not be lost by its usage."""
_GROUPS: dict[str, str] = {
    "session": "COALESCE(s.name, '')",
    "conversation": "COALESCE(k.conversation, 0)",
    "model": "k.model",
    "provider": "k.provider",
    "source": "k.source",
    # The client of the conversation, also for auxiliary calls; empty where the conversation was deleted.
    "client": f"COALESCE({CLIENT_OF.format('k.conversation')}, s.source, '')",
    "day": f"k.at / {_MICROS_PER_DAY}",
}


@dataclass(frozen=True, slots=True)
class ModelCall:
    """The usage and cost of one call."""

    usage: CanonicalUsage
    model: str
    provider: str = ""
    source: CallSource = "library"
    cost_micros: int | None = None
    """Millionths of a dollar; None where no price is known."""
    id: str | None = None
    """The provider's or gateway's id of the call; a second call of the same id is not stored."""
    at: datetime | None = None
    cost_direct_micros: int | None = None
    """What the caller's own request, sent as received, would have cost at that time; None where it was not computed.

    An auxiliary call of a gateway's session, which no caller asked for, would have cost nothing.
    """


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Calls added up."""

    group: dict[str, Any]
    calls: int
    usage: CanonicalUsage
    cost_micros: int
    """Of the calls whose price is known."""
    calls_of_unknown_cost: int
    cache_hits: int = 0
    """Calls that read something from the provider's cache."""
    compared_calls: int = 0
    """Calls a caller asked for, whose cost is known both as it was and as it would have been directly."""
    cost_direct_micros: int = 0
    """What those would have cost directly."""
    cost_compared_micros: int = 0
    """What those and the auxiliary calls of their sessions did cost."""
    calls_of_unknown_saving: int = 0
    """Calls of the comparison whose own cost is not known: the real saving may be lower."""

    @property
    def cost_usd(self) -> float | None:
        """The cost of the calls whose price is known; None where there are calls and none has a price."""
        return None if self.calls and self.calls == self.calls_of_unknown_cost else self.cost_micros / 1_000_000

    @property
    def saved_micros(self) -> int:
        """What was saved against direct calls, the summariser's cost taken off; below 0 where it cost more."""
        return self.cost_direct_micros - self.cost_compared_micros


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls to add up; all of them by default."""

    session: str | None = None
    conversation: int | None = None
    conversations: Sequence[int] | None = None
    """Those of any of these."""
    owner: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    auxiliary: bool | None = None
    """True: only auxiliary calls. False: only the others."""


def record_calls(key: SessionKey, brought: Sequence[tuple[int | None, ModelCall]], now: int) -> Steps[None]:
    """Insert calls, each with the number of the message it brought; None for one that brought none."""
    rows = [_values((*key[:3], seq), call, now, _direct_cost(key, call)) for seq, call in brought]
    if len(rows) == 1:
        yield from execute(_INSERT, *rows[0])
    else:
        yield from execute_many(_INSERT, rows)


def _values(
    belongs: tuple[str, int | None, int | None, int | None], call: ModelCall, now: int, direct: int | None
) -> tuple[Any, ...]:
    """The columns of a call; `belongs` is its owner, conversation, session and the number of its message."""
    used = normalize_usage(call.usage)
    return (
        call.id,
        *belongs,
        now if call.at is None else as_micros(call.at),
        call.model,
        call.provider,
        call.source,
        used.input_tokens,
        used.output_tokens,
        used.cache_read_tokens,
        used.cache_write_tokens,
        used.reasoning_tokens,
        None if call.cost_micros is None else _bounded(call.cost_micros),
        direct,
    )


def _direct_cost(key: SessionKey, call: ModelCall) -> int | None:
    if call.cost_direct_micros is not None:
        return _bounded(call.cost_direct_micros)
    return 0 if call.source == AUXILIARY and key.source == GATEWAY else None


def _bounded(figure: int) -> int:
    return max(-_LARGEST_FIGURE, min(figure, _LARGEST_FIGURE))


class CallStore(Operations):
    """The model calls of a database."""

    @writes
    def record_call(self, session: str | None, call: ModelCall, *, owner: str | None = None) -> Steps[None]:
        """Store a call that brought no message, such as the summariser's; one that did belongs to its `append`.

        Without a session it is a call of the owner's that belongs to no conversation.
        """
        now = self._now()
        if session is None:
            yield from execute(_INSERT, *_values((owner or "", None, None, None), call, now, call.cost_direct_micros))
        else:
            yield from record_calls((yield from find(session, owner)).key, [(None, call)], now)

    @reads
    def usage(self, by: Sequence[Grouping] = (), which: CallFilter | None = None) -> Steps[list[UsageTotal]]:
        """Calls added up per group, in the order of the groups."""
        unknown = [name for name in by if name not in _GROUPS]
        if unknown:
            raise InvalidArgument(f"usage cannot be grouped by {unknown[0]!r}", remedy=f"use {', '.join(_GROUPS)}")
        groups = [_GROUPS[name] for name in by]
        where, params = _where(which or CallFilter())
        grouping = f" GROUP BY {', '.join(groups)} ORDER BY {', '.join(groups)}" if groups else ""
        found = yield from fetch_all(
            f"SELECT {''.join(group + ', ' for group in groups)}{_FIGURES}"  # noqa: S608 (fixed texts)
            f" FROM calls k LEFT JOIN sessions s ON s.id = k.session WHERE {where}{grouping}",
            *params,
        )
        return [_total(by, row) for row in found]


def _total(by: Sequence[Grouping], row: Row) -> UsageTotal:
    group = dict(zip(by, row, strict=False))
    if "client" in group:
        group["client"] = client_name(group["client"])
    calls, *figures = (int(value) for value in row[len(by) :])
    return UsageTotal(dict(group), calls, CanonicalUsage(*figures[:5]), *figures[5:])


def client_name(column: str) -> str:
    """The name of a client: the stored JSON string, or the source of a session."""
    return str(json.loads(column)) if column.startswith('"') else column


def _where(which: CallFilter) -> tuple[str, list[Any]]:
    where, params = ["1 = 1"], list[Any]()
    for condition, value in (
        ("s.name = ?", which.session),
        ("k.conversation = ?", which.conversation),
        ("k.owner = ?", which.owner),
        ("k.at >= ?", None if which.since is None else as_micros(which.since)),
        ("k.at < ?", None if which.before is None else as_micros(which.before)),
    ):
        if value is not None:
            where.append(condition)
            params.append(value)
    if which.conversations is not None:
        where.append(f"k.conversation IN ({marks(which.conversations)})")
        params += which.conversations
    if which.auxiliary is not None:
        where.append("k.source = 'auxiliary'" if which.auxiliary else "k.source <> 'auxiliary'")
    return " AND ".join(where), params
