"""Lists of the person's own names in a config file, with keys below each: MCP servers, and upstreams of the gateway.

They are no single settings, so environment and flags cannot set them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from clew.config.declare import nearest, shown_value
from clew.errors import ConfigProblem

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
