"""The streams of a command: results on stdout, notices and progress on stderr, fitted to width, colors and encoding."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from clew.cli.pages import MARGIN, BarStyle, bar_widths, table_lines
from clew.cli.text import clip, printable, printable_line, wrap
from clew.errors import ClewError, InvalidArgument

if TYPE_CHECKING:
    import asyncio
    from logging import Formatter

MIN_WIDTH, MAX_WIDTH, DEFAULT_WIDTH = 30, 120, 80
MIN_FACT_WIDTH = 24
"""Facts are below their names where they would have less."""
_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "white": "37",
}
_TICK_SECONDS = 0.25
_CLOCK_FROM_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Console:
    """The streams of a command, what they can display, and the options of every command."""

    out: TextIO
    err: TextIO
    environ: Mapping[str, str]
    width: int
    colors: bool
    unicode: bool
    shows_progress: bool
    """stderr is a terminal: a progress line may be drawn and cleared."""
    stdin: TextIO | None = None
    """Standard input, if there is one."""
    is_for_program: bool = False
    """stdout is no terminal: lines of messages are not wrapped, so that code and tables stay whole."""
    as_json: bool = False
    """The result is printed as JSON."""
    flags: Sequence[str] = ()
    """Settings for this run: `key=value`."""

    @property
    def is_typed_at(self) -> bool:
        """Whether stdin is a terminal, so that a person can answer."""
        return self.stdin is not None and not self.stdin.closed and self.stdin.isatty()

    def read_line(self) -> str:
        """The next line of stdin, unchanged; empty at its end."""
        return "" if self.stdin is None else self.stdin.readline()

    def print(self, line: str = "") -> None:
        """Print one line of the result."""
        print(_encodable(line, self.out), file=self.out)

    def print_json(self, value: Any) -> None:
        """Print the result as JSON."""
        print(json_text(value, self.out, indent=2), file=self.out)

    def print_json_line(self, value: Any) -> None:
        """Print one of several results on one line, and flush."""
        print(json_text(value, self.out), file=self.out, flush=True)

    def note(self, line: str) -> None:
        """Print one line to stderr."""
        self.clear_progress()
        print(_encodable(f"clew: {line}", self.err), file=self.err)

    def notes(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.note(line)

    def show(self, value: Any, draw: Callable[[], None]) -> int:
        """Print the result, as JSON or drawn; returns the exit code of success."""
        if self.as_json:
            self.print_json(value)
        else:
            draw()
        return 0

    def print_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.print(line)

    def say(self, text: str, *styles: str) -> None:
        """Print a sentence of the result, wrapped."""
        self.print_all(self.style(line, *styles) for line in wrap(text, self.width))

    def confirm(self, question: str) -> bool:
        """Ask at the terminal; anything but yes is no."""
        self.err.write(printable(question))
        self.err.flush()
        return self.read_line().strip().lower() in ("y", "yes")

    def error(self, line: str) -> None:
        """Print the reason for a failure on one line."""
        self.note(printable_line(line))

    def progress(self, line: str) -> None:
        """Draw a line that the next one replaces, if stderr is a terminal."""
        if self.shows_progress:
            self.err.write(f"\r\x1b[K{_encodable(line[: self.width - 1], self.err)}")
            self.err.flush()

    def clear_progress(self) -> None:
        if self.shows_progress:
            self.err.write("\r\x1b[K")

    @contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """Show a progress line while the block runs, with a clock after the first second."""
        if not self.shows_progress:
            yield
            return
        started, over = monotonic(), Event()

        def tick() -> None:
            while not over.wait(_TICK_SECONDS):
                seconds = monotonic() - started
                if seconds >= _CLOCK_FROM_SECONDS:
                    self.progress(f"{text} ... {seconds:.0f} s")

        self.progress(f"{text} ...")
        clock = Thread(target=tick, daemon=True)
        clock.start()
        try:
            yield
        finally:
            over.set()
            clock.join()
            self.clear_progress()

    def style(self, text: str, *styles: str) -> str:
        """The text in colors, if the terminal has colors."""
        if not (self.colors and styles and text):
            return text
        return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"

    def sign(self, fancy: str, plain: str) -> str:
        """A character, or its substitute in ASCII."""
        return fancy if self.unicode else plain

    # -- pages: lines behind a margin, fitted to the width --

    @property
    def page_width(self) -> int:
        """The columns between the margins."""
        return self.width - 2 * len(MARGIN)

    def print_lines(self, lines: Iterable[str]) -> None:
        """Print lines after the margin."""
        self.print_all((MARGIN + line).rstrip() for line in lines)

    def print_blocks(self, blocks: Iterable[Iterable[str]]) -> None:
        """Print blocks of lines after the margin, with a blank line between them."""
        for number, block in enumerate(blocks):
            if number:
                self.print()
            self.print_lines(block)

    def styled_lines(self, text: str, *styles: str) -> Iterator[str]:
        """A sentence, wrapped to the page."""
        return (self.style(line, *styles) for line in wrap(text, self.page_width))

    def hint_lines(self, text: str) -> Iterator[str]:
        """A hint about the next step, dim."""
        return self.styled_lines(text, "dim")

    def title_lines(self, title: str, facts: Iterable[str]) -> Iterator[str]:
        """The title of a page on one line, and facts about what it shows."""
        yield self.style(clip(printable(title), self.page_width), "bold")
        yield from self.hint_lines(self.sign(" · ", " - ").join(facts))

    def warning_lines(self, warnings: Iterable[str]) -> Iterator[str]:
        """Warnings, each with an exclamation mark."""
        for warning in warnings:
            for number, line in enumerate(wrap(warning, self.width - 6)):
                yield self.style(f"{' ' if number else '!'} {line}", "yellow")

    def fact_lines(self, facts: Iterable[tuple[str, str]], names: int = 10, gap: int = 2) -> Iterator[str]:
        """Names and values in two columns, or below each other on a narrow screen."""
        room = self.page_width - names - gap
        is_narrow = room < MIN_FACT_WIDTH
        for name, fact in facts:
            if is_narrow and name:
                yield self.style(name, "dim")
            first, *more = wrap(fact, self.page_width - len(MARGIN) if is_narrow else room) or [""]
            indent = MARGIN if is_narrow else " " * (names + gap)
            yield f"{indent if is_narrow else self.style(name.ljust(names), 'dim') + ' ' * gap}{first}"
            yield from (f"{indent}{line}" for line in more)

    def headed_table(
        self, rows: Sequence[Sequence[str]], aligns: Sequence[str], width: int = 0, *styles: str
    ) -> list[str]:
        """A table whose first row is its heading, dim unless other styles are given; as wide as a page by default."""
        head, *lines = table_lines(rows, aligns, width or self.page_width)
        return [self.style(head, *(styles or ("dim",))), *lines]

    def bar_cells(self, style: BarStyle, width: int) -> str:
        """Cells of one part of a bar."""
        return self.style(style.block * width, style.color) if self.colors else style.letter * width

    def free_cells(self, width: int) -> str:
        """Empty cells of a bar, without color."""
        return self.sign("░", ".") * width

    def stacked_bar(self, parts: Sequence[tuple[BarStyle, int]], whole: int, cells: int) -> tuple[str, int]:
        """A bar of this many cells, and how many cells are free."""
        widths = bar_widths([size / whole if whole else 0.0 for _, size in parts], cells)
        drawn = "".join(self.bar_cells(style, width) for (style, _), width in zip(parts, widths, strict=True))
        return drawn, cells - sum(widths)

    def window_bar(
        self, parts: Sequence[tuple[BarStyle, int]], tokens: int, window: int, threshold: int | None
    ) -> Iterator[str]:
        """The usage of a window as a bar, and a marker for the threshold or the end of the window."""
        cells, whole = self.page_width, max(window, tokens)
        drawn, free = self.stacked_bar(parts, whole, cells)
        yield drawn + self.style(self.free_cells(free), "dim")
        if tokens > window:
            yield self.style(self._marker_line(window / whole, "the window ends here", cells), "red")
        elif threshold is not None:
            yield self.style(self._marker_line(threshold / whole, f"compaction begins at {threshold:,}", cells), "dim")

    def _marker_line(self, position: float, text: str, cells: int) -> str:
        """An arrow at a position (0 to 1) below a bar, with its text on the side that has room."""
        at = min(cells - 1, int(position * cells))
        arrow = self.sign("▲", "^")
        if at + len(text) + 2 <= cells:
            return " " * at + f"{arrow} {text}"
        return " " * at + arrow if len(text) + 2 > cells else f"{text} {arrow}".rjust(at + 1)

    def print_setups(self, setups: Iterable[Mapping[str, Any]]) -> None:
        """Print the config file of each program, the lines to paste, and its window setting."""
        for setup in setups:
            title = f"{setup['title']} ({setup['where']}):"
            self.print(f"\n{self.style(title, 'bold')}")
            self.print_all(f"  {line}".rstrip() for line in setup["lines"].splitlines())
            if window := setup.get("window"):
                self.print(self.style(f"  # window: {window}", "dim"))


def console_for(out: TextIO, err: TextIO, environ: Mapping[str, str], stdin: TextIO | None = None) -> Console:
    """The console for these streams and this environment."""
    is_dumb = environ.get("TERM") == "dumb"
    colors = _has_colors(out, environ)
    shows_progress = err.isatty() and not is_dumb
    is_for_program = not out.isatty() and "COLUMNS" not in environ
    return Console(
        out, err, environ, _width(out, environ), colors, _fits("█░·", out), shows_progress, stdin, is_for_program
    )


def json_text(value: Any, stream: TextIO | None = None, indent: int | None = None) -> str:
    """JSON text; escaped to ASCII if the stream cannot encode it, as with a lone surrogate."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text if _fits(text, stream) else json.dumps(value, indent=indent)


def _has_colors(out: TextIO, environ: Mapping[str, str]) -> bool:
    """NO_COLOR disables colors, FORCE_COLOR enables them; by default a terminal has them unless TERM is dumb."""
    if environ.get("NO_COLOR"):
        return False
    forced = environ.get("FORCE_COLOR")
    if forced is not None and forced != "":
        return forced.lower() not in ("0", "false")
    return out.isatty() and environ.get("TERM") != "dumb"


def check_output(name: str) -> None:
    """Raise `InvalidArgument` where a file of that name cannot be written."""
    path = Path(name)
    if path.is_dir():
        raise InvalidArgument(f"{path} is a folder", remedy="name a file in it")
    if not path.parent.is_dir():
        raise InvalidArgument(f"{path}: there is no folder {path.parent}", remedy="make it first, or name another file")


def check_page(name: str | None, example: str) -> None:
    """Raise `InvalidArgument` where `--report` names no file that a page can be written to."""
    if name == "-":
        raise InvalidArgument(
            "--report - is not possible: a page goes to a file", remedy=f"name one, such as {example}"
        )
    if name is not None:
        check_output(name)


@contextmanager
def private_file(name: str) -> Iterator[TextIO]:
    """Open a file for writing that only its owner can read."""
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        # An existing file may be readable by others; a device or a pipe keeps its mode.
        if hasattr(os, "fchmod") and stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as out:
            yield out
    except OSError as error:
        raise ClewError(f"{name}: cannot be written: {error.strerror}", remedy="name another file") from error


def stop_signals() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set."""
    import asyncio  # late, for the start-up time

    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Windows has no such handlers; Ctrl-C still ends the program.
        with suppress(NotImplementedError):
            loop.add_signal_handler(number, stopped.set)
    return stopped


@contextmanager
def logged_warnings(stream: TextIO, formatter: Formatter | None = None) -> Iterator[None]:
    """Log warnings to a stream while the block runs."""
    import logging  # late, for the start-up time

    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def _width(out: TextIO, environ: Mapping[str, str]) -> int:
    stated = environ.get("COLUMNS", "")[:6]
    is_number = stated.isascii() and stated.isdigit() and int(stated) > 0
    return max(MIN_WIDTH, min(MAX_WIDTH, int(stated) if is_number else _terminal_width(out)))


def _terminal_width(out: TextIO) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


def _encoding(stream: TextIO | None) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def _fits(text: str, stream: TextIO | None) -> bool:
    try:
        text.encode(_encoding(stream))
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _encodable(text: str, stream: TextIO) -> str:
    if _fits(text, stream):
        return text
    encoding = _encoding(stream)
    return text.replace("…", "...").encode(encoding, "replace").decode(encoding)
