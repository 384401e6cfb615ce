"""`Projection`: a conversation that is folded once, for sync and async callers, over a store that it opens."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from clew.config import CompressionSettings, Settings, clew_home
from clew.engines import ContextEngine, EngineFactory, EngineSetup, checked_tokens, checked_window, engine_catalog
from clew.errors import InvalidArgument
from clew.events import Event, Events
from clew.handoff import ModelSummarizer, SummaryModel, summary_model_for
from clew.messages import (
    DialectName,
    Message,
    as_sequence,
    checked_dialect,
    detect_dialect,
    plain_system,
    plain_tools,
    text_of,
)
from clew.store import CommittedCompaction, NewSession, installed_embedder, open_store
from clew.tokens import counter_for
from clew.tooloutput import SpillFolder
from clew.turn.request import ModelTarget, RuntimeOptions
from clew.turn.runtime import Runtime
from clew.turn.sent_history import ProjectedConversation, RecalledMessage
from clew.usage import CanonicalUsage, normalize_usage

_Result = TypeVar("_Result")
_MEMORY = ":memory:"
_SMALLEST_WINDOW = 256
_ANY_MODEL = "any-model"
"""Counted by the estimate, with the default window unless one is given."""


class Projection:
    """A conversation that is folded once: give it the whole history, and send the messages that it returns.

        view = clew.Projection(model="claude-sonnet-4-5")
        messages = view.fit(history, system=system, tools=tools)     # or: await view.afit(...)
        view.observe(response.usage)

    Between two folds the returned messages only grow, so that a provider's cache still applies; unchanged items are the
    objects that were given, and an edited earlier message begins a branch. Without a `store` everything is in memory;
    with one (a path or an address) it survives a restart and is shared: the conversation is found by its `session`, or
    by the beginning of its history; one with a `name` is found by it alone, and created under it. Can be used from any
    thread and any event loop. `another` makes a projection of one more conversation over the same store.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        engine: str | EngineFactory | None = None,
        store: str | Path | None = None,
        context_length: int | None = None,
        max_output: int | None = None,
        summarizer: Callable[..., Any] | SummaryModel | None = None,
        settings: CompressionSettings | None = None,
        session: str | None = None,
        name: str | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        _check_names(session, name)
        _check("model", model, str, "a text")
        _check("engine", engine, (str, Callable), "the name of an engine, or a function that makes one")
        _check("store", store, (str, Path), "a path or an address")
        _check("summarizer", summarizer, (Callable, SummaryModel), "a function that takes a prompt and returns text")
        _check("settings", settings, CompressionSettings, "CompressionSettings")
        _check("on_event", on_event, Callable, "a function that takes an event")
        if context_length is not None and checked_window(context_length) < _SMALLEST_WINDOW:
            raise InvalidArgument(
                f"context_length={context_length} leaves no room for a conversation",
                remedy=f"give {_SMALLEST_WINDOW:,} or more",
            )
        if max_output is not None and checked_tokens("max_output", max_output) < 1:
            raise InvalidArgument(
                f"max_output={max_output} is no number of tokens", remedy="give 1 or more, or leave it out"
            )
        self._model = model or _ANY_MODEL
        self._session, self._name = session, name
        self._host = ProjectionHost(
            _MEMORY if store is None else str(Path(store).expanduser() if _is_path(store) else store),
            ModelTarget(None, self._model, context_length=context_length, max_tokens=max_output),
            engine_factory(engine, summarizer, self._model),
            Settings(compression=settings or CompressionSettings()),
            on_event,
        )
        self._conversation: ProjectedConversation | None = None
        self._lock = asyncio.Lock()
        self._is_first = True

    def fit(
        self,
        history: Any,
        *,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        dialect: DialectName | None = None,
    ) -> list[Any]:
        """The messages to send for a history of OpenAI chat, Anthropic, Responses or Gemini messages.

        `system` and `tools` are the other parts of the request, for its size. System messages at the beginning of the
        list are returned with it. The dialect is detected unless it is given.
        """
        return self._host.run(self._fit(history, system, tools, dialect))

    async def afit(
        self,
        history: Any,
        *,
        system: Any = None,
        tools: Sequence[Any] | None = None,
        dialect: DialectName | None = None,
    ) -> list[Any]:
        """The same as `fit`, for async callers."""
        return await self._host.arun(self._fit(history, system, tools, dialect))

    def observe(self, usage: Any) -> None:
        """Take in the usage that the provider reported for the request of the last `fit`, in the provider's shape."""
        self._host.run(self._alone(lambda it: it.observe(_canonical(usage))))

    async def aobserve(self, usage: Any) -> None:
        """The same as `observe`, for async callers."""
        await self._host.arun(self._alone(lambda it: it.observe(_canonical(usage))))

    def compact(self, focus: str | None = None) -> bool:
        """Fold now, at any size; False if nothing could be folded. The next `fit` shows it."""
        _check("focus", focus or None, str, "a text")
        return self._host.run(self._alone(lambda it: it.compact(focus)))

    async def acompact(self, focus: str | None = None) -> bool:
        """The same as `compact`, for async callers."""
        _check("focus", focus or None, str, "a text")
        return await self._host.arun(self._alone(lambda it: it.compact(focus)))

    def undo(self) -> bool:
        """Undo the newest fold; False if none is in effect. The next `fit` folds only if it must."""
        return self._host.run(self._alone(ProjectedConversation.undo))

    def recall(self, query: str, *, around: str = "", chars: int | None = None) -> list[RecalledMessage]:
        """Original messages, folded ones too: m12 or m12-m20 as a handoff names them, or found by words.

        Of an opened message with more than `chars` characters (6,000, or less if several share a page), `snippet` is
        the part around the words of `around`.
        """
        _check("around", around or None, str, "a text")
        if chars is not None and checked_tokens("chars", chars) < 1:
            raise InvalidArgument(f"chars={chars} shows nothing", remedy="give 1 or more, or leave it out")
        if not isinstance(query, str) or not query.strip():
            raise InvalidArgument("recall takes words to look for, or the number of a message, such as m12")
        return self._host.run(self._with(lambda it: it.recall(query, around, chars)))

    @property
    def compactions(self) -> list[CommittedCompaction]:
        """The folds of this conversation, oldest first."""
        return self._host.run(self._with(ProjectedConversation.compactions))

    @property
    def history(self) -> list[Message]:
        """The whole history of the store, as chat messages: for a host that kept only the returned ones."""
        return self._host.run(self._with(ProjectedConversation.stored))

    @property
    def session(self) -> str | None:
        """The session in the store; None before the first `fit`."""
        return self._conversation.session if self._conversation else self._session or self._name

    def another(self, *, session: str | None = None, name: str | None = None) -> Projection:
        """A projection of another conversation with the same settings, store and thread, closed with this one."""
        _check_names(session, name)
        made = copy(self)
        made._session, made._name, made._conversation = session, name, None
        made._lock, made._is_first = asyncio.Lock(), False
        return made

    async def awith_runtime(self, work: Callable[[Runtime], Awaitable[_Result]]) -> _Result:
        """Do something with the runtime and the store of the projection, in its thread."""

        async def opened() -> _Result:
            return await work(await self._host.runtime())

        return await self._host.arun(opened())

    def close(self) -> None:
        """Close the store for good. A store in memory is lost. A projection made by `another` leaves it open."""
        self._conversation = None
        if self._is_first:
            self._host.close()

    def __enter__(self) -> Projection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Projection: {self._model}, session {self.session or 'not begun'}>"

    async def _open(self) -> ProjectedConversation:
        if self._conversation is None:
            runtime = await self._host.runtime()
            new = NewSession(id=self._name, source="library", model=self._model, lineage=self._name or "")
            if self._name is not None:
                await runtime.store.start_session(new)  # returns an existing one
            self._conversation = ProjectedConversation(runtime, new, self._session or self._name)
        return self._conversation

    async def _fit(
        self, history: Any, system: Any, tools: Sequence[Any] | None, named: DialectName | None
    ) -> list[Any]:
        items = list(as_sequence(history))
        if named is not None:
            checked_dialect(named)
        lead, rest = split_prompt(items)
        async with self._lock:
            conversation = await self._open()
            prompt = _prompt_of(lead, system)
            dialect = named or detect_dialect(items)
            if tools is not self._tools_given:
                self._tools_given, self._tools = tools, tuple(plain_tools(tools or ()))
            fitted = await conversation.fit(rest, prompt=prompt, tools=self._tools, dialect=dialect)
        return [*lead, *fitted]

    async def _with(self, work: Callable[[ProjectedConversation], Awaitable[_Result]]) -> _Result:
        return await work(await self._open())

    async def _alone(self, work: Callable[[ProjectedConversation], Awaitable[_Result]]) -> _Result:
        """Do something with the conversation while no other call changes it."""
        async with self._lock:
            return await self._with(work)

    _tools_given: Sequence[Any] | None = None
    _tools: Sequence[Any] = ()
    """The same object for as long as the caller gives the same: tools are then counted once."""


def _canonical(usage: Any) -> CanonicalUsage:
    return usage if isinstance(usage, CanonicalUsage) else normalize_usage(usage)


def _check(name: str, value: object, kinds: Any, expected: str) -> None:
    """Raise InvalidArgument where an argument is given and is of no such kind."""
    if value is not None and not isinstance(value, kinds):
        raise InvalidArgument(
            f"{name}={value!r:.80} is of type {type(value).__name__}", remedy=f"pass {expected}, or None"
        )
    if value == "":
        raise InvalidArgument(f"{name} is empty", remedy=f"pass {expected}, or None")


def _check_names(session: object, name: object) -> None:
    _check("session", session, str, "the id of a session")
    _check("name", name, str, "a text")
    if session is not None and name is not None:
        raise InvalidArgument("session and name both say which conversation it is", remedy="give one of them")


def split_prompt(items: Sequence[Any]) -> tuple[list[Any], Sequence[Any]]:
    """The system messages at the beginning of a list, and the rest, which is the history."""

    def is_prompt(item: Any) -> bool:
        return isinstance(item, Mapping) and item.get("role") in ("system", "developer")

    lead = list(takewhile(is_prompt, items))
    return lead, items[len(lead) :]


def _prompt_of(lead: Sequence[Any], system: Any) -> Message | None:
    """All texts before the history as one prompt, for its size."""
    texts = [text_of({"role": "system", "content": plain_system(system)})] if system else []
    texts += [text_of(message) for message in lead]
    return {"role": "system", "content": "\n\n".join(texts)} if texts else None


def _is_path(store: str | Path) -> bool:
    return isinstance(store, Path) or "://" not in store


class EventLoopThread:
    """An event loop in a thread, started with the first call: callers are sync, or have event loops that end."""

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


class ProjectionHost(EventLoopThread):
    """The store, the runtime and the thread of projections, opened with the first call."""

    def __init__(
        self,
        address: str,
        target: ModelTarget,
        new_engine: EngineFactory,
        settings: Settings,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        super().__init__()
        self._address, self._target, self._new_engine, self._settings = address, target, new_engine, settings
        self._events = Events(on_event) if on_event else None
        self._open = AsyncExitStack()
        self._runtime: Runtime | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False

    def _submit(self, work: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        if self._is_closed:
            work.close()
            raise InvalidArgument("the projection is closed", remedy="make another one, with the same store to go on")
        return super()._submit(work)

    def close(self) -> None:
        """Close what is open, for good: a later call is refused."""
        closing = None if self._loop is None else self._submit(self._open.aclose())
        self._is_closed = True
        if closing is not None:
            closing.result()
        self.stop()

    async def runtime(self) -> Runtime:
        async with self._opening:
            if self._runtime is None:
                embedder = installed_embedder(wanted=self._settings.store.vectors)
                store = await self._open.enter_async_context(open_store(self._address, embedder=embedder))
                folder = Path(self._open.enter_context(TemporaryDirectory(prefix="clew-")))
                options = RuntimeOptions(
                    self._new_engine, SpillFolder(folder), self._settings, summarizes=False, offers_engine_tools=False
                )
                self._runtime = Runtime(store, self._target, options, self._events)
                self._open.push_async_callback(self._runtime.close)
        return self._runtime


def engine_factory(
    engine: str | EngineFactory | None, summarizer: Callable[..., Any] | SummaryModel | None, model: str
) -> EngineFactory:
    """A factory of the named or given engine with the given summariser; of the compressor without a name."""
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
