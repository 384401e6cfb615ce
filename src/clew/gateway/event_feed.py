"""What happens to conversations, for the callers they belong to: each follows its own, and sees nothing of others'.

Events have figures and names, no text. They are those of this process.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from clew.errors import UnknownSession
from clew.events import Event, Events
from clew.store import Store

MAX_WAITING = 1_000
"""Events that a slow follower may leave behind; the oldest are dropped then, and it is told how many."""
_MAX_KNOWN = 4_096
_WORD = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """An event as a follower gets it."""

    name: str
    fields: dict[str, Any]


@dataclass(slots=True)
class EventFollower:
    """One caller that listens."""

    waiting: deque[Event] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    has_more: asyncio.Event = field(default_factory=asyncio.Event)
    dropped: int = 0

    def add(self, event: Event) -> None:
        self.dropped += len(self.waiting) == MAX_WAITING
        self.waiting.append(event)
        self.has_more.set()


class EventFeed:
    """Hands events to those who follow them."""

    def __init__(self, store: Store, events: Events) -> None:
        self._store = store
        self._followers: list[EventFollower] = []
        self._known: dict[str, tuple[str, str]] = {}
        """The owner and the conversation of each session that was asked for."""
        events.listen(self._take)

    def _take(self, event: Event) -> None:
        for follower in self._followers:
            follower.add(event)

    @contextmanager
    def follower(self) -> Iterator[EventFollower]:
        """Listens from now on, for as long as the block lasts."""
        made = EventFollower()
        self._followers.append(made)
        try:
            yield made
        finally:
            self._followers.remove(made)

    async def events_for(self, owner: str | None, follower: EventFollower) -> AsyncIterator[ToldEvent]:
        """The events of an owner that wait, and no more; None: of everybody."""
        follower.has_more.clear()
        if follower.dropped:
            dropped, follower.dropped = follower.dropped, 0
            yield ToldEvent("dropped", {"count": dropped})
        while follower.waiting:
            event = follower.waiting.popleft()
            fields = asdict(event)
            # What has no session is of nobody, and not told to anybody.
            belongs = await self._belongs(fields["session"]) if "session" in fields else None
            if belongs is not None and owner in (None, belongs[0]):
                name = _WORD.sub("_", type(event).__name__).lower()
                yield ToldEvent(name, {"conversation": belongs[1], **fields})

    async def _belongs(self, session: str) -> tuple[str, str] | None:
        known = self._known.get(session)
        if known is None:
            try:
                found = await self._store.session(session)
            except UnknownSession:
                return None
            first = (await self._store.sessions_of(found.conversation))[0]
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[session] = known = (found.owner, first.id)
        return known
