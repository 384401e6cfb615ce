"""The engines that ship with Clew, registered as a plugin would be, and the catalog of all that there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from clew import __version__
from clew.engines.base import (
    CONTEXT_ENGINE,
    ContextEngine,
    EngineSetup,
    problem_with_engine,
    register_context_engine,
)
from clew.engines.compressor import ContextCompressor
from clew.engines.lossless import LosslessEngine
from clew.plugins import PluginCatalog

EngineCatalog: TypeAlias = PluginCatalog[EngineSetup, ContextEngine]


def register_built_in_engines() -> None:
    register_context_engine(
        "compressor",
        ContextCompressor.of,
        description="Keeps the start and the end, and folds what lies between into a handoff",
        version=__version__,
    )
    register_context_engine(
        "lcm",
        LosslessEngine,
        description="Folds old messages into a map of summaries, each of which can be opened again, word for word",
        version=__version__,
    )


def engine_catalog(home: Path, built_ins: Callable[[], None] = register_built_in_engines) -> EngineCatalog:
    """Every engine that can be chosen: built-in ones, installed packages, and files in the folder of plugins."""
    return PluginCatalog(CONTEXT_ENGINE, home / "plugins", built_ins, problem_with_engine)
