"""Bringing a database to the schema this program knows: numbered files, forward only, each in one transaction.

Knows the files beside it and the table that remembers which were applied. The runner holds the write lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from clew.store.problems import SchemaTooNew
from clew.store.steps import Steps, one, run

DatabaseName = Literal["sqlite", "postgres"]


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    statements: tuple[str, ...]


@cache
def migrations_of(database: DatabaseName) -> tuple[Migration, ...]:
    """All migrations there are for a database, in order."""
    folder = files("clew.store") / "migrations" / database
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(
        Migration(int(name[:4]), name[5:-4], _split((folder / name).read_text(encoding="utf-8"))) for name in names
    )


def latest_version(database: DatabaseName) -> int:
    return migrations_of(database)[-1].version


def schema_version() -> Steps[int]:
    """The newest migration that was applied. The table must be there: see `remember_versions`."""
    found = yield from one("SELECT max(version) FROM schema_versions")
    return int(found[0] or 0) if found else 0


def remember_versions() -> Steps[None]:
    yield from run(
        "CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    )


def apply_next(database: DatabaseName, where: str) -> Steps[bool]:
    """Apply the one migration that comes next; whether there was one. To be run until it says no."""
    yield from remember_versions()
    version = yield from schema_version()
    refuse_newer(version, database, where)
    due = next((migration for migration in migrations_of(database) if migration.version > version), None)
    if due is None:
        return False
    for statement in due.statements:
        yield from run(statement)
    yield from run("INSERT INTO schema_versions (version, name) VALUES (?, ?)", due.version, due.name)
    return True


def refuse_newer(version: int, database: DatabaseName, where: str) -> None:
    known = latest_version(database)
    if version > known:
        raise SchemaTooNew(
            f"{where} has schema {version}, and this Clew knows {known}; "
            "a newer Clew has written it: upgrade this one, or open another file"
        )


def _split(script: str) -> tuple[str, ...]:
    """The statements of a file. None of ours holds a semicolon inside."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("--")]
    return tuple(part.strip() for part in "\n".join(lines).split(";") if part.strip())
