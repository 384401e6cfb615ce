"""All plugins of a kind, from every source, and the way from a name to the thing it stands for.

Looking and describing runs no plugin's code. Building does, for the one that was named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from clew.errors import PluginError
from clew.plugins.folders import folder_plugin, folder_plugins
from clew.plugins.foreign import foreign_code
from clew.plugins.found import Kind, Origin, Plugin
from clew.plugins.names import shown, suggestion
from clew.plugins.packages import package_plugin, package_plugins
from clew.plugins.registry import Registration, collecting, registered

Setup = TypeVar("Setup")
Made = TypeVar("Made")


class Catalog(Generic[Setup, Made]):
    """Plugins of one kind. `problem_of` says what is wrong with a thing that a factory made, or nothing.

    `home` is the folder of plugins; `built_ins` registers what ships with the program, by the hook that all use.
    """

    def __init__(
        self, kind: Kind, home: Path, built_ins: Callable[[], None], problem_of: Callable[[str, Made], str]
    ) -> None:
        self._kind = kind
        self._home = home
        self._problem_of = problem_of
        with collecting() as gathered:
            built_ins()
        self._built_ins = [_registered_plugin(each, Origin.BUILT_IN) for each in gathered.values()]

    def plugins(self) -> list[Plugin]:
        """Every one that can be found, in the order of looking up; the ones that another hides are marked."""
        found: list[Plugin] = []
        seen: set[str] = set()
        for plugin in self._everywhere():
            found.append(replace(self._judged(plugin), shadowed=plugin.name in seen))
            seen.add(plugin.name)
        return found

    def find(self, name: str) -> Plugin:
        """The one that a name stands for; raises PluginError, with the names that were probably meant."""
        plugin = (
            folder_plugin(self._kind, self._home, name)
            or next((each for each in self._of_this_program() if each.name == name), None)
            or package_plugin(self._kind, name)
            or next((each for each in self._built_ins if each.name == name), None)
        )
        if plugin is None:
            known = suggestion(name, (each.name for each in self._everywhere()))
            raise PluginError(f"no {self._kind.title} is called {shown(name)}; {known}")
        return self._judged(plugin)

    def find_built_in(self, name: str) -> Plugin:
        """The built-in of this name, whatever else has the name."""
        for plugin in self._built_ins:
            if plugin.name == name:
                return plugin
        raise PluginError(f"no built-in {self._kind.title} is called {shown(name)}")

    def build(self, plugin: Plugin, setup: Setup) -> Made:
        """The thing itself; raises PluginError, which names the plugin, the file and the problem."""
        problem = plugin.problem or self._wrong_contract(plugin.contract)
        if problem:
            raise PluginError(f"{plugin}: {problem}")
        with foreign_code(plugin, "loading"):
            registration = plugin.load()
        problem = self._wrong_contract(registration.contract)
        if problem:
            raise PluginError(f"{plugin}: {problem}")
        with foreign_code(plugin, "making it"):
            made: Made = registration.factory(setup)
            problem = self._problem_of(plugin.name, made)
        if problem:
            raise PluginError(f"{plugin}: {problem}")
        return made

    def _judged(self, plugin: Plugin) -> Plugin:
        return replace(plugin, problem=plugin.problem or self._wrong_contract(plugin.contract))

    def _wrong_contract(self, stated: int | None) -> str:
        ours = self._kind.contract
        if stated is None or stated == ours:
            return ""
        remedy = "update the plugin" if isinstance(stated, int) and stated < ours else "update Clew"
        return f"written for version {stated} of the contract, this Clew has version {ours}; {remedy}"

    def _everywhere(self) -> Iterator[Plugin]:
        yield from folder_plugins(self._kind, self._home)
        yield from self._of_this_program()
        yield from package_plugins(self._kind)
        yield from self._built_ins

    def _of_this_program(self) -> list[Plugin]:
        return [_registered_plugin(each, Origin.PROGRAM) for each in registered(self._kind)]


def _registered_plugin(registration: Registration, origin: Origin) -> Plugin:
    return Plugin(
        registration.kind,
        registration.name,
        origin,
        "clew" if origin is Origin.BUILT_IN else "this program",
        load=lambda: registration,
        description=registration.description,
        version=registration.version,
        contract=registration.contract,
    )
