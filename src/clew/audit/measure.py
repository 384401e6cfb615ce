"""An audit: every compaction in session files, measured; the same measure for the program's summary and for Clew's.

Clew's side is the built-in handoff for the same window at no more characters than the program's result has. Nothing is
asked of a model or of the network, and texts of the result have no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from clew.audit.costs import CompactionCost, ExpiredCache, compaction_cost, expired_caches, recorded_calls
from clew.audit.recorded import RecordedCompaction, find_compactions
from clew.audit.used_again import UsedAtom, used_again
from clew.errors import ClewError, UnreadableTranscript
from clew.facts import read_call, shorten
from clew.importers import SourceEntry, SourceSession, open_sessions
from clew.importers.import_files import ImportSource
from clew.library import compress
from clew.messages import Message, calls_of, repair
from clew.redact import redact
from clew.report import text_with_calls
from clew.tokens import counter_for

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TRIES: Final = 6
_SMALLEST_TARGET: Final = 300
_CLOSE_ENOUGH: Final = 0.97
_AIM: Final = 0.99
"""Of the size that a result may have: a target is in tokens, the size that is compared in characters."""
_SHOWN_CHARS: Final = 240


@dataclass(frozen=True, slots=True)
class DroppedFact:
    """Something that the agent used after a compaction and the program's result did not show."""

    text: str
    source: str
    """The line where it was found."""
    source_line: int
    """A line of the session file."""
    use: str
    use_line: int
    is_kept_by_clew: bool


@dataclass(frozen=True, slots=True)
class KeptFacts:
    """How much of what was used later one side kept."""

    chars: int
    """The size of its result."""
    atoms: int
    facts: int


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """A file whose text was in the window before a compaction, and was read again after it."""

    path: str
    line: int
    tokens: int
    """The size of the second reading."""


@dataclass(frozen=True, slots=True)
class AuditedCompaction:
    """One compaction, measured."""

    line: int
    timestamp: str | None
    tokens_before: int
    tokens_after: int
    atoms: int
    """How many were used later."""
    facts: int
    program: KeptFacts
    clew: KeptFacts | None
    """None where Clew cannot fold to so small a size, or the window cannot be read."""
    dropped: tuple[DroppedFact, ...]
    read_again: tuple[ReadAgain, ...]
    cost: CompactionCost


@dataclass(frozen=True, slots=True)
class AuditedSession:
    """One session of a file."""

    name: str
    program: str
    model: str | None
    messages: int
    compactions: tuple[AuditedCompaction, ...]
    expired: tuple[ExpiredCache, ...]


@dataclass(slots=True)
class Audit:
    """The results of all files."""

    sessions: list[AuditedSession] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Files that hold no session, and why."""

    @property
    def compactions(self) -> list[AuditedCompaction]:
        return [each for session in self.sessions for each in session.compactions]

    @property
    def comparable(self) -> list[AuditedCompaction]:
        """The compactions with facts that were used later and a result of both sides: the base of the shares."""
        return [each for each in self.compactions if each.facts and each.clew is not None]

    @property
    def dollars(self) -> Decimal:
        """The cost of compactions and expired caches, as far as prices are known."""
        spent = [each.cost.dollars for each in self.compactions]
        spent += [each.dollars for session in self.sessions for each in session.expired]
        return sum((each for each in spent if each is not None), Decimal(0))


def audit_sources(sources: Iterable[ImportSource], on_session: Callable[[str], None] | None = None) -> Audit:
    """Read every session of the files, and measure its compactions. A file that is no session file is skipped."""
    audit = Audit()
    known: set[tuple[str, str]] = set()
    for source in sources:
        try:
            with open_sessions(source.name) as file:
                for session in file.sessions:
                    if on_session is not None:
                        on_session(session.name)
                    audited = audit_session(session)
                    identity = (audited.program, session.metadata.session or session.name)
                    # A program may keep a session twice, in its database and in an export.
                    if audited.messages and identity not in known:
                        known.add(identity)
                        audit.sessions.append(audited)
        except UnreadableTranscript as error:
            audit.skipped.append((error.source, error.problem))
    return audit


def audit_session(session: SourceSession) -> AuditedSession:
    """Measure the compactions and expired caches of a session."""
    entries, found = find_compactions(session.kind, session.entries())
    model = next((entry.model for entry in entries if entry.model), session.metadata.model)
    calls = recorded_calls(entries, model)
    count = counter_for(model).message

    def measured(compaction: RecordedCompaction) -> AuditedCompaction:
        tokens = sum(map(count, compaction.result))
        asked = compaction_cost(calls, compaction.summary, count(compaction.summary.message), model)
        last = [call for call in calls if call.entry.line < compaction.summary.line]
        before = last[-1].window if last else sum(count(entry.message) for entry in compaction.before)
        return _measure(compaction, (before, tokens), asked, count, model)

    lines = [compaction.summary.line for compaction in found]
    return AuditedSession(
        name=session.name,
        program=session.kind.replace("_", "-"),
        model=model,
        messages=len(entries),
        compactions=tuple(map(measured, found)),
        expired=tuple(expired_caches(calls, lines)),
    )


def _measure(
    found: RecordedCompaction,
    tokens: tuple[int, int],
    cost: CompactionCost,
    count: Callable[[Message], int],
    model: str | None,
) -> AuditedCompaction:
    before = [entry.message for entry in found.before]
    used = used_again(before, (entry.message for entry in found.after))
    facts = [atom for atom in used if atom.is_fact]
    theirs = "\n".join(map(text_with_calls, found.result))
    ours = _clew_result(before, len(theirs), count, model) if facts else None
    dropped = [atom for atom in facts if not atom.is_shown_in(theirs)]
    return AuditedCompaction(
        line=found.summary.line,
        timestamp=found.summary.timestamp,
        tokens_before=tokens[0],
        tokens_after=tokens[1],
        atoms=len(used),
        facts=len(facts),
        program=_kept(used, theirs),
        clew=None if ours is None else _kept(used, ours),
        dropped=tuple(_dropped(atom, found, ours) for atom in dropped),
        read_again=tuple(_read_again(found, count)),
        cost=cost,
    )


def _kept(used: Sequence[UsedAtom], result: str) -> KeptFacts:
    return KeptFacts(
        len(result), sum(atom.is_in(result) for atom in used), sum(atom.is_shown_in(result) for atom in used)
    )


def _clew_result(
    before: Sequence[Message], most_chars: int, count: Callable[[Message], int], model: str | None
) -> str | None:
    """Clew's replacement of a window in at most so many characters; None if there is none."""
    whole = "\n".join(map(text_with_calls, before))
    if len(whole) <= most_chars:
        return whole
    messages = list(repair(before, open_end=True).messages)
    target = max(_SMALLEST_TARGET, sum(map(count, before)) * most_chars // len(whole))
    fitting: str | None = None
    for _ in range(_TRIES):
        try:
            made = compress(messages, target_tokens=target, model=model)
        except ClewError:
            break
        result = "\n".join(map(text_with_calls, made.compaction.messages))
        if len(result) <= most_chars:
            fitting = max(fitting or "", result, key=len)
        if _CLOSE_ENOUGH * most_chars <= len(result) <= most_chars:
            break
        target = max(_SMALLEST_TARGET, int(target * _AIM * most_chars / max(1, len(result))))
    return fitting


def _dropped(atom: UsedAtom, found: RecordedCompaction, ours: str | None) -> DroppedFact:
    return DroppedFact(
        text=_safe(atom.text),
        source=_safe(atom.source.text, atom.text),
        source_line=found.before[atom.source.message].line,
        use=_safe(atom.use.text, atom.text),
        use_line=found.after[atom.use.message].line,
        is_kept_by_clew=ours is not None and atom.is_shown_in(ours),
    )


def _safe(text: str, around: str = "") -> str:
    """One line without secrets, cut around the words that it is shown for."""
    at = max(0, text.find(around) - _SHOWN_CHARS // 3) if around else 0
    plain = "".join(char if char.isprintable() else " " for char in redact(_ESCAPES.sub("", text)).text[at:])
    return shorten(" ".join(plain.split()), _SHOWN_CHARS)


def _read_again(found: RecordedCompaction, count: Callable[[Message], int]) -> Iterable[ReadAgain]:
    """Each file once, with the first reading after the compaction."""
    known = {path for entry in found.before for path, _ in _files_read(entry)}
    results = {entry.message.get("tool_call_id"): entry.message for entry in found.after}
    listed: set[str] = set()
    for entry in found.after:
        for path, call in _files_read(entry):
            if path in known and path not in listed:
                listed.add(path)
                result = results.get(call)
                yield ReadAgain(_safe(path), entry.line, count(result) if result else 0)


def _files_read(entry: SourceEntry) -> Iterable[tuple[str, str | None]]:
    for call in calls_of(entry.message):
        reading = read_call(call)
        if reading.verb == "READ" and reading.target:
            yield reading.target, call.get("id")
