"""`clew audit [FILE... | FOLDER]`: what compactions in session files dropped, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.console import Console, check_page, private_file
from clew.cli.imports import usual_places
from clew.cli.options import FILE, command, json_option, option
from clew.cli.pages import NO_PRICE, format_dollars, json_fields, percent, plural, short_count, table_lines
from clew.cli.text import clip, printable
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.audit import Audit, AuditedCompaction, AuditedSession

EXAMPLES = """\
FILE is a session file of Claude Code, Codex, opencode or pi, the database of opencode or
Hermes, or a conversation as JSON or JSONL; of a FOLDER, every one in it. Without FILE,
the usual folders of these programs are read. Files of Gemini CLI record no compactions;
only their expired caches are found.

For each compaction that a program made:
  used later   facts from before it that the agent used after it: paths, identifiers,
               numbers, hashes and errors that nothing after it showed first
  kept         those that the program's summary still shows, beside words of a line
               of their source
  by Clew      those that the built-in handoff of Clew shows, in no more characters
  read again   files that were in the window before and were read again after it
  cost         at list prices: the request for the summary (estimated where the file
               does not record it), and what had to be cached again

and for each session the pauses after which a cache had expired. Nothing is changed, and
neither a model nor the network is asked. Passwords, keys and tokens are replaced.

examples:
  clew audit
  clew audit ~/.claude/projects --report audit.html
  clew audit session.jsonl --json
"""
MAX_DROPPED = 8
MAX_COMPACTIONS = 20
_HEADINGS = ("used later", "kept", "by Clew", "tokens", "read again", "cost", "session")


@command(EXAMPLES)
@click.argument("files", metavar="FILE", nargs=-1, type=FILE)
@option("--report", "OUT.html", "write a page with every fact that was dropped", type=FILE)
@json_option
def audit_command(console: Console, files: Sequence[str], report: str | None) -> int:
    from clew.audit import audit_sources
    from clew.audit.page import audit_page
    from clew.importers.import_files import import_sources

    check_page(report, "audit.html")
    names = files or usual_places(console, empty=False)
    for name in names:
        if name != "-" and not Path(name).exists():
            raise InvalidArgument(f"{name}: there is no such file", remedy="name a session file or a folder")
    try:
        audit = audit_sources(import_sources(names), lambda name: console.progress(f"reading {name}"))
    finally:
        console.clear_progress()
    if report:
        with private_file(report) as out:
            out.write(audit_page(audit))
    return console.show(audit_json(audit), lambda: print_audit(audit, console, report))


def print_audit(audit: Audit, console: Console, report: str | None) -> None:
    """Print tables of compactions and expired caches, examples of dropped facts, and the closing line."""
    blocks: list[list[str]] = [list(_compaction_lines(audit, console)), list(_dropped_lines(audit, console))]
    blocks.append(list(_expired_lines(audit, console)))
    from clew.audit.page import closing_line

    skipped = [f"{len(audit.skipped)} files hold no session"] if audit.skipped else []
    last = [*skipped, *([f"The page: {report}"] if report else [])]
    blocks.append([line for text in last for line in console.hint_lines(text)])
    blocks.append(list(console.styled_lines(closing_line(audit), "bold")))
    console.print_blocks([block for block in blocks if block])


def _compaction_lines(audit: Audit, console: Console) -> Iterator[str]:
    made = [(session, each) for session in audit.sessions for each in session.compactions]
    if not made:
        return  # the closing line says so
    newest = made[-MAX_COMPACTIONS:]
    rows = [_HEADINGS, *(_row(session, each) for session, each in newest)]
    yield from table_lines(rows, ">>>>>><", console.page_width)
    if len(made) > len(newest):
        yield console.style(f"and {len(made) - len(newest):,} earlier ones: --json and --report have all", "dim")


def _row(session: AuditedSession, made: AuditedCompaction) -> tuple[str, ...]:
    return (
        str(made.facts),
        f"{made.program.facts} ({percent(made.program.facts, made.facts)})",
        "-" if made.clew is None else f"{made.clew.facts} ({percent(made.clew.facts, made.facts)})",
        f"{short_count(made.tokens_before)} -> {short_count(made.tokens_after)}",
        str(len(made.read_again)),
        money(made.cost.dollars),
        f"{session.program} {Path(printable(session.name)).name}:{made.line}",
    )


def _dropped_lines(audit: Audit, console: Console) -> Iterator[str]:
    dropped = [(session, fact) for session in audit.sessions for each in session.compactions for fact in each.dropped]
    if not dropped:
        return
    yield console.style("dropped by the summary, and used afterwards", "bold")
    width = console.page_width
    for session, fact in dropped[:MAX_DROPPED]:
        yield clip(fact.text, width)
        where = Path(printable(session.name)).name
        yield console.style(clip(f"  from  {where}:{fact.source_line}  {fact.source}", width), "dim")
        yield console.style(clip(f"  used  {where}:{fact.use_line}  {fact.use}", width), "dim")
    if len(dropped) > MAX_DROPPED:
        yield console.style(f"and {len(dropped) - MAX_DROPPED:,} more: --json and --report have them", "dim")


def _expired_lines(audit: Audit, console: Console) -> Iterator[str]:
    found = [(session, each) for session in audit.sessions for each in session.expired]
    if not found:
        return
    tokens = sum(each.tokens for _, each in found)
    spent = [each.dollars for _, each in found if each.dollars is not None]
    cost = money(sum(spent, Decimal(0))) if spent else NO_PRICE
    sessions = len({session.name for session, _ in found})
    text = (
        f"{plural(len(found), 'cache')} expired in {plural(sessions, 'session')}: "
        f"{short_count(tokens)} tokens were read again, {cost} more than from the cache"
    )
    yield from console.hint_lines(text)


def money(amount: Decimal | None) -> str:
    return NO_PRICE if amount is None else format_dollars(float(amount))


def audit_json(audit: Audit) -> dict[str, Any]:
    """The audit as JSON; money in dollars, None without a known price."""
    from clew.audit.page import closing_line

    return {
        "sessions": [_session_json(session) for session in audit.sessions],
        "skipped": [{"source": source, "reason": reason} for source, reason in audit.skipped],
        "totals": {
            "sessions": len(audit.sessions),
            "compactions": len(audit.compactions),
            "compared": len(audit.comparable),
            "facts_used_later": sum(each.facts for each in audit.comparable),
            "facts_kept": sum(each.program.facts for each in audit.comparable),
            "facts_kept_by_clew": sum(each.clew.facts for each in audit.comparable if each.clew),
            "expired_caches": sum(len(session.expired) for session in audit.sessions),
            "dollars": float(audit.dollars),
        },
        "closing_line": closing_line(audit),
    }


def _session_json(session: AuditedSession) -> dict[str, Any]:
    return {
        **json_fields(session, "name", "program", "model", "messages"),
        "compactions": [_compaction_json(each) for each in session.compactions],
        "expired_caches": [{**asdict(each), "dollars": _number(each.dollars)} for each in session.expired],
    }


def _compaction_json(made: AuditedCompaction) -> dict[str, Any]:
    cost = made.cost
    return {
        **json_fields(made, "line", "timestamp", "tokens_before", "tokens_after"),
        "used_later": {"atoms": made.atoms, "facts": made.facts},
        "kept": asdict(made.program),
        "kept_by_clew": None if made.clew is None else asdict(made.clew),
        "dropped": [asdict(fact) for fact in made.dropped],
        "read_again": [asdict(each) for each in made.read_again],
        "cost": {
            **{name: _number(getattr(cost, name)) for name in ("summary", "rebuild", "dollars")},
            "is_estimate": cost.is_estimate,
        },
    }


def _number(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)
