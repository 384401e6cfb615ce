"""What the agent can do: files, commands, memory, skills, old sessions. One file per tool.

Each tool confines itself to its workplace and bounds what it gives back. Knows no model, no conversation and no screen.
"""

from clew.agent.tools.base import (
    AgentTool,
    Arguments,
    CallContext,
    OnOutput,
    Risk,
    ToolResult,
    function_schema,
    wrong,
)

__all__ = [
    "AgentTool",
    "Arguments",
    "CallContext",
    "OnOutput",
    "Risk",
    "ToolResult",
    "function_schema",
    "wrong",
]
