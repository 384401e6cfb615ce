"""The guide to models names every verb and every flag, and its commands are understood."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from clew.cli import main
from clew.cli.commands.models import EXAMPLES

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "models.md").read_text(encoding="utf-8")
USES = re.findall(r"^clew (models use .+)$", GUIDE, re.MULTILINE)


@pytest.mark.parametrize("verb", ["list", "get", "use"])
def test_the_guide_and_the_help_name_every_verb_and_flag(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", verb, "--help"], {"COLUMNS": "100"}) == 0
    flags = set(re.findall(r"--[a-z]+", capsys.readouterr().out)) - {"--help"}
    assert f"`clew models {verb}" in GUIDE
    assert f"clew models {verb}" in EXAMPLES
    assert {flag for flag in flags if flag not in GUIDE} == set()


@pytest.mark.parametrize("command", USES)
def test_a_choice_of_the_guide_works(tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    assert main(shlex.split(command), {"CLEW_HOME": str(tmp_path)}) == 0, capsys.readouterr().err
