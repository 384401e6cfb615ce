"""What can go wrong in a store, each with what to do about it."""

from __future__ import annotations

from clew.errors import StoreError


class UnknownSession(StoreError):  # noqa: N818 (reads as what it says)
    """No session of that id, or none of that owner."""

    def __init__(self, session: str) -> None:
        super().__init__(f"no session {session!r} in this store; `clew sessions list` shows those there are")
        self.session = session


class StaleView(StoreError):  # noqa: N818
    """A compaction chosen from a view that is no longer in effect."""

    def __init__(self, session: str) -> None:
        super().__init__(
            f"session {session!r} was compacted or undone since its view was loaded; load it again and decide anew"
        )
        self.session = session


class StaleHistory(StoreError):  # noqa: N818
    """Messages meant for a place where others stand already."""

    def __init__(self, session: str, expected: int, found: int) -> None:
        super().__init__(
            f"session {session!r} has {found} messages, not {expected}, and the others differ; "
            "use sync() to add the difference or to branch"
        )
        self.session = session
        self.expected = expected
        self.found = found


class LeaseLost(StoreError):  # noqa: N818
    """A compaction whose lease ran out, or was taken by another, before it was committed."""


class InUse(StoreError):  # noqa: N818
    """Something that others lean on, and that is therefore not deleted."""


class SchemaTooNew(StoreError):  # noqa: N818
    """A database that a newer Clew has written."""


class DatabaseBusy(StoreError):  # noqa: N818
    """Another process held the database for longer than we wait."""


class DatabaseFull(StoreError):  # noqa: N818
    """No room for what was to be written; nothing of it was."""


class IndexDamaged(StoreError):  # noqa: N818
    """A full-text index that cannot be read. It is derived, and can be rebuilt."""
