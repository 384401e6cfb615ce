"""`clew config show|set|path|check`: show settings with their sources, change and check them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click

from clew.cli.console import Console
from clew.cli.options import complete_settings, did_you_mean, json_option, noun, store_options, verb
from clew.cli.pages import json_fields, plural, table_lines
from clew.cli.text import clip, wrap_all
from clew.config import (
    LoadedConfig,
    Setting,
    config_path,
    declared_settings,
    path_exists,
    read_config,
    set_in_file,
    setting_named,
    unset_in_file,
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


config_command = noun("show", EXAMPLES)


@verb(config_command, "show", "every setting with its value and where it comes from")
@click.argument("keys", nargs=-1, metavar="KEY", shell_complete=complete_settings)
@store_options
def show(console: Console, keys: Sequence[str]) -> int:
    loaded = read_config(console.environ, console.flags)
    chosen = _chosen(keys)
    console.notes(loaded.notices)
    draw = partial(_print_one, chosen[0]) if len(chosen) == 1 else partial(_print_all, chosen)
    console.show(_settings_json(loaded, chosen), lambda: draw(loaded, console))
    console.notes(problem.text for problem in loaded.problems)
    return 1 if loaded.problems else 0


@verb(config_command, "set", "change one setting in the config file; comments stay")
@click.argument("key", metavar="KEY", shell_complete=complete_settings)
@click.argument("value", metavar="VALUE", required=False)
@click.option("--default", is_flag=True, help="remove it from the file instead")
@json_option
def change(console: Console, key: str, value: str | None, default: bool) -> int:
    if (value is None) == (not default):
        remedy = "give one (- reads it from stdin), or --default to remove the setting from the file"
        raise InvalidArgument("config set: VALUE is missing", remedy=remedy)
    path = config_path(console.environ)
    setting = setting_named(key, "config set")
    if default:
        notices = unset_in_file(path, setting)
    else:
        text = console.read_line().rstrip("\r\n") if value == "-" else value or ""
        notices = set_in_file(path, setting, value_from(text, setting, "config set"))
    console.notes(notices)
    # The effective value, since another source may overrule the file, and other problems of the file.
    loaded = read_config(console.environ)
    if setting.key != key:
        console.note(f"{key} is now called {setting.key}")
    origin = loaded.origin_of(setting.key)
    shown = f"{setting.key} = {setting.shown(loaded.value_of(setting.key))}  ({origin}, {loaded.path})"
    console.show(_settings_json(loaded, [setting]), lambda: console.print(shown))
    if origin.kind == "env":
        console.note(f"the environment variable {origin.where} overrules the file")
    console.notes(problem.text for problem in loaded.problems)
    return 0


@verb(config_command, "path", "where the config file is, or would be")
@json_option
def show_path(console: Console) -> int:
    path = config_path(console.environ)
    return console.show({"path": str(path), "exists": path_exists(path)}, lambda: console.print(str(path)))


@verb(config_command, "check", "list everything that is wrong, all at once")
@store_options
def check(console: Console) -> int:
    loaded = read_config(console.environ, console.flags)
    console.notes(loaded.notices)
    fields = {"ok": not loaded.problems, "path": str(loaded.path), **_problems_json(loaded)}
    lines = [problem.text for problem in loaded.problems] or [f"{loaded.path}: {_verdict(loaded)}"]
    console.show(fields, lambda: console.print("\n".join(lines)))
    return 1 if loaded.problems else 0


def _verdict(loaded: LoadedConfig) -> str:
    if not path_exists(loaded.path):
        return "not there, so every setting has its default; fine"
    return f"no problems; {plural(len(loaded.origins), 'setting')} changed from the default"


def _chosen(keys: Sequence[str]) -> list[Setting]:
    """The settings of these keys, each a setting or a group; by default all."""
    chosen: dict[str, Setting] = {}
    for key in keys:
        below = {name: each for name, each in declared_settings().items() if name == key or name.startswith(f"{key}.")}
        if not below:
            groups = {name.partition(".")[0] for name in declared_settings()}
            if near := did_you_mean(key, groups) if "." not in key else "":
                raise InvalidArgument(f"no setting or group {key!r}", remedy=f"{near}`clew config show` lists them all")
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
    console.print_lines(console.fact_lines(facts, names=8))


def _print_all(chosen: Sequence[Setting], loaded: LoadedConfig, console: Console) -> None:
    state = "" if path_exists(loaded.path) else "  (not there yet)"
    console.print(console.style(f"{loaded.path}{state}", "dim"))
    explained = console.width >= MIN_WIDTH_FOR_MEANING
    narrow = console.width < MIN_WIDTH_FOR_ORIGIN
    rows = [_row(setting, loaded, explained, narrow) for setting in chosen]
    aligns = "<" * len(rows[0])
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
    problems = [json_fields(each, "source", "key", "value", "remedy", "text") for each in loaded.problems]
    return {"problems": problems, "notices": list(loaded.notices)}
