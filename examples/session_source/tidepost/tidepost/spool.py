"""Batches on disk, waiting for the link. A batch leaves the spool when the office has acknowledged it."""

from __future__ import annotations

from pathlib import Path


class SpoolFullError(RuntimeError):
    """There are more waiting batches than the configuration allows."""


class Spool:
    def __init__(self, directory: Path, max_files: int = 5000) -> None:
        self.directory = directory
        self.max_files = max_files
        self.directory.mkdir(parents=True, exist_ok=True)
        self.counter = self._last_number()

    def put(self, raw: bytes) -> str:
        """Store a batch; the name it is stored under is returned."""
        if len(self.pending()) >= self.max_files:
            raise SpoolFullError(f"{self.max_files} batches wait in {self.directory}")
        self.counter += 1
        name = f"{self.counter:08d}.batch"
        (self.directory / name).write_bytes(raw)
        return name

    def pending(self) -> list[str]:
        """Names of the waiting batches, oldest first."""
        return sorted(path.name for path in self.directory.glob("*.batch"))

    def read(self, name: str) -> bytes:
        return (self.directory / name).read_bytes()

    def ack(self, name: str) -> None:
        (self.directory / name).unlink(missing_ok=True)

    def _last_number(self) -> int:
        pending = self.pending()
        return int(pending[-1].split(".")[0]) if pending else 0
