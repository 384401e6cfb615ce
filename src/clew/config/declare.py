"""How a setting is declared: one dataclass field with its type, range and meaning.

Loading, checks, error texts, `clew config show` and the guide are derived from the `Setting` values that `settings_in`
reads from the dataclasses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_type_hints

from clew.errors import ConfigProblem, InvalidConfig

if TYPE_CHECKING:
    from pathlib import Path

SettingValue: TypeAlias = bool | int | float | str | None

MASK = "********"
_BOOLEANS = {**dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False)}
_NULLS = frozenset({"null", "none", "~"})
_LONGEST_VALUE = 60
_SECRET_KEY = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)
_USERINFO = re.compile(r"//[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A pattern that a text must match, and its name in an error."""

    pattern: re.Pattern[str]
    words: str


URL = TextPattern(re.compile(r"https?://[^\s/]+\S*"), "an address that begins with http:// or https://")
VARIABLE = TextPattern(
    re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "the name of an environment variable (not the key itself)"
)


@dataclass(frozen=True, slots=True)
class SettingLimits:
    """The meaning of a setting and its allowed values, beside type and default."""

    about: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    shape: TextPattern | None = None
    secret: bool = False
    """The value is a secret: never shown."""


def setting(default: SettingValue, about: str, **limits: Any) -> Any:
    """Declare one setting of a settings dataclass; `limits` are the fields of `SettingLimits`."""
    secret = bool(limits.get("secret"))
    return field(default=default, repr=not secret, metadata={"limits": SettingLimits(about, **limits)})


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as declared: its key, its type, and what is allowed."""

    key: str
    kind: type
    optional: bool
    default: SettingValue
    limits: SettingLimits

    @property
    def variable(self) -> str:
        return variable_of(self.key)

    @property
    def allowed(self) -> str:
        """The allowed values in words, for errors and the guide."""
        words = self._words()
        return f"{words}, or null" if self.optional else words

    def _words(self) -> str:
        limits = self.limits
        if limits.choices:
            return " or ".join(limits.choices)
        if limits.shape:
            return limits.shape.words
        if self.kind is bool:
            return "true or false"
        if self.kind is str:
            return "text on one line"
        noun = "a whole number" if self.kind is int else "a number"
        if limits.low is not None and limits.high is not None:
            return f"{noun} from {_formatted(limits.low)} to {_formatted(limits.high)}"
        return noun if limits.low is None else f"{noun}, {_formatted(limits.low)} or more"

    def accepts(self, value: object) -> bool:
        """Whether a typed value, for example from YAML, is allowed."""
        if value is None:
            return self.optional
        if self.kind is float:
            return type(value) in (int, float) and math.isfinite(value) and self._in_range(value)  # type: ignore[arg-type]
        if type(value) is not self.kind:  # not isinstance, since True is an int in Python
            return False
        if isinstance(value, str):
            return self._accepts_text(value)
        return self.kind is bool or self._in_range(value)  # type: ignore[arg-type]

    def _in_range(self, number: float) -> bool:
        low, high = self.limits.low, self.limits.high
        return (low is None or number >= low) and (high is None or number <= high)

    def _accepts_text(self, text: str) -> bool:
        if not text or text != text.strip() or not text.isprintable():
            return False
        if self.limits.choices:
            return text in self.limits.choices
        return self.limits.shape is None or self.limits.shape.pattern.fullmatch(text) is not None

    def from_text(self, text: str) -> SettingValue:
        """The value of a text from the environment or a flag; the text itself if it is no value."""
        text = text.strip()
        if self.optional and text.lower() in _NULLS:
            return None
        if self.kind is bool:
            return _BOOLEANS.get(text.lower(), text)
        if self.kind is str:
            return text
        try:
            number: SettingValue = self.kind(text)
        except (ValueError, OverflowError):
            return text
        return number

    def from_yaml(self, value: Any) -> Any:
        """The value, with the word `off` for YAML's false if it is one of the choices."""
        return "off" if value is False and "off" in self.limits.choices else value

    def shown(self, value: SettingValue) -> str:
        """The value as YAML for the user, with secrets masked."""
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.limits.secret:
            return MASK
        return _USERINFO.sub(f"//{MASK}@", value) if isinstance(value, str) else str(value)


def variable_of(key: str) -> str:
    """The environment variable that sets a setting: CLEW_, and the key in capitals with _ for each dot."""
    return "CLEW_" + key.replace(".", "_").upper()


def settings_in(tree: type, prefix: str = "") -> Iterator[Setting]:
    """Every setting below a settings dataclass, depth first, in the order of declaration."""
    hints = get_type_hints(tree)
    for declared in fields(tree):
        key, hint = prefix + declared.name, hints[declared.name]
        if is_dataclass(hint):
            yield from settings_in(hint, f"{key}.")  # type: ignore[arg-type]
        else:
            if declared.default is MISSING:
                raise TypeError(f"{tree.__name__}.{declared.name} needs a default")
            kind, optional = _kind_of(hint)
            yield Setting(key, kind, optional, declared.default, declared.metadata["limits"])


def _kind_of(hint: Any) -> tuple[type, bool]:
    if not isinstance(hint, UnionType):
        return hint, False
    (kind,) = (each for each in get_args(hint) if each is not NoneType)
    return kind, True


def _formatted(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:.2f}"


def invalid_file(path: Path, line: int | None, value: str, remedy: str) -> InvalidConfig:
    """The error for a config file that cannot be used."""
    source = str(path) if line is None else f"{path} line {line}"
    return InvalidConfig([ConfigProblem(source, "", value, remedy)])


def shown_value(value: object, secret: bool = False) -> str:
    """A value for an error: short, on one line, and masked if it is a secret."""
    if isinstance(value, Mapping):
        return "a group of keys"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if secret:
        return MASK
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def is_secret_key(key: str) -> bool:
    """Whether the value of an unknown key may be a secret, by its name."""
    return _SECRET_KEY.search(key) is not None


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The most similar known name, or one with the same last part."""
    from difflib import get_close_matches  # only an error needs it

    names, last = list(known), word.rpartition(".")[2]
    same_end = [name for name in names if name.rpartition(".")[2] == last]
    return next(iter(get_close_matches(word, names, n=1, cutoff=0.8) + same_end), None)
