"""Plugins, their names, and the registration of their factories.

Registrations by a plugin's code while it is loaded go to its loader only. Other registrations of a program last as long
as the program runs.
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
    """The changes that a plugin for an older version needs."""

    @property
    def entry_points(self) -> str:
        return f"clew.{self.folder}"


class PluginOrigin(StrEnum):
    """The source of a plugin, in the order in which a name is searched."""

    FOLDER = "folder"
    PROGRAM = "program"
    """Registered by a call of the running program."""
    PACKAGE = "package"
    BUILT_IN = "built-in"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin before its code has run."""

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
    """As stated, if that can be read without running its code."""
    problem: str = ""
    """Why it cannot be loaded, as far as that can be seen without running its code."""
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
    """Whether this is a valid name of a plugin."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def shown_name(name: object) -> str:
    """A name as shown in a message, with a limited length."""
    text = repr(name)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def suggestion(name: str, known: Iterable[str]) -> str:
    """The remedy for an unknown name: similar names, and the first ten of all."""
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
    """The registrations by calls of this program."""
    return [each for each in _of_this_program.values() if each.kind == kind]


@contextmanager
def collect_registrations() -> Iterator[PluginRegistrations]:
    """Collects the registrations inside the block, which are seen nowhere else."""
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
