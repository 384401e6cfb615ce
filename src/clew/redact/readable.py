"""Text as a reader sees it: without colour codes and characters of no width, with escaped characters decoded.

Secrets are searched for in that text, and their places are given in the original.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

from clew.redact.values import SecretFinding

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
