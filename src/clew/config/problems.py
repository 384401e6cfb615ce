"""What is wrong with a setting, said so that a person can mend it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clew.config.declare import MASK
from clew.errors import ConfigError

_LONGEST_VALUE = 60
_SOUNDS_SECRET = re.compile(r"key|token|secret|passw|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, which key, which value, and what to do."""

    source: str
    """The file with its line, the environment, or the flag."""
    key: str
    """Empty where the file as a whole is the problem."""
    value: str
    """As shown: never a secret; empty where there is none to show."""
    remedy: str

    @property
    def text(self) -> str:
        if not self.key:
            return f"{self.source}: {self.value}; {self.remedy}"
        value = f" = {self.value}" if self.value else ""
        return f"{self.source}: {self.key}{value}: {self.remedy}"


class InvalidConfig(ConfigError):  # noqa: N818 (reads as what it says)
    """A configuration with at least one problem; `problems` has them all, in the order they were met."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.source, first.key, first.value, first.remedy)
        more = len(self.problems) - 1
        others = f" (and {more} more; `clew config check` lists them)" if more else ""
        self.args = (first.text + others,)


def refused(path: Path, line: int | None, value: str, remedy: str) -> InvalidConfig:
    """The error for a file that cannot be used as a whole."""
    source = str(path) if line is None else f"{path} line {line}"
    return InvalidConfig([Problem(source, "", value, remedy)])


def describe(value: object, secret: bool = False) -> str:
    """A value as an error shows it: short, on one line, and masked where it is a secret."""
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


def sounds_secret(key: str) -> bool:
    """Whether the value of a key we do not know had better not be printed."""
    return _SOUNDS_SECRET.search(key) is not None


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: alike as a whole, or the same at its end."""
    names = list(known)
    alike = difflib.get_close_matches(word, names, n=1, cutoff=0.8)
    if alike:
        return alike[0]
    last = word.rpartition(".")[2]
    return next((name for name in names if name.rpartition(".")[2] == last), None)
