"""`clew compress FILE`: shorten a conversation, with a report on each message; and `/compress` in a chat."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from clew.cli.console import Console, check_output, check_page, json_text, private_file
from clew.cli.context import find_window, format_name
from clew.cli.maps import nodes_json, tree_lines
from clew.cli.options import (
    FILE,
    command,
    file_argument,
    json_option,
    model_option,
    option,
    set_option,
    tokens_option,
)
from clew.cli.pages import (
    MARGIN,
    BarStyle,
    format_dollars,
    json_fields,
    message_range,
    percent,
    plural,
    table_lines,
    writer_name,
)
from clew.cli.store_access import load_settings
from clew.cli.text import clip, pad, printable, printable_line, wrap, wrap_all
from clew.config import CompressionSettings, LoadedConfig
from clew.engines import Compaction, CompactionPreview, CompactionRegion, ContextCompressor, Fate, LosslessEngine
from clew.errors import InvalidArgument
from clew.handoff import ACTIVE_TASK, COMPLETED, Entry, list_style, read_line
from clew.messages import text_of
from clew.report import (
    CompactionReport,
    MessageOutcome,
    RegionGroup,
    RequestPart,
    build_report,
    compaction_outcomes,
    group_by_region,
    merged_handoff_tokens,
    previewed_outcomes,
    redacted_report,
    report_page,
    request_parts,
    shown_text,
    summary_tokens,
)

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.config import Settings
    from clew.engines import EngineFactory
    from clew.importers import Transcript
    from clew.library import Compressed
    from clew.messages import Message, ParsedConversation, Repair, Repaired
    from clew.turn import Conversation, Pin, PreparedCompaction

EXAMPLES = """\
FILE is a JSON list of messages, a JSON object with messages (and system, tools),
JSONL with one message a line, or a session file of Claude Code, Codex, Gemini CLI,
opencode, Hermes or pi; gzipped or not. Messages may be OpenAI chat,
Responses, Anthropic or Gemini.

what comes out:
  by default an account of what was done, for people
  --output FILE (- is standard output): the conversation itself, in the shape and
    dialect of the input (session files become a JSON list of chat messages)
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
PART_STYLES: Mapping[str, BarStyle] = {
    "system": BarStyle("blue", "S"),
    "tools": BarStyle("cyan", "t"),
    "head": BarStyle("green", "H"),
    "folded": BarStyle("magenta", "-", "▒"),
    "handoff": BarStyle("red", "#"),
    "map": BarStyle("red", "#"),
    "kept": BarStyle("green", "K"),
    "tail": BarStyle("green", "T"),
    "removed": BarStyle("red", "x"),
}
REGION_TEXTS: Mapping[CompactionRegion, str] = {
    CompactionRegion.HEAD: "how it began",
    CompactionRegion.HANDOFF: "the earlier handoff, taken into the new one",
    CompactionRegion.FOLDED: "in the handoff",
    CompactionRegion.KEPT: "the newest request or reply, word for word",
    CompactionRegion.TAIL: "the newest messages",
    CompactionRegion.REMOVED: "what no provider would take, such as a result without a call",
}
Bar: TypeAlias = tuple[str, int, Sequence[RequestPart]]
"""A name, its tokens, and their parts."""
MAX_SECTION_LINES = 2
MAX_TASK_LINES = 4
MAX_LARGEST = 5
MIN_WIDTH_FOR_TEXTS = 60
_WIDEST_KEY = 20
"""The widest entry of the key to the bars."""


@dataclass(frozen=True, slots=True)
class CompressOptions:
    """The options of the command line."""

    file: str
    to: int | None
    window: int | None
    engine: str | None
    focus: str | None
    model: str | None
    preview: bool
    handoff: bool
    report: str | None
    unredacted: bool
    output: str | None


@command(EXAMPLES, exclusive=("to", "window"))
@file_argument
@tokens_option("--to", "the size of the result: 10000 or 10k", MIN_TARGET)
@tokens_option("--window", "the window to fold for: 200000 or 200k", MIN_WINDOW)
@option("--engine", "NAME", "the engine: compressor (the default), lcm, or a plugin")
@option("--focus", "TOPIC", "the topic to keep in most detail")
@model_option
@click.option("--preview", is_flag=True, help="show what would be folded, and write nothing")
@json_option
@click.option("--handoff", is_flag=True, help="print the text of the handoff alone")
@option("--report", "OUT.html", "write a page that shows what became of every message", type=FILE)
@click.option("--unredacted", is_flag=True, help="leave passwords, keys and tokens on that page")
@option("--output", "FILE", "write the short conversation here; - is standard output", type=FILE)
@set_option
def compress_command(console: Console, **given: Any) -> int:
    options = CompressOptions(**given)
    _check_options(options, console)
    loaded = load_settings(console)
    job = _read_job(options, loaded, console)
    preview, job = _preview_and_window(job, options.window, console)
    if options.preview:
        shown = preview if job.engine is None else _preview(job, job.engine)
        return console.show(preview_json(shown), lambda: print_preview(job, shown, console))
    result = _compress(job, options.focus, loaded.settings, console)
    _write_results(options, job, preview, result, console)
    return 0


@dataclass(frozen=True, slots=True)
class CompressJob:
    """A conversation that was read, and how to compact it."""

    source: str
    transcript: Transcript
    conversation: ParsedConversation
    """The same messages, each repaired; the number of messages is unchanged."""
    repairs: tuple[Repair, ...]
    """Repairs of messages, and of calls and results, which the engine repairs."""
    model: str | None
    settings: CompressionSettings
    window: int
    """The window of the model, or the requested one."""
    target: int | None
    engine: EngineFactory | None
    """The engine, if it is not the compressor."""

    @property
    def context_length(self) -> int | None:
        """The window for the library, if there is no target."""
        return self.window if self.target is None else None

    @property
    def origin(self) -> str:
        """The program that wrote the file, or the dialect of its messages."""
        return format_name(self.transcript.kind, self.transcript.dialect)


def _read_job(options: CompressOptions, loaded: LoadedConfig, console: Console) -> CompressJob:
    # Late, because reading and counting take longer to import than `clew compress --help` should.
    from clew.importers import read_transcript
    from clew.messages import repair

    source = "standard input" if options.file == "-" else options.file
    with console.phase(f"reading {source}"):
        transcript = read_transcript(options.file)
        repaired = repair(transcript.messages, open_end=True)
    console.notes(transcript.notices)
    model = options.model or transcript.model or loaded.settings.model.name
    return CompressJob(
        source=source,
        transcript=transcript,
        conversation=replace(transcript.conversation, messages=_valid_messages(transcript.messages, repaired)),
        repairs=repaired.repairs,
        model=model,
        settings=loaded.settings.compression,
        window=options.window or find_window(model, loaded, console.environ).tokens,
        target=options.to,
        engine=_engine(options.engine, loaded.settings, console),
    )


def _valid_messages(messages: Sequence[Message], repaired: Repaired) -> tuple[Message, ...]:
    """The messages, each repaired by itself: results without a call stay, and no stub is added."""
    valid = list(messages)
    for index, message in zip(reversed(repaired.indexes), reversed(repaired.messages), strict=True):
        valid[index] = message  # from the end: of a call and its stub, the call comes last
    return tuple(valid)


def _engine(name: str | None, settings: Settings, console: Console) -> EngineFactory | None:
    from clew.app import DEFAULT_ENGINE, named_engine

    return None if name in (None, DEFAULT_ENGINE) else named_engine(name, settings, console.environ)


def _preview_and_window(job: CompressJob, asked: int | None, console: Console) -> tuple[CompactionPreview, CompressJob]:
    """The preview; and the job, with the window that this conversation fills up to the threshold."""
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
    # An unchanged conversation is written exactly as it was read, without repairs.
    if not result.changed:
        read = job.transcript.conversation
        return replace(result, messages=read.write_list(), request=read.write() if read.is_request else None)
    return replace(result, warnings=(*result.warnings, *_repair_warnings(job)))


def _repair_warnings(job: CompressJob) -> list[str]:
    """Repairs before the engine reads the messages; the engine reports its own."""
    from clew.messages import repair

    by_engine = repair(job.conversation.messages, open_end=True).repairs
    own = _repair_texts([each for each in job.repairs if each not in by_engine])
    more = f"; and {len(own) - MAX_REPAIRS:,} more" if len(own) > MAX_REPAIRS else ""
    return [f"Repaired before folding: {'; '.join(own[:MAX_REPAIRS])}{more}."] if own else []


def _repair_texts(repairs: Sequence[Repair]) -> list[str]:
    return [f"message {each.index}: {each.problem}: {each.remedy}" for each in repairs]


def _write_results(
    options: CompressOptions, job: CompressJob, preview: CompactionPreview, result: Compressed, console: Console
) -> None:
    """Write files, then print the result."""
    report = build_report(job.source, job.origin, job.model, preview, result, is_previewed=job.engine is None)
    text = _as_text(result.messages if result.request is None else result.request, job.transcript.kind)
    if options.output not in (None, "-"):
        _write(options.output, text)
    if options.report:
        with console.phase("drawing the page"):
            shown = report if options.unredacted else redacted_report(report)
            _write(options.report, report_page(shown, is_redacted=not options.unredacted))
    if console.as_json:
        console.print_json(report_json(report, job.transcript.kind, _repair_texts(job.repairs)))
    elif options.handoff or options.output == "-":
        console.notes([one_line_report(report), *result.warnings])
        console.out.write(text if not options.handoff else f"{result.summary}\n" if result.summary else "")
    else:
        print_report(report, console, [name for name in (options.output, options.report) if name])


def _as_text(wire: Any, kind: str) -> str:
    """The conversation in the format of its file."""
    if kind == "jsonl" and isinstance(wire, list):
        return "".join(f"{json_text(message)}\n" for message in wire)
    return f"{json_text(wire, indent=1)}\n"


def _write(name: str, text: str) -> None:
    with private_file(name) as out:
        out.write(text)


def _check_options(options: CompressOptions, console: Console) -> None:
    """Raise `InvalidArgument` for contradicting options."""
    files = [name for name in (options.output, options.report) if name not in (None, "-")]
    check_page(options.report, "report.html")
    if options.unredacted and not options.report:
        raise InvalidArgument("--unredacted is about the page", remedy="add --report OUT.html, or leave it out")
    if options.preview and (options.output or options.report):
        raise InvalidArgument("--preview writes nothing", remedy="leave out --output and --report, or --preview")
    to_stdout = {"--json": console.as_json, "--handoff": options.handoff, "--output -": options.output == "-"}
    printed = [name for name, is_given in to_stdout.items() if is_given]
    if len(printed) > 1:
        raise InvalidArgument(f"{' and '.join(printed)} both print to standard output", remedy="give one of them")
    if options.preview and options.handoff:
        raise InvalidArgument("--preview writes no handoff", remedy="leave out --handoff or --preview")
    if options.engine not in (None, "compressor") and options.to is not None:
        raise InvalidArgument(
            "--to is for the compressor", remedy=f"with --engine {options.engine} give --window TOKENS"
        )
    for name in files:
        check_output(name)
        is_there = options.file != "-" and Path(name).exists() and Path(options.file).exists()
        if is_there and Path(name).samefile(options.file):
            raise InvalidArgument(f"{name} is the conversation itself, and would be lost", remedy="name another file")
    if len(files) == 2 and Path(files[0]).absolute() == Path(files[1]).absolute():
        raise InvalidArgument(f"--output and --report both name {files[0]}", remedy="name a different file for each")


def print_report(report: CompactionReport, console: Console, written: Sequence[str]) -> None:
    """Print the report; `written` are the names of written files."""
    facts = (plural(len(report.outcomes), "message"), report.origin, report.model or "no model named")
    blocks = [console.title_lines(report.source, facts), _bars(report, console)]
    if report.result.changed:
        replaced_by = "map" if report.has_map else "handoff"
        table = region_table(report.groups, report.handoff_tokens, console, replaced_by, report.removes_by_choice)
        blocks.append(chain(console.styled_lines("where the messages are", "bold"), table))
        blocks.append(_map(report, console) if report.has_map else _handoff(report, console))
    blocks.append(_remarks(report, console, written))
    console.print_blocks(blocks)


def print_preview(job: CompressJob, preview: CompactionPreview, console: Console) -> None:
    outcomes, replaced_by = previewed_outcomes(preview), "handoff" if job.engine is None else "map"
    facts = (plural(len(outcomes), "message"), job.origin, job.model or "no model named")
    table = region_table(group_by_region(outcomes), preview.summary_tokens, console, replaced_by)
    blocks = [
        console.title_lines(job.source, facts),
        _bar_lines(_previewed_bars(preview, outcomes, job.model, replaced_by), console),
        chain(console.styled_lines("what would become of the messages", "bold"), table),
    ]
    if preview.would_fold:
        blocks.append(_largest(outcomes, console))
    text = "Nothing was done: this is a preview." if preview.would_fold else "There is nothing to fold."
    console.print_blocks([*blocks, console.hint_lines(text)])


def one_line_report(report: CompactionReport) -> str:
    """The report in one line, for stderr."""
    result = report.result
    messages = plural(len(report.outcomes), "message")
    if not result.changed:
        return f"nothing was changed: {result.tokens_before:,} tokens, {messages}"
    counts = Counter(outcome.fate for outcome in report.outcomes)
    folded_into = f"a map of {plural(len(report.shown_nodes), 'part')}" if report.has_map else "one handoff"
    if counts[Fate.SUMMARISED]:
        what = f"{counts[Fate.SUMMARISED]:,} of {messages} folded into {folded_into}"
    else:
        what = f"of {messages} {counts[Fate.REMOVED]:,} removed, {counts[Fate.PRUNED]:,} shortened, none summarised"
    return f"{result.tokens_before:,} -> {result.tokens_after:,} tokens, {report.saved} less; {what}"


def report_json(report: CompactionReport, kind: str, repairs: Sequence[str]) -> dict[str, Any]:
    """The result and the fate of each message."""
    result = report.result
    return {
        "source": report.source,
        "kind": kind,
        "dialect": result.conversation.dialect,
        "model": report.model,
        **json_fields(result, "changed", "tokens_before", "tokens_after"),
        "messages": result.messages,
        **json_fields(result, "system", "summary"),
        "handoff": None if report.has_map or result.handoff is None else result.handoff.as_json(),
        **json_fields(result.compaction, "written_by", "template"),
        "map": nodes_json(report.shown_nodes, report.nodes.values()) if report.has_map else None,
        "fates": [str(outcome.fate) for outcome in report.outcomes],
        "warnings": list(result.warnings),
        "unverified": list(result.compaction.unverified),
        "repairs": list(repairs),
    }


def preview_json(preview: CompactionPreview) -> dict[str, Any]:
    return {
        "changed": preview.would_fold,
        "tokens_before": preview.tokens_before,
        "tokens_after_at_most": preview.tokens_after,
        "summary_tokens_at_most": preview.summary_tokens,
        "ranges": [
            {
                "place": str(group.region),
                "first": min(group.numbers, default=None),
                "last": max(group.numbers, default=None),
                "messages": len(group.outcomes),
                "shortened": group.shortened,
                "tokens": group.tokens,
                "tokens_after": group.tokens_after,
            }
            for group in group_by_region(previewed_outcomes(preview))
        ],
        "places": [str(region) for region in preview.regions],
    }


def _bars(report: CompactionReport, console: Console) -> Iterator[str]:
    result = report.result
    if not result.changed:
        yield from _bar_lines([("now", result.tokens_before, report.parts_before)], console)
        yield ""
        yield console.style("Nothing was changed.", "bold") + " " + " ".join(result.warnings)
        return
    before = ("before", result.tokens_before, report.parts_before)
    yield from _bar_lines([before, ("after", result.tokens_after, report.parts_after)], console, f"{report.saved} less")


def _previewed_bars(
    preview: CompactionPreview, outcomes: Sequence[MessageOutcome], model: str | None, replaced_by: str
) -> list[Bar]:
    earlier = merged_handoff_tokens(preview.source, model)
    tools = preview.tokens_before - earlier - sum(preview.sizes)
    rows: list[Bar] = [
        ("before", preview.tokens_before, request_parts(outcomes, tools, ("handoff", earlier), preview.sizes))
    ]
    if preview.would_fold:
        parts = request_parts(outcomes, tools, (replaced_by, preview.summary_tokens), preview.sizes_after)
        rows.append(("at most", preview.tokens_after, parts))
    return rows


def _bar_lines(rows: Sequence[Bar], console: Console, remark: str = "") -> Iterator[str]:
    """Bars on one scale, and a key to their parts; the remark is in the free end of the last bar."""
    names = max(len(name) for name, _, _ in rows)
    figures = max(len(f"{tokens:,}") for _, tokens, _ in rows)
    cells = console.page_width - names - figures - 4
    whole = max(1, *(tokens for _, tokens, _ in rows))
    for name, tokens, parts in rows:
        drawn, left = console.stacked_bar([(PART_STYLES[part.name], part.tokens) for part in parts], whole, cells)
        free = console.free_cells(left)
        if remark and name == rows[-1][0] and left > len(remark) + 2:
            free = free[: -len(remark) - 1] + " " + remark
        figure = console.style(f"{tokens:>{figures},}", "bold")
        yield f"{name:<{names}}  {figure}  {drawn}{console.style(free, 'dim')}"
    yield from _bar_key(rows[0][2], rows[-1][2], names + figures + 4, console)


def _bar_key(
    before: Sequence[RequestPart], after: Sequence[RequestPart], indent: int, console: Console
) -> Iterator[str]:
    """Each part with its size after compaction, or before it if it is gone."""
    sizes = {part.name: part.tokens for part in before} | {part.name: part.tokens for part in after}
    if indent > console.page_width - _WIDEST_KEY:
        indent = 0
    line, used = " " * indent, indent
    for name in PART_STYLES:
        if name not in sizes:
            continue
        text = f"{name} {sizes[name]:,}"
        if used + len(text) + 4 > console.page_width and used > indent:
            yield line.rstrip()
            line, used = " " * indent, indent
        line += f"{console.bar_cells(PART_STYLES[name], 1)} {text}  "
        used += len(text) + 4
    yield line.rstrip()


def region_table(
    groups: Sequence[RegionGroup],
    handoff: int,
    console: Console,
    replaced_by: str = "handoff",
    removes_by_choice: bool = False,
) -> Iterator[str]:
    """A row for each region; the first folded one has the tokens of the handoff.

    `removes_by_choice`: the engine chose the removed messages; otherwise they were invalid.
    """
    region_texts = {**REGION_TEXTS, CompactionRegion.FOLDED: f"in the {replaced_by}"}
    if removes_by_choice:
        region_texts[CompactionRegion.REMOVED] = "removed by the engine"
    first_folded = next((group for group in groups if group.region is CompactionRegion.FOLDED), None)
    rows = []
    for group in groups:
        words = region_texts[group.region]
        if group.has_prompt:
            words = f"the system prompt, and {words}" if group.numbers else "the system prompt"
        text = words + (f", {group.shortened:,} shortened" if group.shortened else "")
        after = handoff if group is first_folded else group.tokens_after if group.shortened else 0
        size = f"{group.tokens:,}"
        if after and after != group.tokens:
            size += f"{console.sign(' → ', ' -> ')}{after:,}"
        count = f"{len(group.numbers) or len(group.outcomes):,}"
        rows.append((message_range(group.numbers), count, str(group.region), size, text))
    aligns = "<><><"
    columns: list[tuple[str, ...]] = [("messages", "", "", "tokens", ""), *rows]
    if console.width < MIN_WIDTH_FOR_TEXTS:
        # Messages, region and tokens; the text repeats the region.
        aligns, columns = "<<>", [(row[0], row[2], row[3]) for row in columns]
    head, *lines = console.headed_table(columns, aligns)
    yield head
    for group, line in zip(groups, lines, strict=True):
        yield console.style(line, PART_STYLES[str(group.region)].color)


def _largest(outcomes: Sequence[MessageOutcome], console: Console) -> Iterator[str]:
    folded = [outcome for outcome in outcomes if outcome.region is CompactionRegion.FOLDED]
    rows = [
        (
            f"m{outcome.number}",
            outcome.role,
            clip(printable(outcome.tool), 20),
            f"{outcome.tokens:,}",
            printable_line(shown_text(outcome.message)[:400]),
        )
        for outcome in sorted(folded, key=lambda outcome: -outcome.tokens)[:MAX_LARGEST]
    ]
    yield from console.styled_lines("the largest that would be folded", "bold")
    yield from table_lines(rows, "<<<><", console.page_width)


def _handoff(report: CompactionReport, console: Console) -> Iterator[str]:
    compaction, handoff = report.result.compaction, report.result.handoff
    if handoff is None:
        yield f"{console.style('no handoff', 'bold')}  {console.style('no message was summarised', 'dim')}"
        return
    facts = f"{report.handoff_tokens:,} tokens, written by {writer_name(compaction.written_by)}"
    yield f"{console.style('the handoff', 'bold')}  {console.style(clip(facts, console.width - 17), 'dim')}"
    for heading, entries in handoff.ordered_sections():
        lines = sum(1 + len(entry.lines) for entry in entries)
        shown = list(_shown_lines(heading, entries, console.page_width - 2, console))
        count = f"  {lines:,} lines" if lines > len(entries[:MAX_SECTION_LINES]) else ""
        if len(heading) + len(count) > console.page_width:
            count = ""
        if heading:
            yield console.style(printable_line(heading), "cyan") + console.style(count, "dim")
        yield from (f"{MARGIN}{line}" for line in shown)


def _shown_lines(heading: str, entries: Sequence[Entry], room: int, console: Console) -> Iterator[str]:
    """The first lines of the task, the newest completed actions, or the first entries of other sections."""
    if heading == ACTIVE_TASK:
        yield from _task_lines(entries, room)
        return
    newest = len(entries) - MAX_SECTION_LINES if heading == COMPLETED else 0
    for number, entry in list(enumerate(entries, 1))[max(0, newest) :][:MAX_SECTION_LINES]:
        opening = f"{number}. " if list_style(heading) == "numbers" else ""
        yield _entry_line(entry, opening, room, console)


def _task_lines(entries: Sequence[Entry], room: int) -> Iterator[str]:
    wrapped = wrap_all([printable_line(entry.render()) for entry in entries], room - 2)
    yield from wrapped[: MAX_TASK_LINES - 1]
    if len(wrapped) >= MAX_TASK_LINES:
        yield wrapped[MAX_TASK_LINES - 1] + (" …" if len(wrapped) > MAX_TASK_LINES else "")


def _entry_line(entry: Entry, opening: str, room: int, console: Console) -> str:
    """An entry on one line; only its text is cut, not its source."""
    line = read_line(entry)
    source = "".join(span.text for span in line.source)
    text = opening + printable_line(entry.text)
    if not source or len(source) > room // 2:
        return clip(text, room)
    return f"{clip(text, room - len(source) - 1)} {console.style(source, 'magenta')}"


def _map(report: CompactionReport, console: Console) -> Iterator[str]:
    shown = report.shown_nodes
    facts = f"{plural(len(shown), 'part')}, {report.handoff_tokens:,} tokens"
    yield f"{console.style('the map', 'bold')}  {console.style(clip(facts, console.width - 13), 'dim')}"
    yield from tree_lines(shown, report.nodes, console.page_width, console, levels=2)


def _remarks(report: CompactionReport, console: Console, written: Sequence[str]) -> Iterator[str]:
    result = report.result
    if result.changed:
        yield from console.warning_lines(result.warnings)
    if report.cost and result.changed:
        before, after = map(format_dollars, (report.cost.before, report.cost.after))
        text = f"{before} {console.sign('→', '->')} {after} for the prompt of a request, uncached"
        yield f"{pad('cost', 8)} {clip(text, console.width - 13)}"
    for name in written:
        yield f"{pad('written', 8)} {printable(name)}"
    if not written:
        yield from console.hint_lines("keep the result: --output FILE    see all of it: --report FILE.html")


# -- in a chat ---------------------------------------------------------------------------------------------------------

FLAGS = ("--preview", "--full", "--apply", "--undo")
BUSY = "Another process is compacting this conversation now; this chat uses its result."
MAX_HANDOFF_LINES = 24
MAX_UNVERIFIED = 3


@dataclass(frozen=True, slots=True)
class CompressArguments:
    """The arguments of `/compress`."""

    flags: frozenset[str]
    focus: str | None


async def run_compress(state: ChatState, words: str) -> None:
    arguments = _parse_arguments(words)
    conversation = await state.conversation()
    if "--undo" in arguments.flags:
        await _undo(state, conversation)
    elif "--apply" in arguments.flags:
        await _apply(state, conversation)
    elif "--preview" in arguments.flags:
        await _preview_in_chat(state, conversation, arguments.focus, full="--full" in arguments.flags)
    else:
        await _compact_now(state, conversation, arguments.focus)


def _parse_arguments(words: str) -> CompressArguments:
    """Parse flags, then the focus."""
    flags: list[str] = []
    rest = words.strip()
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        if flag not in FLAGS:
            raise InvalidArgument(
                f"/compress has no option {flag}", remedy=f"it takes {', '.join(FLAGS)} or words to focus on"
            )
        flags.append(flag)
        rest = rest.strip()
    alone = {"--apply", "--undo"}.intersection(flags)
    if alone and (len(flags) > 1 or rest):
        raise InvalidArgument(f"/compress {min(alone)} takes no other arguments", remedy="leave out the rest")
    if flags == ["--full"]:
        flags.append("--preview")
    return CompressArguments(frozenset(flags), rest or None)


async def _compact_now(state: ChatState, conversation: Conversation, focus: str | None) -> None:
    compaction = await conversation.compact_now(focus)
    state.previewed = None
    if compaction is None:
        state.show_text(BUSY)
    elif compaction.changed:
        state.show_lines(lambda console: _applied_lines(compaction, focus, console))
    else:
        state.show_text(*_unchanged_text(compaction))


async def _preview_in_chat(state: ChatState, conversation: Conversation, focus: str | None, *, full: bool) -> None:
    state.wait_for(f"preview of {conversation.size.tokens:,} tokens: summarise")
    prepared = await conversation.preview_compaction(focus)
    if not prepared.compaction.changed:
        state.previewed = None
        state.show_text(*_unchanged_text(prepared.compaction))
        return
    state.previewed = prepared
    preview = preview_of(prepared, conversation)
    state.show_lines(lambda console: _preview_lines(prepared, preview, console, full=full))
    if await state.confirm("Apply exactly this?"):
        await _apply(state, conversation)
    else:
        state.show_text("Nothing was changed. /compress --apply applies this one later, as long as it still fits.")


async def _apply(state: ChatState, conversation: Conversation) -> None:
    prepared = state.previewed
    if prepared is None:
        raise InvalidArgument("no preview is waiting to be applied", remedy="/compress --preview makes one")
    state.previewed = None
    applied = await conversation.apply_compaction(prepared)
    if applied is None:
        raise InvalidArgument(
            "the preview was made for another state of this conversation and was not applied",
            remedy="/compress --preview makes a new one",
        )
    state.show_lines(lambda console: _applied_lines(applied, prepared.focus, console))


async def _undo(state: ChatState, conversation: Conversation) -> None:
    messages, tokens = len(conversation.messages), conversation.size.tokens
    if not await conversation.undo_compaction():
        state.show_text("There is nothing to undo: no compaction is in effect, and the model sees the whole history.")
        return
    state.previewed = None
    now, now_tokens = len(conversation.messages), conversation.size.tokens
    threshold = conversation.engine.get_status().threshold_tokens
    again = f"That is above the threshold of {threshold:,}: the next question would compact it again."
    state.show_text(
        f"The view from before the newest compaction is back, word for word: {plural(now, 'message')}"
        f" ({now - messages:,} more) with {now_tokens:,} tokens, where there were {tokens:,}.",
        *([again] if now_tokens >= threshold else []),
    )


def _unchanged_text(compaction: Compaction) -> list[str]:
    """The reason why nothing was folded."""
    why = list(compaction.warnings) or [
        "there is nothing between the first messages and the newest ones that could be folded"
    ]
    first = why[0][0].lower() + why[0][1:] if why[0][:1].isupper() and not why[0][:2].isupper() else why[0]
    return [f"Nothing was changed ({compaction.tokens_before:,} tokens): {first}", *why[1:]]


@dataclass(frozen=True, slots=True)
class ChatPreview:
    """The effect of a prepared compaction, in tokens."""

    groups: tuple[RegionGroup, ...]
    handoff: int
    pins: int
    """Number of pinned texts that would be added after the system prompt."""
    pinned: int
    """Their tokens."""


def preview_of(prepared: PreparedCompaction, conversation: Conversation) -> ChatPreview:
    from clew.tokens import counter_for
    from clew.turn import share_of

    compaction, size, count = prepared.compaction, conversation.size, conversation.view.count
    counted_after = conversation.view.counted_with(len(prepared.view.messages), compaction.messages)

    def before(counted: int) -> int:
        return share_of(counted, size.counted, compaction.tokens_before)

    def after(counted: int) -> int:
        return share_of(counted, counted_after, compaction.tokens_after)

    pins = _folded_pins(compaction, conversation)
    count_text = counter_for(conversation.target.model).text
    groups = group_by_region(compaction_outcomes(compaction, prepared.view.seqs, count))
    return ChatPreview(
        groups=tuple(
            replace(group, tokens=before(group.tokens), tokens_after=after(group.tokens_after)) for group in groups
        ),
        handoff=after(summary_tokens(compaction, count)),
        pins=len(pins),
        pinned=after(sum(count_text(pin.text) for pin in pins)),
    )


def _folded_pins(compaction: Compaction, conversation: Conversation) -> list[Pin]:
    """Pins whose text the compaction removes from the view."""
    before = {text_of(message) for message in conversation.messages}
    after = {text_of(message) for message in compaction.messages}
    return [pin for pin in conversation.pins if pin.text in before and pin.text not in after]


def _applied_lines(compaction: Compaction, focus: str | None, console: Console) -> Iterator[str]:
    """The effect of an applied compaction."""
    yield from _heading("compacted", _sizes(compaction, console), console)
    folded = sum(fate is Fate.SUMMARISED for fate in compaction.fates)
    shortened = sum(fate is Fate.PRUNED for fate in compaction.fates)
    facts = [("folded", f"{plural(folded, 'message')} into one handoff")] if folded else []
    if shortened:
        facts.append(("shortened", f"{plural(shortened, 'message')}, the originals are kept"))
    yield from console.fact_lines([*facts, *_facts(compaction, focus)])
    yield from console.warning_lines(compaction.warnings)
    yield from console.hint_lines("/compress --undo brings every message back; /tree shows the chain")


def _preview_lines(
    prepared: PreparedCompaction, preview: ChatPreview, console: Console, *, full: bool
) -> Iterator[str]:
    """The effect of a prepared compaction, with its handoff."""
    compaction = prepared.compaction
    yield from _heading("preview", _sizes(compaction, console), console)
    yield from console.hint_lines("nothing is changed yet")
    yield ""
    is_plugin = prepared.engine not in (ContextCompressor.name, LosslessEngine.name)
    yield from region_table(preview.groups, preview.handoff, console, removes_by_choice=is_plugin)
    yield ""
    facts = _facts(compaction, prepared.focus)
    if preview.pins:
        texts = plural(preview.pins, "pinned text")
        facts.append(("pinned", f"{texts} would be added behind the system prompt, {preview.pinned:,} of these tokens"))
    yield from console.fact_lines(facts)
    yield from console.warning_lines(compaction.warnings)
    if compaction.summary:
        yield ""
        yield from _handoff_lines(compaction.summary, preview.handoff, console, full=full)


def _heading(name: str, text: str, console: Console, *styles: str) -> Iterator[str]:
    """A bold name, and a text beside it or, on a narrow screen, below it."""
    if len(name) + 2 + len(text) <= console.page_width:
        yield f"{console.style(name, 'bold')}  {console.style(text, *styles)}"
        return
    yield console.style(name, "bold")
    yield from console.styled_lines(text, *styles)


def _sizes(compaction: Compaction, console: Console) -> str:
    before, after = compaction.tokens_before, compaction.tokens_after
    return f"{before:,} {console.sign('→', '->')} {after:,} tokens, {percent(before - after, before)} less"


def _facts(compaction: Compaction, focus: str | None) -> list[tuple[str, str]]:
    """The writer of the handoff, its focus, and unverified details."""
    facts = []
    if compaction.written_by:
        facts.append(("written by", writer_name(compaction.written_by)))
    if focus:
        facts.append(("focus", focus))
    if compaction.unverified:
        shown = ", ".join(compaction.unverified[:MAX_UNVERIFIED])
        more = len(compaction.unverified) - MAX_UNVERIFIED
        rest = f" and {more:,} more" if more > 0 else ""
        facts.append(("unverified", f"{len(compaction.unverified):,} not found in the originals: {shown}{rest}"))
    elif compaction.summary:
        facts.append(("unverified", "nothing; its paths, numbers and names are in the originals"))
    return facts


def _handoff_lines(summary: str, tokens: int, console: Console, *, full: bool) -> Iterator[str]:
    """The lines of the handoff; unless `full`, only the first."""
    lines = [piece for line in summary.splitlines() for piece in wrap(line, console.page_width - 2) or [""]]
    shown = lines if full else lines[:MAX_HANDOFF_LINES]
    counts = f"{tokens:,} tokens, {plural(len(lines), 'line')}"
    yield from _heading("the handoff", counts, console, "dim")
    edge = console.sign("│", "|")
    for line in shown:
        style = ("cyan",) if line.startswith("#") else ()
        yield f"{console.style(edge, 'dim')} {console.style(line, *style)}"
    if len(shown) < len(lines):
        hidden = f"{plural(len(lines) - len(shown), 'more line')}: /compress --preview --full shows all"
        yield from (console.style(f"{edge} {line}", "dim") for line in wrap(hidden, console.page_width - 2))
