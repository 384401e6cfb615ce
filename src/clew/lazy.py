"""Names of a package that are imported when they are first used, so that importing the package stays quick."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package, as in `{".wires.chat": "OpenAIChatProvider"}`.

    `modules` has for each module that defines lazy names, relative or absolute, those names in one string.
    `dir` of the package shows what is in its `__all__`; a name that it does not have is an AttributeError.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in homes:
            public = ", ".join(_public(package))
            raise AttributeError(f"module {package!r} has no attribute {name!r}; its public names are {public}")
        value = getattr(import_module(homes[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: _public(package)


def _public(package: str) -> list[str]:
    return sorted(sys.modules[package].__all__)
