"""The package on the index is called `clew-context`; another project has the name `clew` there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from clew.install import DISTRIBUTION

ROOT = Path(__file__).parents[2]
FILES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"),
    *(path for folder in ("docs", "examples", "deploy", "src") for path in (ROOT / folder).rglob("*")),
]
# A requirement of our own behind an installer's verb: clew, 'clew[mcp]', clew==1.
# What follows `uvx --from NAME` is a command, not a package.
INSTALLS = re.compile(
    r"""(?:\binstall (?:[\w'"\[\].-]+ )*?|\buvx --from |\bpipx run --spec )['"]?clew(?=[\s'"`\[=<>~]|$)""", re.M
)


# An extra of the clone. Whoever installed the package has no clone.
OF_CLONE = re.compile(r"""\binstall (?:-[\w-]+ )*['"]?\.\[(?!dev\])""")


def test_the_distribution_has_the_name_that_advice_gives() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    assert set(project["scripts"]) == {"clew"}


def test_no_line_installs_the_package_of_another_project() -> None:
    assert INSTALLS.search("pip install openai 'clew[mcp]'")
    assert found(INSTALLS) == []


def test_extras_are_installed_by_the_name_of_the_package() -> None:
    assert OF_CLONE.search("pip install '.[local]'")
    assert found(OF_CLONE) == []


def found(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in FILES
        if path.suffix in (".md", ".py", ".toml", ".json", "") and path.is_file()
        for match in pattern.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
