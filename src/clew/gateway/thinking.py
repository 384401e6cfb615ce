"""Thinking blocks behind a fold: which models bind them to what stands before them, and how they are left out.

Newer models of Anthropic sign a thinking block together with everything before it. After a fold what stands before it
is something else, and the request would be refused; so thinking from before the fold is left out, whole, and what was
thought since then stays. For a model that is not known to bind them, a refusal teaches it.
"""

from __future__ import annotations

import re
from typing import Any

from clew.gateway.bodies import read_json, write_json

_MODEL = re.compile(r"claude-(?:[a-z]+-)+(\d+)[-.](\d{1,2})(?!\d)")
_FIRST_BINDING = (5, 1)
_THINKING = ("thinking", "redacted_thinking")
_REFUSAL = re.compile(
    r"(?i)thinking` block[^\"]{0,200}(?:bound to|different conversation)|invalid `signature` in `thinking`"
)
_EMPTY = {"type": "text", "text": "[thinking that was left out]"}


def binds_thinking(model: str) -> bool:
    """Whether a model takes thinking back only behind what it was thought behind."""
    found = _MODEL.search(model[:200])
    return found is not None and (int(found[1]), int(found[2])) >= _FIRST_BINDING


def refuses_thinking(body: str) -> bool:
    """Whether an error says that a thinking block does not belong where it stands."""
    return _REFUSAL.search(body) is not None


def without_thinking(item: bytes) -> bytes:
    """A message of Anthropic's wire without its thinking; the very bytes where it has none."""
    if b'thinking"' not in item:
        return item
    message = read_json(item)
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return item
    kept = [block for block in content if not _is_thinking(block)]
    return item if len(kept) == len(content) else write_json({**message, "content": kept or [_EMPTY]})


def _is_thinking(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in _THINKING
