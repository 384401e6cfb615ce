"""`clew insights`: tokens, cost, cache hits and compactions by day, model and source."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clew.store import ModelCall, Store
from clew.usage import CanonicalUsage

if TYPE_CHECKING:
    from tests.cli.conftest import Kept

ALL = ("--since", "2026-01-01")


async def later_call(store: Store) -> None:
    usage = CanonicalUsage(10_000, 2_000, 30_000)
    call = ModelCall(usage, "m-1", "p", "scheduled", 90_000, at=datetime(2026, 3, 4, 9, tzinfo=UTC))
    await store.record_call("clock-2", call)


def test_everything_is_summed_by_day_model_and_source(kept: Kept) -> None:
    kept.ask(later_call)
    insights = kept.json("insights", *ALL)
    assert insights["total"]["calls"] == 5
    assert insights["auxiliary"]["calls"] == 1
    assert [row["day"] for row in insights["by"]["day"]] == ["2026-03-01", "2026-03-04"]
    assert {row["model"]: row["calls"] for row in insights["by"]["model"]} == {
        "m-1": 2,
        "m-2": 1,
        "m-small": 1,
        "nobodys": 1,
    }
    assert {row["source"] for row in insights["by"]["source"]} == {"terminal", "auxiliary", "gateway", "scheduled"}
    made = insights["compactions"]
    assert (made["count"], made["tokens_freed"]) == (1, 600)
    assert (made["by_day"], made["by_model"], made["by_source"]) == ({"2026-03-01": 1}, {"m-1": 1}, {"terminal": 1})


def test_the_charts_have_every_day_in_between_and_one_scale(kept: Kept) -> None:
    kept.ask(later_call)
    lines = kept.run("insights", *ALL)[1].splitlines()
    chart = lines[next(at for at, line in enumerate(lines) if "tokens by day" in line) + 1 :][:4]
    assert [line.split()[0] for line in chart] == [f"2026-03-0{day}" for day in (1, 2, 3, 4)]
    bars = [line.split()[-1] for line in chart]
    assert set(bars[3]) == {"r", "f", "o"}
    assert 0 < len(bars[0]) < len(bars[3])
    assert any("no price" in line for line in lines)
    assert any(line.split()[-1].startswith("#") for line in lines if "67%" in line)


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_the_charts_fit(kept: Kept, width: str) -> None:
    kept.ask(later_call)
    out = kept.run("insights", *ALL, COLUMNS=width)[1]
    assert all(len(line) <= int(width) for line in out.splitlines())


def test_a_time_without_calls_says_so(kept: Kept) -> None:
    code, out, _ = kept.run("insights", "--since", "2026-04-01", "--until", "2026-04-02")
    assert code == 0
    assert "no calls recorded" in out
    assert kept.json("insights", "--until", "2026-01-31")["total"]["calls"] == 0


def test_no_database_is_no_failure(empty_home: Kept) -> None:
    assert "no database" in empty_home.run("insights")[1]
    assert empty_home.json("insights")["total"] is None
    assert not empty_home.home.exists()
