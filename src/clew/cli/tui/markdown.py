"""Replies in Markdown: split into blocks while they stream, and rendered with rich; also diffs of tools.

A finished block is emitted once, and printed permanently. Very long blocks are emitted in parts. Text of models and
tools must be sanitized before it is rendered.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, ListItem, Markdown
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text

MAX_BLOCK_ROWS = 24
"""Longer blocks are emitted in parts, except tables."""
MAX_DIFF_ROWS = 20
_THEME = "ansi_dark"
_ASCII_SIGNS = str.maketrans("•▌─━…", "*|--.")
"""For terminals that only have ASCII."""
_TRAILING_SPACES = re.compile(r"[ ]+((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
_FENCE = re.compile(r"(\s*)(`{3,}|~{3,})\s*([^`]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])\s+\S")
_RULE = re.compile(r" {0,3}(?:(?:\*\s*){3,}|(?:-\s*){3,}|(?:_\s*){3,})$")


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """A finished part of a reply."""

    kind: Literal["markdown", "code"]
    text: str
    language: str = ""
    continues: bool = False
    """Whether it continues the previous block, without an empty row."""


@dataclass(frozen=True, slots=True)
class _CodeFence:
    indent: int
    mark: str
    language: str

    def is_closed_by(self, line: str) -> bool:
        bare = line.strip()
        return len(bare) >= len(self.mark) and set(bare) == {self.mark[0]}


class MarkdownStream:
    """Splits a streamed reply into blocks."""

    def __init__(self) -> None:
        self._line = ""
        self._lines: list[str] = []
        self._fence: _CodeFence | None = None
        self._is_list = False
        self._is_continued = False

    @property
    def tail(self) -> str:
        """The unfinished text."""
        return "\n".join([*self._lines, self._line]) if self._line else "\n".join(self._lines)

    def feed(self, text: str) -> list[MarkdownBlock]:
        """Add a piece; returns the finished blocks."""
        *whole, self._line = (self._line + text).split("\n")
        return [block for line in whole for block in self._take(line)]

    def finish(self) -> list[MarkdownBlock]:
        """Return the remaining blocks, and reset the stream for the next reply."""
        last, self._line = self._line, ""
        blocks = list(self._take(last)) if last else []
        blocks += self._emit_block()
        self._fence = None
        return blocks

    def _take(self, line: str) -> Iterator[MarkdownBlock]:
        if self._fence is not None:
            yield from self._take_code(line, self._fence)
        elif not line.strip():
            yield from self._take_blank()
        elif (opened := _FENCE.match(line)) and (self._is_list or len(opened[1]) < 4):
            yield from self._emit_block()
            words = opened[3].split()
            self._fence = _CodeFence(len(opened[1]), opened[2], words[0].strip("{}.") if words else "")
        elif _HEADING.match(line) or (not self._lines and _RULE.match(line)):
            yield from self._emit_block()
            self._lines = [line]
            yield from self._emit_block()
        else:
            yield from self._take_text(line)

    def _take_code(self, line: str, fence: _CodeFence) -> Iterator[MarkdownBlock]:
        if fence.is_closed_by(line):
            yield from self._emit_block()
            self._fence, self._is_continued = None, False
            return
        indent = min(fence.indent, len(line) - len(line.lstrip()))
        self._lines.append(line[indent:])
        if len(self._lines) >= MAX_BLOCK_ROWS:
            yield from self._emit_block(continues=True)

    def _take_blank(self) -> Iterator[MarkdownBlock]:
        # A list may continue after an empty line; any other block ends.
        if self._is_list and self._lines:
            self._lines.append("")
        else:
            yield from self._emit_block()

    def _take_text(self, line: str) -> Iterator[MarkdownBlock]:
        item = _ITEM.match(line)
        if self._is_list:
            was_blank = bool(self._lines) and not self._lines[-1]
            if was_blank and not item and not line.startswith((" ", "\t")):
                yield from self._emit_block()
            elif item and not item[1] and len(self._lines) >= MAX_BLOCK_ROWS:
                yield from self._emit_block(continues=True)
                self._is_list = True
        elif item and len(item[1]) < 4:
            yield from self._emit_block()
            self._is_list = True
        elif len(self._lines) >= MAX_BLOCK_ROWS and not self._is_table():
            yield from self._emit_block(continues=True)
        self._lines.append(line)

    def _is_table(self) -> bool:
        return any(line.lstrip().startswith("|") for line in self._lines[:2]) or (
            len(self._lines) > 1 and "|" in self._lines[0] and set(self._lines[1].strip()) <= set("|-: ")
        )

    def _emit_block(self, *, continues: bool = False) -> Iterator[MarkdownBlock]:
        """Emit the lines as a block; with `continues`, the next block continues it."""
        lines, self._lines = self._lines, []
        is_continuation, self._is_continued = self._is_continued, continues
        self._is_list = False
        if self._fence is not None:
            if lines:
                yield MarkdownBlock("code", "\n".join(lines), self._fence.language, is_continuation)
        elif any(line.strip() for line in lines):
            yield MarkdownBlock("markdown", "\n".join(lines).rstrip(), continues=is_continuation)


@dataclass(frozen=True, slots=True)
class TerminalLook:
    """Capabilities of the terminal."""

    colors: bool = True
    unicode: bool = True
    environ: Mapping[str, str] | None = None

    def sign(self, fancy: str, plain: str) -> str:
        return fancy if self.unicode else plain


def render(renderable: RenderableType, width: int, look: TerminalLook) -> str:
    """Render for a terminal of this width, without trailing spaces."""
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
    text = _TRAILING_SPACES.sub(r"\1", captured.get())
    return text if look.unicode else text.translate(_ASCII_SIGNS)


def block_renderable(block: MarkdownBlock) -> RenderableType:
    """A block of a reply."""
    if block.kind == "code":
        return _code_text(block.text, block.language)
    return _ReplyMarkdown(block.text)


class _PlainHeading(Heading):
    """A bold heading on the left: that of rich is centered in a box of three rows."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        text = self.text
        text.justify = "left"
        text.stylize("bold underline" if self.tag == "h1" else "bold")
        yield text


@cache
def _parser() -> MarkdownIt:
    # HTML is displayed as text; rich would drop it.
    return MarkdownIt().enable("strikethrough").enable("table").disable(["html_block", "html_inline"])


class _NumberedItem(ListItem):
    """A list number with its dot."""

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> Iterator[RenderableType | Segment]:
        for at, part in enumerate(super().render_number(console, options, number, last_number)):
            if at == 0 and isinstance(part, Segment):
                yield Segment(f"{number}. ".rjust(len(part.text)), part.style)
            else:
                yield part


class _ReplyMarkdown(Markdown):
    elements: ClassVar = {**Markdown.elements, "heading_open": _PlainHeading, "list_item_open": _NumberedItem}

    def __init__(self, markup: str) -> None:
        # URLs are displayed, so that the target of a link is visible.
        super().__init__(markup, code_theme=_THEME, hyperlinks=False)
        self.parsed = _parser().parse(markup)
        # Line ends of models are intended: poems, addresses, logs.
        for part in (child for token in self.parsed for child in token.children or ()):
            if part.type == "softbreak":
                part.type = "hardbreak"


def _code_text(text: str, language: str) -> Text:
    if not language:
        return Text(text, style="cyan", overflow="fold")
    code = Syntax(text, language, theme=_THEME, background_color="default").highlight(text)
    code.overflow = "fold"
    code.rstrip()
    return code


def is_diff(diff: str) -> bool:
    """Whether the text of a tool is a diff."""
    return any(line.startswith(("@@", "+++ ", "--- ")) for line in diff.splitlines()[:8])


def diff_renderable(diff: str, most: int = MAX_DIFF_ROWS) -> Text:
    """A diff in colors, at most this many rows."""
    lines = diff.splitlines()
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
