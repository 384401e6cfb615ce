"""The living branch of an append-only tree: from the newest line back to the first.

Programs that let a person go back and ask again keep the abandoned lines in the file. Files are also cut, redacted and
merged, so a missing parent must not cost the rest: what stood before a broken link is taken to belong to it.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

_NO_PARENT = -1
_LOST_PARENT = -2
# In place of the hash of a name.
_JOINS_NOTHING = 0
_JOINS_PARENT = 1


@dataclass(frozen=True, slots=True)
class Node:
    key: str
    parent: str | None
    is_message: bool
    joins: str | None = None
    """Lives when its parent lives, or when another node of this name does: parts of one reply, results of its calls."""
    continues: bool = False
    """Has no parent, and yet what stands before it in the file came before it: a compaction."""


class Branches:
    """Nodes in file order; parents are kept as positions, and names as hashes, so that a long file costs little."""

    __slots__ = ("_continues", "_joins", "_messages", "_parents", "_positions")

    def __init__(self) -> None:
        self._positions: dict[int, int] = {}
        self._parents = array("q")
        self._messages = bytearray()
        self._continues: set[int] = set()
        self._joins = array("q")

    def add(self, node: Node) -> bool:
        """Whether the node is new; a key seen before is a copy of the same line."""
        name = hash(node.key)
        if name in self._positions:
            return False
        position = len(self._parents)
        parent = _NO_PARENT if node.parent is None else self._positions.get(hash(node.parent), _LOST_PARENT)
        self._positions[name] = position
        self._parents.append(parent)
        self._messages.append(node.is_message)
        if node.continues:
            self._continues.add(position)
        self._joins.append(_JOINS_NOTHING if node.joins is None else hash(node.joins) if node.joins else _JOINS_PARENT)
        return True

    def living(self) -> Living:
        alive = bytearray(len(self._parents))
        tip = len(self._parents) - 1
        while (tip := self._last_message(tip)) >= 0:
            root = self._walk(tip, alive)
            if self._parents[root] == _NO_PARENT and root not in self._continues:
                break
            tip = root - 1
        self._join(alive)
        return Living(self._positions, alive, self._messages, bytearray(len(alive)))

    def _last_message(self, position: int) -> int:
        return self._messages.rfind(1, 0, position + 1)

    def _walk(self, position: int, alive: bytearray) -> int:
        """Mark a node and its ancestors; the topmost is returned."""
        while True:
            alive[position] = 1
            parent = self._parents[position]
            if parent < 0 or alive[parent]:
                return position
            position = parent

    def _join(self, alive: bytearray) -> None:
        left = {name for name, lives in zip(self._joins, alive, strict=True) if not lives}
        names = {name for name, lives in zip(self._joins, alive, strict=True) if lives and name in left}
        names = (names | {_JOINS_PARENT}) - {_JOINS_NOTHING}
        for position, name in enumerate(self._joins):
            parent = self._parents[position]
            if not alive[position] and parent >= 0 and alive[parent] and name in names:
                alive[position] = 1


@dataclass(frozen=True, slots=True)
class Living:
    """Which lines are on the living branch."""

    _positions: dict[int, int]
    _alive: bytearray
    _messages: bytearray
    _met: bytearray

    def __contains__(self, key: str) -> bool:
        position = self._positions.get(hash(key))
        return position is None or bool(self._alive[position])

    def is_met_first(self, key: str) -> bool:
        """Whether this is the first time that the line is asked about; later ones are copies of it."""
        position = self._positions.get(hash(key))
        if position is None:
            return True
        is_first, self._met[position] = not self._met[position], 1
        return is_first

    def abandoned(self) -> int:
        """How many messages are on branches that were left."""
        return sum(1 for alive, message in zip(self._alive, self._messages, strict=True) if message and not alive)
