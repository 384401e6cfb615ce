"""The lossless engine: a map of summaries that can be opened again. `engine` is where to start reading."""

from clew.engines.lossless.engine import LosslessEngine
from clew.engines.lossless.recall import TOOLS, map_problems

__all__ = ["TOOLS", "LosslessEngine", "map_problems"]
