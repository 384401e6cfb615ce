"""The models that write the summaries of a conversation, in the order in which they are tried, and their requests.

The main model is asked at the end of the conversation: the request begins with the bytes of the last one, so that its
provider reads them from the cache. Every other model gets a separate request, with the conversation as text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from clew.errors import SummaryFailed
from clew.events import SummaryReplied
from clew.handoff import Complete, ConversationExtension, SummaryInput, SummaryModel
from clew.messages import Message, text_of
from clew.providers import Reply
from clew.store import AUXILIARY
from clew.tokens import window_of
from clew.turn.conversation import Conversation
from clew.turn.request import ModelTarget, ServingModel, call_of, summary_model_of, summary_text
from clew.usage import CanonicalUsage, cost_of, normalize_usage

_INSTRUCTION_TOKENS = 1_500


def summary_models(conversation: Conversation, source: SummaryInput, budget: int) -> list[SummaryModel]:
    """The models that may write a summary of this conversation now, in order; empty if none may.

    The model that is configured for summaries, then the main one; the main one first if it is known to be cheaper,
    because the provider has the conversation in its cache.
    """
    if not conversation.preparer.asks_model:
        return []
    own, may_ask_main = _auxiliary(conversation), _may_ask_main(conversation)
    if own is None:
        return [_asked_in_conversation(conversation)] if may_ask_main else []
    if not may_ask_main:
        return [_asked_with_text(conversation, own)]
    if conversation.host_calls is None and not _is_cached(conversation):
        return [_asked_with_text(conversation, own), _asked_with_text(conversation, conversation.model)]
    writing = [_asked_with_text(conversation, own), _asked_in_conversation(conversation)]
    if writing[1].extension is not None and _main_is_cheaper(conversation, own, source, budget):
        writing.reverse()
    return writing


def question_model(conversation: Conversation) -> SummaryModel:
    """The model that answers questions about folded messages: the one for summaries, else the main one."""
    own = _auxiliary(conversation)
    if own is None and (conversation.target.provider is None or not _may_ask_main(conversation)):
        raise SummaryFailed("no model may be asked here", kind="auth")
    return _asked_with_text(conversation, own or conversation.model)


def _may_ask_main(conversation: Conversation) -> bool:
    """Whether the main model may be asked for more than the turns of its conversation."""
    if conversation.target.provider is None:
        return conversation.host_calls is not None
    return conversation.services.options.main_summarizes()


def _auxiliary(conversation: Conversation) -> ServingModel | None:
    """The model that is configured for summaries; None if it is the main one."""
    options, main = conversation.services.options, conversation.target
    own = options.auxiliary
    if own is None or (own.model, own.base_url, own.served_by) == (main.model, main.base_url, main.served_by):
        return None
    window = window_of(
        own.model,
        base_url=own.base_url,
        configured=own.context_length,
        learnt=options.learnt,
        endpoint=own.endpoint,
    )
    return ServingModel(own, window)


def _asked_with_text(conversation: Conversation, model: ServingModel) -> SummaryModel:
    target, window = model.target, model.window
    on_reply = _recorder(conversation, target, extends=False)
    return summary_model_of(target.sender, target.model, window.tokens, max_output=window.max_output, on_reply=on_reply)


def _recorder(conversation: Conversation, target: ModelTarget, *, extends: bool) -> Callable[[Reply], None]:
    """A callback that records the usage of each reply with the conversation, and emits it."""
    services = conversation.services
    ttl = services.cache_policy(target).ttl if extends else "5m"

    def record(reply: Reply) -> None:
        usage = normalize_usage(reply.usage or CanonicalUsage())
        call = call_of(usage, target, AUXILIARY, ttl)
        if reply.usage is not None:
            conversation.pending_calls.append(call)
        services.tell(
            SummaryReplied(
                conversation.session,
                target.model,
                extends,
                usage.prompt_tokens,
                usage.output_tokens,
                usage.cache_read_tokens,
                None if reply.usage is None else call.cost_micros,
            )
        )

    return record


def _asked_in_conversation(conversation: Conversation) -> SummaryModel:
    model, extension = conversation.model, _extension(conversation)
    if conversation.host_calls is None:
        return replace(_asked_with_text(conversation, model), extension=extension)

    async def refuse(prompt: str, max_tokens: int) -> str:
        # A host sends the requests of its clients and extensions of these, but no conversation as text.
        del prompt, max_tokens
        raise SummaryFailed("it is asked at the end of its conversation only", kind="window_too_small")

    return SummaryModel(model.target.model, refuse, model.window.tokens, model.window.max_output, extension)


def _extension(conversation: Conversation) -> ConversationExtension | None:
    """The extension of the current conversation by a request for a summary; None if it cannot be used."""
    view, settings = conversation.view, conversation.services.options.settings
    is_refused = conversation.preparer.reason == "overflow"
    # Without the tools, which the first turn brings, the request would begin with other bytes.
    if view.tools is None or is_refused or not settings.prompt_caching.extend_for_summaries:
        return None
    shown, complete = view.open_group(), _completion(conversation)
    if (calls := conversation.host_calls) is not None:
        # The host extends its newest request: calls that wait for results cannot be its end.
        if calls.view is not view.stored or shown < calls.shown:
            return None
        shown = calls.shown
    prompt = view.system_message(as_block=False)
    left_out = sum(conversation.size.counts[shown:])
    return ConversationExtension(
        complete,
        conversation.size.tokens - left_out,
        frozenset(seq for seq in view.seqs[:shown] if seq is not None),
        (text_of(prompt),) if prompt else (),
        is_only_way=calls is not None,
    )


def _completion(conversation: Conversation) -> Complete:
    """The call that asks the main model at the end of the current conversation."""
    target, calls = conversation.target, conversation.host_calls
    on_reply = _recorder(conversation, target, extends=True)
    if calls is not None:

        async def complete_by_host(instruction: str, max_tokens: int) -> str:
            return await summary_text(calls.in_conversation(instruction, max_tokens), max_tokens, on_reply)

        return complete_by_host
    base = conversation.request_so_far()

    async def complete(instruction: str, max_tokens: int) -> str:
        asked: Message = {"role": "user", "content": instruction}
        cap = max(target.max_tokens or 0, max_tokens + _thinking_budget(target.extra))
        # Nothing else differs from the last request: another `tool_choice`, or another setting of thinking, would miss
        # the cache.
        request = replace(base, messages=[*base.messages, asked], max_tokens=cap, is_single_attempt=True)
        return await summary_text(target.sender.send(request), cap, on_reply)

    return complete


def _thinking_budget(extra: Any) -> int:
    """The thinking budget of the target, which counts as output on Anthropic's wire."""
    thinking = extra.get("thinking")
    tokens = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    return tokens if isinstance(tokens, int) else 0


def _is_cached(conversation: Conversation) -> bool:
    """Whether the provider still has the conversation in its cache."""
    left = conversation.cache_seconds_left
    return left is not None and left > 0


def _main_is_cheaper(conversation: Conversation, own: ServingModel, source: SummaryInput, budget: int) -> bool:
    """Whether the main model would cost less with its cache than the configured one with a text.

    False also if a price is not known, since the configured model is preferred.
    """
    view, folded = conversation.view, range(source.first, source.last)
    text = sum(count for seq, count in zip(view.seqs, view.size.counts, strict=True) if seq in folded)
    cached = CanonicalUsage(_INSTRUCTION_TOKENS, budget, cache_read_tokens=view.size.tokens)
    extended = _price(cached, conversation.target)
    apart = _price(CanonicalUsage(_INSTRUCTION_TOKENS + text, budget), own.target)
    return extended is not None and apart is not None and extended < apart


def _price(usage: CanonicalUsage, target: ModelTarget) -> float | None:
    cost = cost_of(usage, target.model, target.served_by or None)
    return None if cost is None else float(cost.total)
