"""The bytes of a transcript: from a path, standard input, a stream or memory, unpacked and as UTF-8.

Gives chunks, lines or the whole document, each bounded. It can be read several times, because the active branch of a
session file is known only at its end.
"""

from __future__ import annotations

import codecs
import gzip
import os
import re
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import BinaryIO, TypeAlias

from clew.errors import UnreadableTranscript
from clew.importers.session import Notices

TranscriptSource: TypeAlias = str | PathLike[str] | bytes | BinaryIO

_CHUNK = 1 << 18
_SPOOLED_IN_MEMORY = 1 << 25
_GZIP = b"\x1f\x8b"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MIB = 1 << 20
_SPECIAL = ((stat.S_ISFIFO, "pipe"), (stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"), (stat.S_ISSOCK, "socket"))
_OPEN_FILES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
# Inside a string the quote would be escaped, so that braces of code are not counted.
_OBJECT = re.compile(rb'\{\s*"')


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much is held or unpacked at most; a small file can unpack to any size."""

    total_bytes: int = 16 * 1024 * _MIB
    value_bytes: int = 512 * _MIB
    """One JSON value: a line of a JSONL file, or a whole document."""
    depth: int = 200
    lines: int = 2_000_000
    objects: int = 4_000_000
    """JSON objects in one value: short ones take many times the memory of their text."""


class ByteSource:
    """The bytes of a transcript, and the name that errors call them by."""

    __slots__ = ("_owns_stream", "_start", "_stream", "limits", "name", "path")

    def __init__(self, source: TranscriptSource, name: str | None, limits: ReadLimits) -> None:
        self.limits = limits
        self.path = Path(source) if isinstance(source, str | PathLike) and source != "-" else None
        self.name = name or _default_name(source)
        self._stream = self._open(source)
        self._owns_stream = self._stream is not source and self._stream is not sys.stdin.buffer
        self._start = self._stream.tell()

    def close(self) -> None:
        """Close what was opened here; a stream that was given stays open."""
        if self._owns_stream:
            self._stream.close()

    def chunks(self, notices: Notices) -> Iterator[bytes]:
        """The content from its beginning: unpacked, as UTF-8, without a byte order mark."""
        self._stream.seek(self._start)
        is_packed = self._stream.read(len(_GZIP)) == _GZIP
        self._stream.seek(self._start)
        total = 0
        for chunk in _as_utf8(self._unpacked(notices) if is_packed else _raw_chunks(self._stream)):
            total += len(chunk)
            if total > self.limits.total_bytes:
                raise self._too_long()
            yield chunk

    def refuse_too_many(self) -> None:
        """Refuse too many lines or objects before the first is read: counting is much faster than reading."""
        lines = objects = 0
        for chunk in self.chunks(Notices()):
            lines += chunk.count(b"\n")
            if lines > self.limits.lines:
                raise self._too_many(f"more than {self.limits.lines:,} lines")
            ended = chunk.rfind(b"\n")
            objects = _objects(chunk[ended + 1 :]) + (objects if ended < 0 else 0)
            if objects > self.limits.objects:
                raise self._too_many(f"one JSON value with more than {self.limits.objects:,} objects")

    def lines(self, notices: Notices) -> Iterator[tuple[int, bytes]]:
        """Each line with its number, counted from 1, without its line end."""
        pieces: list[bytes] = []
        held = 0
        number = 1
        for chunk in self.chunks(notices):
            *ended, rest = chunk.split(b"\n")
            for line in ended:
                yield number, b"".join((*pieces, line))
                number += 1
                pieces, held = [], 0
            pieces.append(rest)
            held += len(rest)
            if held > self.limits.value_bytes:
                raise self._too_large(f"line {number}")
        if held:
            yield number, b"".join(pieces)

    def document(self, notices: Notices) -> bytes:
        """The whole content, for formats that are one JSON value."""
        pieces: list[bytes] = []
        held = 0
        for chunk in self.chunks(notices):
            pieces.append(chunk)
            held += len(chunk)
            if held > self.limits.value_bytes:
                raise self._too_large("the document")
        return b"".join(pieces)

    def unreadable(self, problem: str, remedy: str) -> UnreadableTranscript:
        return UnreadableTranscript(self.name, problem, remedy)

    def _too_many(self, what: str) -> UnreadableTranscript:
        return self.unreadable(
            f"holds {what} once unpacked", "Split it, or raise the limit if you trust where it comes from"
        )

    def _too_large(self, what: str) -> UnreadableTranscript:
        return self.unreadable(
            f"{what} is one JSON value of more than {_size(self.limits.value_bytes)}",
            "Write it as JSONL, one message a line: that is read line by line",
        )

    def _open(self, source: TranscriptSource) -> BinaryIO:
        if isinstance(source, bytes):
            return BytesIO(source)
        if self.path is not None:
            return self._open_path(self.path)
        stream = sys.stdin.buffer if isinstance(source, str | PathLike) else source
        self._refuse_device(stream)
        return stream if stream.seekable() else self._spool(stream)

    def _open_path(self, path: Path) -> BinaryIO:
        try:
            kind = next((kind for is_kind, kind in _SPECIAL if is_kind(path.stat().st_mode)), None)
            # The output of another command has a name there, and reading it waits for that command.
            if kind is not None and not str(path).startswith(_OPEN_FILES):
                raise self.unreadable(f"is a {kind}", "Name a file; `-` reads standard input")
            stream = path.open("rb")
        except FileNotFoundError as error:
            raise self.unreadable("there is no such file", "Check the path; `-` reads standard input") from error
        except IsADirectoryError as error:
            raise self.unreadable("is a folder", "Name one session file in it") from error
        except OSError as error:
            raise self.unreadable(f"cannot be opened: {error.strerror}", "Check its permissions") from error
        try:
            self._refuse_device(stream)
        except UnreadableTranscript:
            stream.close()
            raise
        if stream.seekable():
            return stream
        with stream:
            return self._spool(stream)

    def _refuse_device(self, stream: BinaryIO) -> None:
        """Refuse a device that standard input was redirected from: most have no end. A terminal is no file of bytes."""
        try:
            status = os.fstat(stream.fileno())
        except (OSError, ValueError):  # a stream without a file
            return
        is_null = status.st_rdev == Path(os.devnull).stat().st_rdev
        if stat.S_ISCHR(status.st_mode) and not is_null and not stream.isatty():
            raise self.unreadable("is a device", "Name a file; `-` reads standard input")

    def _spool(self, stream: BinaryIO) -> BinaryIO:
        """The content of a pipe in a file that can be read twice: in memory while small, else unnamed on the disk."""
        spool = tempfile.SpooledTemporaryFile(max_size=_SPOOLED_IN_MEMORY)  # noqa: SIM115 (closed by `close`)
        of_line = 0
        for chunk in _raw_chunks(stream):
            spool.write(chunk)
            ended = chunk.rfind(b"\n")
            of_line = len(chunk) - ended - 1 if ended >= 0 else of_line + len(chunk)
            if spool.tell() > self.limits.total_bytes or of_line > self.limits.value_bytes:
                spool.close()
                raise self._too_long() if of_line <= self.limits.value_bytes else self._too_large("a line")
        spool.seek(0)
        return spool  # type: ignore[return-value]  # a file in all but its declared type

    def _too_long(self) -> UnreadableTranscript:
        return self.unreadable(
            f"holds more than {_size(self.limits.total_bytes)} once unpacked",
            "Split it, or raise the limit if you trust where it comes from",
        )

    def _unpacked(self, notices: Notices) -> Iterator[bytes]:
        with gzip.GzipFile(fileobj=self._stream) as unpacked:
            try:
                # `read` would lose what is before a fault in the same piece.
                while chunk := unpacked.read1(_CHUNK):
                    yield chunk
            except EOFError:
                notices.add("the gzip file is cut off; its content up to there was read")
            except (gzip.BadGzipFile, zlib.error) as error:
                raise self.unreadable(
                    f"is damaged as a gzip file: {error}", "Unpack it with `gzip -dc` to save what can be saved"
                ) from error


def _objects(text: bytes) -> int:
    return len(_OBJECT.findall(text))


def _raw_chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _as_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(chunks, b"")
    while len(first) < len(codecs.BOM_UTF8) and (more := next(chunks, b"")):
        first += more
    encoding = _UTF16.get(first[:2])
    if encoding is None:
        yield first.removeprefix(codecs.BOM_UTF8)
        yield from chunks
        return
    # Windows PowerShell writes UTF-16 when output is redirected to a file.
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for chunk in chain([first[2:]], chunks):
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _size(count: int) -> str:
    return f"{count // _MIB} MiB" if count >= _MIB else f"{count} bytes"


def _default_name(source: TranscriptSource) -> str:
    if isinstance(source, bytes):
        return "the given bytes"
    if isinstance(source, str | PathLike):
        return "standard input" if source == "-" else str(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "the given stream"
