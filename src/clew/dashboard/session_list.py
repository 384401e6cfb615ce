"""The list of sessions: filters, order, and the JSON of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from clew.dashboard.catalog import CatalogState, SessionCatalog, SessionFigures, client_of, is_active
from clew.dashboard.queries import PageSize, ShortText
from clew.dashboard.sign_in import DashboardRefusal
from clew.dashboard.timeline import dollars
from clew.store import ConversationOverview, SearchScope, SnippetSizes, UsageTotal
from clew.turn import search_history

_SNIPPET_CHARS = 320
MAX_IDS = 50


@dataclass(frozen=True, slots=True)
class SessionListQuery:
    """Which sessions to list."""

    limit: PageSize = 50
    before: ShortText | None = None
    """The last one of the page before."""
    ids: Annotated[str, Meta(max_length=MAX_IDS * 200)] = ""
    """Ids of sessions, separated by commas; at most `MAX_IDS` are read."""
    q: ShortText = ""
    client: ShortText | None = None
    model: ShortText | None = None
    state: Literal["active", "compacted", "branch", "full"] | None = None
    sort: Literal["updated", "cost", "fill", "messages"] = "updated"


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """What to search for."""

    q: ShortText = ""
    session: ShortText | None = None
    role: Literal["user", "assistant", "tool"] | None = None
    limit: PageSize = 30


async def list_sessions(catalog: SessionCatalog, owner: str | None, query: SessionListQuery) -> dict[str, Any]:
    """A page of sessions, with what filters there are."""
    state, now = await catalog.state(owner), datetime.now(UTC)
    every = list(state.sessions)
    chosen = await _chosen(catalog, every, query, now)
    start = _start(chosen, query.before)
    page = chosen[start : start + query.limit]
    details = await catalog.figures(page)
    return {
        "sessions": [plain_session(*pair, state, now) for pair in zip(page, details, strict=True)],
        "next": page[-1].id if page and start + query.limit < len(chosen) else None,
        "total": len(every),
        "matching": len(chosen),
        "clients": sorted({client_of(each.client) for each in every}),
        "models": sorted({each.model for each in every if each.model}),
        "totals": {
            "sessions": len(every),
            "messages": sum(each.next_seq - each.shared for each in every),
            "active": sum(is_active(each, now) for each in every),
        },
    }


async def _chosen(
    catalog: SessionCatalog, every: Sequence[ConversationOverview], query: SessionListQuery, now: datetime
) -> list[ConversationOverview]:
    if query.ids:
        known = {each.id: each for each in every}
        return [known[id] for id in query.ids.split(",")[:MAX_IDS] if id in known]
    chosen = [
        each
        for each in every
        if (query.client is None or client_of(each.client) == query.client)
        and (query.model is None or each.model == query.model)
        and _is_in(each, query.state, now)
    ]
    if query.state == "full":
        details = await catalog.figures(chosen)
        chosen = [each for each, its in zip(chosen, details, strict=True) if its.meter.is_full]
    if query.q.strip():
        chosen = await _matching(catalog, chosen, query.q)
    return await _sorted(catalog, chosen, query.sort)


def _is_in(each: ConversationOverview, state: str | None, now: datetime) -> bool:
    match state:
        case "active":
            return is_active(each, now)
        case "compacted":
            return each.compactions > 0
        case "branch":
            return each.kind in ("branch", "subagent")
        case _:
            return True


async def _matching(
    catalog: SessionCatalog, chosen: Sequence[ConversationOverview], words: str
) -> list[ConversationOverview]:
    """Those whose title, opening, id, model or client has every word."""
    wanted = words.casefold().split()
    found = []
    for each, opening in zip(chosen, await catalog.openings(chosen), strict=True):
        facts = (each.title, opening, each.id, each.newest, each.model, client_of(each.client))
        text = "\n".join(fact or "" for fact in facts).casefold()
        if all(word in text for word in wanted):
            found.append(each)
    return found


async def _sorted(
    catalog: SessionCatalog, chosen: Sequence[ConversationOverview], sort: str
) -> list[ConversationOverview]:
    if sort == "messages":
        return sorted(chosen, key=lambda each: -each.next_seq)
    if sort == "cost":
        costs = [total.cost_micros for total in await catalog.totals(chosen)]
        return _by_largest(chosen, costs)
    if sort == "fill":
        return _by_largest(chosen, [each.meter.fill for each in await catalog.figures(chosen)])
    return list(chosen)


def _by_largest(chosen: Sequence[ConversationOverview], sizes: Sequence[float]) -> list[ConversationOverview]:
    return [chosen[at] for at in sorted(range(len(chosen)), key=lambda at: -sizes[at])]


def _start(chosen: Sequence[ConversationOverview], before: str | None) -> int:
    """Where a page begins: behind the session that the one before ended with."""
    if before is None:
        return 0
    at = next((at for at, each in enumerate(chosen) if each.id == before), None)
    if at is None:
        raise DashboardRefusal(404, "not_found", f"there is no page behind {before[:100]!r}", "Begin without `before`.")
    return at + 1


def plain_session(
    overview: ConversationOverview, details: SessionFigures, state: CatalogState, now: datetime
) -> dict[str, Any]:
    """A session as a row of the list."""
    meter = details.meter
    return {
        "id": overview.id,
        "title": overview.title,
        "opening": details.opening,
        "last_words": details.last_words,
        "last_role": details.last_role,
        "client": client_of(overview.client),
        "source": overview.source,
        "owner": overview.owner,
        "model": overview.model,
        "kind": overview.kind,
        "created": overview.created.isoformat(),
        "updated": overview.updated.isoformat(),
        "ended": None if overview.ended is None else overview.ended.isoformat(),
        "is_active": is_active(overview, now),
        "messages": overview.next_seq,
        "compactions": overview.compactions,
        "branches": len(state.branches.get(overview.conversation, ())),
        "meter": {
            "tokens": meter.tokens,
            "window": meter.limits.tokens,
            "threshold": meter.limits.threshold,
            "basis": meter.basis,
            "is_exact": meter.is_exact,
            "window_basis": meter.limits.basis,
        },
        "usage": plain_usage(details.total, details.auxiliary),
    }


def plain_usage(total: UsageTotal, auxiliary: UsageTotal | None) -> dict[str, Any]:
    """Calls added up; an amount is null where no price, or no comparison, is known."""
    used = total.usage
    return {
        "calls": total.calls,
        "prompt_tokens": used.prompt_tokens,
        "input_tokens": used.input_tokens,
        "cache_read_tokens": used.cache_read_tokens,
        "cache_write_tokens": used.cache_write_tokens,
        "output_tokens": used.output_tokens,
        "cost_usd": total.cost_usd,
        "calls_of_unknown_cost": total.calls_of_unknown_cost,
        "cache_hits": total.cache_hits,
        "hit_share": used.cache_read_tokens / used.prompt_tokens if used.prompt_tokens else None,
        "saved_usd": dollars(total.saved_micros) if total.compared_calls else None,
        "auxiliary_cost_usd": dollars(auxiliary.cost_micros) if auxiliary is not None else 0.0,
    }


async def search_messages(catalog: SessionCatalog, owner: str | None, query: SearchQuery) -> dict[str, Any]:
    """Messages, handoffs and outputs that hold the words; the last word may be the beginning of one."""
    if not query.q.strip():
        return {"query": query.q, "hits": [], "searched": None, "problem": None}
    inside = None if query.session is None else (await catalog.find(owner, query.session)).newest
    scope = SearchScope(owner=owner, conversation_of=inside, roles=(query.role,) if query.role else ())
    sizes = SnippetSizes(_SNIPPET_CHARS)
    page = await search_history(catalog.store, query.q, scope, limit=query.limit, sizes=sizes)
    known = (await catalog.state()).by_conversation
    hits = []
    for found in page.hits:
        hit = found.hit
        linked = [found.call, *found.results] if found.call else [*found.results]
        session = known.get(hit.conversation or 0)
        hits.append(
            {
                "session": session.id if session else hit.session,
                "title": session.title if session else hit.title,
                "kind": hit.kind,
                "seq": hit.seq,
                "role": hit.role,
                "tool": hit.tool,
                "at": hit.at.isoformat(),
                "snippet": hit.snippet.text,
                "marks": hit.snippet.marks,
                "linked": [link.number for link in linked if link.number is not None],
                "same_in": sorted(hit.copies),
            }
        )
    searched = None if page.hits else str(page.searched)
    return {"query": query.q, "hits": hits, "searched": searched, "problem": page.problem}
