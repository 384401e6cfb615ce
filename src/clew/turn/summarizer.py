"""The summariser of a conversation: a provider's model that writes handoffs, and a list of what that took.

Whatever goes wrong with a call is translated for the policy of the summaries room, which then falls back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from clew.errors import SummaryFailed
from clew.messages import Message, text_of
from clew.providers import Provider, ProviderRefused, Reply, Request
from clew.store import AUXILIARY, ModelCall
from clew.summaries import Cooldowns, ModelSummarizer, Story, Summarize, Summary, SummaryModel
from clew.tokens import Window, counter_for
from clew.turn.costs import call_of
from clew.turn.target import Target

OnCall = Callable[[ModelCall], None]


def summarizer_for(
    targets: Callable[[], Sequence[tuple[Target, Window]]],
    cooldowns: Cooldowns,
    on_call: OnCall,
    sleep: Callable[[float], Awaitable[None]],
) -> Summarize:
    """Writes with the first of the targets that can. They are asked for anew each time: windows are learnt."""

    async def summarize(story: Story, budget: int) -> Summary:
        models = [_model(target, window, on_call) for target, window in targets()]
        count = counter_for(targets()[0][0].model).text
        return await ModelSummarizer(models, count, cooldowns, sleep=sleep)(story, budget)

    return summarize


def summary_model_of(
    provider: Provider,
    model: str,
    context_length: int,
    *,
    max_output: int | None = None,
    on_reply: Callable[[Reply], None] | None = None,
) -> SummaryModel:
    """A provider's model as one that writes summaries; `on_reply` sees each reply, for its usage."""

    async def complete(prompt: str, max_tokens: int) -> str:
        try:
            asked: list[Message] = [{"role": "user", "content": prompt}]
            # The summaries room has its own patience, and the built-in to fall back on.
            reply = await provider.send(Request(model, asked, max_tokens=max_tokens, is_tried_once=True))
        except ProviderRefused as refused:
            fault = refused.fault
            raise SummaryFailed(
                str(refused),
                kind=fault.kind,
                retry_after=fault.retry_after,
                limit=fault.limit,
                available_output=fault.available_output,
                partial=text_of(refused.partial) if refused.partial else "",
            ) from refused
        if on_reply is not None:
            on_reply(reply)
        text = text_of(reply.message)
        if reply.finish == "length":
            raise SummaryFailed(f"the reply stopped at {max_tokens:,} tokens", kind="cut", partial=text)
        return text

    return SummaryModel(model, complete, context_length, max_output)


def _model(target: Target, window: Window, on_call: OnCall) -> SummaryModel:
    def record(reply: Reply) -> None:
        if reply.usage is not None:
            on_call(call_of(reply.usage, target, AUXILIARY))

    return summary_model_of(target.provider, target.model, window.tokens, max_output=window.max_output, on_reply=record)
