"""The rows of the data tables: every match of a pattern contains one of its literals, or the row would miss it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.facts.data import load_table
from clew.facts.outcomes import Detector

TABLES = ("outcomes.toml", "parts.toml", "state.toml")


def rows() -> Iterator[Any]:
    for table in TABLES:
        for group, value in load_table(table).items():
            listed = value if isinstance(value, list) else [value]
            for at, row in enumerate(row for row in listed if isinstance(row, dict) and "pattern" in row):
                yield pytest.param(row, id=f"{table}-{group}-{row.get('name', at)}")


@pytest.mark.parametrize("row", list(rows()))
@given(data=st.data())
def test_every_match_of_a_row_contains_one_of_its_literals(row: dict[str, Any], data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(row["pattern"], re.MULTILINE)))
    assert Detector.of(row).matches(text)


@pytest.mark.parametrize("row", list(rows()))
def test_a_row_has_literals_that_are_not_empty(row: dict[str, Any]) -> None:
    assert row["literal"] and all(row["literal"])
