"""Makes the pictures of the README from the real program: `python docs/images/make.py` (needs chromium and tmux).

`report.png` is the report of the shipped example in headless Chromium. `chat.svg` is a chat in tmux, in front of a mock
of a provider on loopback, captured after each step; the frames follow each other without a script.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from clew.testing import call
from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLUMNS, ROWS, FRAME_SECONDS, CELL, LINE = 88, 30, 2.5, 8.4, 18
FAILING = "def day_of(day):\n    return day - 1\n"
TEST = "from dates import day_of\n\n\ndef test_day():\n    assert day_of(3) == 3\n"
RUN = "python -m pytest -q test_dates.py"


def answers() -> list[StreamedAnswer]:
    """A model that runs the tests, fixes the function and runs them again."""
    steps = [
        UpstreamAnswer("I run the tests first.", (call("terminal", {"command": RUN}, "c1"),)),
        UpstreamAnswer(
            "`day_of` subtracts one.",
            (call("patch", {"edits": [{"path": "dates.py", "old": "day - 1", "new": "day"}]}, "c2"),),
        ),
        UpstreamAnswer("", (call("terminal", {"command": RUN}, "c3"),)),
        UpstreamAnswer("Fixed: `day_of` returned the day before. The test passes now."),
    ]
    return [StreamedAnswer(step) for step in steps]


def make_report() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        fold = [sys.executable, "-m", "clew", "compress", "examples/session.json", "--to", "10k", "--report", str(page)]
        subprocess.run(fold, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "CLEW_HOME": folder})
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
        size = ["--window-size=1200,860", f"--user-data-dir={folder}/chromium", f"--screenshot={HERE / 'report.png'}"]
        subprocess.run(["chromium", *flags, *size, page.as_uri()], check=True, stderr=subprocess.DEVNULL)


async def frames() -> list[str]:
    """The screen after each step, with its colours."""
    shown: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "dates"
        project.mkdir()
        (project / "dates.py").write_text(FAILING, encoding="utf-8")
        (project / "test_dates.py").write_text(TEST, encoding="utf-8")

        def tmux(*words: str) -> str:
            command = ["tmux", "-S", f"{folder}/socket", "-f", "/dev/null", *words]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        async def until(text: str) -> None:
            for _ in range(600):
                now = await asyncio.to_thread(tmux, "capture-pane", "-e", "-p")
                if text in Text.from_ansi(now).plain:
                    shown.append(now.replace(folder, "~"))
                    return
                await asyncio.sleep(0.1)
            raise SystemExit(f"the chat does not show {text!r}:\n{now}")

        async with Upstream(*answers()) as upstream:
            chat = [sys.executable, "-m", "clew", "chat", "--base-url", upstream.base_url, "--model", "mock-1"]
            size = ["-x", str(COLUMNS), "-y", str(ROWS)]
            path = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"
            environ = ["env", path, f"CLEW_HOME={folder}/home", "LC_ALL=C.UTF-8", "TERM=screen-256color"]
            given = ["--set", "model.context_length=64000", "--project", str(project)]
            await asyncio.to_thread(tmux, "new-session", "-d", *size, *environ, *chat, *given)
            try:
                await until("›")
                await asyncio.to_thread(tmux, "send-keys", "-l", "The test fails. Why? Fix it.")
                await until("Fix it.")
                await asyncio.to_thread(tmux, "send-keys", "Enter")
                for text in ("I run the tests first.", "subtracts one", "passes now"):
                    await until(text)
            finally:
                await asyncio.to_thread(tmux, "kill-server")
    return shown


def svg_of(screens: list[str]) -> str:
    """An animated SVG: one group per screen, visible in turn."""
    total = len(screens) * FRAME_SECONDS + FRAME_SECONDS
    width, height = round(COLUMNS * CELL) + 24, ROWS * LINE + 24
    groups = []
    for at, screen in enumerate(screens):
        lines = []
        for row, line in enumerate(Text.from_ansi(screen).split("\n")[:ROWS]):
            edges = sorted({edge for span in line.spans for edge in (span.start, span.end)})
            spans = "".join(map(_span, line.divide(edges)))
            lines.append(f'<text x="12" y="{28 + row * LINE}" xml:space="preserve">{spans}</text>')
        begin, end = at * FRAME_SECONDS / total, ((at + 1) * FRAME_SECONDS / total) if at + 1 < len(screens) else 1
        times = f"0;{begin:.3f};{end:.3f}" if at else f"0;{end:.3f}"
        values = "none;inline;none" if at else "inline;none"
        if at + 1 == len(screens):
            times, values = f"0;{begin:.3f}", "none;inline"
        timing = f'keyTimes="{times}" dur="{total}s" calcMode="discrete" repeatCount="indefinite"'
        animate = f'<animate attributeName="display" values="{values}" {timing}/>'
        groups.append(f"<g>{animate}{''.join(lines)}</g>")
    style = "text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d4d4d4}"
    box = f'<rect width="{width}" height="{height}" rx="8" fill="#1b1d23"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"><style>{style}</style>'
    return f"{head}{box}{''.join(groups)}</svg>\n"


def _span(piece: Text) -> str:
    style = piece.spans[-1].style if piece.spans else ""
    colour = getattr(style, "color", None)
    fill = (
        f' fill="{colour.get_truecolor(SVG_EXPORT_THEME).hex}"' if colour is not None and not colour.is_default else ""
    )
    weight = ' font-weight="bold"' if getattr(style, "bold", False) else ""
    dim = ' opacity="0.6"' if getattr(style, "dim", False) else ""
    return f"<tspan{fill}{weight}{dim}>{escape(piece.plain)}</tspan>"


def main() -> None:
    make_report()
    (HERE / "chat.svg").write_text(svg_of(asyncio.run(frames())), encoding="utf-8")


if __name__ == "__main__":
    main()
