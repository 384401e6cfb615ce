"""The query and the body of a call, read and checked: what is unknown or out of range is named and refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web

from clew.dashboard.sign_in import DashboardRefusal

MAX_BODY_BYTES = 2 * 1024 * 1024
_MAX_CHARS = 1_000
_MAX_DIGITS = 15


class Query:
    """What stands behind the `?` of a call; each value is asked for by its name, and `check` refuses the others."""

    def __init__(self, request: web.Request, known: Sequence[str] = ()) -> None:
        self._given: Mapping[str, str] = request.query
        for name in request.query:
            if name not in known:
                raise refuse(f"the query has {name[:100]!r}, which is not known here")
        if len(request.query) != len(set(request.query)):
            raise refuse("the query has a name twice")

    def text(self, name: str, most: int = _MAX_CHARS) -> str | None:
        value = self._given.get(name)
        if value is not None and len(value) > most:
            raise refuse(f"{name!r} has {len(value):,} characters; {most:,} are allowed")
        return value or None

    def number(self, name: str, low: int, high: int) -> int | None:
        value = self._given.get(name)
        if value is None:
            return None
        is_number = value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS
        if not is_number or not low <= int(value) <= high:
            raise refuse(f"{name!r} is {value[:100]!r}; it may be {low} to {high:,}")
        return int(value)

    def choice(self, name: str, allowed: Sequence[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in allowed:
            raise refuse(f"{name!r} is {value[:100]!r}; it may be {', '.join(allowed)}")
        return value


async def read_body(request: web.Request, *names: str) -> dict[str, str]:
    """The texts of a body, which is a JSON object of these names."""
    value = await read_json_body(request, *names)
    if not all(isinstance(each, str) for each in value.values()):
        raise refuse("the body is no JSON object of texts")
    return value


async def read_json_body(request: web.Request, *names: str) -> dict[str, Any]:
    """The values of a body, which is a JSON object of these names."""
    if request.content_type != "application/json":
        raise DashboardRefusal(415, "unsupported_media_type", "the body is no application/json", "Send JSON.")
    raw = await request.read()
    if len(raw) > MAX_BODY_BYTES:
        raise DashboardRefusal(413, "payload_too_large", f"the body is larger than {MAX_BODY_BYTES:,} bytes")
    try:
        value: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse("the body is no JSON") from error
    if not isinstance(value, dict):
        raise refuse("the body is no JSON object")
    unknown = next((name for name in value if name not in names), None)
    if unknown is not None:
        raise refuse(f"the body has {unknown[:100]!r}, which is not known here; it may have {', '.join(names)}")
    return value


def path_number(request: web.Request, name: str, what: str) -> int:
    """A number in the path; one that is none is as unknown as any other."""
    value = request.match_info[name]
    if not (value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS):
        raise DashboardRefusal(404, "not_found", f"there is no {what} {value[:100]!r}")
    return int(value)


def refuse(message: str) -> DashboardRefusal:
    return DashboardRefusal(400, "bad_request", message)
