"""Every command in the guide to sessions works, and the guide names every flag."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Kept

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "sessions.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^clew (.+)$", GUIDE, re.MULTILINE)
VERBS = ("list", "show", "tree", "rename", "undo", "branch", "export", "delete")
NOUNS = ("search", "usage", "insights", "export", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_guide_works(kept: Kept, tmp_path: Path, command: str) -> None:
    assert kept.run("sessions", "rename", "clock-2", "Rota for the bakery")[0] == 0
    files = {"history.json", "history.jsonl", "request.json"}
    words = [str(tmp_path / word) if word in files else word for word in shlex.split(command)]
    code, out, err = kept.run(*words)
    assert code == 0, err
    assert out or err


def test_the_guide_has_every_verb_in_its_table() -> None:
    assert re.findall(r"^\| `clew sessions (\w+)", GUIDE, re.MULTILINE) == list(VERBS)


@pytest.mark.parametrize("words", [*(["sessions", verb] for verb in VERBS), *([noun] for noun in NOUNS)])
def test_the_guide_names_every_flag(kept: Kept, words: list[str]) -> None:
    code, out, _ = kept.run(*words, "--help")
    assert code == 0
    flags = set(re.findall(r"--[a-z]+", out)) - {"--help"}
    assert {flag for flag in flags if flag not in GUIDE} == set()
