"""Every exception of Clew is in `clew.errors`, whose docstring shows the whole tree."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import clew
from clew import errors
from clew.errors import ClewError

TREE_LINE = re.compile(r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)", re.MULTILINE)


def subclasses(of: type[ClewError]) -> Iterator[type[ClewError]]:
    for each in of.__subclasses__():
        yield each
        yield from subclasses(each)


def test_every_exception_is_defined_in_one_file() -> None:
    for module in pkgutil.walk_packages(clew.__path__, "clew."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:  # the framework that an adapter is for is no dependency
            assert module.name.startswith("clew.integrations.") and not str(missing.name).startswith("clew")
    ours = [each for each in subclasses(ClewError) if each.__module__.startswith("clew.")]
    elsewhere = {each.__name__ for each in ours if each.__module__ != "clew.errors"}
    assert not [name for name in elsewhere if not name.startswith("_")]  # a private one does not leave its file


def test_the_docstring_is_the_tree_of_exceptions() -> None:
    parents: list[str] = []
    shown: dict[str, str] = {}
    for line in TREE_LINE.finditer(errors.__doc__ or ""):
        depth = len(line["branch"]) // 4
        parents[depth:] = [line["name"]]
        shown[line["name"]] = parents[depth - 1] if depth else "Exception"
    every: list[type[ClewError]] = [ClewError, *subclasses(ClewError)]
    expected = {each.__name__: each.__bases__[0].__name__ for each in every}
    of_this_file = {name: base for name, base in expected.items() if hasattr(errors, name)}
    assert shown == of_this_file
