"""Reads the query and the body of a call as typed values; unknown names and values out of range are refused."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from aiohttp import web

from clew.dashboard.sign_in import DashboardRefusal

MAX_BODY_BYTES = 2 * 1024 * 1024
ShortText: TypeAlias = Annotated[str, msgspec.Meta(max_length=1_000)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
PageSize: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=200)]
_Read = TypeVar("_Read")


def read_query(request: web.Request, kind: type[_Read]) -> _Read:
    """The query of a call as a dataclass; empty values are left out."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    for name in request.query:
        if name not in known:
            raise refuse(f"the query has {name[:100]!r}, which is not known here")
    if len(request.query) != len(set(request.query)):
        raise refuse("the query has a name twice")
    given = {name: value for name, value in request.query.items() if value}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        name = place.removesuffix("`")
        raise refuse(f"{name!r} is {given.get(name, '')[:100]!r}: {problem}") from error


async def read_json_body(request: web.Request, kind: type[_Read]) -> _Read:
    """A body, which is a JSON object of this type."""
    if request.content_type != "application/json":
        raise DashboardRefusal(415, "unsupported_media_type", "the body is no application/json", "Send JSON.")
    raw = await request.read()
    if len(raw) > MAX_BODY_BYTES:
        raise DashboardRefusal(413, "payload_too_large", f"the body is larger than {MAX_BODY_BYTES:,} bytes")
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise refuse(f"the body is not what is asked for: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse("the body is no JSON") from error


def refuse(message: str) -> DashboardRefusal:
    return DashboardRefusal(400, "bad_request", message)


class SignInBody(msgspec.Struct, forbid_unknown_fields=True):
    """The secret of a launch link, or a key."""

    launch: str = ""
    key: str = ""


class HandoffBody(msgspec.Struct, forbid_unknown_fields=True):
    """The handoff of a preview."""

    session: str = ""
    handoff_sections: Any = None
