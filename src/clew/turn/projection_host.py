"""Where projections run: an event loop in a thread of its own, with a store, a runtime and no provider."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from clew.config import Settings, clew_home
from clew.engines import ContextEngine, EngineFactory, EngineSetup, engine_catalog
from clew.errors import InvalidArgument
from clew.events import Event, Events
from clew.handoff import ModelSummarizer, SummaryModel, summary_model_for
from clew.store import installed_embedder, open_store
from clew.tokens import counter_for
from clew.tooloutput import SpillFolder
from clew.turn.request import ModelTarget, RuntimeOptions
from clew.turn.runtime import Runtime

_Result = TypeVar("_Result")


@dataclass(slots=True)
class ProjectionHost:
    """The store, the runtime and the event loop of projections, opened with the first call."""

    address: str
    target: ModelTarget
    new_engine: EngineFactory
    settings: Settings
    on_event: Callable[[Event], None] | None
    _stack: AsyncExitStack | None = None
    _runtime: Runtime | None = None
    _is_closed: bool = False
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _loop: EventLoopThread = field(default_factory=lambda: EventLoopThread())

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Do something in the loop, from synchronous code. Raises InvalidArgument after `close`."""
        self._refuse_closed(work)
        return self._loop.run(work)

    async def arun(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Do something in the loop, from the loop of a caller. Raises InvalidArgument after `close`."""
        self._refuse_closed(work)
        return await self._loop.arun(work)

    def _refuse_closed(self, work: Coroutine[Any, Any, Any]) -> None:
        if self._is_closed:
            work.close()
            raise InvalidArgument("the projection is closed; make another one, with the same store to go on")

    def close(self) -> None:
        """Close what is open, for good: a later call is refused."""
        self._is_closed = True
        if self._stack is not None:
            self._loop.run(self._close())
        self._loop.stop()

    async def runtime(self) -> Runtime:
        async with self._opening:
            if self._runtime is None:
                self._stack = AsyncExitStack()
                embedder = installed_embedder(wanted=self.settings.store.vectors)
                store = await self._stack.enter_async_context(open_store(self.address, embedder=embedder))
                folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="clew-")))
                options = RuntimeOptions(
                    self.new_engine,
                    SpillFolder(folder),
                    self.settings,
                    summarizes=False,
                    offers_engine_tools=False,
                )
                events = Events(self.on_event) if self.on_event else None
                self._runtime = Runtime(store, self.target, options, events)
                self._stack.push_async_callback(self._runtime.close)
        return self._runtime

    async def _close(self) -> None:
        stack, self._stack, self._runtime = self._stack, None, None
        if stack is not None:
            await stack.aclose()


class EventLoopThread:
    """An event loop in a thread of its own, begun with the first call: callers are sync, or have loops of their own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return self._submit(work).result()

    async def arun(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return await asyncio.wrap_future(self._submit(work))

    def stop(self) -> None:
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _submit(self, work: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="clew-projection", daemon=True)
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def engine_factory(
    engine: str | EngineFactory | None, summarizer: Callable[..., Any] | SummaryModel | None, model: str
) -> EngineFactory:
    """Makes the engine that is named or given, with the summariser that is given; the built-in one without."""
    make = engine if callable(engine) else _named_engine(engine)
    if summarizer is None:
        return make
    count = counter_for(model).text

    def build(setup: EngineSetup) -> ContextEngine:
        writer = summary_model_for(summarizer, setup.context_length)
        return make(replace(setup, summarize=ModelSummarizer([writer], count)))

    return build


def _named_engine(name: str | None) -> EngineFactory:
    catalog = engine_catalog(clew_home(os.environ))
    plugin = catalog.find(name) if name else catalog.find_built_in("compressor")
    return lambda setup: catalog.build(plugin, setup)
