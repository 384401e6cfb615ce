"""Compactions that were previewed and wait to be applied, in the memory of one process."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from clew.turn import PreparedCompaction

PREVIEW_SECONDS = 900.0
"""So long a preview can be applied."""
MAX_PREVIEWS = 100


class KeptPreviews:
    """Compactions that were previewed and may be applied: the newest of each conversation, for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[str, float, PreparedCompaction]] = {}
        """By conversation, oldest first: the preview's id and when it was made."""

    def keep(self, conversation: str, prepared: PreparedCompaction) -> str:
        """Its id."""
        self._kept.pop(conversation, None)
        id = f"p_{secrets.token_hex(10)}"
        self._kept[conversation] = (id, self._clock(), prepared)
        self.conversations()
        if len(self._kept) > MAX_PREVIEWS:
            del self._kept[next(iter(self._kept))]
        return id

    def take(self, conversation: str, id: str) -> PreparedCompaction | None:
        """The preview of an id, once; None where there is none any more."""
        if conversation not in self.conversations() or self._kept[conversation][0] != id:
            return None
        return self._kept.pop(conversation)[2]

    def conversations(self) -> set[str]:
        """Those that have a preview which can still be applied."""
        until = self._clock() - PREVIEW_SECONDS
        self._kept = {name: kept for name, kept in self._kept.items() if kept[1] >= until}
        return set(self._kept)
