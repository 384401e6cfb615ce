"""Every command and program of the guides to the commands works, and the guides name every flag."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clew.cli import main
from clew.cli.models import EXAMPLES
from clew.install import has_extra

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from tests.cli.conftest import Kept

ROOT = Path(__file__).resolve().parents[2]
COMPRESS, IMPORT, MODELS, SESSIONS = (
    (ROOT / "docs" / "guides" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("compress", "import", "models", "sessions")
)
PROGRAM = re.search(r"```python\n(.+?)```", COMPRESS, re.DOTALL)
IMPORTS = re.findall(r"^clew (import examples/.+)$", IMPORT, re.MULTILINE)
VERBS = ("list", "show", "tree", "state", "rename", "undo", "branch", "export", "delete")
COMMANDS = ("search", "usage", "insights", "export", "doctor")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "session.json", tmp_path / "examples")
    return tmp_path


@pytest.mark.parametrize("command", re.findall(r"^clew (compress .+)$", COMPRESS, re.MULTILINE))
def test_a_command_of_the_compress_guide_works(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    words, _, target = command.partition(" > ")
    named = {"examples/session.json", "short.json", "report.html"}
    here = [str(folder / word) if word in named else word for word in shlex.split(words)]
    assert main(here, {"CLEW_HOME": str(folder / "home")}) == 0
    assert capsys.readouterr().out.strip()
    assert not target or target == "short.json"


def test_the_program_of_the_compress_guide_works(folder: Path) -> None:
    assert PROGRAM
    done = subprocess.run([sys.executable, "-c", PROGRAM[1]], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[\d,]+ -> [\d,]+ tokens\n", done.stdout)


def test_the_compress_guide_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compress", "--help"], {}) == 0
    flags = set(re.findall(r"--[a-z]+", capsys.readouterr().out)) - {"--help"}
    assert {flag for flag in flags if flag not in COMPRESS} == set()


@pytest.mark.parametrize("command", IMPORTS)
def test_a_command_of_the_import_guide_works(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    here = [word.replace("examples/", f"{ROOT}/examples/") for word in shlex.split(command)]
    assert main(here, {"CLEW_HOME": str(tmp_path / "home")}) == 0
    assert capsys.readouterr().out.strip()


def test_the_import_guide_names_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--help"], {}) == 0
    flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    assert {flag for flag in flags if flag not in IMPORT} == set()
    assert len(IMPORTS) >= 3


@pytest.mark.parametrize("verb", ["list", "get", "use"])
def test_the_models_guide_and_the_help_name_every_verb_and_flag(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", verb, "--help"], {"COLUMNS": "100"}) == 0
    flags = set(re.findall(r"--[a-z]+", capsys.readouterr().out)) - {"--help"}
    assert f"`clew models {verb}" in MODELS
    assert f"clew models {verb}" in EXAMPLES
    assert {flag for flag in flags if flag not in MODELS} == set()


@pytest.mark.parametrize("command", re.findall(r"^clew (models use .+)$", MODELS, re.MULTILINE))
def test_a_choice_of_the_models_guide_works(tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    assert main(shlex.split(command), {"CLEW_HOME": str(tmp_path)}) == 0, capsys.readouterr().err


@pytest.mark.parametrize("command", re.findall(r"^clew (.+)$", SESSIONS, re.MULTILINE))
def test_a_command_of_the_sessions_guide_works(kept: Kept, tmp_path: Path, command: str) -> None:
    assert kept.run("sessions", "rename", "clock-2", "Rota for the bakery")[0] == 0
    words = [str(tmp_path / word) if word.endswith((".json", ".jsonl")) else word for word in shlex.split(command)]
    code, out, err = kept.run(*words)
    if words == ["vectors"] and not has_extra("vectors"):
        assert code == 2 and "[vectors]" in err
        return
    assert code == 0, err
    assert out or err


def test_the_sessions_guide_has_every_verb_in_its_table() -> None:
    assert re.findall(r"^\| `clew sessions (\w+)", SESSIONS, re.MULTILINE) == list(VERBS)


@pytest.mark.parametrize("words", [*(["sessions", verb] for verb in VERBS), *([command] for command in COMMANDS)])
def test_the_sessions_guide_names_every_flag(kept: Kept, words: list[str]) -> None:
    code, out, _ = kept.run(*words, "--help")
    assert code == 0
    flags = set(re.findall(r"--[a-z]+", out)) - {"--help"}
    assert {flag for flag in flags if flag not in SESSIONS} == set()
