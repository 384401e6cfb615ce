"""How a setting is declared: one dataclass field that carries its type, its range and its meaning.

Everything else (loading, checks, error texts, `clew config show`, the guide) is derived from the `Setting` values
that `settings_in` reads off the dataclasses. Knows no file and no particular setting.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeAlias, get_args, get_type_hints

Value: TypeAlias = bool | int | float | str | None

MASK = "********"
_WORDS_OF_TRUTH = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}
_WORDS_OF_NOTHING = frozenset({"null", "none", "~"})
_USERINFO = re.compile(r"//[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Shape:
    """A form that a text must have, and its name in an error."""

    pattern: re.Pattern[str]
    words: str


URL = Shape(re.compile(r"https?://[^\s/]+\S*"), "an address that begins with http:// or https://")
VARIABLE = Shape(re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "the name of an environment variable (not the key itself)")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a declaration says beyond type and default."""

    about: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    shape: Shape | None = None
    secret: bool = False
    """The value is a secret: never shown."""


def setting(default: Value, about: str, **limits: Any) -> Any:
    """Declare one setting of a settings dataclass; `limits` are the fields of `Limits`."""
    secret = bool(limits.get("secret"))
    return field(default=default, repr=not secret, metadata={"limits": Limits(about, **limits)})


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as declared: where it lives in the tree, and what it may be."""

    key: str
    kind: type
    optional: bool
    default: Value
    limits: Limits

    @property
    def variable(self) -> str:
        """The environment variable that sets it: CLEW_, and the key in capitals with _ for each dot."""
        return "CLEW_" + self.key.replace(".", "_").upper()

    @property
    def allowed(self) -> str:
        """What it may be, in words, as errors and the guide say it."""
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
            return f"{noun} from {_figure(limits.low)} to {_figure(limits.high)}"
        return noun if limits.low is None else f"{noun}, {_figure(limits.low)} or more"

    def accepts(self, value: object) -> bool:
        """Whether a typed value (from YAML, say) may stand here."""
        if value is None:
            return self.optional
        if self.kind is float:
            return type(value) in (int, float) and math.isfinite(value) and self._in_range(value)  # type: ignore[arg-type]
        if type(value) is not self.kind:  # not isinstance: true is an int to Python, but not to a person
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

    def from_text(self, text: str) -> Value:
        """The value that a text from the environment or a flag means; the text itself where it means none."""
        text = text.strip()
        if self.optional and text.lower() in _WORDS_OF_NOTHING:
            return None
        if self.kind is bool:
            return _WORDS_OF_TRUTH.get(text.lower(), text)
        if self.kind is str:
            return text
        try:
            number: Value = self.kind(text)
        except (ValueError, OverflowError):
            return text
        return number

    def shown(self, value: Value) -> str:
        """The value for human eyes: YAML's words, and no secret."""
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.limits.secret:
            return MASK
        return _USERINFO.sub(f"//{MASK}@", value) if isinstance(value, str) else str(value)


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


def _figure(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:.2f}"
