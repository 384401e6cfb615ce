"""Groups of the config file whose names a person chooses, with keys below each: MCP servers, upstreams of the gateway.

They are no single settings, so environment and flags cannot set them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from clew.config.declare import URL, VARIABLE, TextPattern, nearest, shown_value
from clew.errors import ConfigProblem, InvalidArgument

if TYPE_CHECKING:
    import yaml

FieldCheck: TypeAlias = tuple[Callable[[Any], bool], str]
"""What accepts the value of a key, and what it expects, in words."""
Entry = TypeVar("Entry")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_SECRET = ("env", "headers")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class EntryGroup(Generic[Entry]):
    """The declaration of such a group."""

    key: str
    make: Callable[..., Entry]
    """Takes the name and the fields of an entry."""
    fields: Mapping[str, FieldCheck]
    missing: Callable[[Mapping[str, Any]], str]
    """What an entry lacks as a whole; empty: nothing."""

    def read(self, tree: yaml.MappingNode, path: Path) -> tuple[list[Entry], list[ConfigProblem]]:
        """The valid entries of a config file, in their order, and what is wrong with the others."""
        found: list[Entry] = []
        problems: list[ConfigProblem] = []
        for name, entry, line in _entries(tree, self.key):
            wrong = [ConfigProblem(f"{path} line {line}", *problem) for problem in self._problems(name, entry)]
            problems += wrong
            if not wrong:
                fields = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
                found.append(self.make(name, **fields))
        return found, problems

    def _problems(self, name: str, entry: Any) -> Iterator[tuple[str, str, str]]:
        """The key, the value and the remedy of each problem."""
        key = f"{self.key}.{name}"
        if not _NAME.fullmatch(name):
            yield key, repr(name), "a name has letters, digits, - and _, and begins with a letter"
        if not isinstance(entry, dict):
            yield key, shown_value(entry), f"expects keys below it: {', '.join(self.fields)}"
            return
        for field_name, value in entry.items():
            checked = self.fields.get(field_name) if isinstance(field_name, str) else None
            if checked is None:
                meant = nearest(str(field_name), self.fields)
                words = f"unknown; did you mean {meant}?" if meant else f"unknown; there are {', '.join(self.fields)}"
                yield f"{key}.{field_name}", shown_value(value, secret=True), words
            elif not checked[0](value):
                yield f"{key}.{field_name}", shown_value(value, field_name in _SECRET), f"expects {checked[1]}"
        if lacks := self.missing(entry):
            yield key, "a group of keys", lacks


def _entries(tree: yaml.MappingNode, key: str) -> Iterator[tuple[str, Any, int]]:
    """Each name below a key, with its value and its line."""
    import yaml

    node: Any = tree
    for name in key.split("."):
        below = node.value if isinstance(node, yaml.MappingNode) else ()
        node = next((value for it, value in below if getattr(it, "value", None) == name), None)
    constructor = yaml.constructor.SafeConstructor()
    for key_node, value_node in node.value if isinstance(node, yaml.MappingNode) else ():
        yield str(key_node.value), constructor.construct_object(value_node, deep=True), key_node.start_mark.line + 1


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_named_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)


def _like(pattern: TextPattern) -> FieldCheck:
    return lambda value: isinstance(value, str) and pattern.pattern.fullmatch(value) is not None, pattern.words


_BOOLEAN: FieldCheck = (lambda value: isinstance(value, bool), "true or false")


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server; either `command` or `url` is set."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Beside a few harmless variables; `${NAME}` is replaced by the environment's value."""
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trust: bool = False
    """Its tools run without asking."""
    seconds: int = 60
    """How long a call may take."""
    enabled: bool = True


MCP_SERVERS = EntryGroup(
    "mcp.servers",
    McpServer,
    {
        "command": (lambda value: isinstance(value, str) and bool(value.strip()), "the program to start"),
        "args": (_is_texts, "a list of texts"),
        "env": (_is_named_texts, "names with texts; put numbers in quotes"),
        "url": _like(URL),
        "headers": (_is_named_texts, "names with texts"),
        "trust": _BOOLEAN,
        "seconds": (lambda value: type(value) is int and 1 <= value <= 3_600, "a whole number from 1 to 3,600"),
        "enabled": _BOOLEAN,
    },
    lambda entry: (
        "" if ("command" in entry) != ("url" in entry) else "expects either command, a program, or url, an address"
    ),
)


def resolved(texts: Mapping[str, str], server: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The texts with the environment's value for each `${NAME}`. Raises InvalidArgument where it has none."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise InvalidArgument(
                f"{MCP_SERVERS.key}.{server} needs the environment variable {match[1]}, which is not set"
            )
        return environ[match[1]]

    return {name: _REFERENCE.sub(value, text) for name, text in texts.items()}


@dataclass(frozen=True, slots=True)
class UpstreamEntry:
    """One upstream, and which requests go there."""

    name: str
    url: str
    wires: tuple[str, ...] = ()
    """Names of wires; empty: those that are known to be at the address, or all."""
    models: tuple[str, ...] = ()
    """Names of models, with `*` for any letters; empty: all."""
    api_key_env: str | None = None
    """The variable with the credential for callers with a key of Clew; None: the provider's usual one."""


UPSTREAMS = EntryGroup(
    "gateway.upstreams",
    UpstreamEntry,
    {
        "url": _like(URL),
        "wires": (_is_texts, "a list of wires, as [messages]"),
        "models": (_is_texts, 'a list of models, as ["claude-*"]'),
        "api_key_env": _like(VARIABLE),
    },
    lambda entry: "" if "url" in entry else "expects url, an address",
)
