"""What a call cost: the price of a model by any of its names, and the sum.

An unknown price is None, never zero. `prices.json` has a row for each price: vendor, model, the prompt tokens from
which on it holds, then dollars per million tokens of input, output, cache reads, cache writes for 5 minutes and for
1 hour. They were read from the public price list of LiteLLM 1.108.4, which names the vendors' pages as its sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from math import ceil, floor
from typing import Any, Final

from clew.errors import InvalidArgument
from clew.lazy import read_beside
from clew.usage.normalize import CanonicalUsage


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of one model, from prompts of more than `over` tokens on."""

    vendor: str
    model: str
    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    """None: what was read from a cache costs what other input costs."""
    cache_write: Decimal | None = None
    """None: writing costs what other input costs. Anthropic's five minutes."""
    cache_write_1h: Decimal | None = None
    over: int = 0
    checked: str = ""
    source: str = ""


_TABLE: Final = json.loads(read_beside(__file__, "prices.json"))


def _price(vendor: str, model: str, over: int, *dollars: str | None) -> Price:
    given, written, *others = (None if figure is None else Decimal(figure) for figure in dollars)
    if given is None or written is None:
        raise ValueError(f"the price of {model} lacks input or output; give both in its row")
    read, write, write_1h = (*others, None, None, None)[:3]
    return Price(
        vendor, model, given, written, read, write, write_1h, over, _TABLE["checked"], _TABLE["sources"][vendor]
    )


PRICES: Final = tuple(_price(*row) for row in _TABLE["prices"])
LOCAL_PROVIDERS: Final = frozenset(_TABLE["local"])
"""Run on the person's own machine: the tokens cost nothing, and that is known, not unknown."""
OTHER_PRICES: Final = frozenset(_TABLE["resellers"])
"""Sell other people's models at prices of their own, or by subscription: the vendor's price would be a wrong one."""
_MILLION: Final = Decimal(1_000_000)
_TTLS: Final = ("5m", "1h")
_FREE: Final = Price("local", "", Decimal(0), Decimal(0))
# Before a name: region and vendor, as Bedrock writes them.
_PROVIDER_PREFIX: Final = re.compile(
    r"^(?:(?:us|eu|apac|ap|jp|au|ca|global|us-gov)\.)?(?:anthropic|openai|deepseek|qwen|mistral|moonshotai?|zai|minimax|google|xai)\."
)
# After a name, in the order they are tried: an alias, a route, a version, a date, a preview.
_SUFFIXES: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[1m\]$",
        r":(?:thinking|beta|extended|exacto|nitro|floor|online)$",
        r"-v\d+(?::\d+)?$",
        r"[@-]\d{8}$",
        r"-\d{4}-\d{2}-\d{2}$",
        r"[@-](?:latest|default)$",
        r"-preview(?:-\d{2}-\d{2}(?:\d{2})?)?$",
        r"-(?:reasoning|non-reasoning|thinking)$",
        r"-\d{4}$",
    )
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars, by what they were paid for.

    Decimal, because a token costs a fraction of a micro-dollar: whole micro-dollars would round every call, and the
    sum of floats depends on their order.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal

    @property
    def total(self) -> Decimal:
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def micros(self) -> int:
        """The total in whole millionths of a dollar, rounded up, so that costs are never understated."""
        return ceil(self.total * _MILLION)

    @property
    def micros_at_least(self) -> int:
        """The same rounded down: for what something would have cost, so that savings are never overstated."""
        return floor(self.total * _MILLION)

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


def cost_of(
    usage: CanonicalUsage,
    model: str,
    provider: str | None = None,
    ttl: str = "5m",
    *,
    prices: Mapping[str, Price | Mapping[str, Any]] | None = None,
) -> Cost | None:
    """What `usage` cost; None where no price is known. `prices`, by model name, are preferred to our own table."""
    if ttl not in _TTLS:
        raise InvalidArgument(f"ttl {ttl!r} is no cache lifetime that has a price", remedy="use '5m' or '1h'")
    price = price_of(model, provider, prompt_tokens=usage.prompt_tokens, prices=prices)
    if price is None:
        return None
    write = price.cache_write_1h if ttl == "1h" and price.cache_write_1h is not None else price.cache_write
    return Cost(
        input=usage.input_tokens * price.input / _MILLION,
        output=usage.output_tokens * price.output / _MILLION,
        cache_read=usage.cache_read_tokens * _or(price.cache_read, price.input) / _MILLION,
        cache_write=usage.cache_write_tokens * _or(write, price.input) / _MILLION,
    )


def price_of(
    model: str,
    provider: str | None = None,
    *,
    prompt_tokens: int = 0,
    prices: Mapping[str, Price | Mapping[str, Any]] | None = None,
) -> Price | None:
    """The price of a model for a prompt of that size, with its date and source, or None."""
    own = _own_price(model, prices or {})
    if own is not None:
        return own
    host = re.sub(r"[^a-z0-9]", "", (provider or "").lower())
    if host in LOCAL_PROVIDERS:
        return None if model.lower().endswith("cloud") else _FREE
    if host in OTHER_PRICES:
        return None
    tiers = _tiers_of(model)
    return next((tier for tier in tiers if prompt_tokens > tier.over or tier.over == 0), None)


def names_of(model: str) -> list[str]:
    """The names a model may be listed under, the most exact first: without route, vendor, version and date."""
    name = _normalized(model)
    names = [name]
    for suffix in _SUFFIXES:
        shorter = suffix.sub("", name)
        if shorter != name:
            name = shorter
            names.append(name)
    return names


def _normalized(model: str) -> str:
    name = _PROVIDER_PREFIX.sub("", model.strip().lower().rsplit("/", 1)[-1])
    # "claude-opus-4.5" and "claude-opus-4-5" are one model.
    return re.sub(r"(?<=\d)\.(?=\d)", "-", name)


@cache
def _tiers() -> dict[str, tuple[Price, ...]]:
    """Every listed name with its tiers, the one for the longest prompts first."""
    tiers: dict[str, tuple[Price, ...]] = {}
    for price in sorted(PRICES, key=lambda price: -price.over):
        name = _normalized(price.model)
        tiers[name] = (*tiers.get(name, ()), price)
    return tiers


@lru_cache(1_000)
def _tiers_of(model: str) -> tuple[Price, ...]:
    return next((_tiers()[name] for name in names_of(model) if name in _tiers()), ())


def _own_price(model: str, prices: Mapping[str, Price | Mapping[str, Any]]) -> Price | None:
    if not prices:
        return None
    by_name = {_normalized(name): (name, price) for name, price in prices.items()}
    found = prices.get(model)
    named = (model, found) if found is not None else next((by_name[n] for n in names_of(model) if n in by_name), None)
    if named is None:
        return None
    name, price = named
    return price if isinstance(price, Price) else _price_from(name, price)


def _price_from(model: str, given: Mapping[str, Any]) -> Price:
    known = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
    unknown = sorted(set(given) - set(known))
    if unknown or given.get("input") is None or given.get("output") is None:
        raise InvalidArgument(
            f"the price of {model!r} has {sorted(given)}",
            remedy=(
                "give input and output, and if you like "
                "cache_read, cache_write and cache_write_1h, in dollars per million tokens"
            ),
        )
    figures = {name: _dollars(model, name, given[name]) for name in known if given.get(name) is not None}
    read, write, write_1h = (figures.get(name) for name in known[2:])
    return Price("own", model, figures["input"], figures["output"], read, write, write_1h)


def _dollars(model: str, name: str, value: object) -> Decimal:
    try:
        dollars = Decimal(str(value))
    except InvalidOperation:
        dollars = Decimal("NaN")
    if not dollars.is_finite() or dollars < 0:
        raise InvalidArgument(
            f"the price of {model!r}: {name} = {value!r} is no amount", remedy="give dollars per million tokens"
        )
    return dollars


def _or(dollars: Decimal | None, otherwise: Decimal) -> Decimal:
    return otherwise if dollars is None else dollars
