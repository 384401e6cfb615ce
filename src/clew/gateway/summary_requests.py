"""Summaries by the caller's own model: asked at the end of the conversation as it was last sent, byte for byte.

The provider then reads the conversation from the cache that it already has. Only for callers with a key of Clew, whose
requests go on with a credential of ours: a caller's own credential is used for that caller's own requests alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from clew.gateway.bodies import RequestBody, join_items, write_json
from clew.gateway.callers import Callers
from clew.gateway.records import GatewayExchange
from clew.gateway.relay import ReplyReader
from clew.gateway.upstream import UpstreamServer, UpstreamUnreachable, passed_headers, read_error
from clew.gateway.wires import WireRequest
from clew.messages import GrowingHistory
from clew.providers import ErrorClass, ProviderRefused, Reply, classify_error
from clew.turn import Conversation, HostCalls, call_of


class SummaryRequests:
    """Has summaries written by the models that callers talk to. One for each gateway process."""

    def __init__(self, upstream: UpstreamServer, callers: Callers) -> None:
        self._upstream = upstream
        self._callers = callers

    def calls(
        self, exchange: GatewayExchange, request: WireRequest, shown: Sequence[bytes], conversation: Conversation
    ) -> HostCalls | None:
        """How the model of a request is asked for a summary; None where that would take the caller's own credential.

        `shown` are the items of the request as they go on for the view that the conversation has now.
        """
        if exchange.caller.key is None or not exchange.caller.credential:
            return None
        asked = _SummaryCall(self, exchange, request, shown, conversation)
        return HostCalls(asked.in_conversation, asked.alone, conversation.view.stored, len(conversation.messages))

    async def send(self, exchange: GatewayExchange, request: WireRequest, body: bytes) -> Reply:
        """The reply to a body that is sent as the request is sent; raises `ProviderRefused`."""
        http, caller, host = exchange.http, exchange.caller, self._upstream.host
        headers = passed_headers(http.headers, caller.withhold)
        headers.update(caller.credential)
        url = self._upstream.url(http.path, caller.query(http.rel_url.raw_query_string))
        try:
            async with self._upstream.open("POST", url, headers, body) as response:
                if response.status >= 400:
                    words = (await read_error(response)).decode("utf-8", "replace")
                    fault = classify_error(response.status, words, host, headers=response.headers)
                    raise ProviderRefused(host, fault, words)
                reader = ReplyReader(request.wire, is_stream="event-stream" in response.headers.get("Content-Type", ""))
                async for chunk in response.content.iter_any():
                    reader.feed(chunk)
        except (UpstreamUnreachable, aiohttp.ClientError, TimeoutError) as error:
            raise ProviderRefused(host, ErrorClass("network"), str(error) or type(error).__name__) from error
        reader.end()
        reply = reader.reply(request.model)
        if reply is None:
            raise ProviderRefused(host, ErrorClass("other"), reader.problem or "the reply did not come to its end")
        return reply

    async def pay(self, exchange: GatewayExchange, conversation: Conversation, reply: Reply) -> None:
        """A summary is paid for by the key whose conversation it is of."""
        if reply.usage is not None:
            cost = call_of(reply.usage, conversation.target, "gateway").cost_micros
            await self._callers.add_spending(exchange.caller, cost or 0)


@dataclass(frozen=True, slots=True)
class _SummaryCall:
    """The two ways to ask, for one request."""

    requests: SummaryRequests
    exchange: GatewayExchange
    request: WireRequest
    shown: Sequence[bytes]
    conversation: Conversation

    async def in_conversation(self, instruction: str, max_tokens: int) -> Reply:
        request, own = self.request, self.request.max_output
        # Nothing else differs from what was sent: with another setting a provider may take the messages for new ones.
        cap = None if own is None else max(own, max_tokens + _thinking_tokens(request.body))
        return await self._send(request.with_items([*self.shown, self._said(instruction)], cap))

    async def alone(self, prompt: str, max_tokens: int) -> Reply:
        wire, body = self.request.wire, self.request.body
        fields = {"model": body.field("model")} if "model" in body else {}
        listed = {wire.list_field: join_items([self._said(prompt)])}
        return await self._send(RequestBody(b"{}").with_fields({**fields, **listed, **wire.capped(body, max_tokens)}))

    async def _send(self, body: bytes) -> Reply:
        reply = await self.requests.send(self.exchange, self.request, body)
        await self.requests.pay(self.exchange, self.conversation, reply)
        return reply

    def _said(self, text: str) -> bytes:
        (item,) = GrowingHistory(self.request.wire.dialect).write([{"role": "user", "content": text}])
        return write_json(item)


def _thinking_tokens(body: RequestBody) -> int:
    """What a model may think on Anthropic's wire, where that counts as output."""
    thinking = body.value("thinking")
    tokens = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return tokens if isinstance(tokens, int) else 0
