"""The first place where a request does not repeat the one before it.

It names paths and lengths and never the text itself, so that it may be logged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from clew.caching.fingerprints import canonical_bytes, unmarked

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where the later request does not repeat the earlier one."""

    section: str
    """`messages`, `system` or `tools`."""
    index: int | None
    """Which message or tool; None where the section is one text."""
    path: str
    """For example `messages[3].content[0].text`."""
    what: str
    """For example `differs from char 532 on; it had 1,200 chars and has 1,180`."""

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


def divergence(previous: Any, current: Any) -> Divergence | None:
    """Where `current` stops repeating `previous`, or None if all of it is a prefix of `current`, markers aside.

    Both are lists of messages, or request bodies with `messages` and perhaps `system` and `tools`, which have to be
    the same in both. Messages that are the same object in both are not read.
    """
    before, after = _sections(previous), _sections(current)
    for section in ("tools", "system"):
        found = _in_section(section, before.get(section), after.get(section))
        if found:
            return found
    return _in_messages(before["messages"], after["messages"])


def _sections(request: Any) -> dict[str, Any]:
    if isinstance(request, Mapping):
        return {**request, "messages": request.get("messages") or ()}
    return {"messages": request}


def _in_section(section: str, before: Any, after: Any) -> Divergence | None:
    if before is after:
        return None
    # As the content of a message, so that markers and a lone text block are read as they are there.
    found = _first_difference(unmarked({"content": before})["content"], unmarked({"content": after})["content"], "")
    if found is None:
        return None
    index = _leading_index(found[0])
    return Divergence(section, index, section + found[0], found[1])


def _in_messages(before: Sequence[Any], after: Sequence[Any]) -> Divergence | None:
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if old is new:
            continue
        found = _first_difference(unmarked(old), unmarked(new), f"messages[{index}]")
        if found:
            return Divergence("messages", index, *found)
    if len(after) < len(before):
        missing = f"is missing; the earlier request had {len(before):,} messages, this one has {len(after):,}"
        return Divergence("messages", len(after), f"messages[{len(after)}]", missing)
    return None


def _first_difference(old: Any, new: Any, path: str) -> tuple[str, str] | None:
    """The path to the first value that is not the same, and in what; None if the bytes are the same."""
    if canonical_bytes(old) == canonical_bytes(new):
        return None
    seen: set[int] = set()
    while id(old) not in seen:
        seen.add(id(old))
        step = _step_into(old, new)
        if step is None:
            break
        suffix, old, new = step
        path += suffix
    return path, _describe_difference(old, new)


def _step_into(old: Any, new: Any) -> tuple[str, Any, Any] | None:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if list(old) != list(new):
            return None
        pairs = ((f".{key}", old[key], new[key]) for key in old)
    elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
        both = zip_longest(old, new, fillvalue=_ABSENT)
        pairs = ((f"[{index}]", one, other) for index, (one, other) in enumerate(both))
    else:
        return None
    return next((pair for pair in pairs if not _same(pair[1], pair[2])), None)


def _same(old: Any, new: Any) -> bool:
    return old is new or canonical_bytes(old) == canonical_bytes(new)


def _describe_difference(old: Any, new: Any) -> str:
    if old is _ABSENT:
        return "is new there"
    if new is _ABSENT:
        return "is gone"
    if isinstance(old, str) and isinstance(new, str):
        shared = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        return f"differs from char {shared:,} on; it had {len(old):,} chars and has {len(new):,}"
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return f"has other keys or another order of them: {_names(old)} became {_names(new)}"
    if type(old) is not type(new):
        return f"was {type(old).__name__} and is {type(new).__name__}"
    return "has another value"


def _names(mapping: Mapping[Any, Any]) -> str:
    return ", ".join(str(key) for key in mapping) or "none"


def _leading_index(path: str) -> int | None:
    return int(path[1 : path.index("]")]) if path.startswith("[") else None
