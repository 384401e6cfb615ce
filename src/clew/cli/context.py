"""`clew context FILE`: what fills the window of a conversation, and what a call with it costs.

`measure_window` and the tables are also those of `/context` in a chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew.cli.console import Console
from clew.cli.options import command, file_argument, model_option, option, parse_count, store_options, tokens_option
from clew.cli.pages import (
    NO_PRICE,
    BarStyle,
    bar_cells,
    fact_lines,
    format_dollars,
    free_cells,
    headed_table,
    json_fields,
    page_width,
    percent,
    plural,
    print_blocks,
    styled_lines,
    table_lines,
    title_lines,
    window_bar,
)
from clew.cli.store_access import load_settings
from clew.cli.text import clip, printable, printable_line
from clew.config import LoadedConfig, learnt_limits_path
from clew.errors import InvalidMessage
from clew.messages import Message, declarations_of, repair
from clew.tokens.window_shares import ContentKind, ContentShare, LargeMessage, WindowUsage, measure_window

if TYPE_CHECKING:
    from clew.importers import Transcript
    from clew.tokens import Window

EXAMPLES = """\
FILE is a JSON list of messages, a JSON object with messages (and system, tools),
JSONL with one message a line, or a session file of Claude Code, Codex, Gemini CLI,
opencode, Hermes or pi; gzipped or not.

examples:
  clew context session.jsonl
  clew context session.jsonl --model claude-sonnet-4-5 --window 200k
  cat request.json | clew context - --json
"""
DEFAULT_TOP = 8
ASSUMED = "assumed: this model is not in the table; set it by --window TOKENS or model.context_length"
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
MAX_TOOL = 20
WORTH_MENTIONING = 0.2
_QUOTED = re.compile(r" ?'[^']*'")


@command(EXAMPLES)
@file_argument
@model_option
@tokens_option("--window", "the size of the window: 200000 or 200k")
@option(
    "--top",
    "N",
    f"how many of the largest messages to list (default {DEFAULT_TOP})",
    type=parse_count,
    default=str(DEFAULT_TOP),
)
@store_options
def context_command(console: Console, file: str, model: str | None, window: int | None, top: int) -> int:
    # Late, because reading and counting take longer to import than `clew context --help` should.
    from clew.importers import read_transcript
    from clew.tokens import count_each

    loaded = load_settings(console)
    console.progress(f"reading {file} ...")
    transcript = read_transcript(file)
    console.notes(transcript.notices)
    model = model or transcript.model or loaded.settings.model.name
    console.progress(f"counting {len(transcript.messages):,} messages ...")
    sizes = count_each(transcript.messages, model=model)
    usage, is_exact, counted = _measure(transcript, sizes, model, top)
    size = _window_size(window, model, loaded, console)
    compression = loaded.settings.compression
    report = ContextReport(
        source="standard input" if file == "-" else file,
        kind=transcript.kind,
        dialect=transcript.dialect,
        messages=len(transcript.messages),
        model=model,
        usage=usage,
        window=size,
        threshold=int(size.tokens * compression.threshold) if compression.enabled else None,
        is_exact=is_exact,
        counted=counted,
        reported=_last_reported(transcript, sizes, usage),
        cost=_cost(usage.tokens, model, loaded),
        repairs=_repairs(transcript.messages),
    )
    console.clear_progress()
    return console.show(context_json(report), lambda: print_context(report, console))


def _measure(
    transcript: Transcript, sizes: Sequence[int], model: str | None, top: int
) -> tuple[WindowUsage, bool, str]:
    """What fills the window, whether that is exact, and how it was counted."""
    from clew.tokens import counter_for

    messages, tools, counter = transcript.messages, transcript.tools, counter_for(model)
    functions = sum(len(declarations_of(tool)) or 1 for tool in tools)
    defined = ContentShare("tools", counter.tools(tools), functions) if tools else None
    usage = measure_window(messages, sizes, counter.message, defined, top, counter.request)
    # A long history is sampled and scaled, which the largest message shows.
    largest = max(range(len(sizes)), key=sizes.__getitem__, default=None)
    sampled = largest is not None and counter.message(messages[largest]) != sizes[largest]
    if model is None:
        return usage, False, f"with {counter.family.vocabulary or 'an estimate'}, since no model is named"
    if sampled:
        return usage, False, f"estimated, and corrected by a sample: {counter.basis}"
    if counter.exact:
        return usage, True, f"exactly: {counter.basis}"
    if counter.has_vocabulary:
        return usage, False, f"with the nearest {counter.basis}"
    return usage, False, f"estimated: {counter.basis.removeprefix('estimate, ')}"


def _window_size(asked: int | None, model: str | None, loaded: LoadedConfig, console: Console) -> WindowSize:
    if asked is not None:
        return WindowSize(asked, "flag", "from --window")
    found = find_window(model, loaded, console.environ)
    if found.source == "stated" and found.notice:
        console.note(found.notice)
    texts = {
        "config": f"from model.context_length ({loaded.origin_of('model.context_length')})",
        "stated": "as the provider stated in an error",
        "table": "from the table that ships with Clew",
        "default": "assumed: no model is named; --model M names one" if model is None else ASSUMED,
    }
    return WindowSize(found.tokens, found.source, texts.get(found.source, found.source))


def _last_reported(transcript: Transcript, sizes: Sequence[int], usage: WindowUsage) -> ReportedPrompt | None:
    """The newest real figure in the file, if it has any."""
    from clew.usage import normalize_usage

    for index, raw in reversed(transcript.usage):
        prompt = normalize_usage(raw).prompt_tokens
        if prompt:
            around = usage.tokens - sum(sizes)
            return ReportedPrompt(prompt, around + sum(sizes[:index]), index)
    return None


def _cost(tokens: int, model: str | None, loaded: LoadedConfig) -> PromptCost | None:
    from clew.usage import CanonicalUsage, cost_of, price_of

    settings = loaded.settings.model
    provider = settings.provider if settings.name == model else None
    price = price_of(model, provider, prompt_tokens=tokens) if model else None
    if model is None or price is None:
        return None
    uncached = cost_of(CanonicalUsage(input_tokens=tokens), model, provider)
    cached = (
        cost_of(CanonicalUsage(cache_read_tokens=tokens), model, provider) if price.cache_read is not None else None
    )
    if uncached is None:
        return None
    return PromptCost(float(uncached.total), None if cached is None else float(cached.total), price.checked)


def _repairs(messages: Sequence[Message]) -> tuple[str, ...]:
    """What the history would need before it could be sent, one line each."""
    try:
        found = repair(messages, open_end=True).repairs
    except InvalidMessage as error:
        return (str(error),)
    return tuple(f"message {each.index}: {each.problem}: {each.remedy}" for each in found)


@dataclass(frozen=True, slots=True)
class PromptCost:
    """What the prompt of one call costs, in US dollars."""

    uncached: float
    cached: float | None
    """All of it read from the cache; None where the model has no price for that."""
    checked: str
    """The day the price was looked up."""


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
    is_exact: bool
    counted: str
    """How."""
    reported: ReportedPrompt | None
    cost: PromptCost | None
    repairs: tuple[str, ...]

    @property
    def free(self) -> int:
        return self.window.tokens - self.usage.tokens


def print_context(report: ContextReport, console: Console) -> None:
    usage, window = report.usage, report.window.tokens
    facts = (plural(report.messages, "message"), format_name(report.kind, report.dialect), report.model)
    about = "" if report.is_exact else "about "
    shares = [
        WindowShare(KIND_STYLES[it.kind], it.kind, it.tokens, usage.tokens, _count_text(it.kind, it.count))
        for it in usage.shares
    ]
    blocks = [
        title_lines(report.source, (fact or "no model named" for fact in facts), console),
        share_bar(
            shares, usage.tokens, window, report.threshold, f"{about}{usage.tokens:,} of {window:,} tokens", console
        ),
        share_lines(shares, report.free, window, console),
    ]
    if usage.largest:
        blocks.append(largest_lines(usage.largest, [str(at) for at in range(report.messages)], usage.tokens, console))
    print_blocks([*blocks, _remarks(report, console)], console)


def context_json(report: ContextReport) -> dict[str, Any]:
    usage, cost, reported = report.usage, report.cost, report.reported
    return {
        **json_fields(report, "source", "kind", "dialect", "model", "messages"),
        "tokens": usage.tokens,
        "exact": report.is_exact,
        "counted": report.counted,
        "window": {"tokens": report.window.tokens, "source": report.window.source, "free": report.free},
        "threshold_tokens": report.threshold,
        "shares": [json_fields(share, "kind", "tokens", "count") for share in usage.shares],
        "framing": usage.framing,
        "largest": [
            {**json_fields(each, "index", "role", "tool", "tokens"), "begins": each.opening} for each in usage.largest
        ],
        "reported": reported and json_fields(reported, "prompt_tokens", "counted", "index"),
        "cost_usd": cost and {"uncached": cost.uncached, "cached": cost.cached, "prices_of": cost.checked},
        "repairs": list(report.repairs),
    }


def format_name(kind: str, dialect: str) -> str:
    """Which program wrote a file, or the dialect of its messages where that is not known."""
    name = dialect if kind in ("json", "jsonl") else kind
    return FORMAT_NAMES.get(name, name)


@dataclass(frozen=True, slots=True)
class WindowShare:
    """A part of what fills a window."""

    style: BarStyle
    name: str
    tokens: int
    whole: int
    """What its percentage is of."""
    text: str


def share_bar(
    shares: Sequence[WindowShare], tokens: int, window: int, threshold: int | None, about: str, console: Console
) -> Iterator[str]:
    """How full a window is, in figures and as a bar."""
    yield from styled_lines(f"{about}, {percent(tokens, window)}", console, "bold")
    yield from window_bar([(share.style, share.tokens) for share in shares], tokens, window, threshold, console)


def share_lines(
    shares: Sequence[WindowShare], free: int, window: int, console: Console, remedy: str = ""
) -> Iterator[str]:
    """Each share of a window with a strip of its size, and what is free; `remedy` where the window is too full."""
    rows = [(it.name, f"{it.tokens:,}", percent(it.tokens, it.whole), it.text) for it in shares]
    is_free = free >= 0
    left = (f"{abs(free):,}", percent(abs(free), window), "of the window" if is_free or not remedy else remedy)
    rows.append(("free" if is_free else "too much", *left))
    aligns = "<>><" if console.width >= MIN_WIDTH_FOR_COUNTS else "<>>"
    *lines, last = table_lines(rows, aligns, page_width(console) - 2)
    widest = max(map(len, (*lines, last)))
    room = max(0, min(MAX_STRIP, console.width - 8 - widest))
    longest = max((share.tokens for share in shares), default=0) or 1
    for share, line in zip(shares, lines, strict=True):
        strip = bar_cells(share.style, max(min(1, room, share.tokens), share.tokens * room // longest), console)
        yield f"{bar_cells(share.style, 1, console)} {line.ljust(widest)}  {strip}".rstrip()
    if is_free:
        yield f"{console.style(free_cells(1, console), 'dim')} {last}"
    else:
        yield console.style(f"! {last}", "bold", "red")


def largest_lines(largest: Sequence[LargeMessage], names: Sequence[str], whole: int, console: Console) -> Iterator[str]:
    """A table of large messages; `names` are those of all messages, shares are of `whole` tokens."""
    rows = [("#", "role", "tool", "tokens", "", "begins")] + [
        (
            names[each.index],
            each.role,
            clip(printable(each.tool or ""), MAX_TOOL),
            f"{each.tokens:,}",
            percent(each.tokens, whole),
            printable_line(each.opening),
        )
        for each in largest
    ]
    yield console.style("largest messages", "bold")
    yield from headed_table(rows, "><<>><", console)


def _remarks(report: ContextReport, console: Console) -> Iterator[str]:
    facts = [("window", f"{report.window.tokens:,}, {report.window.text}"), ("counted", report.counted)]
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
    for needed in repairs:
        where, _, what = needed.partition(": ")
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


def find_window(model: str | None, config: LoadedConfig, environ: Mapping[str, str]) -> Window:
    """The window of a model, by the config, what was learnt before, and the table."""
    # Late, because counting takes longer to import than `--help` should.
    from clew.tokens import LearntLimits, window_of

    settings = config.settings.model
    # The config is about its own model; another one has its own window.
    is_configured = settings.name in (None, model)
    return window_of(
        model,
        base_url=settings.base_url if is_configured else None,
        configured=settings.context_length if is_configured else None,
        learnt=LearntLimits(learnt_limits_path(environ)),
    )
