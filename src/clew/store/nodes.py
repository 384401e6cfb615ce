"""Nodes of a conversation's map: publishing them with a compaction, reading and checking them.

A node is written once. A publication proves, in the transaction of its compaction, that every message which the new
view does not show is covered by exactly one leaf: nothing becomes visible where that does not hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from clew.errors import InvalidArgument
from clew.store import sessions
from clew.store.base import CompactionEntry, Rows, WrittenMessage
from clew.store.database import (
    Operations,
    Row,
    Steps,
    as_datetime,
    checked_text,
    execute,
    execute_many,
    fetch_all,
    fetch_in_parts,
    fetch_number,
    fetch_one,
    json_text,
    json_value,
    read_json,
    reads,
    writes,
)
from clew.store.history import base_in_effect, parts_of, segments_of, undo_entry
from clew.store.migrate import schema_version
from clew.store.sessions import SessionRow

LEFT_OUT = "left_out"
"""The key, in the details of a compaction, of rows that are not sent because no provider accepts them."""
_FIRST_WITH_NODES = 6
"""The schema that has the tables. A database that cannot be written keeps an older one."""
_COLUMNS = (
    "n.id, n.name, n.depth, n.first, n.last, n.body, n.tokens, n.covered_tokens, n.written_by, n.template,"
    " n.is_final, (SELECT o.name FROM nodes o WHERE o.id = n.replaces), n.at"
)
# Edges are followed without joining equal ones, so that a leaf that is reached twice is seen twice.
_LEAVES = (
    "WITH RECURSIVE below (id, steps) AS ("
    "SELECT node, 0 FROM entry_nodes WHERE entry = ?"
    " UNION ALL SELECT e.child, b.steps + 1 FROM node_edges e JOIN below b ON e.parent = b.id WHERE b.steps < 64"
    ") SELECT n.first, n.last, n.conversation FROM below b JOIN nodes n ON n.id = b.id"
    " WHERE NOT EXISTS (SELECT 1 FROM node_edges e WHERE e.parent = n.id) ORDER BY n.first, n.last"
)
# What this compaction and those before it left out.
_LEFT_OUT = (
    "WITH RECURSIVE chain (id) AS (SELECT CAST(? AS BIGINT)"
    " UNION SELECT e.previous FROM entries e JOIN chain c ON e.id = c.id WHERE e.previous IS NOT NULL"
    ") SELECT e.account FROM entries e JOIN chain c ON e.id = c.id WHERE e.account LIKE ?"
)
# The next number of each conversation.
_ENDS = (
    "SELECT c.id, coalesce((SELECT max(m.seq) + 1 FROM messages m WHERE m.conversation = c.id), c.origin_seq)"
    " FROM conversations c"
)
_INSERT = (
    "INSERT INTO nodes (conversation, name, depth, first, last, body, tokens, covered_tokens, written_by, template,"
    " is_final, replaces, entry, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node to store: a summary of the messages `first` to `last` (not included)."""

    name: str
    depth: int
    """0: over messages; otherwise one more than the deepest of its children."""
    first: int
    last: int
    text: str
    tokens: int
    covered_tokens: int
    """The size of the messages that it represents."""
    written_by: str
    template: str
    is_final: bool
    """False: written without a model, to be written again by one."""
    children: tuple[str, ...] = ()
    """The nodes that it was made from, oldest first; none for a leaf."""
    replaces: str | None = None
    """The provisional node of the same stretch that this one is a better text for."""


@dataclass(frozen=True, slots=True)
class StoredNode(NewNode):
    """A node as the store has it."""

    at: datetime = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class NodePublication:
    """What a compaction publishes beside its view: new nodes, and all that the view now shows, oldest first."""

    new: tuple[NewNode, ...]
    shown: tuple[str, ...]


def publish(found: SessionRow, entry: int, made: CompactionEntry, nodes: NodePublication, now: int) -> Steps[None]:
    """Store what a compaction publishes; `InvalidArgument` where a message would be covered by no leaf, or by two."""
    ids = yield from _insert(found, entry, nodes.new, [*nodes.shown, *_named(nodes.new)], now)
    shown = [(entry, position, ids[name]) for position, name in enumerate(nodes.shown) if name in ids]
    if len(shown) < len(nodes.shown):
        raise InvalidArgument(f"the view shows {sorted(set(nodes.shown) - ids.keys())[:5]}, which are no nodes")
    yield from execute_many("INSERT INTO entry_nodes (entry, position, node) VALUES (?, ?, ?)", shown)
    yield from _require_coverage(found, entry, made)


def inherit(found: SessionRow, entry: int, made: CompactionEntry) -> Steps[None]:
    """Show the nodes of the compaction before this one, which folded nothing: its view still has their map."""
    if not (yield from has_nodes()):
        return
    copied = yield from fetch_all("SELECT position, node FROM entry_nodes WHERE entry = ?", made.base)
    if copied:
        rows = [(entry, position, node) for position, node in copied]
        yield from execute_many("INSERT INTO entry_nodes (entry, position, node) VALUES (?, ?, ?)", rows)
        yield from _require_coverage(found, entry, made)


def _require_coverage(found: SessionRow, entry: int, made: CompactionEntry) -> Steps[None]:
    problem = yield from coverage_problem(found, entry, made)
    if problem:
        raise InvalidArgument(f"the nodes of this compaction cannot be published: {problem}")


def _named(nodes: Iterable[NewNode]) -> list[str]:
    return [name for node in nodes for name in (*node.children, *([node.replaces] if node.replaces else []))]


def _insert(
    found: SessionRow, entry: int | None, new: Sequence[NewNode], named: Sequence[str], now: int
) -> Steps[dict[str, int]]:
    """Store nodes, children before their parents; the ids of these and of the nodes that are named."""
    own = {node.name for node in new}
    ids = yield from _ids_of(found, [name for name in named if name not in own])
    for node in sorted(new, key=lambda node: node.depth):
        _check_node(node)
        missing = [name for name in _named([node]) if name not in ids]
        if missing:
            raise InvalidArgument(f"node {node.name!r} refers to {missing[:5]}, which are no nodes of its conversation")
        row = (
            found.conversation,
            checked_text(node.name, "node name"),
            node.depth,
            node.first,
            node.last,
            json_text(node.text),
            node.tokens,
            node.covered_tokens,
            node.written_by,
            node.template,
            int(node.is_final),
            None if node.replaces is None else ids[node.replaces],
            entry,
            now,
        )
        made = yield from fetch_one(_INSERT + " ON CONFLICT (conversation, name) DO NOTHING RETURNING id", *row)
        if made is None:
            raise InvalidArgument(f"there is a node {node.name!r} already, and a node never changes")
        ids[node.name] = int(made[0])
        edges = [(ids[node.name], position, ids[child]) for position, child in enumerate(node.children)]
        yield from execute_many("INSERT INTO node_edges (parent, position, child) VALUES (?, ?, ?)", edges)
    return ids


def _check_node(node: NewNode) -> None:
    if not 0 <= node.first < node.last or bool(node.children) != (node.depth > 0):
        raise InvalidArgument(
            f"node {node.name!r} of depth {node.depth} over {node.first} to {node.last} has {len(node.children)} "
            "children",
            remedy="a leaf covers messages and has no parts, a deeper node has some",
        )


def coverage_problem(found: SessionRow, entry: int, made: CompactionEntry) -> Steps[str]:
    """Why the nodes of a compaction do not represent exactly the messages that it does not show; empty if they do."""
    leaves = yield from fetch_all(_LEAVES, entry)
    left_out = yield from _left_out(entry)
    if not leaves:
        return _uncovered(made, 0, 0, left_out)
    stops = {segment.conversation: segment.stop for segment in (yield from segments_of(found))}
    for first, last, conversation in leaves:
        stop = stops.get(conversation, 0)
        if stop is not None and last > stop:
            return f"the leaf over {first} to {last} is of another conversation"
    for before, after in itertools.pairwise(leaves):
        if before[1] != after[0]:
            what = "by no leaf" if before[1] < after[0] else "by two leaves"
            return f"messages {min(before[1], after[0])} to {max(before[1], after[0])} are covered {what}"
    return _uncovered(made, int(leaves[0][0]), int(leaves[-1][1]), left_out)


def _left_out(entry: int) -> Steps[set[int]]:
    accounts = [read_json(row[0]) for row in (yield from fetch_all(_LEFT_OUT, entry, f'%"{LEFT_OUT}"%'))]
    details = [account.get("details") for account in accounts if isinstance(account, dict)]
    return {seq for each in details if isinstance(each, dict) for seq in each.get(LEFT_OUT, ()) if type(seq) is int}


def _uncovered(made: CompactionEntry, first: int, last: int, left_out: set[int]) -> str:
    """The messages before or after the covered ones that are neither in the view nor left out of it."""
    if last > made.until:
        return f"messages up to {last} are covered, and the compaction was made from those below {made.until}"
    shown = [(first, last), *((seq, seq + 1) for seq in left_out)]
    for item in made.view:
        if isinstance(item, Rows):
            shown.append((item.start, item.stop))
        elif item.seq is not None:
            shown.append((item.seq, item.seq + 1))
    reached = 0
    for start, stop in sorted(shown):
        if start > reached:
            return f"messages {reached} to {start} are neither in the view nor covered by a leaf"
        reached = max(reached, stop)
    return "" if reached >= made.until else f"messages {reached} to {made.until} are neither in the view nor covered"


def read_nodes(found: SessionRow, names: Sequence[str] | None = None) -> Steps[list[StoredNode]]:
    """The nodes of a conversation, those that it shares as a branch included, in the order of what they cover.

    With `names` those of them that there are; a branch's own before an origin's of the same name.
    """
    if not (yield from has_nodes()):
        return []
    kept: dict[str, Row] = {}
    for row in (yield from _of_conversation(found, _COLUMNS, names)):
        kept[row[1]] = row
    rows = sorted(kept.values(), key=lambda row: (row[3], -row[4], row[0]))
    return (yield from _stored(rows, found.session.id))


def has_nodes() -> Steps[bool]:
    return (yield from schema_version()) >= _FIRST_WITH_NODES


def _ids_of(found: SessionRow, names: Sequence[str]) -> Steps[dict[str, int]]:
    return {name: int(id) for name, id in (yield from _of_conversation(found, "n.name, n.id", names))}


def _of_conversation(found: SessionRow, columns: str, names: Sequence[str] | None) -> Steps[list[Row]]:
    """Columns of the nodes of a conversation, those of its origins first; with `names` only of these."""
    where = f"SELECT {columns} FROM nodes n WHERE n.conversation = ? AND n.last <= ?"  # noqa: S608 (fixed texts)
    rows: list[Row] = []
    for conversation, _, stop in parts_of((yield from segments_of(found))):
        if names is None:
            rows += yield from fetch_all(where, conversation, stop)
        else:
            rows += yield from fetch_in_parts(where, "n.name", names, conversation, stop)
    return rows


def _stored(rows: Sequence[Row], session: str) -> Steps[list[StoredNode]]:
    edges = yield from fetch_in_parts(
        "SELECT e.parent, e.position, c.name FROM node_edges e JOIN nodes c ON c.id = e.child WHERE 1 = 1",
        "e.parent",
        [row[0] for row in rows],
    )
    children: dict[int, list[tuple[int, str]]] = {}
    for parent, position, name in edges:
        children.setdefault(parent, []).append((position, name))
    return [_node(row, children, session) for row in rows]


def _node(row: Row, children: Mapping[int, list[tuple[int, str]]], session: str) -> StoredNode:
    text = json_value(row[5], f"node {row[1]!r} of session {session!r}", session)
    below = tuple(name for _, name in sorted(children.get(row[0], ())))
    *written, is_final, replaces, at = row[6:]
    fields = (*row[1:5], str(text), *written, bool(is_final), below, replaces)
    return StoredNode(*fields, at=as_datetime(at))


def check_nodes() -> Steps[list[str]]:
    """What is wrong with nodes: edges to what is not there, parts that do not add up to what a node represents, and
    messages that are not there to be opened."""
    if not (yield from has_nodes()):
        return []
    problems: list[str] = []
    nodes = yield from fetch_all("SELECT id, conversation, name, depth, first, last FROM nodes ORDER BY id")
    edges = yield from fetch_all("SELECT parent, child FROM node_edges ORDER BY parent, position")
    ends: dict[int, int] = {row[0]: row[1] for row in (yield from fetch_all(_ENDS))}
    by_id = {row[0]: row for row in nodes}
    children: dict[int, list[int]] = {}
    for parent, child in edges:
        if parent not in by_id or child not in by_id:
            problems.append(f"an edge joins node {parent} and node {child}, of which one is not there")
        else:
            children.setdefault(parent, []).append(child)
    for row in nodes:
        what = f"node {row[2]!r} of conversation {row[1]}"
        stretches = [(by_id[child][4], by_id[child][5]) for child in children.get(row[0], ())]
        if bool(stretches) != (row[3] > 0):
            problems.append(f"{what} has depth {row[3]} and {len(stretches)} parts")
        elif stretches and not _tile(stretches, row[4], row[5]):
            problems.append(f"{what} covers {row[4]} to {row[5]}, and its parts do not")
        elif row[5] > ends.get(row[1], 0):
            problems.append(f"{what} covers messages up to {row[5] - 1}, and there are {ends.get(row[1], 0)}")
    return problems


def broken_maps() -> Steps[list[tuple[SessionRow, str]]]:
    """The conversations whose view does not show or cover every message, each by a session of it, and what is wrong."""
    if not (yield from has_nodes()):
        return []
    broken: list[tuple[SessionRow, str]] = []
    names = yield from fetch_all(
        "SELECT name FROM sessions WHERE id IN (SELECT max(id) FROM sessions GROUP BY conversation) ORDER BY id"
    )
    for (name,) in names:
        found = yield from sessions.find(name)
        base = yield from base_in_effect(found)
        row = None if base is None else (yield from fetch_one("SELECT until, view FROM entries WHERE id = ?", base))
        shows_nodes = yield from fetch_number("SELECT count(*) FROM entry_nodes WHERE entry = ?", base)
        items = None if row is None else read_json(row[1])
        if base is None or row is None or not shows_nodes or not isinstance(items, list):
            continue
        view = [
            Rows(*item) if isinstance(item, list) else WrittenMessage({"role": "user"}, item["seq"]) for item in items
        ]
        made = CompactionEntry(tuple(view), None, None, int(row[0]))
        problem = yield from coverage_problem(found, base, made)
        if problem:
            broken.append((found, f"the map of session {name!r} does not hold: {problem}"))
    return broken


def _tile(stretches: Sequence[tuple[int, int]], first: int, last: int) -> bool:
    ends = [first, *(stop for _, stop in stretches)]
    return ends[-1] == last and all(start == end for (start, _), end in zip(stretches, ends, strict=False))


def remove_nodes(conversation: int) -> Steps[None]:
    """Delete the nodes of a conversation, with everything that refers to them."""
    entries = "(SELECT id FROM entries WHERE conversation = ?)"
    yield from execute(f"DELETE FROM entry_nodes WHERE entry IN {entries}", conversation)  # noqa: S608 (fixed text)
    yield from execute(
        "DELETE FROM node_edges WHERE parent IN (SELECT id FROM nodes WHERE conversation = ?)", conversation
    )
    yield from execute("DELETE FROM nodes WHERE conversation = ?", conversation)


class NodeStore(Operations):
    """The nodes in a database."""

    @reads
    def nodes(
        self, session: str, names: Sequence[str] | None = None, *, owner: str | None = None
    ) -> Steps[list[StoredNode]]:
        """The nodes of a session's conversation in the order of what they cover; with `names` those that there are."""
        return (yield from read_nodes((yield from sessions.find(session, owner)), names))

    @reads
    def shown_nodes(self, session: str, *, owner: str | None = None) -> Steps[list[StoredNode]]:
        """The nodes that the view of a session's conversation shows now, oldest first."""
        found = yield from sessions.find(session, owner)
        base = yield from base_in_effect(found)
        if base is None or not (yield from has_nodes()):
            return []
        rows = yield from fetch_all(
            f"SELECT {_COLUMNS} FROM entry_nodes x JOIN nodes n ON n.id = x.node"  # noqa: S608 (fixed text)
            " WHERE x.entry = ? ORDER BY x.position",
            base,
        )
        return (yield from _stored(rows, found.session.id))

    @writes
    def undo_broken_maps(self) -> Steps[list[str]]:
        """Take compactions out of effect whose map does not hold, until one does or none is left; what was wrong.

        Nothing is lost: the messages that they folded are in view again.
        """
        problems: list[str] = []
        while broken := (yield from broken_maps()):
            for found, problem in broken:
                problems.append(problem)
                base = yield from base_in_effect(found)
                row = yield from fetch_one("SELECT previous, until FROM entries WHERE id = ?", base)
                assert row is not None and base is not None
                yield from undo_entry(found, base, row[0], row[1], self._now())
        return problems

    @writes
    def replace_node(self, session: str, node: NewNode, *, owner: str | None = None) -> Steps[bool]:
        """Store a better text for a provisional node, of which the view shows the former until the next compaction.

        False where another process was quicker.
        """
        found = yield from sessions.find(session, owner)
        named = [it for it in (node.replaces, *node.children) if it is not None]
        known = {it.name: it for it in (yield from read_nodes(found, named))}
        old = known.get(node.replaces or "")
        if old is None or (old.first, old.last, old.depth) != (node.first, node.last, node.depth):
            raise InvalidArgument(
                f"node {node.name!r} has another stretch or depth than {node.replaces!r}, or that is none"
            )
        taken = yield from read_nodes(found, [node.name])
        if not taken:
            yield from _insert(found, None, [node], named, self._now())
        return not taken
