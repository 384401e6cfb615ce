"""Private keys: whole blocks, blocks that were cut off, and the lines of a key whose first line is missing.

Without its first line a key is known by the end of its block, by the first bytes of a private key, or by its shape:
lines of base64, 64 or 70 wide, one below the other. Certificates, public keys and pictures stay where they can be told.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence

from clew.redact.values import SecretFinding, is_wordy

_KEY_BEGINS = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----").match
_KEY_ENDS = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----").match
# Key material as it appears in files and logs: with line numbers, quotes, diff marks, escaped line ends, mail headers.
_KEY_MATERIAL = re.compile(rb"""(?:[A-Za-z0-9+/=\s"'`:,.|>?*#-]|\\+[nrt"'/]?)*+""").fullmatch
_CUT_OFF_KEY = re.compile(
    rb"""(?:(?:[\s"'`:,|>+?*#]|\\+[nrt]|[0-9]{1,5}[\s:?|]|-(?!-))*+[A-Za-z0-9+/=]{20,}+)+(?:\\+[nr]|\s)*"""
)
_SOME_BASE64 = re.compile(rb"[A-Za-z0-9+/]{12}").search
_LONGEST_KEY = 65_536


def private_keys(text: bytes) -> Iterator[SecretFinding]:
    """Private key blocks; of one whose end was cut off, as far as the key material goes."""
    at = text.find(b"-----BEGIN ")
    while at >= 0:
        end = at + 11
        if begin := _KEY_BEGINS(text, at):
            end = _end_of_key(text, begin.end())
            if end > begin.end():
                yield SecretFinding(at, end, "private-key")
        at = text.find(b"-----BEGIN ", end)


def _end_of_key(text: bytes, start: int) -> int:
    """Where the key ends whose first line ends at `start`; `start` itself if no key follows."""
    dashes = text.find(b"-----", start)
    if dashes >= 0 and dashes - start <= _LONGEST_KEY and (end := _KEY_ENDS(text, dashes)):
        body = text[start:dashes]
        return end.end() if _KEY_MATERIAL(body) and _SOME_BASE64(body) else start
    cut_off = _CUT_OFF_KEY.match(text, start, start + _LONGEST_KEY)
    return start + len(cut_off[0].rstrip(b"\\nr \t\r\n")) if cut_off else start


# -- bodies without a first line ---------------------------------------------------------------------------------------

# Between two lines of a body: a line end, written out or not, then an indent, quote mark, diff mark or line number.
_GAP = (
    rb"(?:\\{1,4}[nr]|\r?\n|\\\r?\n|[\"',+ ]{1,6}\r?\n)"
    rb"(?:\\{1,4}[nr]|[ \t>|#*\"'+-]|(?<=[+,])\r?\n|[0-9]{1,5}[\t:|?]){0,12}"
)
_BASE64 = rb"[A-Za-z0-9+/]"
_BODY = re.compile(rb"%b{40,80}(?:%b%b{40,80})*(?:%b%b{1,80})?={0,2}" % (_BASE64, _GAP, _BASE64, _GAP, _BASE64))
_BODY_LINE = re.compile(rb"%b+={0,2}(?=%b|\s*\Z|\\{0,4}[\"'nr\s])" % (_BASE64, _GAP))
_LINE_BEFORE = re.compile(rb"(?:\A|[\s\"'`>|+])(%b{4,80})%b\Z" % (_BASE64, _GAP))
_END_AFTER = re.compile(rb"(?:%b|[\s\"'\\nr+]){0,4}-----END ([A-Z0-9 ]{0,40})-----" % _GAP)
_BEGIN_BEFORE = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}-----(?:%b|[\s\\nr\"']|[A-Za-z-]+: [^\n]{0,80}){0,8}\Z" % _GAP)
_WIDTHS = (64, 70)
_SHORTEST_LINE = 40
_LOOK_BACK = 200
# The first bytes of private keys: DER with version 0 or 1, OpenSSH's magic, and a PEM block that was encoded once more.
_DER_PRIVATE = re.compile(rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)\x02\x01[\x00\x01](?:\x30|\x02|\x04)", re.DOTALL).match
_DER_OTHER = re.compile(rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)\x30", re.DOTALL).match
_FILE_MAGIC = (
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"RIFF",
    b"%PDF",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"wOF",
    b"\x00\x00\x00",
)
_LONG_LINE = 120


def key_bodies(text: bytes, candidates: Sequence[tuple[int, int]]) -> Iterator[SecretFinding]:
    """Keys whose first line is missing. `candidates` are the stretches that have a long run of key characters."""
    done = 0
    for start, end in candidates:
        if start < done or end - start < _SHORTEST_LINE:
            continue
        begin = _first_of_line(text, start, end)
        if end - begin >= _LONG_LINE:
            if _begins_private_key(text[begin:end]):
                yield SecretFinding(begin, end, "private-key")
            continue
        body = _BODY.match(text, begin, begin + _LONGEST_KEY)
        if body is None:
            continue
        if found := _body_finding(text, begin, body):
            yield found
        done = max(done, body.end())


_BEFORE_LINE = re.compile(rb"[^A-Za-z0-9+/]*").match


def _first_of_line(text: bytes, start: int, end: int) -> int:
    """A candidate starts one character early, and with the letter of a line end that is written out."""
    if skipped := _BEFORE_LINE(text, start, end):
        start = skipped.end()
    if text[start - 1 : start] == b"\\" and text[start : start + 1] in (b"n", b"r", b"t"):
        start += 1
    return start


def _body_finding(text: bytes, begin: int, body: re.Match[bytes]) -> SecretFinding | None:
    lines = re.split(_GAP, body[0])
    before = text[max(0, begin - _LOOK_BACK) : begin]
    ended = _END_AFTER.match(text, body.end())
    if _BEGIN_BEFORE.search(before) or (ended and b"PRIVATE" not in ended[1]):
        return None
    is_mixed = all(re.search(kind, body[0]) for kind in (rb"[a-z]", rb"[A-Z]", rb"[0-9]"))
    widths = {len(line) for line in lines[:-1]}
    first = _LINE_BEFORE.search(before)
    if first and is_wordy(first[1]):
        first = None
    is_private = bool(ended) or _begins_private_key(body[0])
    if not is_private:
        # One line and a word below it are no key.
        is_enough = len(lines) >= 3 or (len(lines) == 2 and (len(lines[1]) in widths or lines[1].endswith(b"=")))
        has_shape = is_enough and len(widths) == 1 and widths <= set(_WIDTHS)
        if not (has_shape and is_mixed and len(lines[-1].rstrip(b"=")) <= max(widths)) or _is_other_file(lines, first):
            return None
    start = begin - len(before) + first.start(1) if first else begin
    return SecretFinding(start, ended.end() if ended else body.end(), "private-key")


def _is_other_file(lines: Sequence[bytes], first: re.Match[bytes] | None) -> bool:
    """Whether the first bytes are those of a certificate, a public key, a picture or an archive."""
    start = _decoded(first[1] if first else lines[0])
    return bool(_DER_OTHER(start)) or start.startswith(_FILE_MAGIC)


def _begins_private_key(value: bytes) -> bool:
    if value.startswith((b"b3BlbnNzaC1rZXktdjE", b"LS0tLS1CRUdJTi")):
        return value.startswith(b"b3") or b"PRIVATE KEY" in _decoded(value, 96)
    return value.startswith((b"MI", b"MH", b"MC", b"MF")) and bool(_DER_PRIVATE(_decoded(value)))


def _decoded(value: bytes, chars: int = 24) -> bytes:
    whole = value[:chars].rstrip(b"=")
    try:
        return base64.b64decode(whole[: len(whole) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return b""
