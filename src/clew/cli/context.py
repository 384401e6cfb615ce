"""`clew context FILE`: what fills the window of a conversation, and what a call with it costs.

Reads, counts and asks; how it looks is in `context_view`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.cli.amounts import tokens_in
from clew.cli.config import add_set_flag
from clew.cli.context_view import Cost, Counting, Report, Reported, WindowSize, as_json, say_report
from clew.cli.output import Console
from clew.cli.window_use import Share, WindowUse, weigh
from clew.config import Loaded, learnt_limits_path, load_config
from clew.errors import InvalidMessage

if TYPE_CHECKING:
    from clew.importers import Transcript
    from clew.messages import Message

EXAMPLES = """\
FILE is a JSON list of messages, a JSON object with messages (and system, tools),
JSONL with one message a line, or a session file of Claude Code, Codex, opencode,
Hermes or pi; gzipped or not.

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
    parser.add_argument("--window", metavar="TOKENS", type=_tokens, help="the size of the window: 200000 or 200k")
    parser.add_argument(
        "--top",
        metavar="N",
        type=_count,
        default=DEFAULT_TOP,
        help="how many of the largest messages to list (default %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    loaded = load_config(console.environ, arguments.flags)
    for notice in loaded.notices:
        console.note(notice)
    report = _report(arguments, loaded, console)
    console.wipe()
    if arguments.json:
        console.say_json(as_json(report))
    else:
        say_report(report, console)
    return 0


def _report(arguments: argparse.Namespace, loaded: Loaded, console: Console) -> Report:
    # Late, because reading and counting take longer to import than `clew context --help` should.
    from clew.importers import read_transcript
    from clew.tokens import count_each

    console.progress(f"reading {arguments.file} ...")
    transcript = read_transcript(arguments.file)
    for notice in transcript.notices:
        console.note(notice)
    model = arguments.model or transcript.model or loaded.settings.model.name
    console.progress(f"counting {len(transcript.messages):,} messages ...")
    sizes = count_each(transcript.messages, model=model)
    use, counting = _weighed(transcript, sizes, model, arguments.top)
    window = _window(arguments.window, model, loaded, console)
    compression = loaded.settings.compression
    return Report(
        source="standard input" if arguments.file == "-" else arguments.file,
        kind=transcript.kind,
        dialect=transcript.dialect,
        messages=len(transcript.messages),
        model=model,
        use=use,
        window=window,
        threshold=int(window.tokens * compression.threshold) if compression.enabled else None,
        counting=counting,
        reported=_reported(transcript, sizes, use),
        cost=_cost(use.tokens, model, loaded),
        repairs=_repairs(transcript.messages),
    )


def _weighed(transcript: Transcript, sizes: Sequence[int], model: str | None, top: int) -> tuple[WindowUse, Counting]:
    from clew.tokens import counter_for

    messages, tools, counter = transcript.messages, transcript.tools, counter_for(model)
    defined = Share("tools", counter.tools(tools), len(tools)) if tools else None
    use = weigh(messages, sizes, counter.message, defined, top, counter.request)
    # A long history is sampled and scaled, which the largest message shows.
    largest = max(range(len(sizes)), key=sizes.__getitem__, default=None)
    sampled = largest is not None and counter.message(messages[largest]) != sizes[largest]
    if model is None:
        return use, Counting(False, f"with {counter.family.vocabulary or 'an estimate'}, since no model is named")
    if sampled:
        return use, Counting(False, f"estimated, and corrected by a sample: {counter.basis}")
    if counter.exact:
        return use, Counting(True, f"exactly: {counter.basis}")
    if counter.has_vocabulary:
        return use, Counting(False, f"with the nearest {counter.basis}")
    return use, Counting(False, f"estimated: {counter.basis.removeprefix('estimate, ')}")


def _window(asked: int | None, model: str | None, loaded: Loaded, console: Console) -> WindowSize:
    from clew.tokens import LearntLimits, window_of

    if asked is not None:
        return WindowSize(asked, "flag", "from --window")
    settings = loaded.settings.model
    ours = settings.name in (None, model)
    learnt = LearntLimits(learnt_limits_path(console.environ))
    # The config speaks of its own model; a conversation with another one has that one's window.
    configured = settings.context_length if ours else None
    found = window_of(model, base_url=settings.base_url if ours else None, configured=configured, learnt=learnt)
    if found.source == "stated" and found.notice:
        console.note(found.notice)
    words = {
        "config": f"from model.context_length ({loaded.origin_of('model.context_length')})",
        "stated": "as the provider stated in an error",
        "table": "from the table that ships with Clew",
        "default": "assumed: no model is named; --model M names one" if model is None else ASSUMED,
    }
    return WindowSize(found.tokens, found.source, words.get(found.source, found.source))


def _reported(transcript: Transcript, sizes: Sequence[int], use: WindowUse) -> Reported | None:
    """The newest real figure in the file, if it has any."""
    from clew.usage import normalize_usage

    for index, raw in reversed(transcript.usage):
        prompt = normalize_usage(raw).prompt_tokens
        if prompt:
            around = use.tokens - sum(sizes)
            return Reported(prompt, around + sum(sizes[:index]), index)
    return None


def _cost(tokens: int, model: str | None, loaded: Loaded) -> Cost | None:
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
    return Cost(float(uncached.total), None if cached is None else float(cached.total), price.checked)


def _repairs(messages: Sequence[Message]) -> tuple[str, ...]:
    """What the history would need before it could be sent, one line each."""
    from clew.messages import repair

    try:
        found = repair(messages, open_end=True).repairs
    except InvalidMessage as error:
        return (str(error),)
    return tuple(f"message {each.index}: {each.problem}: {each.remedy}" for each in found)


def _tokens(text: str) -> int:
    return tokens_in(text, 1)


def _count(text: str) -> int:
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not allowed; expects a whole number, {least} or more")
    return number
