"""The active branch of an append-only tree: from the newest message back to the first.

Programs that let a person go back and ask again keep the abandoned messages in the file. Files are also cut, redacted
and merged, so a missing parent must not cost the rest: what precedes a broken link is taken to belong to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from clew.importers.session import LineSource, Notices, Record, SourceMetadata


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
    """It has no parent, but continues what precedes it in the file: a compaction."""


@dataclass(frozen=True, slots=True)
class ActiveBranch:
    """Which lines are on the active branch; a key that is not in the tree counts as active."""

    abandoned: int
    """How many messages are on other branches."""
    _is_active: dict[str, bool]
    _seen: set[str] = field(default_factory=set)

    def __contains__(self, key: str) -> bool:
        return self._is_active.get(key, True)

    def is_first_copy(self, key: str) -> bool:
        """Whether this is the first call with this key of the tree; later lines are copies of the first."""
        if key in self._seen:
            return False
        if key in self._is_active:
            self._seen.add(key)
        return True


def read_active_branch(
    read_lines: LineSource, node_of: Callable[[Record], TreeNode | None], metadata: SourceMetadata
) -> ActiveBranch:
    """The branch of the newest message of a file, with a notice of the messages that are not on it."""
    nodes: dict[str, TreeNode] = {}
    for line in read_lines(Notices()):
        if (node := node_of(line.record)) is not None:
            nodes.setdefault(node.key, node)
    branch = active_branch(list(nodes.values()))
    if branch.abandoned:
        metadata.notices.add(f"{branch.abandoned} messages on branches that were abandoned are left out")
    return branch


def active_branch(nodes: list[TreeNode]) -> ActiveBranch:
    """The branch of the newest message of these nodes, which are in file order and have different keys."""
    places = {node.key: at for at, node in enumerate(nodes)}
    # A parent precedes its children; any other is lost.
    found = [places.get(node.parent or "", len(nodes)) for node in nodes]
    parents = [parent if parent < at else None for at, parent in enumerate(found)]
    active = _ancestors_of_newest(nodes, parents)
    groups = {nodes[at].joins for at in active} | {""}
    for at, (node, parent) in enumerate(zip(nodes, parents, strict=True)):
        if node.joins is not None and node.joins in groups and parent in active:
            active.add(at)
    abandoned = sum(node.is_message and at not in active for at, node in enumerate(nodes))
    return ActiveBranch(abandoned, {node.key: at in active for at, node in enumerate(nodes)})


def _ancestors_of_newest(nodes: list[TreeNode], parents: list[int | None]) -> set[int]:
    """The places of the newest message and of all before it; from a broken link on, of the newest before the link."""
    active: set[int] = set()
    at = len(nodes) - 1
    while at >= 0:
        if nodes[at].is_message:
            active.add(at)
            while (parent := parents[at]) is not None and parent not in active:
                at = parent
                active.add(at)
            if nodes[at].parent is None and not nodes[at].continues:
                break
        at -= 1
    return active
