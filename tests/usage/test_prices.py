"""What a call cost, by any name of its model."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from clew.errors import InvalidArgument
from clew.usage import CanonicalUsage, Cost, Price, cost_of, price_of
from clew.usage.prices import PRICES

MILLION = 1_000_000
USAGE = CanonicalUsage(input_tokens=1_000, output_tokens=500, cache_read_tokens=90_000, cache_write_tokens=2_000)


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-4-5",
        "claude-opus-4.5",
        "Claude-Opus-4-5-20251101",
        "anthropic/claude-opus-4.5",
        "openrouter/anthropic/claude-opus-4.5:thinking",
        "us.anthropic.claude-opus-4-5-20251101-v1:0",
        "anthropic.claude-opus-4-5-v1:0",
        "claude-opus-4-5@20251101",
        "claude-opus-4-5[1m]",
        "claude-opus-4-5-latest",
    ],
)
def test_a_model_is_found_by_any_of_its_names(name: str) -> None:
    price = price_of(name)
    assert price is not None
    assert (price.vendor, price.model) == ("anthropic", "claude-opus-4-5")


def test_a_cost_is_split_by_what_it_paid_for() -> None:
    assert cost_of(USAGE, "claude-opus-4-5") == Cost(
        input=Decimal("0.005"), output=Decimal("0.0125"), cache_read=Decimal("0.045"), cache_write=Decimal("0.0125")
    )


def test_what_was_spent_is_rounded_up_and_what_would_have_been_down() -> None:
    cost = cost_of(CanonicalUsage(1, 0, 1), "claude-sonnet-4-5")
    assert cost is not None and cost.total == Decimal("0.0000033")
    assert (cost.micros, cost.micros_at_least) == (4, 3)
    whole = cost_of(CanonicalUsage(1), "claude-sonnet-4-5")
    assert whole is not None and whole.micros == whole.micros_at_least == 3


def test_an_hour_in_the_cache_costs_more_to_write() -> None:
    five_minutes, hour = cost_of(USAGE, "claude-opus-4-5"), cost_of(USAGE, "claude-opus-4-5", ttl="1h")
    assert five_minutes is not None
    assert hour is not None
    assert hour.cache_write == Decimal("0.02") > five_minutes.cache_write
    assert hour.total - five_minutes.total == hour.cache_write - five_minutes.cache_write


def test_a_lifetime_without_a_price_is_refused_with_both_that_have_one() -> None:
    with pytest.raises(InvalidArgument, match=r"'2h'.*'5m' or '1h'"):
        cost_of(USAGE, "claude-opus-4-5", ttl="2h")


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("nobody-knows-this", None),
        ("gpt-5-something-new", None),
        ("", None),
        ("deepseek-v4-pro", "together"),
        ("claude-opus-4-5", "github-copilot"),
        ("big-model:120b-cloud", "ollama"),
    ],
)
def test_an_unknown_price_is_none_and_never_zero(model: str, provider: str | None) -> None:
    assert cost_of(USAGE, model, provider) is None


@pytest.mark.parametrize("provider", ["local", "ollama", "llama.cpp", "LM Studio"])
def test_a_local_model_really_costs_nothing(provider: str) -> None:
    cost = cost_of(USAGE, "whatever", provider)
    assert cost is not None
    assert cost.total == 0


def test_a_long_prompt_pays_the_dearer_tier_for_all_of_it() -> None:
    at_the_edge = cost_of(CanonicalUsage(input_tokens=200_000), "gemini-2.5-pro")
    beyond = cost_of(CanonicalUsage(input_tokens=100_000, cache_read_tokens=100_001), "gemini-2.5-pro")
    assert at_the_edge is not None
    assert beyond is not None
    assert at_the_edge.input == Decimal("0.25")
    assert beyond.input == Decimal("0.25")
    assert beyond.cache_read == Decimal("0.25") * 100_001 / MILLION


def test_what_has_no_cache_price_costs_what_input_costs() -> None:
    cost = cost_of(CanonicalUsage(cache_read_tokens=MILLION, cache_write_tokens=MILLION), "gpt-4-turbo")
    assert cost == Cost(Decimal(0), Decimal(0), Decimal(10), Decimal(10))


def test_own_prices_come_first_under_any_name_of_the_model() -> None:
    prices: dict[str, Price | Mapping[str, Any]] = {
        "claude-opus-4.5": {"input": 1, "output": "2.5"},
        "mine": Price("own", "mine", Decimal(3), Decimal(4)),
    }
    cost = cost_of(CanonicalUsage(MILLION, MILLION), "anthropic/claude-opus-4-5-20251101", "together", prices=prices)
    assert cost is not None
    assert (cost.input, cost.output) == (Decimal(1), Decimal("2.5"))
    assert price_of("mine", prices=prices) == prices["mine"]


@pytest.mark.parametrize(
    "price",
    [{"input": 1}, {"input": 1, "output": 2, "ouput": 3}, {"input": "dear", "output": 2}, {"input": -1, "output": 2}],
)
def test_an_own_price_that_makes_no_sense_is_refused_by_name(price: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="'mine'"):
        cost_of(USAGE, "mine", prices={"mine": price})


def test_costs_add_up() -> None:
    one = Cost(Decimal(1), Decimal(2), Decimal(3), Decimal(4))
    assert (one + one).total == 20


def test_small_sums_are_not_rounded_away() -> None:
    calls = [cost_of(CanonicalUsage(input_tokens=1), "deepseek-v4-flash") for _ in range(1000)]
    assert sum((call.total for call in calls if call), Decimal(0)) == Decimal("0.0003")


def test_every_row_names_its_day_and_its_source_and_none_is_listed_twice() -> None:
    assert all(price.checked and price.source.startswith("https://") for price in PRICES)
    assert len({(price.model, price.over) for price in PRICES}) == len(PRICES)
    assert all(price.input > 0 and price.output >= price.input for price in PRICES)


def test_a_dated_name_with_its_own_price_is_not_read_as_another_model() -> None:
    turbo = price_of("gpt-4-1106-preview")
    assert turbo is not None
    assert turbo.input == 10
