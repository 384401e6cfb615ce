"""Compaction ahead of time: from 85% of the threshold a draft is made in the background, and swapped in when needed.

A draft is used only while what it covers is still the beginning of the view; otherwise it is dropped, and the engine
is told to remember what it did before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clew.engines import SessionStart
from clew.events import CompactionPhase, Notice
from clew.turn.compaction import Draft, Order, draft
from clew.turn.live import LiveConversation
from clew.turn.runtime import Runtime

AHEAD = 0.85
"""Of the threshold."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """A draft that is being made, and what the engine remembered before."""

    task: asyncio.Task[Draft]
    memory: Mapping[str, Any]


def prepare_ahead(runtime: Runtime, live: LiveConversation, tokens: int) -> None:
    """Start a draft where the threshold is near and none was started since the last compaction."""
    status = live.engine.get_status()
    is_near = AHEAD * status.threshold_tokens <= tokens < status.threshold_tokens
    if live.preparation or not is_near or status.paused or not runtime.host.settings.compression.enabled:
        return
    memory = dict(live.engine.memory)
    live.preparation = Preparation(asyncio.create_task(_prepare(runtime, live, tokens)), memory)


async def _prepare(runtime: Runtime, live: LiveConversation, tokens: int) -> Draft:
    started, session = time.monotonic(), live.session
    runtime.tell(CompactionPhase(session, "prepare", 0.0))
    drawn = await draft(live, Order("preflight", tokens))
    runtime.tell(CompactionPhase(session, "prepared", time.monotonic() - started))
    return drawn


async def claim(runtime: Runtime, live: LiveConversation, tokens: int) -> Draft | None:
    """The prepared draft, if it can be used for a request of this size; a useless one is dropped."""
    if live.preparation is None:
        return None
    task = live.preparation.task
    if not task.done():
        runtime.tell(CompactionPhase(live.session, "awaited", 0.0))
    # Whoever waits here may be stopped; the draft goes on and is there for the next turn.
    await asyncio.wait({task})
    if task.cancelled() or (problem := task.exception()) is not None:
        runtime.tell(Notice("A compaction could not be prepared" + ("." if task.cancelled() else f": {problem}")))
        await drop(runtime, live)
        return None
    drawn = task.result()
    ready = drawn.for_tokens(tokens)
    helps = drawn.compaction.changed and ready.compaction.tokens_after < live.engine.get_status().threshold_tokens
    if helps and live.starts_with(drawn.view):
        live.preparation = None
        return ready
    await drop(runtime, live)
    return None


async def drop(runtime: Runtime, live: LiveConversation) -> None:
    """Forget what was prepared, as if it had never been, apart from what it cost."""
    if live.preparation is None:
        return
    dropped, live.preparation = live.preparation, None
    dropped.task.cancel()
    try:
        await asyncio.gather(dropped.task, return_exceptions=True)
    finally:
        live.engine.on_session_start(SessionStart(live.session, memory=dropped.memory))
    runtime.tell(CompactionPhase(live.session, "dropped", 0.0))
    await runtime.keep_calls(live)
