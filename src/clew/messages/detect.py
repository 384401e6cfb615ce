"""Which dialect a wire speaks, told from what only one of them writes.

Looks no further than the first sign that decides. Plain text in every message is valid in all three, and is taken
for OpenAI chat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.messages.parts import ANTHROPIC_BLOCKS, CHAT_PARTS, RESPONSES_PARTS
from clew.messages.types import DialectName

_RESPONSES_ITEMS = frozenset({"message", "reasoning", "item_reference", "compaction", "mcp_list_tools"})
_RESPONSES_ENDINGS = ("_call", "_call_output", "_approval_request", "_approval_response", "_search_output")


def detect_dialect(wire: Any) -> DialectName:
    """The dialect of a list of messages, or of a request that holds one."""
    if not isinstance(wire, Mapping):
        return _dialect_of_items(wire) or "openai_chat"
    if "input" in wire and "messages" not in wire:
        return "responses"
    return _dialect_of_items(wire.get("messages")) or _dialect_of_request(wire)


def _dialect_of_request(wire: Mapping[str, Any]) -> DialectName:
    for tool in wire.get("tools") or ():
        if isinstance(tool, Mapping):
            if "input_schema" in tool:
                return "anthropic"
            if "function" in tool:
                return "openai_chat"
    beside = "system" in wire or "anthropic_version" in wire or "stop_sequences" in wire
    return "anthropic" if beside else "openai_chat"


def _dialect_of_items(items: Any) -> DialectName | None:
    if isinstance(items, str) or not isinstance(items, Sequence):
        return None
    for item in items:
        if not isinstance(item, dict):
            continue
        if "tool_calls" in item or "tool_call_id" in item:
            return "openai_chat"
        if "type" in item and _is_responses_item(item["type"]):
            return "responses"
        content = item.get("content")
        if isinstance(content, list):
            for part in content:
                found = _dialect_of_part(part)
                if found is not None:
                    return found
    return None


def _is_responses_item(kind: Any) -> bool:
    return isinstance(kind, str) and (kind in _RESPONSES_ITEMS or kind.endswith(_RESPONSES_ENDINGS))


def _dialect_of_part(part: Any) -> DialectName | None:
    if not isinstance(part, Mapping):
        return None
    kind = part.get("type")
    if not isinstance(kind, str):
        return None
    if kind in CHAT_PARTS:
        return "openai_chat"
    if kind in RESPONSES_PARTS:
        return "responses"
    # Mistral's chat wire has a part of type "thinking" too, whose thinking is a list.
    if kind in ANTHROPIC_BLOCKS and not isinstance(part.get("thinking"), list):
        return "anthropic"
    return "anthropic" if kind == "image" and "source" in part else None
