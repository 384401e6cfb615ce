"""The price of what is neither text nor picture: documents, sound, film, and parts nobody has described to us.

Sizes are guesses with a ceiling: a provider counts pages and seconds, and we have bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Anthropic reads a page as text (1,500 to 3,000 tokens) and as a picture; scanned pages weigh about 50 KB.
_PAGE_TOKENS = 2_000
_PAGE_BYTES = 50_000
_MOST_PAGES = 100
# Gemini: 32 tokens a second of sound, 263 of film. Speech is sent at about 16 KB a second, film at about 250.
_SOUND_TOKENS, _SOUND_BYTES = 32, 16_000
_FILM_TOKENS, _FILM_BYTES = 263, 250_000
_MOST_SECONDS = 3_600
LINKED = 1_000
"""A file that is behind a link or an id: something, and nobody knows how much."""

DOCUMENT_TYPES = frozenset({"document", "input_file", "file"})
SOUND_TYPES = frozenset({"input_audio", "audio"})
FILM_TYPES = frozenset({"video", "video_url", "input_video"})
PLACES_OF_BYTES = ("data", "file_data", "url", "video_url", "input_audio", "audio", "file", "source", "inline_data")


def media_price(part: Mapping[str, Any]) -> int:
    """Tokens for a document, sound or film; `LINKED` when its bytes are elsewhere."""
    kind = part.get("type")
    size = _bytes_in(part)
    if size == 0:
        return LINKED
    if kind in SOUND_TYPES:
        return _SOUND_TOKENS * _between(1, size // _SOUND_BYTES, _MOST_SECONDS)
    if kind in FILM_TYPES:
        return _FILM_TOKENS * _between(1, size // _FILM_BYTES, _MOST_SECONDS)
    return _PAGE_TOKENS * _between(1, size // _PAGE_BYTES, _MOST_PAGES)


def _between(least: int, value: int, most: int) -> int:
    return max(least, min(most, value))


def _bytes_in(part: Mapping[str, Any], depth: int = 0) -> int:
    """Bytes behind the base64 that the part carries; 0 for a link or an id."""
    for place in PLACES_OF_BYTES:
        value = part.get(place)
        if isinstance(value, Mapping) and depth < 4:
            found = _bytes_in(value, depth + 1)
            if found:
                return found
        elif isinstance(value, str) and not value.startswith(("http:", "https:", "file:", "gs:", "s3:")):
            return len(value) * 3 // 4
    return 0
