"""How `clew compress` looks: the bars, what became of the messages, the handoff in short; and the same as JSON.

Gets a finished account and decides nothing but layout.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from clew.cli.output import Align, Console, clipped, columns, padded, printable, shares, table
from clew.engines import Fate, Place, Preview
from clew.report import Account, Cell, Share, Stretch, foreseen, merged_handoff, shown_text, stretches_of

# A colour where there are colours, a letter where there are none.
LOOKS: Mapping[str, tuple[str, str]] = {
    "system": ("blue", "S"),
    "tools": ("cyan", "t"),
    "head": ("green", "H"),
    "folded": ("magenta", "-"),
    "handoff": ("red", "#"),
    "kept": ("green", "K"),
    "tail": ("green", "T"),
}
PLACES: Mapping[Place, tuple[str, str]] = {
    Place.HEAD: ("head", "how it began"),
    Place.HANDOFF: ("handoff", "the earlier handoff, taken into the new one"),
    Place.FOLDED: ("folded", "told by the handoff"),
    Place.KEPT: ("kept", "the newest request or reply, word for word"),
    Place.TAIL: ("tail", "the newest messages"),
}
MARGIN = "  "
LINES_OF_A_HEADING = 2
LINES_OF_THE_TASK = 4
LARGEST_SHOWN = 5
_REFERENCE = re.compile(r"(?<![\w/.])m\d+(?![\w/]|\.\w)")
_NUMBER = re.compile(r"\d+[.)]\s")


def say_account(account: Account, console: Console, written: Sequence[str]) -> None:
    """What was done, for people: blocks with a blank line between them."""
    done = account.done
    blocks = [_title(account.source, len(account.cells), account.origin, account.model, console)]
    blocks.append(_bars(account, console))
    if done.changed:
        blocks += [_stretches(account.stretches, console, account.handoff_tokens), _handoff(account, console)]
    blocks.append(_remarks(account, console, written))
    _say(blocks, console)


def say_preview(source: str, origin: str, model: str | None, preview: Preview, console: Console) -> None:
    """What would be done, for people."""
    cells = foreseen(preview)
    blocks = [_title(source, len(cells), origin, model, console)]
    blocks.append(_foreseen_bars(preview, merged_handoff(preview, model), console))
    blocks.append(_stretches(stretches_of(cells), console, preview.summary_tokens, foreseen=True))
    if preview.would_fold:
        blocks.append(_largest(cells, console))
    words = "Nothing was done: this is a preview." if preview.would_fold else "There is nothing to fold."
    blocks.append(iter([console.paint(words, "dim")]))
    _say(blocks, console)


def in_one_line(account: Account) -> str:
    """The account for those who sent the result elsewhere."""
    done = account.done
    if not done.changed:
        return f"nothing was changed: {done.tokens_before:,} tokens, {_counted(len(account.cells), 'message')}"
    folded = sum(cell.fate is Fate.SUMMARISED for cell in account.cells)
    return (
        f"{done.tokens_before:,} -> {done.tokens_after:,} tokens, {account.saved} less; "
        f"{folded:,} of {_counted(len(account.cells), 'message')} folded into one handoff"
    )


def account_json(account: Account, kind: str, repairs: Sequence[str]) -> dict[str, Any]:
    """The result and its account for programs."""
    done = account.done
    return {
        "source": account.source,
        "kind": kind,
        "dialect": done.conversation.dialect,
        "model": account.model,
        "changed": done.changed,
        "tokens_before": done.tokens_before,
        "tokens_after": done.tokens_after,
        "messages": _listed(done.messages),
        "system": done.system,
        "summary": done.summary,
        "written_by": done.compaction.written_by,
        "template": done.compaction.template,
        "fates": [str(cell.fate) for cell in account.cells],
        "warnings": list(done.warnings),
        "unverified": list(done.compaction.unverified),
        "repairs": list(repairs),
    }


def preview_json(preview: Preview) -> dict[str, Any]:
    """What would be done, for programs."""
    return {
        "changed": preview.would_fold,
        "tokens_before": preview.tokens_before,
        "tokens_after_at_most": preview.tokens_after,
        "summary_tokens_at_most": preview.summary_tokens,
        "ranges": [
            {
                "place": str(stretch.place),
                "first": stretch.cells[0].number,
                "last": stretch.cells[-1].number,
                "messages": len(stretch.cells),
                "shortened": stretch.shortened,
                "tokens": stretch.tokens,
                "tokens_after": stretch.tokens_after,
            }
            for stretch in stretches_of(foreseen(preview))
        ],
        "places": [str(place) for place in preview.places],
    }


def _listed(wire: Any) -> Any:
    """The messages of a request; a list is one already."""
    if isinstance(wire, dict):
        return wire["messages"] if "messages" in wire else wire.get("input")
    return wire


def _say(blocks: Iterable[Iterable[str]], console: Console) -> None:
    for number, block in enumerate(blocks):
        if number:
            console.say()
        for line in block:
            console.say((MARGIN + line).rstrip())


def _title(source: str, messages: int, origin: str, model: str | None, console: Console) -> Iterator[str]:
    facts = (_counted(messages, "message"), origin, model or "no model named")
    yield console.paint(clipped(printable(source), console.width - 4), "bold")
    yield console.paint(printable((" · " if console.unicode else " - ").join(facts)), "dim")


# -- bars --------------------------------------------------------------------------------------------------------------


def _bars(account: Account, console: Console) -> Iterator[str]:
    done = account.done
    if not done.changed:
        yield from _bar_lines([("now", done.tokens_before, account.before)], console)
        yield ""
        yield console.paint("Nothing was changed.", "bold") + " " + " ".join(done.warnings)
        return
    less = f"{account.saved} less"
    rows = [("before", done.tokens_before, account.before), ("after", done.tokens_after, account.after)]
    yield from _bar_lines(rows, console, less)


def _foreseen_bars(preview: Preview, earlier: int, console: Console) -> Iterator[str]:
    cells = foreseen(preview)
    around = preview.tokens_before - earlier - sum(preview.sizes)
    rows = [("before", preview.tokens_before, _shares_of(cells, earlier, around, after=False))]
    if preview.would_fold:
        after = _shares_of(cells, preview.summary_tokens, around, after=True)
        rows.append(("at most", preview.tokens_after, after))
    yield from _bar_lines(rows, console)


def _shares_of(cells: Sequence[Cell], handoff: int, around: int, *, after: bool) -> tuple[Share, ...]:
    sums = {"tools": around, "head": 0, "handoff": handoff, "folded": 0, "kept": 0, "tail": 0}
    for cell in cells:
        sums[PLACES[cell.place][0]] += cell.tokens_after if after else cell.tokens
    return tuple(Share(part, tokens) for part, tokens in sums.items() if tokens > 0)


def _bar_lines(rows: Sequence[tuple[str, int, Sequence[Share]]], console: Console, remark: str = "") -> Iterator[str]:
    """Bars under each other, on one scale, and the key to their parts."""
    names = max(len(name) for name, _, _ in rows)
    figures = max(len(f"{tokens:,}") for _, tokens, _ in rows)
    cells = console.width - 2 * len(MARGIN) - names - figures - 4
    whole = max(1, *(tokens for _, tokens, _ in rows))
    for name, tokens, parts in rows:
        widths = shares([part.tokens / whole for part in parts], cells)
        drawn = "".join(_cells(part.part, width, console) for part, width in zip(parts, widths, strict=True))
        free = ("░" if console.unicode else ".") * (cells - sum(widths))
        if remark and name == rows[-1][0] and len(free) > len(remark) + 2:
            free = free[: -len(remark) - 1] + " " + remark
        figure = console.paint(f"{tokens:>{figures},}", "bold")
        yield f"{name:<{names}}  {figure}  {drawn}{console.paint(free, 'dim')}"
    yield from _key(rows, console, names + figures + 4)


def _key(rows: Sequence[tuple[str, int, Sequence[Share]]], console: Console, indent: int) -> Iterator[str]:
    last = {part.part: part.tokens for part in rows[-1][2]}
    first = {part.part: part.tokens for part in rows[0][2]}
    items = [
        (part, f"{part} {last.get(part, first.get(part, 0)):,}") for part in LOOKS if part in first or part in last
    ]
    line, used = " " * indent, indent
    for part, words in items:
        needed = len(words) + 4
        if used + needed > console.width - 2 * len(MARGIN) and used > indent:
            yield line.rstrip()
            line, used = " " * indent, indent
        line += f"{_cells(part, 1, console)} {words}  "
        used += needed
    yield line.rstrip()


def _cells(part: str, width: int, console: Console) -> str:
    color, letter = LOOKS[part]
    block = "▒" if part == "folded" else "█"
    return console.paint(block * width, color) if console.colors else letter * width


# -- messages ----------------------------------------------------------------------------------------------------------


def _stretches(
    stretches: Sequence[Stretch], console: Console, handoff: int, *, foreseen: bool = False
) -> Iterator[str]:
    arrow = " → " if console.unicode else " -> "
    rows = []
    for stretch in stretches:
        name, words = PLACES[stretch.place]
        if stretch.shortened:
            words += f", {stretch.shortened:,} shortened"
        size = f"{stretch.tokens:,}"
        if stretch.place is Place.FOLDED:
            size += f"{arrow}{handoff:,}" if handoff and stretch is _first_folded(stretches) else ""
        elif stretch.tokens_after != stretch.tokens and stretch.shortened:
            size += f"{arrow}{stretch.tokens_after:,}"
        rows.append((_numbers(stretch), f"{len(stretch.cells):,}", name, size, words))
    aligns: tuple[Align, ...] = ("<", ">", "<", ">", "<")
    heading = ("messages", "", "", "tokens", "")
    head, *lines = table([heading, *rows], aligns, console.width - 2 * len(MARGIN))
    yield console.paint("what would become of the messages" if foreseen else "what became of the messages", "bold")
    yield console.paint(head, "dim")
    for stretch, line in zip(stretches, lines, strict=True):
        yield console.paint(line, LOOKS[PLACES[stretch.place][0]][0])


def _first_folded(stretches: Sequence[Stretch]) -> Stretch | None:
    return next((stretch for stretch in stretches if stretch.place is Place.FOLDED), None)


def _numbers(stretch: Stretch) -> str:
    numbers = [cell.number for cell in stretch.cells if cell.number is not None]
    if not numbers:
        return "-"
    return f"m{numbers[0]}" if numbers[0] == numbers[-1] else f"m{numbers[0]}-m{numbers[-1]}"


def _largest(cells: Sequence[Cell], console: Console) -> Iterator[str]:
    folded = sorted((cell for cell in cells if cell.place is Place.FOLDED), key=lambda cell: -cell.tokens)
    rows = [
        (
            f"m{cell.number}",
            cell.role,
            clipped(printable(cell.tool), 20),
            f"{cell.tokens:,}",
            _opening(cell),
        )
        for cell in folded[:LARGEST_SHOWN]
    ]
    yield console.paint("the largest that would be folded", "bold")
    yield from table(rows, ("<", "<", "<", ">", "<"), console.width - 2 * len(MARGIN))


def _opening(cell: Cell) -> str:
    return " ".join(printable(shown_text(cell.message)[:400]).split())


# -- the handoff -------------------------------------------------------------------------------------------------------


def _handoff(account: Account, console: Console) -> Iterator[str]:
    compaction = account.done.compaction
    who = f"{account.handoff_tokens:,} tokens, {_writer(compaction.written_by)}"
    yield f"{console.paint('the handoff', 'bold')}  {console.paint(clipped(who, console.width - 17), 'dim')}"
    sections = _sections(compaction.summary or "")
    room = console.width - 2 * len(MARGIN) - 2
    for number, (heading, lines) in enumerate(sections):
        # The first section is the task, which is what a reader looks for.
        shown = _wrapped(lines, room) if not number else _newest_or_first(lines)
        counted = f"  {len(lines):,} lines" if len(lines) > len(shown) else ""
        yield console.paint(heading, "cyan") + console.paint(counted, "dim")
        for line in shown:
            yield f"  {_with_references(_clipped_before_source(line, room), console)}"


def _sections(summary: str) -> list[tuple[str, list[str]]]:
    """The headings of a handoff with their lines; remarks in brackets and what says nothing are left out."""
    sections: list[tuple[str, list[str]]] = []
    for raw in summary.splitlines():
        line = " ".join(printable(raw).split())
        if line.startswith("#"):
            sections.append((line.lstrip("# "), []))
        elif line and not line.startswith("("):
            if not sections:
                sections.append(("", []))
            sections[-1][1].append(line.removeprefix("- "))
    return [(heading, lines) for heading, lines in sections if lines and lines != ["None."]]


def _wrapped(lines: Sequence[str], room: int) -> list[str]:
    wrapped = [piece for line in lines for piece in wrap(line, room - 2)]
    if len(wrapped) <= LINES_OF_THE_TASK:
        return wrapped
    return [*wrapped[: LINES_OF_THE_TASK - 1], f"{wrapped[LINES_OF_THE_TASK - 1]} …"]


def _newest_or_first(lines: Sequence[str]) -> Sequence[str]:
    """Of numbered actions the newest, of anything else the first."""
    is_numbered = _NUMBER.match(lines[0])
    return lines[-LINES_OF_A_HEADING:] if is_numbered else lines[:LINES_OF_A_HEADING]


_SOURCE = re.compile(r"\s(?:\([^()]{0,40}m\d+[^()]{0,40}\)|\[[^\[\]]{1,60} m\d+\])$")


def _clipped_before_source(line: str, room: int) -> str:
    """Cut to one line, but not the message it came from."""
    if columns(line) <= room or not (found := _SOURCE.search(line)):
        return clipped(line, room)
    return clipped(line[: found.start()], room - columns(found[0])) + found[0]


def _with_references(line: str, console: Console) -> str:
    if not console.colors:
        return line
    return _REFERENCE.sub(lambda found: console.paint(found[0], "magenta"), line)


def _writer(written_by: str | None) -> str:
    return (
        "written by the built-in summariser" if written_by == "built-in" else f"written by {printable(str(written_by))}"
    )


# -- the rest ----------------------------------------------------------------------------------------------------------


def _remarks(account: Account, console: Console, written: Sequence[str]) -> Iterator[str]:
    done = account.done
    if done.changed:
        for warning in done.warnings:
            for number, line in enumerate(wrap(printable(warning), console.width - 6)):
                yield console.paint(f"{'!' if not number else ' '} {line}", "yellow")
    if account.cost and done.changed:
        arrow = "→" if console.unicode else "->"
        before, after = (f"${amount:,.4f}" for amount in (account.cost.before, account.cost.after))
        words = f"{before} {arrow} {after} for the prompt of a request, uncached"
        yield f"{padded('cost', 8)} {clipped(words, console.width - 13)}"
    for name in written:
        yield f"{padded('written', 8)} {printable(name)}"
    if not written:
        hints = "keep the result: --output FILE    see all of it: --report FILE.html"
        yield console.paint(clipped(hints, console.width - 4), "dim")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
