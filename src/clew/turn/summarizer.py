"""The summariser of a conversation: a provider's model that writes handoffs, and a list of what that took.

Whatever goes wrong with a call is translated for the policy of the summaries room, which then falls back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from clew.errors import SummaryFailed
from clew.messages import text_of
from clew.providers import ProviderRefused, Request
from clew.store import AUXILIARY, ModelCall
from clew.summaries import Cooldowns, ModelSummarizer, Story, Summarize, Summary, SummaryModel, summary_model
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


def _model(target: Target, window: Window, on_call: OnCall) -> SummaryModel:
    async def write(prompt: str, max_tokens: int) -> str:
        request = Request(target.model, [{"role": "user", "content": prompt}], max_tokens=max_tokens)
        try:
            reply = await target.provider.send(request)
        except ProviderRefused as refused:
            fault = refused.fault
            raise SummaryFailed(
                str(refused),
                kind=fault.kind,
                retry_after=fault.retry_after,
                limit=fault.limit,
                available_output=fault.available_output,
            ) from refused
        if reply.usage is not None:
            on_call(call_of(reply.usage, target, AUXILIARY))
        text = text_of(reply.message)
        if reply.finish == "length":
            raise SummaryFailed(f"the reply stopped at {max_tokens:,} tokens", kind="cut", partial=text)
        return text

    return summary_model(write, name=target.model, context_length=window.tokens, max_output=window.max_output)
