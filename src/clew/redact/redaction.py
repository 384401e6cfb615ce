"""Replaces the secrets in a text or in messages by placeholders. Redacting twice changes nothing more.

Each way to find them has a module of its own; what they find is settled here, and replaced.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from clew.messages import Message
from clew.redact.assignments import plain_assignments, secret_under
from clew.redact.by_context import secrets_in_context
from clew.redact.by_name import named_secrets
from clew.redact.by_shape import key_candidates, prefixed_secrets, wrapped_secrets
from clew.redact.in_commands import secrets_in_commands
from clew.redact.key_bodies import key_bodies, private_keys
from clew.redact.readable import readable
from clew.redact.values import PLACEHOLDER_END, PLACEHOLDER_START, RedactedText, SecretFinding

# Removing a secret can show another only where the two overlapped, and hardly ever twice.
_PASSES = 4
_KEPT_FIELDS = frozenset(
    {"id", "type", "role", "call_id", "tool_call_id", "tool_use_id", "signature", "encrypted_content", "media_type"}
)
# No message is nested deeper; anything below is removed, so that no secret is missed and no recursion overflows.
_MAX_DEPTH = 100
_TOO_DEEP = f"{PLACEHOLDER_START}nested-too-deep{PLACEHOLDER_END}"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"(?P<colon>\s*+:\s*+)?')


def redact(text: str) -> RedactedText:
    """The text with every secret replaced by a placeholder that says its kind."""
    clean, found = _redacted(text)
    return RedactedText(clean, tuple(found))


def redact_text(text: str) -> str:
    """The text with every secret replaced; the same object where there is none."""
    return _redacted(text)[0]


def _redacted(text: str) -> tuple[str, Sequence[SecretFinding]]:
    shown = readable(text)
    raw = _one_byte_each(shown.text)
    folded = raw.lower()
    if plain := plain_assignments(folded):
        raw = _with_blanks(raw, plain)
        folded = raw.lower()
    found = _scan(raw, folded, shown.text)
    if found:
        found = _with_uncovered(found, raw, shown.text)
    if plain:
        # Made without calling the class, of which there may be one every dozen bytes.
        made = [_new_finding(SecretFinding, (start, end, "password")) for _, start, end in plain]
        found = _without_overlaps((*found, *made)) if found else made
    if not found:
        return text, ()
    found = shown.in_original(found)
    return _replaced(text, found), found


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
    separate: list[SecretFinding] = []
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


def redact_messages(messages: Sequence[Message]) -> list[Message]:
    """The messages without secrets in texts, tool calls and reasoning; one that has none stays the same object.

    Ids, signatures and images are not changed.
    """
    return [cast(Message, _clean(message, 0)) for message in messages]


def redact_arguments(arguments: str) -> str:
    """The arguments of a tool call without secrets. JSON stays JSON: only strings are changed, and no other byte."""
    if not redact(arguments).found and ("\\" not in arguments or not _hides_secrets(arguments)):
        return arguments
    if not _is_json(arguments):
        return redact_text(arguments)
    clean = _with_clean_strings(arguments)
    # Some secrets show only across strings: {"name": "PASSWORD", "value": "..."}.
    across = redact_text(clean)
    return across if across is clean or _is_json(across) else clean


def _hides_secrets(arguments: str) -> bool:
    """Whether there is a secret once the escapes of JSON are undone."""
    try:
        waiting = [("", json.loads(arguments))]
    except (ValueError, RecursionError):
        return False
    strings: list[str] = []
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            if secret_under(name, value):
                return True
            strings.append(value)
        elif isinstance(value, dict):
            strings += value
            waiting += value.items()
        elif isinstance(value, list):
            waiting += (("", item) for item in value)
    # All at once, because many scans of short texts take longer than one of a long text.
    return bool(redact("\n\0\n".join(strings)).found)


def _clean(value: Any, depth: int) -> Any:
    """The value with redacted strings; the same object when there was nothing to redact."""
    if isinstance(value, str):
        return redact_text(value)
    if not isinstance(value, (Mapping, list)):
        return value
    if depth > _MAX_DEPTH:
        return _TOO_DEEP
    if isinstance(value, list):
        items = [_clean(item, depth + 1) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    fields = {key: _clean_field(value, key, depth + 1) for key in value}
    return value if all(fields[key] is value[key] for key in value) else fields


def _clean_field(owner: Mapping[Any, Any], key: Any, depth: int) -> Any:
    value = owner[key]
    if not isinstance(value, str):
        return _clean(value, depth)
    if key in _KEPT_FIELDS or _is_media(owner, key, value):
        return value
    if key == "arguments":
        return redact_arguments(value)
    return _clean_value(str(key), value)


def _is_media(owner: Mapping[Any, Any], key: Any, value: str) -> bool:
    if key == "data":
        return owner.get("type") in ("base64", "redacted_thinking")
    return key in ("url", "image_url", "file_data") and value.startswith("data:")


def _clean_value(name: str, value: str) -> str:
    kind = secret_under(name, value)
    clean = redact_text(value)
    return f"{PLACEHOLDER_START}{kind}{PLACEHOLDER_END}" if kind and clean is value else clean


def _with_clean_strings(arguments: str) -> str:
    pieces: list[str] = []
    done = 0
    name, name_end = "", -1
    for match in _STRING.finditer(arguments):
        written = match[0] if match["colon"] is None else match[0][: -len(match["colon"])]
        text = json.loads(written)
        clean = _clean_value(name if name_end == match.start() else "", text)
        if clean is not text:
            pieces += (arguments[done : match.start()], json.dumps(clean, ensure_ascii=written.isascii()))
            done = match.start() + len(written)
        if match["colon"] is not None:
            name, name_end = text, match.end()
    return "".join((*pieces, arguments[done:])) if pieces else arguments


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
