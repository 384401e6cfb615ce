"""`clew doctor [--repair]`: whether all that was kept is whole: files, database, rows, chain, views, index.

Asks the store, mends what is derived, and never without a copy. How the findings look is in `doctor_view`.
"""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clew.cli.backup import back_up, backups_of
from clew.cli.open_store import StorePlace, add_store_flags, configured_place, with_store
from clew.cli.output import Console
from clew.cli.progress import phase
from clew.cli.store_files import FileProblem, make_private, problems_of_files
from clew.errors import StoreError

if TYPE_CHECKING:
    from clew.store import HealthProblem, Store

EXAMPLES = """\
Reads everything, so that it takes a while on a large database. What it checks:

  files      only their owner may read or write them
  database   the database finds nothing wrong with itself
  chain      messages are numbered without a gap, and each is what it was
  orphans    nothing refers to something that is not there
  views      every compaction refers to messages that are there
  index      every message is found by search, and nothing else is

--repair makes a copy of the database beside it, says where, and then rebuilds the
index from the rows and makes the files private. Rows are never changed.
Exit status 1: something is wrong, and was not repaired.
"""
# Which of our checks a problem of the store belongs to.
CHECK_OF = {"database": "database", "chain": "chain", "gap": "chain", "orphan": "orphans", "entry": "views"}
CHECKS: tuple[str, ...] = ("files", "database", "chain", "orphans", "views", "index")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not hold."""

    check: str
    what: str
    is_repairable: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, and what was done about it."""

    where: str
    findings: tuple[Finding, ...]
    checked: tuple[str, ...]
    mended: tuple[str, ...] = ()
    backup: Path | None = None
    older_copies: tuple[Path, ...] = ()

    @property
    def is_sound(self) -> bool:
        return not self.findings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--repair", action="store_true", help="mend what can be mended, after making a copy")
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.doctor_view import diagnosis_json, say_diagnosis

    place = configured_place(arguments, console)
    if not place.is_there:
        if arguments.json:
            console.say_json({"store": place.shown, "ok": True, "exists": False, "checks": []})
        else:
            console.say(f"{place.nothing_yet} Nothing to check.")
        return 0
    found = _diagnosed(place, console)
    if arguments.repair and any(finding.is_repairable for finding in found.findings):
        found = _repaired(place, found, console)
    if arguments.json:
        console.say_json(diagnosis_json(found))
    else:
        say_diagnosis(found, console, repairing=arguments.repair)
    return 0 if found.is_sound else 1


def _diagnosed(place: StorePlace, console: Console) -> Diagnosis:
    from clew.store import DatabaseBusy, DatabaseFull, SchemaTooNew

    before = _files(place)
    with phase(console, f"checking {place.shown}"):
        try:
            findings = with_store(place, _check, named="the database")
            checked = CHECKS
        except (DatabaseBusy, DatabaseFull, SchemaTooNew):
            # Nothing is wrong with what is kept; the error itself says what to do.
            raise
        except (StoreError, sqlite3.Error) as error:
            findings, checked = [Finding("database", str(error), False)], ("files", "database")
    after = _files(place)
    # Opening makes the database file itself private.
    mended = tuple(each.mended for each in before if each not in after)
    if place.path is None:
        checked = tuple(name for name in checked if name != "files")
    wrong = tuple(Finding("files", each.what, True) for each in after)
    copies = tuple(backups_of(place.path)) if place.path and findings else ()
    return Diagnosis(place.shown, (*wrong, *findings), tuple(checked), mended, None, copies)


async def _check(store: Store) -> list[Finding]:
    return [_finding(problem) for problem in await store.check()]


def _finding(problem: HealthProblem) -> Finding:
    # Newer SQLite looks into full-text indexes when it checks itself; those can be made anew.
    if problem.is_repairable or "fts5" in problem.what.lower():
        return Finding("index", problem.what, True)
    return Finding(CHECK_OF.get(problem.kind, "database"), problem.what, False)


def _repaired(place: StorePlace, found: Diagnosis, console: Console) -> Diagnosis:
    """Mend what is derived, after a copy was made; the diagnosis afterwards."""
    backup = None
    mended = [*found.mended, *_made_private(place)]
    broken = [finding for finding in found.findings if finding.check == "index"]
    if broken:
        if place.path is not None:
            with phase(console, f"copying {place.shown}"):
                backup = back_up(place.path)
        with phase(console, "rebuilding the index"):
            _rebuilt(place, backup)
        mended.append("the index: rebuilt from the rows")
    again = _diagnosed(place, console)
    return Diagnosis(again.where, again.findings, again.checked, tuple(mended), backup, again.older_copies)


def _rebuilt(place: StorePlace, backup: Path | None) -> None:
    async def rebuild(store: Store) -> None:
        await store.rebuild_index()

    try:
        with_store(place, rebuild, named="the database")
    except StoreError as error:
        copy = f"; the copy made before is {backup}" if backup else ""
        raise StoreError(f"the index could not be rebuilt: {error}{copy}") from error


def _made_private(place: StorePlace) -> Iterator[str]:
    for problem in _files(place):
        make_private(problem)
        yield problem.mended


def _files(place: StorePlace) -> Sequence[FileProblem]:
    return problems_of_files(place.path) if place.path is not None else ()
