"""The memory under any text and any number of writers: nothing acknowledged is lost, nothing else is touched."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.agent.memory import Memory
from clew.agent.memory.files import (
    JOURNAL,
    clean_entry,
    entries_of,
    join_blocks,
    parse_blocks,
    with_entry,
    with_entry_replaced,
    without_entry,
)
from clew.agent.safe_text import fenced

LINES = st.sampled_from(
    ["- a", "- a b", "* c", "+ d  e", "text", "  more", "# head", "```", "", " ", "---", "-x", "> q", "\t- n"]
)
FILES = st.lists(LINES | st.text(max_size=12), max_size=12).map("\n".join)


def lines_in(text: str) -> list[str]:
    """What people wrote, but for blanks at the end of a line."""
    return [line.rstrip() for line in text.split("\n") if line.strip()]


@given(FILES)
def test_blocks_are_the_text_again(text: str) -> None:
    assert join_blocks(parse_blocks(text)) == text


@given(FILES, st.text())
def test_an_entry_can_be_read_again_and_taken_out_again(text: str, said: str) -> None:
    entry = clean_entry(said)
    assert clean_entry(entry) == entry
    if not entry or entry in entries_of(text):
        return
    added = with_entry(text, entry)
    assert entries_of(added) == [*entries_of(text), entry]
    assert entries_of(without_entry(added, entry)) == entries_of(text)
    assert lines_in(without_entry(added, entry)) == lines_in(text)


@given(FILES, st.data())
def test_replacing_changes_that_entry_alone(text: str, data: st.DataObject) -> None:
    entries = entries_of(text)
    if not entries:
        return
    old = data.draw(st.sampled_from(entries))
    changed = with_entry_replaced(text, old, "something new")
    assert [it for it in entries_of(changed) if it != "something new"] == [it for it in entries if it != old]
    others = [block for block in parse_blocks(text) if block.entry is None]
    assert [block for block in parse_blocks(changed) if block.entry is None] == others


@given(st.text(), st.text())
def test_no_text_closes_its_own_fence(label: str, text: str) -> None:
    for inside in (text, fenced(label, text), text + fenced("x", text)):
        opening, *_, closing = fenced(label, inside).split("\n")
        code = closing.removeprefix("</data-").removesuffix(">")
        assert opening.startswith(f'<data-{code} from="') and opening.endswith('">') and opening.count('"') == 2
        assert fenced(label, inside).count(f"data-{code}") == 2


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=5))
def test_writers_in_threads_lose_nothing(shares: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(shares)) as pool:
        done = list(pool.map(lambda it: asyncio.run(add_all(Path(folder), *it)), enumerate(shares)))
        assert all(done)
        wanted = {f"writer {writer} entry {n}" for writer, share in enumerate(shares) for n in range(share)}
        memory = Memory(Path(folder))
        assert set(memory.entries("memory")) == wanted
        assert {json.loads(line)["entry"] for line in (memory.folder / JOURNAL).read_text().splitlines()} == wanted


def test_writers_in_processes_lose_nothing(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert all(pool.starmap(run_all, [(tmp_path, writer, 15) for writer in range(2)]))
    assert len(Memory(tmp_path).entries("memory")) == 30


def run_all(folder: Path, writer: int, count: int) -> bool:
    return asyncio.run(add_all(folder, writer, count))


async def add_all(folder: Path, writer: int, count: int) -> bool:
    memory = Memory(folder)
    done = [await memory.add("memory", f"writer {writer} entry {n}") for n in range(count)]
    return all(it.is_done for it in done)
