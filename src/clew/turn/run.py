"""One turn: history, fit, build, send or recover, record, check. Library, agent and gateway run this.

A turn is one call of the model. An agent runs the tools that a reply asks for and comes back with their results.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.messages import Message, Tool
from clew.providers import OnDelta, Reply
from clew.turn.build import Ask
from clew.turn.fit import fit, settle
from clew.turn.intake import take_in
from clew.turn.live import LiveConversation
from clew.turn.record import record
from clew.turn.recover import send_or_recover
from clew.turn.runtime import Runtime
from clew.turn.unbroken import unbroken


async def run_turn(
    runtime: Runtime,
    session: str,
    incoming: Sequence[Message],
    *,
    inject: Sequence[Message] = (),
    tools: Sequence[Tool] = (),
    on_delta: OnDelta | None = None,
) -> Reply:
    """The reply to what came. `inject` is seen by the model in this turn only, and never enters the history.

    Give the same `tools` object turn after turn: it is then counted once. With nothing incoming, the model is asked
    again about the history as it is. Turns of one conversation wait for each other.
    """
    ask = Ask(inject, tools, on_delta)
    live = await runtime.conversation(session)
    async with live.busy:
        await take_in(runtime, live, incoming, to_send=True)
        return await answer(runtime, live, ask)


async def answer(runtime: Runtime, live: LiveConversation, ask: Ask, *, settles: bool = True) -> Reply:
    """The rest of a turn, when what came is in the history: for hosts that put it there themselves.

    The caller holds `live.busy`. Without `settles` nothing is compacted after the reply, which then does not wait for
    it: the next request is made to fit before it is sent in any case.
    """
    await fit(runtime, live, ask)
    sent = await send_or_recover(runtime, live, ask)
    # A stop between its coming and its keeping would lose it, or have it kept twice.
    reply = await unbroken(record(runtime, live, ask, sent))
    if settles:
        await settle(runtime, live)
    return reply


async def receive(runtime: Runtime, session: str, incoming: Sequence[Message]) -> None:
    """Messages into the history without asking the model: what was said elsewhere, a reply that was stopped."""
    live = await runtime.conversation(session)
    async with live.busy:
        await take_in(runtime, live, incoming, to_send=False)
