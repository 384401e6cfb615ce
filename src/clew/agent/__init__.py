"""The agent: a model with tools, in one project, for one person.

Runs exchanges over `clew.turn`: asks, runs the tools that are called, asks again. Has memory, skills, context files and
approvals. Knows no screen (an `Onlooker` watches) and no config (`clew.app` builds it).
"""

from clew.agent.approvals import Answer, Approvals, AskPerson, Decision, Mode
from clew.agent.loop import STOPPED, Agent, Exchange
from clew.agent.onlooker import Doing, Onlooker
from clew.agent.toolbox import Toolbox
from clew.agent.tools import AgentTool, CallContext, Risk, ToolResult

__all__ = [
    "STOPPED",
    "Agent",
    "AgentTool",
    "Answer",
    "Approvals",
    "AskPerson",
    "CallContext",
    "Decision",
    "Doing",
    "Exchange",
    "Mode",
    "Onlooker",
    "Risk",
    "ToolResult",
    "Toolbox",
]
