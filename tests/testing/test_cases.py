"""`every_case` runs every case, and reports each that failed."""

from __future__ import annotations

import pytest

from tests.support.cases import every_case


def test_every_failed_case_is_reported_and_none_is_skipped() -> None:
    seen = []

    @every_case("number", [1, 2, 3])
    @every_case(("name", "other"), [("a", "b"), pytest.param("c", "d")])
    def check(number: int, name: str, other: str) -> None:
        seen.append((number, name, other))
        assert number != 2

    with pytest.raises(ExceptionGroup, match="1 of 3 cases failed") as failed:
        check()
    assert len(seen) == 6
    [inner] = failed.value.exceptions
    assert isinstance(inner, ExceptionGroup) and len(inner.exceptions) == 2
    assert "'number': 2" in inner.exceptions[0].__notes__[0]


async def test_a_test_that_waits_is_run_for_every_case_too() -> None:
    @every_case("number", [1, 2])
    async def check(number: int) -> None:
        assert number == 1

    with pytest.raises(ExceptionGroup, match="1 of 2 cases failed"):
        await check()


def test_a_list_without_cases_fails() -> None:
    @every_case("number", [])
    def check(number: int) -> None:
        raise NotImplementedError

    with pytest.raises(AssertionError, match="no cases"):
        check()
