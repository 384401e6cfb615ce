"""`clew compress FILE`: a long conversation in, a short one out, and a report of what became of each message."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.cli.arguments import add_set_flag, parse_tokens
from clew.cli.console import Console, json_text, private_file
from clew.cli.window_usage import find_window
from clew.config import CompressionSettings, LoadedConfig, load_config
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.config import Settings
    from clew.engines import CompactionPreview, EngineFactory
    from clew.importers import Transcript
    from clew.library import Compressed
    from clew.messages import Message, ParsedConversation, Repair, Repaired

EXAMPLES = """\
FILE is a JSON list of messages, a JSON object with messages (and system, tools),
JSONL with one message a line, or a session file of Claude Code, Codex, Gemini CLI,
opencode, Hermes or pi; gzipped or not. Messages may be OpenAI chat, Responses or Anthropic.

what comes out:
  by default an account of what was done, for people
  --output FILE (- is standard output): the conversation itself, in the shape and
    dialect it came in (session files become a JSON list of chat messages)
  --json: one object: messages, system, summary, changed, tokens_before,
    tokens_after, warnings, fates (one for each message), written_by, map, and
    handoff: its sections as [text, [message numbers], [lines]]
  --handoff: the text of the handoff alone, to paste into another agent

The page has placeholders for passwords, keys and tokens; --unredacted leaves them, and
says so on it. Files can be read by their owner alone.

how short: --to names the size of the result, --window makes what Clew would make
for a window of that size. With neither, it is folded as if it had just reached
the threshold of its window (compression.threshold), though never for a larger
window than its model has.

--engine lcm folds into a map, part by part, in place of a handoff; the page draws it.
It takes no --to: a map is made for a window.

The handoff is written by the built-in summariser (no key, no network), or by the
model that auxiliary.compression names in the config.

examples:
  clew compress session.jsonl
  clew compress session.jsonl --to 10k --output short.json
  clew compress session.jsonl --preview
  clew compress session.jsonl --report report.html
  clew compress session.jsonl --engine lcm --window 50k --report map.html
  cat request.json | clew compress - --output - > shorter.json
"""
MIN_TARGET = 500
MIN_WINDOW = 2_000
MAX_REPAIRS = 3


@dataclass(frozen=True, slots=True)
class CompressJob:
    """A conversation that was read, and how it is to be compacted."""

    source: str
    transcript: Transcript
    conversation: ParsedConversation
    """The same with every message valid by itself, none more and none less: each has its number in the history."""
    repairs: tuple[Repair, ...]
    """What is repaired in it: messages before it is folded, calls and results by the engine."""
    model: str | None
    settings: CompressionSettings
    window: int
    """Of the model, or as asked for."""
    target: int | None
    engine: EngineFactory | None
    """Another one than the compressor."""

    @property
    def context_length(self) -> int | None:
        """What the library is given: either this or a target."""
        return self.window if self.target is None else None

    @property
    def origin(self) -> str:
        """Which program wrote the file, or the dialect of its messages."""
        from clew.cli.views.context import format_name

        return format_name(self.transcript.kind, self.transcript.dialect)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("file", metavar="FILE", help="the conversation; - is standard input")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--to", metavar="TOKENS", type=_target, help="the size of the result: 10000 or 10k")
    size.add_argument("--window", metavar="TOKENS", type=_window, help="the window to fold for: 200000 or 200k")
    parser.add_argument("--engine", metavar="NAME", help="the engine: compressor (the default), lcm, or a plugin")
    parser.add_argument("--focus", metavar="TOPIC", help="the topic to keep in most detail")
    parser.add_argument("--model", metavar="M", help="count and price for this model, not the one the file names")
    parser.add_argument("--preview", action="store_true", help="show what would be folded, and write nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--handoff", action="store_true", help="print the text of the handoff alone")
    parser.add_argument("--report", metavar="OUT.html", help="write a page that shows what became of every message")
    parser.add_argument("--unredacted", action="store_true", help="leave passwords, keys and tokens on that page")
    parser.add_argument("--output", metavar="FILE", help="write the short conversation here; - is standard output")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    _check_arguments(arguments)
    loaded = load_config(console.environ, arguments.flags)
    console.notes(loaded.notices)
    job = _read_job(arguments, loaded, console)
    preview, job = _preview_and_window(job, arguments.window, console)
    if arguments.preview:
        _print_preview(job, preview if job.engine is None else _preview(job, job.engine), arguments.json, console)
        return 0
    result = _compress(job, arguments.focus, loaded.settings, console)
    _write_results(arguments, job, preview, result, console)
    return 0


# -- in ----------------------------------------------------------------------------------------------------------------


def _read_job(arguments: argparse.Namespace, loaded: LoadedConfig, console: Console) -> CompressJob:
    # Late, because reading and counting take longer to import than `clew compress --help` should.
    from clew.importers import read_transcript
    from clew.messages import repair

    source = "standard input" if arguments.file == "-" else arguments.file
    with console.phase(f"reading {source}"):
        transcript = read_transcript(arguments.file)
        repaired = repair(transcript.messages, open_end=True)
    console.notes(transcript.notices)
    model = arguments.model or transcript.model or loaded.settings.model.name
    return CompressJob(
        source=source,
        transcript=transcript,
        conversation=replace(transcript.conversation, messages=_valid_messages(transcript.messages, repaired)),
        repairs=repaired.repairs,
        model=model,
        settings=loaded.settings.compression,
        window=arguments.window or find_window(model, loaded, console.environ).tokens,
        target=arguments.to,
        engine=_engine(arguments.engine, loaded.settings, console),
    )


def _valid_messages(messages: Sequence[Message], repaired: Repaired) -> tuple[Message, ...]:
    """The messages, each repaired where it was broken. Results without a call stay, and no stub is put in."""
    valid = list(messages)
    for index, message in zip(reversed(repaired.indexes), reversed(repaired.messages), strict=True):
        valid[index] = message  # from the end: of a call and its stub, the call comes last
    return tuple(valid)


def _engine(name: str | None, settings: Settings, console: Console) -> EngineFactory | None:
    from clew.app import DEFAULT_ENGINE, named_engine

    return None if name in (None, DEFAULT_ENGINE) else named_engine(name, settings, console.environ)


def _preview_and_window(job: CompressJob, asked: int | None, console: Console) -> tuple[CompactionPreview, CompressJob]:
    """What would be done; and the job with the window that a conversation of its size fills up to the threshold."""
    with console.phase(f"weighing {len(job.conversation.messages):,} messages"):
        preview = _preview(job)
        size, output = preview.tokens_before, job.conversation.max_output or 0
        full = max(MIN_WINDOW, math.ceil(size / job.settings.threshold), size + output)
        if asked is not None or job.target is not None or full >= job.window:
            return preview, job
        smaller = replace(job, window=full)
        return _preview(smaller), smaller


def _preview(job: CompressJob, engine: EngineFactory | None = None) -> CompactionPreview:
    from clew.library import preview

    return preview(
        job.conversation,
        context_length=job.context_length,
        target_tokens=job.target,
        model=job.model,
        settings=job.settings,
        engine=engine,
    )


# -- what is done ------------------------------------------------------------------------------------------------------


def _compress(job: CompressJob, focus: str | None, settings: Settings, console: Console) -> Compressed:
    from clew.app import configured_summary_model
    from clew.library import compress

    with console.phase(f"folding {len(job.conversation.messages):,} messages"):
        result = compress(
            job.conversation,
            context_length=job.context_length,
            target_tokens=job.target,
            focus_topic=(focus or "").strip() or None,
            model=job.model,
            settings=job.settings,
            summarizer=configured_summary_model(settings, console.environ),
            engine=job.engine,
        )
    # A conversation that was not changed is written exactly as it was read, broken or not.
    if not result.changed:
        came = job.transcript.conversation
        return replace(result, messages=came.write_list(), request=came.write() if came.is_request else None)
    return replace(result, warnings=(*result.warnings, *_repair_warnings(job)))


def _repair_warnings(job: CompressJob) -> list[str]:
    """The repairs made before the engine reads the messages; the engine reports its own."""
    from clew.messages import repair

    by_engine = repair(job.conversation.messages, open_end=True).repairs
    own = _repair_texts([each for each in job.repairs if each not in by_engine])
    more = f"; and {len(own) - MAX_REPAIRS:,} more" if len(own) > MAX_REPAIRS else ""
    return [f"Repaired before folding: {'; '.join(own[:MAX_REPAIRS])}{more}."] if own else []


def _repair_texts(repairs: Sequence[Repair]) -> list[str]:
    return [f"message {each.index}: {each.problem}: {each.remedy}" for each in repairs]


# -- out ---------------------------------------------------------------------------------------------------------------


def _print_preview(job: CompressJob, preview: CompactionPreview, as_json: bool, console: Console) -> None:
    from clew.cli.views.compress import preview_json, print_preview

    if as_json:
        console.print_json(preview_json(preview))
    else:
        replaced_by = "handoff" if job.engine is None else "map"
        print_preview(job.source, job.origin, job.model, preview, console, replaced_by)


def _write_results(
    arguments: argparse.Namespace, job: CompressJob, preview: CompactionPreview, result: Compressed, console: Console
) -> None:
    """Files first, so that what the screen says of them is true."""
    from clew.cli.views.compress import one_line_report, print_report, report_json
    from clew.report import build_report, redacted_report, report_page

    report = build_report(job.source, job.origin, job.model, preview, result, is_previewed=job.engine is None)
    text = _as_text(result.messages if result.request is None else result.request, job.transcript.kind)
    if arguments.output not in (None, "-"):
        _write(arguments.output, text)
    if arguments.report:
        with console.phase("drawing the page"):
            page = (
                report_page(report, is_redacted=False) if arguments.unredacted else report_page(redacted_report(report))
            )
            _write(arguments.report, page)
    if arguments.json:
        console.print_json(report_json(report, job.transcript.kind, _repair_texts(job.repairs)))
    elif arguments.handoff:
        console.note(one_line_report(report))
        console.notes(result.warnings)
        console.out.write(f"{result.summary}\n" if result.summary else "")
    elif arguments.output == "-":
        console.note(one_line_report(report))
        console.notes(result.warnings)
        console.out.write(text)
    else:
        print_report(report, console, [name for name in (arguments.output, arguments.report) if name])


def _as_text(wire: Any, kind: str) -> str:
    """The conversation as a file of the kind it came from."""
    if kind == "jsonl" and isinstance(wire, list):
        return "".join(f"{json_text(message)}\n" for message in wire)
    return f"{json_text(wire, indent=1)}\n"


def _write(name: str, text: str) -> None:
    with private_file(name) as out:
        out.write(text)


# -- use ---------------------------------------------------------------------------------------------------------------


def _check_arguments(arguments: argparse.Namespace) -> None:
    """Refuse what contradicts itself, before any work is done."""
    files = [name for name in (arguments.output, arguments.report) if name not in (None, "-")]
    if arguments.report == "-":
        raise InvalidArgument("--report - is not possible: a page goes to a file; name one, such as report.html")
    if arguments.unredacted and not arguments.report:
        raise InvalidArgument("--unredacted is about the page: add --report OUT.html, or leave it out")
    if arguments.preview and (arguments.output or arguments.report):
        raise InvalidArgument("--preview writes nothing; leave out --output and --report, or --preview")
    printed = [
        name
        for name, is_given in (
            ("--json", arguments.json),
            ("--handoff", arguments.handoff),
            ("--output -", arguments.output == "-"),
        )
        if is_given
    ]
    if len(printed) > 1:
        raise InvalidArgument(f"{' and '.join(printed)} both print to standard output; give one of them")
    if arguments.preview and arguments.handoff:
        raise InvalidArgument("--preview writes no handoff; leave out --handoff or --preview")
    if arguments.engine not in (None, "compressor") and arguments.to is not None:
        raise InvalidArgument(f"--to is for the compressor; with --engine {arguments.engine} give --window TOKENS")
    for name in files:
        _check_target(Path(name), arguments.file)
    if len(files) == 2 and Path(files[0]).absolute() == Path(files[1]).absolute():
        raise InvalidArgument(f"--output and --report both name {files[0]}; give each a file of its own")


def _check_target(path: Path, source: str) -> None:
    if path.is_dir():
        raise InvalidArgument(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise InvalidArgument(f"{path}: there is no folder {path.parent}; make it first, or name another file")
    if source != "-" and path.exists() and Path(source).exists() and path.samefile(source):
        raise InvalidArgument(f"{path} is the conversation itself, and would be lost; name another file")


def _target(text: str) -> int:
    return parse_tokens(text, MIN_TARGET)


def _window(text: str) -> int:
    return parse_tokens(text, MIN_WINDOW)
