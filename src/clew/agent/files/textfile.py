"""A file's bytes as text and back: encoding, byte order mark and line ends stay as they were.

Pure functions over bytes. What is neither UTF-8 nor marked as UTF-16, and holds no NUL, is taken for Latin-1, which
comes back byte for byte whatever it was.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from clew.errors import InvalidArgument

SNIFFED_BYTES = 8_192
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
ODD_BYTES = "clew-latin-1"
"""An error handler: bytes that are no UTF-8 are read as Latin-1, and a lone surrogate as its escape."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """What a file says, and how it spells it."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    def encoded(self, text: str) -> bytes:
        """Another text, spelt as this file spells."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as problem:
            char = text[problem.start]
            raise InvalidArgument(f"{char!r} cannot be written as {self.encoding}; leave it out") from problem


def text_of_bytes(content: bytes) -> TextFile | None:
    """The text of a file; None where it holds none."""
    mark, encoding = mark_of(content)
    body = content[len(mark) :]
    try:
        return TextFile(body.decode(encoding), encoding, mark)
    except UnicodeDecodeError:
        if mark or is_binary(content):
            return None
        return TextFile(content.decode("latin-1"), "latin-1")


def mark_of(start: bytes) -> tuple[bytes, str]:
    """The byte order mark, and the encoding that it stands for; UTF-8 where there is none."""
    return next(((mark, encoding) for mark, encoding in MARKS if start.startswith(mark)), (b"", "utf-8"))


def is_binary(start: bytes) -> bool:
    """Whether the first bytes of a file are no text."""
    return b"\0" in start[:SNIFFED_BYTES] and not mark_of(start)[1].startswith("utf-16")


def line_end_of(text: str) -> str:
    """The line end that most lines have."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf > text.count("\n") - crlf else "\n"


def count_lines(text: str) -> int:
    """Lines as an editor counts them: a line end at the very end starts no further line."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def _odd_bytes(problem: UnicodeError) -> tuple[str, int]:
    if not isinstance(problem, UnicodeDecodeError):
        raise problem
    three = problem.object[problem.start : problem.start + 3]
    try:
        return f"\\u{ord(three.decode('utf-8', 'surrogatepass')):04x}", problem.start + 3
    except (UnicodeDecodeError, TypeError):
        return problem.object[problem.start : problem.end].decode("latin-1"), problem.end


codecs.register_error(ODD_BYTES, _odd_bytes)
