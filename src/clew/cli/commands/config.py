"""`clew config show|set|path|check`: the settings in force, where each comes from, and how to change one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.parser import did_you_mean
from clew.cli.views.amounts import plural
from clew.cli.views.tables import table_lines
from clew.cli.views.text import Align, clip, pad, wrap_all
from clew.config import (
    LoadedConfig,
    Setting,
    config_path,
    declared_settings,
    path_exists,
    read_config,
    setting_named,
    value_from,
)
from clew.errors import InvalidArgument

MIN_WIDTH_FOR_MEANING = 100
MIN_WIDTH_FOR_ORIGIN = 60
EXAMPLES = """\
examples:
  clew config show compression
  clew config set compression.threshold 0.6
  clew config set model.api_key -        the value is read from stdin, not from the command line
  clew config set model.base_url --default
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(title="what to do", metavar="show|set|path|check", dest="verb", required=True)

    show = verbs.add_parser("show", help="every setting with its value and where it comes from")
    show.add_argument("keys", nargs="*", metavar="KEY", help="only these settings or groups of settings")

    change = verbs.add_parser("set", help="change one setting in the config file; comments stay")
    change.add_argument("key", metavar="KEY", help="for example compression.threshold")
    change.add_argument("value", metavar="VALUE", nargs="?", help="the new value; - reads it from stdin")
    change.add_argument("--default", action="store_true", help="remove it from the file instead")

    path = verbs.add_parser("path", help="where the config file is, or would be")
    check = verbs.add_parser("check", help="list everything that is wrong, all at once")
    for each in (show, change, path, check):
        each.add_argument("--json", action="store_true", help="print JSON")
    for reading in (show, check):
        add_set_flag(reading)


def run(arguments: argparse.Namespace, console: Console) -> int:
    return {"show": _show, "set": _set, "path": _path, "check": _check}[arguments.verb](arguments, console)


def _show(arguments: argparse.Namespace, console: Console) -> int:
    loaded = read_config(console.environ, arguments.flags)
    chosen = _chosen(arguments.keys)
    console.notes(loaded.notices)
    if arguments.json:
        console.print_json(_settings_json(loaded, chosen))
    elif len(chosen) == 1:
        _print_one(chosen[0], loaded, console)
    else:
        _print_all(chosen, loaded, console)
    console.notes(problem.text for problem in loaded.problems)
    return 1 if loaded.problems else 0


def _set(arguments: argparse.Namespace, console: Console) -> int:
    from clew.config import set_in_file, unset_in_file

    if (arguments.value is None) == (not arguments.default):
        raise InvalidArgument(
            "config set: VALUE is missing; give one, or --default to remove the setting from the file"
        )
    path = config_path(console.environ)
    setting = setting_named(arguments.key, "config set")
    if arguments.default:
        notices = unset_in_file(path, setting)
    else:
        text = console.read_line().rstrip("\r\n") if arguments.value == "-" else arguments.value
        notices = set_in_file(path, setting, value_from(text, setting, "config set"))
    console.notes(notices)
    _print_outcome(setting, arguments, console)
    return 0


def _path(arguments: argparse.Namespace, console: Console) -> int:
    path = config_path(console.environ)
    if arguments.json:
        console.print_json({"path": str(path), "exists": path_exists(path)})
    else:
        console.print(str(path))
    return 0


def _check(arguments: argparse.Namespace, console: Console) -> int:
    loaded = read_config(console.environ, arguments.flags)
    console.notes(loaded.notices)
    if arguments.json:
        console.print_json({"ok": not loaded.problems, "path": str(loaded.path), **_problems_json(loaded)})
    elif loaded.problems:
        for problem in loaded.problems:
            console.print(problem.text)
    else:
        console.print(f"{loaded.path}: {_verdict(loaded)}")
    return 1 if loaded.problems else 0


def _verdict(loaded: LoadedConfig) -> str:
    if not path_exists(loaded.path):
        return "not there, so every setting has its default; fine"
    return f"no problems; {plural(len(loaded.origins), 'setting')} changed from the default"


def _print_outcome(setting: Setting, arguments: argparse.Namespace, console: Console) -> None:
    """The value in force, which another source may still overrule, and what else is wrong with the file."""
    loaded = read_config(console.environ)
    if setting.key != arguments.key:
        console.note(f"{arguments.key} has moved to {setting.key}")
    origin = loaded.origin_of(setting.key)
    if arguments.json:
        console.print_json(_settings_json(loaded, [setting]))
    else:
        console.print(f"{setting.key} = {setting.shown(loaded.value_of(setting.key))}  ({origin}, {loaded.path})")
    if origin.kind == "env":
        console.note(f"the environment variable {origin.where} overrules the file")
    console.notes(problem.text for problem in loaded.problems)


def _chosen(keys: Sequence[str]) -> list[Setting]:
    """The settings of these keys, each a setting or a group; all settings for no key."""
    chosen: dict[str, Setting] = {}
    for key in keys:
        below = {name: each for name, each in declared_settings().items() if name == key or name.startswith(f"{key}.")}
        if not below:
            groups = {name.partition(".")[0] for name in declared_settings()}
            if near := did_you_mean(key, groups) if "." not in key else "":
                raise InvalidArgument(f"no setting or group {key!r}; {near}`clew config show` lists them all")
            named = setting_named(key, "config show")
            below = {named.key: named}
        chosen |= below
    return list(chosen.values()) if keys else list(declared_settings().values())


def _print_one(setting: Setting, loaded: LoadedConfig, console: Console) -> None:
    console.print(f"{console.style(setting.key, 'bold')} = {setting.shown(loaded.value_of(setting.key))}")
    facts = (
        ("meaning", setting.limits.about),
        ("from", str(loaded.origin_of(setting.key))),
        ("default", setting.shown(setting.default)),
        ("allowed", setting.allowed),
        ("variable", setting.variable),
    )
    for name, fact in facts:
        console.print(f"  {pad(name, 8)}  {fact}")


def _print_all(chosen: Sequence[Setting], loaded: LoadedConfig, console: Console) -> None:
    state = "" if path_exists(loaded.path) else "  (not there yet)"
    console.print(console.style(f"{loaded.path}{state}", "dim"))
    explained = console.width >= MIN_WIDTH_FOR_MEANING
    narrow = console.width < MIN_WIDTH_FOR_ORIGIN
    rows = [_row(setting, loaded, explained, narrow) for setting in chosen]
    aligns: list[Align] = ["<"] * len(rows[0])
    lines = table_lines(rows, aligns, console.width - 2)
    group = None
    for setting, line in zip(chosen, lines, strict=True):
        heading = setting.key.rpartition(".")[0]
        if heading != group:
            console.print(f"\n{console.style(heading, 'bold')}")
            group = heading
        changed = loaded.origin_of(setting.key).kind != "default"
        console.print("  " + (console.style(line, "cyan") if changed else line))
    console.print()
    for line in wrap_all(_rules(chosen[0]), console.width):
        console.print(console.style(line, "dim"))


def _row(setting: Setting, loaded: LoadedConfig, explained: bool, narrow: bool) -> tuple[str, ...]:
    name = setting.key.rpartition(".")[2]
    shown = clip(setting.shown(loaded.value_of(setting.key)), 40)
    if narrow:
        return (name, shown)
    row = (name, shown, str(loaded.origin_of(setting.key)))
    return (*row, setting.limits.about) if explained else row


def _rules(example: Setting) -> Iterator[str]:
    yield "Later sources overrule earlier ones: default, file, env, flag (--set key=value)."
    yield f"The variable of a setting is CLEW_ and its key in capitals: {example.key} is {example.variable}."
    yield "`clew config show KEY` explains one."


def _settings_json(loaded: LoadedConfig, chosen: Sequence[Setting]) -> dict[str, Any]:
    settings = {setting.key: _setting_json(setting, loaded) for setting in chosen}
    return {
        "path": str(loaded.path),
        "exists": path_exists(loaded.path),
        "settings": settings,
        **_problems_json(loaded),
    }


def _setting_json(setting: Setting, loaded: LoadedConfig) -> dict[str, Any]:
    value, origin = loaded.value_of(setting.key), loaded.origin_of(setting.key)
    return {
        "value": setting.shown(value) if isinstance(value, str) else value,
        "origin": origin.kind,
        "where": origin.where or None,
        "default": setting.default,
        "allowed": setting.allowed,
        "variable": setting.variable,
        "about": setting.limits.about,
    }


def _problems_json(loaded: LoadedConfig) -> dict[str, Any]:
    problems = [
        {"source": each.source, "key": each.key, "value": each.value, "remedy": each.remedy, "text": each.text}
        for each in loaded.problems
    ]
    return {"problems": problems, "notices": list(loaded.notices)}
