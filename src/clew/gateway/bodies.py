"""Request bodies as received: fields and items are parted without being read, and leave byte for byte.

Only what is looked at is read, and only what is changed is written anew. Numbers keep their spelling, and fields that
nobody here knows pass untouched.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

_Value = TypeVar("_Value")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
# A pair, half of a pair (group 1), or any other escape, so that none is found inside another one.
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\(u[dD][89a-fA-F]..)|\\.", re.DOTALL)


class UnreadableBody(ValueError):  # noqa: N818 (reads as what it says)
    """A body that is no JSON object. Whether that is wrong is for the upstream to say."""


class NestedTooDeep(UnreadableBody):
    """A body whose values are inside each other deeper than anything reads: about 1,000 levels."""


class RequestBody:
    """A JSON object, its fields in the order they came."""

    __slots__ = ("_fields", "_values", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        try:
            self._fields = _fields_of(raw)
        except UnreadableBody:
            # A client that cuts a text inside an emoji writes half of it: valid JSON, which msgspec does not take.
            whole = without_lone_surrogates(raw)
            if whole == raw:
                raise
            self._fields = _fields_of(whole)
        self._values: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def field(self, name: str) -> bytes:
        """A field as received; empty where there is none."""
        return bytes(self._fields.get(name, b""))

    def first_byte(self, name: str) -> bytes:
        """The first byte of a field, which tells its kind; empty where there is none."""
        return bytes(memoryview(self._fields.get(name, b""))[:1])

    def value(self, name: str) -> Any:
        """A field, read; None where there is none."""
        if name not in self._fields:
            return None
        if name not in self._values:
            self._values[name] = read_json(self.field(name))
        return self._values[name]

    def text(self, name: str) -> str:
        """A field that is a text; empty where it is something else."""
        value = self.value(name) if self.first_byte(name) == b'"' else None
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        value = self.value(name) if self.first_byte(name).isdigit() else None
        return value if isinstance(value, int) else None

    def items(self, name: str) -> list[bytes] | None:
        """The items of a field that is a list, each as received; None where it is something else."""
        try:
            return [bytes(item) for item in _ITEMS.decode(self._fields[name])]
        except (KeyError, msgspec.DecodeError, RecursionError):
            return None

    def with_fields(self, fields: Mapping[str, bytes]) -> bytes:
        """The body with other values for some fields; new ones are at the end."""
        whole: dict[str, Any] = {**self._fields, **fields}
        return b"{" + b",".join(write_json(name) + b":" + value for name, value in whole.items()) + b"}"


def _fields_of(raw: bytes) -> dict[str, msgspec.Raw]:
    """The fields, which are parts of `raw` and no copies."""
    try:
        return _FIELDS.decode(raw)
    except RecursionError as error:
        raise NestedTooDeep(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableBody(str(error)) from error


def without_lone_surrogates(raw: bytes) -> bytes:
    """JSON in which U+FFFD represents each escaped half of a surrogate pair."""
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], raw)


def read_json(raw: bytes) -> Any:
    """A JSON value; raises `UnreadableBody`."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UnreadableBody(str(error)) from error


def write_json(value: Any) -> bytes:
    """A JSON value without blanks; in ASCII only where a lone surrogate leaves no other way."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def bounded_cache(max_bytes: int) -> Callable[[Callable[..., _Value]], Callable[..., _Value]]:
    """Keep the newest results of a function of bytes, while their arguments have no more bytes together."""

    def decorate(read: Callable[..., _Value]) -> Callable[..., _Value]:
        known: OrderedDict[tuple[bytes, ...], _Value] = OrderedDict()
        kept_bytes = 0

        def cached(*given: bytes) -> _Value:
            nonlocal kept_bytes
            if given in known:
                known.move_to_end(given)
                return known[given]
            value = known[given] = read(*given)
            kept_bytes += sum(map(len, given))
            while kept_bytes > max_bytes:
                kept_bytes -= sum(map(len, known.popitem(last=False)[0]))
            return value

        return cached

    return decorate


def join_items(items: Iterable[bytes]) -> bytes:
    """Items as a JSON list."""
    return b"[" + b",".join(items) + b"]"


def hashes_of(items: Sequence[bytes]) -> list[int]:
    """A number for each item: the same for the same bytes, within this process."""
    return list(map(hash, items))
