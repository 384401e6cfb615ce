"""The context engine `clew` inside Hermes Agent: the module that its plugin loader finds in the installed package.

Hermes gives each agent a copy of what is registered here, and calls it from worker threads. Everything that waits runs
in one event loop in a thread of its own, which all copies share with one store. Whether and how to fold is decided by
Clew's engine and its config; here the calls of one contract become those of another.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from clew.config import Settings, clew_home, load_config, store_place
from clew.engines import EngineSetup, EngineStatus, engine_catalog, threshold_for
from clew.errors import ClewError
from clew.handoff import BUILTIN, ModelSummarizer, Summarize, summary_model
from clew.integrations.held_conversation import FoldRequest, FoldResult, HeldConversation, compression_root
from clew.store import Store, installed_embedder, open_store
from clew.tokens import DEFAULT_WINDOW, counter_for
from clew.turn import EventLoopThread, ModelTarget, RuntimeOptions, spill_folder
from clew.usage import normalize_usage

logger = logging.getLogger("clew.hermes")
_Result = TypeVar("_Result")
ENGINE_NAME = "clew"
SOURCE = "hermes"
_REVIEW_THREAD = "bg-review"
"""The thread in which Hermes reviews a session: it has the session's id and is no part of the session."""
_MAX_GROWTH = 0.05
"""A share of the threshold. An estimate that grew by less since a fold is not used."""

RECALL_SCHEMA: dict[str, Any] = {
    "name": "clew_recall",
    "description": (
        "Search everything said or run in this and earlier conversations, or open it word for word. It returns "
        "the exact words of what a handoff folded: m12 there is message 12 of this conversation (open=m12). "
        "Give query to search, or open to read."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "any words"},
            "open": {"type": "string", "description": "m12, m12-m20, or m12@3000 (from a char on)"},
            "around": {"type": "string", "description": "with open: words to show a long message around"},
            "session": {"type": "string", "description": "id of a hit, or this; default for open: this"},
        },
    },
}


class SharedStore:
    """The store of this process, opened with the first call, and the loop that all engines use it in."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.settings = _settings_of(environ)
        self._loop = EventLoopThread()
        self._stack = AsyncExitStack()
        self._store: Store | None = None
        self._opening = asyncio.Lock()

    def run(self, work: Callable[[Store], Coroutine[Any, Any, _Result]]) -> _Result:
        """The result of work with the store. Called from threads, never from the loop itself."""
        return self._loop.run(self._with_store(work))

    def close(self) -> None:
        self._loop.run(self._stack.aclose())
        self._store = None
        self._loop.stop()

    async def _with_store(self, work: Callable[[Store], Coroutine[Any, Any, _Result]]) -> _Result:
        async with self._opening:
            if self._store is None:
                place = store_place(self.settings.store.url, self.environ)
                embedder = installed_embedder(wanted=self.settings.store.vectors)
                self._store = await self._stack.enter_async_context(open_store(str(place), embedder=embedder))
        return await work(self._store)


class HermesContextEngine:
    """One agent's engine. `register` makes the class that Hermes knows from it; it needs nothing of Hermes itself."""

    threshold_percent: float
    protect_first_n: int
    protect_last_n: int
    _last_summary_error: str | None

    def __init__(self, shared: SharedStore, summarizer: Callable[..., Any] | None = None) -> None:
        self._shared = shared
        self._summarizer = summarizer
        """Takes a prompt and how to reach the main model, and gives a text; None: Clew writes summaries itself."""
        self._lock = threading.RLock()
        self._host_sessions: Any = None
        """Hermes' own database of sessions."""
        self._session_id = ""
        self._root = ""
        """The session of Hermes that the conversation began with."""
        self._conversation: HeldConversation | None = None
        self._folded_from: Sequence[Any] | None = None
        """The list that the newest fold was made from, until Hermes has reported it."""
        self._status: EngineStatus | None = None
        compression = shared.settings.compression
        self.threshold_percent = compression.threshold
        self.protect_first_n, self.protect_last_n = compression.protect_first_n, compression.protect_last_n
        self.model = ""
        self.context_length = DEFAULT_WINDOW
        self.threshold_tokens = 0
        self._runtime: dict[str, Any] = {}
        self._forget_figures()
        self._forget_outcome()

    def __deepcopy__(self, memo: dict[int, Any]) -> HermesContextEngine:
        """A new engine for another agent: no conversation is shared, the store is."""
        del memo
        return type(self)(self._shared, self._summarizer)

    @property
    def name(self) -> str:
        return ENGINE_NAME

    def bind_session_state(self, session_db: Any = None, session_id: str = "") -> None:
        """Hermes' database of sessions: it knows which sessions continue which."""
        with self._lock:
            self._host_sessions = session_db
            if session_id and session_id != self._session_id:
                self._begin(session_id)

    def on_session_start(self, session_id: str, **about: Any) -> None:
        """A session begins or is resumed; after a compaction it is the same conversation under another id."""
        with self._lock:
            if about.get("boundary_reason") == "compression" and about.get("old_session_id") in (
                self._session_id,
                session_id,
            ):
                self._session_id = session_id
                self._folded_from = None
            elif session_id != self._session_id:
                self._begin(session_id)
            _ENGINES[session_id] = self

    def on_session_end(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Keep what is new. Hermes calls it at each compaction, too, with the list from before: that is known."""
        del session_id
        with self._lock:
            if messages and messages is not self._folded_from:
                self.record(messages)

    def on_session_reset(self) -> None:
        """`/new`: another conversation from here on."""
        with self._lock:
            self._begin("")
            self._forget_figures()
            self._forget_outcome()

    def _begin(self, session_id: str) -> None:
        if self._conversation is not None:
            conversation, self._conversation = self._conversation, None
            self._quietly(lambda _: conversation.close())
        self._session_id, self._root, self._folded_from, self._status = session_id, "", None, None

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: Any = "",
        provider: str = "",
        api_mode: str = "",
    ) -> None:
        with self._lock:
            self.model, self.context_length = model, context_length or DEFAULT_WINDOW
            self._runtime = {
                "model": model,
                "provider": provider,
                "base_url": base_url,
                "api_key": api_key,
                "api_mode": api_mode,
            }
            self.threshold_tokens = threshold_for(self.context_length, self.threshold_percent)

    def update_from_response(self, usage: Mapping[str, Any]) -> None:
        with self._lock:
            canonical = normalize_usage(usage)
            self.awaiting_real_usage_after_compression = False
            self.last_prompt_tokens = canonical.prompt_tokens
            self.last_completion_tokens = canonical.output_tokens
            self.last_total_tokens = canonical.total_tokens
            if not canonical.is_known or not canonical.prompt_tokens:
                return
            self.last_real_prompt_tokens = canonical.prompt_tokens
            self._estimate_then = self._estimate_now
            target = self._target()
            self._quietly(lambda store: self._open(store).add_usage(canonical, target))

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Whether Hermes' estimate is over the threshold and the real size of the last request says that it is not."""
        with self._lock:
            self._estimate_now = rough_tokens
            if rough_tokens < self.threshold_tokens:
                return False
            if self.awaiting_real_usage_after_compression:
                growth = rough_tokens - self.last_compression_rough_tokens
                return growth <= max(4_096, int(self.threshold_tokens * _MAX_GROWTH))
            if self.last_real_prompt_tokens <= 0 or self._estimate_then <= 0:
                return False
            expected = self.last_real_prompt_tokens + max(0, rough_tokens - self._estimate_then)
            return expected < self.threshold_tokens

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        with self._lock:
            tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
            if not self._shared.settings.compression.enabled or tokens < self.threshold_tokens:
                return False
            engine = self._conversation.engine if self._conversation else None
            # The engine's own threshold may be higher than one that Hermes has lowered; whether it is paused, it knows.
            return engine is None or engine.should_compress(max(tokens, engine.threshold_tokens))

    def should_compress_preflight(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        del messages
        return False

    def _automatic_compression_blocked(self) -> bool:
        return self._status is not None and self._status.paused is not None

    def get_status(self) -> dict[str, Any]:
        last = max(0, self.last_prompt_tokens)
        return {
            "last_prompt_tokens": last,
            "threshold_tokens": self.threshold_tokens,
            "context_length": self.context_length,
            "usage_percent": min(100, last / self.context_length * 100) if self.context_length else 0,
            "compression_count": self.compression_count,
            "engine": ENGINE_NAME,
            "clew_session": self._conversation.session if self._conversation else None,
            "paused": self._status.paused if self._status else None,
        }

    def _forget_figures(self) -> None:
        self.last_prompt_tokens = self.last_completion_tokens = self.last_total_tokens = 0
        self.last_real_prompt_tokens = self.last_compression_rough_tokens = self.compression_count = 0
        self.awaiting_real_usage_after_compression = False
        self._estimate_now = self._estimate_then = 0

    def has_content_to_compress(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        with self._lock:
            engine = self._conversation.engine if self._conversation else None
            return len(messages) > 2 if engine is None else engine.has_content_to_compress(list(messages))  # type: ignore[arg-type]

    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
    ) -> list[dict[str, Any]]:
        """The messages, folded; the very list where nothing could be folded or the store failed."""
        with self._lock:
            self._forget_outcome()
            # Hermes gives the last figure of the provider, which is -1 right after a fold.
            tokens = next((it for it in (current_tokens, self.last_prompt_tokens) if it and it > 0), None)
            request = FoldRequest(tokens, focus_topic or None, force, memory_context.strip())
            target = self._target()
            try:
                result = self._shared.run(lambda store: self._open(store).fold(messages, request, target))
            except ClewError as problem:
                logger.warning("the conversation was not folded and continues unchanged: %s", problem)
                self._last_compress_aborted, self._last_summary_error = True, str(problem)
                return messages
            self._note_outcome(messages, result)
            return result.messages

    def record(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Bring what is new of a list into the store; a store that fails is logged, and stops nothing."""
        with self._lock:
            target = self._target()
            status = self._quietly(lambda store: self._open(store).record(messages, target))
            if status is not None:
                self._take_status(status)

    def _note_outcome(self, given: list[dict[str, Any]], result: FoldResult) -> None:
        self._take_status(result.status)
        done = result.compaction
        if done is None or not done.changed:
            return
        self._folded_from = given
        self._last_compression_made_progress = True
        self.last_real_prompt_tokens = self._estimate_then = 0
        if self._summarizer is not None and done.written_by == BUILTIN:
            self._last_summary_fallback_used = True
            self._last_summary_error = next(iter(done.warnings), "no model wrote the summary").removesuffix(".")
        for warning in done.warnings:
            logger.info("%s", warning)

    def _take_status(self, status: EngineStatus) -> None:
        self._status, self.compression_count = status, status.compactions

    def _forget_outcome(self) -> None:
        self._last_compression_made_progress = False
        self._last_compress_aborted = False
        self._last_summary_error = None
        self._last_summary_fallback_used = False

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """The tools for the model, as Hermes wants them: without the wrapping of a wire."""
        catalog_name = self._shared.settings.context.engine
        own = _tools_of(catalog_name, self._shared.environ)
        return [RECALL_SCHEMA, *own]

    def handle_tool_call(self, name: str, args: Mapping[str, Any], **about: Any) -> str:
        """The result of one of these tools, as JSON."""
        with self._lock:
            messages = about.get("messages")
            if self._conversation is None and messages:
                self.record(messages)
            try:
                result = self._shared.run(lambda store: self._open(store).call_tool(name, args))
            except LookupError:
                return json.dumps({"error": f"there is no tool {name!r} of Clew"})
            except ClewError as problem:
                return json.dumps({"error": str(problem)}, ensure_ascii=False)
            return json.dumps({"error" if result.is_error else "result": result.text}, ensure_ascii=False)

    def _open(self, store: Store) -> HeldConversation:
        if self._conversation is None:
            settings = self._shared.settings
            catalog = engine_catalog(clew_home(self._shared.environ))
            plugin = catalog.find(settings.context.engine)
            summarize = self._summarize()

            def new_engine(setup: EngineSetup) -> Any:
                return catalog.build(plugin, replace(setup, summarize=summarize))

            spill = spill_folder(clew_home(self._shared.environ), settings)
            options = RuntimeOptions(new_engine, spill, settings, summarizes=False)
            name = f"{SOURCE}-{self._conversation_root() or 'unnamed'}"
            self._conversation = HeldConversation(store, options, self._target(), name)
        return self._conversation

    def _conversation_root(self) -> str:
        """The session of Hermes that this conversation began with, over its own compactions."""
        if not self._root and self._session_id:
            lookup = getattr(self._host_sessions, "get_session", None)
            self._root = compression_root(lookup, self._session_id) if lookup else self._session_id
        return self._root

    def _summarize(self) -> Summarize:
        """Writes summaries with the model that Hermes has for them; without one where it fails, or none is wanted."""
        ask = self._summarizer
        if ask is None:
            return ModelSummarizer([], counter_for(self.model).text)

        def complete(prompt: str) -> Any:
            return ask(prompt, self._runtime)

        writer = summary_model(complete, name="Hermes' model for compression", context_length=self.context_length)
        return ModelSummarizer([writer], counter_for(self.model).text)

    def _target(self) -> ModelTarget:
        base_url = self._runtime.get("base_url") or None
        return ModelTarget(None, self.model or "unknown", base_url, context_length=self.context_length)

    def _quietly(self, work: Callable[[Store], Coroutine[Any, Any, _Result]]) -> _Result | None:
        try:
            return self._shared.run(work)
        except ClewError as problem:
            logger.warning("Clew's store: %s", problem)
            return None


_ENGINES: WeakValueDictionary[str, HermesContextEngine] = WeakValueDictionary()
"""By the session of Hermes that each is in."""


def register(ctx: Any) -> None:
    """Register the engine; called by the plugin loader of Hermes."""
    from agent.auxiliary_client import call_llm
    from agent.context_engine import ContextEngine

    def ask_hermes(prompt: str, runtime: Mapping[str, Any]) -> Any:
        # No cap on the output: Hermes leaves it to the model, and a summary that was cut is no summary.
        return call_llm(task="compression", main_runtime=dict(runtime), messages=[{"role": "user", "content": prompt}])

    shared = SharedStore(os.environ)
    writes = shared.settings.hermes.summaries == "model"
    made = type("ClewContextEngine", (HermesContextEngine, ContextEngine), {})
    ctx.register_context_engine(made(shared, ask_hermes if writes else None))
    ctx.register_hook("post_llm_call", _keep_turn)


def _keep_turn(**about: Any) -> None:
    """A turn of Hermes ended: its messages are written to the store."""
    engine = _ENGINES.get(about.get("session_id") or "")
    if engine is not None and threading.current_thread().name != _REVIEW_THREAD:
        engine.record(about.get("conversation_history") or ())


def _settings_of(environ: Mapping[str, str]) -> Settings:
    try:
        return load_config(environ).settings
    except ClewError as problem:
        logger.warning("Clew's config cannot be used, and its defaults count: %s", problem)
        return Settings()


def _tools_of(engine: str, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """The tools of the engine that Clew's config names."""
    try:
        catalog = engine_catalog(clew_home(environ))
        made = catalog.build(catalog.find(engine), EngineSetup())
        return [dict(tool["function"]) for tool in made.get_tool_schemas()]
    except ClewError as problem:
        logger.warning("the engine %s of Clew's config cannot be used: %s", engine, problem)
        return []
