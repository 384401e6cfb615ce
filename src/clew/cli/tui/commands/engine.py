"""`/engine`: the context engines there are and which one serves; or choose one, as `clew plugins use` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.cli.amounts import counted
from clew.cli.output import Console, printable
from clew.cli.tui.commands.here import conversation_of
from clew.cli.tui.commands.page import MARGIN, show, tell, wrapped

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.plugins import Plugin


async def run(state: ChatState, words: str) -> None:
    if words:
        await _switch(state, words)
        return
    live = await conversation_of(state)
    serving = live.engine.name
    made = [each for each in await state.desk.store.compactions(live.session) if each.is_in_effect]
    rows = [_row(plugin, serving) for plugin in state.desk.engines.catalog.plugins()]

    def draw(console: Console) -> None:
        for mark, name, origin, about in rows:
            console.say(f"{MARGIN}{mark} {console.paint(printable(name), 'cyan', 'bold')}  {origin}")
            for line in wrapped([about], console.width - 8):
                console.say(f"{MARGIN}  {line}")
        status = live.engine.get_status()
        told = f"{serving} serves here: it compacts at {status.threshold_tokens:,} of {status.context_length:,} tokens;"
        told += f" {counted(len(made), 'compaction') if made else 'no compaction is'} in effect here."
        for line in wrapped([told, "/engine NAME chooses another."], console.width - 4):
            console.say(MARGIN + console.paint(line, "dim"))

    show(state, draw)


async def _switch(state: ChatState, name: str) -> None:
    notices = await state.desk.use_engine(state.session, name)
    await conversation_of(state)
    state.draft = None
    chosen = state.desk.engine_name
    tell(state, *notices, f"{chosen} serves from now on: here, in new conversations and after a restart.")


def _row(plugin: Plugin, serving: str) -> tuple[str, ...]:
    about = plugin.description
    if plugin.problem:
        about = f"cannot serve: {plugin.problem}"
    elif plugin.shadowed:
        about = f"hidden by another of its name; {about}"
    mark = "*" if plugin.name == serving and not plugin.shadowed else " "
    return mark, plugin.name, plugin.origin.value, about
