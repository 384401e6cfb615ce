"""A text of a model on one line for people: nothing in it moves a cursor, hides, or forges another line.

Knows characters only.
"""

from __future__ import annotations

from clew.agent.shell.values import UNKNOWN


def shown(text: str, most_chars: int = 120) -> str:
    """A text on one line, with what a screen would not show made visible."""
    seen = "".join(char if char.isprintable() else "…" if char == UNKNOWN else _visible(char) for char in text.strip())
    if len(seen) <= most_chars:
        return seen
    half = most_chars // 2
    return f"{seen[:half]} …({len(seen) - 2 * half:,} chars)… {seen[-half:]}"


def _visible(char: str) -> str:
    return {"\n": " ⏎ ", "\t": " "}.get(char) or char.encode("unicode_escape").decode("ascii")
