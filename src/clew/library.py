"""The library door: `clew.compress`. The one synchronous call; decodes, runs the engine, encodes.

No policy here: what is kept and what is folded is the engine's business, how a wire is spelt the dialect's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from clew.config import CompressionSettings
from clew.engines import (
    Budgets,
    Compaction,
    ContextCompressor,
    Fate,
    Preview,
    budgets_for,
    budgets_for_target,
    repairs_told,
)
from clew.errors import InvalidArgument
from clew.messages import Conversation, read_conversation, repair
from clew.tokens import counter_for, window_of

if TYPE_CHECKING:
    from clew.summaries import SummaryModel

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Compressed:
    """A conversation that was made shorter, in the dialect it came in, and the account of how."""

    messages: Any
    system: Any
    """The system prompt that stood beside the messages, where it did."""
    summary: str | None
    changed: bool
    tokens_before: int
    tokens_after: int
    warnings: tuple[str, ...]
    compaction: Compaction
    conversation: Conversation

    @property
    def fates(self) -> tuple[Fate, ...]:
        """What became of each message, in the order of `conversation.messages`."""
        return self.compaction.fates


def compress(
    messages: Any,
    *,
    context_length: int | None = None,
    target_tokens: int | None = None,
    focus_topic: str | None = None,
    summarizer: Callable[..., Any] | SummaryModel | None = None,
    system: Any = None,
    tools: Sequence[Any] | None = None,
    model: str | None = None,
    settings: CompressionSettings | None = None,
) -> Compressed:
    """Fold a long conversation into a short one that still says what matters.

    `messages` are OpenAI chat, Anthropic or Responses messages, a whole request that holds them, or a `Conversation`
    that was read before; the result is in the same dialect. With `target_tokens` the result has at most about so many
    tokens in all; with `context_length` it is what Clew would make for a window of that size. Without a `summarizer`
    (a callable that takes a prompt and returns text, or a `SummaryModel`) the built-in one writes the handoff: no key,
    no network.
    """
    _refuse_both(context_length, target_tokens)
    conversation = _conversation(messages, system, tools)
    beside = _tokens_beside(conversation, model)
    engine = ContextCompressor(
        model=model,
        settings=settings,
        budgets=_budgets(context_length, target_tokens, beside, model, settings or CompressionSettings()),
        summarize=_summarize_with(summarizer, model) if summarizer else None,
        system_as_blocks=conversation.dialect == "anthropic",
    )
    compaction = _run(_compact(engine, conversation, beside, target_tokens, focus_topic))
    if not compaction.changed:
        compaction = _repaired(engine, conversation, compaction)
    return Compressed(
        messages=_written(messages, conversation, compaction),
        system=conversation.write_system(compaction.messages),
        summary=compaction.summary,
        changed=compaction.changed,
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        warnings=(*compaction.warnings, *_missed(target_tokens, compaction, engine, beside)),
        compaction=compaction,
        conversation=conversation,
    )


def preview(
    messages: Any,
    *,
    context_length: int | None = None,
    target_tokens: int | None = None,
    system: Any = None,
    tools: Sequence[Any] | None = None,
    model: str | None = None,
    settings: CompressionSettings | None = None,
) -> Preview:
    """What `compress` would do with each message, without doing it: no summary is written and no model asked."""
    _refuse_both(context_length, target_tokens)
    conversation = _conversation(messages, system, tools)
    beside = _tokens_beside(conversation, model)
    budgets = _budgets(context_length, target_tokens, beside, model, settings or CompressionSettings())
    engine = ContextCompressor(model=model, settings=settings, budgets=budgets)
    size = engine.size_of(conversation.messages) + beside
    if target_tokens is not None and size <= target_tokens:
        # It fits as it is, and `compress` would leave it alone: so large a tail takes everything.
        engine = ContextCompressor(model=model, budgets=replace(budgets, tail=2 * size))
    return engine.preview(conversation.messages, size)


def _refuse_both(context_length: int | None, target_tokens: int | None) -> None:
    if target_tokens is not None and context_length is not None:
        raise InvalidArgument(
            f"context_length={context_length} and target_tokens={target_tokens}: both say how short; give one of them"
        )


def _conversation(messages: Any, system: Any, tools: Sequence[Any] | None) -> Conversation:
    if isinstance(messages, Conversation):
        return messages
    return read_conversation(messages, system=system, tools=tools)


def _tokens_beside(conversation: Conversation, model: str | None) -> int:
    """What a request takes beside its messages."""
    counter = counter_for(model)
    return counter.tools(conversation.tools) + counter.request


def _written(messages: Any, conversation: Conversation, compaction: Compaction) -> Any:
    if compaction.changed:
        return conversation.write(compaction.messages)
    return conversation.write() if messages is conversation else messages


def _budgets(
    context_length: int | None, target: int | None, beside: int, model: str | None, settings: CompressionSettings
) -> Budgets:
    if target is not None:
        try:
            return budgets_for_target(target - beside, settings)
        except InvalidArgument as error:
            why = f": tools and framing alone take {beside:,} tokens" if beside > 100 else ""
            raise InvalidArgument(f"target_tokens={target} is too small{why}; use at least {beside + 500:,}") from error
    window = window_of(model, configured=context_length)
    return budgets_for(window.tokens, settings)


async def _compact(
    engine: ContextCompressor, conversation: Conversation, beside: int, target: int | None, focus: str | None
) -> Compaction:
    size = engine.size_of(conversation.messages) + beside
    if target is not None and size <= target:
        return Compaction.nothing(conversation.messages, size)
    return await engine.compress(conversation.messages, size, focus)


def _repaired(engine: ContextCompressor, conversation: Conversation, unchanged: Compaction) -> Compaction:
    """A broken conversation that needs no folding is mended all the same, unless that would make it larger."""
    whole = repair(conversation.messages, open_end=True)
    if not whole.repairs:
        return unchanged
    after = unchanged.tokens_after + engine.size_of(whole.messages) - engine.size_of(conversation.messages)
    if after > unchanged.tokens_before:
        told = repairs_told(whole.repairs, "The history is broken, and left so since a repair would make it larger")
        return replace(unchanged, warnings=(*unchanged.warnings, *told))
    warnings = (*unchanged.warnings, *repairs_told(whole.repairs))
    fates = [Fate.REMOVED] * len(conversation.messages)
    for index in whole.indexes:
        fates[index] = Fate.KEPT
    return Compaction(whole.messages, True, unchanged.tokens_before, after, fates=tuple(fates), warnings=warnings)


def _missed(target: int | None, compaction: Compaction, engine: ContextCompressor, beside: int) -> tuple[str, ...]:
    if target is None or compaction.tokens_after <= target:
        return ()
    prompts = engine.size_of([message for message in compaction.messages if message["role"] in ("system", "developer")])
    return (
        f"target_tokens={target:,} was not reached, the result has {compaction.tokens_after:,} tokens: the system "
        f"prompt takes {prompts:,} and the tools {beside:,}, which no compaction makes smaller, and the newest "
        "messages stay. Give a larger target.",
    )


def _summarize_with(summarizer: Callable[..., Any] | SummaryModel, model: str | None) -> Any:
    from clew.summaries import SummaryModel, model_summarizer, summary_model

    writer = summarizer if isinstance(summarizer, SummaryModel) else summary_model(summarizer)
    return model_summarizer([writer], count=counter_for(model).text)


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run to the end from synchronous code, also where an event loop is already running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
