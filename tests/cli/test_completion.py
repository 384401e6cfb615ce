"""What a shell completes, asked of the shell itself with the script that `clew completion` prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Kept

ROOT = Path(__file__).parents[2]
ASK_BASH = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
compopt() {{ :; }}
_clew_completion clew
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
CASES = [
    ("clew se", {"sessions", "search"}, {"chat"}),
    ("clew sessions ", {"list", "show", "rename"}, {"chat", "--json"}),
    ("clew sessions --", {"--limit", "--json"}, {"--view"}),
    ("clew sessions show --", {"--view", "--full"}, {"--limit"}),
    ("clew sessions show ", {"s_4f1c0d"}, {"list"}),
    ("clew search --role ", {"user", "assistant"}, {"s_4f1c0d"}),
    ("clew config set compression.th", {"compression.threshold"}, {"model.name"}),
    ("clew config show --set model.na", {"model.name="}, {"compression.threshold="}),
    ("clew models use x --provider anth", {"anthropic"}, {"openai"}),
    ("clew completion ", {"bash", "zsh", "fish"}, {"tcsh"}),
    ("clew help se", {"sessions", "search"}, {"chat"}),
]


@pytest.fixture
def script(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script for bash, in a folder where `clew` is this one, on the path."""
    program = tmp_path / "bin" / "clew"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m clew "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("CLEW_HOME", str(kept.home))
    path = tmp_path / "completion.bash"
    path.write_text(kept.run("completion", "bash")[1])
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(("line", "there", "absent"), CASES)
def test_bash_completes(script: Path, line: str, there: set[str], absent: set[str]) -> None:
    words = re.sub(r" $", " ''", line)
    done = subprocess.run(
        ["bash", "-c", ASK_BASH.format(script=script, words=words)], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    found = set(done.stdout.split())
    assert found >= there
    assert not found & absent


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(kept: Kept, shell: str) -> None:
    code, out, err = kept.run("completion", shell)
    assert (code, err) == (0, "")
    assert "_CLEW_COMPLETE" in out
    assert kept.json("completion", shell) == {"shell": shell, "script": out}
