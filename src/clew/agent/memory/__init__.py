"""The memory that outlives conversations, in two plain files that people may edit: MEMORY.md and USER.md.

Knows files, and no model: the tool that writes here is `clew.agent.tools.memory`.
"""

from clew.agent.memory.files import MemoryUnusable
from clew.agent.memory.memory import FILES, Memory, MemorySnapshot, Remembered, Which

__all__ = ["FILES", "Memory", "MemorySnapshot", "MemoryUnusable", "Remembered", "Which"]
