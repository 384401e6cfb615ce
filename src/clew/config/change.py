"""A setting changed in the config file, on disk, for good."""

from __future__ import annotations

from pathlib import Path

from clew.config.declare import Setting, Value
from clew.config.edit import with_value, without
from clew.config.home import read_text, replace_file
from clew.config.load import declared
from clew.config.moved import MOVED
from clew.config.yamlfile import leaves_of, tree_of


def set_in_file(path: Path, setting: Setting, value: Value) -> tuple[str, ...]:
    """Set it, and bring settings from their old places to the new ones; gives back what to tell the person."""
    text = with_value(read_text(path) or "", path, setting.key, value)
    text, notices = in_new_places(text, path)
    replace_file(path, text)
    return notices


def unset_in_file(path: Path, setting: Setting) -> tuple[str, ...]:
    """Take it out of the file, so that its default counts; gives back what to tell the person."""
    before = read_text(path)
    if before is None:
        return ()
    # First the move: a value in an old place is a value of this setting too.
    text, notices = in_new_places(before, path)
    text = without(text, path, setting.key)
    if text != before:
        replace_file(path, text)
    return notices


def in_new_places(text: str, path: Path) -> tuple[str, tuple[str, ...]]:
    """The text with moved settings where they belong now; an old value that is not allowed stays, to be seen."""
    notices = []
    for moved in MOVED:
        tree = tree_of(text, path)
        values = {leaf.key: leaf.value for leaf in leaves_of(tree)} if tree is not None else {}
        old = values.get(moved.old)
        if moved.old not in values or not declared()[moved.new].accepts(old):
            continue
        if moved.new not in values:
            text = with_value(text, path, moved.new, old)  # type: ignore[arg-type]
        text = without(text, path, moved.old)
        notices.append(f"{path}: moved {moved.old} to {moved.new}")
    return text, tuple(notices)
