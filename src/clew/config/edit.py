"""One setting changed in the text of a config file, and every other character left as the person wrote it.

Works on text alone. YAML libraries that write a file back lose its comments or its layout; here the parser only says
where a value begins and ends. Each change is read back before it is given out: a file whose shape is too odd to edit
is refused, never damaged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml

from clew.config.declare import Value
from clew.config.problems import InvalidConfig, Problem
from clew.config.yamlfile import leaves_of, tree_of, value_of

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|[0-9]+[a-z]")


def with_value(text: str, path: Path, key: str, value: Value) -> str:
    """The text with the key set to the value, added where it is missing."""
    expected = {name: old for name, old in _content(text, path).items() if not _same_branch(name, key)}
    expected[key] = value
    return _proven(lambda: _set(text, path, key.split("."), scalar(value)), expected, path, key)


def without(text: str, path: Path, key: str) -> str:
    """The text without the key; the text itself where it has none."""
    expected = _content(text, path)
    if key not in expected:
        return text
    del expected[key]
    return _proven(lambda: _removed(text, path, key.split(".")), expected, path, key)


def scalar(value: Value) -> str:
    """A value as YAML reads it back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if not isinstance(value, str):
        return str(value)
    reads_as_text = _PLAIN.fullmatch(value) and isinstance(value_of(_scalar_node(value)), str)
    return value if reads_as_text else json.dumps(value, ensure_ascii=False)


def _set(text: str, path: Path, names: Sequence[str], value: str) -> str:
    node = tree_of(text, path)
    if node is None:
        return _with_lines(text, len(text), _block(names, value, 0))
    for depth, name in enumerate(names):
        found = _entry(node, name, path)
        if found is None:
            return _inserted(text, node, names[depth:], value)
        key_node, below = found
        rest = names[depth + 1 :]
        if not rest:
            return _replaced(text, below, value)
        if not isinstance(below, yaml.MappingNode) or not below.value:
            return _filled(text, key_node, below, rest, value)
        node = below
    raise AssertionError("a key has at least one name")


def _entry(node: yaml.MappingNode, name: str, path: Path) -> tuple[yaml.Node, yaml.Node] | None:
    found = [pair for pair in node.value if pair[0].value == name]
    if len(found) > 1:
        lines = " and ".join(str(key.start_mark.line + 1) for key, _ in found)
        raise InvalidConfig([Problem(str(path), name, f"set in lines {lines}", "remove all but one by hand first")])
    return found[0] if found else None


def _replaced(text: str, node: yaml.Node, value: str) -> str:
    start, end = node.start_mark.index, _end(node)
    if start == end:  # nothing stands there yet: the place is just behind the colon
        return f"{text[:start]} {value}{text[end:]}"
    ending = "\n" if text[end - 1] == "\n" else ""  # a block scalar ends with its line
    return text[:start] + value + ending + text[end:]


def _inserted(text: str, node: yaml.MappingNode, names: Sequence[str], value: str) -> str:
    if node.flow_style:
        after = node.start_mark.index + 1
        return f"{text[:after]}{_flow(names, value)}{', ' if node.value else ''}{text[after:]}"
    indent = node.value[0][0].start_mark.column
    return _with_lines(text, _end(node), _block(names, value, indent))


def _filled(text: str, key_node: yaml.Node, below: yaml.Node, names: Sequence[str], value: str) -> str:
    """A group that is there without keys, as `compression:` or `compression: {}`."""
    if below.start_mark.index == below.end_mark.index:
        return _with_lines(text, below.end_mark.index, _block(names, value, key_node.start_mark.column + 2))
    return _replaced(text, below, "{" + _flow(names, value) + "}")


def _removed(text: str, path: Path, names: Sequence[str]) -> str:
    node = tree_of(text, path)
    for name in names[:-1]:
        found = _entry(node, name, path) if isinstance(node, yaml.MappingNode) else None
        node = found[1] if found else None  # type: ignore[assignment]
    found = _entry(node, names[-1], path) if isinstance(node, yaml.MappingNode) else None
    if found is None or node is None:
        return text
    start, end = found[0].start_mark.index, _end(found[1])
    if node.flow_style:
        return _without_span_and_comma(text, start, end)
    start = text.rfind("\n", 0, start) + 1
    return text[:start] + text[_line_end(text, end) :]


def _without_span_and_comma(text: str, start: int, end: int) -> str:
    before, after = text[:start].rstrip(), text[end:].lstrip()
    if after.startswith(","):
        return text[:start] + after[1:].lstrip()
    return before.removesuffix(",") + text[end:]


def _end(node: yaml.Node) -> int:
    """Where the last value below a node ends; a block's own end mark lies behind the comments that follow it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, yaml.MappingNode) else last
    return int(node.end_mark.index)


def _line_end(text: str, index: int) -> int:
    """The beginning of the line after the one that holds this index."""
    if index and text[index - 1] == "\n":
        return index
    return text.find("\n", index) + 1 or len(text)


def _with_lines(text: str, index: int, lines: Sequence[str]) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    at = _line_end(text, index) if text else 0
    missing = newline if at and text[at - 1] != "\n" else ""
    return text[:at] + missing + "".join(line + newline for line in lines) + text[at:]


def _block(names: Sequence[str], value: str, indent: int) -> list[str]:
    *groups, last = names
    lines = [" " * (indent + 2 * depth) + f"{name}:" for depth, name in enumerate(groups)]
    return [*lines, " " * (indent + 2 * len(groups)) + f"{last}: {value}"]


def _flow(names: Sequence[str], value: str) -> str:
    *groups, last = names
    return "".join(f"{name}: {{" for name in groups) + f"{last}: {value}" + "}" * len(groups)


def _content(text: str, path: Path) -> dict[str, object]:
    tree = tree_of(text, path)
    return {leaf.key: leaf.value for leaf in leaves_of(tree)} if tree is not None else {}


def _same_branch(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _proven(edit: Callable[[], str], expected: dict[str, object], path: Path, key: str) -> str:
    """The edited text, if it reads back as expected; empty groups do not count."""
    edited = edit()
    try:
        content = _content(edited, path)
    except InvalidConfig:
        content = {"": None}
    if _filled_only(content) != _filled_only(expected):
        remedy = "the file is laid out in a way that cannot be edited safely; change it by hand"
        raise InvalidConfig([Problem(str(path), key, "cannot be changed here", remedy)])
    return edited


def _filled_only(content: dict[str, object]) -> dict[str, tuple[str, object]]:
    # The type stands beside the value because True == 1 == 1.0 to Python.
    return {key: (type(value).__name__, value) for key, value in content.items() if value not in (None, {})}


def _scalar_node(text: str) -> yaml.Node:
    node: yaml.Node = yaml.compose(text, Loader=yaml.SafeLoader)
    return node
