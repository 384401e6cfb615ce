"""The store that the config names: where it is, whether it is there, and opening it. The one place of the terminal
where `store.url` becomes a database.

Nothing is made by looking: a file that is not there stays not there until something is kept in it.
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

from clew.cli.config import add_set_flag
from clew.cli.output import Console
from clew.config import Settings, clew_home, is_there, load_config
from clew.errors import StoreError

if TYPE_CHECKING:
    from clew.store import Store

T = TypeVar("T")
DATABASE_NAME = "state.db"
FIRST_STEPS = "`clew chat` begins a conversation, `clew import FILE` takes in sessions of other programs"

_SERVER = re.compile(r"postgres(?:ql)?://")
_PASSWORD = re.compile(r"(?<=//)([^/@:\s]*):[^/@\s]*@")
_SQLITE = "sqlite://"


class NoDatabase(StoreError):  # noqa: N818 (reads as what it says)
    """Something in a database was asked for, and there is no database yet."""


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where the store is, or will be."""

    url: str
    path: Path | None
    """The file; None for a server."""

    @property
    def shown(self) -> str:
        """For eyes: a password is left out."""
        return _PASSWORD.sub(r"\1@", self.url) if self.path is None else str(self.path)

    @property
    def is_there(self) -> bool:
        """Whether there is something to read; a server is asked when it is opened."""
        return self.path is None or is_there(self.path)

    def missing(self, what: str) -> NoDatabase:
        """The error for a named thing in a database that is not there."""
        return NoDatabase(f"{what}: there is no database yet at {self.shown}; {FIRST_STEPS}")

    @property
    def nothing_yet(self) -> str:
        """The friendly line where a whole list is asked for."""
        return f"Nothing is kept yet: there is no database at {self.shown}. {FIRST_STEPS}."


def add_store_flags(parser: argparse.ArgumentParser, *, json: bool = True) -> None:
    """What every command that opens the store takes."""
    if json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    add_set_flag(parser)


def configured_place(arguments: argparse.Namespace, console: Console) -> StorePlace:
    """The place that the config names; notices of the config are passed on."""
    loaded = load_config(console.environ, arguments.flags)
    for notice in loaded.notices:
        console.note(notice)
    return store_place(loaded.settings, console.environ)


def store_place(settings: Settings, environ: Mapping[str, str]) -> StorePlace:
    """What `store.url` means; a relative path counts from the folder of Clew, whatever the folder one is in."""
    url = settings.store.url or DATABASE_NAME
    if _SERVER.match(url):
        return StorePlace(url, None)
    name = url.removeprefix(_SQLITE)
    home = environ.get("HOME")
    if home and (name == "~" or name.startswith("~/")):
        name = str(Path(home) / name[2:])
    path = clew_home(environ) / Path(os.path.expanduser(name))  # noqa: PTH111 (Path raises where no home is known)
    return StorePlace(str(path), path)


@asynccontextmanager
async def opened(place: StorePlace) -> AsyncIterator[Store]:
    """The store, made if it is not there: for commands that keep something."""
    # Late, because a database takes longer to import than `--help` should.
    from clew.store import open_store

    async with open_store(place.url) as store:
        yield store


def with_store(place: StorePlace, work: Callable[[Store], Awaitable[T]], *, named: str) -> T:
    """Do something in a store that has to be there; `named` says what was asked for, where it is not."""
    if not place.is_there:
        raise place.missing(named)

    import asyncio

    async def run() -> T:
        async with opened(place) as store:
            return await work(store)

    return asyncio.run(run())
