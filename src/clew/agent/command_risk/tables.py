"""The tables of `risk.toml`: what is dangerous on a command line, and how programs use their arguments."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from clew.lazy import read_beside


class RiskKind(StrEnum):
    """The kind of harm that a command can do."""

    DELETE = "delete files"
    DISK = "overwrite a disk"
    PERMISSIONS = "change permissions"
    PRIVILEGES = "act as another user"
    SYSTEM = "control the system"
    HISTORY = "lose work in git"
    PUBLISH = "publish"
    REMOTE = "change something remote"
    DATABASE = "lose data in a database"
    REMOTE_CODE = "run code from the network"
    HIDDEN_CODE = "run code that cannot be seen"
    WRITTEN_CODE = "run what this session wrote"
    OUTSIDE = "reach outside the project"
    LASTING = "write what later sessions read or what runs by itself"
    SECRETS = "read secrets"
    SENDING = "send data away"
    PACKAGES = "change installed software"
    EXHAUST = "exhaust the machine"
    UNREADABLE = "could not be read"


@dataclass(frozen=True, slots=True)
class CommandFact:
    """A command that is dangerous with any path; `risk.toml` says how its terms are read."""

    kind: RiskKind
    names: str
    reason: str
    needs: str = ""
    unless: str = ""
    always: bool = False
    """An agreement covers exactly the same command only."""


@dataclass(frozen=True, slots=True)
class CodeFact:
    """A pattern in code: dangerous by itself, or with the group `reads` or `writes`, the path of a file."""

    pattern: re.Pattern[str]
    kind: RiskKind = RiskKind.HIDDEN_CODE
    reason: str = ""
    names: str = ""
    """The interpreters that it is about; all of them where it is empty."""
    always: bool = False


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A command that runs the command in its arguments."""

    name: str
    """Several words where a subcommand does it: `uv run`."""
    valued: str = ""
    skips: int = 0
    adds: bool = False


@dataclass(frozen=True, slots=True)
class ProgramFlags:
    """Flags of commands whose value is a program that they run."""

    commands: str
    flags: str
    harmless: str = ""
    attached: bool = False


_TABLES: dict[str, Any] = tomllib.loads(read_beside(__file__, "risk.toml").decode())
_PATTERNS: dict[str, str] = _TABLES["patterns"]
NAMES = {name: frozenset(words.split("|" if "|" in words else None)) for name, words in _TABLES["names"].items()}


def pattern(name: str, flags: int = 0) -> re.Pattern[str]:
    """The regular expression of that name."""
    return re.compile(_with_names(_PATTERNS[name]), flags)


def _with_names(text: str) -> str:
    """A regular expression of the tables, with each `%NAME%` replaced by the pattern of that name."""
    return re.sub(r"%([A-Z_]+)%", lambda found: _PATTERNS[found[1]], text)


def _command_fact(row: dict[str, Any]) -> CommandFact:
    return CommandFact(**row | {"kind": RiskKind[row["kind"]], "needs": _with_names(row.get("needs", ""))})


def _code_fact(row: dict[str, Any]) -> CodeFact:
    compiled = re.compile(_with_names(row["pattern"]), re.IGNORECASE | re.DOTALL)
    return CodeFact(**row | {"pattern": compiled, "kind": RiskKind[row.get("kind", "HIDDEN_CODE")]})


COMMAND_FACTS = tuple(map(_command_fact, _TABLES["commands"]))
CODE_FACTS = {language: tuple(map(_code_fact, rows)) for language, rows in _TABLES["code"].items()}
WRAPPERS = {row["name"]: Wrapper(**row) for row in _TABLES["wrappers"]}
PROGRAM_FLAGS = tuple(ProgramFlags(**row) for row in _TABLES["program_flags"])
VALUE_FLAGS: dict[str, str] = _TABLES["value_flags"]
FLAGS_ALONE: dict[str, str] = _TABLES["flags_alone"]
INTERPRETERS: dict[str, str] = _TABLES["interpreters"]
DESTINATIONS: dict[str, str] = _TABLES["destinations"]
WRITER_VALUE_FLAGS: dict[str, str] = _TABLES["writer_value_flags"]
OUTPUT_FLAGS: dict[str, str] = _TABLES["output_flags"]
SECRET_VARIABLE = pattern("SECRET_VARIABLE", re.IGNORECASE)
