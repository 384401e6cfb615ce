"""The tools `memory`, which changes the memory, and `skill`, which opens a skill.

The text of an opened skill is pinned, so that a compaction never paraphrases it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from clew.agent.memory import MEMORY_FILES, Memory, MemoryName
from clew.agent.skills import SKILL_FILE, Skill, skill_text
from clew.agent.tools.base import AgentTool, Arguments, CallContext, ToolResult, error_result, tool_schema

MEMORY_ACTIONS = ("add", "replace", "remove", "list")


class MemoryTool(AgentTool):
    """Changes the memory; the system prompt of the present conversation stays as it is."""

    name = "memory"
    schema = tool_schema(name)

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def headline(self, arguments: Arguments) -> str:
        text = arguments.get("text") or arguments.get("old") or ""
        return f"memory {arguments.get('action', '')} {str(text)[:60]}".strip()

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        which = arguments.get("which")
        if not isinstance(which, str) or which not in MEMORY_FILES:
            return error_result(f"which is {which!r}; it has to be {' or '.join(MEMORY_FILES)}")
        action = arguments.get("action")
        if action not in MEMORY_ACTIONS:
            return error_result(f"action is {action!r}; it has to be one of {', '.join(MEMORY_ACTIONS)}")
        for name in {"add": ("text",), "replace": ("old", "text"), "remove": ("old",)}.get(action, ()):
            if not isinstance(arguments.get(name), str):
                return error_result(f"{action} needs {name}, a text")
        if action == "list":
            return self._list(which)
        text, old = arguments.get("text"), arguments.get("old")
        result = await self._memory.change(action, which, str(text or ""), str(old or ""), call.session)
        return ToolResult(result.message, is_error=not result.is_done)

    def _list(self, which: MemoryName) -> ToolResult:
        entries = "\n".join(f"- {entry}" for entry in self._memory.entries(which)) or "(no entries)"
        return ToolResult(f"{self._memory.fullness(which)}\n{entries}")


MAX_SKILL_CHARS = 60_000
MAX_SKILL_FILES = 50
_MAX_FOLDERS = 500


class SkillTool(AgentTool):
    """Returns all of a skill's SKILL.md, and lists the other files in its folder."""

    name = "skill"
    schema = tool_schema(name)
    is_read_only = True

    def __init__(self, skills: Iterable[Skill]) -> None:
        self._skills = {skill.name: skill for skill in skills}

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        name = arguments.get("name")
        skill = self._find(name) if isinstance(name, str) else None
        if skill is None:
            names = ", ".join(sorted(self._skills)) or "none"
            return error_result(f"there is no skill {name!r}; there are: {names}")
        try:
            text = skill_text(skill)
        except (OSError, ValueError) as problem:
            return error_result(f"the skill {skill.name!r} cannot be read: {problem}")
        summary = f"opened the skill {skill.name} ({len(text):,} chars)"
        return ToolResult(_opened_text(skill, text), display_text=summary, pinned_as=f"skill {skill.name}")

    def _find(self, name: str) -> Skill | None:
        exact = self._skills.get(name.strip())
        return exact or next(
            (it for it in self._skills.values() if it.name.casefold() == name.strip().casefold()), None
        )


def _opened_text(skill: Skill, text: str) -> str:
    lines = [f"Skill {skill.name}, from {skill.path}:", "", text[:MAX_SKILL_CHARS]]
    if len(text) > MAX_SKILL_CHARS:
        lines.append(f"[cut: {MAX_SKILL_CHARS:,} of {len(text):,} chars; read on in {skill.path} with read_file]")
    files, is_all = _other_files(skill.path.parent)
    if files:
        more = "" if is_all else " (and more)"
        lines += ["", f"Other files in {skill.path.parent}{more}:", *(f"- {name}" for name in files)]
    return "\n".join(lines)


def _other_files(folder: Path) -> tuple[list[str], bool]:
    """Names of the files beside SKILL.md, and whether these are all."""
    found: list[str] = []
    for count, (at, folders, names) in enumerate(os.walk(folder)):
        if count == _MAX_FOLDERS or len(found) > MAX_SKILL_FILES:
            return found[:MAX_SKILL_FILES], False
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        inside = Path(at).relative_to(folder)
        found += [(inside / name).as_posix() for name in sorted(names) if (inside / name).as_posix() != SKILL_FILE]
    return found[:MAX_SKILL_FILES], len(found) <= MAX_SKILL_FILES
