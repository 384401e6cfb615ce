"""What real usage has taught about a model: by how much its prompts grow when our count grows by one.

A plain value that a store can keep. Knows no messages: it gets two growths, one counted and one real.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# The prior weighs as much as this many counted tokens; what was learnt never weighs more than the most, so that a
# changed vocabulary behind the same name is noticed.
_PRIOR_TOKENS = 4_000.0
_MOST_TOKENS = 400_000.0
# A single growth says little about the ratio below the first, and something else happened outside the others: text
# we did not see, a reply that was dropped, a provider that reports nonsense.
_LEAST_GROWTH = 100
_LOWEST, _HIGHEST = 0.6, 1.8


@dataclass(frozen=True, slots=True)
class Calibration:
    """The learnt ratio of real to counted growth for one model, and the counted tokens it rests on."""

    ratio: float = 1.0
    evidence: float = 0.0

    def learnt_from(self, counted: float, real: float) -> Calibration:
        """With one more growth taken in; unchanged when that growth is too small or absurd."""
        if counted < _LEAST_GROWTH or not _LOWEST <= real / counted <= _HIGHEST:
            return self
        known = self.evidence + _PRIOR_TOKENS
        ratio = (self.ratio * known + real) / (known + counted)
        return Calibration(ratio, min(_MOST_TOKENS, self.evidence + counted))

    def corrected(self, counted: float) -> int:
        """What a count probably is in the model's own tokens."""
        return round(counted * self.ratio)

    def as_plain(self) -> dict[str, float]:
        """For a store: only numbers."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: object) -> Calibration:
        """Back from a store; a fresh one when what was stored makes no sense."""
        if not isinstance(plain, Mapping):
            return cls()
        ratio, evidence = _number(plain.get("ratio")), _number(plain.get("evidence"))
        if ratio is None or evidence is None or not _LOWEST <= ratio <= _HIGHEST or evidence < 0:
            return cls()
        return cls(ratio, min(_MOST_TOKENS, evidence))


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None
