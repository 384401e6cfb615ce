"""`clew doctor [--repair]`: check the files, database, rows, chain, views and index of the store; after a backup was
made, repair what is derived and set aside what cannot be read. `--gateway` looks at a running gateway instead.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.cli.arguments import add_store_flags
from clew.cli.console import Console
from clew.cli.store_access import StoreLocation, configured_store, run_with_store
from clew.cli.views.amounts import plural
from clew.cli.views.text import pad, printable, wrap
from clew.errors import InvalidArgument, StoreError
from clew.install import has_extra, install_command

if TYPE_CHECKING:
    from clew.integrations.hermes_setup import HermesCheck
    from clew.integrations.mcp_setups import McpCheck
    from clew.store import HealthProblem, QuarantinedRow, Store

EXAMPLES = """\
Reads everything, so that it takes a while on a large database. What it checks:

  files      only their owner may read or write them, and there is room to
  database   the database finds nothing wrong with itself
  rows       every message, text and value can be read
  chain      messages are numbered without a gap, and each is what it was
  orphans    nothing refers to something that is not there
  views      every compaction refers to messages that are there
  maps       every message that a map stands for is in one part, and can be opened
  index      every message is found by search, and nothing else is
  vectors    with store.vectors: every turn has its vectors

--repair makes a copy of the database beside it, says where, and then rebuilds the
index from the rows and makes the files private. A row that cannot be read is set
aside, byte for byte, and a note takes its place, so that no number shifts;
--quarantined shows what was set aside. Rows that can be read are never changed.
Exit status 1: something is wrong, and was not repaired.

Where the config of Hermes Agent names Clew, it is looked at, too: Hermes goes on with
its own engine, and says so in its log only, where one of the two keys is missing or
its Python cannot load Clew. So are configs of clients that name `clew mcp`: whether the
program that they name is there.

--gateway looks at a running gateway instead (http://127.0.0.1:8787 without URL): its
version, mode and keys, whether its upstream answers, on which wires, and whether a
client on this machine is set to compact by itself. A key of Clew is taken from CLEW_KEY.
"""
DEFAULT_GATEWAY = "http://127.0.0.1:8787"
# Which of our checks a problem of the store belongs to.
CHECK_OF = {
    "database": "database",
    "unwritable": "files",
    "row": "rows",
    "chain": "chain",
    "gap": "chain",
    "orphan": "orphans",
    "entry": "views",
    "node": "maps",
    "map": "maps",
}
_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_BACKUP_MARK = ".backup-"
_EMBEDDED_FIRST = 256
CHECKS: tuple[str, ...] = ("files", "database", "rows", "chain", "orphans", "views", "maps", "index")
PASSED = {
    "files": "only their owner may read them",
    "database": "finds nothing wrong with itself",
    "rows": "every one can be read",
    "chain": "no gap, and every message is what it was",
    "orphans": "none",
    "views": "every compaction refers to messages that are there",
    "maps": "every folded message is in one part, and can be opened",
    "index": "in step with the rows",
    "vectors": "in step with the index",
}


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A check that failed."""

    check: str
    what: str
    is_repairable: bool


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What was checked, what failed, and what was repaired."""

    store: str
    findings: tuple[DoctorFinding, ...]
    checked: tuple[str, ...]
    repaired: tuple[str, ...] = ()
    backup: Path | None = None
    older_backups: tuple[Path, ...] = ()
    quarantined: int = 0
    """How many rows were set aside, now or before."""

    @property
    def is_ok(self) -> bool:
        return not self.findings

    @property
    def names(self) -> tuple[str, ...]:
        """Every check that there is for such a store, in order."""
        return (*CHECKS, "vectors") if "vectors" in self.checked else CHECKS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--repair", action="store_true", help="repair what can be repaired, after a backup")
    what.add_argument("--quarantined", action="store_true", help="show the rows that were set aside, and check nothing")
    what.add_argument(
        "--gateway", metavar="URL", nargs="?", const=DEFAULT_GATEWAY, help="look at a running gateway, not at the store"
    )
    add_store_flags(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.gateway:
        return _probe(arguments.gateway, console, as_json=arguments.json)
    location = configured_store(arguments, console)
    if arguments.quarantined and location.exists:
        return _show_quarantined(location, console, as_json=arguments.json)
    programs = _check_programs(console.environ)
    if not location.exists:
        if arguments.json:
            fields = {"store": location.label, "ok": programs.is_ok, "exists": False, "checks": []}
            console.print_json({**fields, **programs.as_json()})
        else:
            console.print(f"{location.empty_message} Nothing to check.")
            _print_programs(programs, console)
        return 0 if programs.is_ok else 1
    report = _diagnose(location, console)
    if arguments.repair and any(finding.is_repairable for finding in report.findings):
        report = _repair(location, report, console)
    is_ok = report.is_ok and programs.is_ok
    if arguments.json:
        console.print_json({**doctor_json(report), "ok": is_ok, **programs.as_json()})
    else:
        print_doctor(report, console, repairing=arguments.repair)
        _print_programs(programs, console)
    return 0 if is_ok else 1


@dataclass(frozen=True, slots=True)
class ProgramChecks:
    """Whether the programs of this machine whose config names Clew can use it."""

    hermes: HermesCheck | None
    mcp: tuple[McpCheck, ...]

    @property
    def is_ok(self) -> bool:
        return (self.hermes is None or self.hermes.is_ok) and not any(check.problem for check in self.mcp)

    def as_json(self) -> dict[str, Any]:
        return {"hermes": self.hermes and asdict(self.hermes), "mcp": [asdict(check) for check in self.mcp]}


def _check_programs(environ: Mapping[str, str]) -> ProgramChecks:
    from clew.integrations.hermes_setup import check_hermes
    from clew.integrations.mcp_setups import check_mcp_clients

    return ProgramChecks(check_hermes(environ), check_mcp_clients(environ))


def _probe(url: str, console: Console, *, as_json: bool) -> int:
    from clew.cli.views.gateway_probe import print_probe, probe_json
    from clew.gateway import check_clients, probe_gateway

    if not url.startswith(("http://", "https://")):
        raise InvalidArgument(f"doctor: --gateway: {url!r} is no address; give one as {DEFAULT_GATEWAY}")
    address = url.rstrip("/").removesuffix("/v1")
    with console.phase(f"asking {address}"):
        findings = asyncio.run(probe_gateway(address, console.environ.get("CLEW_KEY")))
    problems = check_clients(console.environ)
    if as_json:
        console.print_json(probe_json(address, findings, problems))
    else:
        print_probe(address, findings, problems, console)
    return 0 if all(finding.is_ok for finding in findings) else 1


def _diagnose(location: StoreLocation, console: Console) -> DoctorReport:
    from clew.store import DatabaseBusy, DatabaseDamaged, DatabaseFull, SchemaTooNew

    before = _file_problems(location)
    with console.phase(f"checking {location.label}"):
        try:
            findings, set_aside = run_with_store(location, _check, named="the database")
            findings += run_with_store(location, _check_vectors, named="the database") if location.with_vectors else []
            # What was found sound in a damaged file may not be all that was in it.
            is_damaged = any(finding.check == "database" for finding in findings)
            with_vectors = ("vectors",) if location.with_vectors else ()
            checked = ("files", "database") if is_damaged else (*CHECKS, *with_vectors)
        except (DatabaseBusy, DatabaseFull, SchemaTooNew):
            # Nothing is wrong with the database; the error itself says what to do.
            raise
        except (StoreError, sqlite3.Error) as error:
            what = error.problem if isinstance(error, DatabaseDamaged) else str(error)
            findings, set_aside = [DoctorFinding("database", what, False)], 0
            checked = ("files", "database")
    after = _file_problems(location)
    # Opening makes the database file itself private.
    repaired = tuple(each.repaired for each in before if each not in after)
    if location.path is None and not any(finding.check == "files" for finding in findings):
        checked = tuple(name for name in checked if name != "files")
    wrong = tuple(DoctorFinding("files", each.what, True) for each in after)
    backups = tuple(list_backups(location.path)) if location.path and findings else ()
    return DoctorReport(location.label, (*wrong, *findings), tuple(checked), repaired, None, backups, set_aside)


async def _check(store: Store) -> tuple[list[DoctorFinding], int]:
    return [_finding(problem) for problem in await store.check()], len(await store.quarantined())


async def _check_vectors(store: Store) -> list[DoctorFinding]:
    """Whether every turn has its vectors; a few that wait are made first, as rows that wait are indexed first."""
    if not has_extra("vectors"):
        what = f"store.vectors is on, and the extra vectors is missing: {install_command('vectors')}"
        return [DoctorFinding("vectors", what, False)]
    try:
        await store.embed_waiting(_EMBEDDED_FIRST)
        waiting = await store.vectors_waiting()
    except StoreError as error:
        return [DoctorFinding("vectors", str(error), False)]
    return [DoctorFinding("vectors", f"{waiting:,} turns wait for their vectors", True)] if waiting else []


def _finding(problem: HealthProblem) -> DoctorFinding:
    # Newer SQLite looks into full-text indexes when it checks itself; those can be made anew.
    if problem.kind == "index" or "fts5" in problem.what.lower():
        return DoctorFinding("index", problem.what, True)
    return DoctorFinding(CHECK_OF.get(problem.kind, "database"), problem.what, problem.is_repairable)


def _repair(location: StoreLocation, report: DoctorReport, console: Console) -> DoctorReport:
    """Repair file modes and, after a backup, rows and the index; returns what a new diagnosis finds."""
    backup = None
    repaired = [*report.repaired, *_make_files_private(location)]
    if any(finding.is_repairable and finding.check in ("index", "rows") for finding in report.findings):
        if location.path is not None:
            with console.phase(f"copying {location.label}"):
                backup = back_up_database(location.path)
        with console.phase("setting rows aside and rebuilding the index"):
            set_aside = _repair_store(location, backup)
        repaired += (f"{row.what}: set aside, and a note is in its place ({row.problem})" for row in set_aside)
        repaired.append("the index: rebuilt from the rows")
    if location.with_vectors and any(finding.is_repairable for finding in report.findings):
        with console.phase("making vectors"):
            count = run_with_store(location, lambda store: store.embed_waiting(), named="the database")
        repaired += [f"vectors: made of {plural(count, 'turn')}"] if count else []
    again = _diagnose(location, console)
    return replace(again, repaired=tuple(repaired), backup=backup)


def _repair_store(location: StoreLocation, backup: Path | None) -> list[QuarantinedRow]:
    """Set aside what cannot be read, and make the index from the rest."""

    async def repair(store: Store) -> list[QuarantinedRow]:
        set_aside = await store.quarantine()
        await store.rebuild_index()
        return set_aside

    try:
        return run_with_store(location, repair, named="the database")
    except StoreError as error:
        copy = f"; the copy made before is {backup}" if backup else ""
        raise StoreError(f"the store could not be repaired: {error}{copy}") from error


# -- what was set aside ------------------------------------------------------------------------------------------------


def _show_quarantined(location: StoreLocation, console: Console, *, as_json: bool) -> int:
    from clew.cli.views.quarantined import print_quarantined, quarantined_json

    async def read(store: Store) -> list[QuarantinedRow]:
        return await store.quarantined()

    found = run_with_store(location, read, named="the database")
    if as_json:
        console.print_json({"store": location.label, "quarantined": [quarantined_json(row) for row in found]})
    else:
        print_quarantined(found, location.label, console)
    return 0


def _make_files_private(location: StoreLocation) -> Iterator[str]:
    for problem in _file_problems(location):
        make_private(problem)
        yield problem.repaired


def _file_problems(location: StoreLocation) -> Sequence[FileModeProblem]:
    return check_file_modes(location.path) if location.path is not None else ()


# -- file modes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileModeProblem:
    """A file that others may read, or a folder that others may write to."""

    path: Path
    mode: int
    allowed: int
    """The mode without what others should not have."""

    @property
    def what(self) -> str:
        may = "write to" if stat.S_ISDIR(self.mode) else "read"
        return f"{self.path} has mode {stat.S_IMODE(self.mode):04o}, so that others may {may} it"

    @property
    def repaired(self) -> str:
        return f"{self.path} had mode {stat.S_IMODE(self.mode):04o}, and now has {self.allowed:04o}"


def check_file_modes(path: Path) -> tuple[FileModeProblem, ...]:
    """Which of a database, its log, its backups and its folder others may read or write, and should not."""
    if os.name != "posix":
        return ()
    files = [path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm")), *list_backups(path)]
    problems = []
    for each in (*files, path.parent):
        with contextlib.suppress(OSError):
            mode = each.stat().st_mode
            # In a sticky folder (/tmp) others can add files, but not replace ours.
            too_much = (0 if mode & stat.S_ISVTX else _OTHERS_WRITE) if stat.S_ISDIR(mode) else _OTHERS
            if mode & too_much:
                problems.append(FileModeProblem(each, mode, stat.S_IMODE(mode) & ~too_much))
    return tuple(problems)


def make_private(problem: FileModeProblem) -> None:
    """Change the mode; where that is not allowed, the next diagnosis says so."""
    with contextlib.suppress(OSError):
        problem.path.chmod(problem.allowed)


# -- backups -----------------------------------------------------------------------------------------------------------


def back_up_database(path: Path) -> Path:
    """Copy the database as it is now, its log included, to a file beside it that only its owner reads."""
    target = _free_name(path)
    try:
        with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            # One file alone is easier to put back than one with a log.
            copy.execute("PRAGMA journal_mode = DELETE")
    except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
        with contextlib.suppress(OSError):
            target.unlink(missing_ok=True)
        raise StoreError(
            f"{path} could not be copied to {target} ({error}), so nothing was repaired; "
            "make room, or copy the file by hand while no Clew is running"
        ) from error
    return target


def list_backups(path: Path) -> Iterator[Path]:
    """Backups that were made before, the newest first."""
    with contextlib.suppress(OSError):
        yield from sorted(
            (it for it in path.parent.iterdir() if it.name.startswith(path.name + _BACKUP_MARK)), reverse=True
        )


def _free_name(path: Path) -> Path:
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        target = path.with_name(f"{path.name}{_BACKUP_MARK}{stamp}{f'-{number}' if number > 1 else ''}")
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(
                f"{target} cannot be made ({error.strerror}), so nothing was repaired; check the folder {path.parent}"
            ) from error
        return target
    raise StoreError(f"{path.parent} is full of copies of {path.name}; remove some, then repair again")


# -- how it looks ------------------------------------------------------------------------------------------------------


def print_doctor(report: DoctorReport, console: Console, *, repairing: bool) -> None:
    """The findings for people."""
    console.print(console.style(printable(report.store), "bold"))
    for line in _check_lines(report, console):
        console.print(line)
    for repaired in report.repaired:
        console.print(console.style(f"repaired: {printable(repaired)}", "yellow"))
    if report.backup:
        console.print(f"copy made before: {printable(str(report.backup))}")
    if report.quarantined:
        what = plural(report.quarantined, "row")
        console.print(f"{what} set aside in this store: `clew doctor --quarantined` shows what was there")
    for line in wrap(_verdict(report, repairing), console.width):
        console.print(console.style(line, "green" if report.is_ok else "red"))


def _print_programs(programs: ProgramChecks, console: Console) -> None:
    _print_hermes(programs.hermes, console)
    for check in programs.mcp:
        console.print(console.style(f"{check.client}: {printable(check.config)}", "bold"))
        said = check.problem or "It can start `clew mcp`."
        for line in wrap(printable(said), console.width):
            console.print(console.style(line, "red" if check.problem else "green"))


def _print_hermes(check: HermesCheck | None, console: Console) -> None:
    if check is None:
        return
    console.print(console.style(f"Hermes Agent: {printable(check.config)}", "bold"))
    for problem in check.problems:
        for line in wrap(printable(problem), console.width):
            console.print(console.style(line, "red"))
    if check.is_ok:
        unseen = "`hermes` is not on the path, so that its Python could not be asked whether it has Clew"
        asked = f"{check.python} loads it" if check.python else unseen
        console.print(console.style(f"It folds with Clew: both keys are set; {asked}.", "green"))


def doctor_json(report: DoctorReport) -> dict[str, Any]:
    return {
        "store": report.store,
        "ok": report.is_ok,
        "exists": True,
        "checks": [
            {
                "name": name,
                "checked": name in report.checked,
                "ok": name in report.checked and not any(it.check == name for it in report.findings),
                "problems": [
                    {"what": it.what, "repairable": it.is_repairable} for it in report.findings if it.check == name
                ],
            }
            for name in report.names
        ],
        "mended": list(report.repaired),
        "backup": None if report.backup is None else str(report.backup),
        "quarantined": report.quarantined,
        "older_copies": [str(backup) for backup in report.older_backups],
    }


def _check_lines(report: DoctorReport, console: Console) -> Iterator[str]:
    good, bad, open_ = ("✓", "✗", "·") if console.unicode else ("+", "x", "-")
    for name in report.names:
        wrong = [finding.what for finding in report.findings if finding.check == name]
        if wrong:
            for number, what in enumerate(wrong):
                sign = f"{console.style(bad, 'red')} {pad(name, 9)}" if not number else " " * 11
                first, *more = wrap(what, console.width - 14) or [""]
                yield f"{sign} {first}"
                yield from (f"{'':11} {line}" for line in more)
        elif name in report.checked:
            first, *more = wrap(PASSED[name], console.width - 12)
            yield f"{console.style(good, 'green')} {pad(name, 9)} {first}"
            yield from (f"{'':11} {line}" for line in more)
        else:
            yield console.style(f"{open_} {pad(name, 9)} not certain while the database is damaged", "dim")


def _verdict(report: DoctorReport, repairing: bool) -> str:
    if report.is_ok:
        return "All is well now." if report.repaired else "All is well."
    if not repairing and any(finding.is_repairable for finding in report.findings):
        return "`clew doctor --repair` makes a backup, rebuilds derived data, and quarantines rows that cannot be read."
    if all(finding.check == "files" for finding in report.findings):
        return "Stored sessions can be read and searched; nothing can be added until this is fixed."
    copies = f" The newest copy is {report.older_backups[0]}." if report.older_backups else ""
    return (
        "This cannot be repaired here, because there is no other copy of the rows: "
        f"restore a backup of the database, or keep the file and ask for help.{copies}"
    )
