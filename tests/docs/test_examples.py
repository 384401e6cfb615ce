"""Every example runs as it stands and prints what the index says; the guide on ways in has lines of these files."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
INDEX = (EXAMPLES / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "guides" / "integrations.md").read_text(encoding="utf-8")
NOT_RUN = ("make_session.py",)
# Those of frameworks run by `./check integrations`, each with its framework.
RUN = sorted(
    path.name for path in EXAMPLES.glob("*.py") if not path.name.startswith("with_") and path.name not in NOT_RUN
)
OUTPUTS = dict(re.findall(r"^### (\w+\.py)\n.*?```\n(.*?)```", INDEX, re.MULTILINE | re.DOTALL))
SHOWN = re.findall(
    r"^\[[\w.]+\]\(\.\./\.\./examples/([\w.]+)\)(?:[^\n]+\n)+\n```python\n(.*?)```", GUIDE, re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("name", RUN)
def test_an_example_runs_and_prints_what_the_index_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLEW_HOME", str(tmp_path / ".clew"))
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    # Figures change with every better handoff; the words are what the example is for.
    assert without_figures(capfd.readouterr().out) == without_figures(OUTPUTS[name])


def without_figures(text: str) -> str:
    return re.sub(r"\d[\d,]*", "#", text)


def test_the_index_names_every_example_and_no_other() -> None:
    named = set(re.findall(r"\]\((\w[\w./]*)\)", INDEX))
    assert {name for name in named if not (EXAMPLES / name).exists()} == set()
    assert set(RUN) <= named and set(OUTPUTS) == set(RUN)


@pytest.mark.parametrize("name", [path.name for path in sorted(EXAMPLES.glob("*.py")) if path.name not in NOT_RUN])
def test_an_example_is_short_and_says_what_it_needs(name: str) -> None:
    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    assert 10 <= len(lines) <= 45
    assert lines[0].startswith('"""') and "pip install" in " ".join(lines[:4])


@pytest.mark.parametrize(("name", "lines"), SHOWN, ids=[name for name, _ in SHOWN])
def test_the_guide_shows_lines_of_the_example(name: str, lines: str) -> None:
    own = {line.strip() for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()}
    assert [line for line in lines.splitlines() if line.strip() and line.strip() not in own] == []


def test_the_guide_names_every_example() -> None:
    named = set(re.findall(r"examples/([\w.]+)", GUIDE))
    assert set(RUN) <= named and len(SHOWN) == GUIDE.count("```python")
    assert {name for name in named if not (EXAMPLES / name).exists()} == set()
