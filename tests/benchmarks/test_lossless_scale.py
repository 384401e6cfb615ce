"""What must hold however long a conversation is: the work of a turn and of a search, and facts found by one search.

Work is counted in calls of functions, which are the same in each run, and not in time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import search
from clew.engines import LosslessEngine
from clew.store import SearchScope
from clew.testing import ScriptedProvider, user
from clew.turn import receive
from tests.support.flow import SESSION, answers, flow_with

pytestmark = pytest.mark.slow

LENGTHS = (300, 2_400)
TURNS = 5
QUERIES = {
    "rare word": "quetzalcoatlus",
    "common word": "session",
    "path": "src/billing/drain_ledger_{middle}.py",
    "question": "why did the drain of the ledger stop in the billing part?",
}


class CallCounter:
    """Counts the calls of functions in every thread that begins while it counts, and in this one."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: object, event: str, argument: object) -> None:
        del frame, argument
        self.calls += event in ("call", "c_call")

    async def during(self, work: Awaitable[Any]) -> int:
        before = self.calls
        await work
        return self.calls - before


@contextmanager
def counting() -> Iterator[CallCounter]:
    counter = CallCounter()
    former, former_of_threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(counter)
    sys.setprofile(counter)
    try:
        yield counter
    finally:
        sys.setprofile(former)
        threading.setprofile(former_of_threads)


async def work_at(length: int, folder: Path, counter: CallCounter) -> dict[str, int]:
    """How many calls a turn and each search take in a folded conversation of so many messages."""
    provider = ScriptedProvider(*(answers(f"Done with part {number}.") for number in range(TURNS)))
    async with flow_with(provider, folder, window=64_000, new_engine=LosslessEngine) as flow:
        await receive(flow.runtime, SESSION, list(search.short_messages(length)))
        await flow.compact()
        await flow.store.index_waiting()
        turns = [await counter.during(flow.turn(user(f"Go on with part {number}."))) for number in range(TURNS)]
        work = {"turn": sorted(turns)[TURNS // 2]}
        scope = SearchScope(conversation_of=SESSION)
        for name, query in QUERIES.items():
            asked = query.replace("{middle}", str(length // 2))
            await flow.store.search(asked, scope)
            work[name] = await counter.during(flow.store.search(asked, scope))
        return work


async def test_a_turn_takes_as_much_work_in_a_long_conversation_and_a_search_hardly_more(tmp_path: Path) -> None:
    with counting() as counter:
        short, long = [await work_at(length, tmp_path / str(length), counter) for length in LENGTHS]
    assert long["turn"] <= 1.05 * short["turn"]
    for name in QUERIES:
        assert long[name] <= 1.25 * short[name], name


async def test_fifty_planted_facts_are_found_by_the_first_search_with_the_answer_in_sight() -> None:
    visible = {row["asked by"]: row["visible"] for row in await search.planted_facts(losses=False)}
    assert visible["key term"] == 50
    assert visible["question"] == 50
    assert visible["paraphrase"] >= 48
