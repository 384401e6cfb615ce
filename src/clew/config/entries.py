"""Lists of the person's own names in a config file, with keys below each: MCP servers, and upstreams of the gateway.

They are no single settings, so environment and flags cannot set them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clew.config.declare import URL, VARIABLE, nearest, shown_value
from clew.errors import ConfigProblem, InvalidArgument

if TYPE_CHECKING:
    import yaml

EntryFields: TypeAlias = Mapping[str, tuple[Callable[[Any], bool], str]]
"""The keys that an entry may have: what accepts a value, and what it expects."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_SECRET = ("env", "headers")


def named_entries(
    tree: yaml.MappingNode, path: Path, key: str, fields: EntryFields, missing: Callable[[Mapping[str, Any]], str]
) -> tuple[dict[str, dict[str, Any]], list[ConfigProblem]]:
    """The entries below a key, in their order, and what is wrong with the others. A list becomes a tuple.

    `missing` says what an entry lacks as a whole; empty: nothing.
    """
    node: Any = tree
    for name in key.split("."):
        node = _child(node, name)
    found: dict[str, dict[str, Any]] = {}
    problems: list[ConfigProblem] = []
    for name, entry, line in _entries(node):
        source, where = f"{path} line {line}", f"{key}.{name}"
        wrong = list(_problems(name, entry, source, where, fields))
        if isinstance(entry, dict) and (lacks := missing(entry)):
            wrong.append(ConfigProblem(source, where, "a group of keys", lacks))
        problems += wrong
        if not wrong:
            found[name] = {it: tuple(value) if isinstance(value, list) else value for it, value in entry.items()}
    return found, problems


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


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


def _problems(name: str, entry: object, source: str, key: str, fields: EntryFields) -> Iterator[ConfigProblem]:
    if not _NAME.fullmatch(name):
        yield ConfigProblem(source, key, repr(name), "a name has letters, digits, - and _, and begins with a letter")
    if not isinstance(entry, dict):
        yield ConfigProblem(source, key, shown_value(entry), f"expects keys below it: {', '.join(fields)}")
        return
    for field_name, value in entry.items():
        checked = fields.get(field_name) if isinstance(field_name, str) else None
        if checked is None:
            meant = nearest(str(field_name), fields)
            words = f"unknown; did you mean {meant}?" if meant else f"unknown; there are {', '.join(fields)}"
            yield ConfigProblem(source, f"{key}.{field_name}", shown_value(value, secret=True), words)
        elif not checked[0](value):
            shown = shown_value(value, field_name in _SECRET)
            yield ConfigProblem(source, f"{key}.{field_name}", shown, f"expects {checked[1]}")


MCP_KEY = "mcp.servers"
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


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


def resolved(texts: Mapping[str, str], server: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The texts with what the environment holds for each `${NAME}`. Raises InvalidArgument where it holds nothing."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise InvalidArgument(f"{MCP_KEY}.{server} needs the environment variable {match[1]}, which is not set")
        return environ[match[1]]

    return {name: _REFERENCE.sub(value, text) for name, text in texts.items()}


def servers_in(tree: yaml.MappingNode, path: Path) -> tuple[list[McpServer], list[ConfigProblem]]:
    """The servers of a config file, and what is wrong with the others."""
    found, problems = named_entries(tree, path, MCP_KEY, _SERVER_FIELDS, _missing_in_server)
    return [McpServer(name, **entry) for name, entry in found.items()], problems


def _missing_in_server(entry: Mapping[str, Any]) -> str:
    is_one = ("command" in entry) != ("url" in entry)
    return "" if is_one else "expects either command, a program, or url, an address"


def _is_named_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for pair in value.items() for each in pair)


_SERVER_FIELDS: EntryFields = {
    "command": (is_text, "the program to start"),
    "args": (is_texts, "a list of texts"),
    "env": (_is_named_texts, "names with texts; put numbers in quotes"),
    "url": (lambda value: isinstance(value, str) and URL.pattern.fullmatch(value) is not None, URL.words),
    "headers": (_is_named_texts, "names with texts"),
    "trust": (lambda value: isinstance(value, bool), "true or false"),
    "seconds": (lambda value: type(value) is int and 1 <= value <= 3_600, "a whole number from 1 to 3,600"),
    "enabled": (lambda value: isinstance(value, bool), "true or false"),
}


UPSTREAMS_KEY = "gateway.upstreams"


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


_UPSTREAM_FIELDS: EntryFields = {
    "url": (lambda value: isinstance(value, str) and URL.pattern.fullmatch(value) is not None, URL.words),
    "wires": (is_texts, "a list of wires, as [messages]"),
    "models": (is_texts, 'a list of models, as ["claude-*"]'),
    "api_key_env": (
        lambda value: isinstance(value, str) and VARIABLE.pattern.fullmatch(value) is not None,
        VARIABLE.words,
    ),
}


def upstreams_in(tree: yaml.MappingNode, path: Path) -> tuple[list[UpstreamEntry], list[ConfigProblem]]:
    """The upstreams of a config file, and what is wrong with the others."""
    found, problems = named_entries(
        tree, path, UPSTREAMS_KEY, _UPSTREAM_FIELDS, lambda entry: "" if "url" in entry else "expects url, an address"
    )
    return [UpstreamEntry(name, **entry) for name, entry in found.items()], problems
