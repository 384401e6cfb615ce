"""How a compaction looks in a chat: the account of one that was done, and the preview of one that could be.

Gets finished values and decides nothing but layout.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew.cli.amounts import counted, percent
from clew.cli.output import Align, Console, table
from clew.cli.tui.commands.page import MARGIN, facts, hint, wrapped
from clew.cli.tui.commands.stretches import Outlook, Stretch
from clew.engines import Compaction, Fate
from clew.turn import Draft

SHOWN_LINES = 24
UNVERIFIED_SHOWN = 3
ABOUT = {
    "head": ("green", "how it began"),
    "handoff": ("red", "the earlier handoff, taken in"),
    "folded": ("magenta", "told by the handoff"),
    "kept": ("green", "the newest request or reply"),
    "tail": ("green", "the newest messages"),
    "removed": ("red", "broken, and left out"),
}


def say_done(done: Compaction, focus: str | None, console: Console) -> None:
    """The account of a compaction that was applied."""
    folded = sum(fate is Fate.SUMMARISED for fate in done.fates)
    console.say(f"{MARGIN}{console.paint('compacted', 'bold')}  {_sizes(done, console)}")
    told = [("folded", f"{counted(folded, 'message')} into one handoff")] if folded else []
    pruned = sum(fate is Fate.PRUNED for fate in done.fates)
    if pruned:
        told.append(("shortened", f"{counted(pruned, 'message')}, the originals are kept"))
    told += _account(done, focus)
    for line in facts(told, console):
        console.say(MARGIN + line)
    _say_warnings(done, console)
    console.say(hint("/compress --undo brings every message back; /tree shows the chain", console))


def say_draft(drawn: Draft, outlook: Outlook, console: Console, *, whole: bool) -> None:
    """What a compaction would do, with the very text that would then stand there."""
    done = drawn.compaction
    console.say(f"{MARGIN}{console.paint('preview', 'bold')}  {_sizes(done, console)}")
    console.say(hint("nothing is changed yet", console))
    console.say()
    for line in _table(outlook, console):
        console.say(MARGIN + line)
    console.say()
    for line in facts([*_account(done, drawn.focus), *_pinned(outlook)], console):
        console.say(MARGIN + line)
    _say_warnings(done, console)
    if done.summary:
        console.say()
        for line in _handoff(done.summary, outlook.handoff, console, whole=whole):
            console.say((MARGIN + line).rstrip())


def _sizes(done: Compaction, console: Console) -> str:
    arrow = "→" if console.unicode else "->"
    less = percent(done.tokens_before - done.tokens_after, done.tokens_before)
    return f"{done.tokens_before:,} {arrow} {done.tokens_after:,} tokens, {less} less"


def _account(done: Compaction, focus: str | None) -> list[tuple[str, str]]:
    """Who wrote it, about what, and what could not be verified."""
    told = []
    if done.written_by:
        who = "the built-in summariser" if done.written_by == "built-in" else done.written_by
        told.append(("written by", who))
    if focus:
        told.append(("focus", focus))
    if done.unverified:
        shown = ", ".join(done.unverified[:UNVERIFIED_SHOWN])
        more = len(done.unverified) - UNVERIFIED_SHOWN
        rest = f" and {more:,} more" if more > 0 else ""
        told.append(("unverified", f"{len(done.unverified):,} not found in the originals: {shown}{rest}"))
    elif done.summary:
        told.append(("unverified", "nothing; its paths, numbers and names stand in the originals"))
    return told


def _pinned(outlook: Outlook) -> list[tuple[str, str]]:
    if not outlook.pins:
        return []
    texts = counted(outlook.pins, "pinned text")
    return [("pinned", f"{texts} would come back behind the system prompt, {outlook.pinned:,} tokens beside these")]


def _say_warnings(done: Compaction, console: Console) -> None:
    for warning in done.warnings:
        for number, line in enumerate(wrapped([warning], console.width - 6)):
            console.say(MARGIN + console.paint(f"{' ' if number else '!'} {line}", "yellow"))


def _table(outlook: Outlook, console: Console) -> Iterator[str]:
    """What would become of each stretch of messages."""
    rows = [_row(stretch, outlook, console) for stretch in outlook.stretches]
    aligns: tuple[Align, ...] = ("<", ">", "<", ">", "<")
    head, *lines = table([("messages", "", "", "tokens", ""), *rows], aligns, console.width - 2 * len(MARGIN))
    yield console.paint(head, "dim")
    for stretch, line in zip(outlook.stretches, lines, strict=True):
        yield console.paint(line, ABOUT[stretch.place][0])


def _row(stretch: Stretch, outlook: Outlook, console: Console) -> tuple[str, ...]:
    arrow = " → " if console.unicode else " -> "
    words = ABOUT[stretch.place][1]
    if stretch.shortened:
        words += f", {stretch.shortened:,} shortened"
    size = f"{stretch.before:,}"
    if stretch is outlook.first_folded:
        size += f"{arrow}{outlook.handoff:,}"
    elif stretch.place not in ("folded", "handoff") and stretch.after != stretch.before:
        size += f"{arrow}{stretch.after:,}"
    return _numbers(stretch), f"{len(stretch.numbers):,}", stretch.place, size, words


def _numbers(stretch: Stretch) -> str:
    numbers = [number for number in stretch.numbers if number is not None]
    if not numbers:
        return "-"
    return f"m{numbers[0]}" if numbers[0] == numbers[-1] else f"m{numbers[0]}-m{numbers[-1]}"


def _handoff(summary: str, tokens: int, console: Console, *, whole: bool) -> Iterator[str]:
    """The handoff line by line as it would stand there; the whole of it where that is asked for."""
    room = console.width - 2 * len(MARGIN) - 2
    lines = [piece for line in summary.splitlines() for piece in wrapped([line], room) or [""]]
    shown = lines if whole else lines[:SHOWN_LINES]
    counts = f"{tokens:,} tokens, {counted(len(lines), 'line')}"
    yield f"{console.paint('the handoff', 'bold')}  {console.paint(counts, 'dim')}"
    edge = "│" if console.unicode else "|"
    for line in shown:
        style = ("cyan",) if line.startswith("#") else ()
        yield f"{console.paint(edge, 'dim')} {console.paint(line, *style)}"
    if len(shown) < len(lines):
        hidden = f"{counted(len(lines) - len(shown), 'more line')}: /compress --preview --full shows all"
        yield console.paint(f"{edge} {hidden}", "dim")
