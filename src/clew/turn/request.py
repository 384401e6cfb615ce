"""What a request is built from: model targets, the options of a runtime and of a turn; and the price of a call."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, TypeVar

from clew.caching import CachePolicy, caching_for
from clew.config import Settings
from clew.engines import EngineFactory
from clew.errors import InvalidArgument, SummaryFailed
from clew.events import Event, Events, Notice
from clew.handoff import SummaryModel
from clew.messages import Message, Tool, calls_of, name_of_call, text_of
from clew.providers import OnDelta, Provider, ProviderRefused, Reply, Request, error_message
from clew.store import CallSource, ModelCall, Store, View
from clew.tokens import LearntLimits, Window, window_of
from clew.tooloutput import SpillFolder, ToolOutputLimits
from clew.usage import CanonicalUsage, cost_of

# Of a window, for a reply without a requested length: models could write far more than they do.
_LARGEST_SHARE_UNASKED = 0.25
_MOST_THREADS = 2
"""Python runs one at a time, so more would not be quicker; with one, a large history would delay all others."""
MANY_MESSAGES = 200
"""Reading or counting so many takes milliseconds, and is done in a thread."""
_MAX_REMEMBERED = 1_000
"""Models whose stated limit, and notices whose text, one process remembers."""

_Result = TypeVar("_Result")


# -- models ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """A model at a provider, with the settings of every call."""

    provider: Provider | None
    """Sends requests; None if the host sends them, as the gateway does."""
    model: str
    base_url: str | None = None
    context_length: int | None = None
    """As configured; None: looked up."""
    max_tokens: int | None = None
    """The output cap of each call; None leaves it to the provider."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    endpoint: object = None
    """The answer of the provider's models endpoint, if it was asked."""
    reserves_unasked: bool = True
    """Whether room is reserved for the longest reply of the model, if a call states no cap.

    If not, clients state a cap in every call, needed or not: no more than a share of the window is reserved for it.
    """
    host_name: str = ""
    """Of the provider, if the host sends requests."""
    account: str = ""
    """The account of the requests, if a host serves several: limits are learnt for each account."""

    @property
    def limits_address(self) -> str | None:
        """The address under which learnt limits are stored; for an account with a hash of its name at the end."""
        if not self.account:
            return self.base_url
        hashed = blake2b(self.account.encode("utf-8", "replace"), digest_size=6).hexdigest()
        return f"{(self.base_url or '').rstrip('/')}/~{hashed}"

    @property
    def served_by(self) -> str:
        """The name of its provider: prices and caching differ by it."""
        return self.host_name if self.provider is None else self.provider.name

    @property
    def sender(self) -> Provider:
        """The provider; raises InvalidArgument if the host sends requests."""
        if self.provider is None:
            raise InvalidArgument(f"no turn sends anything to {self.model!r}: send the result of `fit`")
        return self.provider


@dataclass(frozen=True, slots=True)
class HostCalls:
    """How the main model writes a summary, if the host sends requests."""

    in_conversation: Callable[[str, int], Awaitable[Reply]]
    """Sends the newest request again with a text as its last message; also takes max tokens. Raises
    `ProviderRefused`."""
    view: View
    """The view of the newest request, and of the messages since then."""
    shown: int
    """The number of messages in that request."""


@dataclass(frozen=True, slots=True)
class ServingModel:
    """A target with the window that is known for it."""

    target: ModelTarget
    window: Window

    @property
    def max_output(self) -> int | None:
        """The tokens reserved for a reply: the cap of each call, else what the model could write, up to a share."""
        asked, longest = self.target.max_tokens, self.window.max_output
        if not self.target.reserves_unasked:
            return min(asked or 0, int(self.window.tokens * _LARGEST_SHARE_UNASKED))
        if asked is not None or longest is None:
            return asked
        return min(longest, int(self.window.tokens * _LARGEST_SHARE_UNASKED))


async def window_for(
    target: ModelTarget, store: Store, learnt: LearntLimits | None, stated: int | None = None
) -> Window:
    """The window of a target. `stated` is the limit that its provider stated in this run.

    Limits from earlier runs are in the file of `learnt`, or in the store without one.
    """
    kept = None if learnt else await store.learnt_window(target.model, target.limits_address or "")
    return window_of(
        target.model,
        base_url=target.limits_address,
        configured=target.context_length,
        stated=stated,
        learnt=learnt,
        remembered=kept.tokens if kept else None,
        endpoint=target.endpoint,
    )


def call_of(
    usage: CanonicalUsage,
    target: ModelTarget,
    source: CallSource,
    ttl: str = "5m",
    *,
    direct: CanonicalUsage | None = None,
) -> ModelCall:
    """A call as stored: its tokens, and their cost if a price is known.

    `direct` is the usage that the caller's request would have had if it was sent as received.
    """
    cost = cost_of(usage, target.model, target.served_by or None, ttl)
    otherwise = None if direct is None else cost_of(direct, target.model, target.served_by or None, ttl)
    return ModelCall(
        usage,
        target.model,
        target.served_by,
        source,
        None if cost is None else cost.micros,
        # With an id, a call that is recorded twice, because a commit was cancelled, counts once.
        id=f"clew-{secrets.token_hex(12)}",
        cost_direct_micros=None if otherwise is None else otherwise.micros_at_least,
    )


def summary_model_of(
    provider: Provider,
    model: str,
    context_length: int,
    *,
    max_output: int | None = None,
    on_reply: Callable[[Reply], None] | None = None,
) -> SummaryModel:
    """A provider's model as one that writes summaries; `on_reply` gets each reply, for its usage."""

    async def complete(prompt: str, max_tokens: int) -> str:
        # The writer of handoffs retries, and falls back on the built-in summariser.
        said: Message = {"role": "user", "content": prompt}
        request = Request(model, [said], max_tokens=max_tokens, is_single_attempt=True)
        return await summary_text(provider.send(request), max_tokens, on_reply)

    return SummaryModel(model, complete, context_length, max_output)


async def summary_text(
    sending: Awaitable[Reply], max_tokens: int | None, on_reply: Callable[[Reply], None] | None
) -> str:
    """The summary in a model's reply; raises `SummaryFailed` if there is none, or only a part of one."""
    try:
        reply = await sending
    except ProviderRefused as refused:
        fault, status = refused.fault, f", {refused.status}" if refused.status else ""
        raise SummaryFailed(
            f"{refused.provider or 'the provider'}{status}: {error_message(refused.body)}",
            kind=fault.kind,
            retry_after=fault.retry_after,
            limit=fault.limit,
            available_output=fault.available_output,
            partial=text_of(refused.partial) if refused.partial else "",
        ) from refused
    if on_reply is not None:
        on_reply(reply)
    text = text_of(reply.message)
    if called := calls_of(reply.message):
        raise SummaryFailed(name_of_call(called[0]), kind="called_tool")
    if reply.finish == "length":
        cap = f" at {max_tokens:,} tokens" if max_tokens else ""
        raise SummaryFailed(f"the reply stopped{cap}", kind="cut", partial=text)
    return text


# -- options -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """The inputs of one turn beside the history."""

    inject: Sequence[Message] = ()
    """The last messages of this turn's request; they never enter the history."""
    tools: Sequence[Tool] = ()
    on_delta: OnDelta | None = None
    prompt: Message | None = None
    """The system prompt, if a client sends one with each request; None: the session's."""


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """The options that a host of turns (library, agent, gateway) sets once."""

    new_engine: EngineFactory
    spill: SpillFolder
    settings: Settings = field(default_factory=Settings)
    source: CallSource = "library"
    auxiliary: ModelTarget | None = None
    """Writes summaries; None: the main model does."""
    summarizes: bool = True
    """False: no model writes summaries, the built-in summariser does."""
    main_summarizes: Callable[[], bool] = lambda: True
    """Whether the main model may write one now, if no model is configured for summaries or that one fails."""
    models_ahead_only: bool = False
    """A model writes summaries only in `Conversation.prepare_ahead`. A compaction that a caller waits for uses the
    built-in summariser: for hosts whose clients must not wait."""
    offers_engine_tools: bool = True
    """Whether the model gets the tools of the context engine: not if the host sends requests."""
    learnt: LearntLimits | None = None
    """The file of limits that providers stated; None: they are in the store."""
    lease_seconds: float = 120.0
    max_open: int = 512
    """So many conversations stay open; of more, the first opened are closed, and loaded again on request."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    """Seconds, to know whether a provider still caches a conversation."""
    before_switch: Callable[[str], Awaitable[str | None]] | None = None
    """Called with the old session before a compaction ends it, to commit memory.

    Returns the system prompt of the continuation, if it is another one: the prefix moves in any case.
    """
    after_switch: Callable[[str, str], Awaitable[None]] | None = None
    """Called with the old session and the one that continues it: a compaction, not a new conversation."""

    @property
    def output_limits(self) -> ToolOutputLimits:
        limits = self.settings.tool_output
        return ToolOutputLimits(limits.max_result_chars, limits.max_turn_chars, limits.preview_chars)


class TurnServices:
    """The services that all conversations of a runtime share: store, options and listeners."""

    def __init__(self, store: Store, options: RuntimeOptions, events: Events | None = None) -> None:
        self.store = store
        self.options = options
        self.events = events or Events()
        self.lease_holder = f"clew-{secrets.token_hex(8)}"
        self._stated: dict[tuple[str, str | None], int] = {}
        self._noticed: set[str] = set()
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "clew-compute")

    async def in_thread(self, function: Callable[..., _Result], *arguments: Any, when: bool = True) -> _Result:
        """The result of a long computation, called in a thread, so that the event loop serves others.

        A cancelled caller waits until the function has ended, since it uses the caller's objects. Without `when` it is
        called at once.
        """
        if not when:
            return function(*arguments)
        call = partial(function, *arguments)
        running = asyncio.get_running_loop().run_in_executor(self._threads, call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.gather(running, return_exceptions=True)
            raise

    def tell(self, event: Event) -> None:
        self.events.emit(event)

    def cache_policy(self, target: ModelTarget) -> CachePolicy:
        """Whether requests to a target get breakpoints; its `describe()` is the line at start-up."""
        settings = self.options.settings.prompt_caching
        policy = _caching_for(target.model, target.served_by or None, target.base_url, settings.cache_ttl)
        if settings.enabled:
            return policy
        return CachePolicy(False, False, policy.ttl, "switched off in the config", policy.model, policy.served_by)

    async def serving(self, target: ModelTarget) -> ServingModel:
        """A target with its window; emits the notice about the window, if any."""
        stated = self._stated.get((target.model, target.limits_address))
        window = await window_for(target, self.store, self.options.learnt, stated)
        if window.notice and window.notice not in self._noticed:
            if len(self._noticed) >= _MAX_REMEMBERED:  # callers of a gateway choose the names of models
                self._noticed.clear()
            self._noticed.add(window.notice)
            self.tell(Notice(window.notice))
        return ServingModel(target, window)

    async def learn_window(self, target: ModelTarget, limit: int) -> None:
        """Remember a limit that a provider stated: for this run, and for later ones that configure none."""
        address = target.limits_address
        if len(self._stated) >= _MAX_REMEMBERED:
            self._stated.clear()
        self._stated[target.model, address] = limit
        if self.options.learnt is not None:
            self.options.learnt.remember(target.model, address, limit)
        else:
            await self.store.learn_window(target.model, address or "", limit)


_caching_for = lru_cache(maxsize=256)(caching_for)
