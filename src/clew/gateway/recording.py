"""After the upstream has answered: the reply is kept with what it took, while its end still passes to the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from clew.errors import ClewError, StoreError, UnknownSession
from clew.gateway.callers import Callers
from clew.gateway.connections import where_it_failed
from clew.gateway.handoffs import Handoffs
from clew.gateway.records import ExchangeRecord, GatewayExchange
from clew.gateway.relay import CHARS_PER_TOKEN, ReplyReader
from clew.store import CLIENT_STATE, ModelCall
from clew.turn import ModelTarget, Runtime, call_of
from clew.usage import CanonicalUsage

RETRY_SECONDS = (0.2, 1.0, 5.0)
"""How long to wait before a reply is stored again, where the store was away."""

_Value = TypeVar("_Value")
_log = logging.getLogger("clew.gateway")


class ReplyRecording:
    """Keeps replies, and tells what came of each exchange. One for each gateway process."""

    def __init__(
        self,
        runtime: Runtime,
        callers: Callers,
        target: Callable[[str, str], ModelTarget],
        handoffs: Handoffs,
        on_exchange: Callable[[ExchangeRecord], None] | None = None,
        retry_seconds: Sequence[float] = RETRY_SECONDS,
    ) -> None:
        self._runtime = runtime
        self._callers = callers
        self._target = target
        self._handoffs = handoffs
        self._retry_seconds = retry_seconds
        self._closing = asyncio.Event()
        self._on_exchange = on_exchange or (lambda _: None)
        self._under_way: set[asyncio.Task[None]] = set()

    def start(self, exchange: GatewayExchange, reader: ReplyReader) -> None:
        """Begin to keep a reply, once."""
        if exchange.recording is None:
            exchange.recording = asyncio.create_task(self._record(exchange, reader))
            self._watch(exchange.recording)

    def tell(self, exchange: GatewayExchange) -> None:
        """Tell what came of an exchange, once all of it is kept: a client may hang up before that."""
        last = exchange.recording or exchange.writing
        if last is None or last.done():
            self._on_exchange(exchange.record())
        else:
            self._watch(last)
            last.add_done_callback(lambda _: self._on_exchange(exchange.record()))

    async def close(self) -> None:
        """Wait until everything that came is kept; what waits for the store is tried once more."""
        self._closing.set()
        while self._under_way:
            await asyncio.gather(*self._under_way, return_exceptions=True)

    def _watch(self, task: asyncio.Task[None]) -> None:
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _record(self, exchange: GatewayExchange, reader: ReplyReader) -> None:
        """Keep the reply and charge what it took. Nothing that fails here is the client's concern."""
        stated = reader.usage()
        exchange.usage = usage = stated or _estimated_usage(exchange, reader)
        if usage is None or exchange.path.action == "count":
            return
        try:
            call = await self._call(exchange, usage)
            exchange.cost_micros = call.cost_micros
            await self._store_or_retry(lambda: self._store(exchange, reader, stated, call))
            spending = self._callers.add_spending
            may_go_on = await self._store_or_retry(lambda: spending(exchange.caller, call.cost_micros or 0))
            await self._keep_client(exchange)
            if reader.is_complete:
                self._handoffs.prepare_if_due(exchange, may_ask=bool(may_go_on))
        except ClewError as problem:
            exchange.is_fallback = True
            _log.error("a reply could not be kept: %s", where_it_failed(problem))

    async def _call(self, exchange: GatewayExchange, usage: CanonicalUsage) -> ModelCall:
        conversation, opened = exchange.conversation, exchange.opened
        if conversation is None or opened is None:
            return call_of(usage, self._target(exchange.model, exchange.path.kind), "gateway")
        direct = await opened.direct_usage(conversation, usage)
        return call_of(usage, conversation.target, "gateway", direct=direct)

    async def _store(
        self, exchange: GatewayExchange, reader: ReplyReader, stated: CanonicalUsage | None, call: ModelCall
    ) -> None:
        """Store the reply with its call; the call alone where no conversation can take the reply."""
        conversation, opened, owner = exchange.conversation, exchange.opened, exchange.caller.owner
        if conversation is None or opened is None:
            await self._runtime.store.record_call(None, call, owner=owner)
            return
        conversation.note_sent()
        if reader.is_complete:
            async with opened.lock:
                if await opened.record(reader.items(), stated, call, exchange.taken):
                    return
        try:
            await self._runtime.store.record_call(conversation.session, call)
        except UnknownSession:  # deleted meanwhile
            await self._runtime.store.record_call(None, call, owner=owner)

    async def _keep_client(self, exchange: GatewayExchange) -> None:
        conversation, opened = exchange.conversation, exchange.opened
        if conversation is None or opened is None or not exchange.client.name or opened.is_client_kept:
            return
        await self._runtime.store.set_state(conversation.session, {CLIENT_STATE: exchange.client.name})
        opened.is_client_kept = True

    async def _store_or_retry(self, store: Callable[[], Awaitable[_Value]]) -> _Value | None:
        """Store something now; later, without anybody waiting for it, where the store is away: then None."""
        try:
            return await store()
        except StoreError as problem:
            _log.warning("a reply is stored later: %s", where_it_failed(problem))
            self._watch(asyncio.create_task(self._retry(store)))
            return None

    async def _retry(self, store: Callable[[], Awaitable[object]]) -> None:
        for seconds in self._retry_seconds:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), seconds)
            try:
                await store()
                return
            except StoreError as problem:
                last = problem
        _log.error("a reply could not be kept: %s", where_it_failed(last))


def _estimated_usage(exchange: GatewayExchange, reader: ReplyReader) -> CanonicalUsage | None:
    """The usage of a reply that states none, by our own count; None where no reply came."""
    if not reader.has_content:
        return None
    conversation = exchange.conversation
    prompt = conversation.size.tokens if conversation else len(exchange.raw) // CHARS_PER_TOKEN
    return CanonicalUsage(input_tokens=prompt, output_tokens=reader.output_tokens)
