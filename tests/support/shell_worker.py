"""A model for the mock upstream that works like a coding agent's: it calls the client's shell tool again and again.

So a real client can be sent through a session of any length, with outputs of any size, and what it ends with shows
whether its task was still there: the final answer quotes the task out of the request that asked for it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from clew.messages import ToolCall
from clew.testing.upstream_rules import listed_messages
from clew.testing.upstream_steps import ReceivedRequest
from clew.testing.upstream_wires import UpstreamAnswer
from tests.support.summaries import handoff_text

UNKNOWN_TASK = "the task is not known any more"
_SHELL_TOOLS = tuple(
    "shell bash exec exec_command execute_bash run_shell_command shell_command terminal local_shell"
    " run_commands".split()
)
_SUMMARY = re.compile(
    r"summary of (?:the|our|this) conversation|checkpoint compaction|state_snapshot|do not call any tools",
    re.IGNORECASE,
)
_COMMAND_FIELDS = ("command", "cmd", "script", "commands")


@dataclass(frozen=True, slots=True)
class ShellTool:
    """A tool of the client that runs a command, and how it wants to be called."""

    name: str
    schema: Mapping[str, Any]

    def arguments(self, command: str) -> dict[str, Any]:
        """The command where the tool takes it, and something for every other field that it demands."""
        properties: Mapping[str, Any] = self.schema.get("properties") or {}
        named = next((name for name in _COMMAND_FIELDS if name in properties), "command")
        is_list = "array" in str(properties.get(named, {}).get("type", "")).lower()
        listed = [command] if named == "commands" else ["bash", "-c", command]
        filled: dict[str, Any] = {named: listed if is_list else command}
        for name in self.schema.get("required") or ():
            if name not in filled:
                filled[name] = _something(str(properties.get(name, {}).get("type", "string")).lower())
        return filled


def _something(kind: str) -> Any:
    return {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}.get(kind, "look")


@dataclass(slots=True)
class ShellWorker:
    """Steps for `Upstream(answers=...)`: `rounds` calls with `lines` lines of output each, and then the task.

    `marker` finds the task in a request, as TASK-7 in the prompt that a person typed. Sessions are told apart by it. A
    request for a title or a summary, with or without tools, is answered with a line that names the task too.
    """

    rounds: int = 10
    lines: int = 400
    marker: str = r"TASK-[0-9A-Za-z]+"
    reasoning: str = ""
    done: Counter[str] = field(default_factory=Counter)
    """Rounds by task."""
    answered: int = 0

    def __call__(self, received: ReceivedRequest) -> UpstreamAnswer:
        self.answered += 1
        return replace(self._answer(received), number=self.answered)

    def _answer(self, received: ReceivedRequest) -> UpstreamAnswer:
        found = re.search(self.marker, received.raw.decode(errors="replace"))
        task = found.group() if found else ""
        model = str(received.body.get("model") or "mock-model-2026")
        tool = shell_tool_of(received.body)
        if received.asks_for_handoff:
            return UpstreamAnswer(handoff_text(goal=f"Do {task or UNKNOWN_TASK}."), model=model)
        if tool is None or _asks_for_summary(received.body):
            return UpstreamAnswer(f"In short: {task or UNKNOWN_TASK}.", model=model)
        if self.done[task] >= self.rounds:
            return UpstreamAnswer(f"Done with {task or UNKNOWN_TASK}.", model=model)
        self.done[task] += 1
        return UpstreamAnswer(calls=(self._call(tool, task),), reasoning=self.reasoning, model=model, piece_chars=60)

    def _call(self, tool: ShellTool, task: str) -> ToolCall:
        number = self.done[task]
        command = f"echo round {number}; seq -f 'value %g of round {number} is settled' 1 {self.lines}"
        arguments = json.dumps(tool.arguments(command))
        slug = re.sub(r"\W", "", task)
        return {
            "id": f"call_{slug}_{number}",
            "type": "function",
            "function": {"name": tool.name, "arguments": arguments},
        }


RECALLED = "The depot waits 4177 seconds."
_RECALLED_RESULT = "waits 4177 seconds"


@dataclass(slots=True)
class RecallingWorker(ShellWorker):
    """The same, and once it may recall, it asks for what its first command printed: alone, then beside a command."""

    alone: bool = False
    beside: bool = False
    """Whether the answer was in the next request."""
    asked: int = 0

    def _answer(self, received: ReceivedRequest) -> UpstreamAnswer:
        names = {tool.name for tool in _tools(received.body)}
        if received.asks_for_handoff or "clew_search" not in names or self.asked > 2:
            # Zero arguments of super() do not work in a class with slots that the decorator makes anew.
            answer = ShellWorker._answer(self, received)
            return replace(answer, text=f"{answer.text} {RECALLED}") if self.beside and answer.text else answer
        newest = json.dumps(listed_messages(received.body)[-1 - self.asked :])
        self.asked += 1
        if self.asked == 1:
            return UpstreamAnswer("Looking it up.", (_recall("clew_search", query="depot waits seconds"),))
        if self.asked == 2:
            self.alone = _RECALLED_RESULT in newest
            command = ShellWorker._answer(self, received).calls
            return UpstreamAnswer("And again.", (_recall("clew_search", query="seconds of the depot"), *command))
        self.beside = _RECALLED_RESULT in newest
        return ShellWorker._answer(self, received)

    def _call(self, tool: ShellTool, task: str) -> ToolCall:
        call = ShellWorker._call(self, tool, task)
        if self.done[task] > 1:
            return call
        command = f"echo '{RECALLED}'; seq -f 'value %g of round 1 is settled' 1 {self.lines}"
        return {**call, "function": {"name": tool.name, "arguments": json.dumps(tool.arguments(command))}}


def _recall(name: str, **arguments: str) -> ToolCall:
    id = f"recall_{blake2b(str(arguments).encode(), digest_size=6).hexdigest()}"
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _asks_for_summary(body: Mapping[str, Any]) -> bool:
    """Whether the newest message is a client's own request for a summary, which some send with all their tools."""
    newest = listed_messages(body)[-1:]
    return bool(newest) and newest[0].get("role") == "user" and bool(_SUMMARY.search(json.dumps(newest)))


def shell_tool_of(body: Mapping[str, Any]) -> ShellTool | None:
    """The tool of a request of any wire that runs commands; None where there is none."""
    by_name = {tool.name.lower(): tool for tool in _tools(body)}
    return next((by_name[name] for name in _SHELL_TOOLS if name in by_name), None)


def _tools(body: Mapping[str, Any]) -> Iterator[ShellTool]:
    for tool in body.get("tools") or ():
        declared = (
            tool.get("functionDeclarations") or tool.get("function_declarations") or [tool.get("function") or tool]
        )
        for one in declared:
            names = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")
            schema: dict[str, Any] = next((one[name] for name in names if isinstance(one.get(name), dict)), {})
            yield ShellTool(str(one.get("name", "")), schema)
