"""What the store asks of a database: run an operation's steps in one transaction, and look words up in its index.

Two fulfil it: `sqlite` and `postgres`. The operations themselves know neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeVar

from clew.store.docs import Doc
from clew.store.lookup import Candidates, Lookup
from clew.store.steps import Steps

T = TypeVar("T")


class WordIndex(Protocol):
    """The full-text index of a database."""

    is_immediate: bool
    """Whether a row is indexed in the transaction that writes it."""

    def add(self, docs: Sequence[Doc]) -> Steps[None]:
        """Index documents."""

    def remove(self, docs: Sequence[Doc]) -> Steps[None]:
        """Take documents out, given exactly as they were indexed."""

    def clear(self) -> Steps[None]:
        """Take everything out, whatever state it is in."""

    def look_up(self, lookup: Lookup) -> Steps[Candidates]:
        """The newest documents that hold what is looked for."""

    def known(self, words: Sequence[str]) -> Steps[set[str]]:
        """Those of some words that may stand in a document; a word left out stands in none."""

    def count(self) -> Steps[int]:
        """How many documents the index itself holds."""

    def holds(self, doc: int, word: str) -> Steps[bool]:
        """Whether a document is found by a word."""

    def problems(self) -> Steps[list[str]]:
        """What the index finds wrong with itself."""


class Database(Protocol):
    """Runs steps. Each call is one transaction: all of it happened, or nothing did."""

    name: Literal["sqlite", "postgres"]
    where: str
    index: WordIndex
    now_sql: str | None
    """Asks the time of a clock that all processes share; None where the machine's own is that."""

    async def read(self, operation: Callable[[], Steps[T]]) -> T:
        """Run steps that change nothing, over one state of the database."""

    async def write(self, operation: Callable[[], Steps[T]]) -> T:
        """Run steps, and return when they are durable. The operation may be called again after a collision."""

    def write_soon(self, operation: Callable[[], Steps[T]]) -> None:
        """Run steps when nothing else waits, without anybody waiting for them."""

    async def check(self) -> list[str]:
        """What the database finds wrong with itself."""

    async def close(self) -> None: ...
