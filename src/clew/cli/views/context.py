"""How `clew context` looks: the bar, its legend, the largest messages, cost and remarks; and the same as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clew.cli.console import Console
from clew.cli.views.amounts import NO_PRICE, format_dollars, percent, plural
from clew.cli.views.tables import (
    BarStyle,
    bar_cells,
    fact_lines,
    free_cells,
    page_width,
    print_blocks,
    table_lines,
    window_bar,
)
from clew.cli.views.text import Align, clip, printable, printable_line, wrap
from clew.cli.window_usage import ContentKind, LargeMessage, WindowUsage

KIND_STYLES: dict[ContentKind, BarStyle] = {
    "system": BarStyle("blue", "S"),
    "tools": BarStyle("cyan", "T"),
    "user": BarStyle("green", "U"),
    "assistant": BarStyle("yellow", "A"),
    "reasoning": BarStyle("red", "R"),
    "tool results": BarStyle("magenta", "o"),
    "images": BarStyle("white", "I"),
}
FORMAT_NAMES = {
    "openai_chat": "OpenAI chat",
    "responses": "OpenAI Responses",
    "anthropic": "Anthropic",
    "gemini": "Gemini",
    "claude_code": "Claude Code",
    "codex": "Codex",
    "hermes": "Hermes",
}
MAX_REPAIRS = 5
MIN_WIDTH_FOR_COUNTS = 48
MAX_STRIP = 30
WORTH_MENTIONING = 0.2
_QUOTED = re.compile(r" ?'[^']*'")


@dataclass(frozen=True, slots=True)
class PromptCost:
    """What the prompt of one call costs, in US dollars."""

    uncached: float
    cached: float | None
    """All of it read from the cache; None where the model has no price for that."""
    checked: str
    """The day the price was looked up."""


@dataclass(frozen=True, slots=True)
class CountingMethod:
    """How the tokens were counted."""

    is_exact: bool
    text: str


@dataclass(frozen=True, slots=True)
class WindowSize:
    """How large the window is, and where that figure comes from."""

    tokens: int
    source: str
    text: str


@dataclass(frozen=True, slots=True)
class ReportedPrompt:
    """The prompt of the last call as its provider counted it, and as we do from what the file shows of it."""

    prompt_tokens: int
    counted: int
    index: int
    """Of the message that the call gave."""


@dataclass(frozen=True, slots=True)
class ContextReport:
    """All that `clew context` shows of a conversation."""

    source: str
    kind: str
    dialect: str
    messages: int
    model: str | None
    usage: WindowUsage
    window: WindowSize
    threshold: int | None
    """Where automatic compaction begins; None where it is off."""
    counting: CountingMethod
    reported: ReportedPrompt | None
    cost: PromptCost | None
    repairs: tuple[str, ...]

    @property
    def free(self) -> int:
        return self.window.tokens - self.usage.tokens


def print_context(report: ContextReport, console: Console) -> None:
    blocks = [_title(report, console), _bar(report, console), _legend(report, console)]
    if report.usage.largest:
        blocks.append(_largest(report, console))
    print_blocks([*blocks, _remarks(report, console)], console)


def context_json(report: ContextReport) -> dict[str, Any]:
    usage, cost, reported = report.usage, report.cost, report.reported
    return {
        "source": report.source,
        "kind": report.kind,
        "dialect": report.dialect,
        "model": report.model,
        "messages": report.messages,
        "tokens": usage.tokens,
        "exact": report.counting.is_exact,
        "counted": report.counting.text,
        "window": {"tokens": report.window.tokens, "source": report.window.source, "free": report.free},
        "threshold_tokens": report.threshold,
        "shares": [{"kind": share.kind, "tokens": share.tokens, "count": share.count} for share in usage.shares],
        "framing": usage.framing,
        "largest": [
            {"index": each.index, "role": each.role, "tool": each.tool, "tokens": each.tokens, "begins": each.opening}
            for each in usage.largest
        ],
        "reported": reported
        and {"prompt_tokens": reported.prompt_tokens, "counted": reported.counted, "index": reported.index},
        "cost_usd": cost and {"uncached": cost.uncached, "cached": cost.cached, "prices_of": cost.checked},
        "repairs": list(report.repairs),
    }


def _title(report: ContextReport, console: Console) -> Iterator[str]:
    origin = format_name(report.kind, report.dialect)
    facts = (plural(report.messages, "message"), origin, report.model or "no model named")
    yield console.style(clip(printable(report.source), page_width(console)), "bold")
    for line in wrap(console.sign(" · ", " - ").join(facts), page_width(console)):
        yield console.style(line, "dim")


def format_name(kind: str, dialect: str) -> str:
    """Which program wrote a file, or the dialect of its messages where that is not known."""
    name = dialect if kind in ("json", "jsonl") else kind
    return FORMAT_NAMES.get(name, name)


def _bar(report: ContextReport, console: Console) -> Iterator[str]:
    tokens, window = report.usage.tokens, report.window.tokens
    about = "" if report.counting.is_exact else "about "
    for line in wrap(f"{about}{tokens:,} of {window:,} tokens, {percent(tokens, window)}", page_width(console)):
        yield console.style(line, "bold")
    parts = [(KIND_STYLES[share.kind], share.tokens) for share in report.usage.shares]
    yield from window_bar(parts, tokens, window, report.threshold, console)


def _legend(report: ContextReport, console: Console) -> Iterator[str]:
    usage = report.usage
    rows = [
        (share.kind, f"{share.tokens:,}", percent(share.tokens, usage.tokens), _count_text(share.kind, share.count))
        for share in usage.shares
    ]
    free = abs(report.free)
    name = "free" if report.free >= 0 else "too much"
    row = (name, f"{free:,}", percent(free, report.window.tokens), "of the window")
    aligns: list[Align] = ["<", ">", ">", "<"] if console.width >= MIN_WIDTH_FOR_COUNTS else ["<", ">", ">"]
    *lines, last = table_lines([*rows, row], aligns, page_width(console) - 2)
    widest = max(map(len, (*lines, last)))
    room = max(0, min(MAX_STRIP, console.width - 8 - widest))
    longest = max((share.tokens for share in usage.shares), default=0) or 1
    for share, line in zip(usage.shares, lines, strict=True):
        style = KIND_STYLES[share.kind]
        strip = bar_cells(style, max(min(1, room), share.tokens * room // longest), console)
        yield f"{bar_cells(style, 1, console)} {line.ljust(widest)}  {strip}".rstrip()
    if report.free >= 0:
        yield f"{console.style(free_cells(1, console), 'dim')} {last}"
    else:
        yield console.style(f"! {last}", "bold", "red")


def _largest(report: ContextReport, console: Console) -> Iterator[str]:
    names = [str(index) for index in range(report.messages)]
    rows = largest_rows(report.usage.largest, names, report.usage.tokens)
    aligns: tuple[Align, ...] = (">", "<", "<", ">", ">", "<")
    head, *lines = table_lines([("#", "role", "tool", "tokens", "", "begins"), *rows], aligns, page_width(console))
    yield console.style("largest messages", "bold")
    yield console.style(head, "dim")
    yield from lines


def largest_rows(
    largest: Sequence[LargeMessage], names: Sequence[str], whole: int, max_tool: int = 20
) -> list[tuple[str, ...]]:
    """Rows of a table of large messages; `names` are those of all messages, shares are of `whole` tokens."""
    return [
        (
            names[each.index],
            each.role,
            clip(printable(each.tool or ""), max_tool),
            f"{each.tokens:,}",
            percent(each.tokens, whole),
            printable_line(each.opening),
        )
        for each in largest
    ]


def _remarks(report: ContextReport, console: Console) -> Iterator[str]:
    facts = [("window", f"{report.window.tokens:,}, {report.window.text}"), ("counted", report.counting.text)]
    if report.reported:
        facts.append(("reported", _reported_text(report.reported)))
    facts.append(("cost", _cost_text(report)))
    facts.append(("repairs", f"{len(report.repairs):,} needed" if report.repairs else "none needed"))
    yield from fact_lines(facts, console, names=8, gap=1)
    for line in _group_repairs(report.repairs)[:MAX_REPAIRS]:
        yield f"{'':8} {clip(printable(line), console.width - 13)}"


def _group_repairs(repairs: Sequence[str]) -> list[str]:
    """Repairs of the same kind on one line, the most frequent first."""
    groups: dict[str, list[str]] = {}
    for repair in repairs:
        where, _, what = repair.partition(": ")
        groups.setdefault(_QUOTED.sub("", what), []).append(where.removeprefix("message "))
    lines = []
    for what, found in sorted(groups.items(), key=lambda group: -len(group[1])):
        numbers = list(dict.fromkeys(found))
        shown = ", ".join(numbers[:3]) + (", ..." if len(numbers) > 3 else "")
        lines.append(f"{len(found)} x {what} (message{'s' if len(numbers) > 1 else ''} {shown})")
    return lines


def _reported_text(reported: ReportedPrompt) -> str:
    text = f"{reported.prompt_tokens:,} by the provider for message {reported.index}, {reported.counted:,} counted here"
    unseen = reported.prompt_tokens - reported.counted
    hidden = unseen > reported.prompt_tokens * WORTH_MENTIONING
    return f"{text}: the rest, mostly system prompt and tools, is not in the file" if hidden else text


def _cost_text(report: ContextReport) -> str:
    if report.model is None:
        return f"{NO_PRICE}: no model is named"
    if report.cost is None:
        return f"{NO_PRICE} is known for {report.model}"
    cached = "" if report.cost.cached is None else f", {format_dollars(report.cost.cached)} cached"
    checked = f" (prices of {report.cost.checked})" if report.cost.checked else ""
    return f"one call's prompt {format_dollars(report.cost.uncached)}{cached}{checked}"


def _count_text(kind: ContentKind, count: int) -> str:
    return plural(count, {"tools": "tool", "images": "image"}.get(kind, "message"))
