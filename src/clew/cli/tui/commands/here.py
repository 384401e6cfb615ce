"""The conversation that a chat is in, ready to be looked at: its size has the tools that go with the next request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.turn import LiveConversation


async def conversation_of(state: ChatState) -> LiveConversation:
    """The conversation at its newest continuation. One that was just loaded knows its tools by its first turn only."""
    live = await state.desk.runtime.conversation(state.session)
    if not live.size.tools:
        await weigh_tools(state, live)
    return live


async def weigh_tools(state: ChatState, live: LiveConversation) -> None:
    """Let the size have the tools that the very next request would have."""
    live.tools_with(await state.desk.agent.toolbox.offered_to(state.desk.runtime, state.session))


def window_source(live: LiveConversation) -> str:
    """Who says how large the window is; a model in a file has the one that it was started with."""
    is_in_a_file = live.target.provider.name == "local" and live.window.source == "config"
    return "file" if is_in_a_file else live.window.source
