"""The MCP server with its store, and the import of other programs' sessions that runs beside it.

The import has a separate thread, event loop and connection to the store, so that the server answers at once during an
import. It ends with the server, and continues with the next start.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.config import clew_home
from clew.errors import ClewError, InvalidArgument
from clew.importers.follow import FolderFollower, FollowState
from clew.importers.program_folders import ImportedFiles, program_folders
from clew.install import install_command
from clew.store import installed_embedder, open_store

if TYPE_CHECKING:
    from clew.integrations.mcp_server import RecallServer

_LAST_SECONDS = 5.0
_LOWER_PRIORITY = 10


@dataclass(frozen=True, slots=True)
class McpAppOptions:
    """How the server is run."""

    store: str
    """The file or the address."""
    label: str
    """The same without a password."""
    places: Sequence[Path] | None = None
    """The folders to import; None for the usual ones."""
    redacts: bool = True
    """Secrets in results for clients are replaced."""
    with_vectors: bool = False
    """Questions are searched by meaning, too, if the extra `vectors` is installed."""


@asynccontextmanager
async def open_recall_server(environ: Mapping[str, str], options: McpAppOptions) -> AsyncIterator[RecallServer]:
    """The server, ready to run. `InvalidArgument` if the extra `mcp` is missing."""
    try:
        from clew.integrations.mcp_server import RecallServer
        from clew.integrations.session_recall import SessionRecall
    except ImportError as error:
        raise InvalidArgument("`clew mcp` needs the extra `mcp`", remedy=install_command("mcp")) from error
    usual = options.places is None
    places = [it.path for it in program_folders(environ)] if usual else list(options.places or ())
    importing = BackgroundImport(environ, options, places)
    embedder = installed_embedder(wanted=options.with_vectors)
    async with open_store(options.store, embedder=embedder) as store:
        if places:
            importing.start()
        try:
            yield RecallServer(SessionRecall(store, redacts=options.redacts, importing=importing.status))
        finally:
            await asyncio.to_thread(importing.stop)


class BackgroundImport:
    """A follower of folders in a thread."""

    def __init__(self, environ: Mapping[str, str], options: McpAppOptions, places: Sequence[Path]) -> None:
        self._environ = environ
        self._options = options
        self._places = places
        self._state = FollowState()
        self._problem = ""
        self._follower: FolderFollower | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="clew-import", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it, also in the middle of a file, and wait a few seconds at most."""
        self._is_stopped = True
        loop, follower = self._loop, self._follower
        if loop is not None and follower is not None:
            # The loop may have ended already.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(follower.stop)
        if self._thread is not None:
            self._thread.join(_LAST_SECONDS)

    def status(self) -> dict[str, Any]:
        """The progress of the import and its problems; empty when it is complete and nothing failed."""
        state = self._state
        fields: dict[str, Any] = {}
        if state.is_reading and not state.rounds:
            fields["reading"] = f"{state.done:,} of {state.files:,} files; more is found when it is done"
        if problems := [*state.problems, *([self._problem] if self._problem else [])]:
            fields["problems"] = problems
        return fields

    def _run(self) -> None:
        if sys.platform.startswith("linux"):
            # On Linux each thread has a priority: answers come first.
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWER_PRIORITY)
        try:
            asyncio.run(self._follow())
        except (ClewError, OSError) as error:
            self._problem = f"the import has ended: {error}"

    async def _follow(self) -> None:
        known = ImportedFiles.noted(self._environ, self._options.label)
        async with open_store(self._options.store) as store:
            self._follower = FolderFollower(store, self._places, known, on_state=self._note_state)
            self._loop = asyncio.get_running_loop()
            if not self._is_stopped:
                await self._follower.follow(clew_home(self._environ))

    def _note_state(self, state: FollowState) -> None:
        self._state = state
