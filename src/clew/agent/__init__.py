"""The agent: a model with tools, memory, skills and approvals, in one project.

`Agent.ask` runs one exchange over `clew.turn`: it asks the model, runs the tools that it calls, and asks again until it
answers. An `AgentObserver` shows what happens; `clew.app` builds an agent from the config. It needs POSIX, for process
groups and files that are opened from their folders; elsewhere importing it raises a ClewError that says so.
"""

from clew.agent.approvals import ApprovalAnswer, ApprovalDecision, ApprovalMode, Approvals, AskPerson, EditMode, Risk
from clew.agent.loop import Agent, AgentObserver, Answer, ToolActivity
from clew.agent.toolbox import Toolbox
from clew.agent.tools import AgentTool, CallContext, ToolResult

__all__ = [
    "Agent",
    "AgentObserver",
    "AgentTool",
    "Answer",
    "ApprovalAnswer",
    "ApprovalDecision",
    "ApprovalMode",
    "Approvals",
    "AskPerson",
    "CallContext",
    "EditMode",
    "Risk",
    "ToolActivity",
    "ToolResult",
    "Toolbox",
]
