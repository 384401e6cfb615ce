"""Settings and their values, read from edits of files and from command lines. Values of secrets are left out.

Of a file that holds settings, every plain assignment counts; of code, a constant that an edit gives another value.
What such files, lines and commands look like is in `state.toml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clew.facts.data import load_table
from clew.facts.outcomes import Detector
from clew.facts.text import CUT
from clew.facts.tools import Edit
from clew.redact import redact_text
from clew.shell import UNKNOWN, SimpleCommand

_TABLE = load_table("state.toml")
_LINES = {row["name"]: Detector.of(row) for row in _TABLE["line"]}
_ENDS, _NOT = tuple(_TABLE["files"]["ends"]), tuple(_TABLE["files"]["not"])
_COMMANDS = [row.split() for row in _TABLE["settings"]["commands"]]
_CONFIG_READ_CHARS = 12_000
_MOST_OF_AN_EDIT = 12
_LONGEST_VALUE_CHARS = 80


class SettingValue(NamedTuple):
    """A setting with the value that it was given, and the one that it had before, where the edit shows it."""

    key: str
    value: str
    before: str = ""


def settings_in_edit(edit: Edit) -> list[SettingValue]:
    """The settings to which an edit of a file gives another value."""
    is_config = edit.path.endswith(_ENDS) and not any(part in edit.path for part in _NOT)
    if not is_config and not (edit.old and _LINES["constant"].pattern.search(edit.new)):
        return []
    before, after = _pairs(edit.old), _pairs(edit.new)
    found = [
        SettingValue(key, _shown(key, value), _shown(key, before.get(key, "")))
        for key, value in after.items()
        if before.get(key) != value and (is_config or (key in before and key.isupper()))
    ]
    return found[:_MOST_OF_AN_EDIT]


def _pairs(text: str) -> dict[str, str]:
    """The assignments of a text by key; keys that occur twice are dropped, since they belong to different things."""
    pairs: dict[str, str] = {}
    twice: set[str] = set()
    section = ""
    for found in _LINES["setting"].matches(text[:_CONFIG_READ_CHARS]):
        if found["section"]:
            section = f"{found['section']}."
            continue
        key = section + found["key"]
        if key in pairs:
            twice.add(key)
        pairs[key] = found["value"]
    return {key: value for key, value in pairs.items() if key not in twice}


def settings_in_command(command: SimpleCommand) -> Iterator[SettingValue]:
    """The settings that a command gives a value for longer than it runs."""
    words = [word.text for word in command.words]
    for start in _COMMANDS:
        if len(words) > len(start) and all(want in ("*", word) for want, word in zip(start, words, strict=False)):
            for key, value in _given([word for word in words[len(start) :] if not word.startswith("-")]):
                if key and value and UNKNOWN not in key + value:
                    yield SettingValue(key, _shown(key, value))
            return


def _given(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    if words and "=" not in words[0]:
        yield words[0], words[1] if len(words) > 1 else ""
        return
    for word in words:
        key, _, value = word.partition("=")
        yield key, value


def _shown(key: str, value: str) -> str:
    """A value without quotes and without a secret."""
    plain = value.strip("\"'")
    clean = redact_text(f"{key}={plain}").partition("=")[2] if plain else ""
    return clean if len(clean) <= _LONGEST_VALUE_CHARS else clean[: _LONGEST_VALUE_CHARS - 1] + CUT
