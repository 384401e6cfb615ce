"""Every command and every program in the guide to `clew compress` does what it is shown for."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clew.cli import main

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guides" / "compress.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^clew (compress .+)$", GUIDE, re.MULTILINE)
PROGRAM = re.search(r"```python\n(.+?)```", GUIDE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "session.json", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guide_works(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    words, _, target = command.partition(" > ")
    named = {"examples/session.json", "short.json", "report.html"}
    here = [str(folder / word) if word in named else word for word in shlex.split(words)]
    assert main(here, {"CLEW_HOME": str(folder / "home")}) == 0
    assert capsys.readouterr().out.strip()
    assert not target or target == "short.json"


def test_the_program_of_the_guide_works(folder: Path) -> None:
    assert PROGRAM
    done = subprocess.run([sys.executable, "-c", PROGRAM[1]], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[\d,]+ -> [\d,]+ tokens\n", done.stdout)


def test_the_guide_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compress", "--help"], {}) == 0
    flags = set(re.findall(r"--[a-z]+", capsys.readouterr().out)) - {"--help"}
    assert {flag for flag in flags if flag not in GUIDE} == set()
