"""Following the session folders of other programs: new content is imported until the follower is stopped.

Files are checked by size and time, and read when these change. After a reading, a file rests for twenty times as long
as the reading took, so that a large session in use costs a twentieth of a processor at most; checking the folders is
bounded in the same way. One follower of a Clew home works at a time: others wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from clew.errors import ClewError
from clew.importers.import_files import ImportReport, ImportRun, ImportSource
from clew.importers.import_session import FileGrowth, ImportedSession
from clew.importers.program_folders import Fingerprint, ImportedFiles, fingerprint
from clew.importers.read import is_subagent_file, session_files
from clew.portable import CLOSE_ON_EXEC, lock_file
from clew.store import Store

POLL_SECONDS = 5.0
HELD_SECONDS = 130.0
"""After which a file is read again whose newest reply was left for later."""
FAILED_SECONDS = 60.0
_REST = 20
_SAVE_EVERY = 50
_MAX_PROBLEMS = 5
_LOCK_NAME = "import.lock"
_DATABASES = (".db", ".sqlite")


@dataclass(frozen=True, slots=True)
class FollowState:
    """How far a follower is."""

    is_reading: bool = False
    is_waiting: bool = False
    """Another one is at work."""
    rounds: int = 0
    """How often all files were checked; after the first, everything from before the start is imported."""
    files: int = 0
    """New and changed files of this round."""
    done: int = 0
    """How many of these files are read."""
    sessions: int = 0
    """Sessions that got messages, since the start."""
    messages: int = 0
    current: str = ""
    """The file that is being read, and how many of its messages are done."""
    problems: tuple[str, ...] = ()
    """The newest few."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """The last reading of a file that is not settled."""

    fingerprint: Fingerprint
    due_if_changed: float
    due: float


class _StopReading(Exception):  # noqa: N818 (a signal, no error)
    """Ends the reading of a file in the middle."""


class FolderFollower:
    """Brings the sessions of some folders and databases into a store, and what is added to them later."""

    def __init__(
        self,
        store: Store,
        places: Sequence[Path],
        known: ImportedFiles,
        *,
        kind: str | None = None,
        on_session: Callable[[ImportedSession], None] | None = None,
        on_state: Callable[[FollowState], None] | None = None,
    ) -> None:
        self.state = FollowState()
        self.on_state = on_state
        self._store = store
        self._places = places
        self._known = known
        self._kind = kind
        self._on_session = on_session
        self._readings: dict[Path, _Reading] = {}
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End `follow` soon, also in the middle of a file; the next start reads the rest of it."""
        self._stopped.set()

    async def follow(self, home: Path, seconds: float = POLL_SECONDS) -> None:
        """Look at the folders every so many seconds until `stop`. `home` is where followers find each other."""
        with contextlib.ExitStack() as stack:
            if not await self._become_the_only_one(home, stack, seconds):
                return
            await self._check_known()
            while not self._stopped.is_set():
                looked = await self.read_changed()
                await self._pause(max(seconds, looked * _REST))

    async def read_changed(self) -> float:
        """Read every file that is new or has changed; the seconds of processor that looking for them took."""
        began = time.process_time()
        # The newest first, since a person may wait for it; subagents after their sessions.
        changed = sorted(self._changed_files(), key=lambda found: (is_subagent_file(found[0]), -found[1][1]))
        looked = time.process_time() - began
        self._update(is_reading=bool(changed), files=len(changed), done=0)
        for number, (path, now) in enumerate(changed, 1):
            if self._stopped.is_set():
                break
            await self._read(path, now)
            self._update(done=number)
            if number % _SAVE_EVERY == 0:
                self._known.save()
        self._known.save()
        self._update(is_reading=False, current="", rounds=self.state.rounds + (not self._stopped.is_set()))
        return looked

    def _changed_files(self) -> Iterator[tuple[Path, Fingerprint]]:
        for place in self._places:
            for path in session_files(place) if place.is_dir() else [place]:
                now = fingerprint(path)
                if now is not None and not self._known.is_known(path, now) and self._is_due(path, now):
                    yield path, now

    def _is_due(self, path: Path, now: Fingerprint) -> bool:
        last = self._readings.get(path)
        if last is None:
            return True
        return time.monotonic() >= (last.due if last.fingerprint == now else last.due_if_changed)

    async def _read(self, path: Path, now: Fingerprint) -> None:
        report = ImportReport("")
        run = ImportRun(self._get_store, report, self._kind)
        written = None if path.suffix in _DATABASES else datetime.fromtimestamp(now[1] / 1e9, UTC)
        self._update(current=str(path))
        began = time.monotonic()
        try:
            is_whole = await run.take(
                ImportSource(str(path), is_named=False),
                lambda count: self._progress(path, count),
                FileGrowth(datetime.now(UTC), written),
            )
            # Little by little, so that a search never finds much that waits for the index.
            await self._store.index_waiting()
        except _StopReading:
            return
        except (ClewError, OSError) as error:
            self._problem(f"{path}: {error}")
            self._readings[path] = _Reading(now, *[time.monotonic() + FAILED_SECONDS] * 2)
            return
        ended = time.monotonic()
        if is_whole:
            self._known.add(path, now, next((each.session for each in report.sessions if each.session), None))
        rest = ended + _REST * (ended - began)
        self._readings[path] = _Reading(now, rest, max(rest, ended + HELD_SECONDS))
        self._count(report)

    def _count(self, report: ImportReport) -> None:
        grown = [each for each in report.sessions if each.added or each.is_new]
        self._update(
            sessions=self.state.sessions + len(grown),
            messages=self.state.messages + sum(each.added for each in grown),
        )
        for failed in (each for each in report.skipped if each.is_failure):
            self._problem(f"{failed.source}: {failed.reason}")
        for each in grown if self._on_session else ():
            assert self._on_session is not None
            self._on_session(each)

    def _progress(self, path: Path, count: int) -> None:
        if self._stopped.is_set():
            raise _StopReading
        self._update(current=f"{path}: {count:,} messages")

    def _problem(self, problem: str) -> None:
        self._update(problems=(*self.state.problems, problem)[-_MAX_PROBLEMS:])

    def _update(self, **changes: object) -> None:
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        if self.on_state is not None:
            self.on_state(self.state)

    async def _get_store(self) -> Store:
        return self._store

    async def _check_known(self) -> None:
        """Forget which files are known where the store has none of their sessions: it is another one by now."""
        noted = self._known.sessions
        if noted:
            there = {session.id for session in await self._store.list_sessions(limit=2**31)}
            if not noted & there:
                self._known.forget()

    async def _become_the_only_one(self, home: Path, stack: contextlib.ExitStack, seconds: float) -> bool:
        """Wait until no other process follows for this home; False where `stop` was set first."""
        descriptor = _open_lock(home)
        stack.callback(os.close, descriptor)
        while not self._stopped.is_set():
            try:
                lock_file(descriptor, wait=False)
            except BlockingIOError:
                self._update(is_waiting=True)
                await self._pause(seconds)
                continue
            except OSError:
                # No locks here. Several at work read twice what one would, and add it once.
                pass
            self._update(is_waiting=False)
            return True
        return False

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)


def _open_lock(home: Path) -> int:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(home / _LOCK_NAME, os.O_RDWR | os.O_CREAT | CLOSE_ON_EXEC, 0o600)
