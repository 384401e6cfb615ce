"""Names keep to the glossary: a class name exists once, the types it lists exist, and some words are not used."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.cases import every_case

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "clew"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
FILES = sorted(SOURCE.rglob("*.py"))
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+")


def section(heading: str) -> str:
    return GLOSSARY.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) >= 2 and not set(cells[0]) <= set("-"):
            yield cells


UNUSED = {word for cells in list(rows(section("Words we do not use in names")))[1:] for word in cells[0].split(", ")}
NAMED_TYPES = {
    (name, cells[1]) for cells in rows(section("Types to know")) for name in re.findall(r"`(\w+)`", cells[0])
}


@cache
def outline(path: Path) -> tuple[tuple[str, ...], frozenset[str]]:
    """The classes at the top of a module, and all classes, functions and methods that it defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    defined = frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))
    return tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)), defined


def test_no_class_name_exists_twice() -> None:
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for name in outline(path)[0]:
            homes[name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


@every_case(("name", "room"), sorted(NAMED_TYPES))
def test_the_types_of_the_glossary_exist_in_their_rooms(name: str, room: str) -> None:
    assert any(name in outline(path)[1] for path in (SOURCE / room).rglob("*.py"))


def test_words_that_hide_what_they_hold_are_not_used_in_names() -> None:
    assert len(UNUSED) > 10
    names = {(name, path) for path in FILES for name in (path.stem, *outline(path)[1])}
    used = {
        f"{path.relative_to(SOURCE)}: {name}"
        for name, path in names
        if UNUSED & {part.lower() for part in PARTS.findall(name)}
    }
    assert used == set()
