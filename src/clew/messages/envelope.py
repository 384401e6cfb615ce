"""What stands around the messages on a wire: nothing, or a request with a system prompt, tools and other fields.

Keeps every field it does not know, in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.errors import InvalidArgument
from clew.messages.content import text_of
from clew.messages.joining import as_parts, joined_content
from clew.messages.parts import spelled
from clew.messages.types import DialectName, Message

_SYSTEM_FIELDS: dict[DialectName, str] = {
    "openai_chat": "system",
    "responses": "instructions",
    "anthropic": "system",
}


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """A bare list, unless it says otherwise."""

    request: Mapping[str, Any] | None = None
    list_field: str = "messages"
    system_message: Message | None = None
    """The system prompt that came beside the list, as a message."""
    has_system_beside: bool = False
    """Whether that is the place of a system prompt here, even when none came."""
    tools: Sequence[Any] = field(default=(), repr=False)

    @classmethod
    def for_request(cls, dialect: DialectName) -> Envelope:
        """Around messages that come from no wire yet."""
        return cls({}, _list_field(dialect), has_system_beside=dialect != "openai_chat")

    @property
    def is_request(self) -> bool:
        return self.request is not None

    def around(self, items: list[Any], beside: Sequence[Message], dialect: DialectName) -> Any:
        """The wire with these items, and with these system messages beside them."""
        if self.request is None:
            return items
        written = {**self.request, self.list_field: self._shaped(items)}
        if not self.has_system_beside:
            return written
        name, system = _SYSTEM_FIELDS[dialect], self.system_of(beside, dialect)
        if system is not None:
            # Before the messages, where a reader looks for it; in its own place where it has one.
            return {**written, name: system} if name in written else {name: system, **written}
        if self.system_message is not None:
            written.pop(name, None)
        return written

    def system_of(self, beside: Sequence[Message], dialect: DialectName) -> Any:
        """System messages as the one prompt that stands beside a list; None when there are none."""
        if not beside:
            return None
        if len(beside) == 1 and beside[0] is self.system_message:
            return self.system_message["content"]
        content = joined_content([message.get("content") for message in beside])
        if dialect == "responses":
            return text_of({"role": "system", "content": content})
        if isinstance(content, str) or content is None:
            return content
        return [spelled(part, dialect, foreign=False) for part in as_parts(content)]

    def _shaped(self, items: list[Any]) -> Any:
        """A list, or the one text that the Responses wire also takes, when nothing but that text is there."""
        came = self.request.get(self.list_field) if self.request is not None else None
        if isinstance(came, str) and len(items) == 1 and items[0].get("content") is came:
            return came
        return items


def unwrap(wire: Any, dialect: DialectName, system: Any) -> tuple[Sequence[Any], Envelope]:
    """The items of a wire, and what stood around them."""
    if isinstance(wire, Mapping):
        name = _list_field(dialect)
        items, beside, tools = wire.get(name), wire.get(_SYSTEM_FIELDS[dialect]), wire.get("tools")
    elif isinstance(wire, Sequence) and not isinstance(wire, str | bytes | bytearray):
        name, items, beside, tools = "messages", wire, None, None
    else:
        raise InvalidArgument(f"a {type(wire).__name__} holds no messages; pass a list of dicts or a request object")
    if isinstance(items, str) and name == "input":
        items = [{"role": "user", "content": items}]
    if not isinstance(items, Sequence) or isinstance(items, str | bytes | bytearray):
        raise InvalidArgument(f"{name} is {type(items).__name__}, not a list; pass a list of dicts")
    beside = system if system is not None else beside
    message: Message | None = {"role": "system", "content": beside} if beside else None
    request = wire if isinstance(wire, Mapping) else None
    listed = bool(items) and isinstance(items[0], Mapping) and items[0].get("role") == "system"
    has_system_beside = message is not None or (dialect == "anthropic" and request is not None and not listed)
    return items, Envelope(request, name, message, has_system_beside, tools if isinstance(tools, list) else ())


def _list_field(dialect: DialectName) -> str:
    return "input" if dialect == "responses" else "messages"
