"""Reading a conversation from a wire, writing it back, and converting it to another dialect.

A wire is a list of messages, or a request with a system prompt, tools and other fields. What was not changed is
written exactly as it was read. How one dialect encodes a message is in the module of that dialect.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from clew.errors import InvalidArgument
from clew.messages.message import (
    DialectName,
    Item,
    Message,
    Tool,
    as_parts,
    dialect_of,
    is_plain,
    join_contents,
    places_among,
    text_of,
)
from clew.messages.parts import ANTHROPIC_BLOCKS, CHAT_PARTS, RESPONSES_PARTS, convert_tools, encode_part
from clew.messages.plain import as_sequence, plain_messages, plain_system, plain_tools, request_fields
from clew.messages.repair import repair

_DIALECTS: tuple[DialectName, ...] = ("openai_chat", "responses", "anthropic", "gemini")

# Leading messages of these roles have a field of their own in a request of the dialect.
_LEADING_ROLES: dict[DialectName, tuple[str, ...]] = {
    "openai_chat": (),
    "responses": ("system",),
    "anthropic": ("system", "developer"),
    "gemini": ("system", "developer"),
}
_SYSTEM_FIELDS: dict[DialectName, str] = {
    "openai_chat": "system",
    "responses": "instructions",
    "anthropic": "system",
    "gemini": "systemInstruction",
}
_LIST_FIELDS: dict[DialectName, str] = {
    "openai_chat": "messages",
    "responses": "input",
    "anthropic": "messages",
    "gemini": "contents",
}
_GEMINI_SYSTEM = "system_instruction"
"""The other name of the field on that wire."""
_OUTPUT_FIELDS = ("max_completion_tokens", "max_output_tokens", "max_tokens", "maxOutputTokens")
_GENERATION_FIELDS = ("generationConfig", "generation_config")
"""Where Gemini's wire has them."""
_RESPONSES_ITEMS = frozenset({"message", "reasoning", "item_reference", "compaction", "mcp_list_tools"})
_RESPONSES_ENDINGS = ("_call", "_call_output", "_approval_request", "_approval_response", "_search_output")


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """What is around the messages of a wire: nothing for a bare list, or a request with its other fields."""

    request: Mapping[str, Any] | None = None
    list_field: str = "messages"
    system_message: Message | None = None
    """The system prompt beside the list, as a message."""
    has_system_field: bool = False
    """Whether a system prompt is written separate from the list, even when none was received."""
    tools: tuple[Tool, ...] = field(default=(), repr=False)
    system: Any = field(default=None, repr=False)
    """The system prompt beside the list, as received."""

    @classmethod
    def for_request(cls, dialect: DialectName) -> Envelope:
        """An envelope for messages that were converted."""
        return cls({}, _LIST_FIELDS[dialect], has_system_field=dialect != "openai_chat")

    @property
    def is_request(self) -> bool:
        return self.request is not None

    def wrap(self, items: list[Any], system_messages: Sequence[Message], dialect: DialectName) -> Any:
        """The wire with these items, and with these messages as its system prompt."""
        if self.request is None:
            return items
        written = {**self.request, self.list_field: self._in_original_shape(items)}
        if not self.has_system_field:
            return written
        name, system = _system_field(self.request, dialect), self.system_of(system_messages, dialect)
        if system is not None:
            # Before the messages, where a reader looks for it, unless the request has the field already.
            return {**written, name: system} if name in written else {name: system, **written}
        if self.system_message is not None:
            written.pop(name, None)
        return written

    def system_of(self, system_messages: Sequence[Message], dialect: DialectName) -> Any:
        """System messages as one prompt, in the received shape; None when there are none."""
        if not system_messages:
            return None
        if len(system_messages) == 1 and system_messages[0] is self.system_message:
            return self.system
        content = join_contents([message.get("content") for message in system_messages])
        if dialect == "responses":
            return text_of({"role": "system", "content": content})
        if dialect == "gemini":
            return dialect_of("gemini").write_system(content, self.system)
        if isinstance(content, str) or content is None:
            return content
        return [encode_part(part, dialect, foreign=False) for part in as_parts(content)]

    def _in_original_shape(self, items: list[Any]) -> Any:
        """A list, or the single text or content that two of the wires also take, where that was received."""
        original = self.request.get(self.list_field) if self.request is not None else None
        if len(items) == 1 and isinstance(original, str | Mapping) and _is_only_item(items[0], original):
            return original
        return items


@dataclass(frozen=True, slots=True)
class ParsedConversation:
    """Messages that were read from a wire, and can be written back to it.

    A system prompt, in the list or separate from it, is the leading message(s) of role "system".
    """

    dialect: DialectName
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    _envelope: Envelope = field(default=Envelope(), repr=False, compare=False)
    items: tuple[Item, ...] = field(default=(), repr=False, compare=False)
    """Each message of the list with the wire items that it was read from."""
    _came: Sequence[Any] = field(default=(), repr=False, compare=False)
    """The wire items, as the received objects."""

    @property
    def is_request(self) -> bool:
        """Whether the messages were received in a request with other fields."""
        return self._envelope.is_request

    @property
    def list_field(self) -> str:
        """The field of the request that has the messages."""
        return self._envelope.list_field

    def write(self, messages: Sequence[Message] | None = None) -> Any:
        """The wire, in the received dialect and shape, with these messages (its own, when none are given).

        A list gives a list, a request gives a request with every other field as it was. Messages that are still the
        same objects are written as their items, SDK objects as those objects; the others are encoded, as
        dicts. A system prompt that was passed separate from a list is not in it: see `write_system`.
        """
        system_messages, inside = self._split(self.messages if messages is None else messages)
        return self._envelope.wrap(self._items(inside), system_messages, self.dialect)

    def write_list(self, messages: Sequence[Message] | None = None) -> list[Any]:
        """The messages of the wire alone, also where they were received in a request."""
        return self._items(self._split(self.messages if messages is None else messages)[1])

    def _items(self, messages: Sequence[Message]) -> list[Any]:
        written = dialect_of(self.dialect).write(self._placed(messages))
        return [self._came[it] if isinstance(it, int) else it for it in written]

    def _placed(self, messages: Sequence[Message]) -> list[Item]:
        """Messages as items: received ones unchanged, others with what is known about them."""
        if len(messages) == len(self.items) and all(map(_is_of, messages, self.items)):
            return list(self.items)
        places = places_among(messages, [item.message for item in self.items])
        return [_item_for(message, self.items, at) for message, at in zip(messages, places, strict=True)]

    def write_system(self, messages: Sequence[Message] | None = None) -> Any:
        """The system prompt that is separate from the messages, in the received shape; None where there is none."""
        system_messages, _ = self._split(self.messages if messages is None else messages)
        return self._envelope.system_of(system_messages, self.dialect)

    @property
    def max_output(self) -> int | None:
        """How many tokens of output the request asks for; None where it does not say, and for a bare list."""
        request = self._envelope.request or {}
        found = (it.get(name) for it in (request, *_generation_fields(request)) for name in _OUTPUT_FIELDS)
        return next((value for value in found if type(value) is int and value > 0), None)

    def _split(self, messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
        """The leading system messages that are written separate from the list, and the rest."""
        if not self._envelope.has_system_field:
            return (), messages
        count = sum(1 for _ in takewhile(lambda it: _is_system(it) and not self._came_in_list(it), messages))
        return messages[:count], messages[count:]

    def _came_in_list(self, message: Message) -> bool:
        if message is self._envelope.system_message:
            return False
        return any(message is item.message for item in self.items)


def _is_of(message: Message, item: Item) -> bool:
    return message is item.message


def _item_for(message: Message, items: Sequence[Item], at: int) -> Item:
    if at < 0:
        return Item(message)
    return items[at] if items[at].message is message else items[at].changed_to(message)


def read_conversation(
    wire: Any,
    *,
    dialect: DialectName | None = None,
    system: Any = None,
    tools: Iterable[Any] | None = None,
) -> ParsedConversation:
    """Read a list of messages, or a request that holds one; the dialect is detected unless it is given.

    Messages, and everything inside them, may be dicts, objects of SDKs, pydantic models or dataclasses. `system` and
    `tools` are for a bare list, in the format of its dialect. `InvalidMessage` for a message that cannot be read.
    """
    if dialect is not None:
        checked_dialect(dialect)
    request = None if isinstance(wire, list | tuple) else wire if isinstance(wire, Mapping) else request_fields(wire)
    original, field_name = _items_of(wire, request, dialect)
    # Nearly every conversation is of dicts alone; only others are read value by value.
    items = original if all(map(is_plain, original)) else plain_messages(original, field_name)
    name = dialect or _dialect_of(items, request)
    envelope = _envelope_of(request, field_name, items, name, system)
    read = tuple(dialect_of(name).read(items))
    lead = () if envelope.system_message is None else (envelope.system_message,)
    return ParsedConversation(
        name,
        (*lead, *(item.message for item in read)),
        envelope.tools if tools is None else _tools_of(tools),
        envelope,
        read,
        original,
    )


def convert(
    source: ParsedConversation | Any,
    to: DialectName,
    *,
    messages: Sequence[Message] | None = None,
    dialect: DialectName | None = None,
    system: Any = None,
    tools: Iterable[Any] | None = None,
) -> dict[str, Any]:
    """A conversation as a request in a dialect: messages or input, system prompt, tools.

    Call ids, parallel calls, images and errors of tools are kept where the target has a field for them. Reasoning is
    kept as it is for its own provider, becomes plain text where the target has a field for that, and is left out
    elsewhere: a signature means nothing to another provider. A broken history is repaired, or refused with
    `InvalidMessage`. Other fields of a request (model, temperature) are not converted, but a request that is in the
    dialect already keeps everything.
    """
    checked_dialect(to)
    if not isinstance(source, ParsedConversation):
        source = read_conversation(source, dialect=dialect, system=system, tools=tools)
    chosen = source.messages if messages is None else messages
    if source.dialect == to and source._envelope.is_request:
        return source.write(chosen)  # type: ignore[no-any-return]
    foreign = source.dialect != to
    if foreign:
        chosen = repair(chosen, open_end=True).messages
    lead = _count_leading(chosen, _LEADING_ROLES[to])
    inside = chosen[lead:]
    items = dialect_of(to).write([*map(Item, inside)], foreign=True) if foreign else source._items(inside)
    envelope = Envelope.for_request(to)
    request: dict[str, Any] = envelope.wrap(items, chosen[:lead], to)
    if source.tools:
        request["tools"] = convert_tools(source.tools, to) if foreign else list(source.tools)
    return request


def _is_system(message: Any) -> bool:
    return isinstance(message, Mapping) and message.get("role") == "system"


def _count_leading(messages: Sequence[Message], roles: tuple[str, ...]) -> int:
    return sum(1 for _ in takewhile(lambda message: message.get("role") in roles, messages))


def is_request(fields: Mapping[str, Any]) -> bool:
    """Whether these are the fields of a request, and not those of a message."""
    return "role" not in fields and "type" not in fields and any(name in fields for name in _LIST_FIELDS.values())


def _system_field(request: Mapping[str, Any], dialect: DialectName) -> str:
    return _GEMINI_SYSTEM if dialect == "gemini" and _GEMINI_SYSTEM in request else _SYSTEM_FIELDS[dialect]


def _generation_fields(request: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (found for name in _GENERATION_FIELDS if isinstance(found := request.get(name), Mapping))


def _is_only_item(item: Any, original: Any) -> bool:
    """Whether an item is the text or the content that was received in place of a list."""
    if not isinstance(original, str):
        return item is original
    parts = item.get("parts")
    return item.get("content") is original or (bool(parts) and len(parts) == 1 and parts[0].get("text") is original)


def _items_of(wire: Any, request: Mapping[str, Any] | None, dialect: DialectName | None) -> tuple[Sequence[Any], str]:
    """The messages of a wire as received, and the field of the request that they are in."""
    if request is None:
        if not isinstance(wire, Iterable) or isinstance(wire, str | bytes | bytearray):
            raise InvalidArgument(
                f"a {type(wire).__name__} holds no messages", remedy="pass a list of messages or a request object"
            )
        return wire if isinstance(wire, list | tuple) else as_sequence(wire), "messages"
    name = _LIST_FIELDS[dialect or _dialect_of_fields(request) or "openai_chat"]
    items = request.get(name)
    if isinstance(items, str) and name == "input":
        return [{"role": "user", "content": items}], name
    if name == "contents" and isinstance(items, str | Mapping):
        return [{"role": "user", "parts": [{"text": items}]} if isinstance(items, str) else items], name
    if name not in request:
        kind = type(wire).__name__
        raise InvalidArgument(
            f"a {kind} without messages is no request", remedy="pass a list of messages, or a request with them"
        )
    return items if isinstance(items, list | tuple) else as_sequence(items, name), name


def _envelope_of(
    request: Mapping[str, Any] | None, list_field: str, items: Sequence[Any], dialect: DialectName, system: Any
) -> Envelope:
    """What is around the messages; `system` wins over the request's own."""
    original = system if system is not None or request is None else request.get(_system_field(request, dialect))
    content = original if original is None or isinstance(original, str) else plain_system(original)
    if dialect == "gemini":
        content = dialect_of("gemini").read_system(content)
    message: Message | None = {"role": "system", "content": content} if content else None
    listed = bool(items) and items[0].get("role") == "system"
    is_beside = dialect in ("anthropic", "gemini") and request is not None and not listed
    has_system_field = message is not None or is_beside
    tools = _tools_of(request.get("tools")) if request is not None else ()
    return Envelope(request, list_field, message, has_system_field, tools, original)


def _tools_of(tools: Any) -> tuple[Tool, ...]:
    if tools is None:
        return ()
    is_known = isinstance(tools, list | tuple) and all(map(is_plain, tools))
    return tuple(tools if is_known else plain_tools(tools))


def checked_dialect(name: object) -> DialectName:
    """The name of a dialect. Raises InvalidArgument for any other value."""
    for known in _DIALECTS:
        if name == known:
            return known
    raise InvalidArgument(f"dialect {name!r:.80} is unknown", remedy=f"use one of {', '.join(_DIALECTS)}")


def detect_dialect(wire: Any) -> DialectName:
    """The dialect of a list of messages, or of a request, by the first item that only one dialect writes.

    Plain text in every message is valid in most of them, and is taken for OpenAI chat.
    """
    if not isinstance(wire, Mapping):
        return _dialect_of(wire, None)
    return _dialect_of(wire.get("messages"), wire)


def _dialect_of(items: Any, request: Mapping[str, Any] | None) -> DialectName:
    if request is None:
        return _dialect_of_items(items) or "openai_chat"
    return _dialect_of_fields(request) or _dialect_of_items(items) or _dialect_of_request(request)


def _dialect_of_fields(request: Mapping[str, Any]) -> DialectName | None:
    """The dialect of a request whose messages are in a field that only one has."""
    if "messages" in request:
        return None
    return "responses" if "input" in request else "gemini" if "contents" in request else None


def _dialect_of_request(wire: Mapping[str, Any]) -> DialectName:
    tools = wire.get("tools")
    for tool in tools if isinstance(tools, list | tuple) else ():
        if isinstance(tool, Mapping):
            if "input_schema" in tool:
                return "anthropic"
            if "function" in tool:
                return "openai_chat"
    is_anthropic = "system" in wire or "anthropic_version" in wire or "stop_sequences" in wire
    return "anthropic" if is_anthropic else "openai_chat"


def _dialect_of_items(items: Any) -> DialectName | None:
    if isinstance(items, str) or not isinstance(items, Sequence):
        return None
    for item in items:
        if _is_gemini_content(item):
            return "gemini"
        if not isinstance(item, dict):
            continue
        if "tool_calls" in item or "tool_call_id" in item:
            return "openai_chat"
        if "type" in item and _is_responses_item(item["type"]):
            # A whole reply of Anthropic's is of the type "message" too.
            return "anthropic" if "stop_reason" in item else "responses"
        content = item.get("content")
        if isinstance(content, list):
            for part in content:
                found = _dialect_of_part(part)
                if found is not None:
                    return found
    return None


def _is_gemini_content(item: Any) -> bool:
    """Whether an item, a dict or an object of the SDK, has parts without types in place of a content.

    Other programs have messages with parts too, each of which names its type.
    """
    if isinstance(item, Mapping):
        role, parts, has_content = item.get("role"), item.get("parts"), "content" in item or "type" in item
    else:
        role, parts, has_content = getattr(item, "role", None), getattr(item, "parts", None), hasattr(item, "content")
    if has_content or not isinstance(parts, list) or role not in ("user", "model", "function", None):
        return False
    return not any(isinstance(part, Mapping) and "type" in part for part in parts)


def _is_responses_item(kind: Any) -> bool:
    return isinstance(kind, str) and (kind in _RESPONSES_ITEMS or kind.endswith(_RESPONSES_ENDINGS))


def _dialect_of_part(part: Any) -> DialectName | None:
    if not isinstance(part, Mapping):
        return None
    kind = part.get("type")
    if not isinstance(kind, str):
        return None
    if kind in CHAT_PARTS:
        return "openai_chat"
    if kind in RESPONSES_PARTS:
        return "responses"
    # Mistral's chat wire has a part of type "thinking" too, whose thinking is a list.
    if kind in ANTHROPIC_BLOCKS and not isinstance(part.get("thinking"), list):
        return "anthropic"
    return "anthropic" if kind == "image" and "source" in part else None
