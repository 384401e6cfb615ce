"""A compaction from draft to continuation: chosen by the engine, committed by the store, and then in view.

A draft changes nothing. Only a commit does, in one step; whatever fails before or in it leaves the former view.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clew.engines import Compaction, SessionStart
from clew.errors import ClewError, StoreError
from clew.events import CompactionFinished, CompactionPhase, CompactionStarted, Notice
from clew.messages import Message, text_of
from clew.store import CompactionEntry, Lease, LeaseLost, StaleView, View
from clew.turn.live import LiveConversation
from clew.turn.runtime import Runtime
from clew.turn.unbroken import unbroken

_WAITS = 60
_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Order:
    """What a compaction is asked for."""

    reason: str
    """`preflight`, `usage`, `overflow` or `manual`."""
    tokens: int
    """The whole request, as large as it is now."""
    focus: str | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """What a compaction would make of a view."""

    view: View = field(repr=False)
    compaction: Compaction
    focus: str | None = None
    engine: str = ""
    memory: Mapping[str, Any] | None = None
    """What the engine remembers once this is applied; None where it was let remember it already."""

    def for_tokens(self, tokens: int) -> Draft:
        """The same for a request that has grown since: what it frees stays the same."""
        freed = self.compaction.tokens_before - self.compaction.tokens_after
        return replace(self, compaction=replace(self.compaction, tokens_before=tokens, tokens_after=tokens - freed))


async def draft(live: LiveConversation, order: Order) -> Draft:
    """Let the engine choose."""
    view = live.considered()
    done = await live.engine.compress(list(view.messages), order.tokens, order.focus, order.force)
    return Draft(view, done, order.focus, live.engine.name)


@contextlib.asynccontextmanager
async def leased(runtime: Runtime, live: LiveConversation) -> AsyncIterator[Lease | None]:
    """The right to compact, kept while it is needed; None where another process did it or is at it for too long."""
    before = live.view.base
    lease = await _take(runtime, live)
    if lease is None or live.view.base != before:
        if lease is not None:
            await runtime.store.release_lease(lease)
        yield None
        return
    beat = asyncio.create_task(_renew(runtime, lease))
    try:
        yield lease
    finally:
        beat.cancel()
        await unbroken(runtime.store.release_lease(lease))


async def _take(runtime: Runtime, live: LiveConversation) -> Lease | None:
    lease = await _taken(runtime, live.session)
    if lease is not None:
        return lease
    for _ in range(_WAITS):
        await runtime.host.sleep(_WAIT_SECONDS)
        lease = await _taken(runtime, live.session)
        if lease is not None:
            # Whoever held it has probably compacted.
            await runtime.reload(live)
            return lease
    runtime.tell(Notice("Another process is compacting this conversation and takes long; it goes on as it is."))
    return None


async def _taken(runtime: Runtime, session: str) -> Lease | None:
    """The lease, if it is free. A stop on the way leaves none behind, which nobody would give back."""
    taking = asyncio.ensure_future(runtime.store.take_lease(session, runtime.holder, runtime.host.lease_seconds))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await unbroken(_given_back(runtime, taking))
        raise


async def _given_back(runtime: Runtime, taking: asyncio.Future[Lease | None]) -> None:
    with contextlib.suppress(StoreError):
        lease = await taking
        if lease is not None:
            await runtime.store.release_lease(lease)


async def _renew(runtime: Runtime, lease: Lease) -> None:
    while True:
        await asyncio.sleep(lease.seconds / 3)
        # A lease that runs out is found out by the commit.
        with contextlib.suppress(StoreError):
            await runtime.store.renew_lease(lease)


async def commit(runtime: Runtime, live: LiveConversation, drawn: Draft, lease: Lease | None) -> None:
    """End the session with the compaction and go on in its continuation."""
    done, old, host = drawn.compaction, live.session, runtime.host
    system = None if host.before_switch is None else await host.before_switch(old)
    entry = CompactionEntry.of(
        drawn.view,
        done.messages,
        _summary_in(drawn),
        tokens_before=done.tokens_before,
        tokens_after=done.tokens_after,
        engine=drawn.engine,
        template_version=done.template or "",
        written_by=done.written_by or "",
        focus_topic=drawn.focus,
        warnings=done.warnings,
        details={"unverified": list(done.unverified), "replaced": list(done.numbers)},
    )
    calls = tuple(live.calls)
    async with live.writing:
        continuation = await runtime.store.commit_compaction(
            live.session, entry, lease=lease, calls=calls, system=system
        )
        del live.calls[: len(calls)]
        if system is not None:
            live.prompt = {"role": "system", "content": system}
        await _show(runtime, live, drawn, continuation.id)
    memory = live.engine.memory if drawn.memory is None else drawn.memory
    live.engine.on_session_start(SessionStart(continuation.id, continues=old, memory=memory))
    runtime.follow(live)
    await runtime.save_memory(live)
    if host.after_switch is not None:
        await host.after_switch(old, live.session)


async def _show(runtime: Runtime, live: LiveConversation, drawn: Draft, session: str) -> None:
    """The new view: as stored, but with the objects that are known here, so that nothing is counted twice."""
    stored = await runtime.store.view(session)
    known = [*drawn.compaction.messages, *live.messages[len(drawn.view.messages) :]]
    is_ours = stored.next_seq == live.next_seq and len(known) == len(stored.messages)
    if not is_ours:
        live.observes = False
    live.show(stored, known if is_ours else None)


def _summary_in(drawn: Draft) -> Message | None:
    """The message of the result that tells what was replaced."""
    summary = drawn.compaction.summary
    if not summary:
        return None
    before = {id(message) for message in drawn.view.messages}
    fresh = [message for message in drawn.compaction.messages if id(message) not in before]
    return next((message for message in fresh if summary in text_of(message)), fresh[0] if fresh else None)


async def compact(
    runtime: Runtime, live: LiveConversation, order: Order, ready: Draft | None = None
) -> Compaction | None:
    """Compact now, with what was prepared if there is such; None where another process did it.

    The caller holds `live.compacting`.
    """
    old = live.session
    runtime.tell(CompactionStarted(old, order.tokens, order.reason))
    outcome = _Outcome(Compaction.nothing((), order.tokens))
    try:
        return await _compacted(runtime, live, order, ready, outcome)
    finally:
        # Also where it failed or was stopped: whoever shows that it runs must learn that it does not any more.
        _tell_done(runtime, live, old, outcome.done)


@dataclass(slots=True)
class _Outcome:
    """What became of a compaction so far: a stop may come when it is in effect already."""

    done: Compaction


async def _compacted(
    runtime: Runtime, live: LiveConversation, order: Order, ready: Draft | None, outcome: _Outcome
) -> Compaction | None:
    started, old = time.monotonic(), live.session
    async with leased(runtime, live) as lease:
        if lease is None:
            return None
        drawn = ready or await draft(live, order)
        drafted = time.monotonic()
        runtime.tell(CompactionPhase(old, "swap" if ready else "summarise", drafted - started))
        if drawn.compaction.changed:
            await unbroken(_committed(runtime, live, drawn, lease, outcome))
            runtime.tell(CompactionPhase(old, "commit", time.monotonic() - drafted))
    if not drawn.compaction.changed:
        outcome.done = drawn.compaction
        await runtime.keep_calls(live)
        await runtime.save_memory(live)
    return drawn.compaction


async def _committed(runtime: Runtime, live: LiveConversation, drawn: Draft, lease: Lease, outcome: _Outcome) -> None:
    await commit(runtime, live, drawn, lease)
    outcome.done = drawn.compaction


async def compact_or_keep(
    runtime: Runtime, live: LiveConversation, order: Order, ready: Draft | None = None
) -> Compaction | None:
    """The same, but a compaction that fails leaves the conversation as it was, and a notice."""
    try:
        return await compact(runtime, live, order, ready)
    except (StaleView, LeaseLost) as lost:
        await runtime.reload(live)
        runtime.tell(Notice(f"Another process was quicker to compact this conversation: {lost}"))
    except ClewError as problem:
        runtime.tell(Notice(f"The conversation was not compacted and goes on as it was: {problem}"))
    return None


def _tell_done(runtime: Runtime, live: LiveConversation, old: str, done: Compaction) -> None:
    runtime.tell(
        CompactionFinished(
            old,
            live.session if done.changed else None,
            done.tokens_before,
            done.tokens_after,
            done.written_by,
            done.warnings,
        )
    )
    if live.engine.get_status().paused is not None:
        runtime.tell(Notice(f"Automatic compaction is paused. What it cannot make smaller: {', '.join(fixed(live))}."))


def fixed(live: LiveConversation) -> Sequence[str]:
    """What stands in every request however much is compacted, in words."""
    return (f"the system prompt ({live.size.system:,} tokens)", f"the tools ({live.size.tools:,} tokens)")
