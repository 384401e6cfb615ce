"""The memory that outlives conversations, in two files that people may edit: MEMORY.md and USER.md.

The tool through which the model changes it is in `clew.agent.tools.memory_and_skill`.
"""

from clew.agent.memory.memory import MEMORY_FILES, Memory, MemoryChangeResult, MemoryName, MemorySnapshot
from clew.errors import MemoryUnusable

__all__ = ["MEMORY_FILES", "Memory", "MemoryChangeResult", "MemoryName", "MemorySnapshot", "MemoryUnusable"]
