"""The config file: its YAML read with limits, and single settings changed in its text.

Reading refuses all but a plain tree of keys, with the line of the problem. A change keeps every other character of the
file: YAML libraries that write a file lose comments or layout, so the parser only finds where a value starts and ends.
The edited text is parsed before it is written, and a file that cannot be edited safely is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from clew.config.declare import Setting, SettingValue, invalid_file
from clew.config.home import read_text, replace_file
from clew.config.settings import MOVED_SETTINGS, declared_settings
from clew.errors import ConfigProblem, InvalidConfig

MAX_DEPTH = 12
_Pair: TypeAlias = tuple[yaml.Node, yaml.Node]
"""A key of the file and its value."""


class _NotPlain(Exception):  # noqa: N818 (never leaves this module)
    def __init__(self, line: int, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.line, self.problem, self.remedy = line, problem, remedy


class _PlainLoader(yaml.SafeLoader):
    """Refuses aliases, which can expand without limit, and deep nesting; settings need neither."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise _NotPlain(line, f"alias *{event.anchor}", "write the value out")
        if self._depth > MAX_DEPTH or (self._depth == MAX_DEPTH and isinstance(event, yaml.CollectionStartEvent)):
            raise _NotPlain(line, f"more than {MAX_DEPTH} levels deep", "settings need three")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


@dataclass(frozen=True, slots=True)
class YamlLeaf:
    """One key of the file with its value; `remedy` is empty if the key is valid."""

    key: str
    value: object
    line: int
    remedy: str = ""


def parse_yaml(text: str, path: Path) -> yaml.MappingNode | None:
    """The text as a tree; None if it has only comments."""
    try:
        node = yaml.compose(text, Loader=_PlainLoader)
    except _NotPlain as refused:
        raise invalid_file(path, refused.line, refused.problem, refused.remedy) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise invalid_file(path, mark.line + 1 if mark else None, _problem_of(error), _remedy_for(error)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise invalid_file(path, line, f"character {error.character!r} is not allowed in YAML", "remove it") from error
    if node is None or _is_null(node):
        return None
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
        raise invalid_file(
            path, node.start_mark.line + 1, f"holds {kind} at the top", "keys are expected, as `compression:`"
        )
    return node


def leaves_of(node: yaml.MappingNode, prefix: str = "") -> Iterator[YamlLeaf]:
    """Every key without keys below it, in the order of the file."""
    seen: dict[str, int] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        name = key_node.value if isinstance(key_node, yaml.ScalarNode) else "(a key that is no word)"
        key = prefix + name
        if name in seen:
            yield YamlLeaf(key, value_of(value_node), line, f"already set in line {seen[name]}; keep one")
            continue
        seen[name] = line
        if "." in name:
            yield YamlLeaf(key, value_of(value_node), line, "a dot in a key; write one key below the other")
        elif isinstance(value_node, yaml.MappingNode) and value_node.value:
            yield from leaves_of(value_node, f"{key}.")
        else:
            yield YamlLeaf(key, value_of(value_node), line)


def value_of(node: yaml.Node) -> object:
    """The value of a scalar or of a list; for a group of keys an empty dict."""
    if isinstance(node, yaml.MappingNode):
        return {}
    if isinstance(node, yaml.SequenceNode):
        return [value_of(each) for each in node.value]
    try:
        value: Any = yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, OverflowError, yaml.YAMLError):
        # 2026-13-45 is no date, and a number of 5,000 digits no int: both are read as text.
        return node.value
    return str(node.value) if isinstance(value, float) and not math.isfinite(value) else value


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and value_of(node) is None


def _problem_of(error: yaml.MarkedYAMLError) -> str:
    return f"not valid YAML: {error.problem or error.context or 'it cannot be parsed'}"


def _remedy_for(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or ""
    if "\\t" in problem:
        return "indent with spaces, not with tabs"
    if "mapping values are not allowed" in problem:
        return "check the indentation, or put a value that contains a colon in quotes"
    return "check indentation, colons and quotes there"


_PLAIN_SCALAR = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*|[0-9]+[a-z]")


def with_key(text: str, path: Path, key: str, value: SettingValue | list[Any]) -> str:
    """The text with the key set to the value; a missing key is added."""
    expected = {name: old for name, old in _values_by_key(text, path).items() if not _same_branch(name, key)}
    expected[key] = value
    return _verified(lambda: _with_key(text, path, key.split("."), yaml_text(value)), expected, path, key)


def without_key(text: str, path: Path, key: str) -> str:
    """The text without the key; unchanged if it has none."""
    expected = _values_by_key(text, path)
    if key not in expected:
        return text
    del expected[key]
    return _verified(lambda: _removed(text, path, key.split(".")), expected, path, key)


def with_list_item(text: str, path: Path, key: str, item: str) -> str:
    """The text with the item at the end of the list of the key; a missing list is added."""
    listed = _list_at(text, path, key)
    return text if item in listed else with_key(text, path, key, [*listed, item])


def without_list_item(text: str, path: Path, key: str, item: str) -> str:
    """The text without the item in the list of the key; unchanged if it has none."""
    listed = _list_at(text, path, key)
    return with_key(text, path, key, [each for each in listed if each != item]) if item in listed else text


def _list_at(text: str, path: Path, key: str) -> list[Any]:
    value = _values_by_key(text, path).get(key)
    if value is None or isinstance(value, list):
        return value or []
    raise InvalidConfig([ConfigProblem(str(path), key, f"{value!r} is no list", "write it as a list")])


def yaml_text(value: SettingValue | list[Any]) -> str:
    """A value as YAML on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(yaml_text, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if not isinstance(value, str):
        return str(value)
    return value if _reads_as_text(value) else json.dumps(value, ensure_ascii=False)


def _reads_as_text(value: str) -> bool:
    """Whether YAML reads it as the same text without quotes."""
    if not _PLAIN_SCALAR.fullmatch(value):
        return False
    node: yaml.Node | None = yaml.compose(value, Loader=yaml.SafeLoader)
    return node is not None and isinstance(value_of(node), str)


def _with_key(text: str, path: Path, names: Sequence[str], value: str) -> str:
    group, depth, found = _place(text, path, names)
    if group is None:
        return _with_lines(text, len(text), _block(names, value, 0))
    if found is None:
        return _inserted(text, group, names[depth:], value)
    if depth == len(names) - 1:
        return _replaced(text, *found, value)
    return _filled(text, *found, names[depth + 1 :], value)


def _place(text: str, path: Path, names: Sequence[str]) -> tuple[yaml.MappingNode | None, int, _Pair | None]:
    """The innermost group on the way to a key, how deep it is, and its entry on this way; None where it has none."""
    group = parse_yaml(text, path)
    for depth, name in enumerate(names if group else ()):
        found = _entry(group, name, path)
        if found is None or depth == len(names) - 1 or not isinstance(found[1], yaml.MappingNode) or not found[1].value:
            return group, depth, found
        group = found[1]
    return None, 0, None


def _entry(node: Any, name: str, path: Path) -> _Pair | None:
    found = [pair for pair in node.value if pair[0].value == name]
    if len(found) > 1:
        lines = " and ".join(str(key.start_mark.line + 1) for key, _ in found)
        raise InvalidConfig(
            [ConfigProblem(str(path), name, f"set in lines {lines}", "remove all but one by hand first")]
        )
    return found[0] if found else None


def _replaced(text: str, key_node: yaml.Node, node: yaml.Node, value: str) -> str:
    if isinstance(node, yaml.SequenceNode) and not node.flow_style:  # its lines go, and a comment behind the key stays
        colon = text.index(":", key_node.end_mark.index) + 1
        return f"{text[:colon]} {value}{text[colon : _line_end(text, colon)]}{text[_line_end(text, _end(node)) :]}"
    start, end = node.start_mark.index, _end(node)
    if start == end:  # there is no value yet: it goes just behind the colon
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
    """The text with a key in an empty group, as `compression:` or `compression: {}`."""
    if below.start_mark.index == below.end_mark.index:
        return _with_lines(text, below.end_mark.index, _block(names, value, key_node.start_mark.column + 2))
    return _replaced(text, key_node, below, "{" + _flow(names, value) + "}")


def _removed(text: str, path: Path, names: Sequence[str]) -> str:
    group, depth, found = _place(text, path, names)
    if group is None or found is None or depth < len(names) - 1:
        return text
    start, end = found[0].start_mark.index, _end(found[1])
    if group.flow_style:
        return _without_span_and_comma(text, start, end)
    start = text.rfind("\n", 0, start) + 1
    return text[:start] + text[_line_end(text, end) :]


def _without_span_and_comma(text: str, start: int, end: int) -> str:
    before, after = text[:start].rstrip(), text[end:].lstrip()
    if after.startswith(","):
        return text[:start] + after[1:].lstrip()
    return before.removesuffix(",") + text[end:]


def _end(node: yaml.Node) -> int:
    """The end of the last value below a node; the end mark of a block includes comments that follow it."""
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


def _values_by_key(text: str, path: Path) -> dict[str, object]:
    tree = parse_yaml(text, path)
    return {leaf.key: leaf.value for leaf in leaves_of(tree)} if tree is not None else {}


def _same_branch(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def _verified(edit: Callable[[], str], expected: dict[str, object], path: Path, key: str) -> str:
    """The edited text, if it has the expected values; empty groups are ignored. Raises `InvalidConfig` if not."""
    edited = edit()
    try:
        content = _values_by_key(edited, path)
    except InvalidConfig:
        content = {"": None}
    if _without_empty(content) != _without_empty(expected):
        remedy = "the file is laid out in a way that cannot be edited safely; change it by hand"
        raise InvalidConfig([ConfigProblem(str(path), key, "cannot be changed here", remedy)])
    return edited


def _without_empty(content: dict[str, object]) -> dict[str, tuple[str, object]]:
    # With its type, because True == 1 == 1.0 to Python.
    return {key: (type(value).__name__, value) for key, value in content.items() if value not in (None, {})}


def set_in_file(path: Path, setting: Setting, value: SettingValue) -> tuple[str, ...]:
    """Set a setting in the file, and rename moved settings; returns notices for the user."""
    text = with_key(read_text(path) or "", path, setting.key, value)
    text, notices = with_moved_settings(text, path)
    replace_file(path, text)
    return notices


def unset_in_file(path: Path, setting: Setting) -> tuple[str, ...]:
    """Remove a setting from the file, so that its default applies; returns notices for the user."""
    before = read_text(path)
    if before is None:
        return ()
    # Moved settings first, because a value of an old key is one of this setting, too.
    text, notices = with_moved_settings(before, path)
    text = without_key(text, path, setting.key)
    if text != before:
        text = _without_empty_group(text, path, setting.key.rpartition(".")[0])
    if text != before:
        replace_file(path, text)
    return notices


def _without_empty_group(text: str, path: Path, group: str) -> str:
    """The text without the line of an empty group, if no value changes by that."""
    line = re.compile(rf"(?m)^( *){re.escape(group.rpartition('.')[2])}:[ \t]*(?:\n|\Z)(?!\1 )")
    shorter = line.sub("", text, count=1)
    before, after = (
        {key: value for key, value in _values_by_key(each, path).items() if value is not None}
        for each in (text, shorter)
    )
    return shorter if before == after else text


def with_moved_settings(text: str, path: Path) -> tuple[str, tuple[str, ...]]:
    """The text with moved settings under their new keys; an old value that is not allowed is not moved."""
    notices = []
    values = _values_by_key(text, path)
    for old_key, new_key in MOVED_SETTINGS.items():
        old: Any = values.get(old_key)
        if old_key in values and declared_settings()[new_key].accepts(old):
            text = text if new_key in values else with_key(text, path, new_key, old)
            text = without_key(text, path, old_key)
            notices.append(f"{path}: moved {old_key} to {new_key}")
    return text, tuple(notices)
