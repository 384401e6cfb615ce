"""Damages the search index of a database, as a bad sector does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def damage_index(folder: Path) -> None:
    """Write zeros over the first page of the index of the database in a folder, or below it."""
    (path,) = folder.rglob("*.db")
    with closing(sqlite3.connect(path, timeout=20)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'docs'").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))
