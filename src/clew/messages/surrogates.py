"""Half characters: lone surrogates, which no wire, tokenizer or database takes.

Knows text alone, not messages.
"""

from __future__ import annotations

import json
from typing import Any


def is_whole(text: str) -> bool:
    """Whether every character of a text can be sent. Costs nothing for ASCII, and one encoding pass elsewhere."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def made_whole(text: str) -> str:
    """The text with half pairs joined where both halves are there, and U+FFFD in place of a lone half."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_whole_inside(value: Any) -> bool:
    """The same question for everything inside a JSON value, names of fields included."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            if not is_whole(value):
                return False
        elif isinstance(value, dict):
            pending.extend(value)
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
    return True


def made_whole_inside(value: Any) -> Any:
    """A JSON value with every text in it made whole."""
    return json.loads(made_whole(json.dumps(value, ensure_ascii=False, default=str)))
