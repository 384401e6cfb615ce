from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from clew.tokens import counter_for
from clew.tokens.media import UNKNOWN_SIZE, image_size, image_size_in_header, image_tokens


def png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0" + b"\0" * 5_000
    )


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 50


def jpeg(width: int, height: int, metadata: int = 20) -> bytes:
    thumbnail = b"".join(
        b"\xff\xe1" + struct.pack(">H", size + 2) + b"m" * size
        for size in [60_000] * (metadata // 60_000) + [metadata % 60_000]
    )
    return b"\xff\xd8" + thumbnail + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", height, width) + b"\x03" * 40


def webp(kind: bytes, width: int, height: int) -> bytes:
    if kind == b"VP8X":
        body = b"\0" * 8 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        body = b"\0\0\0\0\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little")
    else:
        body = b"\0" * 10 + struct.pack("<HH", width, height)
    return b"RIFF\0\0\0\0WEBP" + kind + body + b"\0" * 20


def data_url(raw: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64," + base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    "raw",
    [
        png(640, 480),
        gif(640, 480),
        jpeg(640, 480),
        jpeg(640, 480, metadata=200_000),
        webp(b"VP8X", 640, 480),
        webp(b"VP8L", 640, 480),
        webp(b"VP8 ", 640, 480),
    ],
    ids=["png", "gif", "jpeg", "jpeg with metadata", "webp extended", "webp lossless", "webp lossy"],
)
def test_width_and_height_are_read_from_the_first_bytes(raw: bytes) -> None:
    assert image_size(data_url(raw)) == (640, 480)
    assert image_size(base64.b64encode(raw).decode()) == (640, 480)


@pytest.mark.parametrize("raw", [b"", b"\x89PNG", b"\xff\xd8\xff", b"\xff\xd8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"])
def test_a_broken_header_has_no_size(raw: bytes) -> None:
    assert image_size_in_header(raw) is None


def test_text_that_is_no_base64_has_no_size() -> None:
    assert image_size("data:image/png;base64,ä!?") is None
    assert image_size("") is None


@pytest.mark.parametrize(
    ("provider", "size", "detail", "tokens"),
    [
        ("openai", (1_024, 1_024), "high", 765),
        ("openai", (2_048, 4_096), "high", 1_105),
        ("openai", (4_096, 8_192), "low", 85),
        ("openai-5", (1_024, 1_024), "high", 630),
        ("openai-mini", (1_024, 1_024), "high", 1_659),
        ("anthropic", (1_000, 1_000), "auto", 1_334),
        ("anthropic", (8_000, 8_000), "auto", 1_600),
        ("anthropic", (200, 200), "auto", 54),
        ("anthropic-large", (1_920, 1_080), "auto", 2_765),
        ("gemini", (300, 200), "auto", 258),
        ("gemini", (1_536, 768), "auto", 516),
    ],
)
def test_a_picture_costs_what_its_provider_says(provider: str, size: tuple[int, int], detail: str, tokens: int) -> None:
    part = {"type": "image_url", "image_url": {"url": data_url(png(*size)), "detail": detail}}
    assert image_tokens(part, provider) == tokens


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": data_url(png(1_000, 1_000))}},
        {"type": "image_url", "image_url": data_url(png(1_000, 1_000))},
        {"type": "input_image", "image_url": data_url(png(1_000, 1_000))},
        {"type": "image", "source": {"type": "base64", "data": base64.b64encode(png(1_000, 1_000)).decode()}},
        {"type": "image", "data": base64.b64encode(png(1_000, 1_000)).decode(), "mimeType": "image/png"},
    ],
)
def test_a_picture_costs_the_same_in_every_dialect(part: dict[str, Any]) -> None:
    assert image_tokens(part, "anthropic") == 1_334


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "image_url", "image_url": None},
        {"type": "image"},
    ],
)
def test_a_picture_of_unknown_size_has_a_middling_price(part: dict[str, Any]) -> None:
    width, height = UNKNOWN_SIZE
    assert image_tokens(part, "anthropic") == -(-width * height // 750)


def test_the_length_of_the_base64_never_matters() -> None:
    small, large = png(800, 600), png(800, 600) + b"\0" * 3_000_000
    counter = counter_for("gpt-4o")
    costs = {
        counter.message({"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(raw)}}]})
        for raw in (small, large)
    }
    assert len(costs) == 1
    assert costs.pop() < 1_200
