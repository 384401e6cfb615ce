"""What is made when it is first used, so that importing a package stays quick: names, regular expressions."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, AnyStr, cast


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


def read_beside(module_file: str, name: str) -> bytes:
    """The content of a data file in the folder of a module. Without `pathlib`, which is slow to import."""
    with open(f"{module_file.rpartition(os.sep)[0]}{os.sep}{name}", "rb") as file:  # noqa: PTH123
        return file.read()


class _LazyPattern:
    """Stands for a compiled expression; keeps each of its methods as an own attribute once it was used."""

    def __init__(self, source: Any, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A regular expression that is compiled when it is first used: compiling takes longer than most searches."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))
