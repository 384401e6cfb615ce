"""Replaces the secrets in a text by placeholders. Redacting twice changes nothing more.

Each way to find them has a module of its own; what they find is settled here, and replaced. They read the text as a
reader sees it: without colour codes and characters of no width, with escaped characters decoded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise

from clew.redact.by_context import secrets_in_commands, secrets_in_context
from clew.redact.by_name import named_secrets, plain_assignments
from clew.redact.by_shape import key_bodies, key_candidates, prefixed_secrets, private_keys, wrapped_secrets
from clew.redact.values import PLACEHOLDER_END, PLACEHOLDER_START, RedactedText, SecretFinding

# Removing a secret can show another only where the two overlapped, and hardly ever twice.
_PASSES = 4


def redact(text: str) -> RedactedText:
    """The text with every secret replaced by a placeholder that says its kind."""
    shown, plain, found = _search(text)
    found = _settled(shown, plain, found)
    return RedactedText(_replaced(text, found), tuple(found)) if found else RedactedText(text, ())


def redact_text(text: str) -> str:
    """The text with every secret replaced; the same object where there is none."""
    shown, plain, found = _search(text)
    if found or (plain and shown.text is not text):
        return _replaced(text, _settled(shown, plain, found))
    if not plain:
        return text
    ends = [0, *[end for _, _, end in plain]]
    starts = [*[start for _, start, _ in plain], len(text)]
    return _PASSWORD.join([text[end:start] for end, start in zip(ends, starts, strict=True)])


_PASSWORD = SecretFinding(0, 0, "password").placeholder


def _search(text: str) -> tuple[ReadableText, list[tuple[int, int, int]], list[SecretFinding]]:
    """The text as it is read, its passwords in the most frequent form, of which there may be many, and all else."""
    shown = readable(text)
    raw = _one_byte_each(shown.text)
    folded = raw.lower()
    if plain := plain_assignments(folded):
        raw = _with_blanks(raw, plain)
        folded = raw.lower()
    found = _scan(raw, folded, shown.text)
    return shown, plain, _with_uncovered(found, raw, shown.text) if found else found


def _settled(
    shown: ReadableText, plain: Sequence[tuple[int, int, int]], found: list[SecretFinding]
) -> list[SecretFinding]:
    """All findings in order, with their places in the original text."""
    if plain:
        # Made without calling the class, of which there may be one every dozen bytes.
        made = [_new_finding(SecretFinding, (start, end, "password")) for _, start, end in plain]
        found = _without_overlaps((*found, *made)) if found else made
    return shown.in_original(found)


_new_finding = tuple.__new__


def _with_blanks(raw: bytes, plain: Sequence[tuple[int, int, int]]) -> bytes:
    """The text with blanks for plain assignments, which are as long, so that places stay."""
    blanked = bytearray(raw)
    for start, _, end in plain:
        blanked[start:end] = _BLANKS[: end - start]
    return bytes(blanked)


_BLANKS = b" " * 256


def _with_uncovered(found: list[SecretFinding], raw: bytes, text: str) -> list[SecretFinding]:
    """The findings, with those that show only when these are replaced."""
    for _ in range(_PASSES):
        clean = _replaced(text, found)
        clean_raw = _replaced_bytes(raw, found)
        if not _may_uncover(clean_raw, clean, found):
            break
        uncovered = _scan(clean_raw, clean_raw.lower(), clean)
        if not uncovered:
            break
        found = _without_overlaps((*found, *_in_original_text(uncovered, found)))
    return found


def _may_uncover(raw: bytes, text: str, found: Sequence[SecretFinding]) -> bool:
    """Whether there is anything to find near the placeholders, where these are few in a long text."""
    if len(found) * 4 * _NEAR_CHARS > len(raw):
        return True
    places = _placeholders(text)
    for start, end in places:
        first = max(0, raw.rfind(b"\n", 0, max(0, start - _NEAR_CHARS)), start - 4 * _NEAR_CHARS)
        last = raw.find(b"\n", end + _NEAR_CHARS)
        last = min(len(raw) if last < 0 else last, end + 4 * _NEAR_CHARS)
        near = raw[first:last]
        if _scan(near, near.lower(), text[first:last]):
            return True
    return False


_NEAR_CHARS = 300


def _one_byte_each(text: str) -> bytes:
    """One byte per character, so that positions are the same, and bytes are searched faster.

    What is not ASCII becomes `?`, which no secret consists of.
    """
    return text.encode("ascii", "replace")


def _scan(raw: bytes, folded: bytes, text: str) -> list[SecretFinding]:
    candidates = key_candidates(raw)
    found = [
        *prefixed_secrets(raw, candidates),
        *wrapped_secrets(raw, candidates),
        *private_keys(raw),
        *key_bodies(raw, candidates),
        *secrets_in_context(raw, folded),
        *named_secrets(raw, folded, text),
        *secrets_in_commands(raw),
    ]
    if not found:
        return found
    return _outside_placeholders(_without_overlaps(found), text)


def _without_overlaps(found: Iterable[SecretFinding]) -> list[SecretFinding]:
    """Findings in order; those that overlap become one, with the kind of the first.

    The more precise searches run first, so at the same position the more precise kind counts.
    """
    found = list(found)
    separate = sorted(found)
    if not any(one.end > other.start for one, other in pairwise(separate)):
        return separate
    separate = []
    for finding in sorted(found, key=lambda f: (f.start, -f.end)):
        last = separate[-1] if separate else None
        if last is None or finding.start >= last.end:
            separate.append(finding)
        elif finding.end > last.end:
            separate[-1] = SecretFinding(last.start, finding.end, last.kind)
    return separate


def _outside_placeholders(found: list[SecretFinding], text: str) -> list[SecretFinding]:
    """A placeholder is never redacted, in whole or in part."""
    spans = _placeholders(text)
    if not spans:
        return found
    starts = [start for start, _ in spans]

    def is_outside(finding: SecretFinding) -> bool:
        before = bisect_right(starts, finding.end - 1) - 1
        return before < 0 or spans[before][1] <= finding.start

    return [finding for finding in found if is_outside(finding)]


def _placeholders(text: str) -> list[tuple[int, int]]:
    spans = []
    start = text.find(PLACEHOLDER_START)
    while start >= 0:
        end = text.find(PLACEHOLDER_END, start, start + 64) + 1 or start + len(PLACEHOLDER_START)
        spans.append((start, end))
        start = text.find(PLACEHOLDER_START, end)
    return spans


def _replaced_bytes(raw: bytes, found: Sequence[SecretFinding]) -> bytes:
    pieces: list[bytes] = []
    done = 0
    for finding in found:
        pieces += (raw[done : finding.start], finding.placeholder.encode("ascii"))
        done = finding.end
    return b"".join((*pieces, raw[done:]))


def _replaced(text: str, found: Sequence[SecretFinding]) -> str:
    pieces: list[str] = []
    done = 0
    placeholders: dict[str, str] = {}
    for start, end, kind in found:
        placeholder = placeholders.get(kind) or placeholders.setdefault(kind, SecretFinding(0, 0, kind).placeholder)
        pieces += (text[done:start], placeholder)
        done = end
    return "".join((*pieces, text[done:]))


def _in_original_text(uncovered: Iterable[SecretFinding], found: Sequence[SecretFinding]) -> list[SecretFinding]:
    """Findings in the redacted text, with their positions in the original text."""
    ends_in_clean, shifts, shift = [0], [0], 0
    for finding in found:
        ends_in_clean.append(finding.start - shift + len(finding.placeholder))
        shift += finding.end - finding.start - len(finding.placeholder)
        shifts.append(shift)

    def in_original(finding: SecretFinding) -> SecretFinding:
        shift = shifts[bisect_right(ends_in_clean, finding.start) - 1]
        return SecretFinding(finding.start + shift, finding.end + shift, finding.kind)

    return [in_original(finding) for finding in uncovered]


# -- text as it is read -----------------------------------------------------------------------------------------------

_INVISIBLE = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"
_COLOUR = r"\[[0-9;:?]{0,24}[A-Za-z]"
_ESCAPED = rf"\\(?:(?:u001[bB]|x1[bB]|033|e){_COLOUR}|u(?P<code>[0-9A-Fa-f]{{4}}))"
# Each begins with a literal or a set of characters, which makes it as fast as a search for those.
_FORMS = (
    re.compile(rf"\x1b(?:{_COLOUR}|\][^\x07\x1b]{{0,256}}(?:\x07|\x1b\\)|[()][A-Z0-9])(?P<code>)"),
    re.compile(_ESCAPED),
    re.compile(f"[{_INVISIBLE}](?P<code>)"),
)
_NOT_PLAIN = re.compile(f"[{_INVISIBLE}\uff10-\uff1a\uff1d\uff21-\uff3a\uff41-\uff5a]")
_WIDE = re.compile("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]")
_FULL_WIDTH = {0xFF01 + n: 0x21 + n for n in range(94)}


class ReadableText:
    """A text as a reader sees it. Where its characters were in the original is worked out when it is asked for."""

    def __init__(self, text: str, original: str = "", forms: Sequence[re.Pattern[str]] = ()) -> None:
        self.text = text
        self._original = original
        self._forms = forms
        self._removed: list[tuple[int, int, int]] = []
        """Of each hidden place: where it would be in `text`, its start in the original, and its length there."""
        self._starts: list[int] = []

    def in_original(self, found: Sequence[SecretFinding]) -> list[SecretFinding]:
        """Findings in the text, with their places in the original."""
        if not self._forms:
            return list(found)
        self._locate()
        return [SecretFinding(self._at(start), self._at(end - 1, last=True), kind) for start, end, kind in found]

    def _locate(self) -> None:
        spans = sorted(
            (*match.span(), _decoded(match)) for form in self._forms for match in form.finditer(self._original)
        )
        shift = done = 0
        for start, end, char in spans:
            if start >= done:
                self._removed.append((start - shift, end, len(char)))
                shift += end - start - len(char)
                done = end
        self._starts = [place for place, _, _ in self._removed]

    def _at(self, place: int, *, last: bool = False) -> int:
        """The place of a character in the original; with `last` the place behind it."""
        before = bisect_right(self._starts, place) - 1
        if before < 0:
            return place + last
        start, origin, kept = self._removed[before]
        if kept and place == start:
            # One character stands for all that was written.
            return origin if last else origin - _ESCAPE_CHARS
        return origin + place - start - kept + last


_ESCAPE_CHARS = len("\\u0000")


def readable(text: str) -> ReadableText:
    """The text as it is read; the same string where nothing is hidden in it."""
    plain = text
    forms = [form for form, mark in zip(_FORMS, ("\x1b", "\\"), strict=False) if mark in text and form.search(text)]
    if not text.isascii() and _NOT_PLAIN.search(text):
        # Of the same length, so that places stay.
        plain = text.translate(_FULL_WIDTH) if _WIDE.search(text) else text.replace("：", ":").replace("＝", "=")
        if _FORMS[-1].search(text):
            forms.append(_FORMS[-1])
    if not forms:
        return ReadableText(plain)
    original = plain
    # The escaped ones first: what they decode to is not looked at again.
    for form in reversed(forms):
        plain = form.sub(_decoded if form is _FORMS[1] else "", plain)
    return ReadableText(plain, original, forms)


def _decoded(match: re.Match[str]) -> str:
    code = match["code"]
    if not code:
        return ""
    char = chr(int(code, 16))
    return " " if char < " " or char == "\\" or not char.isprintable() else char
