"""`clew usage`: every call counted, auxiliary ones apart, and an unknown price said to be unknown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from clew.cli.pages import format_cost, format_dollars, format_saving, percent, short_count
from clew.store import ModelCall, Store
from clew.usage import CanonicalUsage

if TYPE_CHECKING:
    from tests.cli.conftest import Kept


def test_totals_are_by_model_day_and_session_and_say_what_auxiliary_calls_are_of_it(kept: Kept) -> None:
    account = kept.json("usage")
    assert (account["total"]["calls"], account["auxiliary"]["calls"]) == (4, 1)
    assert account["total"]["prompt_tokens"] == 4_000
    assert account["total"]["cost_usd"] == 0.0165
    models = {row["model"]: row for row in account["by"]["model"]}
    assert models["m-small"]["usage"] == models["m-small"]["auxiliary"]
    assert models["m-small"]["auxiliary"]["cost_usd"] == 0.0005
    assert models["nobodys"]["usage"]["cost_usd"] is None
    assert account["models_without_a_price"] == ["nobodys"]
    assert [row["day"] for row in account["by"]["day"]] == ["2026-03-01"]
    sessions = {row["session"]: row for row in account["by"]["session"]}
    assert set(sessions) == {"clock-1", "clock-2", "s_4f1c0d"}
    assert sessions["clock-2"]["title"] == "Late clock"


def test_people_are_told_what_is_unknown(kept: Kept) -> None:
    out = kept.run("usage")[1]
    said = " ".join(out.split())
    assert "4 calls: 4,000 prompt tokens, 80% of them cached, 160 output, cost $0.0165 + no price, of it" in said
    assert "of it $0.0005 for 1 auxiliary call" in said
    assert "no price is known for some calls of nobodys" in out
    (row,) = [line for line in out.splitlines() if line.split()[:1] == ["nobodys"]]
    assert row.split()[-3:-1] == ["no", "price"]


def test_one_conversation_counts_alone_with_all_of_its_chain(kept: Kept) -> None:
    account = kept.json("usage", "clock-1", "--by", "session")
    assert (account["of"], account["total"]["calls"], account["auxiliary"]["calls"]) == ("Late clock", 3, 1)
    assert set(account["by"]) == {"session"}
    assert kept.run("usage", "nobody")[0] == 1


def test_a_period_narrows_it(kept: Kept) -> None:
    assert kept.json("usage", "--since", "2026-03-03")["total"] is None
    assert "no calls recorded" in kept.run("usage", "--until", "2026-02-01")[1]
    assert kept.json("usage", "--since", "2026-02-27", "--until", "2026-03-02")["total"]["calls"] == 4


def test_what_was_spent_stays_when_its_conversation_is_deleted(kept: Kept) -> None:
    assert kept.run("sessions", "delete", "s_4f1c", "--yes")[0] == 0
    account = kept.json("usage")
    assert account["total"]["calls"] == 4
    assert account["by"]["session"][0]["session"] is None
    assert "(deleted)" in kept.run("usage")[1]


def test_no_database_is_no_failure(empty_home: Kept) -> None:
    assert "no database" in empty_home.run("usage")[1]
    assert empty_home.json("usage")["total"] is None
    assert empty_home.run("usage", "x")[0] == 1
    assert not empty_home.home.exists()


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_the_tables_fit(kept: Kept, width: str) -> None:
    out = kept.run("usage", COLUMNS=width)[1]
    assert all(len(line) <= int(width) for line in out.splitlines())


def test_figures_are_short_and_honest() -> None:
    assert [short_count(size) for size in (0, 9_999, 68_060, 99_960, 240_400, 1_240_000, 2 * 10**9)] == [
        "0",
        "9,999",
        "68.1K",
        "100K",
        "240K",
        "1.24M",
        "2.00G",
    ]
    shown = [format_dollars(amount) for amount in (0, 0.00005, 0.0042, 1.234567)]
    assert shown == ["$0.00", "<$0.0001", "$0.0042", "$1.23"]
    assert [format_cost(0, 0, 0), format_cost(0, 2, 2), format_cost(4_200, 2, 1)] == [
        "$0.00",
        "no price",
        "$0.0042 + no price",
    ]
    assert [percent(0, 0), percent(1, 1000), percent(1, 2)] == ["-", "<1%", "50%"]


def test_moments_are_read_as_people_write_them() -> None:
    from clew.cli.options import parse_since, parse_until

    assert timedelta(days=6, hours=23) < datetime.now(UTC) - parse_since("7d") < timedelta(days=7, hours=1)
    assert parse_until("2026-03-01") - parse_since("2026-03-01") in (
        timedelta(hours=23),
        timedelta(days=1),
        timedelta(hours=25),
    )
    assert parse_since("2026-03-01T10:00+00:00") == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert parse_since("today") - parse_since("yesterday") <= timedelta(hours=25)


def test_what_the_gateway_saved_is_shown_per_session_and_never_rounded_up(kept: Kept) -> None:
    assert "saved" not in kept.run("usage")[1]
    assert kept.json("usage")["total"]["saved"] is None
    used = CanonicalUsage(100, 40, 800, 100, 10)

    async def spend(store: Store) -> None:
        call = ModelCall(used, "m-2", "p", "gateway", 1_000, cost_direct_micros=31_077)
        await store.record_call("s_4f1c0d", call)
        await store.record_call("s_4f1c0d", ModelCall(used, "m-small", "p", "auxiliary", 500))
        await store.record_call("s_4f1c0d", ModelCall(used, "m-2", "p", "gateway", None, cost_direct_micros=9))

    kept.ask(spend)
    said = " ".join(kept.run("usage", "s_4f1c0d")[1].split())
    assert (
        "saved $0.0295: 1 call for $0.0015, summaries included, would have cost $0.0311 directly; "
        "unknown for 1 more call" in said
    )
    saved = kept.json("usage", "s_4f1c0d")["total"]["saved"]
    assert saved == {
        "compared_calls": 1,
        "cost_direct_usd": 0.031077,
        "cost_usd": 0.0015,
        "saved_usd": 0.029577,
        "calls_of_unknown_saving": 1,
    }
    rows = {line.split()[0]: line.split()[-1] for line in kept.run("usage", "--by", "session")[1].splitlines() if line}
    assert (rows["by"], rows["s_4f1c0d"], rows["clock-1"]) == ("saved", "$0.0295", "-")


def test_a_saving_is_rounded_against_us() -> None:
    shown = [format_saving(micros) for micros in (0, 99, 29_577, 999_999, 12_345_678, -1, -29_577, -1_234_567)]
    assert shown == ["$0.00", "$0.00", "$0.0295", "$0.9999", "$12.34", "-$0.0001", "-$0.0296", "-$1.24"]
