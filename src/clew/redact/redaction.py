"""Replaces the secrets in texts and messages by placeholders. Redacting twice changes nothing more.

Each way to find them has a module of its own; what they find is settled here, and replaced. They read the text as a
reader sees it: without colour codes and characters of no width, with escaped characters decoded. Most messages have no
secret. So the texts of many are searched at once, and only those in which something was found string by string.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from clew.lazy import lazy_pattern
from clew.messages import Message
from clew.redact.by_context import CONTEXT_LITERALS, commands_over_lines, secrets_in_commands, secrets_in_context
from clew.redact.by_name import NAME_LITERALS, named_secrets, names_over_lines, secret_under, words_in
from clew.redact.by_shape import (
    key_bodies,
    key_candidates,
    keys_over_lines,
    may_go_on,
    prefixed_secrets,
    private_keys,
    wrapped_secrets,
)
from clew.redact.distinct_lines import ALONE, DistinctLines, SuspectLines, literals_in
from clew.redact.values import (
    PLACEHOLDER_END,
    PLACEHOLDER_START,
    RedactedText,
    SearchedText,
    SecretFinding,
    in_original_text,
    not_ascii,
    outside_placeholders,
    placeholders_in,
    with_placeholders,
    without_overlaps,
)

_KEY_BEGINS = b"-----begin "
_LITERALS = frozenset((_KEY_BEGINS, *NAME_LITERALS, *CONTEXT_LITERALS))

# Removing a secret can show another only where the two overlapped, and hardly ever twice.
_PASSES = 4


def redact(text: str) -> RedactedText:
    """The text with every secret replaced by a placeholder that says its kind."""
    found = _search(text, _LITERALS)
    return RedactedText(_replaced(text, found), tuple(found)) if found else RedactedText(text, ())


def redact_text(text: str) -> str:
    """The text with every secret replaced; the same object where there is none."""
    found = _search(text, _LITERALS)
    return _replaced(text, found) if found else text


def _search(text: str, literals: Container[bytes], *, uncover: bool = True) -> list[SecretFinding]:
    """The secrets of a text in order; `uncover`: those too that show only when others are replaced."""
    shown = readable(text)
    found = _scan(_searched(shown.text, literals))
    return shown.in_original(_with_uncovered(found, shown.text) if found and uncover else found)


def _with_uncovered(found: list[SecretFinding], text: str) -> list[SecretFinding]:
    """The findings, with those that show only when these are replaced."""
    for _ in range(_PASSES):
        clean = _replaced(text, found)
        if not _may_uncover(clean, found):
            break
        uncovered = _scan(_searched(clean))
        if not uncovered:
            break
        starts, ends = [finding.start for finding in found], [finding.end for finding in found]
        chars = [len(finding.placeholder) for finding in found]
        found = without_overlaps([*found, *in_original_text(uncovered, starts, ends, chars)])
    return found


def _may_uncover(text: str, found: Sequence[SecretFinding]) -> bool:
    """Whether there is anything to find near the placeholders, where these are few in a long text."""
    if len(found) * 4 * _NEAR_CHARS > len(text):
        return True
    for start, end in placeholders_in(text):
        first = max(0, text.rfind("\n", 0, max(0, start - _NEAR_CHARS)), start - 4 * _NEAR_CHARS)
        last = text.find("\n", end + _NEAR_CHARS)
        last = min(len(text) if last < 0 else last, end + 4 * _NEAR_CHARS)
        if _scan(_searched(text[first:last])):
            return True
    return False


_NEAR_CHARS = 300


def _one_byte_each(text: str) -> bytes:
    """One byte per character, so that positions are the same, and bytes are searched faster.

    What is not ASCII becomes `?`, which no secret consists of.
    """
    return text.encode("ascii", "replace")


def _searched(text: str, literals: Container[bytes] = _LITERALS) -> SearchedText:
    """What is searched of a text; `literals` are those that it may have."""
    raw = _one_byte_each(text)
    folded = raw.lower()
    return SearchedText(raw, folded, text, words_in(folded, literals), literals, not_ascii(text))


def _scan(searched: SearchedText) -> list[SecretFinding]:
    found = _findings(searched, key_candidates(searched.raw))
    return outside_placeholders(without_overlaps(found), searched.text) if found else found


def _findings(searched: SearchedText, candidates: Sequence[tuple[int, int]]) -> list[SecretFinding]:
    """What every finder finds; `candidates` are its `key_candidates`."""
    raw, literals = searched.raw, searched.literals
    return [
        *prefixed_secrets(raw, candidates),
        *wrapped_secrets(raw, candidates),
        *(private_keys(raw) if _KEY_BEGINS in literals else ()),
        *key_bodies(raw, candidates),
        *secrets_in_context(raw, searched.folded, literals),
        *named_secrets(searched),
        *secrets_in_commands(raw, literals),
    ]


def _replaced(text: str, found: Sequence[SecretFinding]) -> str:
    starts, ends = [start for start, _, _ in found], [end for _, end, _ in found]
    return with_placeholders(text, starts, ends, [kind for _, _, kind in found])


# -- text as it is read -----------------------------------------------------------------------------------------------

_INVISIBLE = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"
_COLOUR = r"\[[0-9;:?]{0,24}[A-Za-z]"
_ESCAPED = rf"\\(?:(?:u001[bB]|x1[bB]|033|e){_COLOUR}|u(?P<code>[0-9A-Fa-f]{{4}}))"
# Each begins with a literal or a set of characters, which makes it as fast as a search for those.
_FORMS = (
    lazy_pattern(rf"\x1b(?:{_COLOUR}|\][^\x07\x1b\0]{{0,256}}(?:\x07|\x1b\\)|[()][A-Z0-9])(?P<code>)"),
    lazy_pattern(_ESCAPED),
    lazy_pattern(f"[{_INVISIBLE}](?P<code>)"),
)
_NOT_PLAIN = lazy_pattern(f"[{_INVISIBLE}\uff10-\uff1a\uff1d\uff21-\uff3a\uff41-\uff5a]")
_WIDE = lazy_pattern("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]")
# What may hide the end of a line: a title of a terminal, whose bracket may be written out.
_HIDES_LINES = lazy_pattern(f"\x1b[{_INVISIBLE}]*[\\]\\\\]")
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
        if not found or not self._forms:
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
    if (others := not_ascii(text)) and _NOT_PLAIN.search(others):
        # Of the same length, so that places stay.
        plain = text.translate(_FULL_WIDTH) if _WIDE.search(others) else text.replace("：", ":").replace("＝", "=")
        if _FORMS[-1].search(others):
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


# -- messages ----------------------------------------------------------------------------------------------------------

_KEPT_FIELDS = frozenset(
    {"id", "type", "role", "call_id", "tool_call_id", "tool_use_id", "signature", "encrypted_content", "media_type"}
)
# Of these it is known that they name no secret.
_USUAL_FIELDS = frozenset({"", "content", "name", "text", "reasoning_content", "thinking"})
# No message is nested deeper; anything below is removed, so that no secret is missed and no recursion overflows.
_MAX_DEPTH = 100
_TOO_DEEP = f"{PLACEHOLDER_START}nested-too-deep{PLACEHOLDER_END}"
_STRING = lazy_pattern(r'"(?:[^"\\]|\\.)*+"(?P<colon>\s*+:\s*+)?')
# Many short texts are searched faster at once. More at a time would be searched as a long text is.
_BATCH_CHARS = 100_000
_MANY_CHARS = 1_000_000
# A line that is distinct has to come again so often, or to look at lines takes longer than to search the texts.
_TIMES_AGAIN = 3


def redact_messages(messages: Sequence[Message]) -> list[Message]:
    """The messages without secrets in texts, tool calls and reasoning; one that has none stays the same object.

    Ids, signatures and images are not changed.
    """
    if len(messages) == 1:
        return [cast(Message, _clean(messages[0], 0))]
    clean = list(messages)
    for number in _suspects(messages):
        clean[number] = cast(Message, _clean(messages[number], 0))
    return clean


def _suspects(messages: Sequence[Message]) -> Iterator[int]:
    """The positions of the messages that may have a secret."""
    texts: list[str] = []
    owners: list[int] = []
    for number, message in enumerate(messages):
        before = len(texts)
        is_suspect = _collect(message, "", {}, texts, 0)
        # In a text with wide letters other wide characters are read as well, but not in the texts beside it.
        own = texts[before:]
        if is_suspect or (not all(map(str.isascii, own)) and any(map(_WIDE.search, own))):
            del texts[before:]
            yield number
        else:
            owners += [number] * len(own)
    literals: Container[bytes] = _LITERALS
    chars = sum(map(len, texts))
    if chars >= _MANY_CHARS:
        distinct = DistinctLines.of(texts)
        if _HIDES_LINES.search(distinct.text) is None:
            if len(distinct.text) * _TIMES_AGAIN <= chars:
                suspect = _suspect_lines(distinct)
                may_have = zip(owners, texts, strict=True) if suspect.any else ()
                yield from dict.fromkeys(number for number, text in may_have if _has_some(text, suspect))
                return
            literals = literals_in(_one_byte_each(readable(distinct.text).text).lower(), _LITERALS)
    yield from _found_in_batches(texts, owners, literals)


def _found_in_batches(texts: Sequence[str], owners: Sequence[int], literals: Container[bytes]) -> Iterator[int]:
    first = chars = 0
    starts: list[int] = []
    for at, (text, owner) in enumerate(zip(texts, owners, strict=True)):
        # The texts of one message stay together.
        if chars > _BATCH_CHARS and owner != owners[at - 1]:
            yield from _found_in(texts[first:at], owners[first:at], starts, literals)
            first, chars, starts = at, 0, []
        starts.append(chars)
        chars += len(text) + len(ALONE)
    yield from _found_in(texts[first:], owners[first:], starts, literals)


def _suspect_lines(distinct: DistinctLines) -> SuspectLines:
    read = readable(distinct.text).text
    raw = _one_byte_each(read)
    folded = raw.lower()
    literals = literals_in(folded, _LITERALS)
    words = words_in(folded, literals)
    searched = SearchedText(raw, folded, read, words, literals, not_ascii(read))
    candidates = key_candidates(raw)
    places = (
        *(finding.start for finding in _findings(searched, candidates)),
        *keys_over_lines(raw, candidates),
        *names_over_lines(searched),
        *commands_over_lines(raw, literals),
    )
    alone = set(distinct.at(read, places))
    return SuspectLines(alone, alone.union(distinct.at(read, may_go_on(raw, candidates))))


def _has_some(text: str, suspect: SuspectLines) -> bool:
    """Whether a text has lines by which it may have a secret."""
    lines = text.split("\n")
    if suspect.any.isdisjoint(lines):
        return False
    if not suspect.alone.isdisjoint(lines):
        return True
    raw = _one_byte_each(readable(text).text)
    return bool(wrapped_secrets(raw, key_candidates(raw)))


def _found_in(
    texts: Sequence[str], owners: Sequence[int], starts: Sequence[int], literals: Container[bytes]
) -> Iterable[int]:
    """The owners of the texts in which something is found; `starts` are where the texts stand when they are joined."""
    # What shows only when these are replaced is in the same texts, of which one that is cut off may take in several.
    found = _search(ALONE.join(texts), literals, uncover=False)
    ends = ((bisect_right(starts, one.start) - 1, bisect_right(starts, one.end - 1)) for one in found)
    return dict.fromkeys(owner for first, last in ends for owner in owners[first:last])


def _collect(value: Any, name: str, owner: Mapping[Any, Any], texts: list[str], depth: int) -> bool:
    """Add the strings of a value as they are read; True where a name alone says that there is a secret."""
    if isinstance(value, str):
        if name in _KEPT_FIELDS or _is_media(owner, name, value):
            return False
        if name == "arguments":
            return _collect_arguments(value, texts)
        texts.append(value)
        return name not in _USUAL_FIELDS and secret_under(name, value) is not None
    if value is None:
        return False
    if depth > _MAX_DEPTH:
        return True
    # Plain loops, since this runs for every field of every message.
    if isinstance(value, list):
        for item in value:
            if _collect(item, "", {}, texts, depth + 1):
                return True
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if type(inner) is str and key in _USUAL_FIELDS:
                texts.append(inner)
            elif (type(inner) is not str or key not in _KEPT_FIELDS) and _collect(
                inner, str(key), value, texts, depth + 1
            ):
                return True
    return False


def _collect_arguments(arguments: str, texts: list[str]) -> bool:
    """The arguments as they are; those with escapes also as they read without."""
    if "\\" not in arguments:
        texts.append(arguments)
        return False
    try:
        waiting = [("", json.loads(arguments))]
    except (ValueError, RecursionError):
        texts.append(arguments)
        return False
    pieces: list[str] = []
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += reversed(value.items())
        elif isinstance(value, list):
            waiting += [("", item) for item in reversed(value)]
        elif isinstance(value, str):
            if secret_under(name, value):
                return True
            # As in JSON, so that a name and its value in two fields are seen together.
            pieces.append(f'"{name}": "{value}"' if "\n" not in value else f"{name}:\n{value}\n")
    texts.append(",\n".join(pieces))
    return False


def redact_arguments(arguments: str) -> str:
    """The arguments of a tool call without secrets. JSON stays JSON: only strings are changed, and no other byte."""
    texts: list[str] = []
    if not _collect_arguments(arguments, texts) and not redact(ALONE.join(texts)).found:
        return arguments
    if not _is_json(arguments):
        return redact_text(arguments)
    clean = _with_clean_strings(arguments)
    # Some secrets show only across strings: {"name": "PASSWORD", "value": "..."}.
    across = redact_text(clean)
    return across if across is clean or _is_json(across) else clean


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
