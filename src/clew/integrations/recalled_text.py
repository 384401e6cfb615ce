"""Text of old sessions on its way to another agent: in bounded parts, without secrets and without hidden characters.

It may go to a provider that never saw the session. A secret is recognised in the text around a part, so that one which
the part cuts through is not shown by half. Places are those of the original text, whatever was put for a secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.agent.safe_text import without_invisible
from clew.redact import SecretFinding, redact

AROUND_CHARS = 6_000
"""Text that is looked at before and behind a part; the longest secrets, private keys, have some 3,200."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text."""

    text: str
    end: int
    """Where it ends in the original."""


@dataclass(frozen=True, slots=True)
class RecalledText:
    """Cuts and cleans texts; with `redacts` off, secrets stay."""

    redacts: bool = True

    def part(self, text: str, start: int, chars: int) -> TextPart:
        """At most about so many characters from a place on."""
        stop = min(len(text), start + chars)
        low = max(0, start - AROUND_CHARS)
        found = redact(text[low : stop + AROUND_CHARS]).found if self.redacts else ()
        return TextPart(without_invisible(_without(text, start, stop, low, found)), stop)

    def whole(self, text: str) -> str:
        return self.part(text, 0, len(text)).text

    def line(self, text: str | None, chars: int = 120) -> str:
        """One line, cut; empty for none."""
        words = " ".join(self.part(text or "", 0, chars * 8).text.split())
        return words if len(words) <= chars else f"{words[: chars - 1]}…"


def _without(text: str, start: int, stop: int, low: int, found: tuple[SecretFinding, ...]) -> str:
    """A part of a text, with a placeholder for each secret that it touches; findings count from `low`."""
    pieces, at = list[str](), start
    for finding in found:
        first, last = finding.start + low, finding.end + low
        if last <= start or first >= stop:
            continue
        pieces += [text[at : max(at, first)], finding.placeholder]
        at = last
    return "".join([*pieces, text[min(at, stop) : stop]])
