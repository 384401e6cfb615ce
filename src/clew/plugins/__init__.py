"""Plugins: found without running them, and run only when they are asked for by name.

Searched in this order: a folder, what the program registered by a call, installed packages, what ships with Clew.
"""

from clew.plugins.catalog import PluginCatalog, plugin_code
from clew.plugins.registry import (
    Plugin,
    PluginKind,
    PluginOrigin,
    PluginRegistration,
    collect_registrations,
    register,
    registered,
    valid_name,
)

__all__ = [
    "Plugin",
    "PluginCatalog",
    "PluginKind",
    "PluginOrigin",
    "PluginRegistration",
    "collect_registrations",
    "plugin_code",
    "register",
    "registered",
    "valid_name",
]
