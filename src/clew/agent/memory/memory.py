"""The memory that outlives conversations: MEMORY.md (what the agent learnt) and USER.md (who the person is).

Bounded lists in plain files, which people may edit by hand. A change is durable when its result says so; what a
conversation's system prompt shows of it stays as it was, until a compaction moves the prefix anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

from clew.agent.fence import visible
from clew.agent.memory.entries import clean_entry, entries_of, matching, with_entry, with_other, without_entry
from clew.agent.memory.files import (
    JOURNAL,
    Change,
    MemoryUnusable,
    journal_of,
    locked,
    make_durable,
    read_memory_file,
    replace_memory_file,
    sync_folder,
)
from clew.redact import redact, redact_text

Which: TypeAlias = Literal["memory", "user"]
FILES: dict[Which, str] = {"memory": "MEMORY.md", "user": "USER.md"}
MEMORY_CHARS = 4_000
USER_CHARS = 2_000
_TRIES = 5


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """What a system prompt shows of the memory."""

    memory: str = ""
    user: str = ""
    notices: tuple[str, ...] = ()
    """What is wrong with the files, for people."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What became of a change."""

    is_done: bool
    """Whether the memory now is as it was asked for."""
    told: str
    """What happened, or why nothing did and what to do; the model reads it."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """A change that was asked for."""

    action: Literal["add", "replace", "remove"]
    which: Which
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
        self.limits: dict[Which, int] = {"memory": memory_chars, "user": user_chars}
        self._clock = clock
        self._shown: dict[str | None, MemorySnapshot] = {}
        # One thread, so that whatever waits for it comes after all that was begun before.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="clew-memory")

    # -- reading -------------------------------------------------------------------------------------------------------

    def path(self, which: Which) -> Path:
        return self.folder / FILES[which]

    def entries(self, which: Which) -> list[str]:
        """What is remembered, oldest first."""
        return entries_of(read_memory_file(self.path(which)).text)

    def fullness(self, which: Which) -> str:
        """`MEMORY.md is 83% full (3,320 of 4,000 chars)`"""
        return self._fullness(which, read_memory_file(self.path(which)).text)

    def snapshot(self, session: str | None = None) -> MemorySnapshot:
        """The texts for a system prompt, as they are now; with a session, those that its prompt is going to show."""
        taken = self._now()
        self._shown[session] = taken
        return taken

    def changes(self, limit: int = 20) -> list[Change]:
        """The newest changes, oldest of them first, with what they took away."""
        return journal_of(self.folder)[-limit:]

    # -- changing ------------------------------------------------------------------------------------------------------

    async def add(self, which: Which, text: str, session: str = "") -> Remembered:
        """Remember an entry."""
        return await self._change(_Wish("add", which, text, session=session))

    async def replace(self, which: Which, old: str, text: str, session: str = "") -> Remembered:
        """Put another entry where the one stands that alone holds `old`."""
        return await self._change(_Wish("replace", which, text, old, session))

    async def remove(self, which: Which, old: str, session: str = "") -> Remembered:
        """Forget the entry that alone holds `old`."""
        return await self._change(_Wish("remove", which, "", old, session))

    # -- compactions ---------------------------------------------------------------------------------------------------

    async def commit(self, session: str) -> bool:
        """Before a compaction ends a session: every change begun on it is on disk when this returns. Never raises.

        Whether the memory now reads otherwise than the session's prompt shows; also True where that is not known.
        """
        await asyncio.get_running_loop().run_in_executor(self._writer, self._settle)
        shown = self._shown.get(session) or self._shown.get(None)
        return shown is None or shown != self._now()

    def continued(self, old: str, new: str) -> None:
        """A compaction, and no new conversation: the continuation shows what the old session was to show."""
        if old in self._shown:
            self._shown[new] = self._shown.pop(old)

    def _settle(self) -> None:
        """Wait for other processes' changes that are under way, and flush what people wrote by hand too."""
        with contextlib.suppress(OSError, MemoryUnusable):  # each change has told its own trouble
            if not self.folder.is_dir():
                return
            with locked(self.folder):
                for name in (*FILES.values(), JOURNAL):
                    make_durable(self.folder / name)
                sync_folder(self.folder)

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _now(self) -> MemorySnapshot:
        memory, about_memory = self._shown_text("memory")
        user, about_user = self._shown_text("user")
        return MemorySnapshot(memory, user, (*about_memory, *about_user))

    def _shown_text(self, which: Which) -> tuple[str, list[str]]:
        """What a file says to the model: without secrets, and no longer than it may be."""
        found, most = read_memory_file(self.path(which)), self.limits[which]
        notices = [found.problem] if found.problem else []
        clean = redact_text(visible(found.text)).strip()
        if clean != visible(found.text).strip():
            notices.append(f"{self.path(which)} holds a secret; it is not shown to the model: take it out")
        if len(clean) > most:
            notices.append(f"{self._fullness(which, found.text)}; the model sees its beginning: shorten it")
            clean = f"{clean[:most].rpartition(chr(10))[0] or clean[:most]}\n[cut: more stands in {FILES[which]}]"
        return clean, notices

    def _fullness(self, which: Which, text: str) -> str:
        used, most = len(text.strip()), self.limits[which]
        return f"{FILES[which]} is {used * 100 // most}% full ({used:,} of {most:,} chars)"

    # -- within a change -----------------------------------------------------------------------------------------------

    async def _change(self, wish: _Wish) -> Remembered:
        entry = clean_entry(wish.entry)
        refusal = None if wish.action == "remove" else _refusal_of(entry)
        if refusal is not None:
            return Remembered(False, refusal)
        wish = replace(wish, entry=entry)
        return await asyncio.get_running_loop().run_in_executor(self._writer, self._change_now, wish)

    def _change_now(self, wish: _Wish) -> Remembered:
        path = self.path(wish.which)
        try:
            with locked(self.folder):
                for _ in range(_TRIES):
                    found = read_memory_file(path)
                    if found.problem is not None:
                        return Remembered(False, f"nothing was changed: {found.problem}")
                    drawn = self._draw(wish, found.text)
                    if isinstance(drawn, Remembered):
                        return drawn
                    if replace_memory_file(path, drawn.text, found.stamp, self._line(wish, drawn.old)):
                        return Remembered(True, f"{drawn.told}; {self._fullness(wish.which, drawn.text)}.")
        except (OSError, RuntimeError) as problem:  # RuntimeError: links that lead in a circle
            return Remembered(False, f"nothing was changed: {path} cannot be written: {_words(problem)}")
        except MemoryUnusable as problem:
            return Remembered(False, f"nothing was changed: {problem}")
        return Remembered(False, f"nothing was changed: somebody else keeps writing {path}; try again later")

    def _draw(self, wish: _Wish, text: str) -> _Drawn | Remembered:
        """The text as it would be after a change; or why there is none."""
        entries = entries_of(text)
        if wish.entry and wish.entry in entries:
            return Remembered(wish.action == "add", f"{FILES[wish.which]} has exactly this already; nothing to do.")
        if wish.action == "add":
            return self._bounded(wish, text, _Drawn(with_entry(text, wish.entry), "remembered"))
        named = matching(list(dict.fromkeys(entries)), wish.old)
        if len(named) != 1:
            return Remembered(False, _not_one(wish.old, named, entries))
        if wish.action == "remove":
            return _Drawn(without_entry(text, named[0]), "forgotten", named[0])
        return self._bounded(wish, text, _Drawn(with_other(text, named[0], wish.entry), "replaced", named[0]))

    def _bounded(self, wish: _Wish, before: str, drawn: _Drawn) -> _Drawn | Remembered:
        most, size = self.limits[wish.which], len(drawn.text.strip())
        if size <= most or size < len(before.strip()):
            return drawn
        told = f"not remembered: {FILES[wish.which]} would have {size:,} chars, and {most:,} is the most."
        listed = "\n".join(f"- {entry}" for entry in entries_of(before))
        return Remembered(
            False, f"{told} Merge entries with replace, or remove what no longer matters, then again:\n{listed}"
        )

    def _line(self, wish: _Wish, old: str) -> Change:
        at = self._clock().isoformat(timespec="seconds")
        return Change(at, wish.session, FILES[wish.which], wish.action, wish.entry, redact_text(old))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A text that a change would leave behind."""

    text: str
    told: str
    old: str = ""


def _refusal_of(entry: str) -> str | None:
    if not entry:
        return "nothing to remember: text says nothing; give one short paragraph"
    found = redact(entry).found
    if found:
        kinds = ", ".join(sorted({finding.kind for finding in found}))
        return f"not remembered: this holds a secret ({kinds}). Say where it is kept, never what it is."
    return None


def _not_one(part: str, named: Sequence[str], entries: Sequence[str]) -> str:
    if not entries:
        return "nothing was changed: there are no entries yet"
    shown = "\n".join(f"- {entry}" for entry in named or entries)
    if not part.strip():
        return f"nothing was changed: old has to be a part of the entry that is meant. There are:\n{shown}"
    count = "no entry holds" if not named else f"{len(named)} entries hold"
    return f"nothing was changed: {count} {part!r}; give a part of exactly one of these:\n{shown}"


def _words(problem: OSError | RuntimeError) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
