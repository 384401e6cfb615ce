"""The tools of an agent, and which of their schemas go with a request.

Schemas stand at the very front of a request: another set of them moves the whole prefix. So a set stays as it is while
the prefix is hot, and is thought over only when that moves anyway: after a compaction, or when the cache has gone cold.
Then schemas that were not used for long are left out, where the tools take more than a tenth of the window; one small
tool tells what is left out and brings it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from clew.agent.tools import AgentTool, Arguments, CallContext, ToolResult, function_schema, wrong
from clew.messages import Tool, ToolCall, arguments_of_call, name_of_call
from clew.tokens import count_tokens
from clew.turn import LiveConversation

LARGEST_SHARE = 0.10
"""Of the window: below it every schema is sent."""
LONG_UNUSED = 40
"""Rounds without a call."""
COLD_SECONDS = 3_600.0
"""The longest that a provider keeps a prefix."""
MORE_TOOLS = "more_tools"


class Toolbox:
    """Gives the same sequence of schemas for as long as the prefix shall not move."""

    def __init__(self, tools: Iterable[AgentTool], clock: Callable[[], float] = time.monotonic) -> None:
        self.tools = tuple(tools)
        self._clock = clock
        self._by_name = {tool.name: tool for tool in self.tools}
        self._more = MoreTools(self)
        self._schemas: dict[str, _Sent] = {}

    @property
    def names(self) -> list[str]:
        return [*self._by_name]

    def find(self, name: str) -> AgentTool | None:
        return self._more if name == MORE_TOOLS else self._by_name.get(name)

    def changes_nothing(self, call: ToolCall) -> bool:
        tool = self.find(name_of_call(call))
        return tool is not None and tool.changes_nothing

    def headline(self, call: ToolCall) -> str:
        tool = self.find(name_of_call(call))
        return tool.headline(arguments_of_call(call)) if tool else name_of_call(call)
