"""One session: its figures, its warnings in words, what can be done with it, what fills its window, and its tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from clew.dashboard.catalog import CatalogState, SessionCatalog, SessionFigures, words_of
from clew.dashboard.session_list import plain_session
from clew.dashboard.timeline import CompactionEffect, plain_effect, plain_timeline, requests_of
from clew.dashboard.window_content import PART_LABELS, WindowContent, WindowPart, tokens_of
from clew.store import (
    CACHE_TTL_STATE,
    RECALLS,
    CompactionAccount,
    ConversationOverview,
    EngineRecord,
    RecordedCall,
    Session,
    ViewOutline,
)
from clew.turn import next_message_cost
from clew.usage import CanonicalUsage, price_of

WhyNotChanged: TypeAlias = Callable[[ConversationOverview], str | None]
"""Why a session cannot be compacted, undone or branched here, as a phrase; None where it can."""
MAX_TREE = 200
_MAX_DEPTH = 30
_OPENING_CHARS = 160
_RECENT_REQUESTS = 20
_FEWEST_REQUESTS = 5
_LOW_HITS = 0.5
_LITTLE_FREED = 0.10
_NEARLY_FULL = 0.95
_MUCH = 0.5
_MUCH_AROUND = 0.3
_MAX_TOOLS = 8
_MAX_RECALLS = 200
_RECALLS_SHOWN = 3


async def session_page(
    catalog: SessionCatalog,
    owner: str | None,
    overview: ConversationOverview,
    why_not: WhyNotChanged,
    read_only_reason: str | None,
) -> dict[str, Any]:
    """All that the head of a session's page shows."""
    state, details = await catalog.state(), (await catalog.figures([overview]))[0]
    effects = await catalog.effects(overview)
    warnings = warnings_of(overview, details, effects, requests_of(await catalog.calls(overview)))
    warnings += recall_notes(await catalog.store.engine_records(overview.newest, RECALLS, limit=_MAX_RECALLS))
    system = await catalog.store.system_prompt(overview.newest, keep_damaged=True)
    outline = await catalog.store.view_outline(overview.newest)
    return {
        "session": plain_session(overview, details, state, datetime.now(UTC)),
        "system": None if system is None else {"tokens": len(system) // 4, "opening": " ".join(system.split())[:400]},
        "warnings": [{"level": level, "text": text} for level, text in warnings],
        "actions": _actions(overview, outline, state, read_only_reason, why_not(overview)),
        "compactions": [plain_effect(effect) for effect in effects],
        "branch_of": _branch_of(overview, state, owner),
    }


@dataclass(frozen=True, slots=True)
class TimelineQuery:
    """How many entries a timeline has at most."""

    points: Annotated[int, Meta(ge=1, le=5_000)] = 1_500


async def timeline_page(
    catalog: SessionCatalog, overview: ConversationOverview, query: TimelineQuery
) -> dict[str, Any]:
    """The requests of a session, in columns."""
    limits = catalog.windows.limits(overview)
    fields = plain_timeline(await catalog.calls(overview), await catalog.effects(overview), query.points)
    return {**fields, "window": limits.tokens, "threshold": limits.threshold}


# -- what can be done --------------------------------------------------------------------------------------------------


def _actions(
    overview: ConversationOverview,
    outline: ViewOutline,
    state: CatalogState,
    read_only_reason: str | None,
    unchangeable: str | None,
) -> dict[str, str | None]:
    """Each action with the reason why it cannot be done now, or None."""
    branches = state.branches.get(overview.conversation, ())
    sharing = sum(state.by_conversation[each].kind == "branch" for each in branches)
    in_use = None
    if sharing:
        in_use = f"{sharing} {'branch shares' if sharing == 1 else 'branches share'} its messages; delete that first"
    empty = None if overview.next_seq else "it has no messages yet"
    no_undo = None if outline.base is not None else "no compaction is in effect"
    return {
        "preview": read_only_reason or unchangeable or empty,
        # The gateway continues from an undone compaction, as after `clew sessions undo`.
        "undo": read_only_reason or (None if overview.source == "gateway" else unchangeable) or no_undo,
        "rename": read_only_reason,
        "branch": read_only_reason or unchangeable,
        "export": None,
        "delete": read_only_reason or in_use,
    }


def _branch_of(overview: ConversationOverview, state: CatalogState, owner: str | None) -> dict[str, Any] | None:
    parent = state.by_conversation.get(overview.parent or 0)
    if parent is None or (owner is not None and parent.owner != owner):
        return None
    return {"id": parent.id, "title": parent.title, "seq": overview.shared, "kind": overview.kind}


def recall_notes(recalls: Sequence[EngineRecord]) -> list[tuple[str, str]]:
    """A note about what the model of a session recalled from the gateway, newest first."""
    newest = [f"m{it.value['number']}: {', '.join(it.value['asked'])}" for it in reversed(recalls)]
    if not newest:
        return []
    more = f"; and {len(newest) - _RECALLS_SHOWN} more" if len(newest) > _RECALLS_SHOWN else ""
    asked = "; ".join(newest[:_RECALLS_SHOWN])
    return [("note", f"Its model recalled what was folded, unseen by its client, before {asked}{more}.")]


# -- warnings ----------------------------------------------------------------------------------------------------------


def warnings_of(
    overview: ConversationOverview,
    details: SessionFigures,
    effects: Sequence[CompactionEffect],
    requests: Sequence[RecordedCall],
) -> list[tuple[str, str]]:
    """Warnings and notes about a session, each with its level."""
    found = [*_window_warnings(details), *_cache_warnings(overview, requests), *_compaction_warnings(effects)]
    unknown = details.total.calls_of_unknown_cost
    if unknown:
        note = f"No price is known for {unknown:,} of {details.total.calls:,} calls, so the cost shown is too low."
        found.append(("note", note))
    if details.meter.limits.basis.startswith("assumed"):
        text = f"The window of {details.meter.limits.tokens:,} tokens is {details.meter.limits.basis}."
        found.append(("note", text))
    return found


def _window_warnings(details: SessionFigures) -> list[tuple[str, str]]:
    meter = details.meter
    if meter.tokens is None:
        return []
    full = f"{meter.fill:.0%} of the window is taken: {meter.tokens:,} of {meter.limits.tokens:,} tokens."
    if meter.fill >= _NEARLY_FULL:
        return [("warning", f"{full} The next request may not fit; compact the session, or begin another.")]
    if meter.is_full:
        threshold = meter.limits.threshold or 0
        return [("warning", f"{full} That is above {threshold:,}, so that the next request is compacted first.")]
    return []


def _cache_warnings(overview: ConversationOverview, requests: Sequence[RecordedCall]) -> list[tuple[str, str]]:
    """A warning where the last requests, without the first, read little from a cache that the model has."""
    recent = requests[1:][-_RECENT_REQUESTS:]
    price = price_of(overview.model) if overview.model else None
    if len(recent) < _FEWEST_REQUESTS or price is None or price.cache_read is None:
        return []
    used = sum((call.usage for call in recent), CanonicalUsage())
    share = used.cache_read_tokens / used.prompt_tokens if used.prompt_tokens else 1.0
    if share >= _LOW_HITS:
        return []
    text = (
        f"Only {share:.0%} of the last {len(recent)} prompts was read from the cache. Something near their beginning "
        "changes from request to request, or they come too far apart: a cache is kept for minutes."
    )
    return [("warning", text)]


def _compaction_warnings(effects: Sequence[CompactionEffect]) -> list[tuple[str, str]]:
    last = next((each for each in reversed(effects) if each.account.is_in_effect), None)
    if last is None:
        return []
    found = [("warning", f"The last compaction: {text}") for text in last.account.warnings]
    if last.freed < _LITTLE_FREED * max(1, last.account.tokens_before):
        share = last.freed / max(1, last.account.tokens_before)
        found.append(("warning", f"The last compaction freed only {share:.0%}: little of the window can be folded."))
    return found


# -- what fills the window ---------------------------------------------------------------------------------------------


async def context_page(catalog: SessionCatalog, overview: ConversationOverview) -> dict[str, Any]:
    """What is in the window now, by kind."""
    details = (await catalog.figures([overview]))[0]
    content = await catalog.content(overview, details.last_call)
    limits = catalog.windows.limits(overview)
    ttl = (await catalog.store.state(overview.newest)).get(CACHE_TTL_STATE)
    largest = []
    for size in content.largest:
        rows = (
            await catalog.store.messages(overview.newest, size.seq, size.seq + 1, keep_damaged=True)
            if size.seq >= 0
            else []
        )
        opening = words_of(rows[0].message)[:_OPENING_CHARS] if rows else "the handoff"
        fields = {"role": size.role, "tool": size.tool, "tokens": tokens_of(size), "opening": opening}
        largest.append({"seq": size.seq if size.seq >= 0 else None, **fields})
    return {
        "tokens": content.tokens,
        "window": limits.tokens,
        "threshold": limits.threshold,
        "free": max(0, limits.tokens - content.tokens),
        "model": overview.model,
        "basis": content.basis,
        "is_exact": content.is_exact,
        "parts": [_plain_part(part, PART_LABELS[part.name]) for part in content.parts],
        "tools": [_plain_part(part, part.name) for part in content.tools[:_MAX_TOOLS]],
        "largest": largest,
        "hint": context_hint(content),
        "next_message": _next_message(content.tokens, overview, details.last_call, ttl or limits.cache_ttl),
    }


def _next_message(
    tokens: int, overview: ConversationOverview, last: RecordedCall | None, ttl: str
) -> dict[str, Any] | None:
    """What the prompt of the next message costs while the provider has it cached, and once it has not."""
    provider = (last.provider or None) if last else None
    cost = next_message_cost(tokens, overview.model, provider, ttl) if overview.model else None
    return None if cost is None else {"warm_usd": cost.warm, "cold_usd": cost.cold}


def _plain_part(part: WindowPart, label: str) -> dict[str, Any]:
    return {"name": part.name, "label": label, "tokens": part.tokens, "messages": part.messages}


def context_hint(content: WindowContent) -> str | None:
    """What takes most of a window and what makes it smaller; None where no single part does."""
    if not content.tokens:
        return None
    shares = {part.name: part.tokens / content.tokens for part in content.parts}
    if shares.get("results", 0) >= _MUCH and content.tools:
        top = content.tools[0]
        results = "1 result" if top.messages == 1 else f"{top.messages:,} results"
        return (
            f"Tool results take {shares['results']:.0%} of what is in the window, most of it from {top.name}: "
            f"{top.tokens:,} tokens in {results}. A compaction shortens and folds the older ones first."
        )
    around = shares.get("system", 0) + shares.get("tools", 0)
    if around >= _MUCH_AROUND:
        return (
            f"The system prompt and the definitions of tools take {around:.0%}, in every request, and no compaction "
            "makes them smaller: fewer tools or a shorter prompt do."
        )
    if shares.get("assistant", 0) >= _MUCH:
        return f"Answers and calls take {shares['assistant']:.0%}; a compaction folds the older ones."
    return None


# -- the tree ----------------------------------------------------------------------------------------------------------


async def tree_page(catalog: SessionCatalog, owner: str | None, overview: ConversationOverview) -> dict[str, Any]:
    """The conversation that a session began with, and all that branched off from it."""
    state = await catalog.state()
    visible = {number: each for number, each in state.by_conversation.items() if owner is None or each.owner == owner}
    root = _root(overview, visible)
    family = _family(root, state.branches, visible)
    shown = family[:MAX_TREE]
    details = dict(zip(shown, await catalog.figures([visible[each] for each in shown]), strict=True))
    chains = {each: await catalog.store.sessions_of(each) for each in shown}
    accounts = {
        each: await catalog.store.compaction_accounts(visible[each].newest) if len(chains[each]) > 1 else []
        for each in shown
    }

    def chain(conversation: int, depth: int) -> dict[str, Any]:
        own, sessions = visible[conversation], chains[conversation]
        made = {account.session: account for account in accounts[conversation]}
        stops = [*(each.first_seq for each in sessions[1:]), own.next_seq]
        below = [each for each in state.branches.get(conversation, ()) if each in details and depth < _MAX_DEPTH]
        return {
            "id": own.id,
            "kind": own.kind,
            "at": own.shared if own.kind == "branch" else None,
            "title": own.title,
            "opening": details[conversation].opening[:_OPENING_CHARS],
            "is_current": conversation == overview.conversation,
            "sessions": [
                {
                    **_plain_link(session, stop, made.get(session.id)),
                    "children": [chain(each, depth + 1) for each in below if _parent(chains[each][0], sessions) == at],
                }
                for at, (session, stop) in enumerate(zip(sessions, stops, strict=True))
            ],
        }

    return {"root": chain(root.conversation, 0), "conversations": len(family), "left_out": len(family) - len(shown)}


def _root(overview: ConversationOverview, visible: Mapping[int, ConversationOverview]) -> ConversationOverview:
    seen: set[int] = set()
    while overview.parent in visible and overview.conversation not in seen:
        seen.add(overview.conversation)
        overview = visible[overview.parent or 0]
    return overview


def _family(
    root: ConversationOverview,
    branches: Mapping[int, tuple[int, ...]],
    visible: Mapping[int, ConversationOverview],
) -> list[int]:
    """A conversation and all below it, those nearest to it first."""
    family, seen = [root.conversation], {root.conversation}
    for each in family:
        for child in branches.get(each, ()):
            if child in visible and child not in seen:
                seen.add(child)
                family.append(child)
    return family


def _parent(first: Session, sessions: Sequence[Session]) -> int:
    """Which session of a chain another one branched off from."""
    return next((at for at, each in enumerate(sessions) if each.id == first.parent_session_id), 0)


def _plain_link(session: Session, stop: int, made: CompactionAccount | None) -> dict[str, Any]:
    compaction = None
    if made is not None:
        compaction = {
            "first": made.first,
            "stop": made.stop,
            "tokens_before": made.tokens_before,
            "tokens_after": made.tokens_after,
            "is_in_effect": made.is_in_effect,
            "at": made.at.isoformat(),
        }
    return {
        "id": session.id,
        "first": session.first_seq,
        "stop": stop,
        "messages": stop - session.first_seq,
        "created": session.created.isoformat(),
        "ended": None if session.ended is None else session.ended.isoformat(),
        "source": session.source,
        "model": session.model,
        "compaction": compaction,
    }
