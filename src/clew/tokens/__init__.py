"""Tokens: how large a text, a message or a request is, and how large a model's window is.

Counts exactly where the model's vocabulary is at hand and estimates elsewhere, and learns from real usage. Knows
nothing of prices, providers' errors or when to compact.
"""

from clew.tokens.calibration import Calibration
from clew.tokens.count import count_each, count_tokens
from clew.tokens.counter import TokenCounter, counter_for
from clew.tokens.learnt import LearntLimits
from clew.tokens.names import plain_name
from clew.tokens.pictures import size_in_header
from clew.tokens.size import ConversationSize
from clew.tokens.window_table import KNOWN_MODELS, KnownModel
from clew.tokens.windows import DEFAULT_WINDOW, LADDER, Window, known_model, next_guess, window_of

__all__ = [
    "DEFAULT_WINDOW",
    "KNOWN_MODELS",
    "LADDER",
    "Calibration",
    "ConversationSize",
    "KnownModel",
    "LearntLimits",
    "TokenCounter",
    "Window",
    "count_each",
    "count_tokens",
    "counter_for",
    "known_model",
    "next_guess",
    "plain_name",
    "size_in_header",
    "window_of",
]
