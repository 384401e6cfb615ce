"""How a message becomes the text of a row and comes back, equal to the last digit and in the same order of keys.

Knows the shape of JSON only. What cannot be JSON is refused with the index of the message.
"""

from __future__ import annotations

import json
from typing import Any, cast

from clew.errors import InvalidArgument, InvalidMessage
from clew.messages import Message

_plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=True)
_escaped = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), check_circular=True)


def body_of(value: Any, index: int) -> str:
    """A message, or the wire items it came from, as JSON text that every database takes."""
    try:
        return json_text(value)
    except (TypeError, ValueError) as error:
        raise InvalidMessage(index, f"it cannot be written as JSON ({error})", "Pass plain JSON values") from error
    except RecursionError as error:
        raise InvalidMessage(index, "it is nested too deeply to be stored", "Pass a flatter value") from error


def json_text(value: Any) -> str:
    text = _plain.encode(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half a surrogate pair has no UTF-8 form; as an escape it survives, and comes back as it was.
        return _escaped.encode(value)
    return text


def message_of(body: str) -> Message:
    return cast(Message, json.loads(body))


def json_value(text: str) -> Any:
    return json.loads(text)


def column_text(text: str) -> str:
    """A name that others chose, as a text column takes it: what it cannot hold becomes a mark."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\x00", "\ufffd")


def checked_text(text: str, what: str) -> str:
    """A text column's value; half a surrogate pair is refused there, with the remedy."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"the {what} holds half a character (lone surrogate); clean it first") from error
    if "\x00" in text:
        raise InvalidArgument(f"the {what} holds a NUL character; remove it first")
    return text
