"""Values of hosted conversations as the JSON that `openapi` describes, and streams of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from aiohttp import web

from clew.engines import Fate
from clew.gateway.bodies import write_json
from clew.gateway.hosted import FoundConversation, HostedAnswer, HostedCompaction
from clew.gateway.problems import Problem
from clew.gateway.relay import PING_SECONDS
from clew.store import CommittedCompaction, StoredMessage, UsageTotal
from clew.turn import Conversation, FoundMessage, OpenedPage, Pin, context_parts
from clew.usage import CanonicalUsage

MICROS_PER_DOLLAR = 1_000_000
KEEP_ALIVE = b": keep-alive\n\n"
_EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Value = TypeVar("_Value")


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=write_json(value), status=status, content_type="application/json", headers=headers)


def refusal_answer(problem: Problem) -> web.Response:
    return json_answer(problem.as_plain(), problem.status, problem.headers)


# -- values ------------------------------------------------------------------------------------------------------------


def plain_conversation(found: FoundConversation) -> dict[str, Any]:
    first, newest = found.first, found.newest
    return {
        "id": found.id,
        "title": newest.title,
        "model": newest.model,
        "source": first.source,
        "created": first.created.isoformat(),
        "branch_of": first.parent_session_id if first.kind == "branch" else None,
        "session": newest.id,
    }


def plain_message(row: StoredMessage) -> dict[str, Any]:
    return {"seq": row.seq, "at": row.at.isoformat(), "tokens": row.tokens, "message": row.message}


def plain_usage(usage: CanonicalUsage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.total_tokens,
    }


def plain_answer(answer: HostedAnswer) -> dict[str, Any]:
    return {
        "conversation": answer.conversation,
        "seq": answer.seq,
        "role": "assistant",
        "content": answer.content,
        "model": answer.model,
        "finish": answer.finish,
        "usage": None if answer.usage is None else plain_usage(answer.usage),
        "cost_usd": None if answer.cost_micros is None else answer.cost_micros / MICROS_PER_DOLLAR,
        "is_repeated": answer.is_repeated,
    }


def plain_result(done: HostedCompaction) -> dict[str, Any]:
    compaction = done.compaction
    fates = compaction.fates
    return {
        "conversation": done.conversation,
        "is_changed": compaction.changed,
        "is_applied": done.is_applied,
        "preview": done.preview,
        "tokens_before": compaction.tokens_before,
        "tokens_after": compaction.tokens_after,
        "folded": fates.count(Fate.SUMMARISED),
        "shortened": fates.count(Fate.PRUNED),
        "removed": fates.count(Fate.REMOVED),
        "written_by": compaction.written_by,
        "focus": done.focus,
        "handoff": compaction.summary,
        "handoff_sections": None if (handoff := compaction.read_handoff()) is None else handoff.as_json(),
        "unverified": compaction.unverified,
        "warnings": compaction.warnings,
    }


def plain_compaction(made: CommittedCompaction) -> dict[str, Any]:
    entry, replaced = made.entry, made.entry.replaced
    return {
        "at": made.at.isoformat(),
        "is_in_effect": made.is_in_effect,
        "tokens_before": entry.tokens_before,
        "tokens_after": entry.tokens_after,
        "written_by": entry.written_by,
        "focus": entry.focus_topic,
        "first": replaced[0].start if replaced else 0,
        "stop": replaced[-1].stop if replaced else 0,
    }


def plain_context(id: str, conversation: Conversation) -> dict[str, Any]:
    """What fills the window; the tools are those of the context engine alone."""
    conversation.tools_with(())
    status = conversation.engine.get_status()
    is_on = conversation.services.options.settings.compression.enabled
    return {
        "conversation": id,
        "model": conversation.target.model,
        "tokens": conversation.size.tokens,
        "window": conversation.window.tokens,
        "threshold": status.threshold_tokens if is_on else None,
        "paused": status.paused,
        "last_prompt_tokens": conversation.view.last_prompt_tokens,
        "parts": [
            {"name": part.name, "tokens": part.tokens, "messages": part.messages}
            for part in context_parts(conversation)
        ],
    }


def plain_pins(pins: Sequence[Pin]) -> dict[str, Any]:
    return {"pins": [{"number": at, "label": pin.label, "text": pin.text} for at, pin in enumerate(pins, 1)]}


def plain_found(found: FoundMessage, conversation: str | None) -> dict[str, Any]:
    hit = found.hit
    return {
        "conversation": conversation,
        "title": hit.title,
        "kind": hit.kind,
        "seq": hit.seq,
        "role": hit.role,
        "at": hit.at.isoformat(),
        "score": hit.score,
        "snippet": hit.snippet.text,
        "marks": hit.snippet.marks,
        "excerpts": [it.text for it in hit.excerpts or (hit.snippet,)],
        "call": found.call.number if found.call else None,
        "results": [link.number for link in found.results],
        "same_in": sorted(hit.copies),
    }


def plain_opened(page: OpenedPage) -> dict[str, Any]:
    messages = [
        {
            "seq": it.number,
            "role": it.role,
            "at": it.at.isoformat(),
            "chars": len(it.text),
            "parts": [{"start": part.start, "text": it.text[part.start : part.stop]} for part in it.parts],
            "call": it.call.number if it.call else None,
            "results": [link.number for link in it.results],
        }
        for it in page.messages
    ]
    return {"messages": messages, "next": page.next or None}


def plain_total(total: UsageTotal, group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "group": group,
        "calls": total.calls,
        "usage": plain_usage(total.usage),
        "cost_usd": total.cost_micros / MICROS_PER_DOLLAR,
        "calls_of_unknown_cost": total.calls_of_unknown_cost,
    }


def date_of_day(number: int) -> str:
    """A day by its number since 1970."""
    return (_EPOCH + timedelta(days=number)).date().isoformat()


# -- streams -----------------------------------------------------------------------------------------------------------


async def begin_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers=_EVENT_STREAM)
    await response.prepare(request)
    return response


async def tell(response: web.StreamResponse, name: str, value: Any) -> None:
    """Send an event."""
    await response.write(b"event: " + name.encode() + b"\ndata: " + write_json(value) + b"\n\n")


async def next_of(values: asyncio.Queue[_Value], response: web.StreamResponse) -> _Value:
    """The next value; while it is waited for, signs of life go out."""
    while True:
        try:
            async with asyncio.timeout(PING_SECONDS):
                return await values.get()
        except TimeoutError:
            await response.write(KEEP_ALIVE)


async def send_lines(
    request: web.Request, headers: Mapping[str, str], lines: AsyncIterator[bytes]
) -> web.StreamResponse:
    """Lines of JSON as they are made."""
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", **headers})
    await response.prepare(request)
    async for line in lines:
        await response.write(line)
    await response.write_eof()
    return response
