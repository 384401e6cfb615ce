"""What shells complete, asked of the shells themselves; and the manual page, read by those who format it."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clew.cli.command_tree import command_tree
from clew.cli.completion_scripts import SCRIPTS
from clew.cli.entry import full_parser
from clew.cli.man_page import man_page

if TYPE_CHECKING:
    from tests.cli.conftest import Kept

ROOT = Path(__file__).parents[2]
ASK_BASH = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_clew 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
SET_UP_ZSH = """\
autoload -Uz compinit; compinit -u -D
source {script}
told() {{ print TOLD; }}; zle -N told
bindkey '^X' list-choices; bindkey '^Y' told
PS1='READ''Y> '
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
    ("clew compress exam", {"examples"}, {"src"}),
    ("clew chat --project exam", {"examples"}, {"src"}),
]


@pytest.fixture
def in_a_shell(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the scripts, where `clew` is this one, on the path."""
    monkeypatch.chdir(ROOT)
    program = tmp_path / "bin" / "clew"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m clew "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("CLEW_HOME", str(kept.home))
    monkeypatch.setenv("COLUMNS", "200")
    tree = command_tree(full_parser())
    for name, script in SCRIPTS.items():
        (tmp_path / name).write_text(script(tree), encoding="utf-8")
    return tmp_path


def answer(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


@needs("bash")
@pytest.mark.parametrize(("line", "there", "absent"), CASES)
def test_bash_completes(in_a_shell: Path, line: str, there: set[str], absent: set[str]) -> None:
    words = re.sub(r" $", " ''", line)
    found = set(answer("bash", "-c", ASK_BASH.format(script=in_a_shell / "bash", words=words)).split())
    assert found >= there
    assert not found & absent


@needs("fish")
@pytest.mark.parametrize(("line", "there", "absent"), CASES)
def test_fish_completes(in_a_shell: Path, line: str, there: set[str], absent: set[str]) -> None:
    out = answer("fish", "--no-config", "-c", f"source {in_a_shell / 'fish'}; complete -C '{line}'")
    found = {each.split("\t")[0].rstrip("/") for each in out.splitlines()}
    assert found >= there
    assert not found & absent


@needs("zsh")
@pytest.mark.parametrize(("line", "there", "absent"), [case for case in CASES if "exam" not in case[0]])
def test_zsh_completes(in_a_shell: Path, line: str, there: set[str], absent: set[str]) -> None:
    setup = SET_UP_ZSH.format(script=in_a_shell / "zsh").replace("\n", "; ").replace("; ;", ";")
    # A list is drawn only once no key waits, so that the next one is typed when the last word of the list is there.
    out = typed_in_zsh([f"{setup}\n", f"{line}\x18", "\x19"], ["READY> ", max(there), "TOLD"])
    found = set(re.findall(r"[\w./=-]+", out))
    assert found >= there, out
    assert not found & absent


def typed_in_zsh(keys: list[str], awaited: list[str]) -> str:
    """What an interactive zsh shows from the second keys on, each typed when what is awaited before was seen."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp("zsh", ["zsh", "-f", "-i"])
    before = shown = ""
    try:
        for typed, until in zip(keys, awaited, strict=True):
            os.write(terminal, typed.encode())
            before, shown = (shown if typed != keys[1] else ""), ""
            while until not in shown:
                assert select.select([terminal], [], [], 30)[0], before + shown
                shown += re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", os.read(terminal, 65_536).decode(errors="replace"))
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    return before + shown


@needs("bash")
def test_sessions_of_a_store_that_is_not_there_are_none(empty_home: Kept) -> None:
    assert empty_home.run("completion", "--sessions") == (0, "", "")
    assert not empty_home.database.exists()


@pytest.mark.parametrize(
    "program", [("mandoc", "-T", "lint", "-W", "warning"), ("groff", "-man", "-ww", "-Tutf8", "-z")]
)
def test_the_manual_page_is_in_order(tmp_path: Path, program: tuple[str, ...]) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed")
    page = tmp_path / "clew.1"
    page.write_text(man_page(full_parser()), encoding="utf-8")
    done = subprocess.run([*program, str(page)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("", "")


def test_the_manual_page_that_is_installed_is_the_one_that_is_printed(kept: Kept) -> None:
    code, out, _ = kept.run("help", "--man")
    assert code == 0
    assert (ROOT / "docs" / "clew.1").read_text(encoding="utf-8") == out, "write it: clew help --man > docs/clew.1"


def test_the_manual_page_names_every_command_with_its_options() -> None:
    page = man_page(full_parser())
    for node in command_tree(full_parser()).walk():
        if len(node.path) > 1:
            assert f"\n.SS {' '.join(node.path)}\n" in page
        for option in node.options:
            assert option.names[-1].replace("-", r"\-") in page
