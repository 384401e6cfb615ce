"""An import of many files, one after the other: what is in each goes into the store, and a report says what was new.

A file that cannot be read, or is no session file, does not stop the others. A file in a folder that is no session file
is skipped; one that was named is a failure.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clew.errors import InvalidArgument, InvalidMessage, UnreadableTranscript
from clew.importers.import_session import FileGrowth, ImportedSession, ImportProgress, import_session
from clew.importers.read import open_sessions, session_files
from clew.importers.session import SourceSession
from clew.store import Store


@dataclass(frozen=True, slots=True)
class SkippedSource:
    """A file, or a session in one, that was not imported."""

    source: str
    reason: str
    is_failure: bool
    """Whether it was named or broke in the middle; other files in a folder are no failures."""


@dataclass(slots=True)
class ImportReport:
    """The results of an import, or of a dry run."""

    store: str
    is_dry_run: bool = False
    sessions: list[ImportedSession] = field(default_factory=list)
    skipped: list[SkippedSource] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a file and a notice about it."""

    @property
    def has_failed(self) -> bool:
        return any(skipped.is_failure for skipped in self.skipped)


@dataclass(frozen=True, slots=True)
class ImportSource:
    """A file to read."""

    name: str
    is_named: bool
    """Whether it was named; else it was found in a folder."""


def import_sources(names: Sequence[str]) -> Iterator[ImportSource]:
    """The files that are meant by names of files and folders; `-` is standard input."""
    if names.count("-") > 1:
        raise InvalidArgument("- is given twice, and standard input can be read once", remedy="leave one out")
    for name in dict.fromkeys(names):
        if name != "-" and Path(name).is_dir():
            found = session_files(Path(name))
            if not found:
                raise InvalidArgument(
                    f"{name}: there is no .jsonl, .json or .db file in this folder or below", remedy="name another"
                )
            yield from (ImportSource(str(path), is_named=False) for path in found)
        else:
            yield ImportSource(name, is_named=True)


@dataclass(frozen=True, slots=True)
class ImportRun:
    """Imports one source after the other, and adds to the report."""

    store: Callable[[], Awaitable[Store]]
    """Asked for with the first session: an import that finds none opens no database."""
    report: ImportReport
    kind: str | None = None
    """Only sessions of this program; None for all."""

    async def take(
        self, source: ImportSource, progress: ImportProgress | None = None, growth: FileGrowth | None = None
    ) -> bool:
        """Import every session of a file; False where a reply was left for later (see `FileGrowth`)."""
        label = "standard input" if source.name == "-" else source.name
        is_whole = True
        try:
            with open_sessions(source.name) as file:
                for session in file.sessions:
                    is_whole = await self._take_session(session, source, progress, growth) and is_whole
                self.report.notices += [(label, notice) for notice in file.notices.sentences()]
        except UnreadableTranscript as error:
            reason = f"{error.problem}. {error.remedy}" if source.is_named else error.problem
            self._skip(error.source, reason, is_failure=source.is_named)
        return is_whole

    async def _take_session(
        self,
        session: SourceSession,
        source: ImportSource,
        progress: ImportProgress | None,
        growth: FileGrowth | None,
    ) -> bool:
        if self.kind not in (None, session.kind):
            wanted = (self.kind or "").replace("_", "-")
            reason = f"is of {session.kind.replace('_', '-')}, and --from asks for {wanted}"
            self._skip(session.name, reason, is_failure=source.is_named)
            return True
        try:
            imported = await import_session(
                await self.store(), session, dry_run=self.report.is_dry_run, progress=progress, growth=growth
            )
        except InvalidMessage as error:
            self._skip(session.name, str(error), is_failure=True)
            return True
        if imported.session is None:
            self._skip(session.name, "holds no messages", is_failure=False)
        else:
            self.report.sessions.append(imported)
        self.report.notices += [(session.name, notice) for notice in imported.notices]
        return not imported.is_held

    def _skip(self, source: str, reason: str, *, is_failure: bool) -> None:
        self.report.skipped.append(SkippedSource(source, reason, is_failure))
