"""How things look: blocks of a reply, calls of tools, diffs, problems. Values in, text with colours out.

The one file that knows rich. What models and tools wrote must have passed `harmless` before it comes here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, ListItem, Markdown
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text

from clew.cli.tui.streaming import Block

MOST_DIFF_ROWS = 20
_THEME = "ansi_dark"
_PLAIN = str.maketrans("•▌─━…", "*|--.")
"""Signs of drawings, for terminals that have no others than ASCII."""
_FILLING = re.compile(r"[ ]+((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Look:
    """What the terminal can show."""

    colors: bool = True
    unicode: bool = True
    environ: Mapping[str, str] | None = None

    def sign(self, fancy: str, plain: str) -> str:
        return fancy if self.unicode else plain


def drawn(renderable: RenderableType, width: int, look: Look) -> str:
    """What a terminal of this width is sent, with a line end; without spaces that only fill lines."""
    console = Console(
        file=io.StringIO(),
        width=max(10, width),
        force_terminal=look.colors,
        no_color=not look.colors,
        color_system="auto" if look.colors else None,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
        _environ=look.environ,
    )
    with console.capture() as captured:
        console.print(renderable)
    text = _FILLING.sub(r"\1", captured.get())
    return text if look.unicode else text.translate(_PLAIN)


# -- replies -----------------------------------------------------------------------------------------------------------


def drawing_of(block: Block) -> RenderableType:
    """A block of a reply."""
    if block.kind == "code":
        return _code(block.text, block.language)
    return _Reply(block.text)


class _PlainHeading(Heading):
    """At the left and bold: a centred heading in a box takes three rows of a small terminal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        text = self.text
        text.justify = "left"
        text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield text


@cache
def _parser() -> MarkdownIt:
    # A tag in a reply is something to read, and would be left out as HTML.
    return MarkdownIt().enable("strikethrough").enable("table").disable(["html_block", "html_inline"])


class _NumberedItem(ListItem):
    """With the dot that it was written with."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> Iterator[RenderableType | Segment]:
        for at, part in enumerate(super().render_number(console, options, number, last_number)):
            if at == 0 and isinstance(part, Segment):
                yield Segment(f"{number}. ".rjust(len(part.text)), part.style)
            else:
                yield part


class _Reply(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _PlainHeading, "list_item_open": _NumberedItem}

    def __init__(self, markup: str) -> None:
        # Addresses are shown, not hidden behind words: people should see where a link leads.
        super().__init__(markup, code_theme=_THEME, hyperlinks=False)
        self.parsed = _parser().parse(markup)


def _code(text: str, language: str) -> Text:
    if not language:
        return Text(text, style="cyan", overflow="fold")
    code = Syntax(text, language, theme=_THEME, background_color="default").highlight(text)
    code.overflow = "fold"
    code.rstrip()
    return code


# -- tools -------------------------------------------------------------------------------------------------------------


def is_diff(shown: str) -> bool:
    """Whether what a tool shows are changed lines."""
    return any(line.startswith(("@@", "+++ ", "--- ")) for line in shown.splitlines()[:8])


def drawing_of_diff(shown: str, most: int = MOST_DIFF_ROWS) -> Text:
    """Changed lines in their colours, at most so many."""
    lines = shown.splitlines()
    text = Text(overflow="ellipsis", no_wrap=True)
    for line in lines[:most]:
        text.append(f"  {line}\n", _diff_style(line))
    if len(lines) > most:
        text.append(f"  ... {len(lines) - most:,} more lines\n", "dim")
    text.rstrip()
    return text


def _diff_style(line: str) -> str:
    if line.startswith(("+++", "---")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "dim")
