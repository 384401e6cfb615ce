"""What a plugin is, which names it may have, and the registration of its factory.

What a plugin's code registers while it is loaded goes to its loader only. What a program registers at any other time
is kept as long as the program runs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from clew.errors import PluginError


@dataclass(frozen=True, slots=True)
class PluginKind:
    """A kind of plugins, for example context engines."""

    folder: str
    """Below `plugins/` of the Clew home; the entry points of packages have the same name behind `clew.`"""
    title: str
    """In words, for messages."""
    contract: int
    """The version of the contract that its plugins are held to."""
    changes: str = ""
    """What to change in a plugin that was written for an older version."""

    @property
    def entry_points(self) -> str:
        return f"clew.{self.folder}"


class PluginOrigin(StrEnum):
    """Where a plugin comes from, in the order in which a name is looked up."""

    FOLDER = "folder"
    PROGRAM = "program"
    """Registered by a call of the running program."""
    PACKAGE = "package"
    BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin as it was found, before its code has run."""

    kind: PluginKind
    name: str
    origin: PluginOrigin
    where: str
    """The folder, the package with its version, or the program."""
    load: Callable[[], PluginRegistration] = field(repr=False, compare=False)
    """Runs its code, which may raise anything: call it inside `plugin_code`."""
    description: str = ""
    version: str = ""
    contract: int | None = None
    """As stated, where that can be read without running its code."""
    problem: str = ""
    """Why it cannot be loaded, as far as is known without running its code."""
    root: Path | None = None
    """The folder that holds its code, where it is known."""
    shadowed: bool = False
    """Another plugin of the same name is found before it."""

    def __str__(self) -> str:
        return f"{self.kind.title} {self.name!r} ({self.origin}, {self.where})"


ALLOWED_NAMES = "1 to 64 small letters, digits, - and _, beginning with a letter or digit"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_LONGEST_SHOWN = 80


def valid_name(name: object) -> bool:
    """Whether a plugin may be called this."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def shown_name(name: object) -> str:
    """A name as shown in a message, with a limited length."""
    text = repr(name)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def suggestion(name: str, known: Iterable[str]) -> str:
    """For a message about an unknown name: the nearest names, and the first ten of all."""
    names = sorted(set(known))
    if not names:
        return "none is installed"
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.6)
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return f"did you mean {' or '.join(near)}? Known: {listed}" if near else f"known: {listed}"


PluginFactory: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class PluginRegistration:
    """One name, and the factory that makes the object."""

    kind: PluginKind
    name: str
    factory: PluginFactory = field(repr=False)
    description: str = ""
    version: str = ""
    contract: int = 1


PluginRegistrations: TypeAlias = dict[tuple[PluginKind, str], PluginRegistration]

_of_this_program: PluginRegistrations = {}
_registrations: ContextVar[PluginRegistrations] = ContextVar("registrations", default=_of_this_program)


def register(
    kind: PluginKind, name: str, factory: PluginFactory, *, description: str = "", version: str = "", contract: int = 1
) -> None:
    """Register a factory under a name. Of several registrations of one name the last counts."""
    if not valid_name(name):
        raise PluginError(f"{shown_name(name)} cannot name a {kind.title}", remedy=f"use {ALLOWED_NAMES}")
    if not callable(factory):
        raise PluginError(
            f"the factory of the {kind.title} {name!r} is {shown_name(factory)}", remedy="a callable is expected"
        )
    _registrations.get()[kind, name] = PluginRegistration(kind, name, factory, description, version, contract)


def registered(kind: PluginKind) -> list[PluginRegistration]:
    """What was registered by calls of this program."""
    return [each for each in _of_this_program.values() if each.kind == kind]


@contextmanager
def collect_registrations() -> Iterator[PluginRegistrations]:
    """Collects what is registered inside the block, and keeps it from everybody else."""
    collected: PluginRegistrations = {}
    token = _registrations.set(collected)
    try:
        yield collected
    finally:
        _registrations.reset(token)


def registration_by(
    register: Callable[[], object], kind: PluginKind, name: str, *, called: str, named_by: str
) -> PluginRegistration:
    """The registration that a plugin's function makes; raises PluginError if it is not of the expected name."""
    with collect_registrations() as collected:
        register()
    if (kind, name) not in collected:
        offered = ", ".join(other for of, other in collected if of == kind) or "nothing"
        raise PluginError(f"{called} offered {offered}, not {name!r}: the name of its {named_by}")
    return collected[kind, name]
