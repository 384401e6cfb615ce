"""Usage and cost of a call, in one shape for all providers.

`normalize_usage` reads whatever a provider reports; `cost_of` gives its price, or None where none is known.
"""

from __future__ import annotations

from clew.usage.normalize import MAX_COUNT, CanonicalUsage, normalize_usage
from clew.usage.prices import Cost, Price, cost_of, price_of

__all__ = ["MAX_COUNT", "CanonicalUsage", "Cost", "Price", "cost_of", "normalize_usage", "price_of"]
