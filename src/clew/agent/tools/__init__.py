"""The tools of the agent: files, commands, memory, skills, old sessions.

Each tool keeps to its workspace and bounds what it returns.
"""

from clew.agent.tools.base import (
    AgentTool,
    Arguments,
    CallContext,
    OnOutput,
    ToolResult,
    error_result,
    function_schema,
)

__all__ = [
    "AgentTool",
    "Arguments",
    "CallContext",
    "OnOutput",
    "ToolResult",
    "error_result",
    "function_schema",
]
