"""Requests of callers counted by all workers of a gateway together, in a file that each of them maps into its memory.

A row has what a caller may still send, and how many requests each worker has under way for it. A worker that was killed
counts for nothing any more once another one begins in its place. Whoever changes a row locks the file, which the system
gives back where a process ends.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from clew.gateway.limits import CallCount, CallCounts
from clew.portable import lock_file, unlock_file

WORKERS = 64
"""As many at most."""
_ROWS = 4_096
_TRIED = 32
"""Rows that a caller may be in; where others are in all of them, the one that has rested longest makes room."""
_ROW = struct.Struct(f"<16sdd{WORKERS}H")
_NOBODY = bytes(16)
_EVERYBODY = b"\xff" * 16


class SharedCallCounts(CallCounts):
    """The counts of one worker, in the file of all of them."""

    def __init__(self, path: Path, worker: int) -> None:
        if not 0 <= worker < WORKERS:
            raise ValueError(f"worker {worker} is none of {WORKERS}")
        self._worker = worker
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        with self._locked():
            os.ftruncate(self._file, _ROW.size * (_ROWS + 1))
        self._rows = mmap.mmap(self._file, _ROW.size * (_ROWS + 1))
        self._begin()

    def close(self) -> None:
        self._rows.close()
        os.close(self._file)

    @contextmanager
    def changing(self, caller: str, new: CallCount, total: CallCount) -> Iterator[tuple[CallCount, ...]]:
        name = blake2b(caller.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._locked():
            place = self._place_of(name)
            calls, everybody = self._read(place, name) or new, self._read(_ROWS, _EVERYBODY) or total
            before = (calls.under_way, everybody.under_way)
            yield calls, everybody
            self._write(place, name, calls, calls.under_way - before[0])
            self._write(_ROWS, _EVERYBODY, everybody, everybody.under_way - before[1])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock_file(self._file, wait=True)
        try:
            yield
        finally:
            unlock_file(self._file)

    def _begin(self) -> None:
        """Take back what a worker in this place had under way when it was killed."""
        with self._locked():
            for place in range(_ROWS + 1):
                name, left, filled_at, *under_way = _ROW.unpack_from(self._rows, place * _ROW.size)
                if under_way[self._worker]:
                    under_way[self._worker] = 0
                    _ROW.pack_into(self._rows, place * _ROW.size, name, left, filled_at, *under_way)

    def _place_of(self, name: bytes) -> int:
        """The row of a caller, or the one that it gets."""
        first = int.from_bytes(name[:8], "little")
        tried = [(first + at) % _ROWS for at in range(_TRIED)]
        rested: list[tuple[float, int]] = []
        for place in tried:
            found, _, filled_at, *under_way = _ROW.unpack_from(self._rows, place * _ROW.size)
            if found in (name, _NOBODY):
                return place
            if not any(under_way):
                rested.append((filled_at, place))
        return min(rested)[1] if rested else tried[0]

    def _read(self, place: int, name: bytes) -> CallCount | None:
        found, left, filled_at, *under_way = _ROW.unpack_from(self._rows, place * _ROW.size)
        return CallCount(left, filled_at, sum(under_way)) if found == name else None

    def _write(self, place: int, name: bytes, count: CallCount, more: int) -> None:
        found, _, _, *under_way = _ROW.unpack_from(self._rows, place * _ROW.size)
        if found != name:
            under_way = [0] * WORKERS
        under_way[self._worker] = max(0, under_way[self._worker] + more)
        _ROW.pack_into(self._rows, place * _ROW.size, name, count.left, count.filled_at, *under_way)
