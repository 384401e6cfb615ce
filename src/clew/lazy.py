"""What is made when it is first used, so that importing a package stays quick: names, expressions, methods."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, AnyStr, cast


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


_NO_PARAMS = SimpleNamespace(frozen=False)

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen=False, slots=False, eq=True, repr=True):
        """`dataclasses.dataclass`, whose `__init__` is generated when the first object of the class is made.

        The standard one generates six methods for a frozen class, about 1 ms in Python 3.11 and 3.12; a fold imports a
        hundred classes and makes objects of half of them. `fields`, `replace` and `asdict` work as usual.
        """

        def decorate(cls):
            cls.__doc__ = cls.__doc__ or cls.__name__  # else its signature is computed for one
            own = cls.__dict__
            from_frozen = any(base.__dict__.get("__dataclass_params__", _NO_PARAMS).frozen for base in cls.__mro__[1:])
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, frozen=from_frozen)(cls)
            made.__dataclass_params__.frozen = frozen
            names = [field.name for field in dataclasses.fields(made)]
            if "__init__" not in own:
                made.__init__ = _first_init(made)
            if repr and "__repr__" not in own:
                made.__repr__ = _repr_of([field.name for field in dataclasses.fields(made) if field.repr])
            if eq and "__eq__" not in own:
                compared = [field.name for field in dataclasses.fields(made) if field.compare]
                made.__eq__, made.__hash__ = _comparisons(compared, frozen, own.get("__hash__"))
            if frozen:
                made.__setattr__, made.__delattr__ = _refuse_assignment, _refuse_deletion
                if slots:
                    made.__getstate__, made.__setstate__ = _state_methods(names)
            return made

        return decorate


def _first_init(cls: type) -> Callable[..., None]:
    def __init__(self: Any, *args: Any, **named: Any) -> None:  # noqa: N807
        init = _generated_init(cls)
        type.__setattr__(cls, "__init__", init)
        init(self, *args, **named)

    return __init__


def _generated_init(cls: Any) -> Callable[..., None]:
    is_frozen = cls.__dataclass_params__.frozen
    positional, lines = ["self"], list[str]()
    by_name: list[str] = []
    known: dict[str, Any] = {"_absent": object(), "_set": object.__setattr__}
    for field in dataclasses.fields(cls):
        name = value = field.name
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"], default = field.default_factory, "_absent"
            value = f"_make_{name}() if {name} is _absent else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{name}"], default = field.default, f"_default_{name}"
            value = name if field.init else default
        elif field.init:
            default = ""
        else:
            continue  # `__post_init__` sets it
        if field.init:
            (by_name if field.kw_only else positional).append(f"{name}={default}" if default else name)
        slot = getattr(getattr(cls, name, None), "__set__", None)
        if is_frozen and slot is not None:
            known[f"_set_{name}"] = slot
            lines.append(f" _set_{name}(self, {value})")
        else:
            lines.append(f" _set(self, {name!r}, {value})" if is_frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *by_name] if by_name else ())])
    exec("\n".join([f"def __init__({parameters}):", *(lines or [" pass"])]), known)  # noqa: S102 (as dataclasses do)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({shown})"

    return __repr__


def _comparisons(names: list[str], is_frozen: bool, own_hash: Any) -> tuple[Any, Any]:
    values: Callable[[Any], Any] = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: Any) -> Any:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return __eq__, own_hash or (__hash__ if is_frozen else None)


def _refuse_assignment(self: Any, name: str, value: Any) -> None:
    del self, value
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: Any, name: str) -> None:
    del self
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state_methods(names: list[str]) -> tuple[Any, Any]:
    def __getstate__(self: Any) -> list[Any]:  # noqa: N807
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return __getstate__, __setstate__
