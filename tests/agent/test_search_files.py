"""Finding lines and files, by ripgrep and by our own search alike."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.agent.files import Workspace
from clew.agent.files.python_search import glob_matches, is_ignored, parse_ignore_rules
from clew.agent.tools import CallContext, ToolResult
from clew.agent.tools.search_files import SearchFilesTool
from clew.tokens import count_tokens

CALL = CallContext("session", "call")


@pytest.fixture(params=["own", "ripgrep"])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "own":
        return {"PATH": ""}
    beside = Path(sys.executable).parent  # where it comes with the tests, on PATH or not
    program = shutil.which("rg", path=os.pathsep.join([str(beside), os.environ.get("PATH", "")]))
    if program is None:
        pytest.skip("ripgrep is not installed")
    return {"PATH": str(Path(program).parent)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    files = {
        "app.py": "import os\n\ndef load():\n    return 1\n\ndef save():\n    return 2\n",
        "src/deep/parser.py": "def parse(text):\n    return text\n",
        "src/page.ts": "export function load() {}\n",
        ".github/ci.yml": "run: load\n",
        "build/out.py": "def load(): built\n",
        "node_modules/x/index.js": "function load() {}\n",
        ".git/config": "load\n",
        ".gitignore": "build/\n*.log\n!keep.log\n",
        "trace.log": "load\n",
        "keep.log": "load\n",
        "server.pem": "load\n",
    }
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "image.bin").write_bytes(b"load\0load\n")
    return root


async def search(root: Path, environ: dict[str, str], seconds: float = 20.0, **arguments: Any) -> ToolResult:
    return await SearchFilesTool(Workspace(root), environ, seconds).run(arguments, CALL)


async def test_lines_come_by_file_with_their_numbers(project: Path, environ: dict[str, str]) -> None:
    result = await search(project, environ, pattern=r"def \w+\(")
    assert result.text == (
        "app.py\n3: def load():\n6: def save():\nsrc/deep/parser.py\n1: def parse(text):\n[3 in all]"
    )


async def test_ignored_hidden_binary_and_secret_files(project: Path, environ: dict[str, str]) -> None:
    result = await search(project, environ, pattern="load", mode="files")
    assert result.text == (
        ".github/ci.yml\napp.py\nkeep.log\nsrc/page.ts\n"
        "[1 files that look like secrets left out; name one as path to search it]"
    )


async def test_a_secret_that_is_named_is_a_risk_and_then_searched(project: Path, environ: dict[str, str]) -> None:
    tool = SearchFilesTool(Workspace(project), environ)
    assert tool.risk({"pattern": "load", "path": "server.pem"}) is not None
    assert "1: load" in (await tool.run({"pattern": "load", "path": "server.pem"}, CALL)).text


async def test_what_is_ignored_can_be_searched_by_its_path(project: Path, environ: dict[str, str]) -> None:
    assert "1: function load" in (await search(project, environ, pattern="load", path="node_modules/x")).text
    assert "1: load" in (await search(project, environ, pattern="load", path="trace.log")).text
    assert "1: load" in (await search(project, environ, pattern="load", path="image.bin")).text


async def test_lines_around_a_match(project: Path, environ: dict[str, str]) -> None:
    result = await search(project, environ, pattern="return", path="app.py", context=1)
    assert result.text == ("app.py\n3- def load():\n4:     return 1\n5- \n6- def save():\n7:     return 2\n[2 in all]")
    (project / "app.py").write_text("x\n" * 3 + "hit\n" + "y\n" * 5 + "hit\n")
    result = await search(project, environ, pattern="hit", path="app.py", context=1)
    assert result.text == "app.py\n3- x\n4: hit\n5- y\n--\n9- y\n10: hit\n[2 in all]"


async def test_counts_are_of_lines(project: Path, environ: dict[str, str]) -> None:
    result = await search(project, environ, pattern="t", mode="count", glob="*.py")
    assert result.text == "app.py: 3\nsrc/deep/parser.py: 2\n[2 in all]"


@pytest.mark.parametrize(
    ("glob", "names"),
    [
        ("*.py", ["app.py", "src/deep/parser.py"]),
        ("src/**/*.py", ["src/deep/parser.py"]),
        ("src/*", ["src/page.ts"]),
        ("*.{ts,yml}", [".github/ci.yml", "src/page.ts"]),
        ("p?ge.*", ["src/page.ts"]),
        ("*.log", ["keep.log"]),
        ("[a-b]*.py", ["app.py"]),
    ],
)
async def test_files_are_found_by_name(project: Path, environ: dict[str, str], glob: str, names: list[str]) -> None:
    assert (await search(project, environ, mode="names", glob=glob)).text.split("\n") == names


async def test_no_file_of_a_name_is_said(project: Path, environ: dict[str, str]) -> None:
    assert "no file in src fits '*.go'" in (await search(project, environ, mode="names", glob="*.go", path="src")).text


async def test_results_are_bounded_and_tell_how_many_more(project: Path, environ: dict[str, str]) -> None:
    (project / "many.txt").write_text("needle\nhay\n" * 300)
    result = await search(project, environ, pattern="needle", limit=3, context=1)
    assert result.text == (
        "many.txt\n1: needle\n2- hay\n3: needle\n4- hay\n5: needle\n6- hay\n"
        "[297 more; narrow it with path, glob or pattern]"
    )
    (project / "wide.txt").write_text(("x" * 1_000 + "needle" + "y" * 3_000 + "\n") * 500)
    result = await search(project, environ, pattern="needle", path="wide.txt", limit=1000)
    assert len(result.text) < 50_000
    assert "more; narrow it" in result.text


async def test_a_long_line_is_shown_around_the_match(project: Path, environ: dict[str, str]) -> None:
    (project / "wide.txt").write_text("é" * 5_000 + "needle" + "y" * 5_000)
    text = (await search(project, environ, pattern="needle")).text
    assert "needle" in text
    assert "of 10,006]" in text
    assert len(text) < 600


async def test_a_line_of_many_megabytes_is_survived(project: Path, environ: dict[str, str]) -> None:
    (project / "wide.txt").write_text("z" * (20 << 20) + "\nneedle\n")
    assert "2: needle" in (await search(project, environ, pattern="z+|needle", path="wide.txt")).text


async def test_a_wrong_expression_offers_plain_text(project: Path, environ: dict[str, str]) -> None:
    result = await search(project, environ, pattern="load(")
    assert result.is_error
    assert "set literal" in result.text
    result = await search(project, environ, pattern="load(", literal="true", path="app.py")
    assert result.text == "app.py\n3: def load():\n[1 in all]"


async def test_look_around_works_everywhere(project: Path, environ: dict[str, str]) -> None:
    result = await search(project, environ, pattern=r"(?<=def )load", glob="*.py")
    assert result.text == "app.py\n3: def load():\n[1 in all]"


async def test_case_counts_unless_said_otherwise(project: Path, environ: dict[str, str]) -> None:
    assert "nothing in . fits 'LOAD'" in (await search(project, environ, pattern="LOAD")).text
    assert "app.py" in (await search(project, environ, pattern="LOAD", ignore_case=True)).text


async def test_a_pattern_that_begins_like_an_option_is_a_pattern(project: Path, environ: dict[str, str]) -> None:
    (project / "dash.txt").write_text("--files here\n")
    assert "1: --files here" in (await search(project, environ, pattern="--files", path="dash.txt")).text


async def test_utf_16_and_other_bytes_are_searched(project: Path, environ: dict[str, str]) -> None:
    (project / "wide.txt").write_bytes("größe needle\n".encode("utf-16"))
    (project / "old.txt").write_bytes(b"caf\xe9 needle\n")
    text = (await search(project, environ, pattern="needle")).text
    assert "1: größe needle" in text
    assert "1: caf\ufffd needle" in text


async def test_links_are_not_followed_out_of_the_project(project: Path, environ: dict[str, str]) -> None:
    (project.parent / "elsewhere").mkdir()
    (project.parent / "elsewhere" / "x.txt").write_text("needle\n")
    (project / "link").symlink_to(project.parent / "elsewhere")
    (project / "x.txt").symlink_to(project.parent / "elsewhere" / "x.txt")
    os.mkfifo(project / "pipe")
    assert "nothing in ." in (await search(project, environ, pattern="needle")).text
    assert "outside the project" in (await search(project, environ, pattern="needle", path="link")).text
    assert SearchFilesTool(Workspace(project), environ).risk({"pattern": "x", "path": "link"}) is not None


async def test_odd_names_are_survived(project: Path, environ: dict[str, str]) -> None:
    (project / "line\nend.txt").write_text("needle\n")
    (project / os.fsdecode(b"odd\xff.txt")).write_text("needle\n")
    text = (await search(project, environ, pattern="needle")).text
    assert "[2 in all]" in text
    text.encode()
    (await search(project, environ, mode="names", glob="*.txt")).text.encode()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"pattern": ""},
        {"pattern": 3},
        {"pattern": "a\nb"},
        {"pattern": "a", "mode": "all"},
        {"pattern": "a", "path": "nowhere"},
        {"pattern": "a", "limit": "many"},
        {"pattern": "a", "path": "a\0b"},
    ],
)
async def test_wrong_arguments_are_told_and_never_raise(
    project: Path, environ: dict[str, str], arguments: dict[str, Any]
) -> None:
    tool = SearchFilesTool(Workspace(project), environ)
    tool.risk(arguments)
    tool.headline(arguments)
    assert (await tool.run(arguments, CALL)).is_error


async def test_a_pattern_that_never_ends_is_ended(project: Path) -> None:
    (project / "bad.txt").write_text("needle\n" + "a" * 40 + "!\n")
    result = await search(project, {"PATH": ""}, 1.0, pattern=r"(a+)+$|needle", path="bad.txt")
    assert "out of time" in result.text


async def test_a_search_that_is_cancelled_leaves_no_child(project: Path, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "rg"
    fake.parent.mkdir()
    os.mkfifo(tmp_path / "pid")
    fake.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    fake.chmod(0o755)
    task = asyncio.create_task(search(project, {"PATH": f"{fake.parent}:/usr/bin:/bin"}, pattern="x"))
    child = int(await asyncio.to_thread((tmp_path / "pid").read_text))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


async def test_a_program_of_the_project_is_not_taken_for_ripgrep(project: Path, tmp_path: Path) -> None:
    planted = project / ".venv/bin/rg"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/RAN\n")
    planted.chmod(0o755)
    result = await search(project, {"PATH": f"{planted.parent}:.venv/bin:/usr/bin:/bin"}, pattern="def load")
    assert "def load" in result.text
    assert not (tmp_path / "RAN").exists()


async def test_what_ripgrep_says_is_read_in_all_its_shapes(project: Path, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "rg"
    fake.parent.mkdir()
    said = (
        '{"type":"begin","data":{"path":{"text":"PATH"}}}\n'
        '{"type":"match","data":{"path":{"text":"PATH"},"lines":{"bytes":"Y2Fm6SBoaXQK"},"line_number":7,'
        '"absolute_offset":0,"submatches":[{"match":{"text":"hit"},"start":5,"end":8}]}}\n'
        '{"type":"end","data":{"path":{"text":"PATH"}}}\n'
        '{"type":"summary","data":{"stats":{"searches":1}}}\n'
    )
    (tmp_path / "said").write_text(said.replace("PATH", str(project / "app.py")))
    fake.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n")
    fake.chmod(0o755)
    result = await search(project, {"PATH": f"{fake.parent}:/usr/bin:/bin"}, pattern="hit")
    assert result.text == "app.py\n7: caf\ufffd hit\n[1 in all]"


async def test_where_ripgrep_refuses_a_pattern_our_own_search_takes_over(project: Path, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "rg"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'regex parse error: look-around is not supported' >&2\nexit 2\n")
    fake.chmod(0o755)
    environ = {"PATH": f"{fake.parent}:/usr/bin:/bin"}
    assert "3: def load" in (await search(project, environ, pattern="(?<=def )load", glob="*.py")).text
    assert (await search(project, environ, pattern="((")).is_error


@pytest.mark.parametrize(
    ("rule", "path", "is_folder", "expected"),
    [
        ("*.log", "a/b.log", False, True),
        ("/a.log", "b/a.log", False, None),
        ("/a.log", "a.log", False, True),
        ("build/", "build", False, None),
        ("build/", "x/build", True, True),
        ("a/**/z", "a/b/c/z", False, True),
        ("a/**/z", "a/z", False, True),
        ("**/z", "b/c/z", False, True),
        ("a/**", "a/b/c", False, True),
        ("a/*", "a/b/c", False, None),
        ("!keep", "keep", False, False),
        ("# note", "# note", False, None),
        ("\\#x", "#x", False, True),
        ("\\!x", "!x", False, True),
        ("\\*", "*", False, True),
        ("\\*", "x", False, None),
        ("!", "!", False, None),
        ("x//", "x", True, None),
        ("[!a]b", "cb", False, True),
        ("[!a]b", "ab", False, None),
        ("[", "[", False, True),
        ("", "", False, None),
    ],
)
def test_ignore_rules(rule: str, path: str, is_folder: bool, expected: bool | None) -> None:
    assert is_ignored(parse_ignore_rules([rule]), path, is_folder) is expected


def test_a_glob_can_be_turned_round() -> None:
    assert glob_matches("!*.min.js", "a/b.js")
    assert not glob_matches("!*.min.js", "a/b.min.js")


def test_the_schema_is_short() -> None:
    assert count_tokens(str(SearchFilesTool.schema)) < 250


def test_headlines(tmp_path: Path) -> None:
    tool = SearchFilesTool(Workspace(tmp_path), {})
    assert tool.headline({"pattern": "load", "path": "src"}) == "search 'load' in src"
    assert tool.headline({"mode": "names", "glob": "*.py"}) == "search '*.py'"
