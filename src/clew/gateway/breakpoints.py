"""Cache breakpoints for clients of Anthropic's wire that set none: on the prompt, and on the newest messages.

Only on request (`--add-breakpoints`): it changes bytes of requests that nothing is folded in. A client that sets a
single marker is left alone, since it has a plan of its own and the wire takes four at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.gateway.bodies import read_json, write_json
from clew.gateway.wires import WireRequest

_MARKER = {"type": "ephemeral"}
_MESSAGES = 3
_UNMARKABLE = ("thinking", "redacted_thinking")


def wants_breakpoints(request: WireRequest) -> bool:
    return request.wire.dialect == "anthropic" and b'"cache_control"' not in request.body.raw


def marked_items(items: Sequence[bytes]) -> list[bytes]:
    """The items with breakpoints on the newest ones."""
    return [*items[:-_MESSAGES], *map(_marked_item, items[-_MESSAGES:])]


def marked_prompt(request: WireRequest) -> dict[str, bytes]:
    """The prompt of a request with a breakpoint behind it; nothing where it has none."""
    system = request.body.value(request.wire.system_field)
    return {request.wire.system_field: write_json(_marked(system))} if system else {}


def _marked_item(raw: bytes) -> bytes:
    item = read_json(raw)
    content = item.get("content") if isinstance(item, dict) else None
    return write_json({**item, "content": _marked(content)}) if content else raw


def _marked(content: Any) -> Any:
    """A text as a marked block, or the blocks with the last one marked; the very value where none can be."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    last = blocks[-1] if isinstance(blocks, list) and blocks else None
    if not isinstance(last, dict) or last.get("type") in _UNMARKABLE or last.get("text") == "":
        return content
    return [*blocks[:-1], {**last, "cache_control": _MARKER}]
