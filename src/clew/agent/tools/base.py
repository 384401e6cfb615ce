"""The interface of a tool: a name, a schema, the risk of a call, and `run`; and how arguments of models are read.

Tools bound their own output; the caller bounds it again. Arguments are read leniently: a number may come as
text, a flag as a word. What cannot be read is an InvalidArgument whose message says what to send.
"""

from __future__ import annotations

import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

from clew.agent.approvals import Risk
from clew.agent.files.paths import PathConcern
from clew.agent.safe_text import printable_line
from clew.errors import InvalidArgument
from clew.lazy import read_beside
from clew.messages import Tool

Arguments: TypeAlias = Mapping[str, Any]
OnOutput: TypeAlias = Callable[[str], None]
Confirm: TypeAlias = Callable[[Risk], Awaitable[bool | None]]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call returned, for the model."""

    text: str
    is_error: bool = False
    has_failed: bool = False
    """A command ran and failed: people see a failure, the model reads the exit code."""
    display_text: str | None = None
    """For people, where it differs: a diff, or one line such as `3 edits in parser.py`."""
    pinned_as: str | None = None
    """Label under which the text is pinned, so that it is kept verbatim over a compaction: for an opened skill."""


def ignore_output(text: str) -> None:
    del text


async def _nobody(risk: Risk) -> bool | None:
    del risk
    return None


@dataclass(frozen=True, slots=True)
class CallContext:
    """Where a call runs."""

    session: str
    call_id: str
    on_output: OnOutput = field(default=ignore_output)
    """Receives pieces of output, for an observer."""
    confirm: Confirm = field(default=_nobody)
    """Asks a person about an effect of a call; None where no person is asked."""


class AgentTool(ABC):
    """A tool that the model can call."""

    name: str
    schema: Tool
    """In the form of chat completions: {"type": "function", "function": {...}}. Always the same object."""
    is_read_only: bool = False
    """It changes nothing: several such calls may run concurrently."""

    def risk(self, arguments: Arguments) -> Risk | None:
        """What a person must agree to first; None where nothing is dangerous. Never raises: `run` reports mistakes."""
        del arguments
        return None

    def refused(self, arguments: Arguments) -> None:
        """A person refused what `risk` stated: no part of it counts as approved."""
        del arguments

    def try_edit(self, arguments: Arguments) -> ToolResult | None:
        """What a call would return, with the diff as its text for people, where nothing is written.

        Without that text the call would change nothing. None for tools that edit no files.
        """
        del arguments
        return None

    def headline(self, arguments: Arguments) -> str:
        """The call in a few words for people: `read_file src/app.py`."""
        first = next((value for value in arguments.values() if isinstance(value, str)), "")
        return f"{self.name} {first.splitlines()[0] if first else ''}".strip()

    @abstractmethod
    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        """Run the call. A mistake of the model is returned as a result with `is_error`, not raised."""

    async def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """End what runs in the background."""


def function_schema(name: str, description: str, parameters: Mapping[str, Mapping[str, Any]], *required: str) -> Tool:
    """A tool's schema, from its parameters."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": dict(parameters),
                "required": list(required),
                "additionalProperties": False,
            },
        },
    }


def tool_schema(name: str, called: str = "", **values: object) -> Tool:
    """The schema that `schemas.toml` has for a tool, under another name if that is given, with values in its text."""
    text = json.dumps(_schemas()[name])
    for key, value in values.items():
        text = text.replace(f"%{key}%", str(value))
    row = json.loads(text)
    return function_schema(called or name, row["description"], row["parameters"], *row["required"])


@cache
def _schemas() -> dict[str, Any]:
    return tomllib.loads(read_beside(__file__, "schemas.toml").decode())


def error_result(problem: str) -> ToolResult:
    """A result that says what was wrong, and what to do instead."""
    return ToolResult(problem, is_error=True)


_MAX_LINE_CHARS = 1_000
_FLAG_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}


def text_argument(arguments: Arguments, name: str, default: str | None = None) -> str:
    value = arguments.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} is {value!r:.80}; send it as text")
    return value


def number_argument(arguments: Arguments, name: str, default: int, minimum: int, maximum: int) -> int:
    """A whole number; above `maximum` it is `maximum`, since asking for too much is no mistake."""
    value = arguments.get(name)
    if value is None or value == "":
        return default
    try:
        number = int(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or number < minimum:
        raise InvalidArgument(f"{name} is {value!r:.80}; send a whole number of {minimum} or more")
    return min(number, maximum)


def flag_argument(arguments: Arguments, name: str) -> bool:
    value = arguments.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    flag = _FLAG_WORDS.get(str(value).strip().lower())
    if flag is None:
        raise InvalidArgument(f"{name} is {value!r:.80}; send true or false")
    return flag


def risk_from_concerns(action: str, concerns: Sequence[PathConcern]) -> Risk | None:
    """The risk to ask a person about; None where there is no concern."""
    if not concerns:
        return None
    # On one printable line each: a path must not be able to forge the question about it.
    reasons = tuple(dict.fromkeys(printable_line(concern.reason, _MAX_LINE_CHARS) for concern in concerns))
    return Risk(
        printable_line(action, _MAX_LINE_CHARS), reasons, "; ".join(sorted({concern.scope for concern in concerns}))
    )
