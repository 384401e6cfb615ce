"""Handles: what Codex gets for its history when it asks for a compaction, and sends back in its place from then on.

Codex asks by an input item `compaction_trigger`, and wants exactly one item of the type `compaction` with an opaque
content. Ours names a session and how many of its messages stood there; before a request goes on, the handle is replaced
by these messages, which the store has word for word, and the fold that was made for it shortens them.

A provider's own compactions are respected: where a request asks for one, or holds one, the gateway stands aside.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from clew.errors import StoreError
from clew.gateway.bodies import read_json, write_json
from clew.gateway.wires import WireRequest
from clew.messages import GrowingHistory
from clew.store import Store, StoredMessage

_MARK = "clew1."
_TRIGGER = b"compaction_trigger"
_COMPACT = b'"compact'
_NATIVE = ("responses", "anthropic")
"""Wires whose providers compact by themselves."""


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
    if request.wire.dialect != "responses" or not request.items or _TRIGGER not in request.items[-1]:
        return False
    item = read_json(request.items[-1])
    return isinstance(item, dict) and item.get("type") == _TRIGGER.decode()


async def without_handle(request: WireRequest, store: Store, owner: str) -> WireRequest:
    """The request with the messages that a handle stands for; the very request where it has none of ours.

    A handle of another owner, or of what was deleted, is left where it is: the upstream will not know it.
    """
    found = _last_handle(request)
    if found is None:
        return request
    at, handle = found
    try:
        rows = await store.messages(handle.session, 0, handle.messages, owner=owner)
    except StoreError:
        return request
    before = list(_items_of(rows))
    # What stands before a handle is what it was made of, or what Codex repeats of that.
    return replace(request, items=[*map(write_json, before), *request.items[at + 1 :]])


def _items_of(rows: Sequence[StoredMessage]) -> Iterator[Any]:
    """The items that messages were stored with; those of messages that came by another wire are written."""
    for is_own, run in groupby(rows, lambda row: row.dialect == "responses" or "type" in row.message):
        if not is_own:
            yield from GrowingHistory("responses").write([row.message for row in run])
            continue
        for row in run:
            if row.part == 0:
                yield from row.items or (row.message,)


def is_native(request: WireRequest) -> bool:
    """Whether a request asks the provider to compact by itself, or holds what a provider compacted."""
    if request.wire.dialect not in _NATIVE or _COMPACT not in request.body.raw:
        return False
    if "compaction" in request.body or _COMPACT in request.body.field("context_management"):
        return True
    return any(_is_native_item(read_json(item)) for item in request.items if b'"compaction"' in item)


def _is_native_item(item: Any) -> bool:
    """Whether an item, or a block of one, is a compaction of the provider's own."""
    if not isinstance(item, dict):
        return False
    if item.get("type") == "compaction":
        return HistoryHandle.read(item.get("encrypted_content")) is None
    content = item.get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "compaction" for block in content
    )


def _last_handle(request: WireRequest) -> tuple[int, HistoryHandle] | None:
    if request.wire.dialect != "responses":
        return None
    for at in range(len(request.items) - 1, -1, -1):
        if _MARK.encode() in request.items[at]:
            item = read_json(request.items[at])
            handle = HistoryHandle.read(item.get("encrypted_content")) if isinstance(item, dict) else None
            if handle is not None and item.get("type") == "compaction":
                return at, handle
    return None


def handle_reply(handle: HistoryHandle, model: str, input_tokens: int) -> dict[str, Any]:
    """A response that has the handle and nothing else."""
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
