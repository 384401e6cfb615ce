"""The price of a picture, in tokens: by the rules of each provider, from its width and height.

Width and height are read from the first bytes of PNG, JPEG, GIF and WebP; a picture whose size cannot be known (a
link, a broken header) is priced as one of 1,024 by 1,024. The length of its base64 never matters.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from typing import Any

UNKNOWN_SIZE = (1_024, 1_024)
# Enough for every header but a JPEG's, whose size stands behind its metadata; that one is read on in larger steps.
_FIRST_CHARS = 1_024
_MOST_CHARS = 1_048_576


def picture_price(part: Mapping[str, Any], provider: str) -> int:
    """Tokens for a picture part of any dialect."""
    encoded, detail = _source_of(part)
    width, height = (encoded and size_of_encoded(encoded)) or UNKNOWN_SIZE
    return max(1, math.ceil(_PRICES.get(provider, _openai_tiles(85, 170))(width, height, detail)))


def _source_of(part: Mapping[str, Any]) -> tuple[str | None, str]:
    """The base64 text of a picture, if it is here and not behind a link, and the detail that was asked for."""
    detail = part.get("detail")
    for value in (part.get("image_url"), part.get("source"), part.get("image"), part.get("inline_data"), part):
        if isinstance(value, Mapping):
            detail = value.get("detail") or detail
            value = next((value[key] for key in ("url", "data") if isinstance(value.get(key), str)), None)
        if isinstance(value, str):
            return (value if not value.startswith(("http:", "https:", "file:")) else None), str(detail or "auto")
    return None, str(detail or "auto")


def size_of_encoded(encoded: str) -> tuple[int, int] | None:
    """Width and height of a picture given as a data URL or plain base64; None when they cannot be read."""
    start = encoded.find(",", 0, 200) + 1 if encoded.startswith("data:") else 0
    chars = _FIRST_CHARS
    while True:
        head = _decoded(encoded[start : start + chars])
        size = size_in_header(head)
        if size or not head.startswith(b"\xff\xd8") or chars >= _MOST_CHARS or start + chars >= len(encoded):
            return size
        chars *= 32


def _decoded(encoded: str) -> bytes:
    try:
        raw = encoded.encode("ascii").translate(bytes.maketrans(b"-_", b"+/"), b"\r\n \t=")
        return base64.b64decode(raw[: len(raw) // 4 * 4])
    except (UnicodeEncodeError, binascii.Error):
        return b""


def size_in_header(head: bytes) -> tuple[int, int] | None:
    """Width and height from the first bytes of a picture file; None when there is no sensible size in them."""
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
    place = 2
    while place + 9 <= len(head):
        if head[place] != 0xFF:
            return None
        marker = head[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(head[place + 7 : place + 9], "big"), int.from_bytes(
                head[place + 5 : place + 7], "big"
            )
        has_length = marker not in (0xFF, 0x01) and not 0xD0 <= marker <= 0xD8
        place += 2 + int.from_bytes(head[place + 2 : place + 4], "big") if has_length else 1 + (marker != 0xFF)
    return None


Price = Callable[[int, int, str], float]


def _openai_tiles(base: int, tile: int) -> Price:
    """Fit into 2,048 square, shorter side down to 768, then tiles of 512; low detail costs the base alone."""

    def price(width: int, height: int, detail: str) -> float:
        if detail == "low":
            return base
        scale = min(1, 2_048 / max(width, height))
        scale *= min(1, 768 / (min(width, height) * scale))
        return base + tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)

    return price


def _openai_patches(factor: float, most: int = 1_536) -> Price:
    """Patches of 32 by 32, at most 1,536 of them, times a factor of the model."""
    return lambda width, height, _detail: factor * min(most, math.ceil(width / 32) * math.ceil(height / 32))


def _anthropic(longest: int, most: int) -> Price:
    """Width times height by 750, after the longer side was scaled down."""

    def price(width: int, height: int, _detail: str) -> float:
        scale = min(1, longest / max(width, height))
        return min(most, width * scale * height * scale / 750)

    return price


def _gemini(width: int, height: int, _detail: str) -> float:
    """258 for a small picture, else 258 for each tile of 768."""
    if width <= 384 and height <= 384:
        return 258
    return 258 * math.ceil(width / 768) * math.ceil(height / 768)


# Rules of the providers' vision pages, as of 2026-11.
_PRICES: Mapping[str, Price] = {
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
