"""Makes up secrets of any kind of the catalog, for tests and benchmarks: right in shape, plainly not real.

They are put together when needed, so that no file holds anything that looks like a key.
"""

from __future__ import annotations

import random
import re
import string

from clew.redact.shape import Kind, Maybe, Part, Run

# A percent sign only ever begins an escape, never stands at random.
_PRINTABLE = string.ascii_letters + string.digits + string.punctuation.replace("%", "")


def made_up(kind: Kind, seed: int = 0, start: str | None = None) -> str:
    """A secret of that kind; another for every seed. `start` chooses one of the literals it may start with."""
    # Not for any secret's sake: the same seed must give the same text.
    chance = random.Random(f"{kind.name} {seed}")  # noqa: S311
    literal = start if start is not None else kind.starts[seed % len(kind.starts)]
    reach = _some(kind.reach, chance) if kind.reach else ""
    return reach + literal + "".join(_some(part, chance) for part in kind.body)


def stand_before(kind: Kind) -> str:
    """What must stand directly before a secret of that kind, if anything must."""
    return "12345678:" if kind.behind else ""


def _some(part: Part, chance: random.Random) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Maybe):
        return "".join(_some(inner, chance) for inner in part.parts)
    # The first and last are letters or digits, as in generated keys; the first twenty too, as in nearly all.
    plain = [char for char in _chars(part) if char.isalnum()]
    length = chance.randint(part.low, min(part.high, part.low + 16)) if plain else part.low
    start = chance.choices(plain, k=min(20, length)) if plain else []
    middle = chance.choices(_chars(part), k=max(0, length - 21))
    return "".join((*start, *middle, *chance.choices(plain, k=min(1, length - len(start) - len(middle)))))


def _chars(run: Run) -> list[str]:
    return re.findall(f"[{run.chars}]", _PRINTABLE)
