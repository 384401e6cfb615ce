"""The YAML of a config file, read with bounds: keys, values and the lines they stand on.

Knows YAML, not which settings exist. Whatever is not a plain tree of keys is refused with the line it is on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from clew.config.problems import refused

MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Leaf:
    """One key of the file with its value; `remedy` says what to do where the key cannot count as it is written."""

    key: str
    value: object
    line: int
    remedy: str = ""


def tree_of(text: str, path: Path) -> yaml.MappingNode | None:
    """The tree of the text; None where it holds nothing but comments."""
    try:
        _refuse_what_can_explode(text, path)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise refused(path, mark.line + 1 if mark else None, _complaint(error), _mend(error)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise refused(path, line, f"character {error.character!r} is not allowed in YAML", "remove it") from error
    if node is None or _is_null(node):
        return None
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise refused(
            path, node.start_mark.line + 1, f"holds {kind} at the top", "keys are expected, as `compression:`"
        )
    return node


def leaves_of(node: yaml.MappingNode, prefix: str = "") -> Iterator[Leaf]:
    """Every key that has no keys below it, in the order of the file."""
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "(a key that is no word)"
        key = prefix + name
        if name in seen:
            yield Leaf(key, value_of(value_node), line, f"already set in line {seen[name]}; keep one")
            continue
        seen[name] = line
        if "." in name:
            yield Leaf(key, value_of(value_node), line, "a dot in a key; write one key below the other")
        elif isinstance(value_node, yaml.MappingNode) and value_node.value:
            yield from leaves_of(value_node, f"{key}.")
        else:
            yield Leaf(key, value_of(value_node), line)


def value_of(node: yaml.Node) -> object:
    """What a node means: a scalar's value; an empty mapping or list for the others, whatever they hold."""
    if isinstance(node, yaml.MappingNode):
        return {}
    if isinstance(node, yaml.SequenceNode):
        return []
    try:
        value: Any = yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, OverflowError, yaml.YAMLError):
        # 2026-13-45 has the form of a date, and a 5,000-digit number that of an int: both are only text.
        return node.value
    return str(node.value) if isinstance(value, float) and not math.isfinite(value) else value


def _refuse_what_can_explode(text: str, path: Path) -> None:
    """Aliases multiply and nesting recurses; a tree of settings needs neither."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else None
        if isinstance(event, yaml.AliasEvent):
            raise refused(path, line, f"alias *{event.anchor}", "write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise refused(path, line, f"more than {MAX_DEPTH} levels deep", "settings need three")


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and value_of(node) is None


def _complaint(error: yaml.MarkedYAMLError) -> str:
    return f"not valid YAML: {error.problem or error.context or 'it cannot be parsed'}"


def _mend(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    if "\\t" in problem:
        return "indent with spaces, not with tabs"
    if "mapping values are not allowed" in problem:
        return "check the indentation, or put a value that contains a colon in quotes"
    return "check indentation, colons and quotes there"
