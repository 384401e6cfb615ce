"""`clew sessions tree`: conversations as chains of sessions, with what branched off, read from the store and drawn.

A chain runs straight down however often it was compacted; only branches and subagents are indented.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from clew.cli.amounts import counted
from clew.cli.moments import shown
from clew.cli.output import Console, clipped, columns, printable
from clew.cli.session_lookup import EVERY_ONE, Stretch, find_session, short_ids, stretch_of
from clew.cli.sessions_view import compaction_json, folded, said, session_json, sizes
from clew.store import Compaction, Session, Store

DEEPEST = 30
"""How far branches of branches are drawn."""


@dataclass(frozen=True, slots=True)
class Link:
    """A session of a chain, the compaction it began with, and what went off from it."""

    session: Session
    stretch: Stretch
    compaction: Compaction | None
    children: tuple[Chain, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """The sessions of one conversation, oldest first."""

    links: tuple[Link, ...]
    opening: str = ""
    """What was said first, for a chain without a title."""

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                **session_json(link.session),
                "messages": link.stretch.count,
                "compaction": None if link.compaction is None else compaction_json(link.compaction),
                "children": [chain.as_json() for chain in link.children],
            }
            for link in self.links
        ]


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees, newest first, and how many more there are."""

    trees: tuple[Chain, ...]
    more: int
    every: tuple[str, ...] = ()
    """The ids of all sessions, among which those of the trees must stay apart."""

    def as_json(self) -> dict[str, Any]:
        return {"trees": [tree.as_json() for tree in self.trees], "more": self.more}


@dataclass(frozen=True, slots=True)
class _Known:
    """Every session of a store, by conversation and by parent."""

    chains: Mapping[int, list[Session]]
    children: Mapping[str, list[int]]
    """The conversations that went off from a session."""


async def read_forest(store: Store, name: str | None, limit: int) -> Forest:
    """The tree that holds a session, or the newest trees."""
    every = list(reversed(await store.list_sessions(limit=EVERY_ONE)))
    known = _known(every)
    if name is not None:
        root = _root_of(await find_session(store, name), {each.id: each for each in every})
        return Forest((await _chain(store, root.conversation, known, 0),), 0, tuple(it.id for it in every))
    ids = {each.id for each in every}
    roots = [chain[0] for chain in known.chains.values() if chain[0].parent_session_id not in ids]
    newest = [session.conversation for session in reversed(roots)]
    trees = [await _chain(store, conversation, known, 0) for conversation in newest[:limit]]
    return Forest(tuple(trees), max(0, len(newest) - limit), tuple(ids))


def say_forest(forest: Forest, console: Console) -> None:
    """The trees for people."""
    if not forest.trees:
        console.say("There are no sessions yet.")
    shown_ids = (session.id for tree in forest.trees for session in _sessions_in(tree))
    ids = short_ids(shown_ids, forest.every)
    for number, tree in enumerate(forest.trees):
        if number:
            console.say()
        for line in _drawn(tree, ids, console):
            console.say(f"  {line}".rstrip())
    if forest.more:
        console.note(f"not shown: {counted(forest.more, 'older tree')}; --limit N shows more, or name a session")


def _known(every: list[Session]) -> _Known:
    chains: dict[int, list[Session]] = {}
    for session in every:
        chains.setdefault(session.conversation, []).append(session)
    children: dict[str, list[int]] = {}
    for conversation, chain in chains.items():
        if chain[0].parent_session_id is not None:
            children.setdefault(chain[0].parent_session_id, []).append(conversation)
    return _Known(chains, children)


def _root_of(session: Session, by_id: Mapping[str, Session]) -> Session:
    seen: set[str] = set()
    while session.parent_session_id in by_id and session.id not in seen:
        seen.add(session.id)
        session = by_id[str(session.parent_session_id)]
    return session


async def _chain(store: Store, conversation: int, known: _Known, depth: int) -> Chain:
    sessions = known.chains[conversation]
    made: dict[str, Compaction] = {}
    if len(sessions) > 1:
        made = {each.session: each for each in await store.compactions(sessions[-1].id)}
    links = []
    for session in sessions:
        below = known.children.get(session.id, []) if depth < DEEPEST else []
        children = [await _chain(store, each, known, depth + 1) for each in below]
        stretch = await stretch_of(store, session, sessions)
        links.append(Link(session, stretch, made.get(session.id), tuple(children)))
    first = await store.messages(sessions[0].id, 0, 1)
    return Chain(tuple(links), said(first[0].message) if first else "(empty)")


def _sessions_in(chain: Chain) -> Iterator[Session]:
    for link in chain.links:
        yield link.session
        for child in link.children:
            yield from _sessions_in(child)


# -- drawing -----------------------------------------------------------------------------------------------------------


def _drawn(chain: Chain, ids: Mapping[str, str], console: Console, indent: int = 0) -> Iterator[str]:
    """The lines of a chain. What went off from a session stands below it, before the chain goes on."""
    dot, down, bar, fork = ("●", "▼", "│", "├─ ") if console.unicode else ("o", "v", "|", "+- ")
    first, last = chain.links[0].session, chain.links[-1].session
    title = next((link.session.title for link in reversed(chain.links) if link.session.title), None)
    room = console.width - 4 - indent
    if not indent:
        yield console.paint(clipped(printable(title or chain.opening), room), "bold")
    for link in chain.links:
        if link.session is not first:
            yield console.paint(clipped(f"{down} {_fold(link, console)}", room), "magenta")
        newest = len(chain.links) > 1 and link.session is last
        yield f"{dot} {_session(link, ids, newest, room - 2, console)}"
        for child in link.children:
            yield bar
            origin = child.links[0].session
            at = f" at m{origin.first_seq}" if origin.kind == "branch" else ""
            called = f": {origin.title}" if origin.title and origin.title != title else ""
            yield fork + console.paint(clipped(printable(f"{origin.kind}{at}{called}"), room - 3), "bold")
            for line in _drawn(child, ids, console, indent + 3):
                yield f"{bar}  {line}"
        if link.children and link.session is not last:
            yield bar


def _fold(link: Link, console: Console) -> str:
    each = link.compaction
    if each is None:
        return "continued"
    state = "" if each.is_in_effect else ", undone"
    return f"{folded(each)} folded, {sizes(each, console)}{state}"


def _session(link: Link, ids: Mapping[str, str], newest: bool, room: int, console: Console) -> str:
    session, stretch = link.session, link.stretch
    numbers = f"m{stretch.first}-m{stretch.stop - 1}" if stretch.count else "empty"
    when = stretch.newest.at if stretch.newest else session.created
    facts = [f"{numbers:<11}", f"{counted(stretch.count, 'message'):<14}", shown(when)]
    facts += [fact for fact in ("newest" if newest else "", session.source, session.model) if fact]
    name, line = printable(ids[session.id]), ""
    for fact in map(printable, facts):
        # Whole facts only: half a date says less than none.
        if columns(name) + columns(line) + columns(fact) + 2 > room:
            break
        line += f"  {fact}"
    return console.paint(name, "cyan") + line
