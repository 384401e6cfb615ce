"""A conversation as it came from a wire, and the way back: what was not changed leaves exactly as it entered.

Knows what stands around the messages (a bare list, or a request with a system prompt and tools beside them). How
one dialect spells a message is for the module of that dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from clew.errors import InvalidArgument
from clew.messages import anthropic, openai_chat, responses
from clew.messages.detect import detect_dialect
from clew.messages.envelope import Envelope, unwrap
from clew.messages.origins import Origin, Reading
from clew.messages.repair import repair
from clew.messages.tools import convert_tools
from clew.messages.types import DialectName, Message, Tool

_DIALECTS = {"openai_chat": openai_chat, "responses": responses, "anthropic": anthropic}

# Whose leading messages a dialect wants beside the list.
_LEADING_ROLES: dict[DialectName, tuple[str, ...]] = {
    "openai_chat": (),
    "responses": ("system",),
    "anthropic": ("system", "developer"),
}


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages in our form, which remember the wire they came from.

    A system prompt, in the list or beside it, is the leading message(s) of role "system".
    """

    dialect: DialectName
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    _envelope: Envelope = field(default=Envelope(), repr=False, compare=False)
    _reading: Reading = field(default_factory=Reading, repr=False, compare=False)

    def write(self, messages: Sequence[Message] | None = None) -> Any:
        """The wire, in the dialect and shape it came in, with these messages (its own, when none are given).

        A list gives a list, a request gives a request with every other field as it was. Messages that are still the
        same objects leave as the items they came from; the others are spelled anew. A system prompt that was handed
        over beside a list is not in it: see `write_system`.
        """
        beside, inside = self._split(self.messages if messages is None else messages)
        items = _DIALECTS[self.dialect].write(inside, self._reading)
        return self._envelope.around(items, beside, self.dialect)

    def write_system(self, messages: Sequence[Message] | None = None) -> Any:
        """What stands beside the messages as their system prompt, in the shape it came in; None where nothing does."""
        beside, _ = self._split(self.messages if messages is None else messages)
        return self._envelope.system_of(beside, self.dialect)

    def origin_of(self, message: Message) -> Origin | None:
        """The wire items that a message came from; None for a new one. A chat message is its own item, always."""
        if self.dialect == "openai_chat" and message is not self._envelope.system_message:
            return Origin((message,))
        return self._reading.origin_of(message)

    def _split(self, messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
        """The leading system messages that belong beside the list, and the rest."""
        if not self._envelope.has_system_beside:
            return (), messages
        listed = self.messages if self._envelope.system_message is None else self.messages[1:]
        inside = {id(message) for message in takewhile(_is_system, listed)}
        count = sum(1 for _ in takewhile(lambda it: _is_system(it) and id(it) not in inside, messages))
        return messages[:count], messages[count:]


def read_conversation(
    wire: Any,
    *,
    dialect: DialectName | None = None,
    system: Any = None,
    tools: Sequence[Tool] | None = None,
) -> Conversation:
    """Read messages, or a request that holds them; the dialect is recognised when it is not told.

    `system` and `tools` are what stands beside a bare list, in the words of its dialect.
    """
    if dialect is not None and dialect not in _DIALECTS:
        raise InvalidArgument(f"dialect {dialect!r} is unknown; use one of {', '.join(_DIALECTS)}")
    spoken = dialect or detect_dialect(wire)
    items, envelope = unwrap(wire, spoken, system)
    reading = _DIALECTS[spoken].read(items)
    lead = () if envelope.system_message is None else (envelope.system_message,)
    return Conversation(
        spoken, (*lead, *reading.messages), tuple(envelope.tools if tools is None else tools), envelope, reading
    )


def convert(
    source: Conversation | Any,
    to: DialectName,
    *,
    messages: Sequence[Message] | None = None,
    dialect: DialectName | None = None,
    system: Any = None,
    tools: Sequence[Tool] | None = None,
) -> dict[str, Any]:
    """A conversation in the words of a dialect, as the fields of a request: messages or input, system prompt, tools.

    Ids of calls, parallel calls, pictures and errors of tools are kept where the target has a place for them.
    Thinking stays as it is where its own provider reads it, becomes plain text where the target has a plain place,
    and is left out elsewhere: a signature means nothing to another provider. What is broken is repaired on the way,
    or refused with `InvalidMessage`. Other fields of a request (model, temperature) are not converted. A request that
    is in the dialect already keeps everything.
    """
    if not isinstance(source, Conversation):
        source = read_conversation(source, dialect=dialect, system=system, tools=tools)
    chosen = source.messages if messages is None else messages
    if source.dialect == to and source._envelope.is_request:
        return source.write(chosen)  # type: ignore[no-any-return]
    foreign = source.dialect != to
    if foreign:
        chosen = repair(chosen, open_end=True).messages
    lead = _count_leading(chosen, _LEADING_ROLES[to])
    items = _DIALECTS[to].write(chosen[lead:], Reading() if foreign else source._reading, foreign=foreign)
    envelope = Envelope.for_request(to)
    request: dict[str, Any] = envelope.around(items, chosen[:lead], to)
    if source.tools:
        request["tools"] = convert_tools(source.tools, to) if foreign else list(source.tools)
    return request


def _is_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") == "system"


def _count_leading(messages: Sequence[Message], roles: tuple[str, ...]) -> int:
    return sum(1 for _ in takewhile(lambda message: message["role"] in roles, messages))
