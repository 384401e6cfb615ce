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
    """A command that is dangerous whatever its paths are; `risk.toml` says how its terms are read."""

    kind: RiskKind
    names: str
    needs: str
    reason: str
    unless: str
    always_ask: bool
    """An agreement covers exactly the same command only."""


@dataclass(frozen=True, slots=True)
class CodeFact:
    """Something dangerous in code or SQL on the command line."""

    kind: RiskKind
    pattern: re.Pattern[str]
    reason: str
    always_ask: bool


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A command that runs the command in its arguments."""

    name: str
    """Several words where a subcommand does it: `uv run`."""
    valued: str
    skips: int
    adds_arguments: bool


@dataclass(frozen=True, slots=True)
class ProgramFlags:
    """Flags of commands whose value is a program that they run."""

    commands: str
    flags: str
    harmless: str
    is_attached: bool


_TABLES: dict[str, Any] = tomllib.loads(read_beside(__file__, "risk.toml").decode())
_PATTERNS: dict[str, str] = _TABLES["patterns"]
NAMES = {name: frozenset(words.split("|" if "|" in words else None)) for name, words in _TABLES["names"].items()}


def pattern(name: str, flags: int = 0) -> re.Pattern[str]:
    """The regular expression of that name."""
    return re.compile(_PATTERNS[name], flags)


def pattern_text(text: str) -> str:
    """A regular expression of the tables, with each `%NAME%` replaced by the pattern of that name."""
    return re.sub(r"%([A-Z_]+)%", lambda found: _PATTERNS[found[1]], text)


def _command_facts(rows: list[dict[str, Any]]) -> tuple[CommandFact, ...]:
    return tuple(
        CommandFact(
            RiskKind[row["kind"]],
            row["names"],
            pattern_text(row.get("needs", "")),
            row["reason"],
            row.get("unless", ""),
            row.get("always", False),
        )
        for row in rows
    )


def _code_facts(rows: list[dict[str, Any]]) -> tuple[CodeFact, ...]:
    flags = re.IGNORECASE | re.DOTALL
    return tuple(
        CodeFact(
            RiskKind[row["kind"]],
            re.compile(pattern_text(row["pattern"]), flags),
            row["reason"],
            row.get("always", False),
        )
        for row in rows
    )


COMMAND_FACTS = _command_facts(_TABLES["commands"])
CODE_FACTS = _code_facts(_TABLES["code"])
SQL_FACTS = _code_facts(_TABLES["sql"])
WRAPPERS = {
    row["name"]: Wrapper(row["name"], row.get("valued", ""), row.get("skips", 0), row.get("adds", False))
    for row in _TABLES["wrappers"]
}
PROGRAM_FLAGS = tuple(
    ProgramFlags(row["commands"], row["flags"], row.get("harmless", ""), row.get("attached", False))
    for row in _TABLES["program_flags"]
)

VALUE_FLAGS: dict[str, str] = _TABLES["value_flags"]
INTERPRETERS: dict[str, str] = _TABLES["interpreters"]
COMMAND_FLAGS: dict[str, str] = _TABLES["command_flags"]
DESTINATIONS: dict[str, str] = _TABLES["destinations"]
WRITER_VALUE_FLAGS: dict[str, str] = _TABLES["writer_value_flags"]
OUTPUT_FLAGS: dict[str, str] = _TABLES["output_flags"]

SECRET_VARIABLE = pattern("SECRET_VARIABLE", re.IGNORECASE)
GIT_INTERNALS = pattern("GIT_INTERNALS")
CODE_VARIABLES = pattern("CODE_VARIABLES")
COMMAND_VARIABLES = pattern("COMMAND_VARIABLES")
SEARCH_PATH_VARIABLES = pattern("SEARCH_PATH_VARIABLES")
LOADS_CODE = pattern("LOADS_CODE")
