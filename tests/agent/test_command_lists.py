"""Two lists of commands, one a line: hostile ones, which must be asked about, and everyday ones, which must not.

Each list has two files. Those held out were written before the rules and are not worked from; the others were written
with the rules at hand. A line may be wrong; the share of wrong ones may not grow.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from clew.agent.command_risk import risk_of_command
from clew.agent.command_risk.tables import COMMAND_FACTS

LISTS = Path(__file__).parent / "command_lists"
HOME = "/home/someone"
MAX_UNSEEN, MAX_ASKED = 0.04, 0.02


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a secret in it and a remote."""
    folder = tmp_path_factory.mktemp("lists") / "project"
    for name in ("src", "tests", "docs", "config", "logs", "lib"):
        (folder / name).mkdir(parents=True)
    (folder / ".env").write_text("OPENAI_API_KEY=plainly-not-a-key\nDATABASE_URL=postgres://localhost/app\n")
    (folder / ".env.example").write_text("OPENAI_API_KEY=\n")
    (folder / "README.md").write_text("# A project\n")
    (folder / "src" / "main.py").write_text("import os\n\n\ndef main() -> None: ...\n")
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(["git", "-C", folder, "remote", "add", "origin", "https://git.example/x.git"], check=True)
    return folder


def lines_of(name: str) -> list[str]:
    lines = (LISTS / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def asked_about(name: str, project: Path) -> tuple[list[str], list[str]]:
    """The lines that are asked about, and the others."""
    answers = {line: risk_of_command(line, project, None, {"HOME": HOME}) is not None for line in lines_of(name)}
    return [line for line, asked in answers.items() if asked], [line for line, asked in answers.items() if not asked]


@pytest.mark.parametrize("name", ["hostile_held_out", "hostile"])
def test_hardly_a_hostile_command_passes_unseen(name: str, project: Path) -> None:
    seen, unseen = asked_about(name, project)
    assert len(seen) + len(unseen) > 350
    assert len(unseen) <= MAX_UNSEEN * (len(seen) + len(unseen)), unseen


@pytest.mark.parametrize("name", ["everyday_held_out", "everyday"])
def test_hardly_an_everyday_command_is_asked_about(name: str, project: Path) -> None:
    asked, passed = asked_about(name, project)
    assert len(asked) + len(passed) > 350
    assert len(asked) <= MAX_ASKED * (len(asked) + len(passed)), asked


def test_no_line_is_in_two_lists() -> None:
    names = ("hostile_held_out", "hostile", "everyday_held_out", "everyday")
    lines = [line for name in names for line in dict.fromkeys(lines_of(name))]
    assert sorted(line for line in set(lines) if lines.count(line) > 1) == []


@pytest.mark.slow
def test_every_fact_of_the_table_can_be_tried(project: Path) -> None:
    """A regular expression in the table that cannot be read would break every command of that name."""
    names = {name for fact in COMMAND_FACTS for name in fact.names.split("|")}
    for name in sorted(names):
        for rest in ("x", "-x --y", "rebase x", "config get x", "inspect x"):
            risk_of_command(f"{name.replace('*', 'x')} {rest}", project, None, {"HOME": HOME})


@pytest.mark.slow
@pytest.mark.parametrize("command", ["awk '{}'", "python -c '{}'", "grep -r '{}' ."])
@pytest.mark.parametrize("text", ["print ", "open(", "environ[", "from os import ", "x"])
def test_a_long_text_is_read_to_its_end(command: str, text: str, project: Path) -> None:
    """A search that goes back and forth in it would not come to an end while anybody waits."""
    risk_of_command(command.format(text * (190_000 // len(text))), project, None, {"HOME": HOME})


PATTERNS = (
    "git |git -c a=b |find . -exec |env |sudo |a |a;|$(|`|(|{ |((|${|<<x\n|x=1 |sh -c |xargs |{a,b}|cd x;|echo a>b |"
    "rm -rf |[[ |f(){ |npx |for i in "
)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS.split("|"))
def test_the_time_for_a_command_does_not_grow_with_the_square_of_its_length(pattern: str, project: Path) -> None:
    """What is longer than anybody reads is asked about; a bound of processor time that a slow machine keeps."""
    for length in (2_500, 50_000, 1_000_000):
        began = time.process_time()
        risk_of_command((pattern * (length // len(pattern))), project, None, {"HOME": HOME})
        assert time.process_time() - began < 4, length
