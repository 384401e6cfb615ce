"""What a tool of the agent is: a name, a schema, what is dangerous about a call, and the work itself.

Knows no model and no conversation. Tools bound their own output; whoever runs them bounds it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from clew.messages import Tool

Arguments: TypeAlias = Mapping[str, Any]
OnOutput: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call brought back, for the model."""

    text: str
    is_error: bool = False
    shown: str | None = None
    """For people, where it differs: a diff, or one line such as `3 edits in parser.py`."""
    pinned_as: str | None = None
    """Comes back verbatim after a compaction, under this label: the text of an opened skill."""


@dataclass(frozen=True, slots=True)
class Risk:
    """Why a person has to agree to a call before it runs."""

    action: str
    """What would happen, in one line: `run: rm -rf build`."""
    reasons: tuple[str, ...]
    """Why that is dangerous: `deletes files without a way back`."""
    scope: str
    """What "for this session" would allow: calls of the same scope are not asked for again."""


def ignore_output(text: str) -> None:
    del text


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a running call knows of where it runs."""

    session: str
    call_id: str
    on_output: OnOutput = field(default=ignore_output)
    """Takes pieces of output as they come, for people who watch."""


class AgentTool(ABC):
    """Something the model may do."""

    name: str
    schema: Tool
    """As chat completions spell it: {"type": "function", "function": {...}}. The same object for good."""
    changes_nothing: bool = False
    """It only looks: several such calls may run side by side."""

    def risk(self, arguments: Arguments) -> Risk | None:
        """What a person must agree to first; None where nothing is dangerous. Never raises: `run` reports mistakes."""
        del arguments
        return None

    def refused(self, arguments: Arguments) -> None:
        """A person said no to what `risk` put to them: nothing of it counts as agreed to."""
        del arguments

    def headline(self, arguments: Arguments) -> str:
        """The call in a few words for people: `read_file src/app.py`."""
        first = next((value for value in arguments.values() if isinstance(value, str)), "")
        return f"{self.name} {first.splitlines()[0] if first else ''}".strip()

    @abstractmethod
    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        """The result. What the model got wrong is a result that says so (`is_error`), never an exception."""

    async def close(self) -> None:  # noqa: B027 (most hold nothing)
        """Let go of what runs in the background."""


def function_schema(name: str, about: str, parameters: Mapping[str, Mapping[str, Any]], *required: str) -> Tool:
    """A tool's schema out of its parameters."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": about,
            "parameters": {
                "type": "object",
                "properties": dict(parameters),
                "required": list(required),
                "additionalProperties": False,
            },
        },
    }


def wrong(problem: str) -> ToolResult:
    """A result that tells the model what it did wrong, and what to do instead."""
    return ToolResult(problem, is_error=True)
