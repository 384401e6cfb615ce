"""A context engine that keeps whole turns, and a list of what was asked before them."""

from __future__ import annotations

from clew.engines import register_context_engine

from .engine import TurnsEngine


def register() -> None:
    """Clew calls this when the config names the engine, and not before."""
    register_context_engine(
        "turns",
        TurnsEngine,
        description="Keeps the newest turns whole, and a list of what was asked before them",
        version="1.0.0",
        contract=2,
    )
