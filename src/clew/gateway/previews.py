"""Compactions that were previewed and wait to be applied: with their conversation in the store, for any process."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from clew.store import Store
from clew.turn import PreparedCompaction, prepared_to_plain

PREVIEW_SECONDS = 900.0
"""So long a preview can be applied."""
_STATE = "preview"


class KeptPreviews:
    """The newest preview of each conversation, for a while."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        """`clock` tells the seconds since 1970: processes of several machines compare it."""
        self._store = store
        self._clock = clock

    async def keep(self, conversation: str, prepared: PreparedCompaction) -> str:
        """Its id."""
        id = f"p_{secrets.token_hex(10)}"
        kept = {"id": id, "at": self._clock(), "prepared": prepared_to_plain(prepared)}
        await self._store.set_state(conversation, {_STATE: kept})
        return id

    async def take(self, conversation: str, id: str) -> Mapping[str, Any] | None:
        """What was prepared under an id, as JSON, once; None where there is none any more."""
        kept = (await self._store.state(conversation)).get(_STATE)
        if not isinstance(kept, dict) or kept["id"] != id or self._clock() - kept["at"] > PREVIEW_SECONDS:
            return None
        await self._store.set_state(conversation, {_STATE: None})
        return dict(kept["prepared"])
