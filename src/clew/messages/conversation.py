"""A conversation as it came from a wire, and the way back: what was not changed leaves exactly as it entered.

Knows what stands around the messages (a bare list, or a request with a system prompt and tools beside them). How
one dialect spells a message is for the module of that dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.errors import InvalidArgument
from clew.messages import openai_chat
from clew.messages.detect import detect_dialect
from clew.messages.types import DialectName, Message, Tool

_READERS: dict[str, Any] = {"openai_chat": openai_chat.read}
_WRITERS: dict[str, Any] = {"openai_chat": openai_chat.write}


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in our form, which remember the wire they came from."""

    dialect: DialectName
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    _wire: Any = field(default=None, repr=False, compare=False)

    def write(self, messages: Sequence[Message] | None = None) -> Any:
        """The wire, in the dialect and shape it came in, with these messages (its own, when none are given)."""
        items = _WRITERS[self.dialect](self.messages if messages is None else messages)
        return {**self._wire, "messages": items} if isinstance(self._wire, Mapping) else items


def read_conversation(
    wire: Any,
    *,
    dialect: DialectName | None = None,
    system: Any = None,
    tools: Sequence[Tool] | None = None,
) -> Conversation:
    """Read messages, or a request that holds them; the dialect is recognised when it is not told."""
    dialect = dialect or detect_dialect(wire)
    if dialect != "openai_chat":
        raise InvalidArgument(f"dialect {dialect!r} cannot be read yet; convert to openai_chat first")
    if isinstance(wire, Mapping):
        items, found = wire["messages"], wire.get("tools")
        system = system if system is not None else wire.get("system")
    else:
        items, found = wire, None
    messages = _READERS[dialect](items)
    if system is not None:
        messages = ({"role": "system", "content": system}, *messages)
    return Conversation(dialect, tuple(messages), tuple(tools or found or ()), wire)
