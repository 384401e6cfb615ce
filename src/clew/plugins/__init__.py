"""Plugins: found without running them, and run only when asked for by name.

Looks in a folder, among installed packages and in what was registered by a call, in this order. Knows names, files and
factories; what a factory makes, and what it is made from, is known to those who register and to those who ask.
"""

from clew.plugins.catalog import Catalog
from clew.plugins.foreign import foreign_code
from clew.plugins.found import Kind, Origin, Plugin
from clew.plugins.names import valid_name
from clew.plugins.registry import Registration, collecting, register, registered

__all__ = [
    "Catalog",
    "Kind",
    "Origin",
    "Plugin",
    "Registration",
    "collecting",
    "foreign_code",
    "register",
    "registered",
    "valid_name",
]
