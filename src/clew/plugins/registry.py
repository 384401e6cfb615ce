"""What has been registered: a name, a factory, and a few words about them.

A plugin's code registers while it is being loaded, and what it registers then is gathered for its loader alone. What a
program registers at any other time is kept for as long as the program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from clew.errors import PluginError
from clew.plugins.found import Kind
from clew.plugins.names import ALLOWED, shown, valid_name

Factory: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Registration:
    """One name, and the factory that makes the thing."""

    kind: Kind
    name: str
    factory: Factory = field(repr=False)
    description: str = ""
    version: str = ""
    contract: int = 1


Registrations: TypeAlias = dict[tuple[Kind, str], Registration]

_of_this_program: Registrations = {}
_gathering: ContextVar[Registrations] = ContextVar("gathering", default=_of_this_program)


def register(
    kind: Kind, name: str, factory: Factory, *, description: str = "", version: str = "", contract: int = 1
) -> None:
    """Offer a factory under a name; it serves where that name is asked for. Of one name, the last offer counts."""
    if not valid_name(name):
        raise PluginError(f"{shown(name)} cannot name a {kind.title}; use {ALLOWED}")
    if not callable(factory):
        raise PluginError(f"the factory of the {kind.title} {name!r} is {shown(factory)}; a callable is expected")
    _gathering.get()[kind, name] = Registration(kind, name, factory, description, version, contract)


def registered(kind: Kind) -> list[Registration]:
    """What this program registered itself."""
    return [each for each in _of_this_program.values() if each.kind == kind]


@contextmanager
def collecting() -> Iterator[Registrations]:
    """Gathers what is registered inside, and keeps it from everybody else."""
    gathered: Registrations = {}
    token = _gathering.set(gathered)
    try:
        yield gathered
    finally:
        _gathering.reset(token)
