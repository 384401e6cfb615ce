"""`clew plugins` as a person and as a program meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.cli import main

GOOD = """
from clew.engines import register_context_engine
from tests.support.engines import PlainEngine

class Mine(PlainEngine):
    name = "mine"

def register():
    register_context_engine("mine", Mine)
"""
MANIFEST = "description: forgets quickly\nversion: 2.1\ncontract: 2\n"


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    code = main(["plugins", *words], {"CLEW_HOME": str(home), "COLUMNS": "100", **environ})
    out, err = capsys.readouterr()
    return code, out, err


def write(home: Path, name: str, code: str = GOOD, manifest: str = MANIFEST) -> Path:
    folder = home / "plugins" / "context_engine" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(code)
    (folder / "plugin.yaml").write_text(manifest)
    return folder


def listed(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> dict[str, Any]:
    code, out, _ = run(capsys, home, "list", "--json", *words)
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_list_shows_where_each_comes_from_and_marks_the_one_that_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "mine", "def register():\n    raise SystemExit('I ran')\n")
    code, out, err = run(capsys, tmp_path, "list")
    assert (code, err) == (0, "")
    lines = {line[3:].split()[0]: line for line in out.splitlines()}
    assert lines["mine"].split() == ["mine", "folder", "2.1", "forgets", "quickly"]
    assert lines["compressor"].startswith("*  compressor  built-in")
    assert sum(line.startswith("*") for line in out.splitlines()) == 1


def test_list_for_programs_has_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, "mine")
    found = listed(capsys, tmp_path, "--set", "context.engine=mine")
    assert found["active"] == {"name": "mine", "named": True, "serves": "mine", "problem": None}
    assert found["plugins"][0] == {
        "name": "mine",
        "kind": "context_engine",
        "origin": "folder",
        "where": str(folder),
        "description": "forgets quickly",
        "version": "2.1",
        "contract": 2,
        "active": True,
        "hidden": False,
        "problem": None,
    }


def test_list_names_what_is_broken_and_who_serves_instead(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, "mine", "def register(:\n")
    code, out, err = run(capsys, tmp_path, "list", CLEW_CONTEXT_ENGINE="mine")
    assert code == 0
    assert "cannot be used" in out
    assert "*  compressor" in out
    assert f"clew: mine: {folder / '__init__.py'} line 1: SyntaxError" in err
    assert "context.engine = 'mine': " in err and "; compressor serves" in err


def test_list_tells_when_the_config_names_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, tmp_path, "list", CLEW_CONTEXT_ENGINE="compresor")
    assert code == 0
    assert "*  compressor" in out
    assert "did you mean compressor?" in err
    found = listed(capsys, tmp_path, "--set", "context.engine=compresor")
    assert found["active"]["serves"] == "compressor"
    assert "did you mean compressor?" in found["active"]["problem"]


def test_a_plugin_of_the_same_name_is_shown_but_does_not_serve_until_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "compressor")
    by_origin = {each["origin"]: each for each in listed(capsys, tmp_path)["plugins"] if each["name"] == "compressor"}
    assert (by_origin["folder"]["active"], by_origin["built-in"]["active"]) == (False, True)
    named = listed(capsys, tmp_path, "--set", "context.engine=compressor")
    by_origin = {each["origin"]: each for each in named["plugins"] if each["name"] == "compressor"}
    assert (by_origin["folder"]["active"], by_origin["built-in"]["active"]) == (True, False)
    assert by_origin["built-in"]["hidden"] is True


def test_a_config_that_is_broken_elsewhere_does_not_hide_the_plugins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text("compression:\n  threshold: 7\n")
    code, out, err = run(capsys, tmp_path, "list")
    assert code == 0
    assert "compressor" in out
    assert "compression.threshold = 7: not allowed" in err


def test_show_describes_one_without_running_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, "mine", "raise SystemExit('I ran')\ndef register(): ...\n")
    code, out, err = run(capsys, tmp_path, "show", "mine")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "mine"
    for fact in ("forgets quickly", f"folder, {folder}", "2.1", "no; `clew plugins use mine` chooses it"):
        assert fact in out


def test_show_with_a_check_loads_it_and_lets_it_compact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "mine")
    code, out, _ = run(capsys, tmp_path, "show", "mine", "--check")
    assert code == 0
    assert "check        passed" in out
    code, out, _ = run(capsys, tmp_path, "show", "compressor", "--check", "--json")
    assert (code, json.loads(out)["check"]) == (0, {"ok": True, "problems": []})


@pytest.mark.parametrize(
    ("spoilt", "problem"),
    [
        (GOOD + "raise ValueError('no oil')", "line 10: ValueError: no oil"),
        (GOOD + "    Mine.state = property(lambda self: {'of': self})\n", "its state is not plain JSON"),
        (GOOD + "    Mine.compress = None\n", "TypeError"),
    ],
)
def test_show_with_a_check_says_what_is_wrong_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoilt: str, problem: str
) -> None:
    write(tmp_path, "mine", spoilt)
    code, out, _ = run(capsys, tmp_path, "show", "mine", "--check", "--json")
    told = json.loads(out)["check"]
    assert (code, told["ok"]) == (1, False)
    assert problem in " ".join(told["problems"])


def test_show_of_one_that_hides_another_names_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "compressor")
    code, out, _ = run(capsys, tmp_path, "show", "compressor")
    assert code == 0
    assert "also there   built-in, clew" in out


def test_use_writes_the_name_and_leaves_the_rest_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "mine")
    (tmp_path / "config.yaml").write_text("# mine\ncompression:\n  threshold: 0.6\n")
    code, out, err = run(capsys, tmp_path, "use", "mine")
    assert (code, err) == (0, "")
    assert out.startswith("context.engine = mine  (file line ")
    assert (tmp_path / "config.yaml").read_text().startswith("# mine\ncompression:\n  threshold: 0.6\n")
    assert listed(capsys, tmp_path)["active"]["serves"] == "mine"


def test_use_for_programs_tells_what_counts_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, tmp_path, "use", "compressor", "--json")
    path = str(tmp_path / "config.yaml")
    assert (code, json.loads(out)) == (0, {"engine": "compressor", "origin": "file line 2", "path": path})


def test_use_refuses_an_unknown_name_with_the_nearest_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "mine")
    code, out, err = run(capsys, tmp_path, "use", "mnie")
    assert (code, out) == (1, "")
    assert "no context engine is called 'mnie'; did you mean mine?" in err
    assert not (tmp_path / "config.yaml").exists()


@pytest.mark.parametrize("code_of_it", ["raise RuntimeError('no oil')\n" + GOOD, GOOD.replace("Mine)", "None)")])
def test_use_refuses_a_broken_one_with_its_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code_of_it: str
) -> None:
    folder = write(tmp_path, "mine", code_of_it)
    code, out, err = run(capsys, tmp_path, "use", "mine")
    assert (code, out) == (1, "")
    assert err.startswith(
        f"clew: context engine 'mine' (folder, {folder}): loading failed: {folder / '__init__.py'} line"
    )
    assert err.count("\n") == 1
    assert not (tmp_path / "config.yaml").exists()


def test_use_says_when_the_environment_overrules_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "mine")
    code, out, err = run(capsys, tmp_path, "use", "mine", CLEW_CONTEXT_ENGINE="compressor")
    assert code == 0
    assert "context.engine = compressor" in out
    assert "CLEW_CONTEXT_ENGINE overrules the file" in err


def test_text_of_strangers_cannot_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "mine", manifest='description: "red \\x1b[31m"\n')
    for words in (["list"], ["show", "mine"]):
        code, out, _ = run(capsys, tmp_path, *words)
        assert code == 0
        assert "\x1b" not in out


@pytest.mark.parametrize("words", [["show"], ["use"], ["remove", "mine"]])
def test_wrong_use_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run(capsys, tmp_path, *words)[0] == 2


def test_the_place_of_a_failed_check_is_none_of_the_event_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = GOOD.replace(
        'name = "mine"\n', 'name = "mine"\n\n    async def compress(self, *given, **more):\n        return []\n'
    )
    write(tmp_path, "mine", wrong)
    code, out, _ = run(capsys, tmp_path, "show", "mine", "--check")
    assert code == 1 and "it must return a clew.engines.Compaction" in " ".join(out.split())
    assert "asyncio" not in out
