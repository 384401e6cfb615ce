"""One simple command as those see it who judge it, and what they say of it.

Knows how flags and plain arguments are told apart; what is dangerous is known to the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clew.agent.dangers.places import Map, Place, is_below
from clew.agent.dangers.programs import VALUED
from clew.agent.dangers.table import Kind
from clew.agent.shell import Simple, Word
from clew.agent.shown import shown


@dataclass(frozen=True, slots=True)
class Danger:
    """One thing that is dangerous about a command."""

    kind: Kind
    why: str
    piece: str
    """The part of the line that it is about."""
    covers: str
    """What an agreement for the session covers."""
    always_ask: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """A command as rules see it."""

    simple: Simple
    name: str
    args: tuple[Word, ...]
    folder: str | None
    """Where it runs, if that is known."""
    map: Map
    environ: Mapping[str, str] | None = None
    own_jobs: frozenset[str] = frozenset()
    """Variables that hold the numbers of processes started on the same line."""
    in_venv: bool = False

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.args]

    @property
    def plain(self) -> list[Word]:
        """Arguments that are no flags, nor the values of flags before a subcommand."""
        return list(plain_of(self.args, VALUED.get(self.name, "")))

    def place(self, word: Word) -> Place:
        return self.map.place(word, self.folder)

    def has_flag(self, *flags: str) -> bool:
        return any(is_flag(text, flag) for text in self.texts for flag in flags)

    def danger(self, kind: Kind, why: str, covers: str = "", *, always_ask: bool = False) -> Danger:
        piece = shown(self.simple.source or " ".join([self.name, *self.texts]))
        # An agreement to `git push` here is none to push what lies elsewhere.
        elsewhere = (
            "" if self.folder and is_below(self.folder, self.map.project) else f" in {self.folder or 'some folder'}"
        )
        return Danger(kind, why, piece, f"{kind}: {covers or piece}{elsewhere}", always_ask)


def is_flag(text: str, flag: str) -> bool:
    if text == flag or text.startswith(f"{flag}="):
        return True
    is_short = len(flag) == 2 and flag != "--"
    return is_short and re.match(r"-[A-Za-z0-9]+$", text) is not None and flag[1] in text[1:]


def plain_of(args: tuple[Word, ...], valued: str) -> Iterator[Word]:
    flags, skip, only_plain = valued.split(), False, False
    for word in args:
        if skip:
            skip = False
        elif word.text == "--" and not only_plain:
            only_plain = True
        elif only_plain or word.text == "-" or not word.text.startswith("-"):
            yield word
        else:
            skip = word.text in flags
