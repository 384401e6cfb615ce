"""Replaces the secrets in texts and messages by placeholders. Redacting twice changes nothing more.

Each way to find them is a separate module; overlapping finds are resolved and replaced here. They read the text as a
reader sees it: without colour codes and characters of no width, with escaped characters decoded. Most messages have no
secret. So the texts of many are searched at once, and only those in which something was found string by string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from clew.lazy import lazy_pattern
from clew.messages import Message
from clew.redact.by_context import secrets_in_commands, secrets_in_context
from clew.redact.by_name import named_secrets, secret_under
from clew.redact.by_shape import (
    key_bodies,
    key_candidates,
    prefixed_secrets,
    private_keys,
    wrapped_secrets,
)
from clew.redact.values import (
    PLACEHOLDER_END,
    PLACEHOLDER_START,
    RedactedText,
    SearchedText,
    SecretFinding,
    decoded_base64,
    in_original_text,
    looks_like_password,
    mixes_letters_and_digits,
    not_ascii,
    outside_placeholders,
    with_placeholders,
    without_overlaps,
)

# Removing a secret can show another only where the two overlapped, and hardly ever twice.
_PASSES = 4
_SHORTEST = 8


def redact(text: str) -> RedactedText:
    """The text with every secret replaced by a placeholder that says its kind; the same object where there is none."""
    found = _search(text)
    return RedactedText(with_placeholders(text, found) if found else text, tuple(found))


def redact_text(text: str) -> str:
    """The text with every secret replaced; the same object where there is none."""
    return redact(text).text


def _search(text: str) -> list[SecretFinding]:
    """The secrets of a text in order."""
    if len(text) < _SHORTEST:
        return []
    plain, hidden = readable(text)
    found = _scan(plain)
    if found:
        found = _with_uncovered(found, plain)
    return in_original_text(found, _hidden_in(text, hidden)) if found and hidden else found


def _with_uncovered(found: list[SecretFinding], text: str) -> list[SecretFinding]:
    """The findings, with those that show only when these are replaced."""
    for _ in range(_PASSES):
        uncovered = _scan(with_placeholders(text, found))
        if not uncovered:
            break
        replaced = [(one.start, one.end, len(one.placeholder)) for one in found]
        found = without_overlaps([*found, *in_original_text(uncovered, replaced)])
    return found


def _scan(text: str) -> list[SecretFinding]:
    found = _findings(SearchedText.of(text))
    return outside_placeholders(without_overlaps(found), text) if found else found


def _findings(searched: SearchedText, *, is_decoded: bool = False) -> list[SecretFinding]:
    """What every finder finds, the more precise ones first."""
    raw, found = searched.raw, list[SecretFinding]()
    if candidates := key_candidates(raw):
        found += () if is_decoded else _encoded_secrets(raw, candidates)
        found += prefixed_secrets(raw, candidates)
        found += wrapped_secrets(raw, candidates)
        found += key_bodies(raw, candidates)
    found += private_keys(raw)
    found += secrets_in_context(searched)
    if searched.places or searched.not_ascii:
        found += named_secrets(searched)
    found += secrets_in_commands(raw)
    return found


# Base64 of a text that can be read: there every fourth character is one of half of them, which hashes and paths hardly
# ever keep up. What was decoded once is not decoded again.
_BASE64 = lazy_pattern(
    rb"(?<![A-Za-z0-9+/_=-])(?:[CI-Za-f][A-Za-z0-9+/_-]{3}){5,1024}+[A-Za-z0-9+/_-]{0,3}={0,2}(?![A-Za-z0-9+/_=-])"
)
_USER_AND_PASSWORD = lazy_pattern(rb"[A-Za-z][A-Za-z0-9_.@+-]{1,63}:([^\s:/]{6,64})")


def _encoded_secrets(raw: bytes, candidates: Sequence[tuple[int, int]]) -> Iterator[SecretFinding]:
    """The words that are base64 of a text with a secret."""
    for start, end in candidates:
        for word in _BASE64.finditer(raw, start, end + 2):
            decoded = decoded_base64(word[0])
            text = decoded.decode("latin-1")
            is_read = decoded.isascii() and text.replace("\n", "").replace("\t", "").isprintable()
            pair = _USER_AND_PASSWORD.fullmatch(decoded) if is_read else None
            is_login = pair is not None and mixes_letters_and_digits(pair[1]) and looks_like_password(pair[1])
            if is_login or (is_read and _findings(SearchedText.of(text), is_decoded=True)):
                yield SecretFinding(*word.span(), "encoded-secret")


_INVISIBLE = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff"
_COLOUR = r"\[[0-9;:?]{0,24}[A-Za-z]"
_ESCAPED = rf"\\(?:(?:u001[bB]|x1[bB]|033|e){_COLOUR}|u(?P<code>[0-9A-Fa-f]{{4}}))"
_ESCAPES = lazy_pattern(_ESCAPED)
# Each with a literal without which a text has none, and with what is searched for faster than the whole form.
_FORMS = (
    ("\x1b", None, lazy_pattern(rf"\x1b(?:{_COLOUR}|\][^\x07\x1b\0]{{0,256}}(?:\x07|\x1b\\)|[()][A-Z0-9])(?P<code>)")),
    ("\\", None, _ESCAPES),
    # A text that a program puts together of two parts.
    (
        "+",
        lazy_pattern(r"\+(?:(?<=[\"']\+)|(?<=[\"'] \+)) ?[\"']"),
        lazy_pattern(r"[\"'](?<=[A-Za-z0-9_-][\"']) ?\+ ?[\"'](?=[A-Za-z0-9_-])(?P<code>)"),
    ),
)
_INVISIBLES = lazy_pattern(f"[{_INVISIBLE}](?P<code>)")
_NOT_PLAIN = lazy_pattern("[\uff10-\uff1a\uff1d\uff21-\uff3a\uff41-\uff5a]")
_WIDE = lazy_pattern("[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]")
_FULL_WIDTH = {0xFF01 + n: 0x21 + n for n in range(94)}


def readable(text: str) -> tuple[str, Sequence[re.Pattern[str]]]:
    """The text as it is read, and the forms of what is hidden in it; the same string where nothing is."""
    others = not_ascii(text)
    text = _of_full_width(text, others)
    hidden = [
        form
        for sign, core, form in _FORMS
        if sign in text and (core is None or core.search(text)) and form.search(text)
    ]
    if others and _INVISIBLES.search(others):
        hidden.append(_INVISIBLES)
    # The escaped ones first: what they decode to is not looked at again.
    plain = text
    for form in reversed(hidden):
        plain = form.sub(_decoded if form is _ESCAPES else "", plain)
    return plain, hidden


def _of_full_width(text: str, others: str) -> str:
    """The text with plain characters for those of full width: of the same length, so that places stay."""
    if not others or not _NOT_PLAIN.search(others):
        return text
    return text.translate(_FULL_WIDTH) if _WIDE.search(others) else text.replace("：", ":").replace("＝", "=")


def _hidden_in(text: str, forms: Sequence[re.Pattern[str]]) -> Iterator[tuple[int, int, int]]:
    """Start and end of each hidden place, and how many characters are read there."""
    done = 0
    text = _of_full_width(text, not_ascii(text))
    for start, end, chars in sorted((*m.span(), len(_decoded(m))) for form in forms for m in form.finditer(text)):
        if start >= done:
            yield start, end, chars
            done = end


def _decoded(match: re.Match[str]) -> str:
    code = match["code"]
    if not code:
        return ""
    char = chr(int(code, 16))
    return " " if char < " " or char == "\\" or not char.isprintable() else char


_KEPT_FIELDS = frozenset(
    {"id", "type", "role", "call_id", "tool_call_id", "tool_use_id", "signature", "encrypted_content", "media_type"}
)
# No message is nested deeper; anything below is removed, so that no secret is missed and no recursion overflows.
_MAX_DEPTH = 100
_TOO_DEEP = f"{PLACEHOLDER_START}nested-too-deep{PLACEHOLDER_END}"
_STRING = lazy_pattern(r'"(?:[^"\\]|\\.)*+"(?P<colon>\s*+:\s*+)?')


def redact_messages(messages: Sequence[Message]) -> list[Message]:
    """The messages without secrets in texts, tool calls and reasoning; one that has none stays the same object.

    Ids, signatures and images are not changed.
    """
    return [cast(Message, _clean(message, 0)) for message in messages]


def redact_arguments(arguments: str) -> str:
    """The arguments of a tool call without secrets. JSON stays JSON: only strings are changed, and no other byte."""
    if not _has_secret(arguments):
        return arguments
    if not _is_json(arguments):
        return redact_text(arguments)
    clean = _with_clean_strings(arguments)
    # Some secrets show only across strings: {"name": "PASSWORD", "value": "..."}.
    across = redact_text(clean)
    return across if across is clean or _is_json(across) else clean


def _has_secret(arguments: str) -> bool:
    """Whether the arguments have a secret; those with escapes are read without."""
    if "\\" not in arguments or not _is_json(arguments):
        return bool(_search(arguments))
    waiting = [("", json.loads(arguments))]
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
    return bool(_search(",\n".join(pieces)))


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
