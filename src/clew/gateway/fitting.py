"""Before the upstream is asked: the conversation of a request is found, what came is kept, and the request made to fit.

Until something is folded the client's own bytes go on. What comes is written to the store beside the upstream's call:
the client has all of it, and sends it again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from clew.errors import ClewError
from clew.gateway.clients import MAX_NAME_CHARS, SESSION_HEADER, is_compaction_request, session_named
from clew.gateway.connections import where_it_failed
from clew.gateway.conversations import ConversationKey, OpenConversation, OpenConversations
from clew.gateway.handles import HistoryHandle, asks_for_handle, is_native, without_handle
from clew.gateway.handoffs import Handoffs
from clew.gateway.lineage import lineage_of
from clew.gateway.records import GatewayExchange
from clew.gateway.relay import ClientResponse
from clew.gateway.savings import MUST_FOLD, pays_back
from clew.gateway.thinking import binds_thinking, refuses_thinking, without_thinking
from clew.gateway.wires import WireRequest
from clew.providers import ErrorClass
from clew.turn import (
    COLD_AT,
    Conversation,
    ModelTarget,
    Recovery,
    Runtime,
    TurnOptions,
    bound_newest,
    cold_fold_pays,
)

FEWEST_MESSAGES = 4
"""A conversation with fewer is not compacted."""

LONG_WINDOW_BETA = "context-1m"
"""In the beta header of Anthropic's wire: the client has the long window of a model."""
LONG_WINDOW = 1_000_000
_MAX_OUTPUT_LIMITS = 1_000
_LEAST_MARGIN = 256
"""Tokens that our count of a prompt may be too low by."""
_LEAST_OUTPUT = 1_024
"""Where less room is left, the client's own figure is sent: the upstream's refusal makes the conversation smaller."""
_WAITS = "a conversation of %d tokens in a window of %d is not folded before %.0f%% of it: %s"
_Value = TypeVar("_Value")
_log = logging.getLogger("clew.gateway")


class RequestFitting:
    """Makes requests fit. One for each gateway process."""

    def __init__(
        self,
        runtime: Runtime,
        target: Callable[[str, str], ModelTarget],
        handoffs: Handoffs,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.conversations = OpenConversations(runtime, clock)
        self._runtime = runtime
        self._target = target
        self._handoffs = handoffs
        self._binding: set[tuple[str, str]] = set()
        """Owners and models that were found to bind thinking."""
        self._output_limits: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        """By owner and model: the window that the upstream counts output into, and the most output it allows."""

    async def fit(
        self, exchange: GatewayExchange, headers: Mapping[str, str], response: ClientResponse
    ) -> Sequence[bytes] | None:
        """The items to send in place of those that came; None where the client's bytes go on."""
        request = exchange.request
        if request is None or not request.items or not request.model:
            return None
        if is_native(request):
            exchange.mode = "observe"
        try:
            return await response.waiting_for(self._take(exchange, request, headers))
        except ClewError as problem:
            fall_back(exchange, problem)
        if exchange.mode != "compact":
            return None
        # What was folded stays folded, also while the store is away.
        known = self.conversations.project(self._key(exchange, request, headers), request.items)
        exchange.is_folded = known is not None
        return known

    async def fold_for_handle(
        self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]
    ) -> HistoryHandle:
        """Fold the conversation of a request now, and give a handle that stands for it."""
        await self._take(exchange, request, headers)
        conversation, opened = exchange.conversation, exchange.opened
        assert conversation is not None and opened is not None
        async with opened.lock:
            ready = await self._handoffs.ready(conversation)
            if ready is None or not await conversation.use_prepared(ready, conversation.size.tokens):
                await conversation.compact_now()
            return HistoryHandle(conversation.session, conversation.view.next_seq)

    async def count(
        self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]
    ) -> Sequence[bytes] | None:
        """The items that would be sent for a request that is only counted; None where the client's bytes go on."""
        return await self.conversations.project_for_count(self._key(exchange, request, headers), request)

    async def make_smaller(
        self, exchange: GatewayExchange, fault: ErrorClass, words: str, response: ClientResponse
    ) -> Sequence[bytes] | None:
        """The items to send after a refusal, or None for the client's bytes; `CannotShrink` where it is to pass."""
        request, opened, conversation = exchange.request, exchange.opened, exchange.conversation
        recovery = exchange.recovery
        if request is None or opened is None or conversation is None or recovery is None:
            raise CannotShrink
        if refuses_thinking(words) and not exchange.drops_all_thinking:
            # An undo may have changed what stands before thoughts since the fold: then those go as well.
            exchange.drops_all_thinking = exchange.drops_thinking or self._binds(exchange, request)
            exchange.drops_thinking = True
            self._binding.add((exchange.caller.owner, request.model))
        elif not await response.waiting_for(recovery.make_smaller(fault)):
            raise CannotShrink
        if fault.kind == "output_cap_too_large" and (fault.limit or fault.output_cap):
            if len(self._output_limits) >= _MAX_OUTPUT_LIMITS:
                self._output_limits.clear()
            self._output_limits[exchange.caller.owner, request.model] = (fault.limit, fault.output_cap)
        async with opened.lock:
            return await self._shown(exchange, request, opened, conversation)

    # -- one request ---------------------------------------------------------------------------------------------------

    async def _take(
        self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]
    ) -> Sequence[bytes] | None:
        whole = await without_handle(request, self._runtime.store, exchange.caller.owner)
        is_expanded, request = whole is not request, whole
        exchange.request = request
        async with self.conversations.matched(self._key(exchange, request, headers), request) as matched:
            exchange.opened = opened = matched.opened
            opened.waiting += 1  # until the exchange ends
            target = self._target_of(exchange, request, headers)
            exchange.conversation = conversation = await opened.take(request, matched, target)
            self._watch_writing(exchange, conversation.writing)
            exchange.taken = opened.view.taken
            if exchange.mode == "observe":
                return None
            if exchange.mode == "spill":
                await bound_newest(conversation)
            else:
                await self._fold_if_due(exchange, request, conversation)
                self._lower_output(exchange, conversation)
            shown = await self._shown(exchange, request, opened, conversation)
            return list(request.items) if shown is None and is_expanded else shown

    def _target_of(self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]) -> ModelTarget:
        """The model of a request, with the window that its headers ask for."""
        target = self._target(request.model, exchange.path.kind)
        betas = headers.get("anthropic-beta", "").encode() + request.body.field(
            "anthropic_beta"
        )  # Bedrock: in the body
        if LONG_WINDOW_BETA.encode() in betas and target.endpoint is None:
            target = replace(target, endpoint={"context_length": LONG_WINDOW})
        return replace(target, max_tokens=request.max_output, account=exchange.caller.owner)

    def _lower_output(self, exchange: GatewayExchange, conversation: Conversation) -> None:
        """Ask for less output at once, where the upstream has refused as much before."""
        recovery = exchange.recovery
        known = self._output_limits.get((exchange.caller.owner, conversation.target.model))
        if recovery is None or recovery.max_tokens is None or known is None:
            return
        window, most = known
        prompt = conversation.size.tokens
        room = recovery.max_tokens if window is None else window - prompt - max(_LEAST_MARGIN, prompt // 32)
        cap = min(recovery.max_tokens, room, most or room)
        if _LEAST_OUTPUT <= cap < recovery.max_tokens:
            recovery.max_tokens = cap

    def _watch_writing(self, exchange: GatewayExchange, writing: asyncio.Task[None] | None) -> None:
        """Tell where what came could not be kept; it comes again with the next request."""
        if writing is None:
            return

        def tell(written: asyncio.Task[None]) -> None:
            problem = None if written.cancelled() else written.exception()
            if problem is not None:
                exchange.is_fallback = True
                _log.error("a request could not be kept: %s", where_it_failed(problem))

        exchange.writing = writing
        writing.add_done_callback(tell)

    async def _fold_if_due(self, exchange: GatewayExchange, request: WireRequest, conversation: Conversation) -> None:
        """Fold where the window is nearly full, and that is worth it. Real usage of the last turn counts first.

        Where a model writes handoffs, one that is ready is used, and none is waited for. Below the threshold that may
        be too: behind a finished task, and where the provider's cache has expired, so that all would be read anew.
        """
        options = TurnOptions(tools=request.tools, prompt=request.prompt)
        exchange.recovery = Recovery(conversation, options, request.max_output)
        tokens, window = conversation.measure(options), conversation.window.tokens
        if len(conversation.messages) < FEWEST_MESSAGES and tokens < window:
            return
        is_due = conversation.is_due(tokens)
        is_by_model = self._handoffs.is_by_model(exchange, conversation)
        must = tokens + (conversation.model.max_output or 0) >= MUST_FOLD * window
        turns = sum(message["role"] == "assistant" for message in conversation.messages)
        if is_due and not must and not pays_back(tokens, turns, request.model, conversation.target.served_by):
            _log.info(_WAITS, tokens, window, 100 * MUST_FOLD, "at the prices of its model a fold does not pay yet")
            return
        if not is_by_model:
            if conversation.preparer.task is not None and conversation.preparer.asks_model:
                await conversation.drop_prepared()
            await conversation.fit(options)
        if not is_due:
            await self._fold_early(exchange, request, conversation, tokens)
            return
        if is_by_model:
            ready = await self._handoffs.ready(conversation)
            is_used = ready is not None and await conversation.use_prepared(ready, tokens)
            if must and not is_used:
                await conversation.compact_at_once(tokens)
            elif not is_used:
                _log.info(_WAITS, tokens, window, 100 * MUST_FOLD, "its model is still writing the handoff")

    async def _fold_early(
        self, exchange: GatewayExchange, request: WireRequest, conversation: Conversation, tokens: int
    ) -> None:
        """Fold a request below the threshold where its handoff costs nothing more, and it pays."""
        threshold, opened = conversation.engine.threshold_tokens, exchange.opened
        if not conversation.may_fold_early(tokens):
            return
        is_by_model = self._handoffs.is_by_model(exchange, conversation)
        is_cold = (
            COLD_AT * threshold <= tokens < threshold
            and cold_fold_pays(tokens, conversation.target)
            and await self._handoffs.is_cold(conversation, request.wire.cache_ttl(request.body.raw))
        )
        if is_cold and not is_by_model:
            await conversation.compact_at_once(tokens, "cold")
        elif is_cold and (ready := await self._handoffs.ready(conversation)):
            await conversation.use_prepared(ready, tokens, "cold")
        elif opened is not None and opened.has_finished_task:
            # Once only: in the middle of the next task a fold waits for the threshold.
            opened.has_finished_task = False
            if is_by_model and (ready := await self._handoffs.ready(conversation)):
                await conversation.use_prepared(ready, tokens, "finished")

    async def _shown(
        self, exchange: GatewayExchange, request: WireRequest, opened: OpenConversation, conversation: Conversation
    ) -> Sequence[bytes] | None:
        """What goes on for the view as it is now; the caller holds the lock."""
        before = None
        if request.wire.dialect == "anthropic" and (exchange.drops_thinking or self._binds(exchange, request)):
            before = await opened.first_item_since_fold(conversation)
            if exchange.drops_all_thinking or (before is None and exchange.drops_thinking):
                before = len(request.items)
        items = opened.show(conversation, request.items, without_thinking, before or 0)
        exchange.shown = (conversation.view.stored, len(conversation.messages))
        exchange.is_folded = items is not None
        exchange.taken = opened.view.taken
        return items

    def _binds(self, exchange: GatewayExchange, request: WireRequest) -> bool:
        return (exchange.caller.owner, request.model) in self._binding or binds_thinking(request.model)

    def _key(self, exchange: GatewayExchange, request: WireRequest, headers: Mapping[str, str]) -> ConversationKey:
        joined = headers.get(SESSION_HEADER, "").strip()[:MAX_NAME_CHARS]
        named = joined or session_named(exchange.client, headers, request.body)
        has_tools = request.has_tools or is_compaction_request(headers) or asks_for_handle(request)
        lineage = lineage_of(request, named, has_tools=has_tools, is_joined=bool(joined))
        return ConversationKey(exchange.caller.owner, lineage.name, lineage.tree)


class CannotShrink(Exception):  # noqa: N818 (reads as what it says)
    """A request that was refused cannot be made smaller, or is no conversation: the refusal passes to the client."""


async def or_fall_back(exchange: GatewayExchange, work: Awaitable[_Value]) -> _Value | None:
    """The result of what is done before the upstream is asked; None where it fails, and the client's bytes go on."""
    try:
        return await work
    except Exception as problem:
        # The outermost door: the client's request comes first, whatever is wrong here.
        fall_back(exchange, problem)
        return None


def fall_back(exchange: GatewayExchange, problem: Exception) -> None:
    """Let the client's bytes go on, since something failed; told by its place, since its words may quote a message."""
    exchange.is_fallback, exchange.conversation = True, None
    _log.error("a request passes as it came: %s", where_it_failed(problem))
