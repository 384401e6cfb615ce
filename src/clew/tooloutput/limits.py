"""How much tool output may stand in the context, by the size of the window.

Sizes are in chars: results are bounded before anything counts tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.errors import InvalidArgument

PER_RESULT_CHARS = 100_000
PER_TURN_CHARS = 200_000
PREVIEW_CHARS = 1_500

SMALLEST_WINDOW = 1_000
"""Below this the limits shrink no further: a preview of less says nothing."""


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """What one result, the results of one turn, and the preview of a spilled one may hold."""

    per_result_chars: int = PER_RESULT_CHARS
    per_turn_chars: int = PER_TURN_CHARS
    preview_chars: int = PREVIEW_CHARS

    def __post_init__(self) -> None:
        for name in ("per_result_chars", "per_turn_chars", "preview_chars"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} = {getattr(self, name)} leaves no room for any output; pass 1 or more")


def limits_for(window_tokens: int | None, limits: OutputLimits | None = None) -> OutputLimits:
    """The limits for a window: half a char per token for one result, one for a turn, up to the configured limits.

    At three to four chars a token, one result then takes an eighth to a sixth of the window at most; at one token a
    char (Chinese, hashes) still no more than half of it. The default limits are reached at 200,000 tokens. The
    preview is at most a quarter of a result's limit, so that a spilled result is shorter than one that may stay.
    None is an unknown window, and gets the configured limits.
    """
    most = limits or OutputLimits()
    if window_tokens is None:
        return most
    if window_tokens < 1:
        raise InvalidArgument(f"window_tokens = {window_tokens} is no window; pass its tokens, or None if unknown")
    window = max(window_tokens, SMALLEST_WINDOW)
    per_result = min(most.per_result_chars, window // 2)
    return OutputLimits(
        per_result_chars=per_result,
        per_turn_chars=min(most.per_turn_chars, window),
        preview_chars=min(most.preview_chars, max(1, per_result // 4)),
    )
