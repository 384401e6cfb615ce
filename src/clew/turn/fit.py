"""Whether the next request fits, and a compaction when it does not: before a call, after it, and by hand.

Knows sizes and thresholds; how a compaction is made is next door.
"""

from __future__ import annotations

from dataclasses import replace

from clew.engines import Compaction, SessionStart
from clew.events import CompactionUndone
from clew.turn.build import Ask
from clew.turn.compaction import Draft, Order, compact, compact_or_keep, draft
from clew.turn.live import LiveConversation
from clew.turn.prepare import claim, drop, prepare_ahead
from clew.turn.runtime import Runtime


async def fit(runtime: Runtime, live: LiveConversation, ask: Ask) -> None:
    """Make the next request fit below the threshold, also where the window has become smaller."""
    live.tools_with(ask.tools)
    if ask.prompt is not None:
        live.use_prompt(ask.prompt)
    async with live.compacting:
        tokens = request_tokens(live, ask)
        if live.engine.should_compress(tokens):
            over = live.last_prompt_tokens >= live.engine.get_status().threshold_tokens
            await _compact_ready(runtime, live, Order("usage" if over else "preflight", tokens))
        else:
            prepare_ahead(runtime, live, tokens)


async def settle(runtime: Runtime, live: LiveConversation) -> None:
    """After a reply: compact if the real size of its prompt says so. Calls get their results first."""
    async with live.compacting:
        if live.open_group() < len(live.messages) or not live.last_prompt_tokens:
            return
        # Only the prompt counts: what a model thought and wrote is not all in the next one.
        if live.engine.should_compress(live.last_prompt_tokens):
            await _compact_ready(runtime, live, Order("usage", live.size.tokens))
        else:
            prepare_ahead(runtime, live, live.size.tokens)


async def compact_now(runtime: Runtime, session: str, focus: str | None = None) -> Compaction | None:
    """Compact because a person asked; messages may arrive meanwhile, and stay at the end. None: another was at it."""
    live = await runtime.conversation(session)
    async with live.compacting:
        await drop(runtime, live)
        return await compact(runtime, live, Order("manual", live.size.tokens, focus, force=True))


async def preview_compaction(runtime: Runtime, session: str, focus: str | None = None) -> Draft:
    """What `compact_now` would do, done but not applied: `apply_draft` applies exactly this."""
    live = await runtime.conversation(session)
    async with live.compacting:
        await drop(runtime, live)
        memory = dict(live.engine.memory)
        try:
            drawn = await draft(live, Order("manual", live.size.tokens, focus, force=True))
            drawn = replace(drawn, memory=dict(live.engine.memory))
        finally:
            live.engine.on_session_start(SessionStart(live.session, memory=memory))
        await runtime.keep_calls(live)
        return drawn


async def apply_draft(runtime: Runtime, session: str, drawn: Draft) -> bool:
    """Apply a previewed compaction; False when the conversation is no longer the one that it was made for."""
    live = await runtime.conversation(session)
    async with live.compacting:
        await drop(runtime, live)
        if not drawn.compaction.changed or not live.starts_with(drawn.view):
            return False
        order = Order("manual", live.size.tokens, drawn.focus, force=True)
        done = await compact(runtime, live, order, drawn.for_tokens(order.tokens))
        return done is not None


async def undo_compaction(runtime: Runtime, session: str) -> bool:
    """Bring back the view from before the newest compaction; False when none is in effect."""
    live = await runtime.conversation(session)
    async with live.compacting:
        await drop(runtime, live)
        undone = await runtime.store.undo(live.session)
        if undone is not None:
            await runtime.reload(live)
            runtime.tell(CompactionUndone(live.session))
        return undone is not None


def request_tokens(live: LiveConversation, ask: Ask) -> int:
    """The whole request: system, messages, tools, and what is injected."""
    return live.size.tokens + sum(live.count(ask.inject))


async def _compact_ready(runtime: Runtime, live: LiveConversation, order: Order) -> None:
    ready = await claim(runtime, live, order.tokens)
    await compact_or_keep(runtime, live, order, ready)
