"""The query and the body of a call, checked against its description: what nobody knows is named and refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from clew.gateway.api_schemas import Schema
from clew.gateway.bodies import UnreadableBody, read_json
from clew.gateway.openapi import ApiOperation
from clew.gateway.problems import Refused

MAX_BODY_BYTES = 8 * 1024 * 1024
_WHOLE = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_JSON_TYPES = ("application/json", "")
_NAMES = {str: "a text", bool: "true or false", int: "a whole number"}
_TYPES: Mapping[str, type] = {"string": str, "boolean": bool, "integer": int}


async def read_fields(request: web.Request, operation: ApiOperation) -> dict[str, Any]:
    """What a call was given, by name. Raises `Refused` for what its description does not allow."""
    given = _query(request, operation.query or {})
    if operation.body is not None:
        given |= await _body(request, operation.body)
    for name in operation.needs:
        if name not in given:
            raise Refused(400, f"{name!r} is missing")
    return given


def _query(request: web.Request, allowed: Mapping[str, Schema]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in request.query.items():
        if name not in allowed:
            raise Refused(400, f"the query has {name[:100]!r}, which is not known here; {_known(allowed)}")
        if name in given:
            raise Refused(400, f"the query has {name!r} twice")
        given[name] = _checked(name, _from_text(value, allowed[name]), allowed[name])
    return given


async def _body(request: web.Request, schema: Schema) -> dict[str, Any]:
    raw = await _read(request)
    if not raw.strip():
        value: Any = {}
    else:
        if (request.content_type if "Content-Type" in request.headers else "") not in _JSON_TYPES:
            raise Refused(415, f"the body is {request.content_type[:100]!r}", "Send JSON, as application/json.")
        try:
            value = read_json(raw)
        except UnreadableBody as problem:
            raise Refused(400, f"the body is no JSON: {str(problem)[:200]}") from problem
    if not isinstance(value, dict):
        raise Refused(400, "the body is no JSON object")
    allowed: Mapping[str, Schema] = schema["properties"]
    for name in value:
        if name not in allowed:
            raise Refused(400, f"the body has {name[:100]!r}, which is not known here; {_known(allowed)}")
    for pair in schema.get("not", {}).get("anyOf", ()):
        if all(name in value for name in pair["required"]):
            raise Refused(400, f"{' and '.join(map(repr, pair['required']))} exclude each other; send one of them")
    if len(value) < schema.get("minProperties", 0):
        raise Refused(400, f"the body is empty; {_known(allowed)}")
    return {name: _checked(name, field, allowed[name]) for name, field in value.items()}


async def _read(request: web.Request) -> bytes:
    raw = await request.read() if (request.content_length or 0) <= MAX_BODY_BYTES else None
    if raw is None or len(raw) > MAX_BODY_BYTES:
        raise Refused(413, f"the body is larger than {MAX_BODY_BYTES // 1024 // 1024} MB")
    return raw


def _from_text(value: str, schema: Schema) -> Any:
    """A value of the query as its type; as it is where it is none of it, which is then refused."""
    if schema["type"] == "integer" and _WHOLE.fullmatch(value):
        return int(value)
    if schema["type"] == "boolean" and value in ("true", "false"):
        return value == "true"
    return value


def _checked(name: str, value: Any, schema: Schema) -> Any:
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if value is None and "null" in types:
        return None
    kind = _TYPES[types[0]]
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not kind:
        raise Refused(400, f"{name!r} is no {_NAMES[kind].removeprefix('a ')}; send {_NAMES[kind]}")
    if isinstance(value, str):
        return _checked_text(name, value, schema)
    if kind is int and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise Refused(400, f"{name!r} is {value}; it may be {_range(schema)}")
    return value


def _checked_text(name: str, text: str, schema: Schema) -> Any:
    if "enum" in schema and text not in schema["enum"]:
        raise Refused(400, f"{name!r} is {text[:100]!r}; it may be {', '.join(schema['enum'])}")
    if len(text) < schema.get("minLength", 0):
        raise Refused(400, f"{name!r} is empty")
    if len(text) > schema.get("maxLength", len(text)):
        raise Refused(400, f"{name!r} has {len(text):,} characters; {schema['maxLength']:,} are allowed")
    if "pattern" in schema and not re.search(schema["pattern"], text):
        raise Refused(400, f"{name!r} holds a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(400, f"{name!r} holds half a character (lone surrogate); clean it first") from error
    return _time(name, text) if schema.get("format") == "date-time" else text


def _time(name: str, text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        what = f"{name!r} is {text[:100]!r}, which is no time"
        raise Refused(400, what, "Write it as 2026-01-31T12:00:00Z.") from error


def _known(allowed: Mapping[str, Schema]) -> str:
    return f"it may have {', '.join(allowed)}" if allowed else "it has none"


def _range(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    return f"{low} or more" if high is None else f"{low} to {high:,}"
