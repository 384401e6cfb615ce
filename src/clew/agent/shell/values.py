"""What a command line is made of: simple commands, their words and their redirects, as values.

Knows neither how they are read out of a text (`shell`) nor what is dangerous about them (`dangers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from clew.errors import ClewError

UNKNOWN = "\ufffc"
"""Stands in a word for what is known only when the line runs."""


class Unreadable(ClewError):  # noqa: N818 (reads as what it says)
    """A text that is no command line we can take apart."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, quotes removed."""

    text: str
    variables: tuple[str, ...] = ()
    """Names of the variables in it, whether their values are known or not."""
    inner: tuple[Simple, ...] = ()
    """Commands whose output becomes part of it, or (`<( )`) the file it names."""
    is_pattern: bool = False
    """Holds *, ?, [ ] or { , } outside quotes: it may become other words."""
    is_quoted: bool = False
    is_split: bool = False
    """Holds blanks that came out of a variable outside quotes: the shell makes several words of it."""

    @property
    def is_known(self) -> bool:
        return UNKNOWN not in self.text


@dataclass(frozen=True, slots=True)
class Redirect:
    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        return self.operator in {">", ">>", ">|", "&>", "&>>", "<>"} or (
            self.operator == ">&" and not re.fullmatch(r"\d+-?|-", self.target.text)
        )


@dataclass(slots=True, eq=False)
class Simple:
    """One command with its words. Not frozen: the text of a heredoc comes after its line."""

    words: list[Word] = field(default_factory=list)
    settings: list[tuple[str, Word]] = field(default_factory=list)
    """`X=1` before the command, or alone."""
    redirects: list[Redirect] = field(default_factory=list)
    text_in: str | None = None
    """Standard input, where it stands on the line: a heredoc or a here-string."""
    left: Simple | None = None
    """The command whose output it reads."""
    nest: tuple[int, ...] = ()
    """Subshells around it: a `cd` in one does not reach out of it."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """Everything a command line would run, in the order of its text; substitutions before what they stand in."""

    commands: tuple[Simple, ...]
    functions: frozenset[str] = frozenset()


def joined(words: Iterable[Word]) -> str:
    """Words as one text, as `eval` sees them."""
    return " ".join(word.text for word in words)
