"""Replaces the secrets in a text or in messages by placeholders. Redacting twice changes nothing more.

Secrets of the catalog are found here, by their first characters; those known by the text around them in `by_context`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from clew.messages import Message
from clew.redact.by_context import assigned_secrets, secret_under, secrets_in_context
from clew.redact.catalog import CATALOG, SecretKind
from clew.redact.values import PLACEHOLDER_END, PLACEHOLDER_START, RedactedText, SecretFinding

# Removing a secret can show another only where the two overlapped, and hardly ever twice.
_PASSES = 4
RUN = 20
"""Every secret of the catalog has a run of this many letters, digits, `_`, `-`, `~` or `+`."""

# How far before its first long run a secret may start: a literal such as `SG.`, or base64 with many `+` and `/`.
_LOOK_BACK = 128

_SECRET_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-~+"
_SEPARATOR_CHARS = b".%:$/="
_CLASSES = bytes(ord("a" if byte in _SECRET_CHARS else "b" if byte in _SEPARATOR_CHARS else " ") for byte in range(256))
_LONG_RUN = b"a" * RUN
_KEPT_FIELDS = frozenset(
    {"id", "type", "role", "call_id", "tool_call_id", "tool_use_id", "signature", "encrypted_content", "media_type"}
)
# No message is nested deeper; anything below is removed, so that no secret is missed and no recursion overflows.
_MAX_DEPTH = 100
_TOO_DEEP = f"{PLACEHOLDER_START}nested-too-deep{PLACEHOLDER_END}"
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"(?P<colon>\s*+:\s*+)?')


def redact(text: str) -> RedactedText:
    """The text with every secret replaced by a placeholder that says its kind."""
    found = _scan(text)
    if not found:
        return RedactedText(text, ())
    clean = _replaced(text, found)
    for _ in range(_PASSES):
        uncovered = _scan(clean)
        if not uncovered:
            break
        found = _without_overlaps((*found, *_in_original_text(uncovered, found)))
        clean = _replaced(text, found)
    return RedactedText(clean, tuple(found))


def redact_text(text: str) -> str:
    """The text with every secret replaced; the same object where there is none."""
    return redact(text).text


def _scan(text: str) -> list[SecretFinding]:
    # One byte per character, so that positions are the same, and bytes are searched faster. What is not ASCII becomes
    # `?`, which no secret consists of.
    raw = text.encode("ascii", "replace")
    folded = raw.lower()
    found = [*prefixed_secrets(raw), *secrets_in_context(raw, folded), *assigned_secrets(raw, folded)]
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


def _replaced(text: str, found: Sequence[SecretFinding]) -> str:
    pieces: list[str] = []
    done = 0
    for finding in found:
        pieces += (text[done : finding.start], finding.placeholder)
        done = finding.end
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


def prefixed_secrets(text: bytes) -> list[SecretFinding]:
    """The secrets of the catalog in a text of one byte per character.

    In three linear steps: long runs of characters of secrets are searched for, of which ordinary text has few; the
    text around them is joined into one short text; one expression, made of the catalog as a tree of prefixes, searches
    that.
    """
    candidates = _candidates(text)
    if not candidates:
        return []
    starts = [1]
    for start, end in candidates:
        starts.append(starts[-1] + end - start + 1)
    searched = _without_escapes(b" " + b" ".join([text[start:end] for start, end in candidates]))
    found = []
    for begin, end, kind in _matches(searched):
        if kind.check(searched[begin:end]):
            piece = bisect_right(starts, begin) - 1
            shift = candidates[piece][0] - starts[piece]
            found.append(SecretFinding(begin + shift, end + shift, kind.name))
    return found


def _matches(searched: bytes) -> Iterator[tuple[int, int, SecretKind]]:
    expressions = _catalog_expressions()
    for match in expressions.by_start.finditer(searched):
        # The first character is the one before the secret.
        yield match.start() + 1, match.end(), expressions.kinds[match.lastindex or 0]
    for pattern, kind in expressions.by_middle:
        for match in pattern.finditer(searched):
            yield match.start() - (kind.before.low if kind.before else 0), match.end(), kind


def _candidates(text: bytes) -> list[tuple[int, int]]:
    """Start and end of each text that has a long run, extended by other characters of secrets; they do not overlap.

    Each starts one character early, to show whether a word begins there.
    """
    classes = text.translate(_CLASSES)
    found = []
    end = 0
    while (run := classes.find(_LONG_RUN, end)) >= 0:
        earliest = max(end, run - _LOOK_BACK)
        start = max(classes.rfind(b" ", earliest, run), earliest)
        end = classes.find(b" ", run + RUN)
        if end < 0:
            end = len(text)
        found.append((start, end))
    return found


# Each begins with a literal, which makes it as fast as a search for that literal.
_ESCAPES = (
    re.compile(rb"\\[nrt]"),
    re.compile(rb"\\u00[0-9A-Fa-f]{2}"),
    re.compile(rb"%(?:0[9AaDd]|2[0267Cc]|3[A-Fa-f])"),
    re.compile(rb"\[[0-9]{1,3}m"),
    re.compile(rb";[0-9]{1,3}m"),
)


def _without_escapes(text: bytes) -> bytes:
    """The text with spaces for escape sequences and colour codes, because a word begins after those: `\\nghp_...`."""
    for escape in _ESCAPES:
        text = escape.sub(_as_spaces, text)
    return text


def _as_spaces(match: re.Match[bytes]) -> bytes:
    return b" " * len(match[0])


@dataclass(frozen=True, slots=True)
class _CatalogExpressions:
    """The catalog as expressions: one for all kinds known by their start, one each for those known by their middle."""

    by_start: re.Pattern[bytes]
    kinds: dict[int, SecretKind]
    by_middle: tuple[tuple[re.Pattern[bytes], SecretKind], ...]


@cache
def _catalog_expressions() -> _CatalogExpressions:
    """Built at the first candidate: compiling takes longer than importing the package."""
    kinds: dict[int, SecretKind] = {}
    prefixes = _prefix_tree((start, kind) for kind in CATALOG if not kind.before for start in kind.starts)
    # A consumed character is tested faster than one looked back at.
    by_start = re.compile(f"[^A-Za-z0-9]{_expression(prefixes, kinds)}".encode("ascii"))
    by_middle = ((start, kind) for kind in CATALOG if kind.before for start in kind.starts)
    return _CatalogExpressions(by_start, kinds, tuple((_by_middle(start, kind), kind) for start, kind in by_middle))


def _by_middle(start: str, kind: SecretKind) -> re.Pattern[bytes]:
    assert kind.before is not None
    literal, run = re.escape(start), f"[{kind.before.chars}]{{{kind.before.low}}}"
    before = f"(?<=(?<![A-Za-z0-9{kind.before.chars}]){run}{literal})"
    return re.compile(f"{literal}{before}{kind.pattern_after('')}".encode("ascii"))


@dataclass(slots=True)
class _PrefixNode:
    """A node of the tree of prefixes: the prefix so far, what may follow, the kinds that start with it."""

    literal: str = ""
    children: dict[str, _PrefixNode] = field(default_factory=dict)
    kinds: list[SecretKind] = field(default_factory=list)


def _prefix_tree(starts: Iterable[tuple[str, SecretKind]]) -> _PrefixNode:
    root = _PrefixNode()
    for start, kind in starts:
        node = root
        for char in start:
            node = node.children.setdefault(char, _PrefixNode(node.literal + char))
        node.kinds.append(kind)
    return root


def _expression(node: _PrefixNode, kinds: dict[int, SecretKind]) -> str:
    """The alternatives below a node: longer literals first, so that `sk-ant-` is tried before `sk-`."""
    branches = [re.escape(char) + _expression(child, kinds) for char, child in node.children.items()]
    for kind in node.kinds:
        kinds[len(kinds) + 1] = kind
        branches.append(f"({kind.pattern_after(node.literal)})")
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


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
