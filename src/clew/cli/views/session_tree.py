"""Conversations as trees of sessions, read from the store and drawn: `clew sessions tree` and `/tree` in a chat.

A chain runs straight down however often it was compacted; only branches and subagents are indented.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clew.cli.console import Console
from clew.cli.store_access import NO_LIMIT, SessionRange, find_session, session_range, short_ids
from clew.cli.views.amounts import format_time, plural
from clew.cli.views.sessions import compaction_json, folded_range, message_preview, session_json, token_change
from clew.cli.views.tables import page_width, print_lines
from clew.cli.views.text import clip, display_width, printable, whole_facts, wrap
from clew.store import CommittedCompaction, Session, Store

MAX_DEPTH = 30
"""How far branches of branches are drawn."""
INDENT = 3


@dataclass(frozen=True, slots=True)
class SessionNode:
    """A session of a chain, the compaction it began with, and the chains that branched off from it."""

    session: Session
    span: SessionRange
    compaction: CommittedCompaction | None
    children: tuple[SessionChain, ...]


@dataclass(frozen=True, slots=True)
class SessionChain:
    """The sessions of one conversation, oldest first."""

    nodes: tuple[SessionNode, ...]
    first_message: str = ""

    @property
    def title(self) -> str | None:
        return next((node.session.title for node in reversed(self.nodes) if node.session.title), None)

    @property
    def session_ids(self) -> Iterator[str]:
        """Of the chain and all below it."""
        for node in self.nodes:
            yield node.session.id
            for child in node.children:
                yield from child.session_ids

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                **session_json(node.session),
                "messages": node.span.count,
                "compaction": None if node.compaction is None else compaction_json(node.compaction),
                "children": [chain.as_json() for chain in node.children],
            }
            for node in self.nodes
        ]


@dataclass(frozen=True, slots=True)
class SessionForest:
    """Trees, newest first, and how many more there are."""

    trees: tuple[SessionChain, ...]
    more: int
    all_ids: tuple[str, ...] = ()
    """Of every session in the store, so that short ids mean one of them."""

    def short_ids(self) -> dict[str, str]:
        return short_ids((each for tree in self.trees for each in tree.session_ids), self.all_ids)

    def as_json(self) -> dict[str, Any]:
        return {"trees": [tree.as_json() for tree in self.trees], "more": self.more}


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SessionIndex:
    """Every session of a store, by conversation and by parent."""

    chains: Mapping[int, list[Session]]
    children: Mapping[str, list[int]]
    """The conversations that branched off from a session."""


async def read_trees(store: Store, name: str | None, limit: int) -> SessionForest:
    """The tree that holds a session, or the newest trees."""
    every = list(reversed(await store.list_sessions(limit=NO_LIMIT)))
    index = _index_sessions(every)
    by_id = {each.id: each for each in every}
    if name is not None:
        root = _root_of(await find_session(store, name), by_id)
        return SessionForest((await _read_chain(store, root.conversation, index, 0),), 0, tuple(by_id))
    roots = [chain[0] for chain in index.chains.values() if chain[0].parent_session_id not in by_id]
    newest = [session.conversation for session in reversed(roots)]
    trees = [await _read_chain(store, conversation, index, 0) for conversation in newest[:limit]]
    return SessionForest(tuple(trees), max(0, len(newest) - limit), tuple(by_id))


def _index_sessions(every: list[Session]) -> _SessionIndex:
    chains: dict[int, list[Session]] = {}
    for session in every:
        chains.setdefault(session.conversation, []).append(session)
    children: dict[str, list[int]] = {}
    for conversation, chain in chains.items():
        if chain[0].parent_session_id is not None:
            children.setdefault(chain[0].parent_session_id, []).append(conversation)
    return _SessionIndex(chains, children)


def _root_of(session: Session, by_id: Mapping[str, Session]) -> Session:
    seen: set[str] = set()
    while session.parent_session_id in by_id and session.id not in seen:
        seen.add(session.id)
        session = by_id[str(session.parent_session_id)]
    return session


async def _read_chain(store: Store, conversation: int, index: _SessionIndex, depth: int) -> SessionChain:
    sessions = index.chains[conversation]
    compactions: dict[str, CommittedCompaction] = {}
    if len(sessions) > 1:
        compactions = {each.session: each for each in await store.compactions(sessions[-1].id, keep_damaged=True)}
    nodes = []
    for session in sessions:
        below = index.children.get(session.id, []) if depth < MAX_DEPTH else []
        children = [await _read_chain(store, each, index, depth + 1) for each in below]
        span = await session_range(store, session, sessions)
        nodes.append(SessionNode(session, span, compactions.get(session.id), tuple(children)))
    first = await store.messages(sessions[0].id, 0, 1, keep_damaged=True)
    return SessionChain(tuple(nodes), message_preview(first[0].message) if first else "(empty)")


# -- drawing -----------------------------------------------------------------------------------------------------------


def print_trees(forest: SessionForest, console: Console) -> None:
    if not forest.trees:
        console.print("There are no sessions yet.")
    drawing = TreeDrawing(forest.short_ids(), console)
    for number, tree in enumerate(forest.trees):
        if number:
            console.print()
        drawing.print(tree)
    if forest.more:
        console.note(f"not shown: {plural(forest.more, 'older tree')}; --limit N shows more, or name a session")


@dataclass(frozen=True, slots=True)
class TreeDrawing:
    """How a tree is drawn: with short ids, on a console. `ChatTreeDrawing` draws the same for a chat."""

    ids: Mapping[str, str]
    console: Console

    def print(self, tree: SessionChain) -> None:
        room = page_width(self.console)
        print_lines([self.console.style(clip(printable(tree.title or tree.first_message), room), "bold")], self.console)
        print_lines(self._chain_lines(tree, room), self.console)

    def _chain_lines(self, chain: SessionChain, room: int) -> Iterator[str]:
        """The sessions of a chain; what branched off from one stands below it, before the chain goes on."""
        dot, down, bar, fork = ("●", "▼", "│", "├─ ") if self.console.unicode else ("o", "v", "|", "+- ")
        last = chain.nodes[-1]
        for number, node in enumerate(chain.nodes):
            for first, text in enumerate(self.compaction_texts(node) if number else ()):
                for row, line in enumerate(wrap(text, room - 2)):
                    yield self.console.style(f"{bar if first or row else down} {line}", "magenta")
            yield f"{dot} {self.session_line(node, node is last and number > 0, room - 2)}"
            for child in node.children:
                yield bar
                origin = child.nodes[0].session
                at = f" at m{origin.first_seq}" if origin.kind == "branch" else ""
                title = f": {origin.title}" if origin.title and origin.title != chain.title else ""
                label = clip(printable(f"{origin.kind}{at}{title}"), room - INDENT)
                yield fork + self.console.style(label, "bold")
                yield from (f"{bar}  {line}" for line in self._chain_lines(child, room - INDENT))
            if node.children and node is not last:
                yield bar

    def compaction_texts(self, node: SessionNode) -> Iterator[str]:
        """What lies between a session and its continuation."""
        each = node.compaction
        if each is None:
            yield "continued"
        else:
            state = "" if each.is_in_effect else ", undone"
            yield f"{folded_range(each)} folded, {token_change(each, self.console)}{state}"

    def session_line(self, node: SessionNode, is_newest: bool, room: int) -> str:
        session, span = node.session, node.span
        facts = [f"{span.numbers or 'empty':<11}", f"{plural(span.count, 'message'):<14}", format_time(span.updated)]
        facts += [fact for fact in ("newest" if is_newest else "", session.source, session.model) if fact]
        name = printable(self.ids[session.id])
        line = whole_facts(map(printable, facts), room - display_width(name) - 2)
        return self.console.style(name, "cyan") + (f"  {line}" if line else "")
