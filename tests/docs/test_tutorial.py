"""The tutorial: its commands run and print what it shows, its program runs, and the site's pages exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from clew.cli import main

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL, re.M | re.S)


def commands() -> Iterator[tuple[list[str], str]]:
    """Each command of the console blocks with the output that is shown below it."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            yield shlex.split(command)[1:], output


VARIES = re.compile(r"\d{1,3}(?:,\d{3})+|\d+%|[A-Za-z]*[-#░]{2,}[A-Z░]*| {2,}")
"""Counts of tokens, and the bars and blanks beside them: each change of the summariser moves them a little."""


def pattern_of(output: str) -> str:
    """`...` on a line of its own leaves out lines, inside a line it leaves out text."""
    texts = (".*?".join(map(pattern_of_text, line.split("..."))) for line in output.splitlines())
    lines = [".*" if text == ".*?" else text for text in texts]
    return r"\n".join(lines).replace(r".*\n", r"(?:.*\n)?").replace(r"\n.*", r"(?:\n.*)?")


def pattern_of_text(text: str) -> str:
    """The text; figures that vary are any figure, bars any bar."""
    parts, at = [], 0
    for found in VARIES.finditer(text):
        kind = r"[\d,]+%?" if found[0][0].isdigit() else r"\s+" if found[0].isspace() else r"[-#░A-Za-z]+"
        parts += [re.escape(text[at : found.start()]), kind]
        at = found.end()
    return "".join([*parts, re.escape(text[at:])])


def test_the_commands_print_what_the_tutorial_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    environ = {"CLEW_HOME": str(tmp_path / "home"), "COLUMNS": "80"}
    run = list(commands())
    assert len(run) == 6
    for arguments, output in run:
        assert main(arguments, environ) == 0
        printed = capsys.readouterr().out.strip("\n")
        assert re.fullmatch(pattern_of(output.strip("\n")), printed, re.S), (arguments, printed[:2_000])


def test_the_program_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    (program,) = blocks("python")
    exec(compile(program, "tutorial", "exec"), {})
    assert " -> " in capsys.readouterr().out


def test_every_guide_and_decision_is_in_the_site() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = re.findall(r"[\w/.-]+\.md", yaml.safe_dump(site["nav"]))
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(named) == sorted(page for page in pages if not re.match(r"decisions/\d", page))
    index = (ROOT / "docs" / "decisions" / "index.md").read_text(encoding="utf-8")
    decisions = [path.name for path in (ROOT / "docs" / "decisions").glob("0*.md")]
    assert sorted(re.findall(r"\((\d[\w.-]+\.md)\)", index)) == sorted(decisions)
