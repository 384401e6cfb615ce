"""A shell command line taken apart into the simple commands it would run, for whoever judges them.

Reads what models write for bash: quotes, pipes, lists, subshells, substitutions, loops, functions, heredocs. It runs
nothing and expands only what is certain: variables set on the same line or given. What is known only when it runs
stands as `UNKNOWN` in a word. A text that cannot be taken apart is `Unreadable`, never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from clew.errors import ClewError

UNKNOWN = "\ufffc"
MOST_CHARS = 200_000
MOST_COMMANDS = 2_000
_DEEPEST = 24
_BLANK = " \t"
_ENDS_WORD = " \t\n;&|<>()"
_NAME = re.compile(r"[A-Za-z_]\w*")
_SETTING = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
_REDIRECT = re.compile(r"(?:\d+|\{\w+\})?(<<<|<<-?|<>|<&|>>|>&|>\||<|>)|(&>>?)")
_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|[;&|]")
_BEFORE_COMMAND = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "time", "{", "coproc"})
_AFTER_COMMAND = frozenset({"fi", "done", "esac", "}"})


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


def read_line(text: str, variables: Mapping[str, str] | None = None, depth: int = 0) -> Line:
    """The commands of a line. Raises Unreadable."""
    if len(text) > MOST_CHARS:
        raise Unreadable(f"it has {len(text):,} chars, more than {MOST_CHARS:,}")
    reader = _Reader(text, dict(variables or {}), depth)
    reader.commands("")
    return Line(tuple(reader.found), frozenset(reader.functions))


class _Reader:
    """Goes over the text once, from left to right."""

    def __init__(self, text: str, variables: dict[str, str], depth: int) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.variables = variables
        self.found: list[Simple] = []
        self.functions: set[str] = set()
        self._left: Simple | None = None
        self._nest: tuple[int, ...] = ()
        self._shells = 0
        self._heredocs: list[tuple[Simple, str, bool, bool]] = []
        self._cases = 0
        self._wants_pattern = False

    # -- lists of commands ---------------------------------------------------------------------------------------------

    def commands(self, closing: str) -> None:
        """Reads to the closing bracket, or to the end."""
        while True:
            self._skip_blanks()
            here = self._peek()
            if not here:
                self._read_heredocs()
                if closing:
                    raise Unreadable(f"a {closing!r} is missing")
                return
            if self._wants_pattern:
                self._case_pattern()
            elif here == closing:
                self.at += 1
                return
            elif here == "\n":
                self.at += 1
                self._read_heredocs()
            elif here == "(":
                self._subshell()
            elif here == ")":
                raise Unreadable("a ')' stands alone")
            elif (operator := _OPERATOR.match(self.text, self.at)) and not self.text.startswith("&>", self.at):
                self._take_operator(operator[0])
            else:
                self._simple()

    def _take_operator(self, operator: str) -> None:
        self.at += len(operator)
        self._left = self.found[-1] if operator in {"|", "|&"} and self.found else None
        if operator.startswith(";") and len(operator) > 1 and self._cases:
            self._wants_pattern = True

    def _subshell(self) -> None:
        if self.text.startswith("((", self.at):
            ends = self._arithmetic_end(self.at + 2)
            if ends is not None:
                self._arithmetic(self.text[self.at + 2 : ends - 2])
                self.at = ends
                return
        self.at += 1
        self._inside(")")

    def _arithmetic(self, text: str) -> None:
        """`(( ))`. Bash computes; other shells take the brackets for subshells, so both are read."""
        self._expansions_in(text)
        inner = _Reader(text, dict(self.variables), self.depth)
        inner._nest = self._nest
        with suppress(Unreadable), inner._deeper():
            inner.commands("")
        self.found.extend(inner.found)

    def _inside(self, closing: str) -> tuple[Simple, ...]:
        """Commands of a shell of their own."""
        outer, first, cases = self._nest, len(self.found), (self._cases, self._wants_pattern)
        self._shells += 1
        self._nest = (*outer, self._shells)
        self._cases, self._wants_pattern = 0, False
        with self._deeper():
            self.commands(closing)
        self._nest = outer
        self._cases, self._wants_pattern = cases
        return tuple(self.found[first:])

    def _case_pattern(self) -> None:
        """`a | b)` before the commands of a case, or the end of it."""
        self._wants_pattern = False
        while self._peek() in ("\n", " ", "\t"):
            self.at += 1
        if self._peek() == "(":
            self.at += 1
        while (here := self._peek()) != ")":
            if not here or here in "\n;&<>(":
                raise Unreadable("a pattern of `case` has no ')'")
            if here in _BLANK or here == "|":
                self.at += 1
                continue
            if self._word().text == "esac":
                self._cases -= 1
                return
            self._skip_blanks()
        self.at += 1

    # -- one command ---------------------------------------------------------------------------------------------------

    def _simple(self) -> None:
        command = Simple(nest=self._nest, left=self._left)
        start = self.at
        while True:
            self._skip_blanks()
            here = self._peek()
            if redirect := _REDIRECT.match(self.text, self.at):
                if redirect[0] in "<>" and self.text.startswith("(", self.at + 1):
                    command.words.append(self._file_of_commands())
                else:
                    self._redirect(command, redirect)
                continue
            if here == "(":
                self._function(command)
                return
            if not here or here in _ENDS_WORD:
                break
            if self._reserved(command):
                return
            if not command.words and self._setting(command):
                continue
            command.words.append(self._word())
        command.source = self.text[start : self.at].strip()
        self._add(command)

    def _add(self, command: Simple) -> None:
        self._left = None
        if not command.words:
            for name, value in command.settings:
                self._set(name, value)
        elif command.words[0].text in {"export", "declare", "local", "readonly", "typeset"}:
            for word in command.words[1:]:
                if setting := _SETTING.match(word.text):
                    self._set(setting[1], Word(word.text[setting.end() :]))
        elif command.words[0].text in {"read", "unset", "mapfile", "readarray", "getopts"}:
            for word in command.words[1:]:
                self.variables.pop(word.text, None)
        elif command.words[0].text in {"cd", "pushd", "popd"}:
            self.variables["PWD"] = UNKNOWN
        if command.words or command.redirects or command.settings:
            self.found.append(command)
            if len(self.found) > MOST_COMMANDS:
                raise Unreadable(f"it has more than {MOST_COMMANDS:,} commands")

    def _set(self, name: str, value: Word) -> None:
        # A loop or a branch may set it otherwise: a second value makes it uncertain.
        if value.is_known and name not in self.variables:
            self.variables[name] = value.text
        elif self.variables.get(name) != value.text:
            self.variables[name] = UNKNOWN

    def _reserved(self, command: Simple) -> bool:
        """Takes a reserved word where a command begins; whether the command is over with it."""
        if command.words or command.settings or command.redirects:
            return False
        ends = self.at
        while ends < len(self.text) and self.text[ends] not in _ENDS_WORD:
            ends += 1
        word = self.text[self.at : ends]
        if word in _BEFORE_COMMAND:
            self.at = ends
            return True
        if word in _AFTER_COMMAND:
            self.at = ends
            self._cases -= word == "esac"
            return self._after_group()
        if word in {"for", "select"}:
            self.at = ends
            return self._loop_head()
        if word == "case":
            self.at = ends
            return self._case_head()
        if word == "[[":
            return self._test()
        if word == "function":
            self.at = ends
            self._skip_blanks()
            self.functions.add(self._word().text)
            self._skip_blanks()
            if self.text.startswith("()", self.at):
                self.at += 2
            return True
        return False

    def _after_group(self) -> bool:
        """Redirects of a whole loop or group stand after it."""
        command = Simple(nest=self._nest)
        self._skip_blanks()
        while redirect := _REDIRECT.match(self.text, self.at):
            if redirect[0] in "<>" and self.text.startswith("(", self.at + 1):
                self._file_of_commands()
            else:
                self._redirect(command, redirect)
            self._skip_blanks()
        if command.redirects:
            # Before the last: what a group prints into a pipe is what its last command prints.
            self.found.insert(max(0, len(self.found) - 1), command)
        return True

    def _loop_head(self) -> bool:
        """`for x in a b`; `for ((...))`. The words are no command, but substitutions in them run."""
        self._skip_blanks()
        if self._peek() == "(":
            self._subshell()
            return True
        self.variables[self._word().text] = UNKNOWN
        self._skip_blanks()
        while (here := self._peek()) and here not in _ENDS_WORD:
            self._word()
            self._skip_blanks()
        return True

    def _case_head(self) -> bool:
        self._skip_blanks()
        self._word()
        while self._peek() in (" ", "\t", "\n"):
            self.at += 1
        if self._word().text != "in":
            raise Unreadable("`case` has no `in`")
        self._cases += 1
        self._wants_pattern = True
        return True

    def _test(self) -> bool:
        """`[[ a < b && c ]]`: operators in it are no pipes and no files."""
        command = Simple(nest=self._nest, left=self._left)
        start = self.at
        while True:
            here = self._peek()
            if not here:
                raise Unreadable("']]' is missing")
            if here in _ENDS_WORD:
                self.at += 1
                continue
            command.words.append(self._word())
            if command.words[-1].text == "]]":
                command.source = self.text[start : self.at]
                self._add(command)
                return True

    def _function(self, command: Simple) -> None:
        """`name()`: what follows is its body, read as any command. Anything else with a bracket is a mistake."""
        close = re.compile(r"\([ \t]*\)").match(self.text, self.at)
        if len(command.words) != 1 or command.redirects or close is None:
            raise Unreadable("a '(' stands where none can")
        self.at = close.end()
        self.functions.add(command.words[0].text)

    def _setting(self, command: Simple) -> bool:
        """Takes `X=value` before a command."""
        setting = _SETTING.match(self.text, self.at)
        if setting is None:
            return False
        self.at = setting.end()
        if self._peek() == "(":
            self._array()
            command.settings.append((setting[1], Word(UNKNOWN)))
        elif (here := self._peek()) and here not in _ENDS_WORD:
            command.settings.append((setting[1], self._word()))
        else:
            command.settings.append((setting[1], Word("")))
        return True

    def _array(self) -> None:
        self.at += 1
        while (here := self._peek()) != ")":
            if here and here in " \t\n":
                self.at += 1
            elif not here or here in _ENDS_WORD:
                raise Unreadable("the ')' of an array is missing")
            else:
                self._word()
        self.at += 1

    # -- redirects -----------------------------------------------------------------------------------------------------

    def _redirect(self, command: Simple, found: re.Match[str]) -> None:
        operator = found[1] or found[2]
        self.at = found.end()
        self._skip_blanks()
        here = self._peek()
        if here in ("<", ">") and self.text.startswith("(", self.at + 1):
            command.redirects.append(Redirect(operator, self._file_of_commands()))
            return
        if not here or here in _ENDS_WORD:
            raise Unreadable(f"nothing follows {operator!r}")
        start = self.at
        target = self._word()
        if operator in {"<<", "<<-"}:
            is_quoted = any(mark in self.text[start : self.at] for mark in "'\"\\")
            self._heredocs.append((command, target.text, is_quoted, operator == "<<-"))
            return
        if operator == "<<<":
            command.text_in = target.text
        command.redirects.append(Redirect(operator, target))

    def _read_heredocs(self) -> None:
        """The lines after this one up to each delimiter."""
        waiting, self._heredocs = self._heredocs, []
        for command, delimiter, is_quoted, drops_tabs in waiting:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                self.at = min(end + 1, len(self.text))
                line = line.lstrip("\t") if drops_tabs else line
                if line == delimiter:
                    break
                lines.append(line)
            body = "\n".join(lines)
            command.text_in = body if is_quoted else self._expansions_in(body)

    # -- words ---------------------------------------------------------------------------------------------------------

    def _word(self) -> Word:
        """One word, up to a blank or an operator outside quotes."""
        draft = _Draft()
        while (here := self._peek()) and here not in _ENDS_WORD:
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
        inner = _Reader(text, self.variables, self.depth)
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
            self._braced(draft)
        elif after == "'" and not in_quotes:
            draft.is_quoted = True
            draft.parts.append(self._ansi_quoted())
        elif after == '"' and not in_quotes:
            self.at += 1
        elif name := _NAME.match(self.text, self.at + 1):
            self.at = name.end()
            self._value(draft, name[0])
        elif after and after in "@*#?-$!0123456789":
            self.at += 2
            self._value(draft, after)
        else:
            draft.parts.append("$")
            self.at += 1

    def _value(self, draft: _Draft, name: str) -> None:
        draft.variables.append(name)
        draft.parts.append(self.variables.get(name, UNKNOWN))

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
        return " ".join(rest) if name == "echo" and not any(word.startswith("-") for word in rest) else UNKNOWN

    def _braced(self, draft: _Draft) -> None:
        """`${...}`: a value that is certain only where nothing is done to it."""
        simple = re.compile(r"\$\{([A-Za-z_]\w*|[@*#?$!\d])\}").match(self.text, self.at)
        if simple is not None:
            self.at = simple.end()
            self._value(draft, simple[1])
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
        inner = _Reader(re.sub(r"\\([`\\$])", r"\1", self.text[self.at + 1 : end]), self.variables, self.depth)
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

    # -- chars ---------------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip_blanks(self) -> None:
        while True:
            here = self._peek()
            if here and here in _BLANK:
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif here == "#" and (self.at == 0 or self.text[self.at - 1] in _ENDS_WORD):
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


@dataclass(slots=True)
class _Draft:
    parts: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    inner: list[Simple] = field(default_factory=list)
    is_pattern: bool = False
    is_quoted: bool = False
    has_brace: bool = False

    def word(self) -> Word:
        text = "".join(self.parts)
        return Word(text, tuple(self.variables), tuple(self.inner), self.is_pattern, self.is_quoted)


_ESCAPED = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    return chr(int(code, 8)) if code[0] in "01234567" else _LETTERS.get(code, code)


def joined(words: Iterable[Word]) -> str:
    """Words as one text, as `eval` sees them."""
    return " ".join(word.text for word in words)
