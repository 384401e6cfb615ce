"""`clew setup hermes`: both keys into Hermes' config and out again; `clew doctor` sees where one is missing."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli import main

CONFIGS = {
    "empty": "",
    "comments only": "# my Hermes\n",
    "plain": "model:\n  default: m  # the best\n\n# how it looks\ndisplay:\n  skin: mono\n",
    "no newline at the end": "model: {default: m}",
    "another engine": "context:\n  engine: compressor # built in\n  other: 1\nplugins:\n  enabled:\n    - one\n",
    "flow": "plugins: {enabled: [one, two], disabled: []}\ncontext: {engine: lcm}\n",
    "empty list": "plugins:\n  enabled: []\n  entries: {}\n",
    "null list": "plugins:\n  enabled:\n  disabled: [three]\nzzz: 1\n",
    "windows": "model:\r\n  default: m\r\nplugins:\r\n  enabled:\r\n  - one\r\n",
    "unindented list": "plugins:\n  enabled:\n  - one\n  # a remark behind it\nlast: true\n",
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "hermes").mkdir()
    return {
        "HOME": str(tmp_path),
        "HERMES_HOME": str(tmp_path / "hermes"),
        "CLEW_HOME": str(tmp_path / "clew"),
        "PATH": str(tmp_path / "bin"),
    }


def config_of(environ: dict[str, str]) -> Path:
    return Path(environ["HERMES_HOME"]) / "config.yaml"


def ran(capsys: pytest.CaptureFixture[str], environ: dict[str, str], *words: str) -> tuple[int, Any]:
    code = main([*words, "--json"], environ)
    return code, json.loads(capsys.readouterr().out)


def is_set(path: Path) -> bool:
    import yaml

    values = yaml.safe_load(path.read_text("utf-8"))
    return bool(values["context"]["engine"] == "clew" and values["plugins"]["enabled"][-1] == "clew")


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS)
def test_undo_gives_back_the_bytes_from_before(
    text: str, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = config_of(environ)
    path.write_bytes(text.encode())
    path.chmod(0o640)
    code, told = ran(capsys, environ, "setup", "hermes")
    assert (code, told["changed"], told["in_use"]) == (0, ["plugins.enabled", "context.engine"], True)
    assert is_set(path)
    assert all(line in path.read_text("utf-8") for line in ("the best", "one") if line in text)
    assert ran(capsys, environ, "setup", "hermes")[1]["changed"] == []
    code, told = ran(capsys, environ, "setup", "hermes", "--undo")
    assert (code, told["in_use"]) == (0, False)
    assert path.read_bytes() == text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert ran(capsys, environ, "setup", "hermes", "--undo")[1]["changed"] == []


def test_a_config_that_was_not_there_is_not_there_afterwards(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(capsys, environ, "setup", "hermes")[0] == 0
    assert is_set(config_of(environ))
    ran(capsys, environ, "setup", "hermes", "--undo")
    assert not config_of(environ).exists()


def test_the_lines_that_change_are_shown_before_and_after(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = config_of(environ)
    path.write_text("context:\n  engine: mine\n")
    for words in (("--print",), ()):
        assert main(["setup", "hermes", *words], environ) == 0
        shown = capsys.readouterr().out
        assert "-  engine: mine" in shown and "+  engine: clew" in shown
    text = path.read_text()
    assert main(["setup", "hermes", "--undo", "--print"], environ) == 0
    assert "+  engine: mine" in capsys.readouterr().out
    assert path.read_text() == text
    code, told = ran(capsys, environ, "setup", "hermes", "--undo", "--print")
    assert (code, told["changes"]) == (0, [{"path": str(path), "before": text, "after": "context:\n  engine: mine\n"}])


def test_what_was_changed_since_stays(environ: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    path = config_of(environ)
    path.write_text("model: {default: m}\nplugins:\n  enabled:\n    - one\n")
    ran(capsys, environ, "setup", "hermes")
    path.write_text("# new\n" + path.read_text() + "display: {skin: mono}\n")
    ran(capsys, environ, "setup", "hermes", "--undo")
    text = path.read_text()
    assert text == "# new\nmodel: {default: m}\nplugins:\n  enabled:\n    - one\ndisplay: {skin: mono}\n"


def test_keys_that_somebody_set_by_hand_are_taken_out_too(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = config_of(environ)
    path.write_text("plugins:\n  enabled: [clew, one]\ncontext:\n  engine: clew\n")
    ran(capsys, environ, "setup", "hermes", "--undo")
    assert "clew" not in path.read_text()
    assert "one" in path.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("plugins:\n  enabled: true\n", "True is no list"),
        ("- a\n- b\n", "holds a list at the top"),
        ("a: [\n", "not valid YAML"),
        ("plugins:\n  disabled: [clew]\n", "take it out of that list"),
        ("plugins: &x\n  enabled: [one]\nother: *x\n", "alias"),
    ],
)
def test_a_config_that_cannot_be_edited_is_left_alone_with_a_clear_error(
    text: str, words: str, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = config_of(environ)
    path.write_text(text)
    assert main(["setup", "hermes"], environ) == 1
    said = capsys.readouterr().err
    assert words in said
    assert str(path) in said
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("context:\n  engine: clew\n", "plugins.enabled does not name it"),
        ("plugins:\n  enabled: [clew]\n", "context.engine is compressor"),
        ("plugins:\n  enabled: [clew]\n  disabled: [clew]\ncontext:\n  engine: clew\n", "plugins.disabled names clew"),
    ],
)
def test_the_doctor_sees_that_hermes_would_fall_back_in_silence(
    text: str, words: str, environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    config_of(environ).write_text(text)
    code, told = ran(capsys, environ, "doctor")
    assert (code, told["ok"]) == (1, False)
    assert words in told["hermes"]["problems"][0]
    assert main(["doctor"], {**environ, "COLUMNS": "200"}) == 1
    assert words in capsys.readouterr().out


def test_the_doctor_says_nothing_of_hermes_where_clew_is_not_named(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("model: {default: m}\n", "a: [\n"):
        config_of(environ).write_text(text)
        code, told = ran(capsys, environ, "doctor")
        assert (code, told["hermes"]) == (0, None)


@pytest.mark.skipif(sys.platform == "win32", reason="a program there has no first line with its interpreter")
def test_the_doctor_asks_the_interpreter_of_hermes(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "hermes"
    program.parent.mkdir()
    bare = tmp_path / "bin" / "python-bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    info = tmp_path / "site" / "clew_installed-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: clew-installed\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[hermes_agent.plugins]\nclew = clew.integrations.hermes\n")
    environ["PYTHONPATH"] = os.pathsep.join([str(info.parent), str(Path(clew.__file__).parents[1])])
    main(["setup", "hermes"], environ)
    capsys.readouterr()
    for python, is_ok in ((sys.executable, True), (str(bare), False), (str(tmp_path / "bin" / "python-gone"), False)):
        program.write_text(f"#!{python}\n")
        program.chmod(0o755)
        code, told = ran(capsys, environ, "doctor")
        assert (code, told["hermes"]["python"]) == (0 if is_ok else 1, python)
        assert not is_ok or told["hermes"]["problems"] == []
        assert is_ok or "cannot load Clew" in told["hermes"]["problems"][0]
    code, told = ran(capsys, environ, "setup", "hermes")
    assert (code, told["in_use"]) == (1, False)


@pytest.mark.skipif(sys.platform == "win32", reason="a program there has no first line with its interpreter")
def test_asking_the_interpreter_of_hermes_runs_nothing_of_the_current_project(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, project = tmp_path / "bin" / "hermes", tmp_path / "project"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    (project / "clew").mkdir(parents=True)
    for name in ("clew/__init__.py", "json.py", "email.py"):
        (project / name).write_text(f"open({str(project / 'was_run')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(project)
    ran(capsys, environ, "setup", "hermes")
    assert not (project / "was_run").exists()
