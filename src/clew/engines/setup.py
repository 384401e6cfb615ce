"""What a context engine is made from, and the hook by which one is offered under a name.

Knows the contract and the registry of plugins; which engine serves is decided in `clew.app`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from clew.config import CompressionSettings
from clew.engines.base import ContextEngine
from clew.plugins import Kind, register
from clew.summaries import Cooldowns, Summarize
from clew.tokens import DEFAULT_WINDOW

CONTEXT_ENGINE = Kind("context_engine", "context engine", contract=1)
"""The contract's version rises when an engine that was written for the old one would no longer work."""


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """What an engine may want to know when it is made. What it needs later comes by the contract."""

    context_length: int = DEFAULT_WINDOW
    model: str | None = None
    max_output: int | None = None
    compression: CompressionSettings = field(default_factory=CompressionSettings)
    """The settings under `compression` in the config."""
    summarize: Summarize | None = None
    """Writes a summary with a model; None where none is configured."""
    cooldowns: Cooldowns | None = None
    """The models that rest after a failure. `summarize` follows it; an engine may keep it in its `memory`."""


EngineFactory: TypeAlias = Callable[[EngineSetup], ContextEngine]


def register_context_engine(
    name: str, factory: EngineFactory, *, description: str = "", version: str = "", contract: int = 1
) -> None:
    """Offer an engine under the name by which `context.engine` in the config may choose it.

    `contract` is the version of the contract that the engine was written for.
    """
    register(CONTEXT_ENGINE, name, factory, description=description, version=version, contract=contract)
