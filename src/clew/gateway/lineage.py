"""Which conversation a stateless request belongs to.

A request names its session, or it does not. Either way it is told apart by what it is for, since a client's title
requests, probes and subagents carry the same name as its main conversation: by the beginning of the prompt, and by
whether it has tools. That is its lineage; within a lineage the longest known beginning of the history decides. All of
it within one caller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from clew.gateway.wires import WireRequest
from clew.messages import text_of

_PROMPT_CHARS = 1_000
"""Of the prompt, from its beginning: what changes from day to day stands further back."""
# Dates, times, versions and hashes: what changes in the prompt of one conversation.
_VOLATILE = re.compile(
    r"(?i)\w*\d\w*|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|"
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b"
)
_LINEAGE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Lineage:
    """The lineage of a request, and the tree that it is in where the request names its session."""

    name: str
    tree: str = ""


def lineage_of(request: WireRequest, named: str, *, has_tools: bool, is_joined: bool = False) -> Lineage:
    """The lineage of a request that calls its session `named`, or nothing.

    `is_joined`: the caller itself names the session for us, so that all requests of the name have one lineage.
    """
    if is_joined:
        name = _hash(("joined", named))
        return Lineage(name, name)
    prompt = request.prompt
    # A conversation goes on after midnight.
    opening = _VOLATILE.sub("0", text_of(prompt)[:_PROMPT_CHARS]) if prompt else ""
    own = _hash((request.wire.dialect, named, "tools" if has_tools else "", opening))
    if not named:
        return Lineage(own)
    tree = f"{_hash(named)}."
    return Lineage(tree + own, tree)


def _hash(value: object) -> str:
    return blake2b(repr(value).encode("utf-8", "replace"), digest_size=_LINEAGE_BYTES).hexdigest()
