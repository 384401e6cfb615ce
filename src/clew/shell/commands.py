"""Reads a shell command line into simple commands: lists, pipes, subshells, loops, functions, redirects, heredocs.

It reads what models write for bash, and expands only what is certain: variables that are set on the same line or given.
What is known only when the line runs is `UNKNOWN` in a word. A text that cannot be read raises `UnreadableCommand`;
nothing is guessed. Words are read in `clew.shell.words`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from clew.errors import UnreadableCommand
from clew.shell.words import (
    BLANKS,
    UNKNOWN,
    WORD_END_CHARS,
    CommandLine,
    Redirect,
    SimpleCommand,
    Word,
    WordReader,
    expand_word,
)

MAX_CHARS = 200_000
MAX_COMMANDS = 2_000
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?\+?=")
_REDIRECT = re.compile(r"(?:\d+|\{\w+\})?(<<<|<<-?|<>|<&|>>|>&|>\||<|>)|(&>>?)")
_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|[;&|]")
_TIME_OPTION = re.compile(r"[ \t]+-p(?=[ \t])")
_BEFORE_COMMAND = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "time", "{", "coproc"})
_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset"})
_AFTER_COMMAND = frozenset({"fi", "done", "esac", "}"})


def read_command_line(text: str, variables: Mapping[str, str] | None = None, depth: int = 0) -> CommandLine:
    """The commands of a line. Raises Unreadable."""
    if len(text) > MAX_CHARS:
        raise UnreadableCommand(f"it has {len(text):,} chars, more than {MAX_CHARS:,}")
    reader = _CommandReader(text, {"IFS": " ", **(variables or {})}, depth)
    reader.read_commands("")
    return CommandLine(tuple(reader.found), frozenset(reader.functions))


class _CommandReader(WordReader):
    """Reads the text once, from left to right; this class reads commands, its base class words."""

    def __init__(self, text: str, variables: dict[str, str], depth: int) -> None:
        super().__init__(text, variables, depth)
        self.functions: set[str] = set()
        self._heredocs: list[tuple[SimpleCommand, str, bool, bool]] = []
        self._cases = 0
        self._wants_pattern = False
        self._assigned: set[str] = set()

    # -- lists of commands ---------------------------------------------------------------------------------------------

    def read_commands(self, closing: str) -> None:
        """Read to the closing bracket, or to the end."""
        while True:
            self._skip_blanks()
            here = self._peek()
            if not here:
                self._read_heredocs()
                if closing:
                    raise UnreadableCommand(f"a {closing!r} is missing")
                return
            if self._wants_pattern:
                self._read_case_pattern()
            elif here == closing:
                self.at += 1
                return
            elif here == "\n":
                self.at += 1
                self._read_heredocs()
            elif here == "(":
                self._read_subshell_or_arithmetic()
            elif here == ")":
                raise UnreadableCommand("a ')' stands alone")
            elif (operator := _OPERATOR.match(self.text, self.at)) and not self.text.startswith("&>", self.at):
                self._read_operator(operator[0])
            else:
                self._read_simple_command()

    def _read_operator(self, operator: str) -> None:
        self.at += len(operator)
        self._pipe_source = self.found[-1] if operator in {"|", "|&"} and self.found else None
        if operator.startswith(";") and len(operator) > 1 and self._cases:
            self._wants_pattern = True

    def _read_subshell_or_arithmetic(self) -> None:
        if self.text.startswith("((", self.at):
            ends = self._arithmetic_end(self.at + 2)
            if ends is not None:
                self._read_arithmetic(self.text[self.at + 2 : ends - 2])
                self.at = ends
                return
        self.at += 1
        self._read_subshell(")")

    def _read_subshell(self, closing: str) -> tuple[SimpleCommand, ...]:
        """Read the commands of a subshell."""
        outer, first, cases = self._subshells, len(self.found), (self._cases, self._wants_pattern)
        self._subshell_count += 1
        self._subshells = (*outer, self._subshell_count)
        self._cases, self._wants_pattern = 0, False
        with self._nested():
            self.read_commands(closing)
        self._subshells = outer
        self._cases, self._wants_pattern = cases
        return tuple(self.found[first:])

    def _read_case_pattern(self) -> None:
        """Read `a | b)` before the commands of a case, or the end of the case."""
        self._wants_pattern = False
        while self._peek() in ("\n", " ", "\t"):
            self.at += 1
        if self._peek() == "(":
            self.at += 1
        while (here := self._peek()) != ")":
            if not here or here in "\n;&<>(":
                raise UnreadableCommand("a pattern of `case` has no ')'")
            if here in BLANKS or here == "|":
                self.at += 1
                continue
            if self._read_word().text == "esac":
                self._cases -= 1
                return
            self._skip_blanks()
        self.at += 1

    # -- one command ---------------------------------------------------------------------------------------------------

    def _read_simple_command(self) -> None:
        command = SimpleCommand(subshells=self._subshells, piped_from=self._pipe_source)
        start = self.at
        while True:
            self._skip_blanks()
            here = self._peek()
            if redirect := _REDIRECT.match(self.text, self.at):
                if redirect[0] in "<>" and self.text.startswith("(", self.at + 1):
                    command.words.append(self._read_process_substitution())
                else:
                    self._read_redirect(command, redirect)
                continue
            if here == "(" and self._sets_array(command):
                self._read_array()
                continue
            if here == "(":
                self._read_function(command)
                return
            if not here or here in WORD_END_CHARS:
                break
            if self._read_reserved_word(command):
                return
            if not command.words and self._read_assignment(command):
                continue
            command.words += expand_word(self._read_word())
        command.source = self.text[start : self.at].strip()
        self._add(command)

    def _add(self, command: SimpleCommand) -> None:
        self._pipe_source = None
        if not command.words:
            for name, value in command.assignments:
                self._assign(name, value)
        elif command.words[0].text in _DECLARES:
            for word in command.words[1:]:
                if assignment := _ASSIGNMENT.match(word.text):
                    self._assign(assignment[1], Word(word.text[assignment.end() :]))
        elif command.words[0].text in {"read", "unset", "mapfile", "readarray", "getopts"}:
            for word in command.words[1:]:
                self.variables.pop(word.text, None)
        elif command.words[0].text == "printf" and [word.text for word in command.words[1:2]] == ["-v"]:
            self._assign(command.words[2].text if len(command.words) > 2 else "", Word(UNKNOWN))
        elif command.words[0].text in {"eval", "source", "."}:
            self.variables.update(dict.fromkeys(self._assigned, UNKNOWN))
        elif command.words[0].text in {"cd", "pushd", "popd"}:
            self.variables["PWD"] = UNKNOWN
        if command.words or command.redirects or command.assignments:
            self.found.append(command)
            if len(self.found) > MAX_COMMANDS:
                raise UnreadableCommand(f"it has more than {MAX_COMMANDS:,} commands")

    def _assign(self, name: str, value: Word) -> None:
        self._assigned.add(name)
        # A loop or a branch may assign another value: then it is unknown.
        if value.is_known and name not in self.variables:
            self.variables[name] = value.text
        elif self.variables.get(name) != value.text:
            self.variables[name] = UNKNOWN

    def _read_reserved_word(self, command: SimpleCommand) -> bool:
        """Read a reserved word where a command begins; returns whether the command ends with it."""
        if command.words or command.assignments or command.redirects:
            return False
        ends = self.at
        while ends < len(self.text) and self.text[ends] not in WORD_END_CHARS:
            ends += 1
        word = self.text[self.at : ends]
        if word in _BEFORE_COMMAND:
            self.at = ends
            if word == "time" and (option := _TIME_OPTION.match(self.text, self.at)):
                self.at = option.end()
            return True
        if word in _AFTER_COMMAND:
            self.at = ends
            self._cases -= word == "esac"
            return self._read_group_redirects()
        if word in {"for", "select"}:
            self.at = ends
            return self._read_loop_head()
        if word == "case":
            self.at = ends
            return self._read_case_head()
        if word == "[[":
            return self._read_test()
        if word == "function":
            self.at = ends
            self._skip_blanks()
            self.functions.add(self._read_word().text)
            self._skip_blanks()
            if self.text.startswith("()", self.at):
                self.at += 2
            return True
        return False

    def _read_group_redirects(self) -> bool:
        """Read the redirects after a loop or group."""
        command = SimpleCommand(subshells=self._subshells)
        self._skip_blanks()
        while redirect := _REDIRECT.match(self.text, self.at):
            if redirect[0] in "<>" and self.text.startswith("(", self.at + 1):
                self._read_process_substitution()
            else:
                self._read_redirect(command, redirect)
            self._skip_blanks()
        if command.redirects:
            # Before the last: what a group prints into a pipe is what its last command prints.
            self.found.insert(max(0, len(self.found) - 1), command)
        return True

    def _read_loop_head(self) -> bool:
        """Read `for x in a b` or `for ((...))`. The words are no command, but substitutions in them run."""
        self._skip_blanks()
        if self._peek() == "(":
            self._read_subshell_or_arithmetic()
            return True
        name = self._read_word().text
        self._skip_blanks()
        words: list[Word] = []
        while (here := self._peek()) and here not in WORD_END_CHARS:
            words += expand_word(self._read_word())
            self._skip_blanks()
        values = words[1:]
        # With one value, a pattern perhaps, the variable is that value; commands are read once, not for each.
        self.variables[name] = values[0].text if len(values) == 1 else UNKNOWN
        if values and values[0].text:
            self.found.append(SimpleCommand([Word("for"), *values], subshells=self._subshells))
        return True

    def _read_case_head(self) -> bool:
        self._skip_blanks()
        self._read_word()
        while self._peek() in (" ", "\t", "\n"):
            self.at += 1
        if self._read_word().text != "in":
            raise UnreadableCommand("`case` has no `in`")
        self._cases += 1
        self._wants_pattern = True
        return True

    def _read_test(self) -> bool:
        """Read `[[ a < b && c ]]`: operators in it are no pipes and no redirects."""
        command = SimpleCommand(subshells=self._subshells, piped_from=self._pipe_source)
        start = self.at
        while True:
            here = self._peek()
            if not here:
                raise UnreadableCommand("']]' is missing")
            if here in WORD_END_CHARS:
                self.at += 1
                continue
            command.words.append(self._read_word())
            if command.words[-1].text == "]]":
                command.source = self.text[start : self.at]
                self._add(command)
                return True

    def _read_function(self, command: SimpleCommand) -> None:
        """Read `name()`; its body follows as any command. Any other bracket here is an error."""
        close = re.compile(r"\([ \t]*\)").match(self.text, self.at)
        if len(command.words) != 1 or command.redirects or close is None:
            raise UnreadableCommand("a '(' stands where none can")
        self.at = close.end()
        self.functions.add(command.words[0].text)

    def _read_assignment(self, command: SimpleCommand) -> bool:
        """Read `X=value` before a command; returns whether there is one."""
        assignment = _ASSIGNMENT.match(self.text, self.at)
        if assignment is None:
            return False
        self.at = assignment.end()
        if assignment[2]:
            self._expand_text(assignment[2])
        if self._peek() == "(":
            self._read_array()
            command.assignments.append((assignment[1], Word(UNKNOWN)))
        elif (here := self._peek()) and here not in WORD_END_CHARS:
            command.assignments.append((assignment[1], self._read_word()))
        else:
            command.assignments.append((assignment[1], Word("")))
        return True

    def _sets_array(self, command: SimpleCommand) -> bool:
        """Whether a bracket belongs to the word before it: `declare -a x=(`."""
        return bool(command.words) and command.words[0].text in _DECLARES and self.text[self.at - 1] == "="

    def _read_array(self) -> None:
        self.at += 1
        while (here := self._peek()) != ")":
            if here and here in " \t\n":
                self.at += 1
            elif not here or here in WORD_END_CHARS:
                raise UnreadableCommand("the ')' of an array is missing")
            else:
                self._read_word()
        self.at += 1

    # -- redirects -----------------------------------------------------------------------------------------------------

    def _read_redirect(self, command: SimpleCommand, found: re.Match[str]) -> None:
        operator = found[1] or found[2]
        self.at = found.end()
        self._skip_blanks()
        here = self._peek()
        if here in ("<", ">") and self.text.startswith("(", self.at + 1):
            command.redirects.append(Redirect(operator, self._read_process_substitution()))
            return
        if not here or here in WORD_END_CHARS:
            raise UnreadableCommand(f"nothing follows {operator!r}")
        start = self.at
        target = self._read_word()
        if operator in {"<<", "<<-"}:
            is_quoted = any(mark in self.text[start : self.at] for mark in "'\"\\")
            self._heredocs.append((command, target.text, is_quoted, operator == "<<-"))
            return
        if operator == "<<<":
            command.stdin_text = target.text
        command.redirects.append(Redirect(operator, target))

    def _read_heredocs(self) -> None:
        """Read the heredocs of this line, each up to its delimiter."""
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
            command.stdin_text = body if is_quoted else self._expand_text(body)
