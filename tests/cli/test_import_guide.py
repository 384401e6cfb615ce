"""Every command of the guide to `clew import` that needs no other program works, and every flag is in it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from clew.cli import main

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guides" / "import.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^clew (import examples/.+)$", GUIDE, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guide_works(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    here = [word.replace("examples/", f"{ROOT}/examples/") for word in shlex.split(command)]
    assert main(here, {"CLEW_HOME": str(tmp_path / "home")}) == 0
    assert capsys.readouterr().out.strip()


def test_the_guide_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--help"], {}) == 0
    flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert {flag for flag in flags if flag not in GUIDE} == set()
    assert len(COMMANDS) >= 3
