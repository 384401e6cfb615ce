"""Handoffs by the caller's own model, prepared in the background: no request waits for one.

The model is asked with an extra request: the last one as it was sent to the upstream, byte for byte, and one more
message. So the provider reads the conversation from its cache. A prepared handoff is stored with its conversation, for
any process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
from multidict import CIMultiDict

from clew.engines import ContextCompressor
from clew.errors import ClewError
from clew.gateway.admission import Caller, Callers, where_it_failed
from clew.gateway.conversations import (
    OpenConversation,
    UpstreamRequest,
    is_time_to_prepare,
)
from clew.gateway.upstream import ReplyReader, Upstreams, UpstreamUnreachable, read_error
from clew.gateway.wires import RequestBody, write_json
from clew.messages import written
from clew.providers import ErrorClass, ProviderRefused, Reply, classify_error
from clew.store import AUXILIARY
from clew.turn import (
    CACHE_SECONDS,
    FINISHED_AT,
    FOLD_BEFORE_SECONDS,
    Conversation,
    HostCalls,
    PreparedCompaction,
    Runtime,
    call_of,
    early_fold_pays,
    prepared_from_plain,
    prepared_to_plain,
    reports_finished,
)
from clew.usage import CanonicalUsage

if TYPE_CHECKING:
    from clew.gateway.exchange import GatewayExchange

REFUSED_SECONDS = 3_600.0
"""How long a credential is not used again for handoffs after its provider refused one."""
_GREW = 0.05
"""Of the window: the growth of a conversation after which its model is asked again."""
_OUTDATED = 0.20
"""Of the window: the growth after which an unused handoff is written again."""
_ASK_SECONDS = 600.0
"""The longest wait for a model; as long another process is assumed to be preparing."""
_STATE = "handoff"
_REFUSED_STATE = "handoff.refused."
"""Prefix of a credential's id: set in the conversation in which its provider refused."""
# They identify one request, and the extra request is another one.
_OF_ONE_REQUEST = ("idempotency-key", "x-request-id", "x-client-request-id")
_TOO_LARGE = ("prompt_too_long", "payload_too_large", "output_cap_too_large")
_REFUSED_IN_STREAM = ("auth", "quota", "rate_limit", "bad_request")

_log = logging.getLogger("clew.gateway")


class Handoffs:
    """Has handoffs written by the callers' models. One for each gateway process."""

    def __init__(
        self,
        runtime: Runtime,
        upstreams: Upstreams,
        callers: Callers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runtime = runtime
        self._upstreams = upstreams
        self._callers = callers
        self._clock = clock
        self._refused: dict[str, float] = {}
        """Credentials that are not used again, and until when, as far as known in this process."""
        self._preparing: set[asyncio.Task[bool]] = set()
        self._charging: set[asyncio.Task[bool]] = set()

    def is_possible(self, exchange: GatewayExchange) -> bool:
        """Whether a model can be asked to write the handoff of a conversation."""
        request, conversation = exchange.request, exchange.conversation
        if request is None or conversation is None:
            return False
        if conversation.view.unsettled:
            # A client that changes the end of its history begins a branch each time, and what was prepared is lost.
            return False
        if self._runtime.options.auxiliary is not None:
            return True
        return (
            conversation.engine.name == ContextCompressor.name
            and self._runtime.options.settings.prompt_caching.extend_for_summaries
            and request.wire.text_fields(request.body) is not None
            and not self._is_refused(exchange.caller)
        )

    # -- preparing -----------------------------------------------------------------------------------------------------

    def prepare_if_due(
        self, opened: OpenConversation, sent: UpstreamRequest, conversation: Conversation, seconds: float
    ) -> None:
        """Begin to prepare where the threshold is near, or a task is finished; the request was sent `seconds` ago."""
        ttl = sent.cache_ttl
        opened.cached_until = None if ttl is None else self._clock() - seconds + CACHE_SECONDS[ttl]
        opened.answered = (conversation.session, conversation.view.next_seq)
        tokens, threshold = conversation.size.tokens, conversation.engine.threshold_tokens
        turns, summary = conversation.turns_by_growth, conversation.summary_tokens
        if is_time_to_prepare(tokens, conversation.size.fixed, turns, threshold):
            if conversation.is_worth_asking(tokens):
                _start(self.prepare(opened), self._preparing)
        elif (
            tokens >= FINISHED_AT * threshold
            and reports_finished(conversation.messages)
            and early_fold_pays(tokens, turns, summary, conversation.target)
        ):
            opened.has_finished_task = True
            _start(self.prepare(opened), self._preparing)

    async def prepare(self, opened: OpenConversation) -> bool:
        """Have a handoff written now of a conversation as it was last sent, whatever its size; whether one was written.

        False also where its model may not be asked, is being asked, or failed and the conversation has hardly grown.
        """
        sent, session = opened.sent, opened.view.session
        if sent is None or session is None or opened.is_preparing:
            return False
        opened.is_preparing = True
        opened.waiting += 1  # keeps it open
        try:
            conversation = await self._runtime.conversation(session)
            if conversation.session == opened.tried[0] and not self._has_grown(conversation, opened.tried[1]):
                return False
            if self._runtime.options.auxiliary is None and await self._was_refused(sent.caller):
                return False
            return await self._prepare(opened, conversation, sent)
        except ClewError as problem:
            _log.error("a handoff could not be prepared: %s", where_it_failed(problem))
            return False
        finally:
            opened.is_preparing = False
            opened.waiting -= 1

    async def _prepare(self, opened: OpenConversation, conversation: Conversation, sent: UpstreamRequest) -> bool:
        store, session, tokens = self._runtime.store, conversation.session, conversation.size.tokens
        later = int((_OUTDATED - _GREW) * conversation.window.tokens)
        opened.tried = (session, tokens)
        known = (await store.state(session)).get(_STATE)
        if isinstance(known, dict) and known["session"] == session:
            was_written = known["prepared"] is not None
            opened.tried = (session, known["tokens"] + (later if was_written else 0))
            if not self._has_grown(conversation, opened.tried[1]) or time.time() < known["until"]:
                return False
        before = known["prepared"] if isinstance(known, dict) and known["session"] == session else None
        mark = {"session": session, "tokens": tokens, "until": time.time() + _ASK_SECONDS, "prepared": before}
        await store.set_state(session, {_STATE: mark})
        asked = HostCalls(partial(self._ask, sent, conversation), sent.view, sent.shown)
        conversation.host_calls = None if self._is_refused(sent.caller) else asked
        try:
            prepared = await conversation.prepare_ahead()
        except asyncio.CancelledError:
            await conversation.preparer.cancel()
            await store.set_state(session, {_STATE: {**mark, "until": 0}})
            raise
        finally:
            conversation.host_calls = None
        if conversation.session != session:
            return False  # it was folded while the model was writing
        plain = before if prepared is None else prepared_to_plain(prepared)
        await store.set_state(session, {_STATE: {**mark, "until": 0, "prepared": plain}})
        opened.tried = (session, tokens if prepared is None else tokens + later)
        return prepared is not None

    def _has_grown(self, conversation: Conversation, since: int) -> bool:
        return conversation.size.tokens >= since + _GREW * conversation.window.tokens

    async def ready(self, conversation: Conversation) -> PreparedCompaction | None:
        """The handoff that was prepared for a conversation by any process; None where none is ready."""
        known = (await self._runtime.store.state(conversation.session)).get(_STATE)
        if not isinstance(known, dict) or known["session"] != conversation.session or known["prepared"] is None:
            return None
        return prepared_from_plain(known["prepared"], conversation.view)

    # -- idle conversations --------------------------------------------------------------------------------------------

    def fold_idle(self, conversations: Iterable[OpenConversation]) -> None:
        """Begin to fold idle conversations whose cache is about to expire, once in each idle period."""
        now = self._clock()
        for opened in conversations:
            until = opened.cached_until
            if until is None or opened.waiting or now < until - FOLD_BEFORE_SECONDS:
                continue
            opened.cached_until = None
            if now < until and opened.sent is not None:
                opened.waiting += 1  # keeps it open
                _start(self._fold_idle(opened, opened.sent), self._preparing)

    async def _fold_idle(self, opened: OpenConversation, sent: UpstreamRequest) -> bool:
        """Fold a conversation with a handoff of its model, where that pays and the conversation has not continued.

        Every process stores a question before it is answered, so no conversation is folded while one is answered.
        """
        session, since = opened.view.session, opened.used_at
        try:
            conversation = None if session is None else await self._runtime.conversation(session)
            if (
                conversation is None
                or (conversation.session, conversation.view.next_seq) != opened.answered
                or not await conversation.is_worth_folding_idle(sent.cache_ttl or "5m")
            ):
                return False
            await self.prepare(opened)
            ready = await self.ready(conversation)
            async with opened.lock:
                is_unused = opened.waiting == 1 and opened.used_at == since
                if ready is None or not is_unused or not await conversation.is_newest():
                    return False
                return await conversation.use_prepared(ready, conversation.size.tokens, "idle")
        except ClewError as problem:
            _log.error("an idle conversation could not be folded: %s", where_it_failed(problem))
            return False
        finally:
            opened.waiting -= 1

    async def settled(self) -> None:
        """Wait until every preparation has ended and is charged."""
        while under_way := self._preparing | self._charging:
            await asyncio.gather(*under_way, return_exceptions=True)

    async def close(self) -> None:
        """Stop every preparation."""
        for task in self._preparing:
            task.cancel()
        await self.settled()

    # -- asking --------------------------------------------------------------------------------------------------------

    def _is_refused(self, caller: Caller) -> bool:
        return self._clock() < self._refused.get(caller.credential_id, 0.0)

    async def _was_refused(self, caller: Caller) -> bool:
        """Whether a provider refused to write a handoff for a credential within the hour, to any process."""
        if not self._is_refused(caller):
            owner = caller.owner if caller.key is None else None
            ago = await self._runtime.store.seconds_since_state(_REFUSED_STATE + caller.credential_id, owner=owner)
            if ago is not None and ago < REFUSED_SECONDS:
                self._note_refused(caller, REFUSED_SECONDS - ago)
        return self._is_refused(caller)

    def _note_refused(self, caller: Caller, seconds: float) -> None:
        now = self._clock()
        self._refused = {one: until for one, until in self._refused.items() if now < until}
        self._refused[caller.credential_id] = now + seconds

    async def _keep_refused(self, caller: Caller, session: str) -> None:
        self._note_refused(caller, REFUSED_SECONDS)
        await self._runtime.store.set_state(session, {_REFUSED_STATE + caller.credential_id: True})

    async def _ask(self, sent: UpstreamRequest, conversation: Conversation, instruction: str, max_tokens: int) -> Reply:
        """Send the last request again with an instruction at its end, and charge the caller; `ProviderRefused`."""
        reader: ReplyReader | None = None
        headers = CIMultiDict((name, it) for name, it in sent.headers.items() if name.lower() not in _OF_ONE_REQUEST)
        body = extended_body(sent, instruction, max_tokens)
        upstream = self._upstreams.at(sent.url)
        try:
            async with asyncio.timeout(_ASK_SECONDS), upstream.open("POST", sent.url, headers, body) as response:
                if response.status >= 400:
                    raise await self._refusal(sent, conversation.session, response)
                reader = ReplyReader(sent.path.wire, response.headers.get("Content-Type", ""))
                async for chunk in response.content.iter_any():
                    reader.feed(chunk)
                reader.end()
        except (UpstreamUnreachable, aiohttp.ClientError, TimeoutError) as error:
            message = str(error) or type(error).__name__
            raise ProviderRefused(upstream.host, ErrorClass("network"), message) from error
        finally:
            # Also after a cancellation: the provider charges for what it has sent.
            usage = None if reader is None else self._charge(sent, conversation, reader)
        reply = reader.reply(sent.model)
        if reply is None:
            problem = reader.problem or "the reply is incomplete"
            # An error inside a stream has no status.
            fault = classify_error(400 if "invalid_request" in problem else None, problem, upstream.host)
            if fault.kind in _REFUSED_IN_STREAM:
                await self._keep_refused(sent.caller, conversation.session)
            raise ProviderRefused(upstream.host, fault, problem)
        return replace(reply, usage=usage)

    async def _refusal(self, sent: UpstreamRequest, session: str, response: aiohttp.ClientResponse) -> ProviderRefused:
        """The error of a refusal, which is remembered unless it is about the size of the request or a server error."""
        host = self._upstreams.at(sent.url).host
        words = (await read_error(response)).decode("utf-8", "replace")
        fault = classify_error(response.status, words, host, headers=response.headers)
        if response.status < 500 and fault.kind not in _TOO_LARGE:
            await self._keep_refused(sent.caller, session)
        return ProviderRefused(host, fault, words, status=response.status)

    def _charge(self, sent: UpstreamRequest, conversation: Conversation, reader: ReplyReader) -> CanonicalUsage | None:
        """Charge a reply, or the received part of it, to the caller; its usage, estimated where none was stated."""
        usage = reader.usage()
        if usage is None and reader.has_content:
            usage = CanonicalUsage(input_tokens=conversation.size.tokens, output_tokens=reader.output_tokens)
        if usage is None:
            return None
        call = call_of(usage, conversation.target, AUXILIARY)
        if not reader.is_complete:
            conversation.pending_calls.append(call)  # that of a whole reply is recorded with its summary
        _start(self._callers.add_spending(sent.caller, call.cost_micros or 0), self._charging)
        return usage


def _start(work: Coroutine[Any, Any, bool], among: set[asyncio.Task[bool]]) -> None:
    task = asyncio.create_task(work)
    among.add(task)
    task.add_done_callback(among.discard)


def extended_body(sent: UpstreamRequest, instruction: str, max_tokens: int) -> bytes:
    """The body that was sent, with an instruction as one more user message.

    Only the output cap and a forced tool call are changed as well: after other changes a provider may not use its
    cache.
    """
    wire = sent.path.wire
    request = wire.read(RequestBody(sent.body), sent.path)
    assert request is not None  # it was read before it was sent
    (item,) = written([{"role": "user", "content": instruction}], wire.dialect)
    thinking, own = wire.thinking_tokens(request.body), request.max_output
    cap = None if own is None else max(own, max_tokens + thinking)
    return request.with_items([*request.items, write_json(item)], cap, wire.text_fields(request.body))
