"""Generated values, found by their randomness and by what is beside them: a name, a sentence, a prefix.

Hashes, ids and pictures are as random as keys, so no value is a secret by its characters alone. One of capitals, small
letters and digits needs a word for a secret before it in its line, or a name that is not public; one of hex digits or
of one case, as hashes are, needs a sentence that states it. A prefix such as `acme_sk_` says so by itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from clew.lazy import lazy_pattern
from clew.redact.catalog import RULES, expanded
from clew.redact.values import SearchedText, SecretFinding, is_placeholder, is_wordy

_NEAR = {name: lazy_pattern(expanded(pattern)) for name, pattern in RULES["generated"].items()}
_VALUE = lazy_pattern(
    rb"(?<![A-Za-z0-9+/_~-])(?!%b[0-9]{0,3}[_-])(?=[A-Za-z+/_~-]{0,80}+[0-9])"
    rb"[A-Za-z0-9+/_~-]{20,160}+={0,2}(?![A-Za-z0-9+/_=-])" % RULES["generated"]["id_prefix"].encode()
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
_SENTENCE_ENDS = (b". ", b"; ", b"! ")
_NAME_CHARS = bytes(ord("a" if (chr(byte).isalnum() and byte < 128) or byte in b"_.$-" else " ") for byte in range(256))
_JOINT_CHARS = 16
_BEFORE_STATED = (b" ", b'"', b"'", b"`", b"*")
_SHORTEST, _LONGEST = 20, 1_000
_SHORTEST_ASSIGNED = 32


def generated_values(
    searched: SearchedText, candidates: Sequence[tuple[int, int]], known: Container[int]
) -> Iterator[SecretFinding]:
    """The generated values within the candidates, which are stretches with a long run of key characters.

    `known`: where others found a secret.
    """
    for first, last in candidates:
        if last - first > _LONGEST:
            continue
        for match in _VALUE.finditer(searched.raw, first, last + 2):
            start, end = match.span()
            if start in known:
                continue
            value = match[0]
            if escaped := _ESCAPED.match(searched.raw, start - 1) if start else None:
                value = value[escaped.end() - start :]
            if b"/" in value:
                value = _without_folders(value)
            if len(value) >= _SHORTEST and (kind := _kind(searched, end - len(value), end, value)):
                yield SecretFinding(end - len(value), end, kind)


def _without_folders(value: bytes) -> bytes:
    """The last part of a path; base64, which may have slashes too, has no words of small letters between them."""
    folders, slash, name = value.rpartition(b"/")
    is_path = slash and (b"-" in value or b"_" in value or not folders or _FOLDER.search(value))
    return name if is_path else value


def _kind(searched: SearchedText, start: int, end: int, value: bytes) -> str:
    """The kind of secret that a value is; empty if it is none."""
    prefix = _PREFIX.match(value)
    body = value[prefix.end() :] if prefix else value
    is_mixed = body.lower() != body != body.upper()
    kind = _kind_beside(searched, start, end, prefix[0] if prefix else b"", is_mixed)
    return kind if kind and (_is_random(body) if is_mixed else _is_of_one_case(body)) else ""


def _kind_beside(searched: SearchedText, start: int, end: int, prefix: bytes, is_mixed: bool) -> str:
    """The kind of secret that a random value is by its prefix and by what is beside it; empty if it is none."""
    text = searched.folded
    joint = text[start - 1 : start]
    is_told_after = _NEAR["secret_after"].match(text, end)
    is_secret_prefix = prefix and _NEAR["secret_prefix" if is_mixed else "strong_prefix"].search(prefix)
    if not (is_mixed or is_told_after or is_secret_prefix or _is_stated(text, start, joint)):
        return ""
    before = _clause(text[max(0, start - _BEFORE_CHARS) : start])
    name = _name_before(before)
    if _NEAR["public_name"].search(name) or (prefix and _NEAR["public_prefix"].search(prefix)):
        return ""
    if is_secret_prefix:
        return "generated-secret"
    if joint == b"/":
        return "token" if is_mixed and _NEAR["secret_folder"].search(before) else ""
    if name and not _NEAR["neutral_name"].fullmatch(name) and not _NEAR["stated_of"].search(before):
        is_secret = _NEAR["secret_name"].search(name) or (
            end - start >= _SHORTEST_ASSIGNED and _NEAR["assigned"].search(before)
        )
        return "generated-secret" if is_secret and is_mixed else ""
    if is_told_after or (_NEAR["secret_word"].search(before) and not _NEAR["public_word"].search(before)):
        return "token"
    return ""


def _is_stated(text: bytes, start: int, joint: bytes) -> bool:
    return joint in _BEFORE_STATED and bool(_NEAR["stated"].search(text, max(0, start - _JOINT_CHARS), start))


def _clause(before: bytes) -> bytes:
    """The end of a text from the last line or sentence on."""
    begins = max(before.rfind(b"\n") + 1, before.rfind(b"\\n") + 2, *(before.rfind(end) + 2 for end in _SENTENCE_ENDS))
    return before[begins:] if begins > 1 else before


def _name_before(before: bytes) -> bytes:
    """The name that a value is assigned to, as `name` of `name = "`; empty where there is none."""
    if before.endswith((b'("', b"('")) and b"new " in before:
        before = before.rpartition(b"new ")[0]
    signed = before.rstrip(b" \t\"'`(b")
    if not signed.endswith((b"=", b":", b">")):
        return b""
    name = signed.rstrip(b"=:>?").rstrip(b" \t\"'`])")
    return name[name.translate(_NAME_CHARS).rfind(b" ") + 1 :]


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
