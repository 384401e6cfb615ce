"""One answer in the format of each of the four wires: as the events of a stream, and as one body.

Written after what real servers send, and independent of the code in `providers` that reads it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.messages import ToolCall
from clew.providers import FinishReason
from clew.usage import CanonicalUsage

CHAT, RESPONSES, MESSAGES, GEMINI = "chat/completions", "responses", "messages", "gemini"
"""The names of the wires: of three of them their paths below /v1."""

SIGNATURE = "signed-by-the-mock"
ENCRYPTED = "encrypted-by-the-mock"
THOUGHT_SIGNATURE = b64encode(SIGNATURE.encode()).decode()
"""Of Gemini's wire, which wants base64."""


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """An answer of the model, independent of the wire."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    finish: FinishReason | None = None
    """None: tool_calls where there are calls, else stop."""
    usage: CanonicalUsage | None = field(
        default_factory=lambda: CanonicalUsage(
            input_tokens=70, output_tokens=9, cache_read_tokens=30, reasoning_tokens=2
        )
    )
    model: str = "mock-model-2026"
    piece_chars: int = 6
    number: int = 0
    """Part of every id in it. It must differ between answers: real clients merge messages of the same id."""
    signature: str = SIGNATURE
    """The signature of the reasoning, on Anthropic's wire."""
    compaction: str = ""
    """A summary by the provider itself, as a compaction item or block in place of all else."""
    transformations: tuple[dict[str, Any], ...] = ()
    """Changes to the request before it was read, as Anthropic's wire reports them."""

    @property
    def ends(self) -> FinishReason:
        return self.finish or ("tool_calls" if self.calls else "stop")

    def pieces(self, text: str) -> list[str]:
        return [text[at : at + self.piece_chars] for at in range(0, len(text), self.piece_chars)]


Event = tuple[str, Any]
"""The name of an event, "" for none, and its data: JSON, or a text as it is."""


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def chat_events(answer: UpstreamAnswer, request: dict[str, Any]) -> Iterator[Event]:
    yield _chunk(answer, {"role": "assistant", "content": ""})
    for piece in answer.pieces(answer.reasoning):
        yield _chunk(answer, {"reasoning_content": piece})
    for piece in answer.pieces(answer.text):
        yield _chunk(answer, {"content": piece})
    for index, call in enumerate(answer.calls):
        named = {"name": call["function"]["name"], "arguments": ""}
        yield _chunk(
            answer, {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": named}]}
        )
        for piece in answer.pieces(call["function"]["arguments"]):
            yield _chunk(answer, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk(answer, {}, _chat_finish(answer))
    if (request.get("stream_options") or {}).get("include_usage") and answer.usage is not None:
        last: dict[str, Any] = {**_chat_head(answer, "chat.completion.chunk"), "choices": []}
        yield "", {**last, "usage": _chat_usage(answer.usage)}
    yield "", "[DONE]"


def chat_body(answer: UpstreamAnswer, request: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = list(answer.calls)
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _chat_finish(answer)}
    body = {**_chat_head(answer, "chat.completion"), "choices": [choice]}
    return body if answer.usage is None else {**body, "usage": _chat_usage(answer.usage)}


def _chunk(answer: UpstreamAnswer, delta: dict[str, Any], finish: str | None = None) -> Event:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return "", {**_chat_head(answer, "chat.completion.chunk"), "choices": [choice]}


def _chat_head(answer: UpstreamAnswer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-mock-{answer.number}", "object": kind, "created": 1_760_000_000, "model": answer.model}


def _chat_finish(answer: UpstreamAnswer) -> str:
    return {"refusal": "content_filter", "other": "unheard_of"}.get(answer.ends, answer.ends)


def _chat_usage(usage: CanonicalUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def anthropic_events(answer: UpstreamAnswer, request: dict[str, Any]) -> Iterator[Event]:
    usage = _anthropic_usage(answer.usage)
    head = {
        **anthropic_body(answer, request),
        "content": [],
        "stop_reason": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield _typed("message_start", message=head)
    yield _typed("ping")
    for index, block in enumerate(_anthropic_blocks(answer)):
        yield from _block_events(answer, index, block)
    delta = {"stop_reason": _anthropic_stop(answer), "stop_sequence": None}
    extra = {"input_transformations": list(answer.transformations)} if answer.transformations else {}
    yield _typed("message_delta", delta=delta, usage={"output_tokens": usage.get("output_tokens", 0)}, **extra)
    yield _typed("message_stop")


def anthropic_body(answer: UpstreamAnswer, request: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    return {
        "id": f"msg_mock_{answer.number}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": _anthropic_blocks(answer),
        "stop_reason": _anthropic_stop(answer),
        "stop_sequence": None,
        "usage": _anthropic_usage(answer.usage),
        **({"input_transformations": list(answer.transformations)} if answer.transformations else {}),
    }


def _block_events(answer: UpstreamAnswer, index: int, block: dict[str, Any]) -> Iterator[Event]:
    kind = block["type"]
    opened = {**block, "text": "", "thinking": "", "signature": "", "input": {}, "content": None}
    yield _typed("content_block_start", index=index, content_block={name: opened[name] for name in block})
    for piece in answer.pieces(block.get("thinking", "")):
        yield _typed("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": piece})
    if kind == "compaction":
        change = {"type": "compaction_delta", "content": block["content"]}
        yield _typed("content_block_delta", index=index, delta=change)
    if "signature" in block:
        signed = {"type": "signature_delta", "signature": block["signature"]}
        yield _typed("content_block_delta", index=index, delta=signed)
    for piece in answer.pieces(block.get("text", "")):
        yield _typed("content_block_delta", index=index, delta={"type": "text_delta", "text": piece})
    for piece in ["", *answer.pieces(as_json(block["input"]))] if kind == "tool_use" else ():
        written = {"type": "input_json_delta", "partial_json": piece}
        yield _typed("content_block_delta", index=index, delta=written)
    yield _typed("content_block_stop", index=index)


def _anthropic_blocks(answer: UpstreamAnswer) -> list[dict[str, Any]]:
    if answer.compaction:
        return [{"type": "compaction", "content": answer.compaction, "signature": answer.signature}]
    blocks: list[dict[str, Any]] = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.reasoning, "signature": answer.signature})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    for call in answer.calls:
        function = call["function"]
        given = json.loads(function["arguments"])
        blocks.append({"type": "tool_use", "id": call["id"], "name": function["name"], "input": given})
    return blocks


def _anthropic_stop(answer: UpstreamAnswer) -> str:
    if answer.compaction:
        return "compaction"
    stops = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "other": "pause_turn"}
    return stops.get(answer.ends, answer.ends)


def _anthropic_usage(usage: CanonicalUsage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


def _typed(kind: str, **fields: Any) -> Event:
    return kind, {"type": kind, **fields}


def responses_events(answer: UpstreamAnswer, request: dict[str, Any]) -> Iterator[Event]:
    body = responses_body(answer, request)
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    yield _typed("response.created", response=begun)
    yield _typed("response.in_progress", response=begun)
    for index, item in enumerate(body["output"]):
        yield from _item_events(answer, index, item)
    ended = "response.incomplete" if body["status"] == "incomplete" else "response.completed"
    yield _typed(ended, response=body)


def compacted_body(answer: UpstreamAnswer, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of `/responses/compact`: the user's messages and one compaction item."""
    given = request.get("input")
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
    kept = [_kept_by_compaction(item, at) for at, item in enumerate(listed) if item.get("role") == "user"]
    return {
        "id": f"cmp_resp_mock_{answer.number}",
        "object": "response.compaction",
        "created_at": 1_760_000_000,
        "output": [*kept, *_responses_items(answer, request)],
        "usage": _responses_usage(answer.usage),
    }


def _kept_by_compaction(item: Mapping[str, Any], at: int) -> dict[str, Any]:
    content = item.get("content")
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return {"id": f"msg_{at}", "type": "message", "status": "completed", **item, "content": parts}


def failed_events(message: str, code: str, request: dict[str, Any]) -> Iterator[Event]:
    """A stream of Responses that only says why there is no answer."""
    body = responses_body(UpstreamAnswer(usage=None), request)
    begun = {**body, "status": "in_progress", "output": []}
    yield _typed("response.created", response=begun)
    failed = {**body, "status": "failed", "output": [], "error": {"code": code, "message": message}}
    yield _typed("response.failed", response=failed)


def responses_body(answer: UpstreamAnswer, request: dict[str, Any]) -> dict[str, Any]:
    reason = {"length": "max_output_tokens", "refusal": "content_filter"}.get(answer.ends)
    return {
        "id": f"resp_mock_{answer.number}",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "model": answer.model,
        "output": _responses_items(answer, request),
        "usage": _responses_usage(answer.usage),
    }


def _item_events(answer: UpstreamAnswer, index: int, item: dict[str, Any]) -> Iterator[Event]:
    begun: dict[str, dict[str, Any]] = {"message": {"content": []}, "function_call": {"arguments": ""}}
    opened = {**item, "status": "in_progress", **begun.get(item["type"], {})}
    yield _typed("response.output_item.added", output_index=index, item=opened)
    if item["type"] == "reasoning":
        for piece in answer.pieces(item["summary"][0]["text"]):
            yield _typed(
                "response.reasoning_summary_text.delta",
                item_id=item["id"],
                output_index=index,
                summary_index=0,
                delta=piece,
            )
    elif item["type"] == "compaction":
        yield _typed("response.compaction.compacting", item_id=item["id"], output_index=index)
    elif item["type"] == "message":
        yield from _text_events(answer, index, item)
    else:
        for piece in answer.pieces(item["arguments"]):
            yield _typed("response.function_call_arguments.delta", item_id=item["id"], output_index=index, delta=piece)
    yield _typed("response.output_item.done", output_index=index, item=item)


def _text_events(answer: UpstreamAnswer, index: int, item: dict[str, Any]) -> Iterator[Event]:
    """A part of a message from its beginning to its end; the SDK puts the pieces together by the part."""
    (part,) = item["content"]
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    yield _typed("response.content_part.added", **place, part={**part, "text": ""})
    for piece in answer.pieces(part["text"]):
        yield _typed("response.output_text.delta", **place, delta=piece, logprobs=[])
    yield _typed("response.output_text.done", **place, text=part["text"], logprobs=[])
    yield _typed("response.content_part.done", **place, part=part)


def _responses_items(answer: UpstreamAnswer, request: dict[str, Any]) -> list[dict[str, Any]]:
    if answer.compaction:
        sealed = f"{ENCRYPTED}:{answer.compaction}"
        return [{"id": f"cmp_mock_{answer.number}", "type": "compaction", "encrypted_content": sealed}]
    items: list[dict[str, Any]] = []
    if answer.reasoning:
        summary = [{"type": "summary_text", "text": answer.reasoning}]
        encrypted = ENCRYPTED if "reasoning.encrypted_content" in (request.get("include") or ()) else None
        own = {"id": f"rs_mock_{answer.number}", "type": "reasoning"}
        items.append({**own, "summary": summary, "encrypted_content": encrypted})
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        own = {"id": f"msg_mock_{answer.number}", "type": "message", "status": "completed"}
        items.append({**own, "role": "assistant", "content": [part]})
    for call in answer.calls:
        named = {"call_id": call["id"], **_named(call["function"]["name"], request)}
        named["arguments"] = call["function"]["arguments"]
        items.append({"id": f"fc_{call['id']}", "type": "function_call", "status": "completed", **named})
    return items


def _named(name: str, request: dict[str, Any]) -> dict[str, str]:
    """The name of a tool; of one in a namespace (`SPACE__NAME`) both names, apart, as OpenAI gives them."""
    for tool in request.get("tools") or ():
        space = tool.get("name") if tool.get("type") == "namespace" else None
        if space and any(name == f"{space}__{inside.get('name')}" for inside in tool.get("tools") or ()):
            return {"namespace": space, "name": name[len(space) + 2 :]}
    return {"name": name}


def _responses_usage(usage: CanonicalUsage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def gemini_events(answer: UpstreamAnswer, request: dict[str, Any]) -> Iterator[Event]:  # noqa: ARG001
    *parts, last = [piece for part in _gemini_parts(answer) for piece in _pieces_of_part(answer, part)] or [
        {"text": ""}
    ]
    for part in parts:
        yield "", _gemini_chunk(answer, part)
    yield "", _gemini_chunk(answer, last, ended=True)


def gemini_body(answer: UpstreamAnswer, request: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    return _gemini_chunk(answer, *_gemini_parts(answer), ended=True)


def _gemini_chunk(answer: UpstreamAnswer, *parts: dict[str, Any], ended: bool = False) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if ended:
        reasons = {"length": "MAX_TOKENS", "refusal": "SAFETY", "other": "OTHER"}
        candidate["finishReason"] = reasons.get(answer.ends, "STOP")
    body = {"candidates": [candidate], "modelVersion": answer.model, "responseId": f"mock-{answer.number}"}
    return body if answer.usage is None else {**body, "usageMetadata": _gemini_usage(answer.usage, ended)}


def _gemini_parts(answer: UpstreamAnswer) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if answer.reasoning:
        parts.append({"text": answer.reasoning, "thought": True})
    if answer.text:
        parts.append({"text": answer.text})
    for index, call in enumerate(answer.calls):
        function = call["function"]
        wanted: dict[str, Any] = {"name": function["name"], "args": json.loads(function["arguments"])}
        own = {"id": call["id"]} if call["id"] else {}
        # Of parallel calls the first alone is signed.
        signed = {} if index else {"thoughtSignature": THOUGHT_SIGNATURE}
        parts.append({"functionCall": {**own, **wanted}, **signed})
    return parts


def _pieces_of_part(answer: UpstreamAnswer, part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "text" not in part:
        yield part
    for piece in answer.pieces(part.get("text", "")):
        yield {**part, "text": piece}


def _gemini_usage(usage: CanonicalUsage, ended: bool) -> dict[str, Any]:
    cached = {"cachedContentTokenCount": usage.cache_read_tokens} if usage.cache_read_tokens else {}
    counts = {"promptTokenCount": usage.prompt_tokens, **cached}
    if not ended:
        return {**counts, "totalTokenCount": usage.prompt_tokens}
    return {
        **counts,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "totalTokenCount": usage.total_tokens,
    }


def model_row(wire: str, row: Mapping[str, Any], window: int | None) -> Mapping[str, Any]:
    """A model of the list that the upstream was given: as it is, or as Gemini's wire describes it."""
    if wire != GEMINI:
        return row
    name = str(row.get("id", ""))
    limits = {"inputTokenLimit": window} if window is not None else {}
    methods = ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, **limits, "supportedGenerationMethods": methods}


def model_list(wire: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if wire == GEMINI:
        return {"models": rows}
    ends = {"has_more": False, "first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"has_more": False}
    return {"data": rows, **ends} if wire == MESSAGES else {"object": "list", "data": rows}
