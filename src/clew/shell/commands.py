"""Reads a shell command line into simple commands: lists, pipes, subshells, loops, functions, redirects, heredocs.

It reads what models write for bash, and expands only what is certain: variables that are set on the same line or given.
What is known only when the line runs is `UNKNOWN` in a word. A text that cannot be read raises `UnreadableCommand`;
nothing is guessed. A word's text is what is left after quotes, variables and substitutions, as far as that is certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from clew.errors import UnreadableCommand

UNKNOWN = "\ufffc"
"""In a word: text that is known only when the line runs."""
_WORD_END_CHARS = " \t\n;&|<>()"
_BLANKS = " \t"
_MAX_DEPTH = 24
_NAME = re.compile(r"[A-Za-z_]\w*")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MAX_EXPANSIONS = 256


_MAX_CHARS = 200_000
_MAX_COMMANDS = 2_000
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]]*)\])?\+?=")
_REDIRECT = re.compile(r"(?:\d+|\{\w+\})?(<<<|<<-?|<>|<&|>>|>&|>\||<|>)|(&>>?)")
_OPERATOR = re.compile(r";;&|;;|;&|&&|\|\||\|&|[;&|]")
_TIME_OPTION = re.compile(r"[ \t]+-p(?=[ \t])")
_BEFORE_COMMAND = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "time", "{", "coproc"})
_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset"})
_AFTER_COMMAND = frozenset({"fi", "done", "esac", "}"})


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, quotes removed."""

    text: str
    variables: tuple[str, ...] = ()
    """Names of the variables in it, whether their values are known or not."""
    substitutions: tuple[SimpleCommand, ...] = ()
    """Commands whose output becomes part of it, or (`<( )`) the file it names."""
    is_glob: bool = False
    """Has *, ?, [ ] or { , } outside quotes: it may become other words."""
    is_split: bool = False
    """Has blanks from a variable outside quotes: the shell splits it."""

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
class SimpleCommand:
    """One command with its words. Not frozen: the text of a heredoc follows its line."""

    words: list[Word] = field(default_factory=list)
    assignments: list[tuple[str, Word]] = field(default_factory=list)
    """`X=1` before the command, or alone."""
    redirects: list[Redirect] = field(default_factory=list)
    stdin_text: str | None = None
    """Standard input, where it is on the line: a heredoc or a here-string."""
    piped_from: SimpleCommand | None = None
    """The command whose output it reads."""
    subshells: tuple[int, ...] = ()
    """Numbers of the subshells around it: a `cd` in one has no effect outside."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Everything that a command line would run, in order; substitutions before the command they are in."""

    commands: tuple[SimpleCommand, ...]
    functions: frozenset[str] = frozenset()


def join_words(words: Iterable[Word]) -> str:
    """Words as one text, as `eval` runs them."""
    return " ".join(word.text for word in words)


def read_command_line(text: str, variables: Mapping[str, str] | None = None, depth: int = 0) -> CommandLine:
    """The commands of a line. Raises UnreadableCommand."""
    if len(text) > _MAX_CHARS:
        raise UnreadableCommand(f"it has {len(text):,} chars, more than {_MAX_CHARS:,}")
    reader = _Reader(text, {"IFS": " ", **(variables or {})}, depth)
    reader.read_commands("")
    return CommandLine(tuple(reader.found), frozenset(reader.functions))


class _Reader:
    """Reads a text once, from left to right."""

    def __init__(self, text: str, variables: dict[str, str], depth: int, subshells: tuple[int, ...] = ()) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.variables = variables
        self.found: list[SimpleCommand] = []
        self.functions: set[str] = set()
        self._subshells = subshells
        self._subshell_count = 0
        self._pipe_source: SimpleCommand | None = None
        self._heredocs: list[tuple[SimpleCommand, str, bool, bool]] = []
        self._cases = 0
        self._wants_pattern = False
        self._assigned: set[str] = set()

    # -- words -----------------------------------------------------------------------------------------------------

    def _read_word(self) -> Word:
        """Read one word, up to a blank or an operator outside quotes."""
        builder = _WordBuilder()
        while (here := self._peek()) and here not in _WORD_END_CHARS:
            if here == "'":
                builder.parts.append(self._take_until("'", self.at + 1))
            elif here == '"':
                self.at += 1
                self._read_double_quoted(builder, '"')
            elif here == "\\":
                if not self.text.startswith("\n", self.at + 1):
                    builder.parts.append(self.text[self.at + 1 : self.at + 2])
                self.at += 2
            elif here == "$":
                self._read_expansion(builder, in_quotes=False)
            elif here == "`":
                self._read_backtick(builder)
            else:
                builder.is_glob |= here in "*?["
                builder.has_brace |= here == "{"
                builder.is_glob |= here == "," and builder.has_brace
                builder.parts.append(here)
                self.at += 1
        return builder.word()

    def _read_double_quoted(self, builder: _WordBuilder, closing: str) -> None:
        """Read up to the closing quote; without one, to the end, for a heredoc."""
        while True:
            here = self._peek()
            if here == closing:
                self.at += 1
                return
            if not here:
                raise UnreadableCommand('a " is not closed')
            if here == "\\":
                after = self.text[self.at + 1 : self.at + 2]
                builder.parts.append("" if after == "\n" else after if after and after in '$`"\\' else here + after)
                self.at += 2
            elif here == "$":
                self._read_expansion(builder, in_quotes=True)
            elif here == "`":
                self._read_backtick(builder)
            else:
                builder.parts.append(here)
                self.at += 1

    def _expand_text(self, text: str) -> str:
        """Replace variables and substitutions in a text in which quotes mean nothing."""
        inner, builder = _Reader(text, self.variables, self.depth, self._subshells), _WordBuilder()
        with inner._nested():
            inner._read_double_quoted(builder, "")
        self.found.extend(inner.found)
        return builder.word().text

    def _read_expansion(self, builder: _WordBuilder, in_quotes: bool) -> None:
        after = self.text[self.at + 1 : self.at + 2]
        if after == "(":
            self._read_substitution(builder)
        elif after == "{":
            self._read_braced(builder, in_quotes)
        elif after == "'" and not in_quotes:
            builder.parts.append(unescape(self._take_escaped("'", self.at + 2)))
        elif after == '"' and not in_quotes:
            self.at += 1
        elif name := _NAME.match(self.text, self.at + 1):
            self.at = name.end()
            self._add_variable(builder, name[0], in_quotes)
        elif after and after in "@*#?-$!0123456789":
            self.at += 2
            self._add_variable(builder, after, in_quotes)
        else:
            builder.parts.append("$")
            self.at += 1

    def _add_variable(self, builder: _WordBuilder, name: str, in_quotes: bool) -> None:
        value = self.variables.get(name, UNKNOWN)
        builder.variables.append(name)
        builder.parts.append(value)
        builder.is_split |= not in_quotes and any(char.isspace() for char in value)

    def _read_substitution(self, builder: _WordBuilder) -> None:
        if self.text.startswith("$((", self.at) and (ends := self._arithmetic_end(self.at + 3)) is not None:
            self._read_arithmetic(self.text[self.at + 3 : ends - 2])
            self.at = ends
            builder.parts.append(UNKNOWN)
            return
        self.at += 2
        left, self._pipe_source = self._pipe_source, None
        inner = self._read_subshell(")")
        self._pipe_source = left
        builder.substitutions.extend(inner)
        builder.parts.append(self._output_of(inner))

    def _output_of(self, commands: tuple[SimpleCommand, ...]) -> str:
        """What commands print, where that is certain."""
        if len(commands) != 1 or commands[0].redirects or not commands[0].words:
            return UNKNOWN
        name, *rest = (word.text for word in commands[0].words)
        if name == "pwd" and not rest:
            return self.variables.get("PWD", UNKNOWN)
        if name == "cat" and not rest and commands[0].stdin_text is not None:
            return commands[0].stdin_text
        if name == "printf" and len(rest) == 1 and not set("%\\") & set(rest[0]):
            return rest[0]
        return " ".join(rest) if name == "echo" and not any(word.startswith("-") for word in rest) else UNKNOWN

    def _read_braced(self, builder: _WordBuilder, in_quotes: bool) -> None:
        """Read `${...}`: the value is known only where it is used unchanged."""
        simple = re.compile(r"\$\{([A-Za-z_]\w*|[@*#?$!\d])\}").match(self.text, self.at)
        if simple is not None:
            self.at = simple.end()
            self._add_variable(builder, simple[1], in_quotes)
            return
        if name := _NAME.match(self.text, self.at + 2):
            builder.variables.append(name[0])
        elif re.compile(r"\$\{!([A-Za-z_]\w*)[@*]\}").match(self.text, self.at):
            builder.variables.append(UNKNOWN)  # the names of variables, by which their values are read
        elif indirect := re.compile(r"\$\{!([A-Za-z_]\w*)\}").match(self.text, self.at):
            builder.variables.append(self.variables.get(indirect[1], UNKNOWN))
        self.at += 2
        inside = _WordBuilder()
        with self._nested():
            self._read_to_brace(inside)
        builder.substitutions.extend(inside.substitutions)
        builder.variables.extend(inside.variables)
        builder.parts.append(UNKNOWN)

    def _read_to_brace(self, inside: _WordBuilder) -> None:
        while (here := self._peek()) != "}":
            if not here:
                raise UnreadableCommand("the } of a ${ is missing")
            if here == "$":
                self._read_expansion(inside, in_quotes=True)
            elif here == "`":
                self._read_backtick(inside)
            elif here == '"':
                self.at += 1
                self._read_double_quoted(inside, '"')
            elif here == "\\":
                self.at += 2
            else:
                self.at += 1
        self.at += 1

    def _read_backtick(self, builder: _WordBuilder) -> None:
        text = re.sub(r"\\([`\\$])", r"\1", self._take_escaped("`", self.at + 1))
        self._subshell_count += 1
        inner = _Reader(text, self.variables, self.depth, (*self._subshells, self._subshell_count))
        with inner._nested():
            inner.read_commands("")
        self.found.extend(inner.found)
        builder.substitutions.extend(inner.found)
        builder.parts.append(self._output_of(tuple(inner.found)))

    def _read_process_substitution(self) -> Word:
        """`<( )` and `>( )`."""
        self.at += 2
        return Word(UNKNOWN, substitutions=self._read_subshell(")"))

    def _take_escaped(self, mark: str, start: int) -> str:
        """The text up to a mark before which there is no backslash."""
        end = start
        while end < len(self.text) and self.text[end] != mark:
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise UnreadableCommand(f"a {mark} is not closed")
        self.at = end + 1
        return self.text[start:end]

    @contextmanager
    def _nested(self) -> Iterator[None]:
        """Bounds nesting, and with it our own recursion."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnreadableCommand(f"commands are nested more than {_MAX_DEPTH} deep")
        yield
        self.depth -= 1

    def _read_arithmetic(self, text: str) -> None:
        """Read `(( ))` both as arithmetic, as bash does, and as subshells, as other shells do."""
        self._expand_text(text)
        inner = _Reader(text, dict(self.variables), self.depth, self._subshells)
        with suppress(UnreadableCommand), inner._nested():
            inner.read_commands("")
        self.found.extend(inner.found)

    def _arithmetic_end(self, start: int) -> int | None:
        """The end of an arithmetic expression with its `))`; None where the brackets are subshells."""
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
            if here and here in _BLANKS:
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif here == "#" and (self.at == 0 or self.text[self.at - 1] in _WORD_END_CHARS):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def _take_until(self, mark: str, start: int) -> str:
        end = self.text.find(mark, start)
        if end < 0:
            raise UnreadableCommand(f"a {mark} is not closed")
        self.at = end + 1
        return self.text[start:end]

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
                raise UnreadableCommand("a ')' has no matching '('")
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
            if here in _BLANKS or here == "|":
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
            if not here or here in _WORD_END_CHARS:
                break
            if self._read_reserved_word(command):
                return
            if not command.words and self._read_assignment(command):
                continue
            command.words += _expand_word(self._read_word())
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
            if len(self.found) > _MAX_COMMANDS:
                raise UnreadableCommand(f"it has more than {_MAX_COMMANDS:,} commands")

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
        while ends < len(self.text) and self.text[ends] not in _WORD_END_CHARS:
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
        while (here := self._peek()) and here not in _WORD_END_CHARS:
            words += _expand_word(self._read_word())
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
            if here in _WORD_END_CHARS:
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
            raise UnreadableCommand("a '(' is not allowed here")
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
        elif (here := self._peek()) and here not in _WORD_END_CHARS:
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
            elif not here or here in _WORD_END_CHARS:
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
        if not here or here in _WORD_END_CHARS:
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


def _expand_word(word: Word) -> list[Word]:
    """The words that the shell makes of one: split at blanks out of a variable, and expanded braces."""
    texts = word.text.split() if word.is_split else [word.text]
    if word.is_glob and "{" in word.text and "," in word.text:
        texts = [one for text in texts for one in _expand_braces(text, _MAX_EXPANSIONS)]
    if texts == [word.text]:
        return [word]
    # Braces that are left were too many: what they expand to is not known.
    return [
        replace(word, text=text, is_glob=any(sign in text for sign in "*?[") or "{" in text, is_split=False)
        for text in texts
    ]


def _expand_braces(text: str, most: int) -> list[str]:
    """`a{b,c}` is ab and ac. Innermost braces first, so that no comma of one inside is taken for theirs."""
    found = _BRACES.search(text)
    if found is None or most <= 1:
        return [text]
    made = [text[: found.start()] + one + text[found.end() :] for one in found[1].split(",")]
    return [one for each in made for one in _expand_braces(each, most // len(made))]


@dataclass(slots=True)
class _WordBuilder:
    parts: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    substitutions: list[SimpleCommand] = field(default_factory=list)
    is_glob: bool = False
    has_brace: bool = False
    is_split: bool = False

    def word(self) -> Word:
        text = "".join(self.parts)
        return Word(text, tuple(self.variables), tuple(self.substitutions), self.is_glob, self.is_split)


_ESCAPED = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


def unescape(text: str) -> str:
    """A text with the escapes of `printf` and `echo -e` resolved."""
    return _ESCAPED.sub(_unescaped, text)


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    return chr(int(code, 8)) if code[0] in "01234567" else _LETTERS.get(code, code)
