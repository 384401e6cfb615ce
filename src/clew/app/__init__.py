"""The one place where names in the config become objects: engines, models, and the desk that an agent works at.

Knows every room that has something to choose from. Decides who serves; what that then does is its own affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.app.engines import (
    DEFAULT_ENGINE,
    ENGINE_KEY,
    EngineChoice,
    LoadedEngine,
    engine_setup,
    load_engine,
    register_built_in_engines,
)

if TYPE_CHECKING:
    from clew.app.desk import Desk, DeskOptions, open_desk
    from clew.app.models import NoModel, check_model, configured_summary_model, target_of

__all__ = [
    "DEFAULT_ENGINE",
    "ENGINE_KEY",
    "Desk",
    "DeskOptions",
    "EngineChoice",
    "LoadedEngine",
    "NoModel",
    "check_model",
    "configured_summary_model",
    "engine_setup",
    "load_engine",
    "open_desk",
    "register_built_in_engines",
    "target_of",
]

# Who folds a file needs no provider and no agent.
_LATE = {
    "Desk": "desk",
    "DeskOptions": "desk",
    "NoModel": "models",
    "check_model": "models",
    "configured_summary_model": "models",
    "open_desk": "desk",
    "target_of": "models",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'clew.app' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"clew.app.{_LATE[name]}"), name)
