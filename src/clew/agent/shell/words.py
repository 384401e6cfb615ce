"""The words of a command line: quotes, variables, substitutions, and what is certain about their text.

One word at a time, from where the reader stands. Commands inside a word are read by whoever reads commands (`shell`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from clew.agent.shell.values import UNKNOWN, Simple, Unreadable, Word

ENDS_WORD = " \t\n;&|<>()"
BLANK = " \t"
_DEEPEST = 24
_NAME = re.compile(r"[A-Za-z_]\w*")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MOST_OUT_OF_BRACES = 256


class WordReader(ABC):
    """Goes over a text once, from left to right; this half knows words."""

    def __init__(self, text: str, variables: dict[str, str], depth: int) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.variables = variables
        self.found: list[Simple] = []
        self._left: Simple | None = None
        self._nest: tuple[int, ...] = ()
        self._shells = 0

    @abstractmethod
    def commands(self, closing: str) -> None:
        """Reads commands to the closing bracket, or to the end."""

    @abstractmethod
    def _inside(self, closing: str) -> tuple[Simple, ...]:
        """Commands of a shell of their own."""

    def _word(self) -> Word:
        """One word, up to a blank or an operator outside quotes."""
        draft = _Draft()
        while (here := self._peek()) and here not in ENDS_WORD:
            if here == "'":
                draft.is_quoted = True
                draft.parts.append(self._until("'", self.at + 1))
            elif here == '"':
                draft.is_quoted = True
                self.at += 1
                self._double_quoted(draft, '"')
            elif here == "\\":
                if not self.text.startswith("\n", self.at + 1):
                    draft.parts.append(self.text[self.at + 1 : self.at + 2])
                self.at += 2
            elif here == "$":
                self._dollar(draft, in_quotes=False)
            elif here == "`":
                self._backtick(draft)
            else:
                draft.is_pattern |= here in "*?["
                draft.has_brace |= here == "{"
                draft.is_pattern |= here == "," and draft.has_brace
                draft.parts.append(here)
                self.at += 1
        return draft.word()

    def _double_quoted(self, draft: _Draft, closing: str) -> None:
        """Up to the closing quote (or, without one, to the end: a heredoc)."""
        while True:
            here = self._peek()
            if here == closing:
                self.at += 1
                return
            if not here:
                raise Unreadable('a " is not closed')
            if here == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                draft.parts.append("" if after == "\n" else after if after and after in '$`"\\' else here + after)
                self.at += 2
            elif here == "$":
                self._dollar(draft, in_quotes=True)
            elif here == "`":
                self._backtick(draft)
            else:
                draft.parts.append(here)
                self.at += 1

    def _expansions_in(self, text: str) -> str:
        """A text in which variables and substitutions are replaced, but quotes mean nothing."""
        inner = type(self)(text, self.variables, self.depth)
        inner._nest = self._nest
        draft = _Draft()
        with inner._deeper():
            inner._double_quoted(draft, "")
        self.found.extend(inner.found)
        return draft.word().text

    def _dollar(self, draft: _Draft, in_quotes: bool) -> None:
        after = self.text[self.at + 1 : self.at + 2]
        if after == "(":
            self._substitution(draft)
        elif after == "{":
            self._braced(draft, in_quotes)
        elif after == "'" and not in_quotes:
            draft.is_quoted = True
            draft.parts.append(self._ansi_quoted())
        elif after == '"' and not in_quotes:
            self.at += 1
        elif name := _NAME.match(self.text, self.at + 1):
            self.at = name.end()
            self._value(draft, name[0], in_quotes)
        elif after and after in "@*#?-$!0123456789":
            self.at += 2
            self._value(draft, after, in_quotes)
        else:
            draft.parts.append("$")
            self.at += 1

    def _value(self, draft: _Draft, name: str, in_quotes: bool) -> None:
        value = self.variables.get(name, UNKNOWN)
        draft.variables.append(name)
        draft.parts.append(value)
        draft.is_split |= not in_quotes and any(char.isspace() for char in value)

    def _substitution(self, draft: _Draft) -> None:
        if self.text.startswith("$((", self.at) and (ends := self._arithmetic_end(self.at + 3)) is not None:
            self._arithmetic(self.text[self.at + 3 : ends - 2])
            self.at = ends
            draft.parts.append(UNKNOWN)
            return
        self.at += 2
        left, self._left = self._left, None
        inner = self._inside(")")
        self._left = left
        draft.inner.extend(inner)
        draft.parts.append(self._output_of(inner))

    def _output_of(self, commands: tuple[Simple, ...]) -> str:
        """What commands print, where that is certain."""
        if len(commands) != 1 or commands[0].redirects or not commands[0].words:
            return UNKNOWN
        name, *rest = (word.text for word in commands[0].words)
        if name == "pwd" and not rest:
            return self.variables.get("PWD", UNKNOWN)
        if name == "cat" and not rest and commands[0].text_in is not None:
            return commands[0].text_in
        if name == "printf" and len(rest) == 1 and not set("%\\") & set(rest[0]):
            return rest[0]
        return " ".join(rest) if name == "echo" and not any(word.startswith("-") for word in rest) else UNKNOWN

    def _braced(self, draft: _Draft, in_quotes: bool) -> None:
        """`${...}`: a value that is certain only where nothing is done to it."""
        simple = re.compile(r"\$\{([A-Za-z_]\w*|[@*#?$!\d])\}").match(self.text, self.at)
        if simple is not None:
            self.at = simple.end()
            self._value(draft, simple[1], in_quotes)
            return
        if name := _NAME.match(self.text, self.at + 2):
            draft.variables.append(name[0])
        self.at += 2
        inside = _Draft()
        with self._deeper():
            self._to_brace(inside)
        draft.inner.extend(inside.inner)
        draft.variables.extend(inside.variables)
        draft.parts.append(UNKNOWN)

    def _to_brace(self, inside: _Draft) -> None:
        while (here := self._peek()) != "}":
            if not here:
                raise Unreadable("the } of a ${ is missing")
            if here == "$":
                self._dollar(inside, in_quotes=True)
            elif here == "`":
                self._backtick(inside)
            elif here == '"':
                self.at += 1
                self._double_quoted(inside, '"')
            elif here == "\\":
                self.at += 2
            else:
                self.at += 1
        self.at += 1

    def _backtick(self, draft: _Draft) -> None:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "`":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise Unreadable("a ` is not closed")
        inner = type(self)(re.sub(r"\\([`\\$])", r"\1", self.text[self.at + 1 : end]), self.variables, self.depth)
        self._shells += 1
        inner._nest = (*self._nest, self._shells)
        with inner._deeper():
            inner.commands("")
        self.at = end + 1
        self.found.extend(inner.found)
        draft.inner.extend(inner.found)
        draft.parts.append(self._output_of(tuple(inner.found)))

    def _file_of_commands(self) -> Word:
        """`<( )` and `>( )`."""
        self.at += 2
        return Word(UNKNOWN, inner=self._inside(")"))

    def _ansi_quoted(self) -> str:
        end = self.at + 2
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise Unreadable("a $' is not closed")
        raw, self.at = self.text[self.at + 2 : end], end + 1
        return _ESCAPED.sub(_unescaped, raw)

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """Keeps nesting, and with it our own recursion, within bounds."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unreadable(f"commands stand inside each other more than {_DEEPEST} deep")
        yield
        self.depth -= 1

    def _arithmetic(self, text: str) -> None:
        """`(( ))`. Bash computes; other shells take the brackets for subshells, so both are read."""
        self._expansions_in(text)
        inner = type(self)(text, dict(self.variables), self.depth)
        inner._nest = self._nest
        with suppress(Unreadable), inner._deeper():
            inner.commands("")
        self.found.extend(inner.found)

    def _arithmetic_end(self, start: int) -> int | None:
        """Behind the `))` of an arithmetic expression; None where the brackets are subshells after all."""
        open_brackets = 0
        for at in range(start, len(self.text)):
            if self.text[at] == "(":
                open_brackets += 1
            elif self.text[at] == ")":
                if open_brackets == 0:
                    return at + 2 if self.text.startswith("))", at) else None
                open_brackets -= 1
        return None

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip_blanks(self) -> None:
        while True:
            here = self._peek()
            if here and here in BLANK:
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif here == "#" and (self.at == 0 or self.text[self.at - 1] in ENDS_WORD):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _until(self, mark: str, start: int) -> str:
        end = self.text.find(mark, start)
        if end < 0:
            raise Unreadable(f"a {mark} is not closed")
        self.at = end + 1
        return self.text[start:end]


def words_of(word: Word) -> list[Word]:
    """The words that the shell makes of one: at blanks out of a variable, and out of braces."""
    texts = word.text.split() if word.is_split else [word.text]
    if word.is_pattern and "{" in word.text and "," in word.text:
        texts = [one for text in texts for one in _out_of_braces(text, _MOST_OUT_OF_BRACES)]
    if texts == [word.text]:
        return [word]
    # Braces that are left were too many: what comes out of them is not known.
    return [
        replace(word, text=text, is_pattern=any(sign in text for sign in "*?[") or "{" in text, is_split=False)
        for text in texts
    ]


def _out_of_braces(text: str, most: int) -> list[str]:
    """`a{b,c}` is ab and ac. Innermost braces first, so that no comma of one inside is taken for theirs."""
    found = _BRACES.search(text)
    if found is None or most <= 1:
        return [text]
    made = [text[: found.start()] + one + text[found.end() :] for one in found[1].split(",")]
    return [one for each in made for one in _out_of_braces(each, most // len(made))]


@dataclass(slots=True)
class _Draft:
    parts: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    inner: list[Simple] = field(default_factory=list)
    is_pattern: bool = False
    is_quoted: bool = False
    has_brace: bool = False
    is_split: bool = False

    def word(self) -> Word:
        text = "".join(self.parts)
        return Word(text, tuple(self.variables), tuple(self.inner), self.is_pattern, self.is_quoted, self.is_split)


_ESCAPED = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    return chr(int(code, 8)) if code[0] in "01234567" else _LETTERS.get(code, code)
