"""The list of tasks that an agent wrote down, in the shapes that different tools give it.

Reads the arguments of one call; which list is the newest is known to whoever keeps the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Progress: TypeAlias = Literal["open", "doing", "done"]

_TEXTS = ("content", "step", "task", "text", "title", "description", "name", "subject")
_DOING = frozenset({"inprogress", "active", "doing", "current", "started", "running", "wip"})
_DONE = frozenset({"completed", "complete", "done", "finished", "cancelled", "canceled", "skipped", "closed", "true"})
_CHECK = re.compile(r"^\s*(?:[-*]|\d+[.)])\s*\[(.)\]\s*(.+)$", re.MULTILINE)
_LONGEST_LIST = 200


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One task, and how far it is. `id` is the agent's own name for it, where it gave one."""

    text: str
    progress: Progress
    id: str = ""


def plan_in(arguments: Mapping[str, Any]) -> list[PlanItem]:
    """The tasks of a call that plans; none where the call only asks for the list."""
    for value in arguments.values():
        items = [item for one in _listed(value) if (item := _item(one))]
        if items:
            return items
    return []


def updated_plan(before: Sequence[PlanItem], items: Sequence[PlanItem], arguments: Mapping[str, Any]) -> list[PlanItem]:
    """The list after the call: the new one, or the old one with the tasks it names brought up to date."""
    if not arguments.get("merge"):
        return list(items)
    merged = {item.id or item.text: item for item in before}
    return list((merged | {item.id or item.text: item for item in items}).values())


def _listed(value: Any) -> Sequence[Any]:
    if isinstance(value, str):
        # A list of check boxes, or JSON that was written as text.
        if boxes := _CHECK.findall(value):
            return [{"text": text, "status": "done" if mark in "xX" else "open"} for mark, text in boxes]
        try:
            value = json.loads(value) if value.lstrip().startswith("[") else []
        except (ValueError, RecursionError):
            return ()
    return value[:_LONGEST_LIST] if isinstance(value, list) else ()


def _item(one: Any) -> PlanItem | None:
    if isinstance(one, str):
        return PlanItem(one, "open") if one.strip() else None
    if not isinstance(one, dict):
        return None
    text = next((one[key] for key in _TEXTS if isinstance(one.get(key), str) and one[key].strip()), "")
    if not text:
        return None
    # `status` in most tools; some have a truth value instead.
    status = one.get("status", one.get("state", one.get("completed", one.get("done", ""))))
    return PlanItem(text, _progress(str(status)), str(one.get("id", "")))


def _progress(status: str) -> Progress:
    plain = re.sub(r"[\W_]", "", status).lower()
    return "doing" if plain in _DOING else "done" if plain in _DONE else "open"
