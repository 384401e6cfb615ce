"""Tokens: the size of a text, a message or a request, and the window of a model.

Counts are exact where the model's vocabulary is here, estimated elsewhere, and corrected by real usage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.lazy import lazy_names
from clew.tokens.count import TokenCounter, count_each, count_tokens, counter_for
from clew.tokens.families import DEFAULT_WINDOW, normalize_model_name

if TYPE_CHECKING:
    from clew.tokens.media import image_size_in_header
    from clew.tokens.size import Calibration, ConversationSize
    from clew.tokens.windows import (
        KNOWN_MODELS,
        LADDER,
        KnownModel,
        LearntLimit,
        LearntLimits,
        Window,
        known_model,
        next_guess,
        window_of,
    )

__all__ = [
    "DEFAULT_WINDOW",
    "KNOWN_MODELS",
    "LADDER",
    "Calibration",
    "ConversationSize",
    "KnownModel",
    "LearntLimit",
    "LearntLimits",
    "TokenCounter",
    "Window",
    "count_each",
    "count_tokens",
    "counter_for",
    "image_size_in_header",
    "known_model",
    "next_guess",
    "normalize_model_name",
    "window_of",
]

# A fold to a number of tokens needs none of these.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".media": "image_size_in_header",
        ".size": "Calibration ConversationSize",
        ".windows": "KNOWN_MODELS KnownModel LADDER LearntLimit LearntLimits Window known_model next_guess window_of",
    },
)
