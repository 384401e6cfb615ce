"""The handoff as a value: any heading of a model is kept, JSON gives it back, and what it refers to is known."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from clew.handoff import COMPLETED, HEADINGS, Entry, Handoff, read_line, references_in

VALUES = HEADINGS[-1]
TEXTS = st.text(max_size=40)
LINES = st.builds(Entry, TEXTS, st.lists(st.integers(0, 999), max_size=2, unique=True).map(tuple))
ENTRIES = st.builds(Entry, TEXTS, LINES.map(lambda line: line.numbers), st.lists(LINES, max_size=3).map(tuple))
HANDOFFS = st.builds(
    Handoff, st.dictionaries(st.sampled_from(HEADINGS) | TEXTS, st.lists(ENTRIES, min_size=1).map(tuple), max_size=4)
)


@given(HANDOFFS)
def test_json_gives_the_same_handoff_back(handoff: Handoff) -> None:
    assert Handoff.of_json(json.loads(json.dumps(handoff.as_json()))) == handoff


def test_other_headings_than_ours_are_kept_and_count_as_critical_context() -> None:
    handoff = Handoff.of_text("A word first.\n\n## Goal\n- bread\n\n## Recipes\n- rye: 400 g (m3)\n   sour (m4)")
    assert [heading for heading, _ in handoff.ordered_sections()] == ["", "Goal", "Recipes"]
    assert [entry.text for entry in handoff.entries(VALUES)] == ["A word first.", "rye: 400 g"]
    assert Handoff.of_text(handoff.render()) == handoff


def test_a_line_that_is_changed_keeps_its_numbers_and_its_place() -> None:
    handoff = Handoff({COMPLETED: (Entry("a", (1,), (Entry("b", (2, 3)),)),)})
    assert handoff.mapped(str.upper) == Handoff({COMPLETED: (Entry("A", (1,), (Entry("B", (2, 3)),)),)})


def test_references_are_those_behind_a_line_and_those_within_it() -> None:
    handoff = Handoff.of_text(
        "## Completed actions\n1. failed (m18), fixed by m60, not m7.txt (m1-m201)\n   RAN it (m5)"
    )
    assert references_in(handoff) == {1, 5, 18, 60, 201}


def test_a_line_has_a_verb_only_where_it_begins_with_one() -> None:
    assert [read_line(Entry(text)).verb for text in ("RAN make", "READER x", "Ran make", '"RAN make"')] == [
        "RAN", "", "", "",
    ]  # fmt: skip
