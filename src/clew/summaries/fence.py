"""Keeps quoted text quoted: a fence that no text can close, and none of our own markers inside it.

Knows text only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from clew.summaries.wrapping import END_MARKER, PREFIX

_OPENING = PREFIX[: PREFIX.index("]") + 1]
_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")
FENCE_CHARS = 8


def fence_for(texts: Sequence[str]) -> str:
    """A short string that occurs in none of the texts, the same one each time for the same texts.

    It comes out of the texts themselves: who writes one of them cannot know it, since writing it would change it.
    """
    digest = hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=32)
    while True:
        fence = f"@@{digest.hexdigest()[: FENCE_CHARS - 2]}"
        if not any(fence in text for text in texts):
            return fence
        digest.update(b"again")


def quotable(text: str) -> str:
    """The text without what means something to us or nothing to anybody: our markers, half characters."""
    if END_MARKER in text or _OPENING in text:
        text = text.replace(END_MARKER, "[end marker]").replace(_OPENING, "[handoff]")
    return text if text.isascii() else _HALF_CHARACTERS.sub("\ufffd", text)
