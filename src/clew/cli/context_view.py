"""How `clew context` looks: the bar, its legend, the largest messages, cost and remarks; and the same as JSON.

Gets a finished `Report` and decides nothing but layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from clew.cli.output import Align, Console, arrow_under, clipped, columns, printable, shares, table
from clew.cli.window_use import Kind, WindowUse

# A colour where there are colours, a letter where there are none.
LOOKS: dict[Kind, tuple[str, str]] = {
    "system": ("blue", "S"),
    "tools": ("cyan", "T"),
    "user": ("green", "U"),
    "assistant": ("yellow", "A"),
    "reasoning": ("red", "R"),
    "tool results": ("magenta", "o"),
    "images": ("white", "I"),
}
NAMES = {
    "openai_chat": "OpenAI chat",
    "responses": "OpenAI Responses",
    "anthropic": "Anthropic",
    "claude_code": "Claude Code",
    "codex": "Codex",
    "hermes": "Hermes",
}
MARGIN = "  "
MOST_REPAIRS_SHOWN = 5
LONGEST_STRIP = 30
WORTH_MENTIONING = 0.2
_QUOTED = re.compile(r" ?'[^']*'")


@dataclass(frozen=True, slots=True)
class Cost:
    """What the prompt of one call costs, in US dollars."""

    uncached: float
    cached: float | None
    """All of it read from the cache; None where the model has no price for that."""
    checked: str
    """The day the price was looked up."""


@dataclass(frozen=True, slots=True)
class Counting:
    """How the tokens were counted."""

    is_exact: bool
    words: str


@dataclass(frozen=True, slots=True)
class WindowSize:
    """How large the window is, and who says so."""

    tokens: int
    source: str
    words: str


@dataclass(frozen=True, slots=True)
class Reported:
    """The prompt of the last call as its provider counted it, and as we do from what the file shows of it."""

    prompt_tokens: int
    counted: int
    index: int
    """Of the message that the call gave."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that `clew context` has to say about a conversation."""

    source: str
    kind: str
    dialect: str
    messages: int
    model: str | None
    use: WindowUse
    window: WindowSize
    threshold: int | None
    """Where automatic compaction begins; None where it is off."""
    counting: Counting
    reported: Reported | None
    cost: Cost | None
    repairs: tuple[str, ...]

    @property
    def free(self) -> int:
        return self.window.tokens - self.use.tokens


def say_report(report: Report, console: Console) -> None:
    """Print it for people: blocks with a blank line between them."""
    blocks = [_title(report, console), _bar(report, console), _legend(report, console)]
    if report.use.largest:
        blocks.append(_largest(report, console))
    blocks.append(_remarks(report, console))
    for number, block in enumerate(blocks):
        if number:
            console.say()
        for line in block:
            console.say((MARGIN + line).rstrip())


def as_json(report: Report) -> dict[str, Any]:
    """The same for programs."""
    use, cost, reported = report.use, report.cost, report.reported
    return {
        "source": report.source,
        "kind": report.kind,
        "dialect": report.dialect,
        "model": report.model,
        "messages": report.messages,
        "tokens": use.tokens,
        "exact": report.counting.is_exact,
        "counted": report.counting.words,
        "window": {"tokens": report.window.tokens, "source": report.window.source, "free": report.free},
        "threshold_tokens": report.threshold,
        "shares": [{"kind": share.kind, "tokens": share.tokens, "count": share.count} for share in use.shares],
        "framing": use.framing,
        "largest": [
            {"index": each.index, "role": each.role, "tool": each.tool, "tokens": each.tokens, "begins": each.opening}
            for each in use.largest
        ],
        "reported": reported
        and {"prompt_tokens": reported.prompt_tokens, "counted": reported.counted, "index": reported.index},
        "cost_usd": cost and {"uncached": cost.uncached, "cached": cost.cached, "prices_of": cost.checked},
        "repairs": list(report.repairs),
    }


def _title(report: Report, console: Console) -> Iterator[str]:
    facts = (_counted(report.messages, "message"), _origin(report), report.model or "no model named")
    name = printable(report.source)
    yield console.paint(clipped(name, console.width - 4), "bold")
    yield console.paint(printable(" · ".join(facts) if console.unicode else " - ".join(facts)), "dim")


def _origin(report: Report) -> str:
    """Who wrote the file, or the wire its messages are of where nobody put a name to it."""
    name = report.dialect if report.kind in ("json", "jsonl") else report.kind
    return NAMES.get(name, name)


def _bar(report: Report, console: Console) -> Iterator[str]:
    cells = console.width - 2 * len(MARGIN)
    whole = max(report.window.tokens, report.use.tokens)
    widths = shares([share.tokens / whole for share in report.use.shares], cells)
    pieces = [_cells(share.kind, width, console) for share, width in zip(report.use.shares, widths, strict=True)]
    filled = (
        f"{_tokens(report)} of {report.window.tokens:,} tokens, {_percent(report.use.tokens, report.window.tokens)}"
    )
    yield console.paint(filled, "bold")
    yield "".join(pieces) + console.paint(("░" if console.unicode else ".") * (cells - sum(widths)), "dim")
    if report.free < 0:
        yield console.paint(arrow_under(report.window.tokens / whole, "the window ends here", cells, console), "red")
    elif report.threshold is not None:
        words = f"compaction begins at {report.threshold:,}"
        yield console.paint(arrow_under(report.threshold / whole, words, cells, console), "dim")


def _cells(kind: Kind, width: int, console: Console) -> str:
    color, letter = LOOKS[kind]
    return console.paint("█" * width, color) if console.colors else letter * width


def _legend(report: Report, console: Console) -> Iterator[str]:
    use = report.use
    rows: list[tuple[str, ...]] = [
        (share.kind, f"{share.tokens:,}", _percent(share.tokens, use.tokens), _things(share.kind, share.count))
        for share in use.shares
    ]
    rows.append(_rest(report))
    lines = table(rows, ("<", ">", ">", "<"), console.width - 6)
    room = console.width - 8 - max(columns(line) for line in lines)
    longest = max((share.tokens for share in use.shares), default=0) or 1
    for share, line in zip(use.shares, lines, strict=False):
        strip = _cells(share.kind, max(1, share.tokens * min(room, LONGEST_STRIP) // longest), console)
        yield f"{_cells(share.kind, 1, console)} {line.ljust(max(map(len, lines)))}  {strip}"
    if report.free >= 0:
        yield f"{console.paint('░' if console.unicode else '.', 'dim')} {lines[-1]}"
    else:
        yield console.paint(f"! {lines[-1]}", "bold", "red")


def _rest(report: Report) -> tuple[str, str, str, str]:
    """The row for what is left of the window, or what is too much for it."""
    share = _percent(abs(report.free), report.window.tokens)
    if report.free >= 0:
        return "free", f"{report.free:,}", share, "of the window"
    return "too much", f"{-report.free:,}", share, "of the window"


def _largest(report: Report, console: Console) -> Iterator[str]:
    heading = ("#", "role", "tool", "tokens", "", "begins")
    rows = [heading] + [
        (
            str(each.index),
            each.role,
            clipped(printable(each.tool or ""), 20),
            f"{each.tokens:,}",
            _percent(each.tokens, report.use.tokens),
            " ".join(printable(each.opening).split()),
        )
        for each in report.use.largest
    ]
    aligns: tuple[Align, ...] = (">", "<", "<", ">", ">", "<")
    head, *lines = table(rows, aligns, console.width - 2 * len(MARGIN))
    yield console.paint("largest messages", "bold")
    yield console.paint(head, "dim")
    yield from lines


def _remarks(report: Report, console: Console) -> Iterator[str]:
    facts = [("window", f"{report.window.tokens:,}, {report.window.words}"), ("counted", report.counting.words)]
    if report.reported:
        facts.append(("reported", _real(report.reported)))
    facts.append(("cost", _cost(report)))
    facts.append(("repairs", f"{len(report.repairs):,} needed" if report.repairs else "none needed"))
    for name, fact in facts:
        first, *more = wrap(printable(fact), console.width - 13) or [""]
        yield f"{console.paint(f'{name:<8}', 'dim')} {first}"
        yield from (f"{'':8} {line}" for line in more)
    for line in _grouped(report.repairs)[:MOST_REPAIRS_SHOWN]:
        yield f"{'':8} {clipped(printable(line), console.width - 13)}"


def _grouped(repairs: Sequence[str]) -> list[str]:
    """Repairs of the same kind on one line, the most frequent first: thirty ids in a row tell a person nothing."""
    groups: dict[str, list[str]] = {}
    for repair in repairs:
        where, _, what = repair.partition(": ")
        groups.setdefault(_QUOTED.sub("", what), []).append(where.removeprefix("message "))
    lines = []
    for what, all_of_them in sorted(groups.items(), key=lambda group: -len(group[1])):
        places = list(dict.fromkeys(all_of_them))
        shown = ", ".join(places[:3]) + (", ..." if len(places) > 3 else "")
        lines.append(f"{len(all_of_them)} x {what} (message{'s' if len(places) > 1 else ''} {shown})")
    return lines


def _real(reported: Reported) -> str:
    words = (
        f"{reported.prompt_tokens:,} by the provider for message {reported.index}, {reported.counted:,} counted here"
    )
    unseen = reported.prompt_tokens - reported.counted
    hidden = unseen > reported.prompt_tokens * WORTH_MENTIONING
    return f"{words}: the rest, mostly system prompt and tools, is not in the file" if hidden else words


def _cost(report: Report) -> str:
    if report.model is None:
        return "unknown: no model is named"
    if report.cost is None:
        return f"unknown: no price for {report.model}"
    cached = "" if report.cost.cached is None else f", {_dollars(report.cost.cached)} cached"
    checked = f" (prices of {report.cost.checked})" if report.cost.checked else ""
    return f"one call's prompt {_dollars(report.cost.uncached)}{cached}{checked}"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def _tokens(report: Report) -> str:
    return f"{'' if report.counting.is_exact else 'about '}{report.use.tokens:,}"


def _percent(tokens: int, window: int) -> str:
    share = 100 * tokens / max(1, window)
    return "<1%" if 0 < share < 1 else f"{share:,.0f}%"


def _things(kind: Kind, count: int) -> str:
    return _counted(count, {"tools": "tool", "images": "image"}.get(kind, "message"))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
