"""`clew doctor [--repair]`: check the store; after a backup, rebuild derived data and quarantine unreadable rows.

`--gateway` checks a running gateway instead.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.console import Console
from clew.cli.options import command, option, store_options
from clew.cli.pages import format_time, json_fields, plural
from clew.cli.store_access import StoreLocation, configured_store
from clew.cli.text import pad, printable, wrap
from clew.errors import InvalidArgument, StoreError
from clew.install import has_extra, install_command

if TYPE_CHECKING:
    from clew.gateway import ProbeFinding
    from clew.integrations.hermes_setup import HermesCheck
    from clew.integrations.mcp_setups import McpCheck
    from clew.store import FileModeProblem, HealthProblem, QuarantinedRow, Store

EXAMPLES = """\
Reads everything, so that it takes a while on a large database. What it checks:

  files      only their owner may read or write them, and there is room to
  database   the database finds nothing wrong with itself
  rows       every message, text and value can be read
  chain      messages are numbered without a gap, and each is what it was
  orphans    nothing refers to something that is not there
  views      every compaction refers to messages that are there
  maps       every message that a map replaces is in one part, and can be opened
  index      every message is found by search, and nothing else is
  vectors    with store.vectors: every turn has its vectors

--repair makes a copy of the database beside it, says where, and then rebuilds the
index from the rows and makes the files private. A row that cannot be read is set
aside, byte for byte, and a note takes its place, so that no number shifts;
--quarantined shows what was set aside. A compaction whose map leaves messages out
is undone, so that they are in view again. Rows that can be read are never changed.
Exit status 1: something is wrong, and was not repaired.

If the config of Hermes Agent names Clew, it is checked, too: where one of the two keys is
missing or its Python cannot load Clew, Hermes uses its built-in engine, and says so in
its log only. Configs of clients that name `clew mcp` are checked for a program that exists.

--gateway looks at a running gateway instead (http://127.0.0.1:8787 without URL): its
version, mode and keys, whether its upstream answers, on which wires, and whether a
client on this machine is set to compact by itself. A key of Clew is taken from CLEW_KEY.
"""
DEFAULT_GATEWAY = "http://127.0.0.1:8787"
# The check that a problem of the store belongs to.
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
_EMBEDDED_FIRST = 256
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
CHECKS = tuple(name for name in PASSED if name != "vectors")


@command(EXAMPLES, exclusive=("repair", "quarantined", "gateway"))
@click.option("--repair", is_flag=True, help="repair what can be repaired, after a backup")
@click.option("--quarantined", is_flag=True, help="show the rows that were set aside, and check nothing")
@option("--gateway", "[URL]", "look at a running gateway, not at the store", is_flag=False, flag_value=DEFAULT_GATEWAY)
@store_options
async def doctor_command(console: Console, repair: bool, quarantined: bool, gateway: str | None) -> int:
    if gateway:
        return await _probe(gateway, console)
    location = configured_store(console)
    if quarantined and location.exists:
        return await _show_quarantined(location, console)
    programs = ProgramChecks.of(console.environ)
    if not location.exists:
        fields = {"store": location.label, "ok": programs.is_ok, "exists": False, "checks": [], **asdict(programs)}
        console.show(fields, lambda: console.print(f"{location.empty_message} Nothing to check."))
    else:
        report = await _diagnose(location, console)
        if repair and any(finding.is_repairable for finding in report.findings):
            report = await _repair(location, report, console)
        fields = {**doctor_json(report), "ok": report.is_ok and programs.is_ok, **asdict(programs)}
        console.show(fields, lambda: print_doctor(report, console, repairing=repair))
    if not console.as_json:
        _print_programs(programs, console)
    return 0 if fields["ok"] else 1


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A problem that a check found."""

    check: str
    what: str
    is_repairable: bool


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The checks, problems and repairs."""

    store: str
    findings: tuple[DoctorFinding, ...]
    checked: tuple[str, ...]
    repaired: tuple[str, ...] = ()
    backup: Path | None = None
    older_backups: tuple[Path, ...] = ()
    quarantined: int = 0
    """Number of quarantined rows."""

    @property
    def is_ok(self) -> bool:
        return not self.findings

    @property
    def names(self) -> tuple[str, ...]:
        """The checks of this store, in order."""
        return (*CHECKS, "vectors") if "vectors" in self.checked else CHECKS


@dataclass(frozen=True, slots=True)
class ProgramChecks:
    """Whether programs on this machine whose config names Clew can use it."""

    hermes: HermesCheck | None
    mcp: tuple[McpCheck, ...]

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> ProgramChecks:
        from clew.integrations.hermes_setup import check_hermes
        from clew.integrations.mcp_setups import check_mcp_clients

        return cls(check_hermes(environ), check_mcp_clients(environ))

    @property
    def is_ok(self) -> bool:
        return (self.hermes is None or self.hermes.is_ok) and not any(check.problem for check in self.mcp)


async def _probe(url: str, console: Console) -> int:
    from clew.gateway import check_clients, probe_gateway

    if not url.startswith(("http://", "https://")):
        raise InvalidArgument(f"doctor: --gateway: {url!r} is not an address", remedy=f"give one as {DEFAULT_GATEWAY}")
    address = url.rstrip("/").removesuffix("/v1")
    with console.phase(f"asking {address}"):
        findings = await probe_gateway(address, console.environ.get("CLEW_KEY"))
    problems = check_clients(console.environ)
    is_ok = all(finding.is_ok for finding in findings)
    checks = [{"name": it.name, "ok": it.is_ok, "what": it.what} for it in findings]
    fields = {"gateway": address, "ok": is_ok, "checks": checks, "clients": list(problems)}
    console.show(fields, lambda: print_probe(address, findings, problems, console))
    return 0 if is_ok else 1


async def _diagnose(location: StoreLocation, console: Console) -> DoctorReport:
    import sqlite3

    from clew.store import DatabaseBusy, DatabaseDamaged, DatabaseFull, SchemaTooNew, list_backups

    before = _file_problems(location)
    checked = (*CHECKS, "vectors") if location.with_vectors else CHECKS
    with console.phase(f"checking {location.label}"):
        try:
            async with location.open("the database") as store:
                findings = [_finding(problem) for problem in await store.check()]
                set_aside = len(await store.quarantined())
                findings += await _check_vectors(store) if location.with_vectors else []
        except (DatabaseBusy, DatabaseFull, SchemaTooNew):
            # Nothing is wrong with the database; the error itself says what to do.
            raise
        except (StoreError, sqlite3.Error) as error:
            what = error.problem if isinstance(error, DatabaseDamaged) else str(error)
            findings, set_aside = [DoctorFinding("database", what, False)], 0
    if any(finding.check == "database" for finding in findings):
        # Other checks of a damaged file are not reliable: rows may be missing.
        checked = ("files", "database")
    after = _file_problems(location)
    # Opening makes the database file itself private.
    repaired = tuple(each.repaired for each in before if each not in after)
    if location.path is None and not any(finding.check == "files" for finding in findings):
        checked = tuple(name for name in checked if name != "files")
    wrong = tuple(DoctorFinding("files", each.what, True) for each in after)
    backups = tuple(list_backups(location.path)) if location.path and findings else ()
    return DoctorReport(location.label, (*wrong, *findings), checked, repaired, None, backups, set_aside)


async def _check_vectors(store: Store) -> list[DoctorFinding]:
    """Check that every turn has vectors; makes a few missing ones first, like the check of the index."""
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
    # Newer SQLite checks full-text indexes too; they can be rebuilt.
    if problem.kind == "index" or "fts5" in problem.what.lower():
        return DoctorFinding("index", problem.what, True)
    return DoctorFinding(CHECK_OF.get(problem.kind, "database"), problem.what, problem.is_repairable)


async def _repair(location: StoreLocation, report: DoctorReport, console: Console) -> DoctorReport:
    """Repair file modes and, after a backup, rows, maps and the index; returns a new diagnosis."""
    from clew.store import back_up_database

    backup = None
    repaired = [*report.repaired, *_make_files_private(location)]
    if any(finding.is_repairable and finding.check in ("index", "rows", "maps") for finding in report.findings):
        if location.path is not None:
            with console.phase(f"copying {location.label}"):
                backup = back_up_database(location.path)
        with console.phase("setting rows aside, checking maps and rebuilding the index"):
            try:
                async with location.open("the database") as store:
                    # Maps second, since a quarantined node may break a map.
                    set_aside = await store.quarantine()
                    broken = await store.undo_broken_maps()
                    await store.rebuild_index()
            except StoreError as error:
                copy = f"; the copy made before is {backup}" if backup else ""
                raise StoreError(f"the store could not be repaired: {error}{copy}") from error
        repaired += (f"{row.what}: set aside, and a note is in its place ({row.problem})" for row in set_aside)
        repaired += (f"{problem}: its compaction was undone, the messages are in view again" for problem in broken)
        repaired.append("the index: rebuilt from the rows")
    if location.with_vectors and any(finding.is_repairable for finding in report.findings):
        with console.phase("making vectors"):
            async with location.open("the database") as store:
                count = await store.embed_waiting()
        repaired += [f"vectors: made of {plural(count, 'turn')}"] if count else []
    again = await _diagnose(location, console)
    return replace(again, repaired=tuple(repaired), backup=backup)


async def _show_quarantined(location: StoreLocation, console: Console) -> int:
    async with location.open("the database") as store:
        found = await store.quarantined()
    fields = {"store": location.label, "quarantined": [quarantined_json(row) for row in found]}
    return console.show(fields, lambda: print_quarantined(found, location.label, console))


def _make_files_private(location: StoreLocation) -> Iterator[str]:
    from clew.store import make_private

    for problem in _file_problems(location):
        make_private(problem)
        yield problem.repaired


def _file_problems(location: StoreLocation) -> Sequence[FileModeProblem]:
    from clew.store import check_file_modes

    return check_file_modes(location.path) if location.path is not None else ()


def print_doctor(report: DoctorReport, console: Console, *, repairing: bool) -> None:
    """Print the findings."""
    console.print(console.style(printable(report.store), "bold"))
    console.print_all(_check_lines(report, console))
    for repaired in report.repaired:
        console.print(console.style(f"repaired: {printable(repaired)}", "yellow"))
    if report.backup:
        console.print(f"copy made before: {printable(str(report.backup))}")
    if report.quarantined:
        what = plural(report.quarantined, "row")
        console.print(f"{what} set aside in this store: `clew doctor --quarantined` shows their content")
    console.say(_verdict(report, repairing), "green" if report.is_ok else "red")


def _print_programs(programs: ProgramChecks, console: Console) -> None:
    if (hermes := programs.hermes) is not None:
        console.print(console.style(f"Hermes Agent: {printable(hermes.config)}", "bold"))
        for problem in hermes.problems:
            console.say(problem, "red")
        unseen = "`hermes` is not on the path, so that its Python could not be asked whether it has Clew"
        asked = f"{hermes.python} loads it" if hermes.python else unseen
        if hermes.is_ok:
            console.print(console.style(f"It folds with Clew: both keys are set; {asked}.", "green"))
    for check in programs.mcp:
        console.print(console.style(f"{check.client}: {printable(check.config)}", "bold"))
        console.say(check.problem or "It can start `clew mcp`.", "red" if check.problem else "green")


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
    for name in report.names:
        wrong = [finding.what for finding in report.findings if finding.check == name]
        for number, what in enumerate(wrong):
            yield from _marked(console, "bad" if not number else None, name if not number else "", what)
        if not wrong and name in report.checked:
            yield from _marked(console, "good", name, PASSED[name])
        elif not wrong:
            sign = console.sign("·", "-")
            yield console.style(f"{sign} {pad(name, 9)} not certain while the database is damaged", "dim")


_MARKS = {"good": ("✓", "+", "green"), "bad": ("✗", "x", "red"), "warning": ("!", "!", "yellow")}


def _marked(console: Console, mark: str | None, name: str, text: str) -> Iterator[str]:
    """A finding after a colored sign and the name of its check."""
    sign = " "
    if mark is not None:
        fancy, plain, color = _MARKS[mark]
        sign = console.style(console.sign(fancy, plain), color)
    first, *more = wrap(text, console.width - 12) or [""]
    yield f"{sign} {pad(name, 9)} {first}"
    yield from (f"{'':11} {line}" for line in more)


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


def print_probe(address: str, findings: Sequence[ProbeFinding], problems: Sequence[str], console: Console) -> None:
    """Print a line for each check of a gateway, and for each setting of a client to change."""
    console.print(console.style(printable(address), "bold"))
    marked = [("good" if it.is_ok else "bad", it.name, it.what) for it in findings]
    marked += [("warning", "clients", problem) for problem in problems]
    if not problems:
        marked.append(("good", "clients", "no setting that makes one compact by itself"))
    for mark, name, what in marked:
        console.print_all(_marked(console, mark, name, what))


def print_quarantined(found: Sequence[QuarantinedRow], label: str, console: Console) -> None:
    if not found:
        console.print(f"Nothing was set aside in {printable(label)}.")
    for row in found:
        console.print(console.style(printable(f"{row.what}: {row.problem}"), "bold"))
        console.print(f"set aside {format_time(row.at)}, {len(row.body):,} bytes:")
        for line in row.body.decode(errors="replace").splitlines():
            console.print(f"  {printable(line)}")


def quarantined_json(row: QuarantinedRow) -> dict[str, Any]:
    return {
        **json_fields(row, "kind", "what"),
        "message": row.seq,
        **json_fields(row, "problem", "at"),
        "text": row.body.decode(errors="replace"),
        "bytes_base64": base64.b64encode(row.body).decode(),
    }
