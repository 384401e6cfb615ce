"""Changes of request items other than a fold: handles, thinking, cache breakpoints.

A client that asks its provider to compact (Codex) gets a handle that represents its history, and sends it back.

Newer models of Anthropic sign a thinking block together with everything before it. A fold changes what precedes it, and
the request would be refused. So thinking from before the fold is left out, and later thinking stays. A refusal shows
that another model binds its thinking too.

Breakpoints (`--add-breakpoints`) are for clients that set none. Where a client sets any marker, none is added: the wire
takes four at most.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from clew.errors import StoreError, UnknownSession
from clew.gateway.admission import Refusal
from clew.gateway.wires import WireRequest, read_object, write_json
from clew.messages import written
from clew.store import Store, StoredMessage

_MODEL = re.compile(r"claude-(?:[a-z]+-)+(\d+)[-.](\d{1,2})(?!\d)")
_FIRST_BINDING = (5, 1)
_THINKING = ("thinking", "redacted_thinking")
_REFUSAL = re.compile(
    r"(?i)thinking` block[^\"]{0,200}(?:bound to|different conversation)|invalid `signature` in `thinking`"
)
_EMPTY = {"type": "text", "text": "[thinking that was left out]"}


def binds_thinking(model: str) -> bool:
    """Whether a model accepts a thinking block only after the same messages as before."""
    found = _MODEL.search(model[:200])
    return found is not None and (int(found[1]), int(found[2])) >= _FIRST_BINDING


def refuses_thinking(body: str) -> bool:
    """Whether an error says that a thinking block does not belong at its place."""
    return _REFUSAL.search(body) is not None


def without_thinking(item: bytes) -> bytes:
    """A message of Anthropic's wire without its thinking; the very bytes where it has none."""
    if b'thinking"' not in item:
        return item
    message = read_object(item)
    content = message.get("content")
    if not isinstance(content, list):
        return item
    kept = [block for block in content if not _is_thinking(block)]
    return item if len(kept) == len(content) else write_json({**message, "content": kept or [_EMPTY]})


def _is_thinking(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in _THINKING


_MARKER = {"type": "ephemeral"}
_MESSAGES = 3
_UNMARKABLE = ("thinking", "redacted_thinking")


def wants_breakpoints(request: WireRequest) -> bool:
    return request.wire.dialect == "anthropic" and b'"cache_control"' not in request.body.raw


def marked_items(items: Sequence[bytes]) -> list[bytes]:
    """The items with breakpoints on the newest ones."""
    return [*items[:-_MESSAGES], *map(_marked_item, items[-_MESSAGES:])]


def marked_prompt(request: WireRequest) -> dict[str, bytes]:
    """The prompt of a request with a breakpoint at its end; no field where it has no prompt."""
    system = request.body.value(request.wire.system_field)
    return {request.wire.system_field: write_json(_marked(system))} if system else {}


def _marked_item(raw: bytes) -> bytes:
    item = read_object(raw)
    content = item.get("content")
    return write_json({**item, "content": _marked(content)}) if content else raw


def _marked(content: Any) -> Any:
    """A text as a marked block, or the blocks with the last one marked; the very value where none can be."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    last = blocks[-1] if isinstance(blocks, list) and blocks else None
    if not isinstance(last, dict) or last.get("type") in _UNMARKABLE or last.get("text") == "":
        return content
    return [*blocks[:-1], {**last, "cache_control": _MARKER}]


_MARK = "clew1."
_TRIGGER = b"compaction_trigger"
_COMPACT = b'"compact'


@dataclass(frozen=True, slots=True)
class HistoryHandle:
    """The first messages of a session."""

    session: str
    messages: int

    def write(self) -> str:
        return _MARK + base64.urlsafe_b64encode(json.dumps([self.session, self.messages]).encode()).decode()

    @classmethod
    def read(cls, text: object) -> HistoryHandle | None:
        """The handle of an opaque content; None where it is not one of ours."""
        if not isinstance(text, str) or not text.startswith(_MARK):
            return None
        try:
            session, messages = json.loads(base64.urlsafe_b64decode(text.removeprefix(_MARK)))
        except (ValueError, TypeError, binascii.Error):
            return None
        return cls(session, messages) if isinstance(session, str) and isinstance(messages, int) else None


def asks_for_handle(request: WireRequest) -> bool:
    """Whether the last item of a request asks for a compaction."""
    last = request.items[-1] if request.items else b""
    return _TRIGGER in last and read_object(last).get("type") == _TRIGGER.decode()


async def without_handle(request: WireRequest, store: Store, owner: str) -> WireRequest:
    """The request with the messages that a handle represents; the very request where it has none of ours.

    A handle of another owner, or of a deleted session, stays: the upstream will refuse it. While the store fails,
    `Refusal` asks the client to try again.
    """
    found = _last_handle(request)
    if found is None:
        return request
    at, handle = found
    try:
        rows = await store.messages(handle.session, 0, handle.messages, owner=owner)
    except UnknownSession:
        return request
    except StoreError as problem:
        message = "the gateway cannot look up the history of this handle now; try again"
        raise Refusal(503, message, {"Retry-After": "2"}) from problem
    before = list(_items_of(rows))
    # Items before a handle are those that it represents, or those that Codex repeats.
    return replace(request, items=[*map(write_json, before), *request.items[at + 1 :]])


def _items_of(rows: Sequence[StoredMessage]) -> Iterator[Any]:
    """The items that messages were stored with; messages of another wire are encoded."""
    for is_own, run in groupby(rows, lambda row: row.dialect == "responses" or "type" in row.message):
        if not is_own:
            yield from written([row.message for row in run], "responses")
            continue
        for row in run:
            if row.part == 0:
                yield from row.items or (row.message,)


def is_native(request: WireRequest) -> bool:
    """Whether a request asks the provider to compact, or holds a provider's compaction."""
    if _COMPACT not in request.body.raw:
        return False
    if "compaction" in request.body or _COMPACT in request.body.field("context_management"):
        return True
    return any(_is_native_item(read_object(item)) for item in request.items if b'"compaction"' in item)


def _is_native_item(item: dict[str, Any]) -> bool:
    """Whether an item, or a block of one, is a compaction of the provider's own."""
    if item.get("type") == "compaction":
        return HistoryHandle.read(item.get("encrypted_content")) is None
    content = item.get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "compaction" for block in content
    )


def _last_handle(request: WireRequest) -> tuple[int, HistoryHandle] | None:
    for at in range(len(request.items) - 1, -1, -1):
        if _MARK.encode() in request.items[at]:
            item = read_object(request.items[at])
            handle = HistoryHandle.read(item.get("encrypted_content"))
            if handle is not None and item.get("type") == "compaction":
                return at, handle
    return None


def handle_reply(handle: HistoryHandle, model: str, input_tokens: int) -> dict[str, Any]:
    """A response with the handle alone."""
    number = secrets.token_hex(12)
    item = {"id": f"cmp_{number}", "type": "compaction", "encrypted_content": handle.write()}
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": model,
        "output": [item],
        "error": None,
        "incomplete_details": None,
        "usage": {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_tokens + 1,
        },
    }


def handle_events(response: dict[str, Any]) -> Sequence[bytes]:
    """The same response as the events of a stream."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    (item,) = response["output"]
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return [b"event: %s\ndata: %s\n\n" % (event["type"].encode(), write_json(event)) for event in numbered]
