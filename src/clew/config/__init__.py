"""Config: every setting declared once, read from file, environment and flags, in rising order.

Gives typed, checked, frozen settings with where each came from. Knows nothing of what a setting does, and builds no
object from a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.config.declare import Setting, Value
from clew.config.home import clew_home, config_path, is_there, learnt_limits_path, replace_file
from clew.config.keys import api_key_of
from clew.config.load import Loaded, Origin, declared, load_config, read_config, setting_named, value_from
from clew.config.problems import InvalidConfig, Problem
from clew.config.settings import (
    AgentSettings,
    AuxiliaryModelSettings,
    AuxiliarySettings,
    CompressionSettings,
    ContextSettings,
    MemorySettings,
    ModelSettings,
    PromptCachingSettings,
    Settings,
    ToolOutputSettings,
)

if TYPE_CHECKING:
    from clew.config.change import set_in_file, unset_in_file

__all__ = [
    "AgentSettings",
    "AuxiliaryModelSettings",
    "AuxiliarySettings",
    "CompressionSettings",
    "ContextSettings",
    "InvalidConfig",
    "Loaded",
    "MemorySettings",
    "ModelSettings",
    "Origin",
    "Problem",
    "PromptCachingSettings",
    "Setting",
    "Settings",
    "ToolOutputSettings",
    "Value",
    "api_key_of",
    "clew_home",
    "config_path",
    "declared",
    "is_there",
    "learnt_limits_path",
    "load_config",
    "read_config",
    "replace_file",
    "set_in_file",
    "setting_named",
    "unset_in_file",
    "value_from",
]


def __getattr__(name: str) -> Any:
    # Writing needs YAML, which costs as much to import as the rest of the room; reading mostly does not.
    if name not in ("set_in_file", "unset_in_file"):
        raise AttributeError(f"module 'clew.config' has no attribute {name!r}")
    from clew.config import change

    return getattr(change, name)
