"""`clew setup` of plugins inside other agents: what it writes and shows, and that undo takes all of it back."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clew.cli import main

PROGRAMS = ("claude-code", "opencode", "pi", "openclaw")


class Machine:
    """A home folder, and the command in it."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys

    def run(self, *words: str) -> tuple[int, str]:
        code = main(["setup", *words], {"HOME": str(self.home), "COLUMNS": "100"}, io.StringIO())
        out, err = self._capsys.readouterr()
        return code, out + err

    def files(self) -> dict[str, bytes]:
        """What is there, but for Clew's own folder."""
        found = (path for path in self.home.rglob("*") if path.is_file())
        below = {str(path.relative_to(self.home)): path.read_bytes() for path in found}
        return {name: content for name, content in below.items() if not name.startswith(".clew/")}


@pytest.fixture
def machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Machine:
    return Machine(tmp_path, capsys)


@pytest.mark.parametrize("program", PROGRAMS)
def test_undo_gives_back_every_byte(machine: Machine, program: str) -> None:
    for name in (".claude/settings.json", ".config/opencode/opencode.json", ".openclaw/openclaw.json"):
        path = machine.home / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b'{ "mine":\t1,\r\n "agents": {"list": []} }')
    before = machine.files()
    assert machine.run(program)[0] == 0
    assert machine.files() != before
    assert machine.run(program, "--undo")[0] == 0
    assert machine.files() == before


@pytest.mark.parametrize("program", PROGRAMS)
def test_print_shows_the_changes_and_makes_none(machine: Machine, program: str) -> None:
    code, out = machine.run(program, "--print", "--json")
    shown = json.loads(out)
    assert code == 0 and shown["applied"] is False
    assert machine.files() == {}
    machine.run(program)
    written = {str(machine.home / name): content.decode() for name, content in machine.files().items()}
    assert {change["path"]: change["after"] for change in shown["changes"]} == written


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_second_setup_changes_nothing(machine: Machine, program: str) -> None:
    machine.run(program)
    before = machine.files()
    assert "set up already" in machine.run(program)[1]
    assert machine.files() == before


def test_a_config_that_was_changed_since_loses_only_what_clew_set(machine: Machine) -> None:
    path = machine.home / ".openclaw" / "openclaw.json"
    machine.run("openclaw")
    config = json.loads(path.read_text())
    assert config["agents"]["defaults"]["compaction"]["provider"] == "clew"
    config["mine"] = 1
    path.write_text(json.dumps(config))
    machine.run("openclaw", "--undo")
    left = json.loads(path.read_text())
    assert left["mine"] == 1 and "provider" not in left["agents"]["defaults"]["compaction"]


def test_a_config_that_was_changed_since_gets_back_the_value_that_clew_replaced(machine: Machine) -> None:
    path = machine.home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"agents": {"defaults": {"compaction": {"provider": "mine"}}}}')
    machine.run("openclaw")
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "more": 1}))
    machine.run("openclaw", "--undo")
    left = json.loads(path.read_text())
    assert left["agents"]["defaults"]["compaction"] == {"provider": "mine"} and left["more"] == 1
    assert "clew" not in left["plugins"]["entries"] or "enabled" not in left["plugins"]["entries"]["clew"]


@pytest.mark.parametrize("config", [None, '{"agents": {"defaults": {"compaction": {"provider": "mine"}}}}'])
def test_what_is_written_into_a_config_is_shown_before_and_after(machine: Machine, config: str | None) -> None:
    path = machine.home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(parents=True)
    if config:
        path.write_text(config)
    for words in (("openclaw", "--print"), ("openclaw",)):
        shown = machine.run(*words)[1]
        assert '+        "provider": "clew"' in shown and ("mine" in shown) is bool(config)
    before = machine.files()
    shown = machine.run("openclaw", "--undo", "--print")[1]
    assert '-        "provider": "clew"' in shown and ("mine" in shown) is bool(config)
    assert machine.files() == before


def test_print_and_check_exclude_each_other(machine: Machine) -> None:
    code, out = machine.run("pi", "--check", "--print")
    assert code != 0 and "--check" in out


def test_a_file_of_somebody_else_is_not_overwritten(machine: Machine) -> None:
    path = machine.home / ".pi" / "agent" / "extensions" / "clew.js"
    path.parent.mkdir(parents=True)
    path.write_text("export default function () {}\n")
    code, out = machine.run("pi")
    assert code != 0 and "move it away" in out
    assert path.read_text() == "export default function () {}\n"


def test_a_config_with_comments_is_left_alone(machine: Machine) -> None:
    path = machine.home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(parents=True)
    path.write_text("{ // mine\n}")
    code, out = machine.run("openclaw")
    assert code != 0 and "by hand" in out
    assert path.read_text() == "{ // mine\n}"


def test_the_note_for_plugins_is_private(machine: Machine) -> None:
    machine.run("pi")
    note = machine.home / ".clew" / "inside.json"
    assert note.stat().st_mode & 0o077 == 0
    assert json.loads(note.read_text())["start"][-2:] == ["setup", "service"]


@pytest.fixture
def hostile_project(tmp_path: Path) -> Path:
    """A folder whose modules have the names of ours and of Python's, and write a file when they are imported."""
    folder = tmp_path / "project"
    (folder / "clew").mkdir(parents=True)
    for name in ("clew/__init__.py", "clew/__main__.py", "json.py", "asyncio.py", "click.py"):
        (folder / name).write_text(f"open({str(folder / 'was_run')!r}, 'a').write({name!r})\n")
    return folder


def run_in(folder: Path, home: Path, *words: str) -> str:
    environ = {"HOME": str(home), "PATH": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_start_command_runs_nothing_of_the_current_project(machine: Machine, hostile_project: Path) -> None:
    machine.run("pi")
    start = json.loads((machine.home / ".clew" / "inside.json").read_text())["start"]
    assert "No service answers" in run_in(hostile_project, machine.home, *start, "--print")
    assert not (hostile_project / "was_run").exists()


@pytest.mark.slow
def test_a_service_replaces_the_start_command_of_an_older_setup(machine: Machine, hostile_project: Path) -> None:
    machine.run("pi")
    note = machine.home / ".clew" / "inside.json"
    safe = json.loads(note.read_text())["start"]
    note.write_text(json.dumps({"start": [sys.executable, "-m", "clew", "setup", "service"]}))
    try:
        assert "Clew answers" in run_in(hostile_project, machine.home, *safe)
        assert json.loads(note.read_text())["start"] == safe
    finally:
        run_in(hostile_project, machine.home, *safe, "--undo")
    assert not (hostile_project / "was_run").exists()


@pytest.mark.slow
def test_the_service_starts_once_answers_and_ends(machine: Machine) -> None:
    machine.run("pi")
    code, out = machine.run("pi", "--check", "--json")
    try:
        assert code == 0 and json.loads(out) == {"program": "pi", "installed": True, "answers": True, "problem": None}
        _, first = machine.run("service", "--json")
        _, again = machine.run("service", "--json")
        assert json.loads(first)["url"] == json.loads(again)["url"]
    finally:
        assert "ended" in machine.run("service", "--undo")[1]
    assert machine.run("service", "--check")[0] == 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_shipped_files_are_valid(program: str) -> None:
    folder = Path(__file__).parents[2] / "src" / "clew" / "integrations" / "inside" / program
    for path in folder.rglob("*.json"):
        json.loads(path.read_text("utf-8"))
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    for path in folder.rglob("*.js"):
        text = path.read_bytes()
        subprocess.run([node, "--input-type=module", "--check"], input=text, check=True, capture_output=True)


def test_the_marketplace_names_the_plugin_of_the_clone() -> None:
    root = Path(__file__).parents[2]
    (plugin,) = json.loads((root / ".claude-plugin" / "marketplace.json").read_text("utf-8"))["plugins"]
    manifest = root / plugin["source"] / ".claude-plugin" / "plugin.json"
    assert json.loads(manifest.read_text("utf-8"))["name"] == plugin["name"] == "clew"
