"""What a conversation has taken so far: from the store, and from the replies since it was asked.

The store has all calls, the summariser's too; replies are added as they come, so that a screen need not ask for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.cli.tui.status import Spent
from clew.events import Event, Replied

if TYPE_CHECKING:
    from clew.store import Store


class Tally:
    """Adds up."""

    def __init__(self) -> None:
        self.last = Spent()
        """The newest reply."""
        self.here = Spent()
        """Replies since the program began, in whichever conversation."""
        self._kept = Spent()
        self._since = Spent()

    @property
    def session(self) -> Spent:
        """The conversation from its beginning."""
        return self._kept.plus(self._since)

    def heard(self, event: Event) -> None:
        if isinstance(event, Replied):
            self.last = _spent_on(event)
            self.here = self.here.plus(self.last)
            self._since = self._since.plus(self.last)

    async def read(self, store: Store, session: str) -> None:
        """Take what the store has of the conversation."""
        kept = await spent_in(store, session)
        self._kept, self._since = kept, Spent()


async def spent_in(store: Store, session: str) -> Spent:
    """What all calls of a conversation took."""
    from clew.store import CallFilter

    found = await store.session(session)
    total = (await store.usage((), CallFilter(conversation=found.conversation)))[0]
    return Spent(
        total.calls,
        total.usage.prompt_tokens,
        total.usage.cache_read_tokens,
        total.usage.output_tokens,
        total.cost_micros,
        total.calls_of_unknown_cost,
    )


def _spent_on(reply: Replied) -> Spent:
    return Spent(
        1,
        reply.prompt_tokens,
        reply.cache_read_tokens,
        reply.output_tokens,
        reply.cost_micros or 0,
        1 if reply.cost_micros is None else 0,
    )
