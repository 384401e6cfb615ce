"""The README and the pages it leads to say what the program does: samples, commands, figures, files and links."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from clew.cli import main
from clew.facts import Record
from tests.support.cases import every_case

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WALK = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8")
HOW_WELL = (ROOT / "docs" / "how-well.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guides" / "compress.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "guides" / "commands.md").read_text(encoding="utf-8")
COMPRESS_ROW = next(line for line in COMMANDS.splitlines() if line.startswith("| `clew compress"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
FOLDERS = ("benchmarks", "docs", "examples", "src/clew", "tests")
MADE_BY_RUNNING = ("benchmarks/results/",)
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def printed(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> str:
    """What a command prints at the width that the README has, without colours."""
    assert main(list(words), {"CLEW_HOME": str(home), "COLUMNS": "80"}) == 0
    return COLOUR.sub("", capsys.readouterr().out)


def folded(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> str:
    return printed(capsys, home, "compress", "examples/session.json", *words)


@pytest.fixture(autouse=True)
def in_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def sample_in(page: str) -> list[str]:
    """The lines of the block that shows what folding the example prints."""
    found = re.search(r"```\n(  examples/session\.json\n.+?)```", page, re.DOTALL)
    assert found
    return found[1].splitlines()


FIGURE = re.compile(r"\d[\d,]*")
BAR = re.compile(r"[A-Za-z]*[-#░]{2,}[A-Z░]*")


def in_words(line: str) -> str:
    """The line without its figures, its bar, and blanks that align them."""
    return " ".join(FIGURE.sub("0", BAR.sub("", line)).split())


def figures_in(text: str) -> list[int]:
    return [int(figure.replace(",", "")) for figure in FIGURE.findall(text) if figure.strip(",")]


def is_near(figure: int, others: list[int]) -> bool:
    """Whether one of the others is nearly the same: each change of the summariser moves its sizes a little."""
    return any(abs(figure - other) <= 0.05 * figure + 1 for other in others)


def lines_to_paste() -> list[str]:
    found = re.search(r"<!-- two lines -->\n```\n(.+?)```\n<!-- end -->", README, re.DOTALL)
    assert found
    return found[1].splitlines()


def commands_in(help_text: str) -> set[str]:
    return set(re.findall(r"^  ([a-z]+)  ", help_text.partition("\nCommands:\n")[2].partition("\n\n")[0], re.MULTILINE))


def test_the_first_line_prints_what_the_readme_shows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = sample_in(README)
    out = folded(capsys, tmp_path, "--to", "10k").splitlines()[: len(shown)]
    assert list(map(in_words, out)) == list(map(in_words, shown))
    for line, now in zip(shown, out, strict=True):
        assert all(is_near(figure, figures_in(now)) for figure in figures_in(line)), (line, now)


def test_the_guide_shows_the_figures_that_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = folded(capsys, tmp_path)
    # The guide shows the terminal, with bars in colours: what can be compared are the words and figures beside them.
    shown = [word for line in sample_in(GUIDE)[:-1] for word in re.findall(r"[A-Za-z/.]{3,}", line)]
    assert [word for word in shown if word not in out] == []
    assert [figure for figure in figures_in("\n".join(sample_in(GUIDE))) if not is_near(figure, figures_in(out))] == []


def test_the_walk_has_the_figures_that_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = folded(capsys, tmp_path, "--to", "10k")
    page = WALK.partition("\n## A turn,")[0]
    figures = re.findall(r"\d{1,3},\d{3}|`m\d+`", page)
    assert len(figures) >= 8
    assert [figure for figure in figures if not is_near(figures_in(figure)[0], figures_in(out))] == []
    request = json.loads((ROOT / "examples" / "session.json").read_text(encoding="utf-8"))
    record = Record.of(request["messages"])
    counts = {"tools": request["tools"], "actions": list(record.actions()), "requests": record.exchanges}
    assert [name for name, each in counts.items() if f"{len(each)} {name}" not in " ".join(page.split())] == []


def test_there_are_two_lines_to_paste_and_they_name_what_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    first, second = lines_to_paste()
    assert re.findall(r"\bexamples/\S+", first) == ["examples/session.json"]
    assert (ROOT / "examples" / "session.json").is_file()
    assert "bin/clew compress" in first
    assert "clew" in project["scripts"]
    extras = re.findall(r"'\.\[(\w+)\]'", second)
    assert extras == ["dev"]
    assert "dev" in project["optional-dependencies"]
    assert any(each.startswith("pytest>") for each in project["optional-dependencies"]["dev"])


def test_the_table_names_every_command_and_no_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows = re.findall(r"^\| (`clew .+?) \|", COMMANDS, re.MULTILINE)
    named = {command for row in rows for command in re.findall(r"`clew ([a-z]+)", row)}
    assert named == commands_in(printed(capsys, tmp_path, "--help"))


@pytest.mark.parametrize("flag", sorted(set(re.findall(r"`(--[a-z]+)`", COMPRESS_ROW))))
def test_a_flag_of_the_table_is_one_of_compress(capsys: pytest.CaptureFixture[str], tmp_path: Path, flag: str) -> None:
    assert f"{flag} " in printed(capsys, tmp_path, "compress", "--help")


def test_results_in_the_readme_are_those_of_the_page_how_well() -> None:
    results = README.partition("\n## How well\n")[2].partition("\n## ")[0]
    measured = {float(figure) for figure in re.findall(r"\d+\.\d(?=%)", HOW_WELL)}
    # A cost above that of direct calls is 100% and the rest there.
    more = {float(figure) for figure in re.findall(r"(\d+\.\d)% more than", results)}
    shown = {float(figure) for figure in re.findall(r"(\d+(?:\.\d+)?)(?=%| to \d)", results)} - more
    assert len(shown) >= 8
    assert shown <= measured
    assert {round(100 + figure, 1) for figure in more} <= measured


def test_the_library_does_what_the_readme_shows(tmp_path: Path) -> None:
    shown = re.search(r"```python\n(.+?)```", README, re.DOTALL)
    assert shown
    program = f"""
import asyncio, json, pathlib

async def readme(messages, my_model, raw, status, body):
{textwrap.indent(shown[1], "    ")}
    return done

messages = json.loads(pathlib.Path("examples/session.json").read_text(encoding="utf-8"))["messages"]
done = asyncio.run(readme(messages, lambda prompt: "", {{"prompt_tokens": 1}}, 429, "slow down"))
assert done.changed and done.summary and done.tokens_after <= 10_000 < done.tokens_before
"""
    home = {**os.environ, "HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / ".clew" / "state.db").is_file()


@every_case("page", PAGES)
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@every_case("page", PAGES)
def test_every_file_of_the_project_that_is_named_is_there(page: Path) -> None:
    named = re.findall(rf"`(?:python )?((?:{'|'.join(FOLDERS)})/[\w./-]+)", page.read_text(encoding="utf-8"))
    assert [name for name in named if name not in MADE_BY_RUNNING and not (ROOT / name).exists()] == []


@every_case("page", PAGES)
def test_no_page_names_a_place_on_one_machine(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"(?<![\w.~])/(?:root|tmp|work|opt|mnt|Users|home/(?!you/))[\w/.-]*", text) == []
