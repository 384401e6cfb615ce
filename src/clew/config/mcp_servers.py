"""The MCP servers that a config file names, under `mcp.servers`: programs to start, or addresses to talk to.

They are a list of the person's own names and not single settings, so environment and flags cannot set them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.config.declare import URL, nearest, shown_value
from clew.errors import ConfigProblem, InvalidArgument

if TYPE_CHECKING:
    import yaml

MCP_KEY = "mcp.servers"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
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
    node = _child(_child(tree, "mcp"), "servers")
    if node is None:
        return [], []
    found: list[McpServer] = []
    problems: list[ConfigProblem] = []
    for name, entry, line in _entries(node):
        source, key = f"{path} line {line}", f"{MCP_KEY}.{name}"
        wrong = list(_problems(name, entry, source, key))
        if wrong:
            problems += wrong
        else:
            tuples = {field: tuple(value) for field, value in entry.items() if isinstance(value, list)}
            found.append(McpServer(name, **{**entry, **tuples}))
    return found, problems


def _entries(node: Any) -> Iterator[tuple[str, Any, int]]:
    import yaml

    constructor = yaml.constructor.SafeConstructor()
    for key_node, value_node in node.value if isinstance(node, yaml.MappingNode) else ():
        yield str(key_node.value), constructor.construct_object(value_node, deep=True), key_node.start_mark.line + 1


def _child(node: Any, name: str) -> Any:
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if getattr(key, "value", None) == name), None)


def _is_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)


_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "command": (lambda value: isinstance(value, str) and bool(value.strip()), "the program to start"),
    "args": (lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value), "a list of texts"),
    "env": (_is_texts, "names with texts; put numbers in quotes"),
    "url": (lambda value: isinstance(value, str) and URL.pattern.fullmatch(value) is not None, URL.words),
    "headers": (_is_texts, "names with texts"),
    "trust": (lambda value: isinstance(value, bool), "true or false"),
    "seconds": (lambda value: type(value) is int and 1 <= value <= 3_600, "a whole number from 1 to 3,600"),
    "enabled": (lambda value: isinstance(value, bool), "true or false"),
}


def _problems(name: str, entry: object, source: str, key: str) -> Iterator[ConfigProblem]:
    if not _NAME.fullmatch(name):
        yield ConfigProblem(source, key, repr(name), "a name has letters, digits, - and _, and begins with a letter")
    if not isinstance(entry, dict):
        yield ConfigProblem(source, key, shown_value(entry), "expects keys below it: command or url, ...")
        return
    for field_name, value in entry.items():
        checked = _FIELDS.get(field_name) if isinstance(field_name, str) else None
        if checked is None:
            meant = nearest(str(field_name), _FIELDS)
            words = f"unknown; did you mean {meant}?" if meant else f"unknown; there are {', '.join(_FIELDS)}"
            yield ConfigProblem(source, f"{key}.{field_name}", shown_value(value, secret=True), words)
        elif not checked[0](value):
            is_secret = field_name in ("env", "headers")
            yield ConfigProblem(source, f"{key}.{field_name}", shown_value(value, is_secret), f"expects {checked[1]}")
    if ("command" in entry) == ("url" in entry):
        yield ConfigProblem(source, key, "a group of keys", "expects either command, a program, or url, an address")
