"""The words of an error, whatever it came as: bytes, JSON, JSON inside JSON, a Python repr, HTML, an exception.

Knows how bodies are wrapped. Does not know what any of the words mean: that is `error_table`.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator

# An error says what it says in a few hundred characters. A stack trace says it at the start or at the end, so
# these two stretches are read and the middle of a huge body is not.
HEAD_CHARS = 8_000
TAIL_CHARS = 4_000
_MAX_CAUSES = 8

_UNICODE_ESCAPE = re.compile(r"\\+u([0-9a-fA-F]{4})")
_WHITESPACE_ESCAPE = re.compile(r"\\+[nrt]")
_BACKSLASHES = re.compile(r"\\+")
_TAG = re.compile(r"<!--[^>]{0,200}-->|</?[a-zA-Z][^<>]{0,200}>")
_URL = re.compile(r"https?://[^\s\"'<>)\]}\\,]*", re.IGNORECASE)
# Ids, hashes and timestamps hold digits that are no count of anything.
_LONG_DIGITS = re.compile(r"\d{13,}")
_SPACES = re.compile(r"\s+")
_QUOTES = str.maketrans({'"': "'", "`": "'", "’": "'", "‘": "'", "“": "'", "”": "'", "：": ":", "，": ",", "。": "."})


def flat_text(body: object) -> str:
    """One line of lower-case text with every layer of quoting, markup and addresses taken off."""
    text = _bounded(_as_text(body))
    text = _UNICODE_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    text = _WHITESPACE_ESCAPE.sub(" ", text)
    text = _BACKSLASHES.sub("", text)
    if "<" in text or "&" in text:
        text = html.unescape(_TAG.sub(" ", text))
    text = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    text = _LONG_DIGITS.sub("#", _URL.sub(" ", text))
    return _SPACES.sub(" ", text).strip().lower()


def _bounded(text: str) -> str:
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]} {text[-TAIL_CHARS:]}"


def _as_text(body: object) -> str:
    if body is None:
        return ""
    if isinstance(body, str):
        return body
    if isinstance(body, (bytes, bytearray, memoryview)):
        return _bounded_bytes(bytes(body)).decode("utf-8", "replace")
    if isinstance(body, BaseException):
        return " ".join(_exception_texts(body))
    if isinstance(body, (dict, list, tuple)):
        return _json_text(body)
    return str(body)


def _bounded_bytes(body: bytes) -> bytes:
    # Four bytes to a character at most, so that the cut that counts is the one in characters.
    if len(body) <= 4 * (HEAD_CHARS + TAIL_CHARS):
        return body
    return body[: 4 * HEAD_CHARS] + b" " + body[-4 * TAIL_CHARS :]


def _json_text(body: object) -> str:
    try:
        return json.dumps(body, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return repr(body)


def _exception_texts(error: BaseException) -> Iterator[str]:
    """Names and words of an exception and of what caused it: SDKs hide a reset connection two causes deep."""
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if current is None:
            return
        yield f"{type(current).__name__}: {current}"
        body = getattr(current, "body", None)
        if isinstance(body, (str, bytes, dict, list)):
            yield _as_text(body)
        current = current.__cause__ or current.__context__
