"""`clew compress` as a program of its own: at a terminal, with pipes on either side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from clew.cli.console import Console
from clew.testing import assistant, user

pty = pytest.importorskip("pty")
CHAT = [
    message
    for number in range(30)
    for message in (user(f"Question {number}? " + "why " * 60), assistant(f"Answer {number}. " + "so " * 60))
]


def program(*words: str) -> list[str]:
    return [sys.executable, "-m", "clew", "compress", *words]


def environ(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "CLEW_HOME": str(home), "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **more}


def test_a_pipe_in_and_a_pipe_out(tmp_path: Path) -> None:
    words = program("-", "--to", "1500", "--output", "-")
    done = subprocess.run(words, input=json.dumps(CHAT).encode(), capture_output=True, env=environ(tmp_path))
    assert done.returncode == 0
    assert json.loads(done.stdout)[-1] == CHAT[-1]
    assert done.stderr.startswith(b"clew: ")
    assert b"\r" not in done.stderr  # no progress line where nobody watches


def test_a_terminal_gets_the_report_in_colours_and_a_progress_line(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(CHAT))
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        program(str(file), "--to", "1500"), stdout=theirs, stderr=theirs, env=environ(tmp_path, COLUMNS="80")
    ) as running:
        os.close(theirs)
        shown = _everything(ours).decode()
        assert running.wait() == 0
    os.close(ours)
    assert "reading" in shown
    assert "\x1b[" in shown
    assert "where the messages are" in shown
    assert "--output FILE" in shown
    assert '"role"' not in shown


def _everything(descriptor: int) -> bytes:
    pieces = []
    while True:
        try:
            piece = os.read(descriptor, 65_536)
        except OSError:  # how Linux says that the other side has closed
            break
        if not piece:
            break
        pieces.append(piece)
    return b"".join(pieces)


def test_help_says_what_comes_out_where(tmp_path: Path) -> None:
    done = subprocess.run(program("--help"), capture_output=True, text=True, env=environ(tmp_path))
    assert done.returncode == 0
    for words in ("what comes out", "--preview", "--report", "--focus", "--json", "no network"):
        assert words in done.stdout


def test_a_phase_draws_its_line_and_takes_it_away() -> None:
    err = StringIO()
    console = Console(StringIO(), err, {}, 80, colors=True, unicode=True, shows_progress=True)
    with console.phase("folding 3 messages"):
        assert err.getvalue().endswith("folding 3 messages ...")
    assert err.getvalue().endswith("\r\x1b[K")


def test_a_phase_that_nobody_watches_says_nothing() -> None:
    err = StringIO()
    console = Console(StringIO(), err, {}, 80, colors=False, unicode=True, shows_progress=False)
    with console.phase("folding"):
        pass
    assert err.getvalue() == ""
