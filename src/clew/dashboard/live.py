"""Events for open pages: one task polls the store for changes, also by other processes, while a page is open.

A follower gets events of its own sessions only.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from clew.dashboard.catalog import MAX_SESSIONS, CatalogState, SessionCatalog
from clew.errors import StoreError
from clew.store import ConversationOverview

POLL_SECONDS = 0.5
MAX_CHANGED = 200
"""Sessions in one event; where more have changed, the page loads its lists again."""
_MAX_WAITING = 50
_FIELDS = {
    "next_seq": "messages",
    "last_call": "calls",
    "last_entry": "compactions",
    "title": "title",
    "ended": "ended",
    "model": "model",
}

_log = logging.getLogger("clew.dashboard")


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event as the page gets it."""

    name: str
    fields: dict[str, Any]


@dataclass(slots=True)
class Follower:
    """An open page, with the events that wait for it."""

    owner: str | None
    waiting: deque[LiveEvent] = field(default_factory=deque)
    has_more: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, event: LiveEvent) -> None:
        if len(self.waiting) >= _MAX_WAITING:
            self.waiting.clear()
            event = LiveEvent("reload", {"reason": "the page was too slow to follow"})
        self.waiting.append(event)
        self.has_more.set()

    async def next_event(self, seconds: float) -> LiveEvent | None:
        """The next event; None after so many seconds without one."""
        if not self.waiting:
            self.has_more.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.has_more.wait(), seconds)
        return self.waiting.popleft() if self.waiting else None


class LiveChanges:
    """Polls the sessions of a store and sends their changes."""

    def __init__(self, catalog: SessionCatalog, poll_seconds: float = POLL_SECONDS) -> None:
        self._catalog = catalog
        self._poll_seconds = poll_seconds
        self._followers: list[Follower] = []
        self._task: asyncio.Task[None] | None = None
        self.is_ending = asyncio.Event()

    @asynccontextmanager
    async def follow(self, owner: str | None) -> AsyncIterator[Follower]:
        """A follower that gets the events of an owner's sessions while the block runs."""
        now = await self._catalog.state()
        follower = Follower(owner)
        self._followers.append(follower)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll(now))
        try:
            yield follower
        finally:
            self._followers.remove(follower)
            if not self._followers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def end(self) -> None:
        """End every stream: open streams would keep the server from stopping."""
        self.is_ending.set()
        for follower in self._followers:
            follower.has_more.set()

    async def _poll(self, known: CatalogState) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                now = await self._catalog.state()
            except StoreError as problem:
                # Busy, or away for a moment: changes are sent when the store answers again.
                _log.info("the store cannot be followed now: %s", type(problem).__name__)
                continue
            if now is not known:
                self._send_changes(known, now)
            known = now

    def _send_changes(self, before: CatalogState, now: CatalogState) -> None:
        changed = [(each, what) for each in now.sessions if (what := _changes(before, each))]
        is_cut = len(now.sessions) >= MAX_SESSIONS
        gone = [each for number, each in before.by_conversation.items() if number not in now.by_conversation]
        for follower in self._followers:
            visible = [_plain_change(each, what) for each, what in changed if _is_seen(each, follower)]
            deleted = [each.id for each in gone if _is_seen(each, follower) and not is_cut]
            if len(visible) > MAX_CHANGED:
                follower.send(LiveEvent("reload", {"reason": f"{len(visible):,} sessions have changed"}))
            elif visible:
                follower.send(LiveEvent("changed", {"sessions": visible}))
            if deleted:
                follower.send(LiveEvent("deleted", {"sessions": deleted}))


def _is_seen(session: ConversationOverview, follower: Follower) -> bool:
    return follower.owner is None or session.owner == follower.owner


def _changes(before: CatalogState, session: ConversationOverview) -> list[str]:
    """The names of what has changed in a session."""
    known = before.by_conversation.get(session.conversation)
    if known is session:
        return []
    if known is None:
        return ["new"]
    return [what for name, what in _FIELDS.items() if getattr(known, name) != getattr(session, name)]


def _plain_change(session: ConversationOverview, what: list[str]) -> dict[str, Any]:
    return {"id": session.id, "what": what, "messages": session.next_seq, "updated": session.updated.isoformat()}
