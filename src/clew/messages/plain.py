"""SDK objects, pydantic models, dataclasses and other mappings as plain dicts and lists, at every level of a message.

A value that is plain already stays the same object: a conversation of dicts is looked through once and never copied.
What no model reads, such as a file in an image, stays as it is; where a text, a part or a call is expected, anything
else is refused by its place.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from operator import is_
from types import SimpleNamespace
from typing import Any

from clew.errors import InvalidArgument, InvalidMessage
from clew.messages.message import MAX_DEPTH, SCALARS, is_plain

# What is read for its text or its calls, here and in the rooms above.
_READ_FIELDS = frozenset(
    "role content text tool_calls tool_call_id function function_call name arguments input output reasoning "
    "reasoning_content thinking refusal type id call_id tool_use_id".split()
)
# What an SDK has read out of a text that is beside it: counted once is enough, and no API takes it back.
_READ_BY_SDK = ("parsed", "parsed_arguments", "parsed_output")
_NOT_GIVEN = ("NotGiven", "Omit")
"""What SDKs write for an argument that is not there."""
_HOLDERS_OF_MESSAGES = (
    ("choices", "Pass its message: choices[0].message"),
    ("message", "Pass the message in it"),
    ("output", "Pass the items of its output, one by one"),
    ("messages", "Pass a request alone and not in a list, or its messages"),
    ("candidates", "Pass its content: candidates[0].content"),
)
_READABLE = "dicts, pydantic models, dataclasses"


class _UnreadableValue(Exception):  # noqa: N818
    """A value that is no part of a message."""

    def __init__(self, place: str, value: object) -> None:
        super().__init__(place)
        kind = type(value).__name__
        self.problem = f"{place} is of type {kind}, which cannot be read" if place else f"it is of type {kind}"
        if isinstance(value, bytes | bytearray | memoryview):
            self.remedy = "Decode it to a text first"
        elif isinstance(value, Iterable):
            self.remedy = f"Pass a list of {_READABLE}"
        else:
            self.remedy = f"Pass texts, {_READABLE}, or lists of them"


class _UnnamedField(_UnreadableValue):
    def __init__(self, place: str, name: object) -> None:
        Exception.__init__(self, place)
        self.problem = f"a field of {place or 'it'} is named {name!r:.80}, which is no text"
        self.remedy = "Name fields by texts, as JSON does"


class _TooDeep(Exception):  # noqa: N818
    """A value nested too deeply to be looked through, or inside itself."""


def plain_messages(messages: Any, what: str = "messages") -> Sequence[Any]:
    """Messages made of plain values only: the same sequence if it already was.

    Any iterable is taken, an iterator once. `InvalidArgument` where it is none, `InvalidMessage` with its index for a
    message that cannot be read.
    """
    listed = as_sequence(messages, what)
    for message in listed:
        if not is_plain(message):
            return [plain_message(each, index) for index, each in enumerate(listed)]
    return listed


def plain_message(message: Any, index: int) -> Any:
    """One message as a dict of plain values, the same object where it was one; `InvalidMessage` where it is none."""
    if is_plain(message):
        return message
    try:
        read = _plain(message, "", "content", 0)
    except _UnreadableValue as error:
        raise InvalidMessage(index, error.problem, error.remedy) from None
    except _TooDeep:
        read = message
        try:
            json.dumps(message, default=str)
        except (ValueError, RecursionError):
            raise InvalidMessage(index, "it holds itself, or is nested too deeply", "Pass a flatter value") from None
    if not isinstance(read, dict):
        kind = type(message).__name__
        remedy = 'Pass a dict, for example {"role": "user", "content": ...}, or an object of an SDK'
        raise InvalidMessage(index, f"it is of type {kind}, not a dict", remedy)
    if read is not message:
        _refuse_holder_of_messages(read, message, index)
    return read


def _refuse_holder_of_messages(read: Mapping[str, Any], original: object, index: int) -> None:
    """A whole reply is no message."""
    if "role" in read or "type" in read:
        return
    for name, remedy in _HOLDERS_OF_MESSAGES:
        if name in read:
            raise InvalidMessage(index, f"a {type(original).__name__} is no message, though it holds some", remedy)


def as_sequence(messages: Any, what: str = "messages") -> Sequence[Any]:
    """A list or tuple as it is, any other iterable of messages as a list."""
    if isinstance(messages, list | tuple):
        return messages
    fits = isinstance(messages, Iterable) and not isinstance(messages, str | bytes | bytearray | memoryview)
    if not fits or _fields_of(messages) is not None:
        raise InvalidArgument(
            f"{what} is of type {type(messages).__name__}, not a list", remedy=f"pass a list of messages: {_READABLE}"
        )
    return list(messages)


def request_fields(wire: Any) -> Mapping[str, Any] | None:
    """The fields of a request that is a mapping, a model or a dataclass; None for anything else."""
    return wire if isinstance(wire, Mapping) else _fields_of(wire)


def plain_system(system: Any) -> Any:
    """A system prompt as a text or a list of blocks; of a message its content. None where there is none."""
    read = _beside(system, "system", "Pass a text, or a list of blocks")
    if isinstance(read, dict):
        read = read["content"] if "content" in read else read["parts"] if _has_parts(read) else [read]
    if read is not None and not isinstance(read, str | list):
        raise InvalidArgument(f"system is of type {type(system).__name__}", remedy="pass a text, or a list of blocks")
    return read


def _has_parts(read: Mapping[str, Any]) -> bool:
    return isinstance(read.get("parts"), list)


def plain_tools(tools: Any) -> list[Any]:
    """The definitions of tools as dicts; a single one is taken for a list of one."""
    remedy = "Pass a list of tool definitions"
    read = _beside(tools if isinstance(tools, list | tuple) else _one_or_many(tools), "tools", remedy)
    listed = [] if read is None else [read] if isinstance(read, dict) else read
    if not isinstance(listed, list):
        raise InvalidArgument(f"tools is of type {type(tools).__name__}", remedy=f"{remedy[0].lower()}{remedy[1:]}")
    for position, tool in enumerate(listed):
        if not isinstance(tool, dict):
            kind = type(tool).__name__
            raise InvalidArgument(
                f"tools[{position}] is of type {kind}", remedy="pass the definition of a tool as a dict"
            )
    return listed


def _one_or_many(value: Any) -> Any:
    """Any iterable that is not a value itself, as a list."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) and _fields_of(value) is None:
        return list(value)
    return value


def _beside(value: Any, what: str, remedy: str) -> Any:
    if type(value).__name__ in _NOT_GIVEN:
        return None
    try:
        return _plain(value, what, "content", 0)
    except _UnreadableValue as error:
        raise InvalidArgument(f"{error.problem}", remedy=f"{remedy[0].lower()}{remedy[1:]}") from None
    except _TooDeep:
        return value


def _plain(value: Any, place: str, field: str, depth: int) -> Any:
    """The value without objects in it. `field` is the name that it is under, also as an element of a list."""
    kind = type(value)
    if kind in SCALARS:
        return value
    if depth > MAX_DEPTH:
        raise _TooDeep
    if kind is dict:
        return _plain_dict(value, place, depth)
    if kind is list:
        read = _plain_list(value, place, field, depth)
        return value if all(map(is_, read, value)) else read
    fields = _fields_of(value)
    if fields is not None:
        return _plain(_as_message(fields), place, field, depth + 1)
    if isinstance(value, Enum):
        return _plain(value.value, place, field, depth + 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, list | tuple):
        return _plain_list(value, place, field, depth)
    # Seldom needed, and slow to import.
    from datetime import date, time
    from decimal import Decimal
    from uuid import UUID

    if isinstance(value, date | time | Decimal | UUID):
        return str(value) if isinstance(value, Decimal | UUID) else value.isoformat()
    if field in _READ_FIELDS and not isinstance(value, int | float):
        raise _UnreadableValue(place, value)
    return value


def _plain_list(values: Sequence[Any], place: str, field: str, depth: int) -> list[Any]:
    return [_plain(inner, f"{place}[{at}]", field, depth + 1) for at, inner in enumerate(values)]


def _plain_dict(value: dict[Any, Any], place: str, depth: int) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for name, inner in value.items():
        if not isinstance(name, str):
            raise _UnnamedField(place, name)
        if type(inner) not in SCALARS:
            read = _plain(inner, f"{place}.{name}" if place else name, name, depth + 1)
            if read is not inner:
                changed[name] = read
    return {**value, **changed} if changed else value


def _fields_of(value: Any) -> Any:
    """What a model, a dataclass or a mapping holds, by name; None where it is nothing of the kind."""
    if isinstance(value, type):
        return None
    if isinstance(value, Mapping):
        return dict(value)
    if callable(getattr(value, "model_dump", None)):
        return _dumped(value)
    if dataclasses.is_dataclass(value):
        return _filled({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, SimpleNamespace):
        return dict(vars(value))
    # Named tuples, attrs, msgspec.
    names = getattr(value, "_fields", None) or getattr(value, "__struct_fields__", None)
    names = names or [field.name for field in getattr(value, "__attrs_attrs__", ())]
    if names:
        return _filled({name: getattr(value, name) for name in names})
    # Models of pydantic 1, and tools of SDKs.
    to_dict = getattr(value, "dict" if hasattr(value, "__fields__") else "to_dict", None)
    return _filled(to_dict()) if callable(to_dict) else None


def _dumped(model: Any) -> Any:
    """A model as its SDK would send it: fields without a value left out, so that an API takes it back."""
    try:
        fields = model.model_dump(
            mode="json", by_alias=True, exclude_none=True, warnings=False, exclude=_read_by_sdk(model)
        )
    except (TypeError, ValueError):
        # No JSON, or a `model_dump` without these options: what is in it is read value by value.
        return _filled(model.model_dump())
    return _filled({**fields, "content": model.content}) if _lacks_content(fields, model) else fields


def _lacks_content(fields: Any, model: Any) -> bool:
    return isinstance(fields, dict) and "role" in fields and "content" not in fields and hasattr(model, "content")


def _read_by_sdk(model: Any) -> dict[Any, Any]:
    """The fields that repeat what is beside them, at every level, in the form that `model_dump` takes."""
    found: dict[Any, Any] = {}
    for name, value in getattr(model, "__dict__", {}).items():
        if name in _READ_BY_SDK:
            found[name] = True
            continue
        listed = enumerate(value) if isinstance(value, list) else ()
        inside = {at: inner for at, item in listed if (inner := _read_inside(item))} or _read_inside(value)
        if inside:
            found[name] = inside
    return found


def _read_inside(value: Any) -> dict[Any, Any]:
    return _read_by_sdk(value) if hasattr(value, "model_dump") else {}


def _filled(fields: Any) -> Any:
    """Without fields that have no value, the content of a message aside: some servers want to see that it is null."""
    if not isinstance(fields, dict):
        return fields
    filled = {name: value for name, value in fields.items() if value is not None}
    if "role" in filled and "content" in fields and "content" not in filled:
        filled["content"] = None
    return filled


def _as_message(fields: Any) -> Any:
    """Of a whole reply of Anthropic's wire the message: what else is in it is no input."""
    if isinstance(fields, dict) and fields.get("type") == "message" and {"role", "content", "usage"} <= fields.keys():
        return {"role": fields["role"], "content": fields["content"]}
    return fields
