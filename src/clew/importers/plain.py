"""Conversations with no program's name on them: a list of messages, a request that holds one, JSONL of messages.

Checks only that there are messages, in words a person can act on; what a message says is for the dialects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.importers.records import Record


def is_message(record: Mapping[str, Any]) -> bool:
    """Whether an object can be a message of one of the dialects."""
    if isinstance(record.get("role"), str):
        return True
    # Items of the Responses wire without a role: calls, their outputs, reasoning.
    kind = record.get("type")
    return isinstance(kind, str) and (kind.endswith(("_call", "_call_output")) or kind in ("reasoning", "message"))


def request_in(document: Record) -> Record | None:
    """The request in a document: the document itself, or what a request log wrapped around it."""
    for candidate in (document, document.get("body"), document.get("request")):
        if isinstance(candidate, dict):
            if "messages" in candidate or "input" in candidate:
                return candidate
            inner = candidate.get("body")
            if isinstance(inner, dict) and ("messages" in inner or "input" in inner):
                return inner
    return None


def items_of(wire: list[Any] | Record) -> Any:
    """The messages of a wire: the list itself, or what a request holds."""
    if isinstance(wire, list):
        return wire
    return wire["messages"] if "messages" in wire else wire["input"]


def problem_with(wire: list[Any] | Record) -> str | None:
    """Why a wire is no conversation, or None."""
    beside = None if isinstance(wire, list) else _problem_beside(wire)
    items = items_of(wire)
    # The Responses wire takes a bare string for one user message.
    if isinstance(items, str) and isinstance(wire, dict) and "messages" not in wire:
        return beside
    return beside or _problem_with_messages(items)


def _problem_beside(request: Record) -> str | None:
    tools = request.get("tools")
    if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        return "its `tools` are not a list of objects"
    for name in ("system", "instructions"):
        if not isinstance(request.get(name), str | list | None):
            return f"its `{name}` is {_article(request[name])}, not text"
    return None


def _problem_with_messages(items: Any) -> str | None:
    if not isinstance(items, list):
        return f"its messages are {_article(items)}, not a list"
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            return f"message {index} is {_article(item)}, not an object"
        if not is_message(item):
            seen = ", ".join(map(repr, list(item)[:4])) or "nothing"
            return f"message {index} has no role (it has {seen})"
    return None


def _article(value: Any) -> str:
    names = {dict: "an object", str: "a string", int: "a number", float: "a number", bool: "a boolean", list: "a list"}
    return names.get(type(value), "null")
