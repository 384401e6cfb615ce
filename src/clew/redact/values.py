"""Findings of secrets, and checks whether a value looks like a secret.

The checks look at the characters of a value alone, given as bytes. Placeholders, code, paths, words and types are no
secrets, because a value that is removed wrongly is lost to the reader.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import gt, sub
from typing import NamedTuple

from clew.lazy import lazy_pattern

PLACEHOLDER_START = "[REDACTED:"
PLACEHOLDER_END = "]"
QUOTE = rb"""\\{0,6}["'`]"""
"""How a quote is written, also in text that was escaped some times."""


class SecretFinding(NamedTuple):
    """One secret: its start and end in the text, in chars, and its kind. The secret itself is not in it."""

    start: int
    end: int
    kind: str

    @property
    def placeholder(self) -> str:
        return f"{PLACEHOLDER_START}{self.kind}{PLACEHOLDER_END}"


_ASCII = bytes(range(128))


def not_ascii(text: str) -> str:
    """The characters of a text that are not ASCII, which are searched faster where they are few; else the text."""
    if text.isascii():
        return ""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) * 2 > len(text) * 3:
        return text
    return encoded.translate(None, _ASCII).decode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class SearchedText:
    """A text as it is searched for secrets, and what was found out about it before."""

    raw: bytes
    """One byte for each character of the text."""
    folded: bytes
    """The same in lower case."""
    text: str
    words: Sequence[bytes]
    """Those of the words of names of secrets that it has, or more."""
    literals: Container[bytes]
    """Those of the literals that it may have."""
    not_ascii: str
    """Its characters that are not ASCII, or all of it; empty where there are none."""


def between(text: str, starts: Sequence[int], ends: Sequence[int]) -> list[str]:
    """What is before, between and behind some stretches of a text."""
    return [text[end:start] for end, start in zip((0, *ends), (*starts, len(text)), strict=True)]


def with_placeholders(text: str, starts: Sequence[int], ends: Sequence[int], kinds: Sequence[str]) -> str:
    """The text with a placeholder for each of these stretches, by their kinds."""
    kept = between(text, starts, ends)
    placeholders = {kind: SecretFinding(0, 0, kind).placeholder for kind in set(kinds)}
    if len(placeholders) == 1:
        return next(iter(placeholders.values())).join(kept)
    pieces = [""] * (2 * len(kept) - 1)
    pieces[::2] = kept
    pieces[1::2] = [placeholders[kind] for kind in kinds]
    return "".join(pieces)


def without_overlaps(found: list[SecretFinding]) -> list[SecretFinding]:
    """Findings in order; those that overlap become one, with the kind of the first.

    The more precise searches run first, so at the same position the more precise kind counts.
    """
    separate = sorted(found)
    starts = [start for start, _, _ in separate]
    if not any(map(gt, [end for _, end, _ in separate], starts[1:])):
        return separate
    separate = []
    for finding in sorted(found, key=lambda f: (f.start, -f.end)):
        last = separate[-1] if separate else None
        if last is None or finding.start >= last.end:
            separate.append(finding)
        elif finding.end > last.end:
            separate[-1] = SecretFinding(last.start, finding.end, last.kind)
    return separate


def outside_placeholders(found: list[SecretFinding], text: str) -> list[SecretFinding]:
    """A placeholder is never redacted, in whole or in part."""
    spans = placeholders_in(text)
    if not spans:
        return found
    starts = [start for start, _ in spans]

    def is_outside(finding: SecretFinding) -> bool:
        before = bisect_right(starts, finding.end - 1) - 1
        return before < 0 or spans[before][1] <= finding.start

    return [finding for finding in found if is_outside(finding)]


def placeholders_in(text: str) -> list[tuple[int, int]]:
    """Start and end of each placeholder."""
    spans = []
    start = text.find(PLACEHOLDER_START)
    while start >= 0:
        end = text.find(PLACEHOLDER_END, start, start + 64) + 1
        # One that is not closed does not go on in another text that is searched together with this.
        if not end or text.find("\0", start, end) >= 0:
            end = start + len(PLACEHOLDER_START)
        spans.append((start, end))
        start = text.find(PLACEHOLDER_START, end)
    return spans


def in_original_text(
    found: Iterable[SecretFinding], starts: Sequence[int], ends: Sequence[int], chars: Sequence[int]
) -> list[SecretFinding]:
    """Findings in a text with their places in the one it was made from.

    `starts` and `ends` are those of what was replaced there, and `chars` is how many characters stand for each.
    """
    # Of what was replaced there may be one every dozen bytes.
    shifts = list(accumulate(map(sub, map(sub, ends, starts), chars), initial=0))
    ends_here = [0, *map(sub, ends, shifts[1:])]

    def in_original(finding: SecretFinding) -> SecretFinding:
        first = shifts[bisect_right(ends_here, finding.start) - 1]
        last = shifts[bisect_right(ends_here, finding.end - 1) - 1]
        return SecretFinding(finding.start + first, finding.end + last, finding.kind)

    return [in_original(finding) for finding in found]


@dataclass(frozen=True, slots=True)
class RedactedText:
    """A text without its secrets, and where they were in the original."""

    text: str
    found: tuple[SecretFinding, ...]


# <token>, {{ token }}, ${TOKEN}, "%s", "...", "****", os.environ
_PLACEHOLDER_SYNTAX = lazy_pattern(
    rb"[<>{}]|\.\.\.|\*\*\*|###|[xX]{6}|%[sd](?![A-Za-z0-9])|getenv|environ|\[REDACTED|\[redacted"
)
_REFERENCE_SYNTAX = lazy_pattern(
    rb"(?i)[$%][a-z_(]|![a-z]+$|(?:env|op|ref|file|https?|ssm|secret|vault|arn|gs|s3|data|sha\d{1,3}|urn)[:+]|"
    rb"(?:os|process|env|secrets|config|settings|self|this|vars|params|args|options|props|req|request|import)\."
)

_PLACEHOLDER_WORDS = frozenset(
    b"""password passwd pass passphrase pwd secret token key apikey value string str text bytes bool boolean int
    integer number float none null nil undefined true false yes no on off empty required optional invalid missing
    default unknown hidden masked redacted removed example sample dummy changeme changeit replaceme placeholder foobar
    username user admin root guest test testing postgres mysql redis mongo disabled enabled any never object
    secretstr sensitive encrypted plaintext incorrect expired generated notset unset mypassword mysecret mytoken
    """.split()
)
# For text in lower case.
_MENTIONS_PLACEHOLDER = lazy_pattern(
    rb"your|change[-_]?me|change[-_]?this|replace|placeholder|dummy|insert|redacted|masked|"
    rb"[-_](?:here|goes)(?:[-_]|$)|^(?:example|sample|todo|fixme|enter|some|the|fake|mock|test|dev|my)[-_]"
)

# Words, perhaps numbered, joined by the marks that join words in identifiers, paths and keys.
_PIECE = rb"(?:[A-Za-z]{1,24}[0-9]{0,4}|[0-9]{1,4})"
_WORDS = lazy_pattern(rb"[-_./:@#?]*%b(?:[-_./:@?]+%b)*[-_./:?]*" % (_PIECE, _PIECE))
_NOT_ALPHANUMERIC = bytes(byte for byte in range(128) if not chr(byte).isalnum())
_LETTER = lazy_pattern(rb"[A-Za-z]")
_JOINS_NAMES = lazy_pattern(rb"[./:]")
_DIGIT = lazy_pattern(rb"[0-9]")
_SYMBOL = lazy_pattern(rb"[!@#$%^&*+~?]")
_PATH = lazy_pattern(rb"(?:~|\.{1,2}|[A-Za-z]:)?[/\\]|.*://|[^/]+/.*\.[a-z]{1,5}$")
_PLAIN_WORDS = lazy_pattern(rb"[A-Za-z]+(?:-[A-Za-z]+)*")
# Most generated values: nothing else of what a placeholder, a path or a word is known by can be in them.
_ALPHANUMERIC = lazy_pattern(rb"[A-Za-z]*+[0-9]++[A-Za-z][A-Za-z0-9]*+")
_PLACEHOLDER_IN_ALPHANUMERIC = lazy_pattern(rb"[xX]{6}|getenv|environ")
_CASE_CHANGE = lazy_pattern(rb"(?=[a-z][A-Z]|[A-Z][a-z]{1,2}[A-Z])")


def is_placeholder(value: bytes) -> bool:
    """True for what people and programs write instead of a secret: `<token>`, `$TOKEN`, `changeme`, `****`."""
    if len(set(value)) <= 2:
        return True
    folded = value.lower()
    if value.isalnum():
        if _PLACEHOLDER_IN_ALPHANUMERIC.search(value) or folded in _PLACEHOLDER_WORDS:
            return True
    elif _REFERENCE_SYNTAX.match(value) or _PLACEHOLDER_SYNTAX.search(value):
        return True
    elif folded.translate(None, _NOT_ALPHANUMERIC) in _PLACEHOLDER_WORDS or value.count(b"?") * 2 > len(value):
        # Text that is not ASCII is question marks here: a sentence, not a secret.
        return True
    return is_wordy(value) and bool(_MENTIONS_PLACEHOLDER.search(folded))


def is_wordy(value: bytes) -> bool:
    """True for identifiers, dotted names, paths and prose; false where letters and digits mix as no word does."""
    if not _WORDS.fullmatch(value):
        return False
    return len(_CASE_CHANGE.findall(value)) < max(4, len(value) // 5)


def is_path(value: bytes) -> bool:
    return bool(_PATH.match(value))


def mixes_letters_and_digits(value: bytes) -> bool:
    return bool(_LETTER.search(value) and _DIGIT.search(value))


def has_symbol(value: bytes) -> bool:
    return bool(_SYMBOL.search(value))


def is_number(value: bytes) -> bool:
    return value.isdigit()


def looks_random(value: bytes, least: int = 12) -> bool:
    """A generated value: long enough, letters with digits or symbols, no words, no repetition."""
    if len(value) < least or len(set(value)) < 6:
        return False
    if _ALPHANUMERIC.fullmatch(value):
        return not _PLACEHOLDER_IN_ALPHANUMERIC.search(value)
    if not mixes_letters_and_digits(value) and not (len(value) >= 20 and _LETTER.search(value)):
        return False
    return not (is_wordy(value) or is_path(value) or is_placeholder(value))


def looks_like_password(value: bytes, least: int = 6) -> bool:
    """A password that a person chose: `hunter2`, `S3cret!`; short, and perhaps a word with something added."""
    if len(value) < least:
        return False
    if _ALPHANUMERIC.fullmatch(value):
        return len(set(value)) > 2 and not _PLACEHOLDER_IN_ALPHANUMERIC.search(value)
    # From what is tested fast to what is slow.
    if _LETTER.search(value):
        if not (_DIGIT.search(value) or has_symbol(value) or (len(value) >= 20 and value.isalpha())):
            return False
    elif len(value) < 6 or value.startswith((b"#", b".")):
        return False
    if is_path(value) or (_JOINS_NAMES.search(value) and is_wordy(value)):
        return False
    return not is_placeholder(value)


def looks_like_words(value: bytes, least: int) -> bool:
    """Plain words that a person may have chosen as a password: `correct-horse-battery`."""
    return len(value) >= least and bool(_PLAIN_WORDS.fullmatch(value)) and not is_placeholder(value)


# `sha256`, `256-bit`, `utf-8`, `oauth2`, `v1.2.3`, `8-16`: what is said of passwords and keys, and is none.
_TECHNICAL = lazy_pattern(
    rb"(?i)(?:sha|md|base|utf|rsa|aes|ecdsa|ed|x|v|http|oauth|pbkdf|bcrypt|scrypt|argon|hmac|hs|rs|es|tls|ssl|ipv|iso|"
    rb"rfc|win|python|py|log4j|web|p|k|i)-?[0-9]{1,5}[a-z]{0,2}(?:[-_./+:].*)?|"
    rb"[0-9]+(?:[-.,~/x:][0-9]+)*[-_+]?(?:bits?|bytes?|chars?|characters?|digits?|letters?|words?|days?|hours?|min|"
    rb"minutes?|months?|years?|times?|mb|kb|gb|ms|st|nd|rd|th|fa|x|%)?(?:[-_/].*)?|#[0-9]+|[0-9]{4}-[0-9]{2}-[0-9]{2}.*"
)


def is_technical_term(value: bytes) -> bool:
    """True for what sentences say of passwords and keys: algorithms, sizes, dates, versions."""
    return bool(_TECHNICAL.fullmatch(value)) and not (value.isdigit() and len(value) >= 6)


def is_basic_auth(value: bytes) -> bool:
    """Base64 of `user:password`, both printable: what HTTP Basic sends, and hardly ever anything else."""
    try:
        decoded = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    _user, colon, password = decoded.partition(b":")
    return bool(colon and password and decoded.isascii() and decoded.decode("ascii").isprintable())
