"""Tool output kept within bounds: limits by window, results spilled to private files, blocks in their place.

The first layer, each tool bounding itself, is the tools' own. Knows no store: what was spilled is in the account
that comes back, for whoever keeps the index.
"""

from clew.tooloutput.block import is_persisted_block
from clew.tooloutput.bound import (
    EXEMPT,
    BoundResult,
    BoundTurn,
    Cut,
    Outcome,
    Persisted,
    bound_result,
    bound_turn,
)
from clew.tooloutput.folder import Spilled, SpillFolder, SpillPart, SpillRefused
from clew.tooloutput.limits import OutputLimits, limits_for

__all__ = [
    "EXEMPT",
    "BoundResult",
    "BoundTurn",
    "Cut",
    "Outcome",
    "OutputLimits",
    "Persisted",
    "SpillFolder",
    "SpillPart",
    "SpillRefused",
    "Spilled",
    "bound_result",
    "bound_turn",
    "is_persisted_block",
    "limits_for",
]
