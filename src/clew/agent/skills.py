"""Skills: folders with a SKILL.md, whose front matter gives a name and a description.

Finds and reads them; a skill that cannot be used is left out with a notice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.agent.files.disk import read_prefix
from clew.agent.safe_text import without_invisible

SKILL_FILE = "SKILL.md"
SKILL_FOLDERS = (".clew/skills", ".claude/skills")
"""In the project; the person's own are in `skills` of the Clew home. The first skill of a name wins."""
DESCRIPTION_CHARS = 500
MAX_BYTES = 1 << 20
_MAX_SKILLS = 200
_NAME = re.compile(r"[\w.-]{1,64}")
_FRONT = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_FRONT_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Skill:
    """Instructions for a kind of task, which the agent can open."""

    name: str
    description: str
    """On one line."""
    path: Path
    """Of its SKILL.md."""


class _UnusableSkill(Exception):  # noqa: N818 (names the thing, not an error)
    """A skill that cannot be used; the message says why."""


def find_skills(project: Path, home: Path) -> tuple[tuple[Skill, ...], tuple[str, ...]]:
    """All skills, sorted by name, and notices about those that cannot be used."""
    found: dict[str, Skill] = {}
    notices: list[str] = []
    for path in _paths(project.expanduser().absolute(), home.expanduser().absolute()):
        try:
            skill = _skill(path)
        except _UnusableSkill as broken:
            notices.append(f"The skill in {path.parent} is left out: {broken}.")
            continue
        if skill.name in found:
            notices.append(f"The skill {skill.name!r} in {path.parent} is left out: {found[skill.name].path} wins.")
        elif len(found) == _MAX_SKILLS:
            notices.append(f"The skill {skill.name!r} in {path.parent} is left out: {_MAX_SKILLS} are the most.")
        else:
            found[skill.name] = skill
    return tuple(sorted(found.values(), key=lambda skill: skill.name)), tuple(notices)


def skill_text(skill: Skill) -> str:
    """All of its SKILL.md. Raises OSError or ValueError where that cannot be read any more."""
    try:
        return _text(skill.path)
    except _UnusableSkill as broken:
        raise ValueError(f"{skill.path}: {broken}") from None


def _paths(project: Path, home: Path) -> Iterator[Path]:
    for parent in (*(project / name for name in SKILL_FOLDERS), home / "skills"):
        try:
            folders = sorted(parent.iterdir())
        except OSError:
            continue
        yield from (folder / SKILL_FILE for folder in folders if os.path.lexists(folder / SKILL_FILE))


def _skill(path: Path) -> Skill:
    try:
        front = _front_matter(_text(path))
    except OSError as problem:
        raise _UnusableSkill(f"it cannot be read: {problem.strerror or problem}") from None
    name, description = front.get("name", path.parent.name), front.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _UnusableSkill("its name has to be 1 to 64 letters, digits, dots and dashes")
    if not isinstance(description, str) or not description.strip():
        raise _UnusableSkill("its front matter has no description")
    words = " ".join(without_invisible(" ".join(description.split())).split())
    return Skill(name, words if len(words) <= DESCRIPTION_CHARS else words[: DESCRIPTION_CHARS - 1] + "…", path)


def _front_matter(text: str) -> dict[str, Any]:
    import yaml  # late: most sessions have no skills

    found = _FRONT.match(text, 0, _FRONT_CHARS)
    if found is None:
        raise _UnusableSkill(f"{SKILL_FILE} has to begin with front matter between two lines of ---")
    try:
        front = yaml.safe_load(found[1])
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        raise _UnusableSkill(f"its front matter is no YAML: {' '.join(str(problem).split())[:200]}") from None
    if not isinstance(front, dict):
        raise _UnusableSkill("its front matter has to be keys and values: name, description")
    return front


def _text(path: Path) -> str:
    content, found = read_prefix(path, MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise _UnusableSkill(f"its {SKILL_FILE} has {found.st_size:,} bytes; {MAX_BYTES:,} are the most")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise _UnusableSkill(f"its {SKILL_FILE} is not UTF-8 at byte {problem.start:,}") from None
