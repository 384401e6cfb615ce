"""Engines as plugins: their contract, the engines that ship with Clew, and the catalog of all that there are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from clew import __version__
from clew.engines.base import ContextEngine, EngineFactory, EngineSetup
from clew.engines.compressor import ContextCompressor
from clew.engines.lossless import LosslessEngine
from clew.plugins import PluginCatalog, PluginKind, register

EngineCatalog: TypeAlias = PluginCatalog[EngineSetup, ContextEngine]


CONTRACT = 2
"""Rises when an engine that was written for the former version would no longer work."""
CHANGES = (
    "`memory` is now `state`, which `restore(state)` takes back (SessionStart.memory is SessionStart.state); "
    "`should_compress` and `compress` leave the state as it is, the new one is `Compaction.state`; "
    "`Compaction(source, items, ...)` says in its items what became of each message, in place of messages, changed "
    "and fates; `__init__` calls super().__init__(setup), and every method but `compress` may be left out. "
    "docs/guides/plugins.md has a complete engine"
)
"""What must be changed in an engine that was written for version 1."""

CONTEXT_ENGINE = PluginKind("context_engine", "context engine", contract=CONTRACT, changes=CHANGES)


def register_context_engine(
    name: str, factory: EngineFactory, *, description: str = "", version: str = "", contract: int = CONTRACT
) -> None:
    """Offer an engine under the name by which `context.engine` in the config may choose it.

    `contract` is the version of the contract that the engine was written for.
    """
    register(CONTEXT_ENGINE, name, factory, description=description, version=version, contract=contract)


def problem_with_engine(name: str, made: object) -> str:
    """Why what a factory made cannot serve as the engine of that name; nothing where it can."""
    if not isinstance(made, ContextEngine):
        return f"its factory made {type(made).__name__}, which is no clew.engines.ContextEngine"
    # An engine for version 1 that does not say so: it has a `memory`, or its __init__ does not call this one's.
    if isinstance(getattr(type(made), "memory", None), property) or "_state" not in vars(made):
        return f"written for version 1 of the contract, this Clew has version {CONTRACT}; update the plugin: {CHANGES}"
    if made.name != name:
        return f"it is called {made.name!r}; the name of an engine must be the one it is registered under, {name!r}"
    return ""


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
