"""Which conversation a stateless request belongs to.

A request names its session, or it does not. Either way it is told apart by what it is for, since a client's title
requests, probes and subagents carry the same name as its main conversation: by the beginning of the prompt, and by
whether it has tools. That is its lineage; within a lineage the longest known beginning of the history decides. All of
it within one caller.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from clew.gateway.wires import WireRequest
from clew.messages import text_of

_PROMPT_CHARS = 1_000
"""Of the prompt, from its beginning: what changes from day to day stands further back."""
_DIGITS = re.compile(r"\d+")
_LINEAGE_BYTES = 16


def lineage_of(request: WireRequest, named: str, *, has_tools: bool) -> str:
    """The lineage of a request that calls its session `named`, or nothing."""
    prompt = request.prompt
    # Dates and times are the digits of a prompt: a conversation goes on after midnight.
    opening = _DIGITS.sub("0", text_of(prompt)[:_PROMPT_CHARS]) if prompt else ""
    told = (request.wire.dialect, named, "tools" if has_tools else "", opening)
    return blake2b(repr(told).encode("utf-8", "replace"), digest_size=_LINEAGE_BYTES).hexdigest()
