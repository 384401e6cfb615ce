"""What a message is inside Clew: an OpenAI chat-completions dict, typed.

Messages are values: nobody changes one in place. A changed message is a new dict, and an unchanged one is the
same object, which is how a dialect knows what may leave exactly as it entered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]
DialectName: TypeAlias = Literal["openai_chat", "responses", "anthropic"]


class FunctionCall(TypedDict):
    name: str
    arguments: str
    """JSON as the model wrote it, broken or not."""


class ToolCall(TypedDict):
    id: str
    type: NotRequired[str]
    function: FunctionCall


# A part is open on purpose: {"type": "text", "text": ...}, {"type": "image_url", ...}, or a block of a wire that
# we do not know and carry along.
Part: TypeAlias = dict[str, Any]


class Message(TypedDict, total=False):
    role: Required[Role]
    content: str | list[Part] | None
    name: str
    tool_calls: list[ToolCall]
    tool_call_id: str
    is_error: bool
    """On a tool message: the wire said that the call failed."""
    reasoning: list[Part]
    """On an assistant message: thinking blocks or reasoning items, as their wire wrote them, signatures included."""


# The definition of a tool, in whichever shape its dialect has.
Tool: TypeAlias = dict[str, Any]

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was wrong with a history, and what was done about it."""

    index: int
    """Of the message, in the history as it came."""
    problem: str
    remedy: str
