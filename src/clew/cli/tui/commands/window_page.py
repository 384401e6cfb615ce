"""How `/context` looks: the bar with its threshold, the parts with their numbers, the largest messages, remarks."""

from __future__ import annotations

from collections.abc import Iterator

from clew.cli.amounts import counted, percent
from clew.cli.output import Align, Console, arrow_under, clipped, printable, shares, table
from clew.cli.tui.commands.page import MARGIN, facts
from clew.cli.tui.commands.window import Filling, Part

# A colour where there are colours, a letter where there are none; and what it is.
LOOKS: dict[str, tuple[str, str, str]] = {
    "system": ("blue", "S", "rules, project, skills"),
    "memory": ("yellow", "M", "MEMORY.md and USER.md"),
    "pinned": ("red", "P", "comes back word for word"),
    "tools": ("cyan", "t", "what the model may call"),
    "head": ("green", "H", "how it began"),
    "summary": ("magenta", "#", "the handoff"),
    "middle": ("white", "-", "what a compaction would fold"),
    "tail": ("green", "T", "the newest messages"),
}
SOURCES = {
    "config": "from the config",
    "file": "as it is run here",
    "stated": "as the provider stated in an error",
    "endpoint": "as the provider's models endpoint says",
    "table": "from the table that ships with Clew",
    "default": "assumed, since nobody says how large it is",
}


def say_filling(filling: Filling, console: Console) -> None:
    """The page: blocks with a blank line between them."""
    blocks = [_bar(filling, console), _parts(filling, console)]
    if filling.largest:
        blocks.append(_largest(filling, console))
    blocks.append(iter(facts(_remarks(filling), console)))
    for number, block in enumerate(blocks):
        if number:
            console.say()
        for line in block:
            console.say((MARGIN + line).rstrip())


def _bar(filling: Filling, console: Console) -> Iterator[str]:
    cells = console.width - 2 * len(MARGIN)
    whole = max(filling.window, filling.tokens)
    widths = shares([part.tokens / whole for part in filling.parts], cells)
    full = percent(filling.tokens, filling.window)
    yield console.paint(f"{filling.tokens:,} of {filling.window:,} tokens, {full} full", "bold")
    drawn = "".join(_cells(part.name, width, console) for part, width in zip(filling.parts, widths, strict=True))
    yield drawn + console.paint(("░" if console.unicode else ".") * (cells - sum(widths)), "dim")
    if filling.free < 0:
        yield console.paint(arrow_under(filling.window / whole, "the window ends here", cells, console), "red")
    elif filling.threshold is not None:
        words = f"compaction begins at {filling.threshold:,}"
        yield console.paint(arrow_under(filling.threshold / whole, words, cells, console), "dim")


def _cells(name: str, width: int, console: Console) -> str:
    color, letter, _ = LOOKS[name]
    if not console.colors:
        return letter * width
    return console.paint(("▒" if name == "middle" else "█") * width, color)


def _parts(filling: Filling, console: Console) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        (part.name, f"{part.tokens:,}", percent(part.tokens, filling.window), _things(part)) for part in filling.parts
    ]
    is_free = filling.free >= 0
    left = (f"{abs(filling.free):,}", percent(abs(filling.free), filling.window))
    rows.append(("free" if is_free else "too much", *left, "" if is_free else "/compress, or a larger window"))
    for part, line in zip((*filling.parts, None), table(rows, ("<", ">", ">", "<"), console.width - 6), strict=True):
        if part is not None:
            yield f"{_cells(part.name, 1, console)} {line}"
        elif is_free:
            yield f"{console.paint('░' if console.unicode else '.', 'dim')} {line}"
        else:
            yield console.paint(f"! {line}", "bold", "red")


def _things(part: Part) -> str:
    if not part.tokens:
        return "nothing yet"
    about = LOOKS[part.name][2]
    return f"{about}, {counted(part.messages, 'message')}" if part.messages else about


def _largest(filling: Filling, console: Console) -> Iterator[str]:
    rows = [
        (
            "handoff" if (number := filling.numbers[each.index]) is None else f"m{number}",
            each.role,
            clipped(printable(each.tool or ""), 16),
            f"{each.tokens:,}",
            percent(each.tokens, filling.window),
            " ".join(printable(each.opening).split()),
        )
        for each in filling.largest
    ]
    aligns: tuple[Align, ...] = ("<", "<", "<", ">", ">", "<")
    yield console.paint("largest messages", "bold")
    yield from table(rows, aligns, console.width - 2 * len(MARGIN))


def _remarks(filling: Filling) -> Iterator[tuple[str, str]]:
    source = SOURCES.get(filling.window_source, filling.window_source)
    yield "window", f"{filling.window:,} tokens of {filling.model}, {source}"
    if filling.reserve:
        yield "output", f"up to {min(filling.reserve, filling.window):,} tokens for a reply, which must fit in too"
    yield "counted", _counting(filling)
    if filling.threshold is None:
        yield "compaction", "switched off in the config (compression.enabled)"
    elif filling.paused:
        yield "compaction", f"paused: {filling.paused}; /compress does it by hand"
    elif filling.tokens < filling.threshold:
        yield "compaction", f"by itself when another {filling.threshold - filling.tokens:,} tokens are in"
    else:
        yield "compaction", "with the next question"


def _counting(filling: Filling) -> str:
    """Whose figures these are."""
    if filling.reported:
        real = f"the provider counted {filling.reported:,} for the last prompt"
    elif filling.is_anchored:
        real = "the provider has counted earlier prompts, none since the view changed"
    else:
        return f"{filling.counted:,} by our own count; no real figure of the provider is there yet"
    if filling.counted == filling.tokens:
        return f"{real}; our count agrees"
    return f"{real}; our count of this request was {filling.counted:,}, and all parts are put right by it"
