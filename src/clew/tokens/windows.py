"""The window of a model, and where that answer came from.

In order: the config, a limit that a provider stated in an error, what the models endpoint answered, the table that
ships with us, a default. Knows no network: answers of endpoints are handed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from clew.tokens.endpoints import max_output_in, window_in
from clew.tokens.learnt import LearntLimits
from clew.tokens.names import plain_name, starts_with_name
from clew.tokens.window_table import KNOWN_MODELS, KnownModel

WindowSource: TypeAlias = Literal["config", "stated", "endpoint", "table", "default"]

DEFAULT_WINDOW = 128_000
# Rungs are the smaller reading of "256K": a guess that is too large overflows again.
LADDER = (256_000, 128_000, 64_000, 32_000, 16_000, 8_000)
# Claude Code's way of asking for the long window of a model.
_LONG = "[1m]"


@dataclass(frozen=True, slots=True)
class Window:
    """How many tokens fit, who says so, and what a person should be told about it."""

    tokens: int
    source: WindowSource
    max_output: int | None = None
    notice: str | None = None


def window_of(
    model: str | None,
    *,
    base_url: str | None = None,
    configured: int | None = None,
    stated: int | None = None,
    learnt: LearntLimits | None = None,
    endpoint: object = None,
) -> Window:
    """The window of a model: `stated` is a limit from an error of this run, `learnt` those of earlier ones."""
    name = model or ""
    if stated is None and learnt is not None:
        stated = learnt.limit(name, base_url)
    known = known_model(name)
    max_output = max_output_in(endpoint, name) or (known.max_output if known else None)
    if configured is not None and configured > 0:
        if stated is not None and 0 < stated < configured:
            return Window(stated, "stated", max_output, _overruled(name, configured, stated))
        return Window(configured, "config", max_output)
    if stated is not None and stated > 0:
        return Window(stated, "stated", max_output)
    answered = window_in(endpoint, name)
    if answered is not None:
        return Window(answered, "endpoint", max_output)
    if known is not None:
        return Window(1_000_000 if name.lower().endswith(_LONG) else known.window, "table", max_output)
    return Window(DEFAULT_WINDOW, "default", max_output, _unknown(name))


def next_guess(current: int) -> int | None:
    """The next rung below a window that proved too large by an unknown amount; None below the last.

    A guess is for this session only: nothing here writes it down.
    """
    return next((rung for rung in LADDER if rung < current), None)


@lru_cache(maxsize=1_024)
def known_model(model: str) -> KnownModel | None:
    """The row of the table for a model, however it is spelled; None when there is none."""
    name = plain_name(model.lower().removesuffix(_LONG))
    rows = [row for row in KNOWN_MODELS if starts_with_name(name, row.name)]
    return max(rows, key=lambda row: len(row.name), default=None)


def _overruled(model: str, configured: int, stated: int) -> str:
    return (
        f"The provider stated a limit of {stated:,} tokens for {model}, which is below the configured {configured:,}; "
        f"{stated:,} is used. Set the configured context length to {stated} or less to silence this."
    )


def _unknown(model: str) -> str:
    return (
        f"The window of {model or 'the model'} is not known; {DEFAULT_WINDOW:,} tokens are assumed. "
        "Set its context length in the config to be sure."
    )
