"""How the account of an import looks: for people the sessions that changed and the sums, for programs everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clew.cli.amounts import counted
from clew.cli.output import Align, Console, clipped, printable, table

if TYPE_CHECKING:
    from clew.cli.import_ import Account, Skipped
    from clew.importers.into_store import ImportedSession

MOST_SESSIONS_SHOWN = 20
MOST_SKIPPED_SHOWN = 5
_STATES = (("new", "new"), ("grown", "grown"), ("branch", "as branches"), ("unchanged", "unchanged"))


def say_account(account: Account, console: Console) -> None:
    changed = [each for each in account.sessions if each.added or each.is_new]
    _say_sessions(changed, console)
    console.say(_sums(account.sessions, account.is_dry_run))
    if account.skipped:
        _say_skipped(account.skipped, console)
    if account.is_dry_run:
        console.say(f"nothing was written to {account.store}")
    elif any(each.added for each in account.sessions):
        console.say(f"kept in {account.store}")


def account_json(account: Account) -> dict[str, Any]:
    return {
        "store": account.store,
        "dry_run": account.is_dry_run,
        "messages_added": sum(each.added for each in account.sessions),
        "messages_known": sum(each.known for each in account.sessions),
        "calls_added": sum(each.calls for each in account.sessions),
        "sessions": [_session_json(each) for each in account.sessions],
        "skipped": [{"source": each.source, "reason": each.reason} for each in account.skipped],
        "notices": [{"source": source, "notice": notice} for source, notice in account.notices],
    }


def _session_json(each: ImportedSession) -> dict[str, Any]:
    return {
        "session": each.session,
        "source": each.source,
        "kind": each.kind,
        "title": each.title,
        "state": _state(each),
        "added": each.added,
        "known": each.known,
        "calls": each.calls,
    }


def _state(each: ImportedSession) -> str:
    if each.is_branch:
        return "branch"
    if each.is_new:
        return "new"
    return "grown" if each.added else "unchanged"


def _origin(each: ImportedSession) -> str:
    return each.kind.replace("_", "-")


def _say_sessions(changed: Sequence[ImportedSession], console: Console) -> None:
    if not changed:
        return
    rows = [("", "added", "known", "from", "title")]
    rows += [
        (_state(each), f"{each.added:,}", f"{each.known:,}", _origin(each), printable(each.title or "-"))
        for each in changed[:MOST_SESSIONS_SHOWN]
    ]
    aligns: list[Align] = ["<", ">", ">", "<", "<"]
    heading, *lines = table(rows, aligns, console.width)
    console.say(console.paint(heading, "dim"))
    for line in lines:
        console.say(line)
    if len(changed) > MOST_SESSIONS_SHOWN:
        console.say(f"... and {len(changed) - MOST_SESSIONS_SHOWN:,} more; --json lists all")
    console.say()


def _sums(sessions: Sequence[ImportedSession], dry_run: bool) -> str:
    states = Counter(map(_state, sessions))
    told = ", ".join(f"{states[state]:,} {words}" for state, words in _STATES if states[state])
    added, known = sum(each.added for each in sessions), sum(each.known for each in sessions)
    verb = "would be added" if dry_run else "added"
    line = f"{counted(len(sessions), 'session')}{f' ({told})' if told else ''}: {counted(added, 'message')} {verb}"
    calls = sum(each.calls for each in sessions)
    return f"{line}, {known:,} already there{_usage(calls)}"


def _usage(calls: int) -> str:
    return f"; usage of {counted(calls, 'call')}" if calls else ""


def _say_skipped(skipped: Sequence[Skipped], console: Console) -> None:
    console.say(f"{len(skipped):,} skipped:")
    for each in skipped[:MOST_SKIPPED_SHOWN]:
        console.say(clipped(printable(f"  {each.source}: {each.reason}"), console.width))
    if len(skipped) > MOST_SKIPPED_SHOWN:
        console.say(f"  ... and {len(skipped) - MOST_SKIPPED_SHOWN:,} more; --json lists all")
