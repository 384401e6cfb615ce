"""Where tokens and money went, per day, model and client; what fills windows, and what would help most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from msgspec import Meta

from clew.dashboard.catalog import NO_CALLS, SessionCatalog, client_of
from clew.dashboard.session_list import plain_usage
from clew.dashboard.window_content import PART_LABELS, RESULT_BOUND, WindowContent
from clew.store import CallFilter, CompactionStats, ConversationOverview, Grouping, UsageTotal

DAY_SECONDS = 86_400
MAX_FILLED_SESSIONS = 40
MAX_FILLED_MESSAGES = 60_000
_MAX_TOOLS = 12
_BOUND_CHARS = 4 * RESULT_BOUND
_LESS, _CHEAPER = "tokens less", "tokens from the cache, at a fraction of their price"
_GOOD_HITS = 0.9
_LOW_HITS = 0.7
_MUCH_AROUND = 0.25
_LEAST_SHARE = 0.02
"""The least share that a hint must save."""


@dataclass(frozen=True, slots=True)
class InsightsQuery:
    """How far back the figures go."""

    days: Annotated[int, Meta(ge=1, le=366)] = 30


@dataclass(frozen=True, slots=True)
class FilledWindows:
    """What the windows of some sessions hold, added up."""

    sessions: int
    messages: int
    parts: Mapping[str, int]
    tools: Mapping[str, tuple[int, int, int, int]]
    """For each tool: tokens, results, the largest result, tokens above the bound."""

    @property
    def tokens(self) -> int:
        return sum(self.parts.values())


async def insights_page(catalog: SessionCatalog, owner: str | None, days: int) -> dict[str, Any]:
    """The figures of the last days, today included; days are those of UTC."""
    today = int(datetime.now(UTC).timestamp()) // DAY_SECONDS
    first = today - days + 1
    since = datetime.fromtimestamp(first * DAY_SECONDS, UTC)
    compactions = await catalog.store.compaction_stats(since, owner=owner)
    grouped = {name: await _grouped(catalog, owner, since, name) for name in ("day", "model", "client")}
    by_day = _compactions_by(compactions, lambda each: each.day)
    total, auxiliary = [(await catalog.store.usage((), which))[0] for which in _all_and_auxiliary(owner, since)]
    filled = await filled_windows(catalog, owner, since)
    return {
        "since": since.isoformat(),
        "days": days,
        "total": {**plain_usage(total, auxiliary), **_compacted(compactions)},
        "by_day": [
            {"day": _date(day), "at": day * DAY_SECONDS, **_figures(grouped["day"].get(day), by_day.get(day, ()))}
            for day in range(first, today + 1)
        ],
        "by_model": _by_name("model", grouped["model"], compactions, lambda each: each.model, str),
        "by_client": _by_name("client", grouped["client"], compactions, lambda each: each.client, client_of),
        "fills": plain_fills(filled),
        "hints": hints(filled, total),
    }


def _all_and_auxiliary(owner: str | None, since: datetime) -> tuple[CallFilter, CallFilter]:
    return CallFilter(owner=owner, since=since), CallFilter(owner=owner, since=since, auxiliary=True)


async def _grouped(
    catalog: SessionCatalog, owner: str | None, since: datetime, by: Grouping
) -> dict[Any, tuple[UsageTotal, UsageTotal | None]]:
    """Usage by group: all calls, and the auxiliary ones."""
    every, auxiliary = [
        {each.group[by]: each for each in await catalog.store.usage((by,), which)}
        for which in _all_and_auxiliary(owner, since)
    ]
    return {key: (total, auxiliary.get(key)) for key, total in every.items()}


def _compactions_by(
    compactions: Sequence[CompactionStats], key: Callable[[CompactionStats], Any]
) -> dict[Any, list[CompactionStats]]:
    grouped: dict[Any, list[CompactionStats]] = {}
    for each in compactions:
        grouped.setdefault(key(each), []).append(each)
    return grouped


def _figures(
    totals: tuple[UsageTotal, UsageTotal | None] | None, compactions: Sequence[CompactionStats]
) -> dict[str, Any]:
    total, auxiliary = totals or (NO_CALLS, None)
    return {**plain_usage(total, auxiliary), **_compacted(compactions)}


def _compacted(made: Sequence[CompactionStats]) -> dict[str, int]:
    return {"compactions": len(made), "tokens_freed": sum(max(0, each.before - each.after) for each in made)}


def _by_name(
    name: str,
    totals: Mapping[Any, tuple[UsageTotal, UsageTotal | None]],
    compactions: Sequence[CompactionStats],
    key: Callable[[CompactionStats], str],
    label: Callable[[str], str],
) -> list[dict[str, Any]]:
    """The groups of one kind, the one with the most tokens first."""
    made = _compactions_by(compactions, key)
    keys = sorted({*totals, *made}, key=lambda each: -(totals[each][0].usage.total_tokens if each in totals else 0))
    rows = []
    for each in keys:
        named = label(each) if each else ("(deleted)" if name == "client" else "(none named)")
        rows.append({name: named, **_figures(totals.get(each), made.get(each, ()))})
    return rows


def _date(day: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)).date().isoformat()


# -- what fills windows ------------------------------------------------------------------------------------------------


async def filled_windows(catalog: SessionCatalog, owner: str | None, since: datetime) -> FilledWindows:
    """What the windows of the most recent sessions hold, of as many as can be read quickly."""
    chosen = _newest(await catalog.visible(owner), since)
    parts: Counter[str] = Counter()
    tools: dict[str, tuple[int, int, int, int]] = {}
    for overview, details in zip(chosen, await catalog.figures(chosen), strict=True):
        content = await catalog.content(overview, details.last_call)
        parts.update({part.name: part.tokens for part in content.parts})
        _add_tools(tools, content)
    return FilledWindows(len(chosen), sum(each.next_seq for each in chosen), parts, tools)


def _newest(sessions: Sequence[ConversationOverview], since: datetime) -> list[ConversationOverview]:
    chosen: list[ConversationOverview] = []
    messages = 0
    for each in sessions:
        if each.updated < since or len(chosen) == MAX_FILLED_SESSIONS:
            break
        messages += each.next_seq
        if chosen and messages > MAX_FILLED_MESSAGES:
            break
        if each.next_seq:
            chosen.append(each)
    return chosen


def _add_tools(tools: dict[str, tuple[int, int, int, int]], content: WindowContent) -> None:
    for part in content.tools:
        tokens, count, largest, above = tools.get(part.name, (0, 0, 0, 0))
        tools[part.name] = (
            tokens + part.tokens,
            count + part.messages,
            max(largest, part.largest),
            above + part.above,
        )


def plain_fills(filled: FilledWindows) -> dict[str, Any]:
    whole = max(1, filled.tokens)
    largest = sorted(filled.tools.items(), key=lambda item: -item[1][0])[:_MAX_TOOLS]
    one = filled.sessions == 1
    return {
        "sessions": filled.sessions,
        "messages": filled.messages,
        "tokens": filled.tokens,
        "parts": [
            {"name": name, "label": PART_LABELS[name], "tokens": tokens, "share": tokens / whole}
            for name, tokens in sorted(filled.parts.items(), key=lambda item: -item[1])
        ],
        "tools": [
            {"name": name, "tokens": tokens, "share": tokens / whole, "messages": count, "largest": biggest}
            for name, (tokens, count, biggest, _) in largest
        ],
        "about": (
            "what the window of the session holds that was used last"
            if one
            else f"what the windows of the {filled.sessions} sessions hold that were used last"
        ),
    }


# -- what would help most ----------------------------------------------------------------------------------------------


def hints(filled: FilledWindows, total: UsageTotal) -> list[dict[str, Any]]:
    """Hints, the largest saving first; each says how it was computed."""
    found = [*_bound_hints(filled), *_around_hints(filled), *_cache_hints(total)]
    return sorted(found, key=lambda hint: -hint["saves_tokens"])


def _bound_hints(filled: FilledWindows) -> list[dict[str, Any]]:
    """A hint for the tool whose results have the most tokens above `RESULT_BOUND`."""
    above = {name: figures[3] for name, figures in filled.tools.items()}
    name = max(above, key=lambda each: above[each], default=None)
    if name is None or above[name] < _LEAST_SHARE * max(1, filled.tokens):
        return []
    tokens, count, largest, saved = filled.tools[name]
    results = "1 result takes" if count == 1 else f"{count:,} results take"
    text = (
        f"Its {results} {tokens:,} tokens, {tokens / max(1, filled.tokens):.0%} of the windows; "
        f"the largest takes {largest:,}. Cut at {RESULT_BOUND:,} tokens each, {saved:,} tokens would be free "
        f"(tool_output.max_result_chars = {_BOUND_CHARS:,}; what is cut stays in the store, and is found by search)."
    )
    return [{"title": f"Bound the results of {name}", "text": text, "saves_tokens": saved, "saves": _LESS}]


def _around_hints(filled: FilledWindows) -> list[dict[str, Any]]:
    around = filled.parts.get("system", 0) + filled.parts.get("tools", 0)
    share = around / max(1, filled.tokens)
    if share < _MUCH_AROUND or not filled.sessions:
        return []
    each = around // filled.sessions
    text = (
        f"System prompts and definitions of tools take {share:.0%} of what is in the windows, about {each:,} tokens a "
        "session, in every request; a compaction never makes them smaller. Half of them would free "
        f"{around // 2:,} tokens: offer fewer tools, or shorten the prompt."
    )
    return [{"title": "Offer fewer tools", "text": text, "saves_tokens": around // 2, "saves": _LESS}]


def _cache_hints(total: UsageTotal) -> list[dict[str, Any]]:
    used = total.usage
    share = used.cache_read_tokens / used.prompt_tokens if used.prompt_tokens else 1.0
    # A model without a cache reads nothing from it, ever.
    if share >= _LOW_HITS or not used.cache_read_tokens + used.cache_write_tokens:
        return []
    saved = int((_GOOD_HITS - share) * used.prompt_tokens)
    text = (
        f"{share:.0%} of the prompt tokens were cached; long sessions reach {_GOOD_HITS:.0%}. That would be "
        f"{saved:,} tokens read from the cache, at a fraction of their price, and not sent anew: look for what changes "
        "near the beginning of prompts (a time, a list of files), and for pauses longer than the cache is kept."
    )
    return [{"title": "Keep the beginning of prompts as it is", "text": text, "saves_tokens": saved, "saves": _CHEAPER}]
