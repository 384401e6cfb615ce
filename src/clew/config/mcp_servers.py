"""The MCP servers that a config file names, under `mcp.servers`: programs to start, or addresses to talk to.

Environment and flags cannot set them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.config.declare import URL
from clew.config.entries import EntryFields, is_text, is_texts, named_entries
from clew.errors import ConfigProblem, InvalidArgument

if TYPE_CHECKING:
    import yaml

MCP_KEY = "mcp.servers"
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server; either `command` or `url` is set."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Beside a few harmless variables; `${NAME}` stands for what the environment holds."""
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trust: bool = False
    """Its tools run without asking."""
    seconds: int = 60
    """How long a call may take."""
    enabled: bool = True


def resolved(texts: Mapping[str, str], server: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The texts with what the environment holds for each `${NAME}`. Raises InvalidArgument where it holds nothing."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise InvalidArgument(f"{MCP_KEY}.{server} needs the environment variable {match[1]}, which is not set")
        return environ[match[1]]

    return {name: _REFERENCE.sub(value, text) for name, text in texts.items()}


def servers_in(tree: yaml.MappingNode, path: Path) -> tuple[list[McpServer], list[ConfigProblem]]:
    """The servers of a config file, and what is wrong with the others."""
    found, problems = named_entries(tree, path, MCP_KEY, _FIELDS, _missing)
    return [McpServer(name, **entry) for name, entry in found.items()], problems


def _missing(entry: Mapping[str, Any]) -> str:
    is_one = ("command" in entry) != ("url" in entry)
    return "" if is_one else "expects either command, a program, or url, an address"


def _is_named_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)


_FIELDS: EntryFields = {
    "command": (is_text, "the program to start"),
    "args": (is_texts, "a list of texts"),
    "env": (_is_named_texts, "names with texts; put numbers in quotes"),
    "url": (lambda value: isinstance(value, str) and URL.pattern.fullmatch(value) is not None, URL.words),
    "headers": (_is_named_texts, "names with texts"),
    "trust": (lambda value: isinstance(value, bool), "true or false"),
    "seconds": (lambda value: type(value) is int and 1 <= value <= 3_600, "a whole number from 1 to 3,600"),
    "enabled": (lambda value: isinstance(value, bool), "true or false"),
}
