"""`clew plugins list|show|use`: list, describe and choose context engines; and `/engine` in a chat.

`list` and `show` run no code of plugins; `use` and `show --check` load the named one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from clew.cli.console import Console
from clew.cli.options import json_option, noun, store_options, verb
from clew.cli.pages import json_fields, plural, table_lines
from clew.cli.text import printable, wrap, wrap_all
from clew.config import config_path, read_config, set_in_file, setting_named

if TYPE_CHECKING:
    from clew.app import EngineChoice
    from clew.cli.tui.state import ChatState
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


plugins_command = noun("list", EXAMPLES)


@verb(plugins_command, "list", "every context engine, and which one is used")
@store_options
def list_plugins(console: Console) -> int:
    choice = _load_engines(console)
    plugins = choice.catalog.plugins()
    serving, problem = choice.serving()
    active = {"name": choice.name, "named": choice.is_named, "serves": serving.name, "problem": problem or None}

    def draw() -> None:
        for plugin, line in zip(
            plugins, table_lines([_row(it, serving) for it in plugins], "<<<<<", console.width), strict=True
        ):
            console.print(console.style(line, *_style(plugin, serving)))
        console.notes(printable(f"{plugin.name}: {plugin.problem}") for plugin in plugins if plugin.problem)
        if problem:
            console.note(printable(f"context.engine = {choice.name!r}: {problem}; {serving.name} serves"))

    return console.show({"active": active, "plugins": [_plugin_json(it, serving) for it in plugins]}, draw)


@verb(plugins_command, "show", "one engine in detail")
@click.argument("name", metavar="NAME")
@click.option("--check", "is_checked", is_flag=True, help="load it and let it compact a made-up conversation")
@store_options
def show(console: Console, name: str, is_checked: bool) -> int:
    choice = _load_engines(console)
    plugin = choice.catalog.find(name)
    serving, _ = choice.serving()
    others = [each for each in choice.catalog.plugins() if each.name == plugin.name and each.origin != plugin.origin]
    findings = _check_plugin(choice, plugin, console) if is_checked else None
    check = None if findings is None else {"ok": not findings, "problems": findings}
    hidden = [_plugin_json(each, serving) for each in others]

    def draw() -> None:
        console.print(console.style(printable(plugin.name), "bold"))
        for fact_name, fact in _facts(plugin, serving, others, findings):
            console.print(f"  {fact_name:11}  {printable(fact)}")

    console.show({**_plugin_json(plugin, serving), "check": check, "hides": hidden}, draw)
    return 1 if plugin.problem or findings else 0


@verb(plugins_command, "use", "write its name to the config, after it was loaded once")
@click.argument("name", metavar="NAME")
@json_option
def use(console: Console, name: str) -> int:
    from clew.app import ENGINE_KEY, engine_setup

    before = read_config(console.environ)
    choice = _load_engines(console)
    plugin = choice.catalog.find(name)
    choice.catalog.build(plugin, engine_setup(before.settings))
    path = config_path(console.environ)
    console.notes(set_in_file(path, setting_named(ENGINE_KEY, "plugins use"), plugin.name))
    after = read_config(console.environ)
    engine, origin = after.settings.context.engine, after.origin_of(ENGINE_KEY)
    fields = {"engine": engine, "origin": str(origin), "path": str(path)}
    console.show(fields, lambda: console.print(f"{ENGINE_KEY} = {engine}  ({origin}, {path})"))
    if origin.kind == "env":
        console.note(f"the environment variable {origin.where} overrules the file")
    return 0


def _load_engines(console: Console) -> EngineChoice:
    # Late: engines take longer to import than `clew plugins --help` should.
    from clew.app import EngineChoice

    config = read_config(console.environ, console.flags)
    console.notes([*config.notices, *(problem.text for problem in config.problems)])
    return EngineChoice(config, console.environ)


def _check_plugin(choice: EngineChoice, plugin: Plugin, console: Console) -> list[str]:
    """Run the engine; returns its problems."""
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
        about = "cannot be used, see below"
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
    yield "what", plugin.description or "(not stated)"
    yield "from", f"{plugin.origin}, {plugin.where}"
    yield "version", plugin.version or "(not stated)"
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
        **json_fields(plugin, "where", "description"),
        "version": plugin.version or None,
        "contract": plugin.contract,
        "active": _is_active(plugin, serving),
        "hidden": plugin.shadowed,
        "problem": plugin.problem or None,
    }


# -- in a chat ---------------------------------------------------------------------------------------------------------


async def run_engine(state: ChatState, words: str) -> None:
    if words:
        await _switch_engine(state, words)
        return
    conversation = await state.conversation()
    active, status = conversation.engine.name, conversation.engine.get_status()
    made = [
        each for each in await state.app.store.compactions(conversation.session, keep_damaged=True) if each.is_in_effect
    ]
    in_effect = plural(len(made), "compaction") if made else "no compaction is"
    sentences = [
        f"{active} serves here: it compacts at {status.threshold_tokens:,} of {status.context_length:,} tokens; "
        f"{in_effect} in effect here.",
        "/engine NAME chooses another.",
    ]
    plugins = state.app.engines.catalog.plugins()

    def lines(console: Console) -> Iterator[str]:
        for plugin in plugins:
            yield from _engine_lines(plugin, active, console)
        for line in wrap_all(sentences, console.page_width):
            yield console.style(line, "dim")

    state.show_lines(lines)


def _engine_lines(plugin: Plugin, active: str, console: Console) -> Iterator[str]:
    about = plugin.description
    if plugin.problem:
        about = f"cannot serve: {plugin.problem}"
    elif plugin.shadowed:
        about = f"hidden by another of its name; {about}"
    mark = "*" if plugin.name == active and not plugin.shadowed else " "
    yield f"{mark} {console.style(printable(plugin.name), 'cyan', 'bold')}  {plugin.origin.value}"
    yield from (f"  {line}" for line in wrap(about, console.page_width - 4))


async def _switch_engine(state: ChatState, name: str) -> None:
    notices = await state.app.use_engine(state.session, name)
    await state.conversation()
    state.previewed = None
    chosen = state.app.engine_name
    state.show_text(*notices, f"{chosen} serves from now on: here, in new conversations and after a restart.")
