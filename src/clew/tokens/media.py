"""Tokens of images, documents, audio and video.

An image counts by the rule of its provider, from its width and height, which are read from the first bytes of PNG,
JPEG, GIF and WebP; one of unknown size (a link, a broken header) counts as 1,024 by 1,024. Pages of documents and
seconds of audio and video are estimated from bytes, up to a limit.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

# Anthropic reads a page as text (1,500 to 3,000 tokens) and as an image; a scanned page has about 50 KB.
_PAGE_TOKENS = 2_000
_PAGE_BYTES = 50_000
_MOST_PAGES = 100
# Gemini: 32 tokens a second of audio, 263 of video. Speech has about 16 KB a second, video about 250.
_AUDIO_TOKENS, _AUDIO_BYTES = 32, 16_000
_VIDEO_TOKENS, _VIDEO_BYTES = 263, 250_000
_MOST_SECONDS = 3_600
LINKED_TOKENS = 1_000
"""For a file behind a link or an id, whose size is unknown."""

DOCUMENT_TYPES = frozenset({"document", "input_file", "file"})
AUDIO_TYPES = frozenset({"input_audio", "audio"})
VIDEO_TYPES = frozenset({"video", "video_url", "input_video"})
_KEYS_OF_BYTES = ("data", "file_data", "url", "video_url", "input_audio", "audio", "file", "source", "inline_data")
UNKNOWN_SIZE = (1_024, 1_024)
# Enough for every header but a JPEG's, whose size follows its metadata: that one is read in larger steps.
_FIRST_CHARS = 1_024
_MOST_CHARS = 1_048_576


def media_tokens(part: Mapping[str, Any]) -> int:
    """Tokens of a document, audio or video part; `LINKED_TOKENS` when its bytes are elsewhere."""
    kind = part.get("type")
    size = _bytes_in(part)
    if size == 0:
        return LINKED_TOKENS
    if kind in AUDIO_TYPES:
        return _AUDIO_TOKENS * _between(1, size // _AUDIO_BYTES, _MOST_SECONDS)
    if kind in VIDEO_TYPES:
        return _VIDEO_TOKENS * _between(1, size // _VIDEO_BYTES, _MOST_SECONDS)
    return _PAGE_TOKENS * _between(1, size // _PAGE_BYTES, _MOST_PAGES)


def _between(least: int, value: int, most: int) -> int:
    return max(least, min(most, value))


def _bytes_in(part: Mapping[str, Any], depth: int = 0) -> int:
    """Bytes in the base64 of a part; 0 for a link or an id."""
    for key in _KEYS_OF_BYTES:
        value = part.get(key)
        if isinstance(value, Mapping) and depth < 4:
            found = _bytes_in(value, depth + 1)
            if found:
                return found
        elif isinstance(value, str) and not value.startswith(("http:", "https:", "file:", "gs:", "s3:")):
            return len(value) * 3 // 4
    return 0


def image_tokens(part: Mapping[str, Any], rule: str) -> int:
    """Tokens of an image part of any dialect, by the rule of a model family."""
    encoded, detail = _source_of(part)
    width, height = (encoded and image_size(encoded)) or UNKNOWN_SIZE
    return max(1, math.ceil(_IMAGE_RULES.get(rule, _openai_tiles(85, 170))(width, height, detail)))


def _source_of(part: Mapping[str, Any]) -> tuple[str | None, str]:
    """The base64 of an image, None where it is behind a link, and the detail that was asked for."""
    detail = part.get("detail")
    for value in (part.get("image_url"), part.get("source"), part.get("image"), part.get("inline_data"), part):
        if isinstance(value, Mapping):
            detail = value.get("detail") or detail
            value = next((value[key] for key in ("url", "data") if isinstance(value.get(key), str)), None)
        if isinstance(value, str):
            return (value if not value.startswith(("http:", "https:", "file:")) else None), str(detail or "auto")
    return None, str(detail or "auto")


def image_size(encoded: str) -> tuple[int, int] | None:
    """Width and height of an image given as a data URL or plain base64; None when they cannot be read."""
    start = encoded.find(",", 0, 200) + 1 if encoded.startswith("data:") else 0
    chars = _FIRST_CHARS
    while True:
        head = _decoded(encoded[start : start + chars])
        size = image_size_in_header(head)
        if size or not head.startswith(b"\xff\xd8") or chars >= _MOST_CHARS or start + chars >= len(encoded):
            return size
        chars *= 32


def _decoded(encoded: str) -> bytes:
    try:
        raw = encoded.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"), b"\r\n \t=")
        return base64.b64decode(raw[: len(raw) // 4 * 4])
    except (UnicodeEncodeError, binascii.Error):
        return b""


def image_size_in_header(head: bytes) -> tuple[int, int] | None:
    """Width and height from the first bytes of an image file; None when there is no plausible size in them."""
    size = None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and len(head) >= 24:
        size = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    elif head[:6] in (b"GIF87a", b"GIF89a") and len(head) >= 10:
        size = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        size = _webp_size(head)
    elif head.startswith(b"\xff\xd8"):
        size = _jpeg_size(head)
    return size if size and 0 < size[0] < 100_000 and 0 < size[1] < 100_000 else None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    if len(head) < 30:
        return None
    if head[12:16] == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(head):
        if head[at] != 0xFF:
            return None
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[at + 7 : at + 9], "big"), int.from_bytes(head[at + 5 : at + 7], "big")
        has_length = marker not in (0xFF, 0x01) and not 0xD0 <= marker <= 0xD8
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big") if has_length else 1 + (marker != 0xFF)
    return None


_ImageRule = Callable[[int, int, str], float]


def _openai_tiles(base: int, tile: int) -> _ImageRule:
    """Fit into 2,048 square, shorter side down to 768, then tiles of 512; low detail costs the base alone."""

    def tokens(width: int, height: int, detail: str) -> float:
        if detail == "low":
            return base
        scale = min(1, 2_048 / max(width, height))
        scale *= min(1, 768 / (min(width, height) * scale))
        return base + tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)

    return tokens


def _openai_patches(factor: float, most: int = 1_536) -> _ImageRule:
    """Patches of 32 by 32, at most 1,536 of them, times a factor of the model."""
    return lambda width, height, _detail: factor * min(most, math.ceil(width / 32) * math.ceil(height / 32))


def _anthropic(longest: int, most: int) -> _ImageRule:
    """Width times height by 750, after the longer side was scaled down."""

    def tokens(width: int, height: int, _detail: str) -> float:
        scale = min(1, longest / max(width, height))
        return min(most, width * scale * height * scale / 750)

    return tokens


def _gemini(width: int, height: int, _detail: str) -> float:
    """258 for a small image, else 258 for each tile of 768."""
    if width <= 384 and height <= 384:
        return 258
    return 258 * math.ceil(width / 768) * math.ceil(height / 768)


# Rules of the providers' vision pages, as of 2026-11.
_IMAGE_RULES: Mapping[str, _ImageRule] = {
    "openai": _openai_tiles(85, 170),
    "openai-5": _openai_tiles(70, 140),
    "openai-o": _openai_tiles(75, 150),
    "openai-4o-mini": _openai_tiles(2_833, 5_667),
    "openai-mini": _openai_patches(1.62),
    "openai-nano": _openai_patches(2.46),
    "openai-o4-mini": _openai_patches(1.72),
    "anthropic": _anthropic(1_568, 1_600),
    "anthropic-large": _anthropic(2_576, 4_784),
    "gemini": _gemini,
}
