"""Whatever the file and whatever the value: one setting changes, nothing else does, and no comment is lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.config import Setting, SettingValue, declared_settings
from clew.config.yaml_file import leaves_of, parse_yaml, with_key, without_key
from clew.errors import ConfigError

PATH = Path("config.yaml")
SETTINGS = st.sampled_from(list(declared_settings().values()))


def values_of(setting: Setting) -> st.SearchStrategy[SettingValue]:
    if setting.limits.choices:
        return st.sampled_from(setting.limits.choices)
    if setting.kind is bool:
        return st.booleans()
    if setting.kind is str:
        return st.text(min_size=1, max_size=30).filter(lambda text: text.isprintable() and text == text.strip())
    if setting.kind is int:
        return st.integers(min_value=int(setting.limits.low or 0), max_value=10**9)
    return st.floats(min_value=setting.limits.low, max_value=setting.limits.high)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, SettingValue]:
    setting = draw(SETTINGS)
    return setting.key, draw(values_of(setting))


@st.composite
def lines(draw: st.DrawFn) -> str:
    """Lines that are often nearly a config file, with comments, blanks, flow and odd indentation."""
    name = st.sampled_from(
        ["compression", "model", "auxiliary", "threshold", "name", "enabled", "engine", "x y", '"q"']
    )
    value = st.sampled_from(
        ["", " 0.5", " on", " 'it''s'", " {a: 1, b: [2]}", " |\n      text", " >-\n   t", " [1, 2]"]
    )
    comment = st.sampled_from(["", "", " # said", "   # a: b"])
    rows = st.builds(
        lambda indent, key, worth, note: " " * indent + f"{key}:{worth}{note if chr(10) not in worth else ''}",
        st.sampled_from([0, 0, 2, 2, 4]),
        name,
        value,
        comment,
    )
    odd = st.sampled_from(["", "# a comment", "  # indented", "---", "..."])
    newline = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    text = "\n".join(draw(st.lists(rows | odd, max_size=7)))
    return text.replace("\n", newline) + draw(st.sampled_from(["", newline]))


def comments_of(text: str) -> list[str]:
    """The comments of a valid file, in order; a # in a value begins none."""
    for token in reversed(list(yaml.scan(text))):
        if isinstance(token, yaml.ScalarToken):
            start, stop = token.start_mark.index, token.end_mark.index
            text = text[:start] + re.sub(r"[^\r\n]", " ", text[start:stop]) + text[stop:]
    return re.findall(r"#[^\r\n]*", text)


def content(text: str) -> dict[str, object]:
    tree = parse_yaml(text, PATH)
    return {leaf.key: leaf.value for leaf in leaves_of(tree)} if tree is not None else {}


@settings(deadline=None)  # the machine may be busy
@given(st.lists(pairs(), min_size=1, max_size=8))
def test_what_was_set_is_read_back_with_its_type(changes: list[tuple[str, SettingValue]]) -> None:
    text = ""
    for key, value in changes:
        text = with_key(text, PATH, key, value)
    expected = dict(changes)
    read = content(text)
    assert read == expected
    assert {key: type(value) for key, value in read.items()} == {key: type(value) for key, value in expected.items()}


@settings(deadline=None)  # the machine may be busy
@given(lines(), pairs())
@example("auxiliary: >-\n   t\n    compression: # said", ("auxiliary.compression.provider", "0"))
def test_an_edit_of_any_file_changes_one_key_and_keeps_every_comment(
    text: str, change: tuple[str, SettingValue]
) -> None:
    key, value = change
    try:
        before = content(text)
        after = with_key(text, PATH, key, value)
    except ConfigError:
        return  # refused, and so not touched
    read = content(after)
    assert read[key] == value
    branch = {
        name for name in {*before, *read} if name == key or key.startswith(f"{name}.") or name.startswith(f"{key}.")
    }
    assert {name: read[name] for name in read if name not in branch} == {
        name: before[name] for name in before if name not in branch
    }
    assert comments_of(after) == comments_of(text)
    assert with_key(after, PATH, key, value) == after, "setting the same again changes nothing"


@settings(deadline=None)  # the machine may be busy
@given(lines(), SETTINGS)
def test_what_was_added_can_be_taken_out_again(text: str, setting: Setting) -> None:
    try:
        before = content(text)
        if setting.key in before:
            return
        added = with_key(text, PATH, setting.key, setting.default)
    except ConfigError:
        return
    try:
        removed = without_key(added, PATH, setting.key)
    except ConfigError:
        return
    kept = {name: value for name, value in before.items() if not setting.key.startswith(f"{name}.")}
    left = {name: value for name, value in content(removed).items() if not setting.key.startswith(f"{name}.")}
    assert left == kept


@settings(deadline=None)  # the machine may be busy
@given(st.binary(max_size=200) | lines().map(str.encode))
def test_no_file_makes_reading_fail_in_any_other_way_than_a_config_error(raw: bytes) -> None:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return
    try:
        tree = parse_yaml(text, PATH)
    except ConfigError as error:
        assert str(error).startswith("config.yaml")
        return
    for leaf in leaves_of(tree) if tree is not None else ():
        assert leaf.line >= 1


@pytest.mark.parametrize("setting", declared_settings().values(), ids=lambda setting: setting.key)
def test_a_value_survives_being_written_as_text_in_the_environment(setting: Setting) -> None:
    assert setting.from_text(setting.shown(setting.default)) == setting.default
