"""The memory that outlives conversations: MEMORY.md (what the agent learnt) and USER.md (who the person is).

Both are bounded lists, which people may edit by hand. A change is durable when its result says so. What a
conversation's system prompt shows of the memory stays as it was, until a compaction changes the prefix anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from clew.agent.memory.files import (
    JOURNAL,
    clean_entry,
    entries_of,
    flush_file,
    matching_entries,
    memory_lock,
    read_memory_file,
    replace_memory_file,
    with_entry,
    with_entry_replaced,
    without_entry,
)
from clew.agent.safe_text import without_invisible
from clew.errors import MemoryUnusable
from clew.portable import flush_folder
from clew.redact import redact, redact_text

MemoryName: TypeAlias = Literal["memory", "user"]
MemoryAction: TypeAlias = Literal["add", "replace", "remove"]
MEMORY_FILES: dict[MemoryName, str] = {"memory": "MEMORY.md", "user": "USER.md"}
MEMORY_CHARS = 4_000
USER_CHARS = 2_000
_MAX_TRIES = 5


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """What a system prompt shows of the memory."""

    memory: str = ""
    user: str = ""
    notices: tuple[str, ...] = ()
    """What is wrong with the files, for people."""


@dataclass(frozen=True, slots=True)
class MemoryChangeResult:
    """Whether a change was made, and what to tell the model."""

    is_done: bool
    """Whether the memory now is as requested."""
    message: str
    """What was done, or why nothing was and what to do; the model reads it."""


@dataclass(frozen=True, slots=True)
class _MemoryChange:
    """A requested change."""

    action: MemoryAction
    which: MemoryName
    entry: str = ""
    old: str = ""
    session: str = ""


class Memory:
    """The memory in one folder, shared by any number of conversations and processes."""

    def __init__(
        self,
        folder: Path,
        memory_chars: int = MEMORY_CHARS,
        user_chars: int = USER_CHARS,
        clock: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        self.folder = folder.expanduser().absolute()
        self.limits: dict[MemoryName, int] = {"memory": memory_chars, "user": user_chars}
        self._clock = clock
        # One thread, so that changes are made in the order in which they were requested.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="clew-memory")

    def path(self, which: MemoryName) -> Path:
        return self.folder / MEMORY_FILES[which]

    def entries(self, which: MemoryName) -> list[str]:
        """The entries, oldest first."""
        return entries_of(read_memory_file(self.path(which)).text)

    def fullness(self, which: MemoryName) -> str:
        """`MEMORY.md is 83% full (3,320 of 4,000 chars)`"""
        return self._fullness(which, read_memory_file(self.path(which)).text)

    def snapshot(self) -> MemorySnapshot:
        """The texts for a system prompt, as they are now."""
        memory, about_memory = self._prompt_text("memory")
        user, about_user = self._prompt_text("user")
        return MemorySnapshot(memory, user, (*about_memory, *about_user))

    async def add(self, which: MemoryName, text: str, session: str = "") -> MemoryChangeResult:
        """Add an entry."""
        return await self.change("add", which, text, session=session)

    async def replace(self, which: MemoryName, old: str, text: str, session: str = "") -> MemoryChangeResult:
        """Replace the one entry that contains `old`."""
        return await self.change("replace", which, text, old, session)

    async def remove(self, which: MemoryName, old: str, session: str = "") -> MemoryChangeResult:
        """Remove the one entry that contains `old`."""
        return await self.change("remove", which, "", old, session)

    async def change(
        self, action: MemoryAction, which: MemoryName, text: str = "", old: str = "", session: str = ""
    ) -> MemoryChangeResult:
        """Add, replace or remove an entry; `old` is a part of the entry that is meant."""
        entry = clean_entry(text)
        refusal = None if action == "remove" else _refusal(entry)
        if refusal is not None:
            return MemoryChangeResult(False, refusal)
        change = _MemoryChange(action, which, entry, old, session)
        return await asyncio.get_running_loop().run_in_executor(self._writer, self._change_now, change)

    async def commit(self) -> None:
        """Before a compaction ends a session: wait until every change begun so far is on disk. Never raises."""
        await asyncio.get_running_loop().run_in_executor(self._writer, self._flush)

    def _flush(self) -> None:
        """Wait for other processes' changes, and flush what people wrote by hand too."""
        with contextlib.suppress(OSError, MemoryUnusable):  # each change has reported its own failure
            if not self.folder.is_dir():
                return
            with memory_lock(self.folder):
                for name in (*MEMORY_FILES.values(), JOURNAL):
                    flush_file(self.folder / name)
                flush_folder(self.folder)

    def _prompt_text(self, which: MemoryName) -> tuple[str, list[str]]:
        """A file as the model sees it, without secrets and bounded; and notices for people."""
        found, max_chars = read_memory_file(self.path(which)), self.limits[which]
        notices = [found.problem] if found.problem else []
        clean = redact_text(without_invisible(found.text)).strip()
        if clean != without_invisible(found.text).strip():
            notices.append(f"{self.path(which)} holds a secret; it is not shown to the model: take it out")
        if len(clean) > max_chars:
            notices.append(f"{self._fullness(which, found.text)}; the model sees its beginning: shorten it")
            shown = clean[:max_chars].rpartition("\n")[0] or clean[:max_chars]
            clean = f"{shown}\n[cut: the rest is in {MEMORY_FILES[which]}]"
        return clean, notices

    def _fullness(self, which: MemoryName, text: str) -> str:
        used, max_chars = len(text.strip()), self.limits[which]
        return f"{MEMORY_FILES[which]} is {used * 100 // max_chars}% full ({used:,} of {max_chars:,} chars)"

    def _change_now(self, change: _MemoryChange) -> MemoryChangeResult:
        path = self.path(change.which)
        try:
            with memory_lock(self.folder):
                for _ in range(_MAX_TRIES):
                    found = read_memory_file(path)
                    if found.problem is not None:
                        return MemoryChangeResult(False, f"nothing was changed: {found.problem}")
                    changed = self._apply(change, found.text)
                    if isinstance(changed, MemoryChangeResult):
                        return changed
                    if replace_memory_file(path, changed.text, found.stamp, self._journal_entry(change, changed.old)):
                        return MemoryChangeResult(
                            True, f"{changed.message}; {self._fullness(change.which, changed.text)}."
                        )
        except (OSError, RuntimeError) as problem:  # RuntimeError: links that lead in a circle
            return MemoryChangeResult(False, f"nothing was changed: {path} cannot be written: {_error_text(problem)}")
        except MemoryUnusable as problem:
            return MemoryChangeResult(False, f"nothing was changed: {problem}")
        return MemoryChangeResult(False, f"nothing was changed: another process keeps writing {path}; try again later")

    def _apply(self, change: _MemoryChange, text: str) -> _ChangedText | MemoryChangeResult:
        """The text after a change; or the result, where nothing is to be changed."""
        entries = entries_of(text)
        if change.entry and change.entry in entries:
            return MemoryChangeResult(
                change.action == "add", f"{MEMORY_FILES[change.which]} has exactly this already; nothing to do."
            )
        if change.action == "add":
            return self._bounded(change, text, _ChangedText(with_entry(text, change.entry), "remembered"))
        matches = matching_entries(list(dict.fromkeys(entries)), change.old)
        if len(matches) != 1:
            return MemoryChangeResult(False, _not_one(change.old, matches, entries))
        if change.action == "remove":
            return _ChangedText(without_entry(text, matches[0]), "forgotten", matches[0])
        return self._bounded(
            change, text, _ChangedText(with_entry_replaced(text, matches[0], change.entry), "replaced", matches[0])
        )

    def _bounded(self, change: _MemoryChange, before: str, changed: _ChangedText) -> _ChangedText | MemoryChangeResult:
        max_chars, size = self.limits[change.which], len(changed.text.strip())
        if size <= max_chars or size < len(before.strip()):
            return changed
        problem = (
            f"not remembered: {MEMORY_FILES[change.which]} would have {size:,} chars, and {max_chars:,} is the most."
        )
        listed = "\n".join(f"- {entry}" for entry in entries_of(before))
        return MemoryChangeResult(
            False, f"{problem} Merge entries with replace, or remove what no longer matters, then again:\n{listed}"
        )

    def _journal_entry(self, change: _MemoryChange, old: str) -> dict[str, str]:
        return {
            "at": self._clock().isoformat(timespec="seconds"),
            "session": change.session,
            "file": MEMORY_FILES[change.which],
            "action": change.action,
            "entry": change.entry,
            "old": redact_text(old),
        }


@dataclass(frozen=True, slots=True)
class _ChangedText:
    """The text after a change, and what the change was."""

    text: str
    message: str
    old: str = ""


def _refusal(entry: str) -> str | None:
    if not entry:
        return "nothing to remember: text says nothing; give one short paragraph"
    found = redact(entry).found
    if found:
        kinds = ", ".join(sorted({finding.kind for finding in found}))
        return f"not remembered: this holds a secret ({kinds}). Say where it is kept, never what it is."
    return None


def _not_one(part: str, matches: Sequence[str], entries: Sequence[str]) -> str:
    if not entries:
        return "nothing was changed: there are no entries yet"
    shown = "\n".join(f"- {entry}" for entry in matches or entries)
    if not part.strip():
        return f"nothing was changed: old has to be a part of the entry that is meant. There are:\n{shown}"
    count = "no entry holds" if not matches else f"{len(matches)} entries hold"
    return f"nothing was changed: {count} {part!r}; give a part of exactly one of these:\n{shown}"


def _error_text(problem: OSError | RuntimeError) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
