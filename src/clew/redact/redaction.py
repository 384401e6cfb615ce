"""Takes the secrets out of a text: collects what the finders found, settles overlaps, writes placeholders.

Knows nothing of any kind of secret. Redacting what was redacted changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from clew.redact.assignments import assigned_secrets
from clew.redact.contexts import secrets_in_context
from clew.redact.findings import PLACEHOLDER_END, PLACEHOLDER_START, Finding, Redacted
from clew.redact.prefixed import prefixed_secrets

# Taking a secret out can uncover another only where the two were entangled, and hardly ever twice.
_PASSES = 4


def redact(text: str) -> Redacted:
    """The text with every secret replaced by a placeholder that says its kind."""
    found = _scan(text)
    if not found:
        return Redacted(text, ())
    clean = _replaced(text, found)
    for _ in range(_PASSES):
        uncovered = _scan(clean)
        if not uncovered:
            break
        found = _settled((*found, *_placed_in_source(uncovered, found)))
        clean = _replaced(text, found)
    return Redacted(clean, tuple(found))


def redact_text(text: str) -> str:
    """The text with every secret replaced; the same object where there is none."""
    return redact(text).text


def _scan(text: str) -> list[Finding]:
    # One byte per character keeps places comparable, and everything below is faster on bytes. What is not ASCII
    # becomes `?`, which no kind of secret is made of.
    raw = text.encode("ascii", "replace")
    folded = raw.lower()
    found = [*prefixed_secrets(raw), *secrets_in_context(raw, folded), *assigned_secrets(raw, folded)]
    if not found:
        return found
    return _outside_placeholders(_settled(found), text)


def _settled(found: Iterable[Finding]) -> list[Finding]:
    """Findings in order and apart: of those that overlap, the widest, and its first finder's word for the kind.

    Finders run from the precise to the general, so on equal places the more precise kind stands.
    """
    settled: list[Finding] = []
    for finding in sorted(found, key=lambda f: (f.start, -f.end)):
        last = settled[-1] if settled else None
        if last is None or finding.start >= last.end:
            settled.append(finding)
        elif finding.end > last.end:
            settled[-1] = Finding(last.start, finding.end, last.kind)
    return settled


def _outside_placeholders(found: list[Finding], text: str) -> list[Finding]:
    """A placeholder is never redacted, in whole or in part."""
    places = _placeholders(text)
    if not places:
        return found
    starts = [start for start, _ in places]

    def is_outside(finding: Finding) -> bool:
        before = bisect_right(starts, finding.end - 1) - 1
        return before < 0 or places[before][1] <= finding.start

    return [finding for finding in found if is_outside(finding)]


def _placeholders(text: str) -> list[tuple[int, int]]:
    places = []
    start = text.find(PLACEHOLDER_START)
    while start >= 0:
        end = text.find(PLACEHOLDER_END, start, start + 64) + 1 or start + len(PLACEHOLDER_START)
        places.append((start, end))
        start = text.find(PLACEHOLDER_START, end)
    return places


def _replaced(text: str, found: Sequence[Finding]) -> str:
    pieces: list[str] = []
    done = 0
    for finding in found:
        pieces += (text[done : finding.start], finding.placeholder)
        done = finding.end
    return "".join((*pieces, text[done:]))


def _placed_in_source(uncovered: Iterable[Finding], found: Sequence[Finding]) -> list[Finding]:
    """Findings in the redacted text, at their places in the text that was given."""
    ends_in_clean, shifts, shift = [0], [0], 0
    for finding in found:
        ends_in_clean.append(finding.start - shift + len(finding.placeholder))
        shift += finding.end - finding.start - len(finding.placeholder)
        shifts.append(shift)

    def placed(finding: Finding) -> Finding:
        shift = shifts[bisect_right(ends_in_clean, finding.start) - 1]
        return Finding(finding.start + shift, finding.end + shift, finding.kind)

    return [placed(finding) for finding in uncovered]
