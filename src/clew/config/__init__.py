"""Config: every setting is declared once, and read from defaults, file, environment and flags.

The settings are typed, checked and frozen, and each has its origin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.config.declare import Setting, SettingValue
from clew.config.engine_settings import CompressionSettings, LosslessSettings
from clew.errors import ConfigProblem, InvalidConfig
from clew.lazy import lazy_names

if TYPE_CHECKING:
    from clew.config.entries import McpServer, UpstreamEntry, resolved
    from clew.config.home import (
        clew_home,
        config_path,
        learnt_limits_path,
        path_exists,
        program_folder,
        replace_file,
        store_place,
    )
    from clew.config.keys import KeyPlace, StoredKeys, has_keyring, key_for
    from clew.config.load import LoadedConfig, SettingOrigin, load_config, read_config, setting_named, value_from
    from clew.config.settings import (
        AgentSettings,
        AuxiliaryModelSettings,
        AuxiliarySettings,
        ContextSettings,
        MemorySettings,
        ModelSettings,
        PromptCachingSettings,
        RecallSettings,
        Settings,
        TerminalSettings,
        ToolOutputSettings,
        api_key_of,
        declared_settings,
    )
    from clew.config.yaml_file import set_in_file, unset_in_file

__all__ = [
    "AgentSettings",
    "AuxiliaryModelSettings",
    "AuxiliarySettings",
    "CompressionSettings",
    "ConfigProblem",
    "ContextSettings",
    "InvalidConfig",
    "KeyPlace",
    "LoadedConfig",
    "LosslessSettings",
    "McpServer",
    "MemorySettings",
    "ModelSettings",
    "PromptCachingSettings",
    "RecallSettings",
    "Setting",
    "SettingOrigin",
    "SettingValue",
    "Settings",
    "StoredKeys",
    "TerminalSettings",
    "ToolOutputSettings",
    "UpstreamEntry",
    "api_key_of",
    "clew_home",
    "config_path",
    "declared_settings",
    "has_keyring",
    "key_for",
    "learnt_limits_path",
    "load_config",
    "path_exists",
    "program_folder",
    "read_config",
    "replace_file",
    "resolved",
    "set_in_file",
    "setting_named",
    "store_place",
    "unset_in_file",
    "value_from",
]

# Most of the room reads files and keys, which a caller with its own settings never needs.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".entries": "McpServer UpstreamEntry resolved",
        ".home": "clew_home config_path learnt_limits_path path_exists program_folder replace_file store_place",
        ".keys": "KeyPlace StoredKeys has_keyring key_for",
        ".load": "LoadedConfig SettingOrigin load_config read_config setting_named value_from",
        ".settings": "AgentSettings AuxiliaryModelSettings AuxiliarySettings ContextSettings MemorySettings "
        "ModelSettings PromptCachingSettings RecallSettings Settings TerminalSettings ToolOutputSettings api_key_of "
        "declared_settings",
        ".yaml_file": "set_in_file unset_in_file",
    },
)
