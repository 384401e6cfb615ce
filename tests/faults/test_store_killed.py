"""SIGKILL at every statement: afterwards all that was acknowledged is there, and nothing is half done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from clew.store import NewSession, Store, UnknownSession, open_store
from clew.testing import user
from tests.support.store_killed import EDITED, FIRST, LATER, SUMMARY, prepare, prepare_compacted, prepare_folded

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")]


class MapAndView(NamedTuple):
    """What a process left: all nodes with their depths, those in view, and what is said in the view."""

    nodes: list[tuple[str, int]]
    shown: list[str]
    said: list[str]


def killed_everywhere(folder: Path, scenario: str, start_from: Path | None) -> list[tuple[Path, list[str]]]:
    """Databases left behind by a process that died at each statement, with what it had acknowledged."""
    command = [sys.executable, "-m", "tests.support.store_killed", str(folder), scenario, str(start_from or "")]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=300)
    points = int(done.stdout.split()[-1])
    assert points > 3
    left = [folder / f"{point:03d}.db" for point in range(1, points + 1)]
    return [(where, acknowledged(where)) for where in left]


def acknowledged(where: Path) -> list[str]:
    acks = where.with_suffix(".acks")
    return acks.read_text().splitlines() if acks.exists() else []


async def said(store: Store, session: str) -> list[str]:
    return [str(it["content"]) for it in (await store.view(session)).messages]


async def check_integrity(store: Store, session: str = "s") -> None:
    """No check fails, search finds every row, and the session can be appended to."""
    assert await store.check() == []
    rows = {stored.seq for stored in await store.messages(session)}
    hits = {hit.seq for hit in (await store.search("walrus", limit=200)).hits if hit.kind == "message"}
    assert rows <= hits
    await store.append(session, [user("life goes on")])
    assert (await said(store, await store.get_compression_tip(session)))[-1] == "life goes on"
    assert await store.check() == []


@pytest.fixture
async def prepared(tmp_path: Path) -> Path:
    await prepare(str(tmp_path / "prepared.db"))
    return tmp_path / "prepared.db"


@pytest.fixture
async def compacted(tmp_path: Path) -> Path:
    await prepare_compacted(str(tmp_path / "compacted.db"))
    return tmp_path / "compacted.db"


async def test_append_loses_no_acknowledged_message_and_no_usage(tmp_path: Path, prepared: Path) -> None:
    for where, acks in killed_everywhere(tmp_path, "append", prepared):
        async with open_store(where) as store:
            kept = (await said(store, "s"))[len(FIRST) :]
            assert kept[: len(acks)] == acks and len(kept) <= len(LATER)
            (total,) = await store.usage()
            assert total.calls == len(kept)
            await check_integrity(store)


async def test_a_branch_is_there_whole_or_not_at_all(tmp_path: Path, prepared: Path) -> None:
    for where, acks in killed_everywhere(tmp_path, "sync", prepared):
        async with open_store(where) as store:
            branches = [it.id for it in await store.list_sessions() if it.kind == "branch"]
            assert len(branches) in ((1,) if acks else (0, 1))
            for branch in branches:
                assert await said(store, branch) == [str(it["content"]) for it in EDITED]
            await check_integrity(store)


async def test_a_compaction_is_before_or_after_never_between(tmp_path: Path, prepared: Path) -> None:
    before = [str(it["content"]) for it in FIRST]
    after = [str(SUMMARY["content"]), before[-1]]
    for where, acks in killed_everywhere(tmp_path, "compact", prepared):
        async with open_store(where) as store:
            tip = await store.get_compression_tip("s")
            assert await said(store, tip) == (after if tip == "s2" else before)
            assert tip == "s2" or not acks
            ended = (await store.session("s")).end_reason
            assert ended == ("compression" if tip == "s2" else None)
            await check_integrity(store)


async def test_a_sweep_is_before_or_after_never_between(tmp_path: Path) -> None:
    """The map, the nodes under it and the view become visible together, wherever the process died."""
    start_from = tmp_path / "folded.db"
    await prepare_folded(str(start_from))
    before = await map_and_view(start_from)
    left = killed_everywhere(tmp_path, "sweep", start_from)
    after = await map_and_view(left[-1][0])
    assert max(depth for _, depth in after.nodes) > max(depth for _, depth in before.nodes) >= 1
    assert len(left) > 20
    for where, acks in left:
        found = await map_and_view(where)
        assert found == after if acks else found in (before, after)
        async with open_store(where) as store:
            await check_integrity(store)


async def map_and_view(where: Path) -> MapAndView:
    async with open_store(where) as store:
        tip = await store.get_compression_tip("s")
        nodes = [(node.name, node.depth) for node in await store.nodes(tip)]
        return MapAndView(nodes, [node.name for node in await store.shown_nodes(tip)], await said(store, tip))


async def test_an_undo_is_before_or_after_never_between(tmp_path: Path, compacted: Path) -> None:
    later = [str(it["content"]) for it in LATER]
    before = [str(SUMMARY["content"]), str(FIRST[-1]["content"]), *later]
    after = [*(str(it["content"]) for it in FIRST), *later]
    for where, acks in killed_everywhere(tmp_path, "undo", compacted):
        async with open_store(where) as store:
            shown = await said(store, "s2")
            assert shown == after if acks else shown in (before, after)
            await check_integrity(store)


async def test_a_migration_is_done_or_not_begun_and_the_next_start_works(tmp_path: Path) -> None:
    for where, acks in killed_everywhere(tmp_path, "start", None):
        async with open_store(where) as store:
            if acks:
                await store.session("s")
            await store.start_session(NewSession(id="s"))
            await check_integrity(store)


@pytest.mark.parametrize("scenario", ["index", "rebuild"])
async def test_the_index_agrees_with_the_rows_wherever_indexing_stopped(
    tmp_path: Path, compacted: Path, scenario: str
) -> None:
    for where, acks in killed_everywhere(tmp_path, scenario, compacted):
        async with open_store(where) as store:
            if "appended" in acks:
                assert len(await store.messages("s")) == len(FIRST) + len(LATER) + 40
            await check_integrity(store)


async def test_a_conversation_is_deleted_whole_or_not_at_all(tmp_path: Path, compacted: Path) -> None:
    for where, acks in killed_everywhere(tmp_path, "delete", compacted):
        async with open_store(where) as store:
            try:
                await store.session("s")
            except UnknownSession:
                assert await store.check() == []
                assert (await store.search("walrus")).hits == ()
            else:
                assert not acks
                await check_integrity(store)
