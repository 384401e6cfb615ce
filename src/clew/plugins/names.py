"""Which names a plugin may have, and which one was probably meant.

A name is the name of a folder and a value in the config. It has neither dots nor slashes, so that none can lead out of
the folder of plugins.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

ALLOWED = "1 to 64 small letters, digits, - and _, beginning with a letter or digit"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_LONGEST_SHOWN = 80


def valid_name(name: object) -> bool:
    """Whether a plugin may be called this."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def shown(name: object) -> str:
    """A name for a message, however odd or long it is."""
    text = repr(name)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to say behind an unknown name: the nearest ones, and all where they are few."""
    names = sorted(set(known))
    if not names:
        return "none is installed"
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.6)
    listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return f"did you mean {' or '.join(near)}? Known: {listed}" if near else f"known: {listed}"
