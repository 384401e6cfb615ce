"""`clew plugins list|show|use`: the context engines there are, where each comes from, and which one serves.

`list` and `show` run no plugin's code; `use` and `show --check` run that of the one that is named.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.views.tables import table_lines
from clew.cli.views.text import Align, pad, printable
from clew.config import LoadedConfig, config_path, read_config, setting_named

if TYPE_CHECKING:
    from clew.app import EngineChoice
    from clew.plugins import Plugin

EXAMPLES = """\
A context engine serves only if context.engine in the config names it. A name is
looked up in the folder plugins/context_engine/ of the Clew home, then among
installed packages, then among the built-ins.

examples:
  clew plugins list
  clew plugins show compressor --check
  clew plugins use compressor
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(title="what to do", metavar="list|show|use", dest="verb", required=True)
    listing = verbs.add_parser("list", help="every context engine, and which one is used")
    show = verbs.add_parser("show", help="one engine in detail")
    show.add_argument("name", metavar="NAME")
    show.add_argument("--check", action="store_true", help="load it and let it compact a made-up conversation")
    use = verbs.add_parser("use", help="write its name to the config, after it was loaded once")
    use.add_argument("name", metavar="NAME")
    for each in (listing, show, use):
        each.add_argument("--json", action="store_true", help="print JSON")
    for reading in (listing, show):
        add_set_flag(reading)


def run(arguments: argparse.Namespace, console: Console) -> int:
    return {"list": _list, "show": _show, "use": _use}[arguments.verb](arguments, console)


def _list(arguments: argparse.Namespace, console: Console) -> int:
    choice = _load_engines(arguments.flags, console)
    plugins = choice.catalog.plugins()
    serving, problem = choice.serving()
    if arguments.json:
        active = {"name": choice.name, "named": choice.is_named, "serves": serving.name, "problem": problem or None}
        console.print_json({"active": active, "plugins": [_plugin_json(each, serving) for each in plugins]})
        return 0
    aligns: list[Align] = ["<"] * 5
    lines = table_lines([_row(each, serving) for each in plugins], aligns, console.width)
    for plugin, line in zip(plugins, lines, strict=True):
        console.print(console.style(line, *_style(plugin, serving)))
    for plugin in plugins:
        if plugin.problem:
            console.note(printable(f"{plugin.name}: {plugin.problem}"))
    if problem:
        console.note(printable(f"context.engine = {choice.name!r}: {problem}; {serving.name} serves"))
    return 0


def _show(arguments: argparse.Namespace, console: Console) -> int:
    choice = _load_engines(arguments.flags, console)
    plugin = choice.catalog.find(arguments.name)
    serving, _ = choice.serving()
    others = [each for each in choice.catalog.plugins() if each.name == plugin.name and each.origin != plugin.origin]
    findings = _check_plugin(choice, plugin, console) if arguments.check else None
    if arguments.json:
        check = None if findings is None else {"ok": not findings, "problems": findings}
        hidden = [_plugin_json(each, serving) for each in others]
        console.print_json({**_plugin_json(plugin, serving), "check": check, "hides": hidden})
    else:
        console.print(console.style(printable(plugin.name), "bold"))
        for name, fact in _facts(plugin, serving, others, findings):
            console.print(f"  {pad(name, 11)}  {printable(fact)}")
    return 1 if plugin.problem or findings else 0


def _use(arguments: argparse.Namespace, console: Console) -> int:
    from clew.app import ENGINE_KEY, engine_setup
    from clew.config import set_in_file

    before = read_config(console.environ)
    choice = _load_engines([], console)
    plugin = choice.catalog.find(arguments.name)
    choice.catalog.build(plugin, engine_setup(before.settings))
    path = config_path(console.environ)
    console.notes(set_in_file(path, setting_named(ENGINE_KEY, "plugins use"), plugin.name))
    after = read_config(console.environ)
    origin = after.origin_of(ENGINE_KEY)
    if arguments.json:
        console.print_json({"engine": after.settings.context.engine, "origin": str(origin), "path": str(path)})
    else:
        console.print(f"{ENGINE_KEY} = {after.settings.context.engine}  ({origin}, {path})")
    if origin.kind == "env":
        console.note(f"the environment variable {origin.where} overrules the file")
    return 0


def _load_engines(flags: list[str], console: Console) -> EngineChoice:
    # Late: engines take longer to import than `clew plugins --help` should.
    from clew.app import EngineChoice

    config: LoadedConfig = read_config(console.environ, flags)
    console.notes([*config.notices, *(problem.text for problem in config.problems)])
    return EngineChoice(config, console.environ)


def _check_plugin(choice: EngineChoice, plugin: Plugin, console: Console) -> list[str]:
    """What is wrong with the engine when it is tried."""
    from clew.engines import check_engine
    from clew.errors import PluginError
    from clew.plugins import plugin_code

    console.progress(f"checking {plugin.name} ...")
    try:
        with plugin_code(plugin, "the check"):
            return asyncio.run(check_engine(lambda setup: choice.catalog.build(plugin, setup)))
    except PluginError as error:
        return [str(error)]
    finally:
        console.clear_progress()


def _is_active(plugin: Plugin, serving: Plugin) -> bool:
    return (plugin.name, plugin.origin) == (serving.name, serving.origin)


def _row(plugin: Plugin, serving: Plugin) -> tuple[str, ...]:
    about = plugin.description
    if plugin.problem:
        about = "cannot serve, see below"
    elif plugin.shadowed:
        about = f"hidden by another of its name; {about}"
    mark = "*" if _is_active(plugin, serving) else " "
    return (mark, printable(plugin.name), plugin.origin.value, printable(plugin.version), printable(about))


def _style(plugin: Plugin, serving: Plugin) -> tuple[str, ...]:
    if plugin.problem:
        return ("red",)
    if _is_active(plugin, serving):
        return ("green",)
    return ("dim",) if plugin.shadowed else ()


def _facts(
    plugin: Plugin, serving: Plugin, others: list[Plugin], findings: list[str] | None
) -> Iterator[tuple[str, str]]:
    yield "what", plugin.description or "(it does not say)"
    yield "from", f"{plugin.origin}, {plugin.where}"
    yield "version", plugin.version or "(it does not say)"
    yield "contract", str(plugin.contract) if plugin.contract else "(known when it is loaded)"
    yield "in use", "yes" if _is_active(plugin, serving) else f"no; `clew plugins use {plugin.name}` chooses it"
    for other in others:
        yield "also there", f"{other.origin}, {other.where}"
    if plugin.problem:
        yield "problem", plugin.problem
    if findings is not None and not findings:
        yield "check", "passed: loaded, and a made-up conversation was compacted as the contract asks"
    for finding in findings or ():
        yield "check", finding


def _plugin_json(plugin: Plugin, serving: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "kind": plugin.kind.folder,
        "origin": plugin.origin.value,
        "where": plugin.where,
        "description": plugin.description,
        "version": plugin.version or None,
        "contract": plugin.contract,
        "active": _is_active(plugin, serving),
        "hidden": plugin.shadowed,
        "problem": plugin.problem or None,
    }
