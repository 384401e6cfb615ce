"""`clew context FILE`: what fills the window of a conversation, and what a call with it costs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.cli.arguments import add_set_flag, parse_tokens, zero_or_more
from clew.cli.console import Console
from clew.cli.views.context import (
    ContextReport,
    CountingMethod,
    PromptCost,
    ReportedPrompt,
    WindowSize,
    context_json,
    print_context,
)
from clew.cli.window_usage import ContentShare, WindowUsage, find_window, measure_window
from clew.config import LoadedConfig, load_config
from clew.errors import InvalidMessage

if TYPE_CHECKING:
    from clew.importers import Transcript
    from clew.messages import Message

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
ASSUMED = "assumed: this model is not in the table; --window TOKENS or model.context_length says better"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("file", metavar="FILE", help="the conversation; - is standard input")
    parser.add_argument("--model", metavar="M", help="count and price for this model, not the one the file names")
    parser.add_argument("--window", metavar="TOKENS", type=parse_tokens, help="the size of the window: 200000 or 200k")
    parser.add_argument(
        "--top",
        metavar="N",
        type=zero_or_more,
        default=DEFAULT_TOP,
        help="how many of the largest messages to list (default %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    loaded = load_config(console.environ, arguments.flags)
    console.notes(loaded.notices)
    report = _report(arguments, loaded, console)
    console.clear_progress()
    if arguments.json:
        console.print_json(context_json(report))
    else:
        print_context(report, console)
    return 0


def _report(arguments: argparse.Namespace, loaded: LoadedConfig, console: Console) -> ContextReport:
    # Late, because reading and counting take longer to import than `clew context --help` should.
    from clew.importers import read_transcript
    from clew.tokens import count_each

    console.progress(f"reading {arguments.file} ...")
    transcript = read_transcript(arguments.file)
    console.notes(transcript.notices)
    model = arguments.model or transcript.model or loaded.settings.model.name
    console.progress(f"counting {len(transcript.messages):,} messages ...")
    sizes = count_each(transcript.messages, model=model)
    usage, counting = _measure(transcript, sizes, model, arguments.top)
    window = _window_size(arguments.window, model, loaded, console)
    compression = loaded.settings.compression
    return ContextReport(
        source="standard input" if arguments.file == "-" else arguments.file,
        kind=transcript.kind,
        dialect=transcript.dialect,
        messages=len(transcript.messages),
        model=model,
        usage=usage,
        window=window,
        threshold=int(window.tokens * compression.threshold) if compression.enabled else None,
        counting=counting,
        reported=_last_reported(transcript, sizes, usage),
        cost=_cost(usage.tokens, model, loaded),
        repairs=_repairs(transcript.messages),
    )


def _measure(
    transcript: Transcript, sizes: Sequence[int], model: str | None, top: int
) -> tuple[WindowUsage, CountingMethod]:
    from clew.messages import declarations_of
    from clew.tokens import counter_for

    messages, tools, counter = transcript.messages, transcript.tools, counter_for(model)
    functions = sum(len(declarations_of(tool)) or 1 for tool in tools)
    defined = ContentShare("tools", counter.tools(tools), functions) if tools else None
    usage = measure_window(messages, sizes, counter.message, defined, top, counter.request)
    # A long history is sampled and scaled, which the largest message shows.
    largest = max(range(len(sizes)), key=sizes.__getitem__, default=None)
    sampled = largest is not None and counter.message(messages[largest]) != sizes[largest]
    if model is None:
        return usage, CountingMethod(
            False, f"with {counter.family.vocabulary or 'an estimate'}, since no model is named"
        )
    if sampled:
        return usage, CountingMethod(False, f"estimated, and corrected by a sample: {counter.basis}")
    if counter.exact:
        return usage, CountingMethod(True, f"exactly: {counter.basis}")
    if counter.has_vocabulary:
        return usage, CountingMethod(False, f"with the nearest {counter.basis}")
    return usage, CountingMethod(False, f"estimated: {counter.basis.removeprefix('estimate, ')}")


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
    from clew.messages import repair

    try:
        found = repair(messages, open_end=True).repairs
    except InvalidMessage as error:
        return (str(error),)
    return tuple(f"message {each.index}: {each.problem}: {each.remedy}" for each in found)
