"""The part of the store's contract that a map relies on: nodes are published with a proof, and never change."""

from __future__ import annotations

import pytest

from clew.errors import InvalidArgument
from clew.store import (
    CompactionEntry,
    NewNode,
    NewSession,
    NodePublication,
    Rows,
    Store,
    UnknownSession,
    WrittenMessage,
    open_store,
)
from clew.testing.messages import assistant, user


def leaf(first: int, last: int, name: str = "", **more: object) -> NewNode:
    """A leaf over the messages `first` to `last` (not included)."""
    values = {"is_final": True, **more}
    return NewNode(name or f"n{first}-{last - 1}", 0, first, last, f"about {first}", 5, 50, "m", "t/1", **values)  # type: ignore[arg-type]


def above(*children: NewNode, name: str = "", depth: int = 1) -> NewNode:
    """A node over others."""
    first, last = children[0].first, children[-1].last
    names = tuple(child.name for child in children)
    return NewNode(name or f"n{first}-{last - 1}", depth, first, last, "about all", 5, 100, "m", "t/1", True, names)


def shown_from(first: int, until: int) -> CompactionEntry:
    """A view of a map and the messages from a number on."""
    return CompactionEntry((WrittenMessage(user("the map")), Rows(first, until)), user("new nodes"), None, until)


async def talk(store: Store, session: str = "s", count: int = 10, owner: str = "") -> None:
    await store.start_session(NewSession(id=session, owner=owner) if owner else NewSession(id=session))
    await store.append(session, [(user if n % 2 == 0 else assistant)(f"walrus {n}") for n in range(count)])


class NodeContract:
    async def test_nodes_are_published_with_their_compaction_and_read_back(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            one, two = leaf(0, 4), leaf(4, 8, is_final=False)
            top = above(one, two)
            made = await store.commit_compaction(
                "s", shown_from(8, 10), nodes=NodePublication((top, one, two), (top.name,))
            )
            assert [(it.name, it.depth, it.first, it.last) for it in await store.shown_nodes(made.id)] == [
                ("n0-7", 1, 0, 8)
            ]
            stored = {it.name: it for it in await store.nodes(made.id)}
            assert set(stored) == {"n0-7", "n0-3", "n4-7"}
            assert stored["n0-7"].children == ("n0-3", "n4-7")
            assert (stored["n4-7"].text, stored["n4-7"].is_final) == ("about 4", False)
            assert [it.name for it in await store.nodes(made.id, ["n4-7", "no such"])] == ["n4-7"]
            assert await store.check() == []

    @pytest.mark.parametrize(
        ("nodes", "first", "problem"),
        [
            ([leaf(0, 4), leaf(5, 8)], 8, "4 to 5 are covered by no leaf"),
            ([leaf(0, 5), leaf(4, 8)], 8, "4 to 5 are covered by two leaves"),
            ([leaf(0, 4), leaf(4, 7)], 8, "7 to 8 are neither"),
            ([leaf(1, 4), leaf(4, 8)], 8, "0 to 1 are neither"),
            ([leaf(0, 4), leaf(4, 20)], 8, "up to 20 are covered"),
        ],
    )
    async def test_a_map_that_leaves_a_message_out_or_has_one_twice_is_refused_whole(
        self, store_url: str, nodes: list[NewNode], first: int, problem: str
    ) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            shown = tuple(node.name for node in nodes)
            with pytest.raises(InvalidArgument, match=problem):
                await store.commit_compaction("s", shown_from(first, 10), nodes=NodePublication(tuple(nodes), shown))
            assert await store.nodes("s") == [] and await store.compactions("s") == []
            assert await store.get_compression_tip("s") == "s"
            assert len((await store.view("s")).messages) == 10

    async def test_parts_that_do_not_add_up_are_refused(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            one, two = leaf(0, 4), leaf(4, 8)
            wrong = NewNode("n0-7", 1, 0, 8, "x", 1, 9, "m", "t", True, (one.name,))
            with pytest.raises(InvalidArgument, match="4 to 8"):
                await store.commit_compaction("s", shown_from(8, 10), nodes=NodePublication((one, wrong), ("n0-7",)))
            for broken in (leaf(3, 3), NewNode("n0-7", 0, 0, 8, "x", 1, 9, "m", "t", True, (one.name,))):
                with pytest.raises(InvalidArgument):
                    publication = NodePublication((one, two, broken), (one.name, two.name))
                    await store.commit_compaction("s", shown_from(8, 10), nodes=publication)
            with pytest.raises(InvalidArgument, match="no nodes"):
                await store.commit_compaction("s", shown_from(8, 10), nodes=NodePublication((), ("n9-9",)))
            assert await store.nodes("s") == []

    async def test_a_row_that_stays_in_view_may_be_covered_as_well(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            items = (WrittenMessage(user("the map")), Rows(2, 3), WrittenMessage(user("short"), 8), Rows(9, 10))
            entry = CompactionEntry(items, None, None, 10)
            made = await store.commit_compaction("s", entry, nodes=NodePublication((leaf(0, 8),), ("n0-7",)))
            assert len((await store.view(made.id)).messages) == 4
            assert await store.check() == []

    async def test_undo_brings_the_former_view_back_and_keeps_the_nodes(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            made = await store.commit_compaction(
                "s", shown_from(8, 10), nodes=NodePublication((leaf(0, 8),), ("n0-7",))
            )
            await store.undo(made.id)
            assert len((await store.view(made.id)).messages) == 10
            assert await store.shown_nodes(made.id) == []
            assert [it.name for it in await store.nodes(made.id)] == ["n0-7"]
            assert await store.check() == []

    async def test_a_compaction_that_folds_nothing_still_shows_the_map(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            publication = NodePublication((leaf(0, 8),), ("n0-7",))
            made = await store.commit_compaction("s", shown_from(8, 10), nodes=publication)
            base = (await store.view(made.id)).base
            items = (WrittenMessage(user("the map")), WrittenMessage(user("without its picture"), 8), Rows(9, 10))
            smaller = await store.commit_compaction(made.id, CompactionEntry(items, None, base, 10))
            assert [it.name for it in await store.shown_nodes(smaller.id)] == ["n0-7"]
            lost = CompactionEntry((items[0], Rows(9, 10)), None, (await store.view(smaller.id)).base, 10)
            with pytest.raises(InvalidArgument, match="8 to 9 are neither"):
                await store.commit_compaction(smaller.id, lost)
            assert await store.check() == []

    async def test_a_map_without_nodes_must_show_every_message(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            with pytest.raises(InvalidArgument, match="0 to 8 are neither"):
                await store.commit_compaction("s", shown_from(8, 10), nodes=NodePublication((), ()))

    async def test_a_node_is_never_written_again(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            made = await store.commit_compaction(
                "s", shown_from(8, 10), nodes=NodePublication((leaf(0, 8),), ("n0-7",))
            )
            await store.undo(made.id)
            with pytest.raises(InvalidArgument, match="never changes"):
                await store.commit_compaction(
                    made.id, shown_from(8, 10), nodes=NodePublication((leaf(0, 8),), ("n0-7",))
                )

    async def test_a_better_text_stands_beside_the_provisional_one(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            old = leaf(0, 8, is_final=False)
            made = await store.commit_compaction("s", shown_from(8, 10), nodes=NodePublication((old,), (old.name,)))
            new = leaf(0, 8, "n0-7b", replaces="n0-7")
            assert await store.replace_node(made.id, new)
            assert not await store.replace_node(made.id, new)
            assert {it.name: it.replaces for it in await store.nodes(made.id)} == {"n0-7": None, "n0-7b": "n0-7"}
            assert [it.name for it in await store.shown_nodes(made.id)] == ["n0-7"]
            with pytest.raises(InvalidArgument, match="another stretch"):
                await store.replace_node(made.id, leaf(0, 7, "n0-6", replaces="n0-7"))
            assert await store.check() == []

    async def test_a_branch_shares_the_nodes_below_its_fork_and_goes_on_with_its_own(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            one = leaf(0, 4)
            made = await store.commit_compaction("s", shown_from(4, 10), nodes=NodePublication((one,), (one.name,)))
            branch = await store.branch(made.id, 10)
            await store.append(branch.id, [user("walrus of the branch")])
            await store.append(made.id, [user("walrus of the trunk")])
            for session in (branch.id, made.id):
                view = await store.view(session)
                two = leaf(4, 8)
                await store.commit_compaction(
                    session,
                    CompactionEntry((WrittenMessage(user("map")), Rows(8, 11)), None, view.base, 11),
                    nodes=NodePublication((two,), (one.name, two.name)),
                )
            for session in (branch.id, made.id):
                tip = await store.get_compression_tip(session)
                assert [it.name for it in await store.shown_nodes(tip)] == ["n0-3", "n4-7"]
            assert await store.check() == []
            early = await store.branch("s", 3)
            assert await store.nodes(early.id) == []

    async def test_nodes_go_with_their_conversation_and_with_nothing_else(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store)
            await talk(store, "other")
            one, two = leaf(0, 4), leaf(4, 8)
            top = above(one, two)
            for session in ("s", "other"):
                await store.commit_compaction(
                    session, shown_from(8, 10), nodes=NodePublication((one, two, top), (top.name,))
                )
            await store.delete("s")
            assert len(await store.nodes(await store.get_compression_tip("other"))) == 3
            assert await store.check() == []

    async def test_another_owners_nodes_are_as_unknown_as_the_session(self, store_url: str) -> None:
        async with open_store(store_url) as store:
            await talk(store, owner="keeper")
            await store.commit_compaction("s", shown_from(8, 10), nodes=NodePublication((leaf(0, 8),), ("n0-7",)))
            assert len(await store.nodes("s", owner="keeper")) == 1
            with pytest.raises(UnknownSession):
                await store.nodes("s", owner="stranger")
            with pytest.raises(UnknownSession):
                await store.shown_nodes("s", owner="stranger")
            with pytest.raises(UnknownSession):
                await store.replace_node("s", leaf(0, 8, "n0-7b", replaces="n0-7"), owner="stranger")
