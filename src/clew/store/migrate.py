"""Migrations: numbered SQL files beside this one, forward only, each applied in one transaction.

The table `schema_versions` remembers which were applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from clew.errors import SchemaTooNew
from clew.store.database import Steps, execute, fetch_number

DatabaseName = Literal["sqlite", "postgres"]


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    statements: tuple[str, ...]


@cache
def migrations_of(database: DatabaseName) -> tuple[Migration, ...]:
    """All migrations for a database, in order."""
    folder = files("clew.store") / "migrations" / database
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(
        Migration(int(name[:4]), name[5:-4], _split((folder / name).read_text(encoding="utf-8"))) for name in names
    )


def latest_version(database: DatabaseName) -> int:
    return migrations_of(database)[-1].version


def schema_version() -> Steps[int]:
    """The newest migration that was applied; 0 where none was."""
    return (yield from fetch_number("SELECT max(version) FROM schema_versions"))


def create_versions_table() -> Steps[None]:
    yield from execute("CREATE TABLE IF NOT EXISTS schema_versions (version INTEGER PRIMARY KEY, name TEXT NOT NULL)")


def apply_next(database: DatabaseName, where: str) -> Steps[bool]:
    """Apply the next migration; False where there is none. `SchemaTooNew` where the database has an unknown one."""
    yield from create_versions_table()
    version = yield from schema_version()
    refuse_newer(version, database, where)
    due = next((migration for migration in migrations_of(database) if migration.version > version), None)
    if due is None:
        return False
    for statement in due.statements:
        yield from execute(statement)
    yield from execute("INSERT INTO schema_versions (version, name) VALUES (?, ?)", due.version, due.name)
    return True


def refuse_newer(version: int, database: DatabaseName, where: str) -> None:
    known = latest_version(database)
    if version > known:
        raise SchemaTooNew(
            f"{where} has schema {version}, and this Clew knows {known}; "
            "a newer Clew has written it: upgrade this one, or open another file"
        )


def _split(script: str) -> tuple[str, ...]:
    """The statements of a file; none of them has a semicolon inside."""
    lines = [line for line in script.splitlines() if not line.lstrip().startswith("--")]
    return tuple(part.strip() for part in "\n".join(lines).split(";") if part.strip())
