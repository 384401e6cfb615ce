"""The reply into the history, with what it took, in one transaction; the real figure to whoever counts.

Nothing is compacted here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from clew.events import Replied
from clew.messages import repair
from clew.providers import Reply
from clew.store import View
from clew.turn.build import Ask, cache_policy
from clew.turn.costs import call_of
from clew.turn.intake import append
from clew.turn.live import LiveConversation
from clew.turn.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Sent:
    """A reply, and what the request for it showed."""

    reply: Reply
    view: View
    """As it was when the request went out: a compaction since then makes its size say nothing of the next one's."""
    messages: int


async def record(runtime: Runtime, live: LiveConversation, ask: Ask, sent: Sent) -> Reply:
    """Keep the reply to what was sent; the reply as it was kept."""
    reply = _sound(sent.reply)
    ttl = cache_policy(runtime, live.target).ttl
    usage = reply.usage
    call = None if usage is None else call_of(usage, live.target, runtime.host.source, ttl)
    await append(runtime, live, [reply.message], call)
    if usage is None or call is None:
        live.last_prompt_tokens = 0
        return reply
    if live.view is sent.view:
        live.size.observe(usage.prompt_tokens - sum(live.count(ask.inject)), sent.messages)
        live.last_prompt_tokens = usage.prompt_tokens
        live.engine.update_from_response(usage)
    runtime.tell(
        Replied(
            live.session,
            reply.model,
            usage.prompt_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            call.cost_micros,
        )
    )
    return reply


def _sound(reply: Reply) -> Reply:
    """The reply, mended where no provider would take it back: without content, with calls that cannot be read."""
    whole = repair([reply.message], open_end=True)
    return replace(reply, message=whole.messages[0]) if whole.repairs and whole.messages else reply
