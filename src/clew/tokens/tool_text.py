"""What a model reads of a tool's definition, as near as one can say without seeing its prompt.

Providers write definitions in a shape of their own: names, descriptions, types and choices stay, most of the JSON
around them goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clew.messages import Tool


_DEEPEST = 24
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "schema")


def tool_text(tool: Tool) -> str:
    """Name, description and parameters of a tool of any dialect, as lines."""
    function = tool.get("function")
    described = function if isinstance(function, Mapping) else tool
    schema = next((described[key] for key in _SCHEMAS if isinstance(described.get(key), Mapping)), None)
    title = _joined(described.get("name") or described.get("type"), described.get("description"))
    return "\n".join([title, *(_fields(schema, 0) if schema is not None else ())])


def _fields(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    """A line for every property, with what it says of itself, and those of the objects inside it."""
    if depth > _DEEPEST:
        return
    required = schema.get("required")
    required = required if isinstance(required, list | tuple) else ()
    properties = schema.get("properties")
    for name, field in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(field, Mapping):
            must = "required" if name in required else None
            yield "  " + _joined(name, field.get("type"), must, field.get("description"), *_limits(field))
            yield from _fields(field, depth + 1)
    for key in ("items", "anyOf", "oneOf", "allOf", "$defs", "definitions"):
        inner = schema.get(key)
        values = inner.values() if key in ("$defs", "definitions") and isinstance(inner, Mapping) else inner
        for value in (values,) if isinstance(values, Mapping) else values if isinstance(values, list | tuple) else ():
            if isinstance(value, Mapping):
                yield "  " + _joined(value.get("type"), value.get("description"), *_limits(value))
                yield from _fields(value, depth + 1)


def _limits(field: Mapping[str, Any]) -> Iterator[str]:
    choices = field.get("enum")
    if isinstance(choices, list | tuple):
        yield "|".join(str(choice) for choice in choices if not isinstance(choice, int) or choice < 1 << 64)
    for key in ("default", "minimum", "maximum", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems"):
        value = field.get(key)
        if isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 1 << 64):
            yield f"{key} {value}"


def _joined(*said: Any) -> str:
    return ": ".join(
        value if isinstance(value, str) else "|".join(map(str, value)) for value in said if _is_said(value)
    )


def _is_said(value: Any) -> bool:
    return bool(value) and (
        isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))
    )
