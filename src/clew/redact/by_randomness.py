"""Generated values, found by their randomness and by what is beside them: a name, a sentence, a prefix.

Hashes, ids and pictures are as random as keys, so no value is a secret by its characters alone. One of capitals, small
letters and digits needs a word for a secret before it in its line, or a name that is not public; one of hex digits or
of one case, as hashes are, needs a sentence that states it. A prefix such as `acme_sk_` says so by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from clew.lazy import lazy_pattern
from clew.redact.catalog import RULES, expanded
from clew.redact.values import SearchedText, SecretFinding, is_placeholder, is_wordy

_NEAR = {name: lazy_pattern(expanded(pattern)) for name, pattern in RULES["generated"].items()}
_VALUE = lazy_pattern(
    rb"(?<![A-Za-z0-9+/_~-])(?=[A-Za-z+/_~-]{0,80}+[0-9])[A-Za-z0-9+/_~-]{20,160}+={0,2}(?![A-Za-z0-9+/_=~-])"
)
_PREFIX = lazy_pattern(rb"(?:[A-Za-z][A-Za-z0-9]{0,9}[_-]){1,3}(?=[A-Za-z0-9+/]{16})")
_HEX = lazy_pattern(rb"[0-9a-f]{32,128}|[0-9A-F]{32,128}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PIECE = lazy_pattern(rb"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
# The rest of an escape before a value: of `\\n`, `%20`.
_ESCAPED = lazy_pattern(rb"\\[nrt]|%[0-9A-F]{2}")
_LONG_RUN = lazy_pattern(rb"[A-Za-z0-9+/]{16}")
_DIGIT = lazy_pattern(rb"[0-9]")
# What files begin with, in base64: pictures, fonts, documents, certificates, public keys.
_KNOWN_BASE64 = (b"iVBOR", b"R0lGOD", b"/9j/", b"UklGR", b"AAAA", b"PHN2", b"JVBER", b"MII", b"d09G")
_FOLDER = lazy_pattern(rb"(?:^|/)[A-Z]?[a-z]{3,}[0-9]{0,3}/")
_BEFORE_CHARS = 80
_JOINT_CHARS = 16
_SHORTEST = 20
_SHORTEST_ASSIGNED = 32


def generated_values(searched: SearchedText, candidates: Sequence[tuple[int, int]]) -> Iterator[SecretFinding]:
    """The generated values within the candidates, which are stretches with a long run of key characters."""
    for first, last in candidates:
        for match in _VALUE.finditer(searched.raw, first, last + 2):
            escaped = _ESCAPED.match(searched.raw, match.start() - 1) if match.start() else None
            value = _without_folders(match[0][escaped.end() - match.start() :] if escaped else match[0])
            start = match.end() - len(value)
            if len(value) >= _SHORTEST and (kind := _kind(searched, start, match.end(), value)):
                yield SecretFinding(start, match.end(), kind)


def _without_folders(value: bytes) -> bytes:
    """The last part of a path; base64, which may have slashes too, has no words of small letters between them."""
    folders, slash, name = value.rpartition(b"/")
    is_path = slash and (b"-" in value or b"_" in value or not folders or _FOLDER.search(value))
    return name if is_path else value


def _kind(searched: SearchedText, start: int, end: int, value: bytes) -> str:
    """The kind of secret that a value is; empty if it is none."""
    prefix = _PREFIX.match(value)
    if prefix and _NEAR["public_prefix"].search(value, 0, prefix.end()):
        return ""
    body = value[prefix.end() :] if prefix else value
    is_stated = bool(_NEAR["stated"].search(searched.folded, max(0, start - _JOINT_CHARS), start))
    is_told_after = bool(_NEAR["secret_after"].match(searched.folded, end))
    is_mixed = body.lower() != body != body.upper()
    if is_mixed:
        is_secret_prefix = prefix and _NEAR["secret_prefix"].search(value, 0, prefix.end())
    else:
        is_secret_prefix = prefix and _NEAR["strong_prefix"].search(value, 0, prefix.end())
        if not (is_stated or is_told_after or is_secret_prefix):
            return ""
    if not (_is_random(body) if is_mixed else _is_of_one_case(body)):
        return ""
    before = _clause_before(searched.folded, start)
    named = _NEAR["name_before"].search(before)
    name = named[1] if named else b""
    if _NEAR["public_name"].search(name):
        return ""
    if is_secret_prefix:
        return "generated-secret"
    if searched.raw[start - 1 : start] == b"/":
        return "token" if is_mixed and _NEAR["secret_folder"].search(before) else ""
    if name and not _NEAR["neutral_name"].fullmatch(name) and not _NEAR["stated_of"].search(before):
        is_secret = _NEAR["secret_name"].search(name) or (
            _NEAR["assigned"].search(before) and len(value) >= _SHORTEST_ASSIGNED
        )
        return "generated-secret" if is_secret and is_mixed else ""
    if is_told_after:
        return "token"
    if _NEAR["public_word"].search(before) or not _NEAR["secret_word"].search(before):
        return ""
    return "token" if is_mixed or is_stated else ""


def _clause_before(folded: bytes, at: int) -> bytes:
    """What precedes a value in its line and sentence."""
    before = folded[max(0, at - _BEFORE_CHARS) : at].replace(b"\\n", b"\n")
    return re.split(rb"\n|[.;!][ ]", before)[-1]


def _is_random(value: bytes) -> bool:
    """Whether capitals, small letters and digits change as they do in no name."""
    if not _LONG_RUN.search(value) or len(set(value)) < 12 or value.startswith(_KNOWN_BASE64):
        return False
    has_digit = _DIGIT.search(value)
    return bool(has_digit) and _is_in_pieces(value, 3) and not is_wordy(value) and not is_placeholder(value)


def _is_of_one_case(value: bytes) -> bool:
    if _HEX.fullmatch(value):
        return len(set(value)) >= 8
    is_one = value.isalnum() and (value.islower() or value.isupper()) and len(value) >= 24
    return is_one and _is_in_pieces(value, 8) and len(set(value)) >= 12 and not is_wordy(value)


def _is_in_pieces(value: bytes, most: int) -> bool:
    """Whether its words and numbers have so many characters at most, on average; those of names have more."""
    return len(_PIECE.findall(value)) * most >= len(value)
