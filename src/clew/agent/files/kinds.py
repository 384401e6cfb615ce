"""What a file without text is, by its first bytes. One line per fact."""

from __future__ import annotations

from clew.tokens import size_in_header

HEAD_BYTES = 65_536

# Where the sign stands, the sign, what it means.
_SIGNS = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF8", "GIF image"),
    (8, b"WEBP", "WebP image"),
    (0, b"BM", "BMP image"),
    (0, b"%PDF-", "PDF document"),
    (0, b"PK\x03\x04", "ZIP archive (or a document in one)"),
    (0, b"\x1f\x8b", "gzip archive"),
    (0, b"BZh", "bzip2 archive"),
    (0, b"\xfd7zXZ\x00", "xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "zstd archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (257, b"ustar", "tar archive"),
    (0, b"SQLite format 3\x00", "SQLite database"),
    (0, b"\x7fELF", "ELF program or library"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (0, b"MZ", "Windows program"),
    (0, b"\x00asm", "WebAssembly module"),
    (0, b"\xca\xfe\xba\xbe", "Java class"),
    (0, b"PAR1", "Parquet table"),
    (0, b"GGUF", "GGUF model"),
    (4, b"ftyp", "MP4 video"),
    (0, b"OggS", "Ogg audio or video"),
    (0, b"ID3", "MP3 audio"),
    (0, b"wOF2", "font"),
)


def kind_of(head: bytes) -> str:
    """What these first bytes are; the size too, where they are a picture's."""
    kind = next((kind for place, sign, kind in _SIGNS if head.startswith(sign, place)), "binary file")
    size = size_in_header(head) if kind.endswith("image") else None
    return f"{kind}, {size[0]} x {size[1]} pixels" if size else kind
