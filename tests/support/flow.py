"""A runtime for tests: a real SQLite store in a folder, the compressor, a given provider.

Every request is compared with the one before (`PrefixChecker`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from clew.config import Settings
from clew.engines import Compaction, ContextCompressor, EngineFactory
from clew.events import Event, Events
from clew.messages import Message, Tool
from clew.providers import OnDelta, Provider, Reply, Request
from clew.store import NewSession, Store, open_store
from clew.testing.runtime import PrefixChecker
from clew.tokens import LearntLimits, count_tokens
from clew.tooloutput import SpillFolder
from clew.turn import Conversation, ModelTarget, Runtime, RuntimeOptions, run_turn
from clew.usage import CanonicalUsage

MODEL = "scripted-model"
SESSION = "s"

_Event = TypeVar("_Event", bound=Event)


def request_tokens(request: Request) -> int:
    """The size of a request's prompt, by our own count."""
    return count_tokens(request.messages, tools=list(request.tools), model=request.model)


def answers(text: str, *, grows: int = 0) -> Callable[[Request], Reply]:
    """A reply whose usage is the counted size of its request plus `grows` tokens."""

    def reply(request: Request) -> Reply:
        usage = CanonicalUsage(input_tokens=request_tokens(request) + grows, output_tokens=max(1, len(text) // 4))
        return Reply({"role": "assistant", "content": text}, usage, "stop", request.model)

    return reply


@dataclass(slots=True)
class Flow:
    """A runtime with one session, and all events so far."""

    runtime: Runtime
    checker: PrefixChecker
    session: str = SESSION
    events: list[Event] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return self.runtime.store

    async def turn(
        self,
        *incoming: Message,
        inject: Sequence[Message] = (),
        tools: Sequence[Tool] = (),
        on_delta: OnDelta | None = None,
    ) -> Reply:
        self.checker.injected = len(inject)
        return await run_turn(self.runtime, self.session, incoming, inject=inject, tools=tools, on_delta=on_delta)

    async def conversation(self) -> Conversation:
        return await self.runtime.conversation(self.session)

    async def compact(self, focus: str | None = None) -> Compaction | None:
        return await (await self.conversation()).compact_now(focus)

    async def undo(self) -> bool:
        return await (await self.conversation()).undo_compaction()

    def events_of(self, kind: type[_Event]) -> list[_Event]:
        return [event for event in self.events if isinstance(event, kind)]

    async def view(self) -> Sequence[Message]:
        """The messages that the store shows of the conversation now."""
        return (await self.store.view(await self.store.get_compression_tip(self.session))).messages


@asynccontextmanager
async def flow_with(
    provider: Provider,
    folder: Path,
    *,
    window: int | None = 20_000,
    model: str = MODEL,
    max_tokens: int | None = None,
    system: str | None = "You are a careful assistant.",
    auxiliary: Provider | None = None,
    auxiliary_model: str = "summary-model",
    summarizes: bool | None = None,
    settings: Settings | None = None,
    new_engine: EngineFactory = ContextCompressor.of,
    store: Store | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Flow]:
    """A flow over a store in a folder; the same folder again opens the same store, as after a restart.

    The built-in summariser writes, unless there is an auxiliary provider or `summarizes` says that the main one does.
    """
    checker = PrefixChecker(provider)
    target = ModelTarget(checker, model, context_length=window, max_tokens=max_tokens)
    options = RuntimeOptions(
        new_engine=new_engine,
        spill=SpillFolder(folder / "outputs"),
        settings=settings or Settings(),
        auxiliary=None if auxiliary is None else ModelTarget(auxiliary, auxiliary_model, context_length=window),
        summarizes=auxiliary is not None if summarizes is None else summarizes,
        learnt=LearntLimits(folder / "limits.json"),
        clock=clock,
    )
    async with _store_in(folder, store) as opened:
        await opened.start_session(NewSession(id=SESSION, model=model, system=system))
        runtime = Runtime(opened, target, options, Events(checker.on_event))
        flow = Flow(runtime, checker)
        runtime.events.listen(flow.events.append)
        try:
            yield flow
        finally:
            await runtime.close()


@asynccontextmanager
async def _store_in(folder: Path, store: Store | None) -> AsyncIterator[Store]:
    if store is not None:
        yield store
        return
    async with open_store(folder / "state.db", flush="normal") as opened:
        yield opened
