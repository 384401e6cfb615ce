"""Definitions of tools, as each dialect spells them.

A tool that a provider runs itself has no counterpart elsewhere, and is left out of another dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.messages.types import DialectName, Tool

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def convert_tools(tools: Sequence[Tool], to: DialectName) -> list[Tool]:
    """The tools in the words of a dialect, whichever each of them came in; those in its own pass as they are."""
    written = (tool if dialect_of_tool(tool) == to else _converted(tool, to) for tool in tools)
    return [tool for tool in written if tool is not None]


def dialect_of_tool(tool: Tool) -> DialectName | None:
    """The dialect that a definition is written in; None where it names no function."""
    if isinstance(tool.get("function"), dict) or isinstance(tool.get("custom"), dict):
        return "openai_chat"
    if "input_schema" in tool:
        return "anthropic"
    if tool.get("type") in ("function", "custom") and "name" in tool:
        return "responses"
    return None


def _converted(tool: Tool, to: DialectName) -> Tool | None:
    if tool.get("type") == "custom" and "input_schema" not in tool:
        return _converted_custom(tool, to)
    inner = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    if inner is None or dialect_of_tool(tool) is None:
        return None
    schema = inner.get("parameters") or inner.get("input_schema") or _NO_PARAMETERS
    fields = {"name": inner.get("name"), "description": inner.get("description")}
    named = {name: value for name, value in fields.items() if value is not None}
    strict = {"strict": inner["strict"]} if inner.get("strict") is not None else {}
    match to:
        case "openai_chat":
            return {"type": "function", "function": {**named, "parameters": schema, **strict}}
        case "responses":
            return {"type": "function", **named, "parameters": schema, **strict}
        case "anthropic":
            return {**named, "input_schema": schema, **strict}


def _converted_custom(tool: Tool, to: DialectName) -> Tool:
    """A tool that takes free text; where there is none of these, a function with one text."""
    inner = tool["custom"] if isinstance(tool.get("custom"), dict) else tool
    named = {name: inner[name] for name in ("name", "description") if inner.get(name) is not None}
    rest = {name: value for name, value in inner.items() if name not in ("type", "name", "description")}
    match to:
        case "openai_chat":
            return {"type": "custom", "custom": {**named, **rest}}
        case "responses":
            return {"type": "custom", **named, **rest}
        case "anthropic":
            text = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
            return {**named, "input_schema": text}
