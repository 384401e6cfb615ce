"""Secrets known by their shape: the kinds of the catalog, also where a line end cuts one in two, and private keys.

Kinds of the catalog in three linear steps: long runs of characters of secrets are searched for, of which ordinary text
has few; one expression finds the first characters of all kinds in them; the kind's own expression reads on from there.
A private key without its first line is known by the end of its block, by its first bytes, or by its
shape: lines of base64, 64 or 70 wide, one below the other. Certificates, public keys and pictures stay.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache

from clew.lazy import lazy_pattern
from clew.redact.catalog import CATALOG, SecretKind
from clew.redact.values import SecretFinding, decoded_base64, is_wordy, mixes_letters_and_digits

RUN = 20
"""Every secret of the catalog has a run of this many letters, digits, `_`, `-`, `~` or `+`."""

# How far before its first long run a secret may start: a literal such as `SG.`, or base64 with many `+` and `/`.
_LOOK_BACK = 128

_SECRET_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-~+"
_SEPARATOR_CHARS = b".%:$/="
_CLASSES = bytes(ord("a" if byte in _SECRET_CHARS else "b" if byte in _SEPARATOR_CHARS else " ") for byte in range(256))
_LONG_RUN = b"a" * RUN
_KEY_CHARS = 4


def prefixed_secrets(text: bytes, candidates: Sequence[tuple[int, int]]) -> Iterator[SecretFinding]:
    """The secrets of the catalog in a text of one byte per character, within its candidates."""
    for first, last in candidates:
        piece = _without_escapes(text[first:last])
        for start, end, kind in (*_by_start(piece), *_by_middle(piece)):
            yield SecretFinding(first + start, first + end, kind.name)


# A key that a line end cuts: the end of one line and the start of the next, behind an indent, quote or diff mark.
_LINE_END = lazy_pattern(rb"[\\]?[ \t]{0,4}(?:\r?\n|\\n)[ \t>|+]{0,12}")
_WORD = lazy_pattern(rb"[A-Za-z0-9_+/=~.-]{4,}")
_DIGIT = lazy_pattern(rb"[0-9]")
_WRAP_CHARS = 100


def wrapped_secrets(text: bytes, candidates: Sequence[tuple[int, int]]) -> list[SecretFinding]:
    """The secrets of the catalog that continue in the next line."""
    joints: list[tuple[bytes, int, bytes, int]] = []
    has_escaped_ends = b"\\n" in text
    joined = -1
    for start, end in candidates:
        # The line before is looked at unless it ended with the last candidate, which was joined to this one.
        line = text.rfind(b"\n", start - _MARKS_CHARS if start > _MARKS_CHARS else 0, start + 1)
        if line > 0 and start + 1 != joined and (rest := _rest_of_key(text, start + 1, end)):
            before = text[max(0, line - _WRAP_CHARS) : line].rstrip(b" \t\r\\")
            first = before.translate(_CLASSES).rfind(b" ") + 1
            if len(before) - first >= _SHORTEST_PART:
                joints.append((before[first:], max(0, line - _WRAP_CHARS) + len(before), rest, start + 1))
        ends_line = text.find(b"\n", end, end + _GAP_CHARS) >= 0 or (
            has_escaped_ends and text.find(b"\\n", end, end + _GAP_CHARS) >= 0
        )
        if ends_line and (gap := _LINE_END.match(text, end)):
            joined = gap.end()
            if rest := _rest_of_key(text, joined, len(text)):
                # Only at the start of the text no character precedes.
                joints.append((text[start + 1 if start else 0 : end], end, rest, joined))
    return [finding for joint in joints if (finding := _across_line_end(*joint))]


_MARKS_CHARS = 16
_GAP_CHARS = 7
_SHORTEST_PART = 4


def _rest_of_key(text: bytes, start: int, end: int) -> bytes | None:
    """The word at that place, if it may be the rest of a key: it has a digit, and a blank follows."""
    word = _WORD.match(text, start, end)
    if word is None or not _DIGIT.search(word[0]):
        return None
    return word[0] if word.end() == len(text) or text[word.end() : word.end() + 1].isspace() else None


def _across_line_end(first: bytes, first_end: int, rest: bytes, rest_start: int) -> SecretFinding | None:
    """The secret that begins in one line and continues in the next; both parts with their places."""
    for start, end, kind in _by_start(_without_escapes(b" " + first + rest)) if _continues(rest) else ():
        if start <= len(first) < end - 1:
            return SecretFinding(first_end - len(first) + start - 1, rest_start + len(rest), kind.name)
    return None


def _continues(word: bytes) -> bool:
    """Whether a line begins with the rest of a key, and not with a word, a path or a name."""
    return mixes_letters_and_digits(word) and not is_wordy(word) and b"//" not in word


def _by_start(piece: bytes) -> Iterator[tuple[int, int, SecretKind]]:
    """The secrets that are known by their start; of two at one place the one with the longer literal."""
    read: dict[bytes, int] = {}
    for found in _ANY_START.finditer(piece):
        at = found.start()
        for start, kind in _STARTS[found[0]]:
            # A start inside of what was read from the same start before: `sk-sk-sk-...` would be read from each.
            if at < read.get(start, 0) or not piece.startswith(start, at):
                continue
            if match := _expression(start, kind).match(piece, at + len(start)):
                read[start] = match.end()
                if kind.check(piece[at : match.end()]):
                    yield at, match.end(), kind
                break


def _by_middle(piece: bytes) -> Iterator[tuple[int, int, SecretKind]]:
    """Those whose known literal is in the middle."""
    for literal, pattern, kind in _MIDDLES:
        for match in pattern.finditer(piece) if literal in piece else ():
            start = match.start() - (kind.before.low if kind.before else 0)
            if kind.check(piece[start : match.end()]):
                yield start, match.end(), kind


def key_candidates(text: bytes) -> list[tuple[int, int]]:
    """Start and end of each text that has a long run, extended by other characters of secrets; they do not overlap.

    Each starts one character early, to show whether a word begins there.
    """
    classes = text.translate(_CLASSES)
    find, find_last = classes.find, classes.rfind
    found = []
    end = 0
    while (run := find(_LONG_RUN, end)) >= 0:
        earliest = run - _LOOK_BACK if run - _LOOK_BACK > end else end
        start = find_last(b" ", earliest, run)
        end = find(b" ", run + RUN)
        if end < 0:
            end = len(text)
        found.append((start if start >= 0 else earliest, end))
    return found


# Whether a text has the first character of one is found out faster than by its expression.
_ESCAPES = (
    (b"\\", lazy_pattern(rb"\\[nrt]")),
    (b"\\", lazy_pattern(rb"\\u00[0-9A-Fa-f]{2}")),
    (b"%", lazy_pattern(rb"%(?:0[9AaDd]|2[0267Cc]|3[A-Fa-f])")),
    (b"[", lazy_pattern(rb"\[[0-9]{1,3}m")),
    (b";", lazy_pattern(rb";[0-9]{1,3}m")),
)


def _without_escapes(text: bytes) -> bytes:
    """The text with spaces for escape sequences and colour codes, because a word begins after those: `\\nghp_...`."""
    for first, escape in _ESCAPES:
        if first in text:
            text = escape.sub(_as_spaces, text)
    return text


def _as_spaces(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


_STARTS: defaultdict[bytes, list[tuple[bytes, SecretKind]]] = defaultdict(list)
"""By the first characters of a word: which secrets it may be the start of, the longest literal first."""
for _kind in CATALOG:
    for _start in () if _kind.before else map(str.encode, _kind.starts):
        _STARTS[_start[:_KEY_CHARS]].append((_start, _kind))
for _key in list(_STARTS):
    _STARTS[_key] += (row for other in _STARTS if other != _key and _key.startswith(other) for row in _STARTS[other])
    _STARTS[_key].sort(key=lambda row: -len(row[0]))
_BY_FIRST: defaultdict[bytes, list[bytes]] = defaultdict(list)
for _key in sorted(_STARTS, key=len, reverse=True):
    _BY_FIRST[_key[:1]].append(re.escape(_key[1:]))
_ANY_START = lazy_pattern(
    rb"(?<![A-Za-z0-9])(?:%b)" % b"|".join(rb"%b(?:%b)" % (first, b"|".join(rest)) for first, rest in _BY_FIRST.items())
)


@cache
def _expression(start: bytes, kind: SecretKind) -> re.Pattern[bytes]:
    """What follows a start; compiled when a text has it, since compiling all takes longer than most searches."""
    return re.compile(kind.pattern_after(start.decode()).encode())


def _middle(start: str, kind: SecretKind) -> re.Pattern[bytes]:
    assert kind.before is not None
    literal, run = re.escape(start), f"[{kind.before.chars}]{{{kind.before.low}}}"
    before = f"(?<=(?<![A-Za-z0-9{kind.before.chars}]){run}{literal})"
    return lazy_pattern(f"{literal}{before}{kind.pattern_after('')}".encode("ascii"))


_MIDDLES = tuple(
    (start.encode(), _middle(start, kind), kind) for kind in CATALOG if kind.before for start in kind.starts
)


_KEY_BEGINS = lazy_pattern(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS = lazy_pattern(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# Key material as it appears in files and logs: with line numbers, quotes, diff marks, escaped line ends, mail headers.
_KEY_MATERIAL = lazy_pattern(rb"""(?:[A-Za-z0-9+/=\s"'`:,.|>?*#-]|\\+[nrt"'/]?)*+""")
_CUT_OFF_KEY = lazy_pattern(
    rb"""(?:(?:[\s"'`:,|>+?*#]|\\+[nrt]|[0-9]{1,5}[\s:?|]|-(?!-))*+[A-Za-z0-9+/=]{20,}+)+(?:\\+[nr]|\s)*"""
)
_SOME_BASE64 = lazy_pattern(rb"[A-Za-z0-9+/]{12}")
_LONGEST_KEY = 65_536


def private_keys(text: bytes) -> Iterator[SecretFinding]:
    """Private key blocks; of one whose end was cut off, as far as the key material goes."""
    at = text.find(b"-----BEGIN ")
    while at >= 0:
        end = at + 11
        if begin := _KEY_BEGINS.match(text, at):
            end = _end_of_key(text, begin.end())
            if end > begin.end():
                yield SecretFinding(at, end, "private-key")
        at = text.find(b"-----BEGIN ", end)


def _end_of_key(text: bytes, start: int) -> int:
    """Where the key ends whose first line ends at `start`; `start` itself if no key follows."""
    last = start + _LONGEST_KEY
    other = text.find(b"\0", start, last)  # another text begins after a null character
    dashes = text.find(b"-----", start, last if other < 0 else other)
    if dashes >= 0 and (end := _KEY_ENDS.match(text, dashes)):
        body = text[start:dashes]
        return end.end() if _KEY_MATERIAL.fullmatch(body) and _SOME_BASE64.search(body) else start
    cut_off = _CUT_OFF_KEY.match(text, start, last)
    return start + len(cut_off[0].rstrip(b"\\nr \t\r\n")) if cut_off else start


# Between two lines of a body: a line end, written out or not, then an indent, quote mark, diff mark or line number.
# Some programs print the lines of a key on one, with blanks between them.
_GAP = (
    rb"(?:\\{1,4}[nr]|\r?\n|\\\r?\n|[\"',+ ]{1,6}\r?\n|[ ](?=[A-Za-z0-9+/]{64}(?![A-Za-z0-9+/])))"
    rb"(?:\\{1,4}[nr]|[ \t>|#*\"'+-]|(?<=[+,])\r?\n|[0-9]{1,5}[\t:|?]){0,12}"
)
_BASE64 = rb"[A-Za-z0-9+/]"
_BODY = lazy_pattern(rb"%b{40,80}(?:%b%b{40,80})*(?:%b%b{1,80})?={0,2}" % (_BASE64, _GAP, _BASE64, _GAP, _BASE64))
_LINE_BEFORE = lazy_pattern(rb"(?:\A|[\s\"'`>|+])(%b{4,80})%b\Z" % (_BASE64, _GAP))
_END_AFTER = lazy_pattern(rb"(?:%b|[\s\"'\\nr+]){0,4}-----END ([A-Z0-9 ]{0,40})-----" % _GAP)
_BEGIN_BEFORE = lazy_pattern(
    rb"-----BEGIN [A-Z0-9 ]{0,40}-----(?:%b|[\s\\nr\"']|[A-Za-z-]+: [^\n]{0,80}){0,8}\Z" % _GAP
)
_JOINED_LINE = lazy_pattern(rb"[ ]%b{64}(?!%b)" % (_BASE64, _BASE64))
_LAST_JOINED = lazy_pattern(rb"[ ](%b{4,63}={0,2})(?:[ ]=%b{4})?(?=[\s\"'\\]|\Z)" % (_BASE64, _BASE64))
_WIDTHS = (64, 70)
_SHORTEST_LINE = 40
_LINES_BACK = 200
# The first bytes of private keys: DER with version 0 or 1, OpenSSH's magic, and a PEM block that was encoded once more.
_DER_PRIVATE = lazy_pattern(rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)\x02\x01[\x00\x01](?:\x30|\x02|\x04)", re.DOTALL)
_DER_OTHER = lazy_pattern(rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)\x30", re.DOTALL)
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
    for start, end in [place for place in candidates if place[1] - place[0] >= _SHORTEST_LINE]:
        # A line of a key ends its line, but for quotes and marks that join strings.
        if text[end : end + 1] == b" " and text[end + 1 : end + 2].isalnum() and not _JOINED_LINE.match(text, end):
            continue
        if start < done:
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


_BEFORE_LINE = lazy_pattern(rb"[^A-Za-z0-9+/]*")


def _first_of_line(text: bytes, start: int, end: int) -> int:
    """A candidate starts one character early, and with the letter of a line end that is written out."""
    if skipped := _BEFORE_LINE.match(text, start, end):
        start = skipped.end()
    if text[start - 1 : start] == b"\\" and text[start : start + 1] in (b"n", b"r", b"t"):
        start += 1
    return start


def _body_finding(text: bytes, begin: int, body: re.Match[bytes]) -> SecretFinding | None:
    lines = re.split(_GAP, body[0])
    before = text[max(0, begin - _LINES_BACK) : begin]
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
        # A line that begins with `+` may look shorter, since that is a mark of diffs too.
        has_shape = is_enough and max(widths) in _WIDTHS and min(widths) >= max(widths) - 1
        if not (has_shape and is_mixed and len(lines[-1].rstrip(b"=")) <= max(widths)) or _is_other_file(lines, first):
            return None
    start = begin - len(before) + first.start(1) if first else begin
    last = _LAST_JOINED.match(text, body.end()) if b" " in body[0] else None
    end = last.end() if last and not is_wordy(last[1]) else body.end()
    return SecretFinding(start, ended.end() if ended else end, "private-key")


def _is_other_file(lines: Sequence[bytes], first: re.Match[bytes] | None) -> bool:
    """Whether the first bytes are those of a certificate, a public key, a picture or an archive."""
    start = _first_bytes(first[1] if first else lines[0])
    return bool(_DER_OTHER.match(start)) or start.startswith(_FILE_MAGIC)


def _begins_private_key(value: bytes) -> bool:
    if value.startswith((b"b3BlbnNzaC1rZXktdjE", b"LS0tLS1CRUdJTi")):
        return value.startswith(b"b3") or b"PRIVATE KEY" in _first_bytes(value, 96)
    return value.startswith((b"MI", b"MH", b"MC", b"MF")) and bool(_DER_PRIVATE.match(_first_bytes(value)))


def _first_bytes(value: bytes, chars: int = 24) -> bytes:
    whole = value[:chars].rstrip(b"=")
    return decoded_base64(whole[: len(whole) // 4 * 4])
