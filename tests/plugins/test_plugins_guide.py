"""The guide for plugin authors: its engine is a plugin, passes the suite, and its tables say what is there."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from clew.cli import main
from clew.engines import CONTEXT_ENGINE, EngineSetup

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "plugins.md").read_text()


def write_files(home: Path) -> None:
    """Every block that has a file's name above it."""
    for name, text in re.findall(r"^`([\w./]+)`\n\n```\w+\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_the_engine_of_the_guide_can_be_checked_and_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path)
    environ = {"CLEW_HOME": str(tmp_path), "COLUMNS": "120"}
    commands = re.findall(r"^\$ clew (.+)$", GUIDE, re.MULTILINE)
    assert {"plugins list", "plugins show last --check", "plugins use last"} <= set(commands)
    for command in ["plugins list", *commands]:
        assert main(command.split(), environ) == 0
    out, err = capsys.readouterr()
    assert err == ""
    shown = GUIDE.partition("$ clew plugins list\n")[2].partition("$")[0].splitlines()
    first = [line.split() for line in out.splitlines()[: len(shown)]]
    assert first == [line.split() for line in shown]


def test_the_engine_of_the_guide_passes_the_suite_as_the_guide_runs_it(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "test_last.py").rename(tmp_path / "plugins" / "context_engine" / "test_last.py")
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path / "plugins" / "context_engine")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_the_entry_point_of_the_guide_is_in_the_group_that_is_read() -> None:
    block = GUIDE.partition("```toml\n")[2].partition("```")[0]
    assert tomllib.loads(block)["project"]["entry-points"] == {CONTEXT_ENGINE.entry_points: {"last": "last:register"}}


def test_the_guide_names_every_field_of_the_setup() -> None:
    chapter = GUIDE.partition("## What an engine is given")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in chapter.splitlines() if line.startswith("| `")]
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert named == [field.name for field in dataclasses.fields(EngineSetup)]
