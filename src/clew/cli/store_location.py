"""The store that the config names: where it is, whether it exists, and opening it.

Reading never creates a database file; only what stores something does.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from clew.cli.console import Console
from clew.config import Settings, clew_home, load_config, path_exists
from clew.errors import NoDatabase

if TYPE_CHECKING:
    from clew.store import Store

T = TypeVar("T")
DATABASE_NAME = "state.db"
FIRST_STEPS = "`clew chat` begins a conversation, `clew import FILE` takes in sessions of other programs"

_SERVER = re.compile(r"postgres(?:ql)?://")
_PASSWORD = re.compile(r"(?<=//)([^/@:\s]*):[^/@\s]*@")
_SQLITE = "sqlite://"


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where the store is, or will be."""

    url: str
    path: Path | None
    """The file; None for a server."""

    @property
    def label(self) -> str:
        """For people: without the password."""
        return _PASSWORD.sub(r"\1@", self.url) if self.path is None else str(self.path)

    @property
    def exists(self) -> bool:
        """Whether there is something to read; true for a server, which is asked when it is opened."""
        return self.path is None or path_exists(self.path)

    def missing_error(self, what: str) -> NoDatabase:
        """The error for a named thing in a database that is not there."""
        return NoDatabase(f"{what}: there is no database yet at {self.label}; {FIRST_STEPS}")

    @property
    def empty_message(self) -> str:
        """What is printed instead of a list, where there is no database yet."""
        return f"Nothing is kept yet: there is no database at {self.label}. {FIRST_STEPS}."


def configured_store(arguments: argparse.Namespace, console: Console) -> StoreLocation:
    """The location that the config names; notices of the config are printed."""
    loaded = load_config(console.environ, arguments.flags)
    console.notes(loaded.notices)
    return store_location(loaded.settings, console.environ)


def store_location(settings: Settings, environ: Mapping[str, str]) -> StoreLocation:
    """What `store.url` means; a relative path counts from the folder of Clew, whatever the folder one is in."""
    url = settings.store.url or DATABASE_NAME
    if _SERVER.match(url):
        return StoreLocation(url, None)
    name = url.removeprefix(_SQLITE)
    home = environ.get("HOME")
    if home and (name == "~" or name.startswith("~/")):
        name = str(Path(home) / name[2:])
    path = clew_home(environ) / Path(os.path.expanduser(name))  # noqa: PTH111 (Path raises where no home is known)
    return StoreLocation(str(path), path)


@asynccontextmanager
async def open_location(location: StoreLocation) -> AsyncIterator[Store]:
    """The store, created if it does not exist."""
    # Late, because a database takes longer to import than `--help` should.
    from clew.store import open_store

    async with open_store(location.url) as store:
        yield store


def run_with_store(location: StoreLocation, work: Callable[[Store], Awaitable[T]], *, named: str) -> T:
    """Run `work` with a store that has to exist; `named` says what was asked for in the error where it does not."""
    if not location.exists:
        raise location.missing_error(named)

    import asyncio

    async def run() -> T:
        async with open_location(location) as store:
            return await work(store)

    return asyncio.run(run())
