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
from itertools import pairwise
from pathlib import Path

from clew.agent.approvals import Risk
from clew.agent.command_risk.command import Findings, InspectedCommand, PathResolver, RiskFinding, findings_of, rule
from clew.agent.command_risk.reads import file_read, redirected_reads
from clew.agent.command_risk.rules import (
    code_findings,
    files_run,
    files_written,
    interpreter_name,
    overwriting_files,
    programs_named,
    redirecting,
)
from clew.agent.command_risk.tables import INTERPRETERS, NAMES, WRAPPERS, RiskKind, Wrapper, pattern
from clew.agent.files.file_types import lasting_effect
from clew.agent.files.paths import is_below
from clew.agent.files.session_files import SessionFiles, WrittenScript
from clew.agent.safe_text import printable_line
from clew.shell import (
    UNKNOWN,
    CommandLine,
    SimpleCommand,
    UnreadableCommand,
    Word,
    join_words,
    read_command_line,
    unescape,
)

_ACTION_CHARS = 1_000
_MAX_REASONS = 12
_PASSED = ("HOME", "TMPDIR", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "VIRTUAL_ENV")
"""Variables whose values are known from the environment."""
_MAX_DEPTH = 12
_MAX_WORDS = 1_500
"""Of all command lines inside a line: more than anybody reads before agreeing."""
_UNCHANGED = "\0"
_ENDLESS_LOOP = re.compile(
    r"\b(?:while\s+(?:true|:|\[\s+1\s+\]|\(\(\s*1\s*\)\))|until\s+false|for\s*\(\(\s*;\s*;\s*\)\))\s*[;\n]"
)
_REPEATED_HARM = re.compile(r">>\s*(?!/dev/)|\b(?:mkdir|tee|curl|wget)\b")
_ENDS_LOOP = re.compile(r"\b(?:break|exit|return|read|sleep|wait|timeout)\b")
_COMMAND_PREFIX = re.compile(r"^\+?[:\s]*(?:!|(?:shell|spawn|system)\s+)?")
"""What an editor or a debugger needs before a shell command."""
_CODE_VARIABLES = pattern("CODE_VARIABLES")
_COMMAND_VARIABLES = pattern("COMMAND_VARIABLES")
_SEARCH_PATH_VARIABLES = pattern("SEARCH_PATH_VARIABLES")
_LOADS_CODE = pattern("LOADS_CODE")


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
    found = assessor.findings(command, folder)
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


def risk_kinds_of_command(command: str, project: Path, environ: Mapping[str, str] | None = None) -> frozenset[RiskKind]:
    """The kinds of harm that a command can do."""
    return frozenset(finding.kind for finding in _CommandAssessor(project, environ, None).findings(command, project))


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

    def findings(self, command: str, folder: Path) -> list[RiskFinding]:
        """What is dangerous about a line; also that it cannot be read."""
        try:
            return list(self._line(command, os.path.realpath(folder), 0))
        except UnreadableCommand as problem:
            reason = f"could not be read, so its effect is unknown: {problem}"
            return [RiskFinding(RiskKind.UNREADABLE, reason, printable_line(command), "", always_ask=True)]

    def _line(self, text: str, folder: str | None, depth: int) -> Findings:
        _check_depth(depth)
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

    # -- one command ---------------------------------------------------------------------------------------------------

    def _command(self, simple: SimpleCommand, line: CommandLine, folder: str | None, depth: int) -> Findings:
        self._own_jobs.update(name for name, value in simple.assignments if value.variables == ("!",))
        command = InspectedCommand(
            simple,
            _program_name(simple.words[0]) if simple.words else "",
            tuple(simple.words[1:]),
            folder,
            self._paths,
            self._environ,
            frozenset(self._own_jobs),
            self._in_venv,
            next((one for one in line.commands if one.piped_from is simple), None),
        )
        yield from redirecting(command)
        yield from redirected_reads(command)
        for name, value in (*simple.assignments, *_assignments_in_arguments(command)):
            yield from self._assignment(command, name, value, depth)
        if not simple.words:
            yield from overwriting_files(command)
            return
        before = simple.piped_from.words[:1] if simple.piped_from is not None else []
        if command.name in line.functions and command.name in map(_program_name, before):
            yield command.finding(RiskKind.EXHAUST, "starts copies of itself without end", always_ask=True)
        yield from self._findings(command, depth)
        self.written.update(files_written(command))

    def _assignment(self, command: InspectedCommand, name: str, value: Word, depth: int) -> Findings:
        """A variable that makes other programs run something."""
        parts = value.text.split(":") if _SEARCH_PATH_VARIABLES.match(name) else []
        reasons = []
        if _CODE_VARIABLES.match(name) and value.text:
            reasons.append(f"{name} makes other programs run something")
        elif name == "NODE_OPTIONS" and _LOADS_CODE.search(value.text):
            reasons.append("NODE_OPTIONS makes every node run a file first")
        elif _COMMAND_VARIABLES.match(name):
            if next(iter(value.text.split()), "true").rpartition("/")[2] not in NAMES["EVERYDAY_PROGRAMS"]:
                reasons.append(f"{name} makes other programs run it")
            yield from self._line(value.text, command.folder, depth + 1)
        if name == "PATH" and {".", ""} & set(parts):
            reasons.append("PATH makes programs come out of the current folder")
        folders = (command.path_of(Word(part)) for part in parts if part.startswith("/"))
        if any(folder.location == "scratch" for folder in folders):
            reasons.append(f"{name} makes programs come out of a scratch folder")
        for reason in reasons:
            yield command.finding(RiskKind.HIDDEN_CODE, reason, always_ask=True)

    def _findings(self, command: InspectedCommand, depth: int) -> Findings:
        """What is dangerous about a command, and about every command that it runs."""
        _check_depth(depth)
        if _is_hidden(command):
            reason = "which command it runs is only known when it runs"
            yield command.finding(RiskKind.HIDDEN_CODE, reason, always_ask=True)
        yield from findings_of(command)
        yield from self._downloads(command)
        yield from self._written_scripts(command)
        yield from self._code(command, depth)
        for word in _command_lines_in(command):
            yield from self._line(word.text, command.folder, depth + 1)
        for word in command.args if command.name in NAMES["MAY_RUN_ARGUMENTS"] else ():
            if " " in word.text:
                yield from self._possible_line(word, command.folder, depth)
        for words, is_in_venv in _commands_in(command):
            parsed = replace(command.parsed, words=words, assignments=[], redirects=[])
            name, args = _program_name(words[0]), tuple(words[1:])
            inner = replace(command, parsed=parsed, name=name, args=args, in_venv=command.in_venv or is_in_venv)
            yield from self._findings(inner, depth + 1)

    def _possible_line(self, word: Word, folder: str | None, depth: int) -> Findings:
        """An argument that an editor or a debugger may run; what no shell could read is no command."""
        try:
            yield from self._line(_COMMAND_PREFIX.sub("", word.text), folder, depth + 1)
        except _NestedTooDeep:
            raise
        except UnreadableCommand:
            return

    # -- code that a command runs --------------------------------------------------------------------------------------

    def _code(self, command: InspectedCommand, depth: int) -> Findings:
        """Code that a shell or an interpreter runs: in its arguments, in a file, or from standard input."""
        words = _code_in_arguments(command)
        if words is not None:
            for word in words:
                yield from _printed_code(command, word)
            yield from self._run(command, join_words(words), words, depth)
            return
        script = next(iter(command.positional), None)
        if command.name in {"source", "."}:
            script = next(iter(command.args), None)
        elif not (command.name in NAMES["SHELLS"] or interpreter_name(command.name)) or _runs_no_file(command):
            return
        if (
            script is not None
            and not _is_stdin(script)
            and not (command.name in NAMES["SHELLS"] and command.has_flag("-s"))
        ):
            yield from self._file(command, script)
        elif (text := _known_input(command.parsed)) is not None:
            yield from self._run(command, text, [], depth)
        elif command.parsed.piped_from is not None:
            names = set(_pipe_sources(command.parsed.piped_from))
            yield from _code_printed_by(command, names, is_hidden=bool(names & NAMES["DECODERS"]) or "cat" not in names)

    def _run(self, command: InspectedCommand, text: str, words: list[Word], depth: int) -> Findings:
        """Code whose text is known."""
        if UNKNOWN in text and not text.replace(UNKNOWN, "").strip():
            if not any(word.substitutions for word in words):
                reason = "what it runs is only known when it runs"
                yield command.finding(RiskKind.HIDDEN_CODE, reason, always_ask=True)
        elif interpreter_name(command.name):
            yield from code_findings(command, "interpreters", text)
            yield from code_findings(command, "sql", text, 3) if re.search(r"execute|query|cursor", text) else ()
            yield from _files_in_code(command, text)
        elif text.strip():
            yield from self._line(text, command.folder, depth + 1)

    def _file(self, command: InspectedCommand, word: Word) -> Findings:
        """Code out of a file, or out of other commands."""
        if word.text.startswith(("/dev/tcp/", "/dev/udp/")):
            yield command.finding(RiskKind.REMOTE_CODE, "runs what another machine sends", always_ask=True)
        self._in_venv |= command.name in {"source", "."} and (
            word.text.endswith("activate") or "/activate" in word.text
        )
        yield from _printed_code(command, word)
        if word.text.rpartition("/")[2] in self._downloaded:
            yield command.finding(RiskKind.REMOTE_CODE, "runs what was just downloaded", always_ask=True)

    def _downloads(self, command: InspectedCommand) -> Findings:
        """Notes what is downloaded, and reports where it is run."""
        if command.is_git("clone"):
            self._cloned.update(_clone_folder(command))
        elif self._runs_cloned(command):
            yield command.finding(RiskKind.REMOTE_CODE, "runs what was just cloned", always_ask=True)
        if command.name in NAMES["DOWNLOADERS"]:
            written = [redirect.target.text for redirect in command.parsed.redirects if redirect.writes]
            names = [*command.texts, *written]
            self._downloaded.update(name for text in names if (name := text.rpartition("/")[2]) and text[:1] != "-")
        elif "/" in command.parsed.words[0].text and self._downloaded:
            # What is not there yet is in an archive that the line downloads.
            is_new = not os.path.lexists(command.path_of(command.parsed.words[0]).path)
            if command.name in self._downloaded or is_new:
                yield command.finding(RiskKind.REMOTE_CODE, "runs what was just downloaded", always_ask=True)

    def _runs_cloned(self, command: InspectedCommand) -> bool:
        paths = list(files_run(command)) if self._cloned else []
        is_inside = command.folder in self._cloned and (command.name in NAMES["INSTALLERS"] or bool(paths))
        return is_inside or any(is_below(path, folder) for path in paths for folder in self._cloned)

    def _written_scripts(self, command: InspectedCommand) -> Findings:
        """Files that the session wrote, or this line: running one runs text of the model."""
        for path in files_run(command):
            is_inside = is_below(path, self._paths.project)
            name = printable_line(os.path.relpath(path, self._paths.project) if is_inside else path)
            if path in self.written:
                reason = f"runs {name}, which the same line writes"
                yield command.finding(RiskKind.WRITTEN_CODE, reason, always_ask=True)
            elif script := self._session_files.unagreed(path):
                self.scripts.append(replace(script, path=name))
                reason = f"runs {name}, which was written in this session; its text is below"
                yield command.finding(RiskKind.WRITTEN_CODE, reason, f"{name} as sha256 {script.digest}")


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise _NestedTooDeep(f"commands run each other more than {_MAX_DEPTH} deep")


def _program_name(word: Word) -> str:
    """A command by its name alone: `/usr/bin/rm` and `\\rm` are rm."""
    return word.text.rstrip("/").rpartition("/")[2]


def _is_hidden(command: InspectedCommand) -> bool:
    """Whether it is only known at run time which command it is."""
    first = command.parsed.words[0]
    return bool(
        not command.name
        or UNKNOWN in command.name
        or (not first.is_known and "IFS" in first.variables)
        or (first.is_glob and first.text not in ("[", "[["))
        or (first.variables and re.search(r"[*?]", first.text))
    )


def _clone_folder(command: InspectedCommand) -> Iterator[str]:
    """Where `git clone` puts a repository."""
    words = command.plain[1:3]
    if words:
        name = words[1] if len(words) > 1 else words[0].rstrip("/").rpartition("/")[2].removesuffix(".git")
        path = command.path_of(Word(name))
        if path.location != "unknown":
            yield path.path


# -- commands and command lines in arguments ---------------------------------------------------------------------------


def _assignments_in_arguments(command: InspectedCommand) -> Iterator[tuple[str, Word]]:
    """`export X=1`, `env X=1 command`: assignments that are arguments."""
    if command.name in {"export", "declare", "typeset", "readonly", "local", "env"}:
        for word in command.args:
            name, equals, value = word.text.partition("=")
            if equals:
                yield name, replace(word, text=value)


def _command_lines_in(command: InspectedCommand) -> Iterator[Word]:
    """Arguments that are run as command lines."""
    yield from (word for word, _ in programs_named(command))
    for word in command.args if command.name in {"alias", "watch"} else ():
        _, equals, value = word.text.partition("=")
        if command.name == "watch" and " " in word.text:
            yield word
        elif command.name == "alias" and equals:
            yield replace(word, text=value)
    if command.is_git("submodule", "foreach"):
        yield from command.positional[2:3]


def _commands_in(command: InspectedCommand) -> Iterator[tuple[list[Word], bool]]:
    """The words of commands that a command runs, and whether they run in the project's virtual environment."""
    words = command.parsed.words
    wrapper, rest = _find_wrapper(words, command)
    if wrapper is not None and (inner := _wrapped_words(wrapper, rest)):
        yield inner, wrapper.name.endswith(" run") or wrapper.name == "uvx"
    if command.name in NAMES["FINDERS"]:
        yield from ((inner, False) for inner in _find_exec_commands(words))
    if interpreter_name(command.name):
        yield from _script_as_command(command)


def _find_wrapper(words: list[Word], command: InspectedCommand) -> tuple[Wrapper | None, list[Word]]:
    """The wrapper that a command begins with, and the words after its name."""
    if command.name == "command" and command.has_flag("-v", "-V"):
        return None, []
    for count in (2, 1, 0):
        plain = command.positional[:count]
        wrapper = WRAPPERS.get(" ".join([command.name, *(word.text for word in plain)]))
        if len(plain) == count and wrapper is not None:
            return wrapper, words[words.index(plain[-1]) + 1 if count else 1 :]
    return None, []


def _wrapped_words(wrapper: Wrapper, words: list[Word]) -> list[Word]:
    """The command that a wrapper runs."""
    valued, skips, at = wrapper.valued.split(), wrapper.skips, 0
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            if not skips:
                break
            skips = 0
        elif text.startswith("-") and (len(text) > 1 or wrapper.name == "env"):
            at += 2 if text in valued else 1
        elif wrapper.name in {"env", "sudo", "doas"} and "=" in text and not text.startswith("="):
            at += 1
        elif skips:
            skips -= 1
            at += 1
        else:
            break
    inner = words[at:]
    return [*_with_unknown_names(inner), Word(UNKNOWN)] if wrapper.adds and inner else inner


def _find_exec_commands(words: list[Word]) -> Iterator[list[Word]]:
    """Commands that `find` runs for what it finds."""
    starts = [at for at, word in enumerate(words) if word.text in {"-exec", "-execdir", "-ok", "-okdir", "-x", "-X"}]
    ends = [*starts, len(words)][1:]
    for start, end in zip(starts, ends, strict=True):
        stop = next((at for at in range(start, end) if words[at].text in {";", "+"}), end)
        inner = _with_unknown_names(words[start + 1 : stop])
        # What rm deletes is reported by the rule for find itself.
        if inner and _program_name(inner[0]) not in {"rm", "unlink", "shred"}:
            yield inner


def _with_unknown_names(words: list[Word]) -> list[Word]:
    return [replace(word, text=word.text.replace("{}", UNKNOWN)) for word in words]


def _script_as_command(command: InspectedCommand) -> Iterator[tuple[list[Word], bool]]:
    """`python -m pip install` is pip, `python manage.py flush` is manage.py."""
    flags = INTERPRETERS[interpreter_name(command.name)].split()
    for index, word in enumerate(command.args):
        if word.text == "-m" and command.name.startswith(("python", "pypy")):
            if rest := list(command.args[index + 1 :]):
                yield rest, command.is_project_program
            return
        if _is_code_flag(word.text, flags):
            return
        if not word.text.startswith("-"):
            if word.is_known:
                yield list(command.args[index:]), False
            return


# -- code and where it comes from --------------------------------------------------------------------------------------


def _code_in_arguments(command: InspectedCommand) -> list[Word] | None:
    """Arguments that are code; None where a command has none, but perhaps a file with code."""
    args = command.args
    if command.name == "eval" or (command.name == "env" and command.has_flag("-S")):
        return [word for word in args if not re.fullmatch(r"-\w+|--split-string", word.text)]
    if command.name == "trap":
        return [args[0]] if args and args[0].text not in {"-", "", "-l", "-p"} else None
    if command.name in NAMES["SHELLS"] | {"su", "script", "runuser"}:
        for at, word in enumerate(args):
            if re.match(r"-[^-]*c", word.text):
                return [one for one in args[at + 1 :] if not one.text.startswith("-")][:1]
        return None
    if not (language := interpreter_name(command.name)):
        return None
    flags = INTERPRETERS[language].split()
    for word, after in pairwise(args):
        if _is_code_flag(word.text, flags):
            return [after]
    attached = [
        replace(word, text=word.text.partition("=")[2]) for word in args if word.text.partition("=")[0] in flags
    ]
    return attached or None


def _is_code_flag(text: str, flags: list[str]) -> bool:
    """`-lne` ends with -e; `-MFile::Path` is a module."""
    is_bundle = len(text) > 2 and text[0] == "-" and text[1] not in "-MI"
    return text in flags or (is_bundle and any(len(flag) == 2 and text.endswith(flag[1]) for flag in flags))


def _runs_no_file(command: InspectedCommand) -> bool:
    is_interpreter = command.name not in NAMES["SHELLS"]
    return is_interpreter and bool({"-m", "-V", "--version", "-h", "--help"} & set(command.texts))


def _is_stdin(word: Word) -> bool:
    return word.text in {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}


def _known_input(simple: SimpleCommand) -> str | None:
    return simple.stdin_text if simple.stdin_text is not None else _printed_text(simple.piped_from)


def _printed_text(source: SimpleCommand | None) -> str | None:
    """What a command prints into a pipe, where its text is on the line."""
    while source is not None and source.words:
        name, *rest = (word.text for word in source.words)
        if name in {"echo", "printf"}:
            texts = (text for text in rest if not re.fullmatch(r"-[neE]+|%s(?:\\n)?", text))
            return unescape(" ".join(texts))
        if name != "cat" or rest not in ([], ["-"]):
            return None
        if source.stdin_text is not None:
            return source.stdin_text
        source = source.piped_from
    return None


def _pipe_sources(source: SimpleCommand | None) -> Iterator[str]:
    """Names of the commands that feed a pipe."""
    while source is not None:
        yield from (_program_name(word) for word in source.words[:6])
        source = source.piped_from


def _printed_code(command: InspectedCommand, word: Word) -> Findings:
    """Code that is the output of other commands: `$( )`, `<( )`."""
    if word.substitutions and not word.is_known:
        names = {name for inner in word.substitutions for name in _pipe_sources(inner)}
        is_run = command.name in {"eval", "source", ".", *NAMES["SHELLS"]}
        yield from _code_printed_by(command, names, is_hidden=is_run or bool(names & NAMES["DECODERS"]))


def _code_printed_by(command: InspectedCommand, names: set[str], *, is_hidden: bool) -> Findings:
    if names & NAMES["DOWNLOADERS"]:
        yield command.finding(RiskKind.REMOTE_CODE, "runs what it downloads, unseen", always_ask=True)
    elif is_hidden:
        yield command.finding(RiskKind.HIDDEN_CODE, "runs what another command prints, unseen", always_ask=True)


@rule("awk gawk gsed mawk nawk sed")
def awk_and_sed(command: InspectedCommand) -> Findings:
    """Their scripts can run commands, and read and write files."""
    for text in command.texts:
        yield from code_findings(command, "sed" if command.name.endswith("sed") else "awk", text)


@rule()
def database_loss(command: InspectedCommand) -> Findings:
    if command.name in NAMES["SQL_CLIENTS"]:
        for text in (*command.texts, command.parsed.stdin_text or "", _printed_text(command.parsed.piped_from) or ""):
            yield from code_findings(command, "sql", text)


_LITERAL = re.compile(r"""['"]([^'"\s]{2,200})['"]""")
_READS = re.compile(
    r"\bopen\b|[Rr]ead|\bload|\bslurp|\bIO\b|\bFile\b|file_get|\bcopy|\blink|\bglob|listdir|walk|scandir|connect|"
    r"require\s*\(?\s*['\"](?:\.\.|/)|\bimport\b.*['\"](?:\.\.|/)|<"
)
_WRITES = re.compile(r"""write|['"][wax]b?\+?['"]|append|copy|move|rename|link|replace|dump|touch|>""", re.IGNORECASE)


def _files_in_code(command: InspectedCommand, code: str) -> Findings:
    """Files that code names: secrets, and those with an effect later on where the code writes something."""
    for name in dict.fromkeys(found[1] for found in _LITERAL.finditer(code)):
        found = list(file_read(command, Word(name))) if "/" in name or "." in name else []
        yield from (one for one in found if one.kind == RiskKind.SECRETS or _READS.search(code))
        if (effect := lasting_effect(name)) and _WRITES.search(code):
            yield command.finding(RiskKind.LASTING, f"the code may change {effect}: {printable_line(name)}")
