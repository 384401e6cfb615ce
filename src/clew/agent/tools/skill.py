"""The tool `skill`: opens a skill by its name. Its text is pinned, so that a compaction never paraphrases it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from clew.agent.skills import FILE, Skill, skill_text
from clew.agent.tools.base import AgentTool, Arguments, CallContext, ToolResult, function_schema, wrong

MOST_CHARS = 60_000
MOST_FILES = 50
_MOST_LOOKED_AT = 500


class SkillTool(AgentTool):
    """Reads a skill's SKILL.md, word for word, and says what else its folder holds."""

    name = "skill"
    changes_nothing = True

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = {skill.name: skill for skill in skills}
        self.schema = function_schema(
            self.name,
            "Open a skill named in the system prompt, before doing what it is for. Gives its instructions in full.",
            {"name": {"type": "string"}},
            "name",
        )

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        name = arguments.get("name")
        skill = self._find(name) if isinstance(name, str) else None
        if skill is None:
            there = ", ".join(sorted(self._skills)) or "none"
            return wrong(f"there is no skill {name!r}; there are: {there}")
        try:
            text = skill_text(skill)
        except (OSError, ValueError) as problem:
            return wrong(f"the skill {skill.name!r} cannot be read: {problem}")
        shown = f"opened the skill {skill.name} ({len(text):,} chars)"
        return ToolResult(_told(skill, text), shown=shown, pinned_as=f"skill {skill.name}")

    def _find(self, name: str) -> Skill | None:
        exact = self._skills.get(name.strip())
        return exact or next(
            (it for it in self._skills.values() if it.name.casefold() == name.strip().casefold()), None
        )


def _told(skill: Skill, text: str) -> str:
    told = [f"Skill {skill.name}, from {skill.path}:", "", text[:MOST_CHARS]]
    if len(text) > MOST_CHARS:
        told.append(f"[cut: {MOST_CHARS:,} of {len(text):,} chars; read on in {skill.path} with read_file]")
    files, is_all = _other_files(skill.path.parent)
    if files:
        more = "" if is_all else " (and more)"
        told += ["", f"Other files in {skill.path.parent}{more}:", *(f"- {name}" for name in files)]
    return "\n".join(told)


def _other_files(folder: Path) -> tuple[list[str], bool]:
    """Names of what lies beside SKILL.md, and whether that is all."""
    found: list[str] = []
    for looked_at, (at, folders, names) in enumerate(os.walk(folder)):
        if looked_at == _MOST_LOOKED_AT or len(found) > MOST_FILES:
            return found[:MOST_FILES], False
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        inside = Path(at).relative_to(folder)
        found += [(inside / name).as_posix() for name in sorted(names) if (inside / name).as_posix() != FILE]
    return found[:MOST_FILES], len(found) <= MOST_FILES
