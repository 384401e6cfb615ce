"""Days in questions."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.store.search.days import day_of, days_named, micros_of_day
from clew.store.search.words import case_folded

WEDNESDAY = date(2023, 5, 10).toordinal()


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("what did she do on 7 may 2023?", "2023-05-07", "2023-05-07"),
        ("where was he on may 7, 2023", "2023-05-07", "2023-05-07"),
        ("what happened in may 2022?", "2022-05-01", "2022-05-31"),
        ("what happened on 2023-02-28?", "2023-02-28", "2023-02-28"),
        ("what did we do on 20 june?", "2022-06-20", "2022-06-20"),
        ("what did we do yesterday?", "2023-05-09", "2023-05-09"),
    ],
)
def test_a_question_names_days(query: str, first: str, last: str) -> None:
    days, _ = days_named(query, WEDNESDAY)
    assert days is not None
    assert (str(date.fromordinal(days.first)), str(date.fromordinal(days.last))) == (first, last)


@pytest.mark.parametrize("query", ["may i go?", "what is in march.py?", "version 3.10", "12 of 30"])
def test_other_words_are_no_days(query: str) -> None:
    assert days_named(query, WEDNESDAY)[0] is None


WORDS = (
    "last next on a couple of 3 99 999 days weeks months years ago back may 31 2024 feb 2024-13-40 friday in".split()
)


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.integers(-(10**18), 10**18))
def test_no_text_and_no_time_is_a_mistake(words: list[str], at: int) -> None:
    day = day_of(at)
    text = case_folded(" ".join(words))
    days, where = days_named(text, day)
    assert (days is None) == (len(where) == 0)
    assert days is None or days.first <= days.last


@given(st.integers(694_000, 803_000))
def test_a_day_begins_at_its_first_moment(day: int) -> None:
    assert day_of(micros_of_day(day)) == day
    assert day_of(micros_of_day(day) - 1) == day - 1
