"""Arguments as models send them, read with patience: a number may come as text, a flag as a word.

What cannot be read is an InvalidArgument whose message tells the model what to send.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.agent.files.paths import Concern
from clew.agent.shown import shown
from clew.agent.tools.base import Arguments, Risk
from clew.errors import InvalidArgument

_LONGEST_CHARS = 1_000
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}


def text_argument(arguments: Arguments, name: str, default: str | None = None) -> str:
    value = arguments.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} is {value!r:.80}; send it as text")
    return value


def number_argument(arguments: Arguments, name: str, default: int, least: int, most: int) -> int:
    """A whole number; above `most` it is `most`, since asking for too much is no mistake."""
    value = arguments.get(name)
    if value is None or value == "":
        return default
    try:
        number = int(value) if isinstance(value, int | float | str) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or number < least:
        raise InvalidArgument(f"{name} is {value!r:.80}; send a whole number of {least} or more")
    return min(number, most)


def flag_argument(arguments: Arguments, name: str) -> bool:
    value = arguments.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    known = _WORDS.get(str(value).strip().lower())
    if known is None:
        raise InvalidArgument(f"{name} is {value!r:.80}; send true or false")
    return known


def risk_of(action: str, concerns: Sequence[Concern]) -> Risk | None:
    """What a person is asked; None where there is no concern."""
    if not concerns:
        return None
    # On one line each, with nothing hidden: a path must not write the question that is asked about it.
    reasons = tuple(dict.fromkeys(shown(concern.reason, _LONGEST_CHARS) for concern in concerns))
    return Risk(shown(action, _LONGEST_CHARS), reasons, "; ".join(sorted({concern.scope for concern in concerns})))
