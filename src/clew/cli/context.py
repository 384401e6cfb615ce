"""`clew context FILE` and `/context` in a chat: what fills the window of a conversation, and what a call costs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clew.cli.console import Console
from clew.cli.options import command, file_argument, model_option, option, parse_count, store_options, tokens_option
from clew.cli.pages import (
    NO_PRICE,
    WINDOW_SOURCES,
    BarStyle,
    format_dollars,
    json_fields,
    percent,
    plural,
    table_lines,
    window_source,
)
from clew.cli.store_access import load_settings
from clew.cli.text import clip, printable, printable_line
from clew.config import LoadedConfig, learnt_limits_path
from clew.errors import InvalidMessage
from clew.messages import Message, declarations_of, repair, text_of
from clew.tokens.window_contents import ContentKind, ContentShare, LargeMessage, WindowUsage, measure_window

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.importers import Transcript
    from clew.tokens import Window
    from clew.turn import ContextPart, Conversation, NextMessageCost

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
    messages, model = transcript.messages, model or transcript.model or loaded.settings.model.name
    console.progress(f"counting {len(messages):,} messages ...")
    sizes = count_each(messages, model=model)
    usage, is_exact, counted = _measure(transcript, sizes, model, top)
    size, source, source_text = _window_size(window, model, loaded, console)
    compression = loaded.settings.compression
    threshold = int(size * compression.threshold) if compression.enabled else None
    reported, cost = _last_reported(transcript, sizes, usage), _cost(usage.tokens, model, loaded)
    repairs = _repairs(messages)
    console.clear_progress()
    named = {
        "source": "standard input" if file == "-" else file,
        "kind": transcript.kind,
        "dialect": transcript.dialect,
        "model": model,
        "messages": len(messages),
    }
    fields = {
        **named,
        "tokens": usage.tokens,
        "exact": is_exact,
        "counted": counted,
        "window": {"tokens": size, "source": source, "free": size - usage.tokens},
        "threshold_tokens": threshold,
        "shares": [json_fields(share, "kind", "tokens", "count") for share in usage.shares],
        "framing": usage.framing,
        "largest": [
            {**json_fields(each, "index", "role", "tool", "tokens"), "begins": each.opening} for each in usage.largest
        ],
        "reported": reported,
        "cost_usd": cost,
        "repairs": repairs,
    }
    facts = [("window", f"{size:,}, {source_text}"), ("counted", counted)]
    facts += [("reported", _reported_text(**reported))] if reported else []
    facts += [("cost", _cost_text(model, cost)), ("repairs", f"{len(repairs):,} needed" if repairs else "none needed")]
    shares = tuple(
        WindowShare(KIND_STYLES[it.kind], it.kind, it.tokens, usage.tokens, _count_text(it.kind, it.count))
        for it in usage.shares
    )
    about = f"{'' if is_exact else 'about '}{usage.tokens:,} of {size:,} tokens"
    page = WindowPage(shares, usage.tokens, size, threshold, about, usage.largest, range(len(messages)), usage.tokens)

    def draw() -> None:
        origin = format_name(transcript.kind, transcript.dialect)
        about = (plural(len(messages), "message"), origin, model or "no model named")
        lines = [
            f"{'':8} {clip(printable(line), console.width - 13)}" for line in _group_repairs(repairs)[:MAX_REPAIRS]
        ]
        remarks = [*console.fact_lines(facts, names=8, gap=1), *lines]
        console.print_blocks([console.title_lines(str(named["source"]), about), *page.blocks(console), remarks])

    return console.show(fields, draw)


def _measure(
    transcript: Transcript, sizes: Sequence[int], model: str | None, top: int
) -> tuple[WindowUsage, bool, str]:
    """The usage of the window, whether it is exact, and how it was counted."""
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


def _window_size(asked: int | None, model: str | None, loaded: LoadedConfig, console: Console) -> tuple[int, str, str]:
    """The size of the window and its source, as JSON and in words."""
    if asked is not None:
        return asked, "flag", "from --window"
    found = find_window(model, loaded, console.environ)
    if found.source == "stated" and found.notice:
        console.note(found.notice)
    texts = {
        **WINDOW_SOURCES,
        "config": f"from model.context_length ({loaded.origin_of('model.context_length')})",
        "default": "assumed: no model is named; --model M names one" if model is None else ASSUMED,
    }
    return found.tokens, found.source, texts[found.source]


def _last_reported(transcript: Transcript, sizes: Sequence[int], usage: WindowUsage) -> dict[str, int] | None:
    """The newest prompt that a provider counted, our count of it, and the index of the reply."""
    from clew.usage import normalize_usage

    for index, raw in reversed(transcript.usage):
        prompt = normalize_usage(raw).prompt_tokens
        if prompt:
            around = usage.tokens - sum(sizes)
            return {"prompt_tokens": prompt, "counted": around + sum(sizes[:index]), "index": index}
    return None


def _cost(tokens: int, model: str | None, loaded: LoadedConfig) -> dict[str, Any] | None:
    """The cost of the prompt of one call, in dollars; `cached` is None without a cache price."""
    from clew.usage import CanonicalUsage, cost_of, price_of

    settings = loaded.settings.model
    provider = settings.provider if settings.name == model else None
    price = price_of(model, provider, prompt_tokens=tokens) if model else None
    uncached = cost_of(CanonicalUsage(input_tokens=tokens), model, provider) if model and price else None
    if model is None or price is None or uncached is None:
        return None
    cached = cost_of(CanonicalUsage(cache_read_tokens=tokens), model, provider) if price.cache_read else None
    return {
        "uncached": float(uncached.total),
        "cached": None if cached is None else float(cached.total),
        "prices_of": price.checked,
    }


def _repairs(messages: Sequence[Message]) -> list[str]:
    """Repairs that the history needs before it can be sent, one line each."""
    try:
        found = repair(messages, open_end=True).repairs
    except InvalidMessage as error:
        return [str(error)]
    return [f"message {each.index}: {each.problem}: {each.remedy}" for each in found]


def format_name(kind: str, dialect: str) -> str:
    """The program that wrote a file, or else the dialect of its messages."""
    name = dialect if kind in ("json", "jsonl") else kind
    return FORMAT_NAMES.get(name, name)


@dataclass(frozen=True, slots=True)
class WindowShare:
    """A part of the used window."""

    style: BarStyle
    name: str
    tokens: int
    whole: int
    """The base of its percentage."""
    text: str


@dataclass(frozen=True, slots=True)
class WindowPage:
    """The usage of a window as a page."""

    shares: tuple[WindowShare, ...]
    tokens: int
    window: int
    threshold: int | None
    """The threshold of automatic compaction; None if it is off."""
    about: str
    """The usage in words."""
    largest: Sequence[LargeMessage]
    names: Sequence[object]
    """Names of all messages."""
    whole: int
    """The base of the percentages of the largest messages."""
    remedy: str = ""
    """Advice if the window is too full."""

    @property
    def free(self) -> int:
        return self.window - self.tokens

    def blocks(self, console: Console) -> Iterator[Iterator[str]]:
        """The bar, the shares and the largest messages."""
        yield self._bar(console)
        yield self._share_lines(console)
        if self.largest:
            yield self._largest_lines(console)

    def _bar(self, console: Console) -> Iterator[str]:
        yield from console.styled_lines(f"{self.about}, {percent(self.tokens, self.window)}", "bold")
        parts = [(share.style, share.tokens) for share in self.shares]
        yield from console.window_bar(parts, self.tokens, self.window, self.threshold)

    def _share_lines(self, console: Console) -> Iterator[str]:
        """Each share with a bar of its size, and the free tokens."""
        rows = [(it.name, f"{it.tokens:,}", percent(it.tokens, it.whole), it.text) for it in self.shares]
        is_free = self.free >= 0
        where = "of the window" if is_free or not self.remedy else self.remedy
        left = (f"{abs(self.free):,}", percent(abs(self.free), self.window), where)
        rows.append(("free" if is_free else "too much", *left))
        aligns = "<>><" if console.width >= MIN_WIDTH_FOR_COUNTS else "<>>"
        *lines, last = table_lines(rows, aligns, console.page_width - 2)
        widest = max(map(len, (*lines, last)))
        room = max(0, min(MAX_STRIP, console.width - 8 - widest))
        longest = max((share.tokens for share in self.shares), default=0) or 1
        for share, line in zip(self.shares, lines, strict=True):
            cells = max(min(1, room, share.tokens), share.tokens * room // longest)
            strip = console.bar_cells(share.style, cells)
            yield f"{console.bar_cells(share.style, 1)} {line.ljust(widest)}  {strip}".rstrip()
        if is_free:
            yield f"{console.style(console.free_cells(1), 'dim')} {last}"
        else:
            yield console.style(f"! {last}", "bold", "red")

    def _largest_lines(self, console: Console) -> Iterator[str]:
        rows = [("#", "role", "tool", "tokens", "", "begins")] + [
            (
                str(self.names[each.index]),
                each.role,
                clip(printable(each.tool or ""), MAX_TOOL),
                f"{each.tokens:,}",
                percent(each.tokens, self.whole),
                printable_line(each.opening),
            )
            for each in self.largest
        ]
        yield console.style("largest messages", "bold")
        yield from console.headed_table(rows, "><<>><")


def _group_repairs(repairs: Sequence[str]) -> list[str]:
    """Repairs grouped by kind, the most frequent first."""
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


def _reported_text(prompt_tokens: int, counted: int, index: int) -> str:
    text = f"{prompt_tokens:,} by the provider for message {index}, {counted:,} counted here"
    is_hidden = prompt_tokens - counted > prompt_tokens * WORTH_MENTIONING
    return f"{text}: the rest, mostly system prompt and tools, is not in the file" if is_hidden else text


def _cost_text(model: str | None, cost: Mapping[str, Any] | None) -> str:
    if model is None:
        return f"{NO_PRICE}: no model is named"
    if cost is None:
        return f"{NO_PRICE} is known for {model}"
    cached = "" if cost["cached"] is None else f", {format_dollars(cost['cached'])} cached"
    checked = f" (prices of {cost['prices_of']})" if cost["prices_of"] else ""
    return f"one call's prompt {format_dollars(cost['uncached'])}{cached}{checked}"


def _count_text(kind: ContentKind, count: int) -> str:
    return plural(count, {"tools": "tool", "images": "image"}.get(kind, "message"))


def find_window(model: str | None, config: LoadedConfig, environ: Mapping[str, str]) -> Window:
    """The window of a model from the config, learnt limits, or the table."""
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


# -- in a chat ---------------------------------------------------------------------------------------------------------

MAX_LARGEST = 5
PART_STYLES = {
    "system": BarStyle("blue", "S"),
    "memory": BarStyle("yellow", "M"),
    "pinned": BarStyle("red", "P"),
    "tools": BarStyle("cyan", "t"),
    "head": BarStyle("green", "H"),
    "summary": BarStyle("magenta", "#"),
    "middle": BarStyle("white", "-", "▒"),
    "tail": BarStyle("green", "T"),
}
PART_TEXTS = {
    "system": "rules, project, skills",
    "memory": "MEMORY.md and USER.md",
    "pinned": "kept word for word",
    "tools": "what the model may call",
    "head": "how it began",
    "summary": "the handoff",
    "middle": "what a compaction would fold",
    "tail": "the newest messages",
}
_MEMORY_BLOCK = re.compile(r'<data-(\w+) from="(?:MEMORY|USER)\.md">.*?</data-\1>', re.DOTALL)
"""The delimiters of the memory in the system prompt."""


@dataclass(frozen=True, slots=True)
class ContextSnapshot:
    """The next request of a chat: its parts, whose sum is the size for preflight, and its page."""

    parts: tuple[ContextPart, ...]
    page: WindowPage
    counted: int
    """Our count, before calibration with figures of the provider."""
    facts: tuple[tuple[str, str], ...]


async def run_context(state: ChatState, words: str) -> None:
    """Show what fills the window of this conversation."""
    del words
    found = await read_context(state)
    state.show_page(
        lambda console: console.print_blocks([*found.page.blocks(console), console.fact_lines(found.facts)])
    )


async def read_context(state: ChatState) -> ContextSnapshot:
    """Measure the next request of a chat."""
    from clew.tokens import counter_for
    from clew.turn import context_parts, share_of

    conversation = await state.app.runtime.conversation(state.session)
    await state.count_tools(conversation)
    compression, size = state.app.settings.compression, conversation.size
    count = counter_for(conversation.target.model).message
    largest = measure_window(conversation.messages, size.counts, count, top=MAX_LARGEST).largest
    prompt = text_of(conversation.view.prompt) if conversation.view.prompt else ""
    # From the system prompt, since the memory files may have changed.
    memory = "\n".join(found[0] for found in _MEMORY_BLOCK.finditer(prompt))
    parts, window = tuple(context_parts(conversation, memory)), conversation.window.tokens
    threshold = conversation.engine.get_status().threshold_tokens if compression.enabled else None
    page = WindowPage(
        shares=tuple(WindowShare(PART_STYLES[it.name], it.name, it.tokens, window, _part_text(it)) for it in parts),
        tokens=size.tokens,
        window=window,
        threshold=threshold,
        about=f"{size.tokens:,} of {window:,} tokens",
        largest=[replace(each, tokens=share_of(each.tokens, size.counted, size.tokens)) for each in largest],
        names=["handoff" if number is None else f"m{number}" for number in conversation.view.seqs],
        whole=window,
        remedy="/compress, or a larger window",
    )
    return ContextSnapshot(parts, page, size.counted, tuple([fact async for fact in _chat_facts(state, conversation)]))


def _part_text(part: ContextPart) -> str:
    if not part.tokens:
        return "nothing yet"
    text = PART_TEXTS[part.name]
    return f"{text}, {plural(part.messages, 'message')}" if part.messages else text


async def _chat_facts(state: ChatState, conversation: Conversation) -> AsyncIterator[tuple[str, str]]:
    from clew.turn import recall_counts

    window, target, size = conversation.window, conversation.target, conversation.size
    yield "window", f"{window.tokens:,} tokens of {target.model}, {window_source(conversation)}"
    if reserve := target.max_tokens or window.max_output:
        yield "output", f"up to {min(reserve, window.tokens):,} tokens for a reply, which must fit in too"
    yield "counted", _counting_text(conversation)
    cost = conversation.next_message_cost
    if cost is not None and cost.cold:
        yield "next prompt", _next_cost_text(cost, conversation.cache_seconds_left)
    recalled = await recall_counts(state.app.store, conversation.session)
    if recalled.passages:
        passages = plural(recalled.passages, "passage")
        yield (
            "recalled",
            f"{passages} recalled automatically so far, {recalled.tokens:,} tokens, each for one turn only",
        )
    status = conversation.engine.get_status()
    if not state.app.settings.compression.enabled:
        yield "compaction", "switched off in the config (compression.enabled)"
    elif status.paused:
        yield "compaction", f"paused: {status.paused}; /compress compacts now"
    elif size.tokens < status.threshold_tokens:
        yield "compaction", f"automatic after another {status.threshold_tokens - size.tokens:,} tokens"
    else:
        yield "compaction", "with the next question"


def _next_cost_text(cost: NextMessageCost, seconds: float | None) -> str:
    """The cost of the next prompt, and when it changes."""
    warm, cold = format_dollars(cost.warm), format_dollars(cost.cold)
    if seconds is None or seconds <= 0:
        return f"about {cold}, since no provider has it in its cache; {warm} from a cache"
    minutes, rest = divmod(int(seconds), 60)
    left = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"about {warm} from the provider's cache for another {left}, then {cold}"


def _counting_text(conversation: Conversation) -> str:
    """Who counted the tokens."""
    size, reported = conversation.size, conversation.view.last_prompt_tokens
    if reported:
        real = f"the provider counted {reported:,} for the last prompt"
    elif size.is_measured:
        real = "the provider has counted earlier prompts, none since the view changed"
    else:
        return f"{size.counted:,} by Clew's count; the provider has not reported a figure yet"
    if size.counted == size.tokens:
        return f"{real}; our count agrees"
    return f"{real}; our count of this request was {size.counted:,}, and all parts are scaled to it"
