"""A compaction as a value: everything that can be asked of it is derived from its items."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clew.engines import (
    Added,
    Changed,
    Compaction,
    CompactionItem,
    CompactionRegion,
    Fate,
    Kept,
    Removed,
    Summarized,
    account_problems,
)
from clew.handoff import wrap
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user
from clew.tokens import count_tokens

HANDOFF = user(wrap("## Goal\n- Count the boats.", 2, 9))
SOURCE: list[Message] = [
    system("Be brief."),
    HANDOFF,
    assistant("One boat. " * 20),
    user("And nets?"),
    assistant(None, [call("ls", id="c")]),
    tool("stray", "x"),
    user("And now?"),
]
NOTED = system("Be brief. [note]")
STUB = tool("c", "none")
SUMMARY = user("[summary]\n\nAnd nets?")
ITEMS: tuple[CompactionItem, ...] = (
    Changed(0, NOTED, shortened=False),
    Summarized(SUMMARY, (1, 2), "the summary", merged_with=Kept(3)),
    Changed(4, assistant(None, [call("l", id="c")])),
    Added(STUB),
    Kept(6),
    Removed(5),
)


def compaction(items: tuple[CompactionItem, ...] = ITEMS) -> Compaction:
    done = Compaction(SOURCE, items, 5_000, 5_000)
    return replace(done, tokens_after=5_000 - count_tokens(SOURCE) + count_tokens(done.messages))


def test_the_result_has_the_items_in_their_order() -> None:
    done = compaction()
    assert done.changed
    assert done.messages == [NOTED, SUMMARY, assistant(None, [call("l", id="c")]), STUB, SOURCE[6]]
    assert done.messages[-1] is SOURCE[6]
    assert done.messages is done.messages


def test_every_message_of_the_input_has_a_fate_a_region_and_a_form() -> None:
    done = compaction()
    assert done.fates == (
        Fate.KEPT,
        Fate.SUMMARISED,
        Fate.SUMMARISED,
        Fate.KEPT,
        Fate.PRUNED,
        Fate.REMOVED,
        Fate.KEPT,
    )
    region = CompactionRegion
    assert done.regions == (
        region.HEAD,
        region.HANDOFF,
        region.FOLDED,
        region.TAIL,
        region.TAIL,
        region.REMOVED,
        region.TAIL,
    )
    assert done.messages_after == (
        NOTED,
        None,
        None,
        SOURCE[3],
        assistant(None, [call("l", id="c")]),
        None,
        SOURCE[6],
    )


def test_the_summary_is_known_and_what_it_replaced() -> None:
    done = compaction()
    assert [item.message for item in done.summaries] == [SUMMARY]
    assert done.summary == "the summary"
    assert done.replaced == (1, 3)


def test_several_summaries_are_told_together() -> None:
    nodes = (
        Kept(0),
        Summarized(user("first"), (1,), "one", node="n1"),
        Kept(2),
        Summarized(user("second"), (3, 4, 5), "two", node="n2"),
        Kept(6),
    )
    done = compaction(nodes)
    assert done.summary == "one\n\ntwo"
    assert [item.node for item in done.summaries] == ["n1", "n2"]
    assert done.replaced == (1, 6)
    assert done.regions[2] is CompactionRegion.KEPT


def test_what_changed_nothing_is_the_very_input() -> None:
    done = Compaction.nothing(SOURCE, 900, "why")
    assert not done.changed and done.messages is SOURCE
    assert (done.tokens_before, done.tokens_after, done.warnings, done.state) == (900, 900, ("why",), None)
    assert set(done.fates) == {Fate.KEPT} and done.replaced == (0, 0) and done.summary is None
    assert list(done.messages_after) == SOURCE
    assert Compaction.nothing([], 0).messages == []


def test_the_same_messages_in_another_order_are_a_change() -> None:
    done = compaction((Kept(1), Kept(0), *map(Kept, range(2, 7))))
    assert done.changed and done.messages[0] is SOURCE[1]


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        (ITEMS[1:], "message 0 of the input is in 0 items"),
        ((*ITEMS, Kept(3)), "message 3 of the input is in 2 items"),
        ((*ITEMS, Removed(2)), "message 2 of the input is in 2 items"),
        ((*ITEMS, Removed(7)), "items name [7], which are no indexes of the 7 messages"),
    ],
)
def test_items_that_do_not_cover_the_input_once_are_a_problem(items: tuple[CompactionItem, ...], problem: str) -> None:
    assert account_problems(SOURCE, compaction()) == []
    assert problem in account_problems(SOURCE, Compaction(SOURCE, items, 5_000, 4_000))[0]


def test_tokens_after_that_are_not_those_of_the_result_are_a_problem() -> None:
    done = compaction()
    [problem] = account_problems(SOURCE, replace(done, tokens_after=done.tokens_after - 1))
    assert problem.startswith(f"tokens_after is {done.tokens_after - 1:,}")
