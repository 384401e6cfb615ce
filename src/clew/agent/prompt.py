"""The system prompt: versioned templates, and between fences what people wrote for the agent.

It is built once per session, and the same parts give the same bytes: nothing here reads a clock, a disk or an order
that a file system chose. Parts are ordered by how often they change: what never changes is first.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib import resources
from pathlib import Path

from clew.agent.context_files import ContextFile
from clew.agent.memory import MEMORY_FILES, MemorySnapshot
from clew.agent.safe_text import fenced, one_line
from clew.agent.skills import Skill

VERSION = "agent/1"
"""Of the template at its head; the others have their own."""
_BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What a session's system prompt is made of."""

    project: Path
    date: date
    """The day on which the session began."""
    memory: MemorySnapshot = field(default_factory=MemorySnapshot)
    context: tuple[ContextFile, ...] = ()
    """The nearest last."""
    subfolders: Collection[str] = ()
    """Paths of more context files, relative to the project."""
    skills: Collection[Skill] = ()
    tools: Collection[str] = ()
    """Names of the tools; sections for tools that are missing are left out."""
    system: str = field(default_factory=platform.system)


def build_prompt(parts: PromptParts) -> str:
    """The system prompt of a session."""
    return _BETWEEN.join(_sections(parts)) + "\n"


def is_clew_prompt(prompt: str) -> bool:
    """Whether a prompt was built by `build_prompt`, and not imported with a session of another program."""
    # Its first line stays the same over versions.
    return prompt.startswith(_template(VERSION).partition("\n")[0])


def shows_memory(prompt: str, snapshot: MemorySnapshot) -> bool:
    """Whether a prompt shows exactly this memory, so that it need not be built again."""
    blocks = dict(_memory_blocks(snapshot))
    missing = (name for name in MEMORY_FILES.values() if name not in blocks)
    return all(block in prompt for block in blocks.values()) and not any(f'from="{name}"' in prompt for name in missing)


def _sections(parts: PromptParts) -> Iterator[str]:
    recalls = f"\n{_template('recall/1')}" if "recall" in parts.tools else ""
    yield _template(VERSION) + recalls
    yield (
        "# Where you are\n"
        f"Project folder: {one_line(str(parts.project))}\n"
        f"System: {one_line(parts.system)}\n"
        f"Date at the start: {parts.date.isoformat()}"
    )
    if parts.skills and "skill" in parts.tools:
        yield f"{_template('skills/1')}\n{_skills(parts.skills)}"
    if parts.context or parts.subfolders:
        yield "\n".join([_template("context/1"), *_context(parts)])
    blocks = [block for _, block in _memory_blocks(parts.memory)]
    if blocks or "memory" in parts.tools:
        yield "\n".join([_template("memory/1"), *(blocks or ["(nothing yet)"])])


def _skills(skills: Collection[Skill]) -> str:
    listed = sorted(f"- {one_line(skill.name)}: {skill.description}" for skill in skills)
    return fenced("skills", "\n".join(listed))


def _context(parts: PromptParts) -> Iterator[str]:
    for file in parts.context:
        if file.problem is not None:
            yield f"({one_line(str(file.path))} is not shown: {file.problem})"
            continue
        yield fenced(str(file.path), file.text)
        if file.is_cut:
            yield f"(cut: read the rest of {one_line(str(file.path))} with read_file)"
    if parts.subfolders:
        yield "More such files stand further down; read them before working there:"
        yield fenced("paths", "\n".join(f"- {one_line(path)}" for path in sorted(parts.subfolders)))


def _memory_blocks(snapshot: MemorySnapshot) -> Iterator[tuple[str, str]]:
    """Each memory file, fenced by itself, so that it can be found again in a prompt."""
    for name, text in ((MEMORY_FILES["user"], snapshot.user), (MEMORY_FILES["memory"], snapshot.memory)):
        if text:
            yield name, fenced(name, text)


@cache
def _template(name: str) -> str:
    """The text of a template; `agent/1` is in the file `agent-1.md`."""
    file = resources.files("clew.agent") / "templates" / f"{name.replace('/', '-')}.md"
    return file.read_text(encoding="utf-8").strip()
