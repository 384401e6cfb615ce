"""The way in and out of every command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew import __version__
from clew.cli import main
from clew.cli.entry import COMMANDS


def test_help_is_for_stdout_and_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"], {}) == 0
    out, err = capsys.readouterr()
    assert all(f"\n  {name} " in out for name in COMMANDS)
    assert "CLEW_HOME" in out
    assert err == ""


def test_no_command_is_wrong_use_and_shows_the_help_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], {}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Commands:" in err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"], {}) == 0
    assert capsys.readouterr().out == f"clew {__version__}\n"


@pytest.mark.parametrize(
    "words", [["frobnicate"], ["search"], ["config", "frobnicate"], ["config", "set"], ["--wrong"]]
)
def test_wrong_use_exits_with_2_and_says_so_on_stderr(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words, {}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "clew" in err


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["compress", "talk.json", "--frobnicate"], "`clew compress --help`"),
        (["sessions", "list", "--frobnicate"], "`clew sessions list --help`"),
    ],
)
def test_an_unknown_flag_leads_to_the_help_of_its_command(
    words: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words, {}) == 2
    err = capsys.readouterr().err
    assert "--frobnicate" in err
    assert remedy in err


@pytest.mark.parametrize("noun", COMMANDS)
def test_every_command_explains_itself(noun: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([noun, "--help"], {}) == 0
    assert f"Usage: clew {noun}" in capsys.readouterr().out


def test_an_error_is_one_line_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "set", "compression.treshold", "1"], {"CLEW_HOME": str(tmp_path)}) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "clew: config set: compression.treshold: no such setting; did you mean compression.threshold?\n"


def run_clew(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    environ |= {"CLEW_HOME": str(home), "PYTHONIOENCODING": "utf-8", **more}
    command = [sys.executable, "-m", "clew", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, encoding="utf-8", check=False)


def test_the_real_program_sets_and_shows_a_setting(tmp_path: Path) -> None:
    done = run_clew(tmp_path, "config", "set", "compression.threshold", "0.7")
    assert (done.returncode, done.stderr) == (0, "")
    shown = run_clew(tmp_path, "config", "show", "compression.threshold")
    assert shown.stdout.startswith("compression.threshold = 0.7\n")


def test_a_reader_that_goes_away_is_no_reason_to_complain(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "clew", "config", "show"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command, env=os.environ | {"CLEW_HOME": str(tmp_path)}, stdout=writing, stderr=-1, check=False
        )
    finally:
        os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_the_output_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "clew", "config", "show"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command, env=os.environ | {"CLEW_HOME": str(tmp_path)}, stdout=full, stderr=-1, check=False
        )
    assert done.stderr.startswith(b"clew: standard output: ")
    assert done.stderr.count(b"\n") == 1
    assert done.returncode == 1


def test_help_imports_nothing_that_only_commands_need() -> None:
    code = (
        "import sys; from clew.cli import main; main(['--help'], {}); "
        "print(sorted({'yaml', 'splintr', 'clew.config', 'clew.importers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


ROOMS_OF_WORK = (
    *("clew.store", "clew.turn", "clew.agent", "clew.gateway", "clew.dashboard", "clew.importers"),
    *("splintr", "tokenizers", "sqlite3", "httpx", "starlette", "rich", "prompt_toolkit", "jinja2"),
)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_imports_nothing_that_only_its_work_needs(name: str) -> None:
    code = (
        f"import sys; from clew.cli import main; main([{name!r}, '--help'], {{}}); "
        f"print(sorted(set({ROOMS_OF_WORK!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
