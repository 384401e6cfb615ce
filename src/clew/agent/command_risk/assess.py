"""The risk of a command line: whether a person must agree before it runs, and why.

The line is read as far as that is possible without running it, commands that run other commands are unwrapped, and what
cannot be known counts as a risk. This protects against mistakes, not against an attacker: scripts are not searched.
Those that the session itself wrote are shown before they run; others, such as `python x.py`, are harmless. Text that is
only an argument (`git commit -m "rm -rf /"`) is never taken for a command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from clew.agent.approvals import Risk
from clew.agent.command_risk.command import (
    Findings,
    InspectedCommand,
    PathResolver,
    RiskFinding,
    findings_of,
)
from clew.agent.command_risk.nested import (
    assignments_in_arguments,
    code_findings,
    command_lines_in,
    ends_with_flag,
    find_exec_commands,
    find_wrapper,
    is_stdin,
    known_input,
    piped_code_findings,
    program_name,
    substituted_code_findings,
    wrapped_words,
)
from clew.agent.command_risk.rules import emptying_files, files_run, files_written, interpreter_name, redirecting
from clew.agent.command_risk.secret_reads import redirected_reads
from clew.agent.command_risk.tables import (
    CODE_VARIABLES,
    COMMAND_VARIABLES,
    INTERPRETERS,
    LOADS_CODE,
    NAMES,
    SEARCH_PATH_VARIABLES,
    RiskKind,
)
from clew.agent.files.paths import is_below
from clew.agent.files.session_files import SessionFiles, WrittenScript
from clew.agent.safe_text import printable_line
from clew.shell import UNKNOWN, CommandLine, SimpleCommand, UnreadableCommand, Word, join_words, read_command_line

_ACTION_CHARS = 1_000
_MAX_REASONS = 12
_PASSED = ("HOME", "TMPDIR", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "VIRTUAL_ENV")
"""Variables whose values are known from the environment."""
_MAX_DEPTH = 12
_MAX_WORDS = 1_500
"""Of all command lines inside a line: more than anybody reads before agreeing."""
_ENDLESS_LOOP = re.compile(
    r"\b(?:while\s+(?:true|:|\[\s+1\s+\]|\(\(\s*1\s*\)\))|until\s+false|for\s*\(\(\s*;\s*;\s*\)\))\s*[;\n]"
)
_REPEATED_HARM = re.compile(r">>\s*(?!/dev/)|\b(?:mkdir|tee|curl|wget)\b")
_ENDS_LOOP = re.compile(r"\b(?:break|exit|return|read|sleep|wait|timeout)\b")
_COMMAND_PREFIX = re.compile(r"^\+?[:\s]*(?:!|(?:shell|spawn|system)\s+)?")
"""What an editor or a debugger needs before a shell command."""


@dataclass(frozen=True, slots=True)
class CommandAssessment:
    """What is dangerous about a command, which files it writes, and which of the session's own files it runs."""

    risk: Risk | None
    written: frozenset[str] = frozenset()
    scripts: tuple[WrittenScript, ...] = ()


def assess_command(
    command: str,
    project: Path,
    workdir: Path | None = None,
    environ: Mapping[str, str] | None = None,
    session_files: SessionFiles | None = None,
) -> CommandAssessment:
    """The risk of a command, in a session that wrote these files. Never raises."""
    folder = workdir or project
    assessor = _CommandAssessor(project, environ, session_files)
    try:
        found = list(assessor.assess(command, os.path.realpath(folder), 0))
    except UnreadableCommand as problem:
        reason = f"could not be read, so nobody knows what it does: {problem}"
        found = [RiskFinding(RiskKind.UNREADABLE, reason, printable_line(command), "", always_ask=True)]
    scripts = tuple({script.digest: script for script in assessor.scripts}.values())
    risk = _risk(command, folder, found) if found else None
    if risk is not None and scripts:
        risk = replace(risk, text="\n".join(f"{script.path}:\n{script.text}" for script in scripts))
    return CommandAssessment(risk, frozenset(assessor.written), scripts)


def risk_of_command(
    command: str, project: Path, workdir: Path | None = None, environ: Mapping[str, str] | None = None
) -> Risk | None:
    """Why a command must be agreed to; None where nothing about it is dangerous. Never raises."""
    return assess_command(command, project, workdir, environ).risk


def outside_risk(command: str, folder: Path, risk: Risk | None) -> Risk:
    """The risk of a command that runs in a folder outside the project."""
    reason = f"runs outside the project, in {printable_line(str(folder))}"
    if risk is None:
        return Risk(f"run: {printable_line(command, _ACTION_CHARS)}", (reason,), f"run commands in {folder}")
    return replace(risk, reasons=(reason, *risk.reasons), scope=f"{risk.scope} (in {folder})")


def _risk(command: str, folder: Path, found: list[RiskFinding]) -> Risk:
    line = printable_line(command)
    reasons = dict.fromkeys(
        finding.reason if finding.excerpt in (line, "") else f"{finding.reason} (`{finding.excerpt}`)"
        for finding in found
    )
    if any(finding.always_ask for finding in found):
        scope = f"exactly this command in {folder}: {command}"
    else:
        scope = "; ".join(sorted({finding.scope for finding in found}))
    return Risk(f"run: {printable_line(command, _ACTION_CHARS)}", tuple(reasons)[:_MAX_REASONS], scope)


def risk_kinds_of_command(command: str, project: Path, environ: Mapping[str, str] | None = None) -> frozenset[RiskKind]:
    """The kinds of harm that a command can do."""
    try:
        return frozenset(
            finding.kind
            for finding in _CommandAssessor(project, environ, None).assess(command, os.path.realpath(project), 0)
        )
    except UnreadableCommand:
        return frozenset({RiskKind.UNREADABLE})


class _NestedTooDeep(UnreadableCommand):
    """Commands run each other too deep to know what the innermost does."""


class _CommandAssessor:
    """Goes through a command line, and through the command lines inside it."""

    def __init__(self, project: Path, environ: Mapping[str, str] | None, session_files: SessionFiles | None) -> None:
        self._environ = environ
        self._session_files = session_files or SessionFiles()
        self.written: set[str] = set()
        """Files that the line writes."""
        self.scripts: list[WrittenScript] = []
        self._paths = PathResolver(project, environ or {}, self._session_files)
        self._variables = {name: value for name in _PASSED if (value := (environ or {}).get(name))}
        self._downloaded: set[str] = set()
        self._cloned: set[str] = set()
        self._own_jobs: set[str] = set()
        self._in_venv = False
        self._words = 0

    def assess(self, text: str, folder: str | None, depth: int) -> Findings:
        if depth > _MAX_DEPTH:
            raise _NestedTooDeep(f"commands run each other more than {_MAX_DEPTH} deep")
        line = read_command_line(text, {**self._variables, **({"PWD": folder} if folder else {})})
        self._words += sum(len(one.words) + len(one.assignments) + len(one.redirects) + 1 for one in line.commands)
        if self._words > _MAX_WORDS:
            raise UnreadableCommand(f"it has more than {_MAX_WORDS:,} words")
        loop = _ENDLESS_LOOP.search(text)
        if loop and _REPEATED_HARM.search(text, loop.end()) and not _ENDS_LOOP.search(text, loop.end()):
            yield RiskFinding(RiskKind.EXHAUST, "repeats commands without an end", printable_line(text), text)
        folders: dict[tuple[int, ...], str | None] = {(): folder}
        for simple in line.commands:
            subshells = simple.subshells
            while subshells not in folders:
                subshells = subshells[:-1]
            yield from self._command(simple, line, folders[subshells], depth)
            new_folder = self._folder_after(simple, folders[subshells])
            if new_folder is not _UNCHANGED:
                folders[simple.subshells] = new_folder

    # -- one command ---------------------------------------------------------------------------------------------------

    def _command(self, simple: SimpleCommand, line: CommandLine, folder: str | None, depth: int) -> Findings:
        self._own_jobs.update(name for name, value in simple.assignments if value.variables == ("!",))
        command = self._inspected(simple, folder)
        yield from redirecting(command)
        yield from redirected_reads(command)
        for name, value in (*simple.assignments, *assignments_in_arguments(command)):
            yield from self._assignment_findings(command, name, value, depth)
        if not simple.words:
            yield from emptying_files(command)
            return
        if command.name in line.functions:
            left = simple.piped_from
            if left is not None and left.words and program_name(left.words[0]) == command.name:
                yield command.finding(RiskKind.EXHAUST, "starts copies of itself without end", always_ask=True)
        yield from self._findings(command, depth)
        self.written.update(files_written(command))

    def _assignment_findings(self, command: InspectedCommand, name: str, value: Word, depth: int) -> Findings:
        """A variable that makes other programs run something."""
        if CODE_VARIABLES.match(name) and value.text:
            yield command.finding(RiskKind.HIDDEN_CODE, f"{name} makes other programs run something", always_ask=True)
        elif name == "NODE_OPTIONS" and LOADS_CODE.search(value.text):
            yield command.finding(
                RiskKind.HIDDEN_CODE, "NODE_OPTIONS makes every node run a file first", always_ask=True
            )
        elif COMMAND_VARIABLES.match(name):
            program = next(iter(value.text.split()), "true").rpartition("/")[2]
            if program not in NAMES["EVERYDAY_PROGRAMS"]:
                yield command.finding(RiskKind.HIDDEN_CODE, f"{name} makes other programs run it", always_ask=True)
            yield from self.assess(value.text, command.folder, depth + 1)
        elif SEARCH_PATH_VARIABLES.match(name):
            if name == "PATH" and {".", ""} & set(value.text.split(":")):
                yield command.finding(
                    RiskKind.HIDDEN_CODE, "PATH makes programs come out of the current folder", always_ask=True
                )
            for part in value.text.split(":"):
                if part.startswith("/") and self._paths.resolve(Word(part), command.folder).location == "scratch":
                    yield command.finding(
                        RiskKind.HIDDEN_CODE, f"{name} makes programs come out of a scratch folder", always_ask=True
                    )

    def _possible_line(self, word: Word, folder: str | None, depth: int) -> Findings:
        """An argument that an editor or a debugger may run; what no shell could read is no command."""
        try:
            yield from self.assess(_COMMAND_PREFIX.sub("", word.text), folder, depth + 1)
        except _NestedTooDeep:
            raise
        except UnreadableCommand:
            return

    def _findings(self, command: InspectedCommand, depth: int) -> Findings:
        """A command, and every command that it runs."""
        first = command.parsed.words[0]
        if (
            not command.name
            or UNKNOWN in command.name
            or (not first.is_known and "IFS" in first.variables)
            or (first.is_glob and first.text not in ("[", "[["))
            or (first.variables and re.search(r"[*?]", first.text))
        ):
            yield command.finding(
                RiskKind.HIDDEN_CODE, "which command it runs is only known when it runs", always_ask=True
            )
        yield from findings_of(command)
        yield from self._downloads(command)
        yield from self._written_scripts(command)
        yield from self._code(command, depth)
        for word in command_lines_in(command):
            yield from self.assess(word.text, command.folder, depth + 1)
        for word in command.args if command.name in NAMES["MAY_RUN_ARGUMENTS"] else ():
            if " " in word.text:
                yield from self._possible_line(word, command.folder, depth)
        for inner in self._unwrapped(command):
            if depth > _MAX_DEPTH:
                raise _NestedTooDeep(f"commands run each other more than {_MAX_DEPTH} deep")
            yield from self._findings(inner, depth + 1)

    def _inspected(self, simple: SimpleCommand, folder: str | None) -> InspectedCommand:
        name = program_name(simple.words[0]) if simple.words else ""
        own = frozenset(self._own_jobs)
        return InspectedCommand(
            simple, name, tuple(simple.words[1:]), folder, self._paths, self._environ, own, in_venv=self._in_venv
        )

    def _with_words(
        self, command: InspectedCommand, words: list[Word], in_venv: bool | None = None
    ) -> InspectedCommand:
        """The command inside a command, with the same context."""
        parsed = replace(command.parsed, words=words, assignments=[], redirects=[])
        is_in_venv = command.in_venv if in_venv is None else in_venv
        return replace(command, parsed=parsed, name=program_name(words[0]), args=tuple(words[1:]), in_venv=is_in_venv)

    # -- commands that run commands ------------------------------------------------------------------------------------

    def _unwrapped(self, command: InspectedCommand) -> Iterator[InspectedCommand]:
        words = command.parsed.words
        wrapper, rest = find_wrapper(words, command)
        if wrapper is not None and (inner := wrapped_words(wrapper, rest)):
            is_of_project = wrapper.name.endswith(" run") or wrapper.name == "uvx"
            yield self._with_words(command, inner, in_venv=command.in_venv or is_of_project)
        if command.name in {"find", "fd", "fdfind"}:
            yield from (self._with_words(command, inner) for inner in find_exec_commands(words))
        if interpreter_name(command.name):
            yield from self._script(command)

    def _script(self, command: InspectedCommand) -> Iterator[InspectedCommand]:
        """`python -m pip install` is pip, `python manage.py flush` is manage.py."""
        flags = INTERPRETERS[interpreter_name(command.name)].split()
        for index, word in enumerate(command.args):
            if word.text == "-m" and command.name.startswith(("python", "pypy")):
                if rest := list(command.args[index + 1 :]):
                    yield self._with_words(command, rest, in_venv=command.in_venv or command.is_project_program)
                return
            if word.text in flags or (len(word.text) > 2 and ends_with_flag(word.text, flags)):
                return
            if not word.text.startswith("-"):
                if word.is_known:
                    yield self._with_words(command, list(command.args[index:]))
                return

    # -- code on the line ----------------------------------------------------------------------------------------------

    def _code(self, command: InspectedCommand, depth: int) -> Findings:
        if command.name in NAMES["SHELLS"] or command.name in {"su", "script", "runuser"}:
            yield from self._shell(command, depth)
        elif command.name == "eval" or (command.name == "env" and command.has_flag("-S")):
            words = [word for word in command.args if not re.fullmatch(r"-\w+|--split-string", word.text)]
            yield from self._run_text_findings(command, words, join_words(words), depth)
        elif command.name in {"source", "."}:
            yield from self._sourced(command, depth)
        elif command.name == "trap" and command.args and command.args[0].text not in {"-", "", "-l", "-p"}:
            yield from self._run_text_findings(command, [command.args[0]], command.args[0].text, depth)
        elif interpreter_name(command.name):
            yield from self._interpreted(command)

    def _shell(self, command: InspectedCommand, depth: int) -> Findings:
        """`sh -c text`, `... | sh`, `sh <<EOF`, `sh <(...)`."""
        for index, word in enumerate(command.args):
            if word.text.startswith("-") and not word.text.startswith("--") and "c" in word.text[1:]:
                rest = [one for one in command.args[index + 1 :] if not one.text.startswith("-")][:1]
                yield from self._run_text_findings(command, rest, join_words(rest), depth)
                return
        script = next(iter(command.positional), None)
        if command.name not in NAMES["SHELLS"]:
            return
        if script is not None and not is_stdin(script) and not command.has_flag("-s"):
            yield from self._external_code_findings(command, script)
        elif (text := known_input(command.parsed)) is not None:
            yield from self._run_text_findings(command, [], text, depth)
        else:
            yield from piped_code_findings(command)

    def _interpreted(self, command: InspectedCommand) -> Findings:
        flags = INTERPRETERS[interpreter_name(command.name)].split()
        for word in command.args:
            flag, equals, code = word.text.partition("=")
            if equals and flag in flags:
                yield from code_findings(command, code)
        for word, after in zip(command.args, command.args[1:], strict=False):
            if word.text in flags or (len(word.text) > 2 and ends_with_flag(word.text, flags)):
                yield from self._external_code_findings(command, after)
                yield from code_findings(command, after.text)
                return
        script = next(iter(command.positional), None)
        if {"-m", "-V", "--version", "-h", "--help"} & set(command.texts):
            return
        if script is not None and not is_stdin(script):
            yield from self._external_code_findings(command, script)
        elif (text := known_input(command.parsed)) is not None:
            yield from code_findings(command, text)
        else:
            yield from piped_code_findings(command)

    def _sourced(self, command: InspectedCommand, depth: int) -> Findings:
        for word in command.args[:1]:
            if word.text.startswith(("/dev/tcp/", "/dev/udp/")):
                yield command.finding(RiskKind.REMOTE_CODE, "runs what another machine sends", always_ask=True)
            if is_stdin(word) and (text := known_input(command.parsed)) is not None:
                yield from self._run_text_findings(command, [], text, depth)
            self._in_venv |= word.text.endswith("activate") or "/activate" in word.text
            yield from self._external_code_findings(command, word)

    def _run_text_findings(self, command: InspectedCommand, words: list[Word], text: str, depth: int) -> Findings:
        """Words that are run as a command line."""
        for word in words:
            yield from substituted_code_findings(command, word)
        if text.replace(UNKNOWN, "").strip():
            yield from self.assess(text, command.folder, depth + 1)
        elif UNKNOWN in text and not any(word.substitutions for word in words):
            yield command.finding(RiskKind.HIDDEN_CODE, "what it runs is only known when it runs", always_ask=True)

    def _external_code_findings(self, command: InspectedCommand, word: Word) -> Findings:
        """Code out of a file, or out of other commands."""
        yield from substituted_code_findings(command, word)
        if word.text.rpartition("/")[2] in self._downloaded:
            yield command.finding(RiskKind.REMOTE_CODE, "runs what was just downloaded", always_ask=True)

    def _downloads(self, command: InspectedCommand) -> Findings:
        """Remembers what is downloaded, and reports where it is run."""
        if command.is_git("clone"):
            self._cloned.update(_clone_folder(command))
        elif self._runs_cloned(command):
            yield command.finding(RiskKind.REMOTE_CODE, "runs what was just cloned", always_ask=True)
        if command.name in NAMES["DOWNLOADERS"]:
            written = [redirect.target.text for redirect in command.parsed.redirects if redirect.writes]
            names = [*command.texts, *written]
            self._downloaded.update(name for text in names if (name := text.rpartition("/")[2]) and text[:1] != "-")
        elif "/" in command.parsed.words[0].text and command.name in self._downloaded:
            yield command.finding(RiskKind.REMOTE_CODE, "runs what was just downloaded", always_ask=True)

    def _runs_cloned(self, command: InspectedCommand) -> bool:
        is_inside = command.folder in self._cloned and (command.name in NAMES["INSTALLERS"] or any(files_run(command)))
        paths = files_run(command) if self._cloned else ()
        return is_inside or any(is_below(path, folder) for path in paths for folder in self._cloned)

    def _written_scripts(self, command: InspectedCommand) -> Findings:
        """Files that the session wrote, or this line: running one is running what the model made up."""
        for path in files_run(command):
            name = printable_line(os.path.relpath(path, self._paths.project) if self._is_inside(path) else path)
            if path in self.written:
                yield command.finding(
                    RiskKind.WRITTEN_CODE, f"runs {name}, which the same line writes", always_ask=True
                )
            elif script := self._session_files.unagreed(path):
                self.scripts.append(replace(script, path=name))
                reason = f"runs {name}, which was written in this session; its text is below"
                yield command.finding(RiskKind.WRITTEN_CODE, reason, f"{name} as sha256 {script.digest}")

    def _is_inside(self, path: str) -> bool:
        return is_below(path, self._paths.project)

    # -- where it runs -------------------------------------------------------------------------------------------------

    def _folder_after(self, simple: SimpleCommand, folder: str | None) -> str | None:
        """The folder after a command: `cd` changes it."""
        if not simple.words or simple.words[0].text not in {"cd", "pushd", "popd", "chdir"}:
            return _UNCHANGED
        target = next((word for word in simple.words[1:] if not word.text.startswith("-") or word.text == "-"), None)
        if simple.words[0].text == "popd" or (target is not None and target.text == "-"):
            return None
        if target is None:
            return self._paths.home or None
        path = self._paths.resolve(target, folder)
        return None if path.location == "unknown" or path.is_glob else path.path


_UNCHANGED = "\0"


def _clone_folder(command: InspectedCommand) -> Iterator[str]:
    """Where `git clone` puts a repository."""
    words = command.positional[1:3]
    if words:
        name = words[1].text if len(words) > 1 else words[0].text.rstrip("/").rpartition("/")[2].removesuffix(".git")
        path = command.path_of(Word(name))
        if path.location != "unknown":
            yield path.path
