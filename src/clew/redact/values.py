"""Findings of secrets, and checks whether a value looks like a secret.

The checks look at the characters of a value alone, given as bytes. Placeholders, code, paths, words and types are no
secrets, because a value that is removed wrongly is lost to the reader.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clew.lazy import lazy_pattern
from clew.redact.catalog import RULES

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
    """A text as it is searched for secrets: as bytes, which are searched faster, one for each character."""

    text: str
    raw: bytes
    """What is not ASCII is `?`, which no secret consists of."""
    folded: bytes
    """The same in lower case."""
    not_ascii: str
    """Its characters that are not ASCII, or all of it; empty where there are none."""
    places: Mapping[bytes, Sequence[int]]
    """Where in `folded` each anchor of the rules is."""

    @classmethod
    def of(cls, text: str) -> SearchedText:
        raw = text.encode("ascii", "replace")
        folded = raw.lower()
        places: defaultdict[bytes, list[int]] = defaultdict(list)
        for match in _ANCHORED.finditer(folded):
            places[folded[match.start() : match.end() + 1]].append(match.start())
        return cls(text, raw, folded, not_ascii(text), places)


class Literals:
    """Literals of the rules, found by their anchors."""

    def __init__(self, literals: Iterable[bytes]) -> None:
        self._of_anchor: defaultdict[bytes, list[tuple[int, bytes, int]]] = defaultdict(list)
        for order, literal in enumerate(literals):
            anchor = next(anchor for anchor in _ANCHORS if anchor in literal)
            self._of_anchor[anchor].append((order, literal, literal.index(anchor)))

    def found_in(self, searched: SearchedText) -> Iterator[tuple[bytes, int]]:
        """The literals that a text in lower case has, in the order of the rules, with each place."""
        known, is_here = self._of_anchor, searched.folded.startswith
        rows = [(*row, anchor) for anchor in searched.places if anchor in known for row in known[anchor]]
        for _, literal, offset, anchor in sorted(rows):
            for at in searched.places[anchor]:
                if literal == anchor or (at >= offset and is_here(literal, at - offset)):
                    yield literal, at - offset


_ANCHORS = tuple(anchor.encode() for anchor in sorted(RULES["anchors"], key=len, reverse=True))
_BY_FIRST: defaultdict[bytes, list[bytes]] = defaultdict(list)
for _anchor in _ANCHORS:
    # The last character is not consumed, since another one may begin with it.
    _BY_FIRST[_anchor[:1]].append(b"%b(?=%b)" % (re.escape(_anchor[1:-1]), re.escape(_anchor[-1:])))
_ANCHORED = lazy_pattern(
    b"|".join(b"%b(?:%b)" % (re.escape(first), b"|".join(rest)) for first, rest in _BY_FIRST.items())
)


def with_placeholders(text: str, found: Iterable[SecretFinding]) -> str:
    """The text with a placeholder for each finding; they are in order."""
    pieces: list[str] = []
    done = 0
    for finding in found:
        pieces += (text[done : finding.start], finding.placeholder)
        done = finding.end
    return "".join((*pieces, text[done:]))


def without_overlaps(found: Iterable[SecretFinding]) -> list[SecretFinding]:
    """Findings in order; those that overlap become one, with the kind of the first.

    The more precise searches run first, so at the same position the more precise kind counts.
    """
    separate: list[SecretFinding] = []
    for finding in sorted(found, key=lambda f: (f.start, -f.end)):
        last = separate[-1] if separate else None
        if last is None or finding.start >= last.end:
            separate.append(finding)
        elif finding.end > last.end:
            separate[-1] = SecretFinding(last.start, finding.end, last.kind)
    return separate


def outside_placeholders(found: list[SecretFinding], text: str) -> list[SecretFinding]:
    """A placeholder is never redacted, in whole or in part."""
    spans = [match.span() for match in _PLACEHOLDER.finditer(text)]
    starts = [start for start, _ in spans]

    def is_outside(finding: SecretFinding) -> bool:
        before = bisect_right(starts, finding.end - 1) - 1
        return before < 0 or spans[before][1] <= finding.start

    return list(filter(is_outside, found))


# One that is not closed does not continue in another text that is searched together with this.
_PLACEHOLDER = lazy_pattern(r"\[REDACTED:(?:[^]\0]{0,53}\])?")


def in_original_text(found: Iterable[SecretFinding], replaced: Iterable[tuple[int, int, int]]) -> list[SecretFinding]:
    """Findings in a text with their places in the one it was made from.

    `replaced`: start and end of what was replaced there, in order, and how many characters represent it here.
    """
    starts: list[int] = []
    rows: list[tuple[int, int, int]] = []
    shift = 0
    for start, end, chars in replaced:
        starts.append(start - shift)
        rows.append((start, end, start - shift + chars))
        shift += end - start - chars

    def at(place: int, last: int) -> int:
        """Where a character was; with `last` the place behind it."""
        number = bisect_right(starts, place) - 1
        if number < 0:
            return place + last
        start, end, end_here = rows[number]
        if place < end_here:
            return end if last else start
        return end + place - end_here + last

    return [SecretFinding(at(one.start, 0), at(one.end - 1, 1), one.kind) for one in found]


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

_PLACEHOLDER_WORDS = frozenset(RULES["words"]["placeholders"].encode().split())
# For text in lower case.
_MENTIONS_PLACEHOLDER = lazy_pattern(
    rb"your|change[-_]?me|change[-_]?this|replace|placeholder|dummy|insert|redacted|masked|"
    rb"[-_](?:here|goes)(?:[-_]|$)|^(?:example|sample|todo|fixme|enter|some|the|fake|mock|test|dev|my)[-_]"
)

SENTENCE_WORDS = frozenset(RULES["words"]["of_sentences"].encode().split())

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
# `KqLa`, `dlwQ`, `hT6`: no identifier is written so. Beside `ww92` it makes a value that no person would read.
_ODD_CAPITALS = lazy_pattern(
    rb"(?<![A-Za-z])(?:[A-Z]?[b-df-hj-np-tv-z]{2,}[A-Z](?![A-Za-z])|[a-z][A-Z](?![A-Za-z])|[A-Z][a-z][A-Z][a-z](?![A-Za-z]))"
)
_DIGITS_IN_WORD = lazy_pattern(rb"[A-Za-z][0-9]")
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
    if len(_CASE_CHANGE.findall(value)) >= max(4, len(value) // 5):
        return False
    return not (_ODD_CAPITALS.search(value) and _DIGITS_IN_WORD.search(value))


def is_path(value: bytes) -> bool:
    return bool(_PATH.match(value))


def mixes_letters_and_digits(value: bytes) -> bool:
    return bool(_LETTER.search(value) and _DIGIT.search(value))


def has_symbol(value: bytes) -> bool:
    return bool(_SYMBOL.search(value))


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
    """True for what sentences say about passwords and keys: algorithms, sizes, dates, versions."""
    return bool(_TECHNICAL.fullmatch(value)) and not (value.isdigit() and len(value) >= 6)


def decoded_base64(value: bytes) -> bytes:
    """What a value encodes in base64, of the alphabet of URLs too and without its padding; empty where it is none."""
    written = value.rstrip(b"=").translate(_URL_SAFE)
    try:
        return base64.b64decode(written + b"=" * (-len(written) % 4), validate=True)
    except ValueError:
        return b""


_URL_SAFE = bytes.maketrans(b"-_", b"+/")


def is_readable_base64(value: bytes, needs: bytes = b"") -> bool:
    """Base64 of a printable text, in which something follows `needs`."""
    decoded = decoded_base64(value)
    has_both = bool(decoded.partition(needs)[2]) if needs else bool(decoded)
    return has_both and decoded.isascii() and decoded.decode("ascii").strip().isprintable()
