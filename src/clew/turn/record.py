"""The reply into the history, with what it took, in one transaction; the real figure to whoever counts.

Nothing is compacted here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from clew.events import Replied
from clew.messages import Message, ToolCall, calls_of, repair
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
    message = _with_ids_apart(reply.message)
    whole = repair([message], open_end=True)
    kept = whole.messages[0] if whole.repairs and whole.messages else message
    return reply if kept is reply.message else replace(reply, message=kept)


def _with_ids_apart(message: Message) -> Message:
    """Some servers give all calls of a reply one id. Each was meant: a repair would keep the first alone."""
    calls = calls_of(message)
    if not all(isinstance(call, dict) and isinstance(call.get("id"), str) for call in calls):
        return message  # broken in another way, which the repair knows
    taken: set[str] = set()
    apart: list[ToolCall] = []
    for number, call in enumerate(calls):
        own = call if call["id"] not in taken else {**call, "id": f"{call['id']}-{number}"}
        taken.add(own["id"])
        apart.append(own)
    return message if apart == list(calls) else {**message, "tool_calls": apart}
