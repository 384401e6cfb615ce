"""How `clew compress` looks: bars of the request, where the messages are, the handoff in short; and as JSON.

The table of regions is also that of `/compress --preview` in a chat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.cli.console import Console
from clew.cli.views.amounts import format_dollars, message_range, plural
from clew.cli.views.node_map import nodes_json, tree_lines
from clew.cli.views.tables import (
    MARGIN,
    BarStyle,
    bar_cells,
    free_cells,
    hint_lines,
    page_width,
    print_blocks,
    stacked_bar,
    table_lines,
    warning_lines,
)
from clew.cli.views.text import Align, clip, pad, printable, printable_line, wrap, wrap_all
from clew.engines import CompactionPreview, CompactionRegion, Fate
from clew.handoff import ACTIVE_TASK, BUILTIN, COMPLETED, Entry, list_style, read_line
from clew.report import (
    CompactionReport,
    MessageOutcome,
    RegionGroup,
    RequestPart,
    group_by_region,
    merged_handoff_tokens,
    previewed_outcomes,
    shown_text,
)

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
MAX_SECTION_LINES = 2
MAX_TASK_LINES = 4
MAX_LARGEST = 5
MIN_WIDTH_FOR_TEXTS = 60
_WIDEST_KEY = 20
"""Of an entry in the key to the bars."""


def print_report(report: CompactionReport, console: Console, written: Sequence[str]) -> None:
    """What was done; `written` are the files that hold it."""
    blocks = [_title(report.source, len(report.outcomes), report.origin, report.model, console)]
    blocks.append(_bars(report, console))
    if report.result.changed:
        blocks.append(_outcomes(report, console))
        blocks.append(_map(report, console) if report.has_map else _handoff(report, console))
    blocks.append(_remarks(report, console, written))
    print_blocks(blocks, console)


def print_preview(
    source: str,
    origin: str,
    model: str | None,
    preview: CompactionPreview,
    console: Console,
    replaced_by: str = "handoff",
) -> None:
    """What would be done; `replaced_by` is what would replace the folded messages."""
    outcomes = previewed_outcomes(preview)
    heading = "what would become of the messages"
    blocks = [
        _title(source, len(outcomes), origin, model, console),
        _preview_bars(preview, outcomes, merged_handoff_tokens(preview.source, model), console, replaced_by),
        _regions(heading, group_by_region(outcomes), preview.summary_tokens, console, replaced_by),
    ]
    if preview.would_fold:
        blocks.append(_largest(outcomes, console))
    text = "Nothing was done: this is a preview." if preview.would_fold else "There is nothing to fold."
    blocks.append(console.style(line, "dim") for line in wrap(text, page_width(console)))
    print_blocks(blocks, console)


def one_line_report(report: CompactionReport) -> str:
    """The report for those who sent the result elsewhere."""
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
    """The result and what became of each message."""
    result = report.result
    return {
        "source": report.source,
        "kind": kind,
        "dialect": result.conversation.dialect,
        "model": report.model,
        "changed": result.changed,
        "tokens_before": result.tokens_before,
        "tokens_after": result.tokens_after,
        "messages": result.messages,
        "system": result.system,
        "summary": result.summary,
        "handoff": None if report.has_map or result.handoff is None else result.handoff.as_json(),
        "written_by": result.compaction.written_by,
        "template": result.compaction.template,
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


def _title(source: str, messages: int, origin: str, model: str | None, console: Console) -> Iterator[str]:
    facts = (plural(messages, "message"), origin, model or "no model named")
    yield console.style(clip(printable(source), page_width(console)), "bold")
    for line in wrap(console.sign(" · ", " - ").join(facts), page_width(console)):
        yield console.style(line, "dim")


# -- bars --------------------------------------------------------------------------------------------------------------


def _bars(report: CompactionReport, console: Console) -> Iterator[str]:
    result = report.result
    if not result.changed:
        yield from _bar_lines([("now", result.tokens_before, report.parts_before)], console)
        yield ""
        yield console.style("Nothing was changed.", "bold") + " " + " ".join(result.warnings)
        return
    before = ("before", result.tokens_before, report.parts_before)
    yield from _bar_lines([before, ("after", result.tokens_after, report.parts_after)], console, f"{report.saved} less")


def _preview_bars(
    preview: CompactionPreview, outcomes: Sequence[MessageOutcome], earlier: int, console: Console, replaced_by: str
) -> Iterator[str]:
    """`earlier` are the tokens of earlier handoffs that are merged with a message."""
    beside = preview.tokens_before - earlier - sum(preview.sizes)
    rows = [("before", preview.tokens_before, _previewed_parts(outcomes, ("handoff", earlier), beside, after=False))]
    if preview.would_fold:
        parts = _previewed_parts(outcomes, (replaced_by, preview.summary_tokens), beside, after=True)
        rows.append(("at most", preview.tokens_after, parts))
    yield from _bar_lines(rows, console)


def _previewed_parts(
    outcomes: Sequence[MessageOutcome], handoff: tuple[str, int], beside: int, *, after: bool
) -> tuple[RequestPart, ...]:
    sums = {"tools": beside, "head": 0, handoff[0]: handoff[1], "folded": 0, "kept": 0, "tail": 0, "removed": 0}
    for outcome in outcomes:
        name = str(outcome.region)
        sums[name] = sums.get(name, 0) + (outcome.tokens_after if after else outcome.tokens)
    return tuple(RequestPart(name, tokens) for name, tokens in sums.items() if tokens > 0)


def _bar_lines(
    rows: Sequence[tuple[str, int, Sequence[RequestPart]]], console: Console, remark: str = ""
) -> Iterator[str]:
    """Bars under each other, on one scale, and the key to their parts; the remark is in the free end of the last."""
    names = max(len(name) for name, _, _ in rows)
    figures = max(len(f"{tokens:,}") for _, tokens, _ in rows)
    cells = page_width(console) - names - figures - 4
    whole = max(1, *(tokens for _, tokens, _ in rows))
    for name, tokens, parts in rows:
        drawn, left = stacked_bar([(PART_STYLES[part.name], part.tokens) for part in parts], whole, cells, console)
        free = free_cells(left, console)
        if remark and name == rows[-1][0] and left > len(remark) + 2:
            free = free[: -len(remark) - 1] + " " + remark
        figure = console.style(f"{tokens:>{figures},}", "bold")
        yield f"{name:<{names}}  {figure}  {drawn}{console.style(free, 'dim')}"
    yield from _bar_key(rows[0][2], rows[-1][2], names + figures + 4, console)


def _bar_key(
    before: Sequence[RequestPart], after: Sequence[RequestPart], indent: int, console: Console
) -> Iterator[str]:
    """Each part with its size after, or before where it is gone."""
    sizes = {part.name: part.tokens for part in before} | {part.name: part.tokens for part in after}
    if indent > page_width(console) - _WIDEST_KEY:
        indent = 0
    line, used = " " * indent, indent
    for name in PART_STYLES:
        if name not in sizes:
            continue
        text = f"{name} {sizes[name]:,}"
        if used + len(text) + 4 > page_width(console) and used > indent:
            yield line.rstrip()
            line, used = " " * indent, indent
        line += f"{bar_cells(PART_STYLES[name], 1, console)} {text}  "
        used += len(text) + 4
    yield line.rstrip()


# -- messages ----------------------------------------------------------------------------------------------------------


def _regions(
    heading: str, groups: Sequence[RegionGroup], handoff: int, console: Console, replaced_by: str = "handoff"
) -> Iterator[str]:
    yield from (console.style(line, "bold") for line in wrap(heading, page_width(console)))
    yield from region_table(groups, handoff, console, replaced_by)


def _outcomes(report: CompactionReport, console: Console) -> Iterator[str]:
    yield from (console.style(line, "bold") for line in wrap("where the messages are", page_width(console)))
    replaced_by = "map" if report.has_map else "handoff"
    yield from region_table(
        report.groups, report.handoff_tokens, console, replaced_by, removes_by_choice=report.removes_by_choice
    )


def region_table(
    groups: Sequence[RegionGroup],
    handoff: int,
    console: Console,
    replaced_by: str = "handoff",
    *,
    removes_by_choice: bool = False,
) -> Iterator[str]:
    """What becomes of each region; the first folded one shows the tokens of the handoff that takes its place.

    `removes_by_choice` says that the engine chose the removed messages; otherwise no provider would take them.
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
    aligns: tuple[Align, ...] = ("<", ">", "<", ">", "<")
    columns: list[tuple[str, ...]] = [("messages", "", "", "tokens", ""), *rows]
    if console.width < MIN_WIDTH_FOR_TEXTS:
        # Where they are, what becomes of them and their size; the words say the same again.
        aligns, columns = ("<", "<", ">"), [(row[0], row[2], row[3]) for row in columns]
    head, *lines = table_lines(columns, aligns, page_width(console))
    yield console.style(head, "dim")
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
    for line in wrap("the largest that would be folded", page_width(console)):
        yield console.style(line, "bold")
    yield from table_lines(rows, ("<", "<", "<", ">", "<"), page_width(console))


# -- the handoff -------------------------------------------------------------------------------------------------------


def _handoff(report: CompactionReport, console: Console) -> Iterator[str]:
    compaction, handoff = report.result.compaction, report.result.handoff
    if handoff is None:
        yield f"{console.style('no handoff', 'bold')}  {console.style('no message was summarised', 'dim')}"
        return
    facts = f"{report.handoff_tokens:,} tokens, written by {writer_name(compaction.written_by)}"
    yield f"{console.style('the handoff', 'bold')}  {console.style(clip(facts, console.width - 17), 'dim')}"
    for heading, entries in handoff.ordered_sections():
        lines = sum(1 + len(entry.lines) for entry in entries)
        shown = list(_shown_lines(heading, entries, page_width(console) - 2, console))
        count = f"  {lines:,} lines" if lines > len(entries[:MAX_SECTION_LINES]) else ""
        if len(heading) + len(count) > page_width(console):
            count = ""
        if heading:
            yield console.style(printable_line(heading), "cyan") + console.style(count, "dim")
        yield from (f"{MARGIN}{line}" for line in shown)


def _shown_lines(heading: str, entries: Sequence[Entry], room: int, console: Console) -> Iterator[str]:
    """The task as far as a few lines reach; of completed actions the newest entries; of other entries the first."""
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
    """An entry on one line; its text is cut, and its source is not."""
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
    yield from tree_lines(shown, report.nodes, page_width(console), console, levels=2)


def writer_name(written_by: str | None) -> str:
    if not written_by:
        return "the engine"
    return "the built-in summariser" if written_by == BUILTIN else printable(written_by)


# -- the rest ----------------------------------------------------------------------------------------------------------


def _remarks(report: CompactionReport, console: Console, written: Sequence[str]) -> Iterator[str]:
    result = report.result
    if result.changed:
        yield from warning_lines(result.warnings, console)
    if report.cost and result.changed:
        before, after = map(format_dollars, (report.cost.before, report.cost.after))
        text = f"{before} {console.sign('→', '->')} {after} for the prompt of a request, uncached"
        yield f"{pad('cost', 8)} {clip(text, console.width - 13)}"
    for name in written:
        yield f"{pad('written', 8)} {printable(name)}"
    if not written:
        yield from hint_lines("keep the result: --output FILE    see all of it: --report FILE.html", console)
