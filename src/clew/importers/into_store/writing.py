"""One session into the store, batch by batch: first past everything that is there already, then appending the rest.

A message that differs from the one stored in its place opens a branch there, whose id is told from that message, so
that the next run finds it again. Each transaction says behind which message it belongs: a run that is killed leaves a
beginning, and the next run goes on from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TypeAlias

from clew.importers.entries import Entry, Margin
from clew.importers.into_store.batches import batches
from clew.importers.into_store.describe import (
    IMPORTED,
    began,
    branch_id,
    known_id,
    model_call,
    moment,
    name_of_call,
    name_of_model,
    session_id,
    tidy_title,
    title_from,
)
from clew.importers.into_store.outcome import ImportedSession
from clew.importers.session import Session
from clew.messages import Message, text_of
from clew.store import CallFilter, Chain, ModelCall, NewMessage, NewSession, Store, UnknownSession
from clew.usage import CanonicalUsage, normalize_usage

Progress: TypeAlias = Callable[[int], None]
"""Is told how many messages of a session have been gone through."""


async def import_session(
    store: Store, session: Session, *, dry_run: bool = False, progress: Progress | None = None
) -> ImportedSession:
    """Take in what the store does not have yet of a session; with `dry_run`, only find out what that would be."""
    margin = session.margin
    wanted: _Writer | None = None
    for batch in batches(session.entries()):
        if wanted is None:
            batch = _without_system(batch, margin)
            wanted = await _opened(store, session, batch, dry_run)
        await wanted.take(batch)
        if progress is not None:
            progress(wanted.at)
    if wanted is None:
        return ImportedSession(
            session.name, session.kind, None, None, 0, 0, 0, False, False, margin.notices.sentences()
        )
    await wanted.finish()
    return wanted.outcome(session)


def _without_system(batch: list[Entry], margin: Margin) -> list[Entry]:
    """The system prompt is kept beside the history, not in it."""
    lead = [entry.message for entry in takewhile(lambda entry: entry.message.get("role") == "system", batch)]
    if not lead or len(lead) == len(batch) or margin.system is not None:
        return batch
    margin.system = "\n\n".join(map(text_of, lead))
    return batch[len(lead) :]


async def _opened(store: Store, session: Session, batch: Sequence[Entry], dry_run: bool) -> _Writer:
    margin = session.margin
    own = session_id(session.kind, margin, (entry.message for entry in batch))
    title = (tidy_title(margin.title) if margin.title else None) or title_from(batch)
    try:
        found = await store.session(own)
        return _Writer(store, own, margin, dry_run, title=found.title, is_new=False)
    except UnknownSession:
        pass
    if not dry_run:
        parent = await _parent(store, session.kind, margin)
        model = next((entry.model for entry in batch if entry.model), None) or margin.model
        source = "import" if session.kind in ("json", "jsonl") else session.kind
        kind = margin.descent if margin.parent else None
        new = NewSession(own, source, name_of_model(model), title, margin.system, parent=parent, kind=kind)
        await store.start_session(replace(new, created=began(batch)))
    return _Writer(store, own, margin, dry_run, title=title, is_new=True)


async def _parent(store: Store, kind: str, margin: Margin) -> str | None:
    """The parent's id, where the parent was imported before."""
    if margin.parent is None:
        return None
    try:
        return (await store.session(known_id(kind, margin.parent))).id
    except UnknownSession:
        return None


class _Writer:
    """Where a session is being written, and how far it has come."""

    def __init__(
        self, store: Store, session: str, margin: Margin, dry_run: bool, *, title: str | None, is_new: bool
    ) -> None:
        self._store = store
        self._margin = margin
        self._dry_run = dry_run
        self._session = session
        self._title = title
        self._is_new = is_new
        self._is_branch = False
        self._is_past_known = is_new
        self._added = 0
        self._calls = 0
        self.at = 0
        """The number of the next message."""

    async def take(self, batch: Sequence[Entry]) -> None:
        rest = batch
        while rest and not self._is_past_known:
            rest = rest[await self._skip_known(rest) :]
        if rest:
            await self._append(rest)

    async def finish(self) -> None:
        """Usage that is told per session, and a title that the file told late."""
        if self._dry_run:
            return
        for total in self._margin.totals:
            told = normalize_usage(total.usage)
            before = await self._recorded(name_of_model(total.model) or "unknown")
            name = f"{self._session}:{total.model}:{told.total_tokens}"
            call = model_call(_beyond(told, before), total.model, moment(total.at), name)
            if call is not None:
                await self._store.record_call(self._session, call)
                self._calls += 1
        late = tidy_title(self._margin.title) if self._margin.title else None
        if self._is_new and late and late != self._title:
            self._title = (await self._store.rename(self._session, late)).title

    def outcome(self, session: Session) -> ImportedSession:
        return ImportedSession(
            source=session.name,
            kind=session.kind,
            session=self._session,
            title=self._title,
            added=self._added,
            known=self.at - self._added,
            calls=self._calls,
            is_new=self._is_new,
            is_branch=self._is_branch,
            notices=session.margin.notices.sentences(),
        )

    async def _skip_known(self, batch: Sequence[Entry]) -> int:
        """Go past the messages that are stored; where another one stands in the way, onto the branch that leaves it."""
        stored = await self._store.messages(self._session, self.at, self.at + len(batch))
        same = _same(stored_messages := [row.message for row in stored], [entry.message for entry in batch])
        self.at += same
        if same == len(batch):
            return same
        if same == len(stored_messages):
            self._is_past_known = True
        else:
            await self._turn_off(batch[same].message)
        return same

    async def _turn_off(self, message: Message) -> None:
        """Go on with the branch that has this message at the place we are at; it is made if it is not there."""
        name = branch_id(self._session, self.at, message)
        try:
            await self._store.session(name)
        except UnknownSession:
            self._is_branch, self._is_past_known = True, True
            if not self._dry_run:
                await self._store.branch(self._session, self.at, new_id=name)
        self._session = name

    async def _append(self, entries: Sequence[Entry]) -> None:
        told = ((place, self._call_of(entry, self.at + place)) for place, entry in enumerate(entries))
        calls = {place: call for place, call in told if call is not None}
        if not self._dry_run:
            news = [NewMessage(entry.message, moment(entry.at)) for entry in entries]
            await self._store.append(self._session, news, after=self.at, calls=calls)
        self.at += len(entries)
        self._added += len(entries)
        self._calls += len(calls)

    def _call_of(self, entry: Entry, seq: int) -> ModelCall | None:
        if entry.usage is None:
            return None
        name = name_of_call(self._session, entry, seq)
        return model_call(entry.usage, entry.model or self._margin.model, moment(entry.at), name)

    async def _recorded(self, model: str) -> CanonicalUsage:
        """What imports have recorded of a model for this session."""
        totals = await self._store.usage(["model", "source"], CallFilter(session=self._session))
        wanted = {"model": model, "source": IMPORTED}
        return sum((total.usage for total in totals if total.group == wanted), CanonicalUsage())


def _same(stored: Sequence[Message], read: Sequence[Message]) -> int:
    """How many messages are the same, from the first on, whatever passing differences they have."""
    pairs = zip(Chain().of(stored), Chain().of(read), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _beyond(told: CanonicalUsage, before: CanonicalUsage) -> CanonicalUsage:
    return replace(
        told,
        input_tokens=max(0, told.input_tokens - before.input_tokens),
        output_tokens=max(0, told.output_tokens - before.output_tokens),
        cache_read_tokens=max(0, told.cache_read_tokens - before.cache_read_tokens),
        cache_write_tokens=max(0, told.cache_write_tokens - before.cache_write_tokens),
        reasoning_tokens=max(0, told.reasoning_tokens - before.reasoning_tokens),
    )
