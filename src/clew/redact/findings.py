"""What redaction gives back: the clean text, and where which kind of secret stood.

Knows how a placeholder is written. A finding never holds the secret itself, so it may be logged.
"""

from __future__ import annotations

from dataclasses import dataclass

PLACEHOLDER_START = "[REDACTED:"
PLACEHOLDER_END = "]"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One secret: its place in the text that was given, in chars, and its kind."""

    start: int
    end: int
    kind: str

    @property
    def placeholder(self) -> str:
        return f"{PLACEHOLDER_START}{self.kind}{PLACEHOLDER_END}"


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and what was taken out of it."""

    text: str
    found: tuple[Finding, ...]
