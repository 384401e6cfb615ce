"""`clew compress FILE`: a long conversation in, a short one out, and the account of what happened to it.

Reads, asks the library, writes. How it looks is in `compress_view`, what a page says in `clew.report`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.cli.amounts import tokens_in
from clew.cli.config import add_set_flag
from clew.cli.output import Console
from clew.cli.progress import phase
from clew.config import CompressionSettings, Loaded, learnt_limits_path, load_config
from clew.errors import ClewError, InvalidArgument

if TYPE_CHECKING:
    from clew.config import Settings
    from clew.engines import Preview
    from clew.importers import Transcript
    from clew.library import Compressed
    from clew.messages import Conversation

EXAMPLES = """\
FILE is a JSON list of messages, a JSON object with messages (and system, tools),
JSONL with one message a line, or a session file of Claude Code, Codex, opencode,
Hermes or pi; gzipped or not. Messages may be OpenAI chat, Responses or Anthropic.

what comes out:
  by default an account of what was done, for people
  --output FILE (- is standard output): the conversation itself, in the shape and
    dialect it came in (session files become a JSON list of chat messages)
  --json: one object: messages, system, summary, changed, tokens_before,
    tokens_after, warnings, fates (one for each message), written_by

how short: --to names the size of the result, --window makes what Clew would make
for a window of that size. With neither, it is folded as if it had just reached
the threshold of its window (compression.threshold), though never for a larger
window than its model has.

The handoff is written by the built-in summariser (no key, no network), or by the
model that auxiliary.compression names in the config.

examples:
  clew compress session.jsonl
  clew compress session.jsonl --to 10k --output short.json
  clew compress session.jsonl --preview
  clew compress session.jsonl --report report.html
  cat request.json | clew compress - --output - > shorter.json
"""
SMALLEST_TARGET = 500
SMALLEST_WINDOW = 2_000
MOST_REPAIRS_TOLD = 3


@dataclass(frozen=True, slots=True)
class Task:
    """A conversation that was read, and how it is to be folded."""

    source: str
    transcript: Transcript
    conversation: Conversation
    """The same, repaired where it was broken: so that each message has one number throughout."""
    repairs: tuple[str, ...]
    model: str | None
    settings: CompressionSettings
    window: int
    """Of the model, or as asked for."""
    target: int | None

    @property
    def context_length(self) -> int | None:
        """What the library is told: either this or a target."""
        return self.window if self.target is None else None

    @property
    def origin(self) -> str:
        """Who wrote the file, or the wire its messages are of where nobody put a name to it."""
        from clew.cli.context_view import NAMES

        kind = self.transcript.kind
        name = self.transcript.dialect if kind in ("json", "jsonl") else kind
        return NAMES.get(name, name)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("file", metavar="FILE", help="the conversation; - is standard input")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--to", metavar="TOKENS", type=_target, help="the size of the result: 10000 or 10k")
    size.add_argument("--window", metavar="TOKENS", type=_window, help="the window to fold for: 200000 or 200k")
    parser.add_argument("--focus", metavar="TOPIC", help="what the handoff tells in most detail")
    parser.add_argument("--model", metavar="M", help="count and price for this model, not the one the file names")
    parser.add_argument("--preview", action="store_true", help="show what would go where, and do nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--report", metavar="OUT.html", help="write a page that shows what became of every message")
    parser.add_argument("--output", metavar="FILE", help="write the short conversation here; - is standard output")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    _check_use(arguments)
    loaded = load_config(console.environ, arguments.flags)
    for notice in loaded.notices:
        console.note(notice)
    task = _task(arguments, loaded, console)
    foreseen, task = _foreseen(task, arguments.window, console)
    if arguments.preview:
        _show_preview(task, foreseen, arguments.json, console)
        return 0
    done = _compressed(task, arguments.focus, loaded.settings, console)
    _deliver(arguments, task, foreseen, done, console)
    return 0


# -- in ----------------------------------------------------------------------------------------------------------------


def _task(arguments: argparse.Namespace, loaded: Loaded, console: Console) -> Task:
    # Late, because reading and counting take longer to import than `clew compress --help` should.
    from clew.importers import read_transcript
    from clew.messages import repair

    source = "standard input" if arguments.file == "-" else arguments.file
    with phase(console, f"reading {source}"):
        transcript = read_transcript(arguments.file)
        repaired = repair(transcript.messages)
    for notice in transcript.notices:
        console.note(notice)
    model = arguments.model or transcript.model or loaded.settings.model.name
    return Task(
        source=source,
        transcript=transcript,
        conversation=replace(transcript.conversation, messages=tuple(repaired.messages)),
        repairs=tuple(f"message {each.index}: {each.problem}: {each.remedy}" for each in repaired.repairs),
        model=model,
        settings=loaded.settings.compression,
        window=arguments.window or _window_of(model, loaded, console),
        target=arguments.to,
    )


def _window_of(model: str | None, loaded: Loaded, console: Console) -> int:
    from clew.tokens import LearntLimits, window_of

    settings = loaded.settings.model
    ours = settings.name in (None, model)
    learnt = LearntLimits(learnt_limits_path(console.environ))
    configured = settings.context_length if ours else None
    return window_of(model, base_url=settings.base_url if ours else None, configured=configured, learnt=learnt).tokens


def _foreseen(task: Task, asked: int | None, console: Console) -> tuple[Preview, Task]:
    """What would be done; and the task with the window that a conversation of its size fills up to the threshold."""
    with phase(console, f"weighing {len(task.conversation.messages):,} messages"):
        foreseen = _preview(task)
        full = max(SMALLEST_WINDOW, math.ceil(foreseen.tokens_before / task.settings.threshold))
        if asked is not None or task.target is not None or full >= task.window:
            return foreseen, task
        smaller = replace(task, window=full)
        return _preview(smaller), smaller


def _preview(task: Task) -> Preview:
    from clew.library import preview

    return preview(
        task.conversation,
        context_length=task.context_length,
        target_tokens=task.target,
        model=task.model,
        settings=task.settings,
    )


# -- what is done ------------------------------------------------------------------------------------------------------


def _compressed(task: Task, focus: str | None, settings: Settings, console: Console) -> Compressed:
    from clew.app import configured_summary_model
    from clew.library import compress

    with phase(console, f"folding {len(task.conversation.messages):,} messages"):
        done = compress(
            task.conversation,
            context_length=task.context_length,
            target_tokens=task.target,
            focus_topic=(focus or "").strip() or None,
            model=task.model,
            settings=task.settings,
            summarizer=configured_summary_model(settings, console.environ),
        )
    warnings = (*done.warnings, *_told_repairs(task.repairs)) if done.changed else done.warnings
    # A conversation that was left alone leaves exactly as it came, broken or not.
    messages = done.messages if done.changed else task.transcript.conversation.write()
    return replace(done, warnings=warnings, messages=messages)


def _told_repairs(repairs: Sequence[str]) -> list[str]:
    if not repairs:
        return []
    rest = len(repairs) - MOST_REPAIRS_TOLD
    more = f"; and {rest:,} more" if rest > 0 else ""
    return [f"Repaired before folding: {'; '.join(repairs[:MOST_REPAIRS_TOLD])}{more}."]


# -- out ---------------------------------------------------------------------------------------------------------------


def _show_preview(task: Task, foreseen: Preview, as_json: bool, console: Console) -> None:
    from clew.cli.compress_view import preview_json, say_preview

    if as_json:
        console.say_json(preview_json(foreseen))
    else:
        say_preview(task.source, task.origin, task.model, foreseen, console)


def _deliver(arguments: argparse.Namespace, task: Task, foreseen: Preview, done: Compressed, console: Console) -> None:
    """Files first, so that what is said of them on the screen is true."""
    from clew.cli.compress_view import account_json, in_one_line, say_account
    from clew.report import account_of

    account = account_of(task.source, task.origin, task.model, foreseen, done)
    wire = _as_text(done.messages, task.transcript.kind)
    to_stdout = arguments.output == "-"
    if arguments.output not in (None, "-"):
        _write(arguments.output, wire)
    if arguments.report:
        from clew.report import report_page

        with phase(console, "drawing the page"):
            _write(arguments.report, report_page(account))
    if arguments.json:
        console.say_json(account_json(account, task.transcript.kind, task.repairs))
    elif to_stdout:
        console.note(in_one_line(account))
        for warning in done.warnings:
            console.note(warning)
        console.out.write(wire)
    else:
        say_account(account, console, [name for name in (arguments.output, arguments.report) if name])


def _as_text(wire: Any, kind: str) -> str:
    """The conversation as a file of the kind it came from."""
    if kind == "jsonl" and isinstance(wire, list):
        return "".join(f"{_json(message)}\n" for message in wire)
    return f"{_json(wire, indent=1)}\n"


def _json(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    # Half of a surrogate pair can only be written as an escape.
    return text if text.isascii() or _is_whole(text) else json.dumps(value, indent=indent)


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _write(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ClewError(f"{name}: cannot be written: {error.strerror}. Name another file") from error


# -- use ---------------------------------------------------------------------------------------------------------------


def _check_use(arguments: argparse.Namespace) -> None:
    """What cannot be meant, before any work is done."""
    files = [name for name in (arguments.output, arguments.report) if name not in (None, "-")]
    if arguments.report == "-":
        raise InvalidArgument("--report - is not possible: a page goes to a file; name one, such as report.html")
    if arguments.preview and (arguments.output or arguments.report):
        raise InvalidArgument("--preview writes nothing: leave out --output and --report, or --preview")
    if arguments.json and arguments.output == "-":
        raise InvalidArgument("--json and --output - both want standard output: give one of them")
    for name in files:
        _check_target(Path(name), arguments.file)
    if len(files) == 2 and Path(files[0]).absolute() == Path(files[1]).absolute():
        raise InvalidArgument(f"--output and --report both name {files[0]}: give each a file of its own")


def _check_target(path: Path, source: str) -> None:
    if path.is_dir():
        raise InvalidArgument(f"{path} is a folder: name a file in it")
    if not path.parent.is_dir():
        raise InvalidArgument(f"{path}: there is no folder {path.parent}: make it first, or name another file")
    if source != "-" and path.exists() and Path(source).exists() and path.samefile(source):
        raise InvalidArgument(f"{path} is the conversation itself, and would be lost: name another file")


def _target(text: str) -> int:
    return tokens_in(text, SMALLEST_TARGET)


def _window(text: str) -> int:
    return tokens_in(text, SMALLEST_WINDOW)
