"""Tools of an engine: whether a definition can be sent, and arguments that fit it.

Knows the small part of JSON Schema that tools use.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
_SAMPLES: dict[str, Any] = {
    "string": "oil",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


def problem_with_schema(schema: Any) -> str:
    """Why a provider would refuse a tool's definition; nothing where it would not."""
    try:
        json.dumps(schema)
    except (TypeError, ValueError) as error:
        return f"not plain JSON: {error}: {schema!r}"
    if not isinstance(schema, dict):
        return f"a tool is a dict, not {schema!r}"
    inner = schema.get("function", schema)
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not _NAME.fullmatch(inner["name"]):
        return f"its name must be 1 to 64 letters, digits, - and _: {schema!r}"
    if not isinstance(inner.get("description"), str) or not inner["description"].strip():
        return f"{inner['name']}: a description is missing; a model chooses by it"
    parameters = _parameters(schema)
    if parameters.get("type") != "object" or not isinstance(parameters.get("properties", {}), dict):
        return f"{inner['name']}: its parameters must be a JSON schema of an object: {parameters!r}"
    unknown = set(parameters.get("required", ())) - set(parameters.get("properties", {}))
    return f"{inner['name']}: requires {sorted(unknown)}, which are no properties" if unknown else ""


def arguments_for(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that the definition allows, every property given."""
    return {name: _sample(each) for name, each in _parameters(schema).get("properties", {}).items()}


def _parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = schema.get("function", schema)
    found = inner.get("parameters") or inner.get("input_schema") or {}
    return found if isinstance(found, dict) else {}


def _sample(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return "oil"
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind in ("integer", "number"):
        return schema.get("minimum", _SAMPLES[kind])
    if kind == "array":
        return [_sample(schema["items"])] if schema.get("items") else []
    if kind == "object":
        return {name: _sample(each) for name, each in schema.get("properties", {}).items()}
    return _SAMPLES.get(kind, "oil")
