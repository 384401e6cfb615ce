"""A batch as bytes: a header line with a checksum, then one JSON object a line."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime

from tidepost.readings import Reading

MAGIC = "TIDE2"


class CodecError(ValueError):
    """Bytes that are no batch, or no longer the batch that was written."""


def encode(readings: Iterable[Reading]) -> bytes:
    lines = [_line(reading) for reading in readings]
    body = "".join(line + "\n" for line in lines).encode()
    header = f"{MAGIC} {len(lines)} {zlib.crc32(body):08x}\n".encode()
    return header + body


def decode(raw: bytes) -> list[Reading]:
    header, _, body = raw.partition(b"\n")
    try:
        magic, count, checksum = header.decode().split(" ")
    except ValueError as error:
        raise CodecError(f"bad header {header[:40]!r}") from error
    if magic != MAGIC:
        raise CodecError(f"unknown format {magic!r}")
    if f"{zlib.crc32(body):08x}" != checksum:
        raise CodecError("checksum mismatch")
    readings = [_reading(line) for line in body.decode().splitlines()]
    if len(readings) != int(count):
        raise CodecError(f"expected {count} readings, got {len(readings)}")
    return readings


def _line(reading: Reading) -> str:
    record = {
        "station": reading.station,
        "at": reading.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "level_m": reading.level_m,
        "flags": list(reading.flags),
    }
    return json.dumps(record, separators=(",", ":"))


def _reading(line: str) -> Reading:
    record = json.loads(line)
    at = datetime.strptime(record["at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return Reading(record["station"], at, record["level_m"], tuple(record["flags"]))
