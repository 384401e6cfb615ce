"""Limits for tool output: results that are too long are written to private files and replaced by blocks.

What was written is in the returned outcomes, for the index of the caller.
"""

from clew.tooloutput.block import is_persisted_block
from clew.tooloutput.bound import (
    EXEMPT_TOOLS,
    BoundResult,
    BoundTurn,
    CutOutput,
    OutputOutcome,
    PersistedOutput,
    ToolOutputLimits,
    bound_result,
    bound_turn,
    limits_for_window,
)
from clew.tooloutput.folder import Spilled, SpillFolder, SpillPart, SpillRefused

__all__ = [
    "EXEMPT_TOOLS",
    "BoundResult",
    "BoundTurn",
    "CutOutput",
    "OutputOutcome",
    "PersistedOutput",
    "SpillFolder",
    "SpillPart",
    "SpillRefused",
    "Spilled",
    "ToolOutputLimits",
    "bound_result",
    "bound_turn",
    "is_persisted_block",
    "limits_for_window",
]
