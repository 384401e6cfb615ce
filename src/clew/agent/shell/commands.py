"""A shell command line taken apart into the simple commands it would run, for whoever judges them.

Reads what models write for bash: quotes, pipes, lists, subshells, substitutions, loops, functions, heredocs. It runs
nothing and expands only what is certain: variables set on the same line or given. What is known only when it runs
stands as `UNKNOWN` in a word. A text that cannot be taken apart is `Unreadable`, never guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from clew.agent.shell.values import UNKNOWN, Line, Redirect, Simple, Unreadable, Word, joined
from clew.agent.shell.words import BLANK, ENDS_WORD, WordReader, words_of

MOST_CHARS = 200_000
MOST_COMMANDS = 2_000
_SETTING = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?\+?=")
_REDIRECT = re.compile(r"(?:\d+|\{\w+\})?(<<<|<<-?|<>|<&|>>|>&|>\||<|>)|(&>>?)")
_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|[;&|]")
_BEFORE_COMMAND = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "time", "{", "coproc"})
_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset"})
_AFTER_COMMAND = frozenset({"fi", "done", "esac", "}"})


def read_line(text: str, variables: Mapping[str, str] | None = None, depth: int = 0) -> Line:
    """The commands of a line. Raises Unreadable."""
    if len(text) > MOST_CHARS:
        raise Unreadable(f"it has {len(text):,} chars, more than {MOST_CHARS:,}")
    reader = _Reader(text, {"IFS": " ", **(variables or {})}, depth)
    reader.commands("")
    return Line(tuple(reader.found), frozenset(reader.functions))


class _Reader(WordReader):
    """Goes over the text once, from left to right; this half knows commands."""

    def __init__(self, text: str, variables: dict[str, str], depth: int) -> None:
        super().__init__(text, variables, depth)
        self.functions: set[str] = set()
        self._heredocs: list[tuple[Simple, str, bool, bool]] = []
        self._cases = 0
        self._wants_pattern = False
        self._set_here: set[str] = set()

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
            if here in BLANK or here == "|":
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
            if here == "(" and self._sets_array(command):
                self._array()
                continue
            if here == "(":
                self._function(command)
                return
            if not here or here in ENDS_WORD:
                break
            if self._reserved(command):
                return
            if not command.words and self._setting(command):
                continue
            command.words += words_of(self._word())
        command.source = self.text[start : self.at].strip()
        self._add(command)

    def _add(self, command: Simple) -> None:
        self._left = None
        if not command.words:
            for name, value in command.settings:
                self._set(name, value)
        elif command.words[0].text in _DECLARES:
            for word in command.words[1:]:
                if setting := _SETTING.match(word.text):
                    self._set(setting[1], Word(word.text[setting.end() :]))
        elif command.words[0].text in {"read", "unset", "mapfile", "readarray", "getopts"}:
            for word in command.words[1:]:
                self.variables.pop(word.text, None)
        elif command.words[0].text == "printf" and [word.text for word in command.words[1:2]] == ["-v"]:
            self._set(command.words[2].text if len(command.words) > 2 else "", Word(UNKNOWN))
        elif command.words[0].text in {"eval", "source", "."}:
            self.variables.update(dict.fromkeys(self._set_here, UNKNOWN))
        elif command.words[0].text in {"cd", "pushd", "popd"}:
            self.variables["PWD"] = UNKNOWN
        if command.words or command.redirects or command.settings:
            self.found.append(command)
            if len(self.found) > MOST_COMMANDS:
                raise Unreadable(f"it has more than {MOST_COMMANDS:,} commands")

    def _set(self, name: str, value: Word) -> None:
        self._set_here.add(name)
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
        while ends < len(self.text) and self.text[ends] not in ENDS_WORD:
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
        while (here := self._peek()) and here not in ENDS_WORD:
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
            if here in ENDS_WORD:
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
        if setting[2]:
            self._expansions_in(setting[2])
        if self._peek() == "(":
            self._array()
            command.settings.append((setting[1], Word(UNKNOWN)))
        elif (here := self._peek()) and here not in ENDS_WORD:
            command.settings.append((setting[1], self._word()))
        else:
            command.settings.append((setting[1], Word("")))
        return True

    def _sets_array(self, command: Simple) -> bool:
        """`declare -a x=(`: the bracket belongs to the word before it."""
        return bool(command.words) and command.words[0].text in _DECLARES and self.text[self.at - 1] == "="

    def _array(self) -> None:
        self.at += 1
        while (here := self._peek()) != ")":
            if here and here in " \t\n":
                self.at += 1
            elif not here or here in ENDS_WORD:
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
        if not here or here in ENDS_WORD:
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


__all__ = ["UNKNOWN", "Line", "Redirect", "Simple", "Unreadable", "Word", "joined", "read_line"]
