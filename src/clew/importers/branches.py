"""The active branch of an append-only tree: from the newest message back to the first.

Programs that let a person go back and ask again keep the abandoned messages in the file. Files are also cut, redacted
and merged, so a missing parent must not cost the rest: what precedes a broken link is taken to belong to it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass

from clew.importers.session import LineSource, Notices, Record, SourceMetadata

_NO_PARENT = -1
_LOST_PARENT = -2
# In place of the hash of a group name.
_JOINS_NOTHING = 0
_JOINS_PARENT = 1


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A line of a session file."""

    key: str
    parent: str | None
    is_message: bool
    joins: str | None = None
    """A group, such as the parts of one reply: the node is active when its parent is, and another node of the group is.
    An empty name needs only the parent, as for results of calls."""
    continues: bool = False
    """It has no parent, but what precedes it in the file preceded it: a compaction."""


class MessageTree:
    """Nodes in file order; parents are positions and keys are hashes, so that a long file takes little memory."""

    __slots__ = ("_continues", "_joins", "_messages", "_parents", "_positions")

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}
        self._parents = array("q")
        self._messages = bytearray()
        self._continues: set[int] = set()
        self._joins = array("q")

    def add(self, node: TreeNode) -> None:
        """Add a node; a key that was added before is a copy of the same line and is ignored."""
        name = hash(node.key)
        if name in self._positions:
            return
        position = len(self._parents)
        parent = _NO_PARENT if node.parent is None else self._positions.get(hash(node.parent), _LOST_PARENT)
        self._positions[name] = position
        self._parents.append(parent)
        self._messages.append(node.is_message)
        if node.continues:
            self._continues.add(position)
        self._joins.append(_JOINS_NOTHING if node.joins is None else hash(node.joins) if node.joins else _JOINS_PARENT)

    def active_branch(self) -> ActiveBranch:
        """The branch of the newest message."""
        active = bytearray(len(self._parents))
        tip = len(self._parents) - 1
        while (tip := self._last_message(tip)) >= 0:
            root = self._walk(tip, active)
            if self._parents[root] == _NO_PARENT and root not in self._continues:
                break
            tip = root - 1
        self._activate_groups(active)
        abandoned = sum(
            1 for is_active, is_message in zip(active, self._messages, strict=True) if is_message > is_active
        )
        return ActiveBranch(self._positions, active, abandoned, bytearray(len(active)))

    def _last_message(self, position: int) -> int:
        return self._messages.rfind(1, 0, position + 1)

    def _walk(self, position: int, active: bytearray) -> int:
        """Mark a node and its ancestors as active, and return the topmost."""
        while True:
            active[position] = 1
            parent = self._parents[position]
            if parent < 0 or active[parent]:
                return position
            position = parent

    def _activate_groups(self, active: bytearray) -> None:
        others = {name for name, is_active in zip(self._joins, active, strict=True) if not is_active}
        names = {name for name, is_active in zip(self._joins, active, strict=True) if is_active and name in others}
        names = (names | {_JOINS_PARENT}) - {_JOINS_NOTHING}
        for position, name in enumerate(self._joins):
            parent = self._parents[position]
            if not active[position] and parent >= 0 and active[parent] and name in names:
                active[position] = 1


@dataclass(frozen=True, slots=True)
class ActiveBranch:
    """Which lines are on the active branch; a key that is not in the tree counts as active."""

    _positions: dict[int, int]
    _active: bytearray
    abandoned: int
    """How many messages are on other branches."""
    _seen: bytearray

    def __contains__(self, key: str) -> bool:
        position = self._positions.get(hash(key))
        return position is None or bool(self._active[position])

    def is_first_copy(self, key: str) -> bool:
        """Whether this is the first call with this key; lines that come later are copies of the first."""
        position = self._positions.get(hash(key))
        if position is None:
            return True
        is_first, self._seen[position] = not self._seen[position], 1
        return is_first


def read_active_branch(
    read_lines: LineSource, node_of: Callable[[Record], TreeNode | None], metadata: SourceMetadata
) -> ActiveBranch:
    """The branch of the newest message of a file, with a notice of the messages that are not on it."""
    tree = MessageTree()
    for line in read_lines(Notices()):
        if (node := node_of(line.record)) is not None:
            tree.add(node)
    branch = tree.active_branch()
    if branch.abandoned:
        metadata.notices.add(f"{branch.abandoned} messages on branches that were abandoned are left out")
    return branch
