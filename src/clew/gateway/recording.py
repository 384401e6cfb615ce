"""After the upstream has answered: the reply is kept with what it took, while its end still passes to the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from clew.errors import ClewError
from clew.gateway.callers import Callers
from clew.gateway.connections import where_it_failed
from clew.gateway.records import ExchangeRecord, GatewayExchange
from clew.gateway.relay import ReplyReader
from clew.store import CLIENT_STATE
from clew.turn import Runtime, call_of

_log = logging.getLogger("clew.gateway")


class ReplyRecording:
    """Keeps replies, and tells what came of each exchange. One for each gateway process."""

    def __init__(
        self, runtime: Runtime, callers: Callers, on_exchange: Callable[[ExchangeRecord], None] | None = None
    ) -> None:
        self._runtime = runtime
        self._callers = callers
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
        """Wait until everything that came is kept."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _watch(self, task: asyncio.Task[None]) -> None:
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _record(self, exchange: GatewayExchange, reader: ReplyReader) -> None:
        """Keep the reply and what it took. Nothing that fails here is the client's concern."""
        conversation, opened = exchange.conversation, exchange.opened
        reply = reader.reply(exchange.request.model if exchange.request else "")
        if conversation is None or opened is None or reply is None:
            return
        exchange.usage = reply.usage
        conversation.note_sent()
        call = None
        try:
            async with opened.lock:
                if reply.usage is not None:
                    direct = await opened.direct_usage(conversation, reply.usage)
                    call = call_of(reply.usage, conversation.target, "gateway", direct=direct)
                    exchange.cost_micros = call.cost_micros
                is_kept = await opened.record(reader.items(), reply.usage, call)
            if not is_kept and call is not None:
                await self._runtime.store.record_call(conversation.session, call)
            await self._callers.add_spending(exchange.caller, exchange.cost_micros or 0)
            if exchange.client.name and not opened.is_client_kept:
                await self._runtime.store.set_state(conversation.session, {CLIENT_STATE: exchange.client.name})
                opened.is_client_kept = True
        except ClewError as problem:
            exchange.is_fallback = True
            _log.error("a reply could not be kept: %s", where_it_failed(problem))
