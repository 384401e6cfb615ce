"""All plugins of a kind from every source, finding one by name, and building it.

Finding and describing runs no plugin's code; building runs that of the named one.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from clew.errors import PluginError
from clew.plugins.registry import (
    Plugin,
    PluginKind,
    PluginOrigin,
    PluginRegistration,
    collect_registrations,
    registered,
    shown_name,
    suggestion,
    valid_name,
)
from clew.plugins.sources import folder_plugins, package_plugins

_log = logging.getLogger("clew.plugins")
# The user gets a notice; the traceback is for those who configured logging.
_log.addHandler(logging.NullHandler())
# The code that calls a plugin: a problem is never there, although the traceback may end in it.
_CALLING_CODE = tuple(
    Path(it).resolve()
    for it in (Path(__file__).parents[1], Path(importlib.__file__).parent, Path(asyncio.__file__).parent)
)
_BACKPORT = "importlib_metadata"
"""Other packages install it, and it then replaces `importlib.metadata`."""
_LONGEST_MESSAGE = 300

Setup = TypeVar("Setup")
Made = TypeVar("Made")


class PluginCatalog(Generic[Setup, Made]):
    """Plugins of one kind. `problem_of` returns the problem of an object that a factory made, or an empty text.

    `home` is the folder of plugins; `built_ins` registers the plugins that ship with Clew.
    """

    def __init__(
        self, kind: PluginKind, home: Path, built_ins: Callable[[], None], problem_of: Callable[[str, Made], str]
    ) -> None:
        self._kind = kind
        self._home = home
        self._problem_of = problem_of
        with collect_registrations() as registrations:
            built_ins()
        self._built_ins = [_registered_plugin(each, PluginOrigin.BUILT_IN) for each in registrations.values()]

    def plugins(self) -> list[Plugin]:
        """Every plugin, in the order of the search; one behind another of the same name is `shadowed`."""
        found: list[Plugin] = []
        seen: set[str] = set()
        for plugin in self._all_plugins():
            found.append(replace(self._checked(plugin), shadowed=plugin.name in seen))
            seen.add(plugin.name)
        return found

    def find(self, name: str) -> Plugin:
        """The plugin of a name; raises PluginError with similar names."""
        known = []
        for plugin in self._all_plugins():
            if plugin.name == name and valid_name(name):
                return self._checked(plugin)
            known.append(plugin.name)
        raise PluginError(f"no {self._kind.title} is called {shown_name(name)}", remedy=suggestion(name, known))

    def find_built_in(self, name: str) -> Plugin:
        """The built-in plugin of this name, also if another one shadows it."""
        found = next((plugin for plugin in self._built_ins if plugin.name == name), None)
        if found is None:
            raise PluginError(f"no built-in {self._kind.title} is called {shown_name(name)}")
        return found

    def build(self, plugin: Plugin, setup: Setup) -> Made:
        """The object that the plugin makes; raises PluginError, which names the plugin, the file and the problem."""
        _refuse(plugin, self._checked(plugin).problem)
        with plugin_code(plugin, "loading"):
            registration = plugin.load()
        _refuse(plugin, self._wrong_contract(registration.contract))
        with plugin_code(plugin, "making it"):
            made: Made = registration.factory(setup)
            problem = self._problem_of(plugin.name, made)
        _refuse(plugin, problem)
        return made

    def _checked(self, plugin: Plugin) -> Plugin:
        return replace(plugin, problem=plugin.problem or self._wrong_contract(plugin.contract))

    def _wrong_contract(self, stated: int | None) -> str:
        ours = self._kind.contract
        if stated is None or stated == ours:
            return ""
        is_newer = not isinstance(stated, int) or stated > ours
        changes = f": {self._kind.changes}" if self._kind.changes else ""
        remedy = "update Clew" if is_newer else f"update the plugin{changes}"
        return f"written for version {stated} of the contract, this Clew has version {ours}; {remedy}"

    def _all_plugins(self) -> Iterator[Plugin]:
        yield from folder_plugins(self._kind, self._home)
        yield from self._of_this_program()
        yield from package_plugins(self._kind)
        yield from self._built_ins

    def _of_this_program(self) -> list[Plugin]:
        return [_registered_plugin(each, PluginOrigin.PROGRAM) for each in registered(self._kind)]


def _refuse(plugin: Plugin, problem: str) -> None:
    if problem:
        raise PluginError(f"{plugin}: {problem}")


def _registered_plugin(registration: PluginRegistration, origin: PluginOrigin) -> Plugin:
    return Plugin(
        registration.kind,
        registration.name,
        origin,
        "clew" if origin is PluginOrigin.BUILT_IN else "this program",
        load=lambda: registration,
        description=registration.description,
        version=registration.version,
        contract=registration.contract,
    )


@contextmanager
def plugin_code(plugin: Plugin, doing: str) -> Iterator[None]:
    """Raises PluginError for any exception inside, also if a plugin tries to end the program."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, PluginError) and str(error).startswith(str(plugin)):
            raise  # translated already
        _log.warning("%s: %s failed", plugin, doing, exc_info=True)
        raise PluginError(f"{plugin}: {doing} failed: {_problem(error, plugin)}") from error


def _problem(error: BaseException, plugin: Plugin) -> str:
    text = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())[:_LONGEST_MESSAGE]
    what = text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}".rstrip(": ")
    place = _file_and_line(error, plugin)
    return f"{place}: {what}" if place else what


def _file_and_line(error: BaseException, plugin: Plugin) -> str:
    """The file and line of an error, in the plugin's code if the traceback has it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename} line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if plugin.root and Path(frame.filename).is_relative_to(plugin.root)]
    theirs = own or [frame for frame in frames if not _is_calling_code(Path(frame.filename))]
    return f"{theirs[-1].filename} line {theirs[-1].lineno}" if theirs else ""


def _is_calling_code(file: Path) -> bool:
    return any(map(file.is_relative_to, _CALLING_CODE)) or file.parent.name == _BACKPORT
