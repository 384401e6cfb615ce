"""The tool `memory`: what the model wants to remember, change or forget.

Knows the memory's operations; where and how they are kept is the memory's own affair.
"""

from __future__ import annotations

from typing import Any

from clew.agent.memory import FILES, Memory, Remembered, Which
from clew.agent.tools.base import AgentTool, Arguments, CallContext, ToolResult, function_schema, wrong

ACTIONS = ("add", "replace", "remove", "list")

_ABOUT = (
    "Your memory across conversations, small and lasting. memory: facts about projects, environment, ways of working; "
    "user: who the person is and what they prefer. Save what will matter in a later conversation, one short "
    "paragraph each; never secrets, never the progress of the present task."
)


class MemoryTool(AgentTool):
    """Changes the memory; the system prompt of the present conversation stays as it is."""

    name = "memory"

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.schema = function_schema(
            self.name,
            _ABOUT,
            {
                "action": {"type": "string", "enum": list(ACTIONS)},
                "which": {"type": "string", "enum": list(FILES)},
                "text": {"type": "string", "description": "add, replace: the entry"},
                "old": {"type": "string", "description": "replace, remove: words that only the old entry holds"},
            },
            "action",
            "which",
        )

    def headline(self, arguments: Arguments) -> str:
        said = arguments.get("text") or arguments.get("old") or ""
        return f"memory {arguments.get('action', '')} {str(said)[:60]}".strip()

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        which = arguments.get("which")
        if not isinstance(which, str) or which not in FILES:
            return wrong(f"which is {which!r}; it has to be {' or '.join(FILES)}")
        action = arguments.get("action")
        if action not in ACTIONS:
            return wrong(f"action is {action!r}; it has to be one of {', '.join(ACTIONS)}")
        for name in {"add": ("text",), "replace": ("old", "text"), "remove": ("old",)}.get(action, ()):
            if not isinstance(arguments.get(name), str):
                return wrong(f"{action} needs {name}, a text")
        if action == "list":
            return self._listed(which)
        done = await self._done(action, which, arguments, call.session)
        return ToolResult(done.told, is_error=not done.is_done)

    def _listed(self, which: Which) -> ToolResult:
        entries = "\n".join(f"- {entry}" for entry in self._memory.entries(which)) or "(no entries)"
        return ToolResult(f"{self._memory.fullness(which)}\n{entries}")

    async def _done(self, action: Any, which: Which, arguments: Arguments, session: str) -> Remembered:
        if action == "add":
            return await self._memory.add(which, arguments["text"], session)
        if action == "replace":
            return await self._memory.replace(which, arguments["old"], arguments["text"], session)
        return await self._memory.remove(which, arguments["old"], session)
