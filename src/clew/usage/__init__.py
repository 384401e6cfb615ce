"""Usage and cost: what a call took and what it was worth, in one shape for all providers.

`normalize_usage` reads whatever a provider reports; `cost_of` puts a price to it, or says that none is known. This room
knows spellings, conventions and prices; it stores nothing and calls nobody.
"""

from __future__ import annotations

from clew.usage.canonical import CanonicalUsage
from clew.usage.normalize import normalize_usage
from clew.usage.price_table import Price
from clew.usage.prices import Cost, cost_of, price_of

__all__ = ["CanonicalUsage", "Cost", "Price", "cost_of", "normalize_usage", "price_of"]
