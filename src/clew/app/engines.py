"""The choice of the engine: the one that the config names, or the built-in one and the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from clew.config import LoadedConfig, Settings, clew_home
from clew.engines import (
    ContextEngine,
    EngineCatalog,
    EngineFactory,
    EngineSetup,
    engine_catalog,
    register_built_in_engines,
)
from clew.errors import PluginError
from clew.handoff import Summarize
from clew.plugins import Plugin
from clew.tokens import DEFAULT_WINDOW

ENGINE_KEY = "context.engine"
DEFAULT_ENGINE = "compressor"
"""Used if the config names no engine, or the named one cannot be used."""


@dataclass(frozen=True, slots=True)
class LoadedEngine:
    """The engine that is used, and notices about the choice."""

    engine: ContextEngine
    notices: tuple[str, ...] = ()


class EngineChoice:
    """All engines, and the one that the config chooses.

    If the config names none, the built-in one is used, even if a plugin has its name.
    """

    def __init__(
        self, config: LoadedConfig, environ: Mapping[str, str], built_ins: Callable[[], None] | None = None
    ) -> None:
        self.name = config.settings.context.engine
        self.is_named = config.origin_of(ENGINE_KEY).kind != "default"
        self.catalog: EngineCatalog = engine_catalog(clew_home(environ), built_ins or register_built_in_engines)

    def plugin(self) -> Plugin:
        """The chosen engine, not yet loaded; raises PluginError if the name is unknown."""
        return self.catalog.find(self.name) if self.is_named else self.catalog.find_built_in(self.name)

    def serving(self) -> tuple[Plugin, str]:
        """The engine that will be used, and why it is not the chosen one, as far as can be seen without running it."""
        try:
            plugin = self.plugin()
        except PluginError as error:
            return self.catalog.find_built_in(DEFAULT_ENGINE), str(error)
        return (self.catalog.find_built_in(DEFAULT_ENGINE), plugin.problem) if plugin.problem else (plugin, "")

    def load(self, setup: EngineSetup) -> LoadedEngine:
        """The chosen engine, or the built-in one with a notice of the reason."""
        try:
            return LoadedEngine(self.catalog.build(self.plugin(), setup))
        except PluginError as error:
            built_in = self.catalog.build(self.catalog.find_built_in(DEFAULT_ENGINE), setup)
            return LoadedEngine(built_in, (f"{error}; the built-in {DEFAULT_ENGINE!r} serves instead",))


def named_engine(name: str, settings: Settings, environ: Mapping[str, str]) -> EngineFactory:
    """A factory of the engine of this name; raises PluginError if there is none."""
    catalog = engine_catalog(clew_home(environ))
    plugin = catalog.find(name)
    return lambda setup: catalog.build(plugin, replace(setup, lossless=settings.lossless))


def engine_setup(
    settings: Settings,
    context_length: int | None = None,
    *,
    max_output: int | None = None,
    summarize: Summarize | None = None,
) -> EngineSetup:
    """The setup of an engine by these settings and by the limits of the model."""
    window = context_length or settings.model.context_length or DEFAULT_WINDOW
    return EngineSetup(window, settings.model.name, max_output, settings.compression, summarize)
