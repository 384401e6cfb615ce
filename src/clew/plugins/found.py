"""What is known of a plugin before a line of its code has run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.plugins.registry import Registration


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of thing that plugins make."""

    folder: str
    """Below `plugins/` of the Clew home; the entry points of packages have the same name behind `clew.`"""
    title: str
    """In words, for messages."""
    contract: int
    """The version of the contract that its plugins are held to."""

    @property
    def entry_points(self) -> str:
        return f"clew.{self.folder}"


class Origin(StrEnum):
    """Where a plugin comes from, in the order in which a name is looked up."""

    FOLDER = "folder"
    PROGRAM = "program"
    """Registered by a call of the running program."""
    PACKAGE = "package"
    BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin as it was found: who it says it is, and how to get at it."""

    kind: Kind
    name: str
    origin: Origin
    where: str
    """The folder, the package with its version, or the program."""
    load: Callable[[], Registration] = field(repr=False, compare=False)
    """Runs its code. Whatever it raises is the plugin's doing: call it inside `foreign_code`."""
    description: str = ""
    version: str = ""
    contract: int | None = None
    """As stated where that can be read without running it."""
    problem: str = ""
    """Why it cannot serve, as far as can be seen from outside."""
    root: Path | None = None
    """The folder that holds its code, where it is known."""
    shadowed: bool = False
    """Another one of the same name is found before it."""

    def __str__(self) -> str:
        return f"{self.kind.title} {self.name!r} ({self.origin}, {self.where})"
