"""Which files a command writes, and which it runs: by an interpreter, by their path, or as rules of a task runner."""

from __future__ import annotations

import os
from collections.abc import Iterator

from clew.agent.command_risk.command import InspectedCommand
from clew.agent.command_risk.programs import INTERPRETERS, SHELLS, TEXT_WRITERS
from clew.agent.command_risk.rules import written_words
from clew.shell import Word

_RULE_FILES: dict[str, tuple[str, ...]] = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "gmake": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
    "rake": ("Rakefile",),
    "invoke": ("tasks.py",),
    "nox": ("noxfile.py",),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "bun": ("package.json",),
}
"""What task runners run without being told its name."""
_FILE_RUNNERS = frozenset({"tsx", "ts-node", "esno", "jiti", "java", "go run", "deno run", "bun run", "streamlit run"})
_NO_SCRIPT = frozenset({"--version", "--help", "-V", "-h"})


def files_written(command: InspectedCommand) -> Iterator[str]:
    """Paths of text files that a command writes, as far as they are known."""
    words = [redirect.target for redirect in command.parsed.redirects if redirect.writes]
    if command.name in TEXT_WRITERS:
        words += written_words(command)
    for word in words:
        path = _path(command, word)
        if path is not None:
            yield path
            if command.name in {"cp", "mv", "install", "ln"} and os.path.isdir(path):  # noqa: PTH112
                sources = command.positional[:-1]
                yield from (os.path.join(path, source.text.rstrip("/").rpartition("/")[2]) for source in sources)  # noqa: PTH118


def files_run(command: InspectedCommand) -> Iterator[str]:
    """Paths of files that a command runs, as far as they are known."""
    if set(command.texts) <= _NO_SCRIPT and command.texts:
        return
    for word in _run_words(command):
        path = _path(command, word)
        if path is not None:
            yield path


def _run_words(command: InspectedCommand) -> Iterator[Word]:
    first = command.parsed.words[0]
    if "/" in first.text or "." in first.text[1:]:
        yield first
    positional = command.positional
    named = command.name if not positional else f"{command.name} {positional[0].text}"
    if command.name in SHELLS or _is_interpreter(command.name) or command.name in {"source", "."}:
        yield from positional[:1]
        yield from _piped_files(command)
        yield from _module(command)
    elif command.name in _FILE_RUNNERS:
        yield from positional[:1]
    if named in _FILE_RUNNERS:
        yield from positional[1:2]
    if command.name in _RULE_FILES:
        yield from map(Word, _RULE_FILES[command.name])
        yield from (
            after
            for word, after in zip(command.args, command.args[1:], strict=False)
            if word.text in {"-f", "--file", "--makefile", "--justfile"}
        )


def _is_interpreter(name: str) -> bool:
    return name in INTERPRETERS or name.rstrip("0123456789.") in INTERPRETERS


def _piped_files(command: InspectedCommand) -> Iterator[Word]:
    """`bash < x.sh` and `cat x.sh | bash`."""
    yield from (redirect.target for redirect in command.parsed.redirects if redirect.operator == "<")
    source = command.parsed.piped_from
    if source is not None and source.words and source.words[0].text in {"cat", "tee", "sed", "envsubst"}:
        yield from source.words[1:]


def _module(command: InspectedCommand) -> Iterator[Word]:
    """`python -m tool.run` is tool/run.py, or tool/run/__main__.py."""
    for word, after in zip(command.args, command.args[1:], strict=False):
        if word.text == "-m":
            path = after.text.replace(".", "/")
            yield Word(f"{path}.py")
            yield Word(f"{path}/__main__.py")
            return


def _path(command: InspectedCommand, word: Word) -> str | None:
    path = command.path_of(word)
    is_known = word.is_known and path.location != "unknown" and not path.is_glob
    return os.path.realpath(path.path) if is_known and word.text else None
