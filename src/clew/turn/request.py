"""What requests are made with: model targets, the options of a runtime and of a turn, and the price of a call."""

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
"""More would not be quicker, since Python runs one at a time; with one, a large history would make others wait."""
MANY_MESSAGES = 200
"""So many take milliseconds to read or count: that is done in a thread."""
_MAX_REMEMBERED = 1_000
"""Models whose stated limit, and notices whose text, one process remembers."""

_Result = TypeVar("_Result")


# -- models ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelTarget:
    """A model at a provider, and what every call to it is made with."""

    provider: Provider | None
    """Sends requests; None where the host does that by itself, as the gateway does."""
    model: str
    base_url: str | None = None
    context_length: int | None = None
    """As configured; None: found out."""
    max_tokens: int | None = None
    """The output cap of each call; None leaves it to the provider."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    endpoint: object = None
    """What the provider's models endpoint answered, where it was asked."""
    reserves_unasked: bool = True
    """Whether room is kept free for the longest reply of the model, where a call does not say how long it may be.

    Where not, a cap is what others ask for at every call, needed or not: of that, too, no more than a share is kept.
    """
    host_name: str = ""
    """Of whoever serves it, where the host sends requests by itself."""
    account: str = ""
    """Whose requests these are, where a host serves several: limits are learnt for each of them alone."""

    @property
    def limits_address(self) -> str | None:
        """The address that learnt limits are kept under; that of an account has a hash of its name at the end."""
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
        """Its provider; refuses where the host sends requests by itself."""
        if self.provider is None:
            raise InvalidArgument(f"no turn sends anything to {self.model!r}: send the result of `fit`")
        return self.provider


@dataclass(frozen=True, slots=True)
class HostCalls:
    """How the main model is asked for a summary, where the host sends requests by itself."""

    in_conversation: Callable[[str, int], Awaitable[Reply]]
    """Takes a text, which becomes the last message behind the newest request as it was sent, and max tokens. Raises
    `ProviderRefused`."""
    view: View
    """Of the newest request, and of the messages since then."""
    shown: int
    """Messages in view that it showed."""


@dataclass(frozen=True, slots=True)
class ServingModel:
    """A target with the window that is known for it."""

    target: ModelTarget
    window: Window

    @property
    def max_output(self) -> int | None:
        """What is kept free for a reply: what each call asks for, else what the model could write, within reason."""
        asked, longest = self.target.max_tokens, self.window.max_output
        if not self.target.reserves_unasked:
            return min(asked or 0, int(self.window.tokens * _LARGEST_SHARE_UNASKED))
        if asked is not None or longest is None:
            return asked
        return min(longest, int(self.window.tokens * _LARGEST_SHARE_UNASKED))


async def window_for(
    target: ModelTarget, store: Store, learnt: LearntLimits | None, stated: int | None = None
) -> Window:
    """The window of a target. `stated` is what its provider said in this run.

    What earlier runs learnt is in one place: the file of `learnt`, or the store where there is none.
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
    """A call as the store keeps it: its tokens, and what they cost where a price is known.

    `direct` is what the caller's own request, sent as received, would have used.
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
        # The summaries room retries by itself, and has the built-in summariser to fall back on.
        said: Message = {"role": "user", "content": prompt}
        request = Request(model, [said], max_tokens=max_tokens, is_single_attempt=True)
        return await summary_text(provider.send(request), max_tokens, on_reply)

    return SummaryModel(model, complete, context_length, max_output)


async def summary_text(
    sending: Awaitable[Reply], max_tokens: int | None, on_reply: Callable[[Reply], None] | None
) -> str:
    """What a model writes for a request for a summary; raises `SummaryFailed` where it writes none, or half of one."""
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
    """What one turn is run with beside the history."""

    inject: Sequence[Message] = ()
    """Stands at the end of this turn's request and never enters the history."""
    tools: Sequence[Tool] = ()
    on_delta: OnDelta | None = None
    prompt: Message | None = None
    """The system prompt, where a client brings its own with each request; None: the session's."""


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """The choices that a host of turns (library, agent, gateway) makes once."""

    new_engine: EngineFactory
    spill: SpillFolder
    settings: Settings = field(default_factory=Settings)
    source: CallSource = "library"
    auxiliary: ModelTarget | None = None
    """Writes summaries; None: the main model does."""
    summarizes: bool = True
    """False: no model writes summaries, the built-in summariser does."""
    main_summarizes: Callable[[], bool] = lambda: True
    """Whether the main model may be asked for one now, where none is configured for it or that one fails."""
    models_ahead_only: bool = False
    """A model writes summaries only in `Conversation.prepare_ahead`, and only those are stored. A compaction that
    a caller waits for uses the built-in summariser: for hosts whose clients must not wait."""
    offers_engine_tools: bool = True
    """Whether the model is offered the tools of the context engine: not where a host sends requests by itself."""
    learnt: LearntLimits | None = None
    """Where limits that providers stated are kept; None: in the store."""
    lease_seconds: float = 120.0
    max_open: int = 512
    """So many conversations are kept open; the first opened are closed, and loaded again when asked for."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    """Seconds: tells whether a provider still has a conversation in its cache."""
    before_switch: Callable[[str], Awaitable[str | None]] | None = None
    """Called with the old session before a compaction ends it: memory is committed there.

    Returns the system prompt of the continuation, where it shall be another one: the prefix moves in any case.
    """
    after_switch: Callable[[str, str], Awaitable[None]] | None = None
    """Called with the old session and the one that continues it: a compaction, not a new conversation."""

    @property
    def output_limits(self) -> ToolOutputLimits:
        limits = self.settings.tool_output
        return ToolOutputLimits(limits.max_result_chars, limits.max_turn_chars, limits.preview_chars)


class TurnServices:
    """What all conversations of a runtime share: the store, the options and the listeners."""

    def __init__(self, store: Store, options: RuntimeOptions, events: Events | None = None) -> None:
        self.store = store
        self.options = options
        self.events = events or Events()
        self.lease_holder = f"clew-{secrets.token_hex(8)}"
        self._stated: dict[tuple[str, str | None], int] = {}
        self._noticed: set[str] = set()
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "clew-compute")

    async def in_thread(self, function: Callable[..., _Result], *arguments: Any, when: bool = True) -> _Result:
        """The result of a function that computes for long, called in a thread, so that the event loop serves others.

        A caller that is cancelled waits until the function has ended, since it uses what the caller holds. Not `when`:
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
        """A target with its window; emits a notice about the window where a person should know of it."""
        stated = self._stated.get((target.model, target.limits_address))
        window = await window_for(target, self.store, self.options.learnt, stated)
        if window.notice and window.notice not in self._noticed:
            if len(self._noticed) >= _MAX_REMEMBERED:  # names of models are the callers' in a gateway
                self._noticed.clear()
            self._noticed.add(window.notice)
            self.tell(Notice(window.notice))
        return ServingModel(target, window)

    async def learn_window(self, target: ModelTarget, limit: int) -> None:
        """A limit that a provider stated: it holds for this run, and later ones that configure none."""
        address = target.limits_address
        if len(self._stated) >= _MAX_REMEMBERED:
            self._stated.clear()
        self._stated[target.model, address] = limit
        if self.options.learnt is not None:
            self.options.learnt.remember(target.model, address, limit)
        else:
            await self.store.learn_window(target.model, address or "", limit)


_caching_for = lru_cache(maxsize=256)(caching_for)
