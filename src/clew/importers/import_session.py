"""Importing sessions of other programs into the store, message by message.

Importing twice adds nothing, importing a file that has grown adds the new part, and a run that was killed is finished
by the next one: each transaction says behind which message it belongs. A message that differs from the stored one in
its position opens a branch there, whose id is derived from that message, so that the next run finds it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, TypeAlias

from clew.facts import clean_title
from clew.importers.session import SourceEntry, SourceMetadata, SourceSession
from clew.importers.store_values import (
    IMPORTED,
    branch_id,
    call_name,
    model_call,
    model_name,
    parse_time,
    program_session_id,
    session_id,
    start_time,
    title_from,
)
from clew.messages import Message, text_of
from clew.store import (
    CallFilter,
    ModelCall,
    NewMessage,
    NewSession,
    Store,
    UnknownSession,
    chains_of,
    plugin_session_id,
)
from clew.usage import CanonicalUsage, normalize_usage

MAX_BATCH_ENTRIES = 500
MAX_BATCH_CHARS = 4_000_000
_PROMPT_ROLES = ("system", "developer")
_OPEN_REPLY = timedelta(minutes=2)
ImportProgress: TypeAlias = Callable[[int], None]
"""Is called with how many messages of a session are done."""


@dataclass(frozen=True, slots=True)
class FileGrowth:
    """The times by which a file counts as being written."""

    now: datetime
    written: datetime | None = None
    """When it was last written; None for a database of many sessions, where only the times of its entries count."""

    def may_change(self, entry: SourceEntry) -> bool:
        """Whether this, the last of a session, is a reply that may still grow."""
        times = [at for at in (parse_time(entry.timestamp), self.written) if at is not None]
        is_reply = entry.message.get("role") == "assistant"
        return is_reply and bool(times) and self.now - max(times) < _OPEN_REPLY


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A session that was imported, or with a dry run would have been."""

    source: str
    """The file, and the session or line in it where it holds several."""
    kind: str
    """The program that wrote it, or `json`, `jsonl`."""
    session: str | None = None
    """Its id in the store; None where the source held no messages."""
    title: str | None = None
    added: int = 0
    known: int = 0
    """Messages that were there already."""
    calls: int = 0
    """Model calls whose usage was added."""
    is_new: bool = False
    is_branch: bool = False
    """Whether an earlier message differs from what was imported before, so that a branch was opened."""
    notices: tuple[str, ...] = ()
    is_held: bool = False
    """Whether its newest reply was left for later, since it may still be being written."""


async def import_session(
    store: Store,
    session: SourceSession,
    *,
    dry_run: bool = False,
    progress: ImportProgress | None = None,
    growth: FileGrowth | None = None,
) -> ImportedSession:
    """Write what the store does not have yet of a session; with `dry_run`, only find out what that would be.

    With `growth` a newest reply that may still be being written is left for later. A session that a plugin of Clew
    stores while its program runs is left to it.
    """
    metadata = session.metadata
    writer: _SessionWriter | None = None
    entries = SettledEntries(session.entries(), growth)
    for batch in batches(entries):
        if writer is None:
            if (stored := await _stored_by_plugin(store, session)) is not None:
                return stored
            rest = _without_prompts(batch, metadata)
            writer = await _open_writer(store, session, rest, dry_run)
            # A session that an earlier version imported with a prompt in its history continues as it is.
            batch = batch if await writer.begins_with_prompt() else rest
        await writer.write(batch)
        if progress is not None:
            progress(writer.position)
    if writer is None:
        notices = metadata.notices.sentences()
        return ImportedSession(session.name, session.kind, notices=notices, is_held=entries.is_held)
    await writer.finish()
    return replace(writer.result(session), is_held=entries.is_held)


class SettledEntries:
    """The entries of a session without a newest reply that may still be being written.

    A program writes a reply piece by piece; half a reply, once imported, would be repeated whole on a branch.
    """

    def __init__(self, entries: Iterable[SourceEntry], growth: FileGrowth | None) -> None:
        self.is_held = False
        """Whether a reply was left out; known when all entries have been read."""
        self._entries = entries
        self._growth = growth

    def __iter__(self) -> Iterator[SourceEntry]:
        newest: SourceEntry | None = None
        for entry in self._entries:
            if newest is not None:
                yield newest
            newest = entry
        if newest is not None:
            self.is_held = self._growth is not None and self._growth.may_change(newest)
            if not self.is_held:
                yield newest


def _without_prompts(batch: list[SourceEntry], metadata: SourceMetadata) -> list[SourceEntry]:
    """Move leading system messages into the metadata: the store keeps the system prompt beside the history."""
    lead = [entry.message for entry in takewhile(lambda entry: entry.message.get("role") in _PROMPT_ROLES, batch)]
    if not lead or len(lead) == len(batch):
        return batch
    texts = [metadata.system or "", *map(text_of, lead)]
    metadata.system = "\n\n".join(text for text in texts if text)
    return batch[len(lead) :]


async def _open_writer(
    store: Store, session: SourceSession, batch: Sequence[SourceEntry], dry_run: bool
) -> _SessionWriter:
    metadata = session.metadata
    own = session_id(session.kind, metadata, (entry.message for entry in batch))
    title = (clean_title(metadata.title) if metadata.title else None) or title_from(batch)
    try:
        found = await store.session(own)
        return _SessionWriter(store, own, metadata, dry_run, title=found.title, is_new=False)
    except UnknownSession:
        pass
    if not dry_run:
        parent = await _parent(store, session.kind, metadata)
        model = next((entry.model for entry in batch if entry.model), None) or metadata.model
        source = "import" if session.kind in ("json", "jsonl") else session.kind.replace("_", "-")
        kind = metadata.parent_relation if metadata.parent else None
        new = NewSession(own, source, model_name(model), title, metadata.system, parent=parent, kind=kind)
        await store.start_session(replace(new, created=start_time(batch)))
    return _SessionWriter(store, own, metadata, dry_run, title=title, is_new=True)


async def _stored_by_plugin(store: Store, session: SourceSession) -> ImportedSession | None:
    """The session as a plugin stores it; None if no plugin does."""
    if session.metadata.session is None:
        return None
    try:
        found = await store.session(plugin_session_id(session.kind.replace("_", "-"), session.metadata.session))
    except UnknownSession:
        return None
    known = len(await store.messages(found.id))
    notice = "the plugin of Clew inside its program stores this session; nothing was imported"
    return ImportedSession(session.name, session.kind, found.id, found.title, known=known, notices=(notice,))


async def _parent(store: Store, kind: str, metadata: SourceMetadata) -> str | None:
    """The parent's id, where the parent was imported before."""
    if metadata.parent is None:
        return None
    try:
        return (await store.session(program_session_id(kind, metadata.parent))).id
    except UnknownSession:
        return None


def batches(entries: Iterable[SourceEntry]) -> Iterator[list[SourceEntry]]:
    """Entries in batches of so many, or so much text, that one fits into memory whatever the file's size."""
    batch: list[SourceEntry] = []
    chars = 0
    for entry in entries:
        batch.append(entry)
        chars += _chars(entry.message)
        if len(batch) >= MAX_BATCH_ENTRIES or chars >= MAX_BATCH_CHARS:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


def _chars(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(map(_chars, value.values()))
    return sum(map(_chars, value)) if isinstance(value, list) else 0


class _SessionWriter:
    """Writes one session: first past everything that is stored already, then appending the rest."""

    def __init__(
        self, store: Store, session: str, metadata: SourceMetadata, dry_run: bool, *, title: str | None, is_new: bool
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._dry_run = dry_run
        self._session = session
        self._title = title
        self._is_new = is_new
        self._is_branch = False
        self._is_past_known = is_new
        self._added = 0
        self._calls = 0
        self.position = 0
        """The number of the next message."""

    async def write(self, batch: Sequence[SourceEntry]) -> None:
        rest = batch
        while rest and not self._is_past_known:
            rest = rest[await self._skip_known(rest) :]
        if rest:
            await self._append(rest)

    async def begins_with_prompt(self) -> bool:
        """Whether the stored session begins with a system message as a row of its history."""
        if self._is_new:
            return False
        return any(row.message["role"] in _PROMPT_ROLES for row in await self._store.messages(self._session, 0, 1))

    async def finish(self) -> None:
        """Record usage that the file counts per session, and a title that the file has only near its end."""
        if self._dry_run:
            return
        for total in self._metadata.usage:
            usage = normalize_usage(total.usage)
            before = await self._recorded(model_name(total.model) or "unknown")
            name = f"{self._session}:{total.model}:{usage.total_tokens}"
            call = model_call(_difference(usage, before), total.model, parse_time(total.timestamp), name)
            if call is not None:
                await self._store.record_call(self._session, call)
                self._calls += 1
        late = clean_title(self._metadata.title) if self._metadata.title else None
        if self._is_new and late and late != self._title:
            self._title = (await self._store.rename(self._session, late)).title

    def result(self, session: SourceSession) -> ImportedSession:
        return ImportedSession(
            source=session.name,
            kind=session.kind,
            session=self._session,
            title=self._title,
            added=self._added,
            known=self.position - self._added,
            calls=self._calls,
            is_new=self._is_new,
            is_branch=self._is_branch,
            notices=session.metadata.notices.sentences(),
        )

    async def _skip_known(self, batch: Sequence[SourceEntry]) -> int:
        """Skip the messages that are stored, and return how many; where one differs, change to its branch."""
        stored = await self._store.messages(self._session, self.position, self.position + len(batch))
        same = _count_same(stored_messages := [row.message for row in stored], [entry.message for entry in batch])
        self.position += same
        if same == len(batch):
            return same
        if same == len(stored_messages):
            self._is_past_known = True
        else:
            await self._change_to_branch(batch[same].message)
        return same

    async def _change_to_branch(self, message: Message) -> None:
        """Continue on the branch that has this message at the current position; create it where there is none."""
        name = branch_id(self._session, self.position, message)
        try:
            await self._store.session(name)
        except UnknownSession:
            self._is_branch, self._is_past_known = True, True
            if not self._dry_run:
                await self._store.branch(self._session, self.position, new_id=name)
        self._session = name

    async def _append(self, entries: Sequence[SourceEntry]) -> None:
        found = ((index, self._call_of(entry, self.position + index)) for index, entry in enumerate(entries))
        calls = {index: call for index, call in found if call is not None}
        if not self._dry_run:
            new = [NewMessage(entry.message, parse_time(entry.timestamp)) for entry in entries]
            await self._store.append(self._session, new, after=self.position, calls=calls)
        self.position += len(entries)
        self._added += len(entries)
        self._calls += len(calls)

    def _call_of(self, entry: SourceEntry, seq: int) -> ModelCall | None:
        if entry.usage is None:
            return None
        name = call_name(self._session, entry, seq)
        return model_call(entry.usage, entry.model or self._metadata.model, parse_time(entry.timestamp), name)

    async def _recorded(self, model: str) -> CanonicalUsage:
        """The usage of a model that imports have recorded for this session."""
        totals = await self._store.usage(["model", "source"], CallFilter(session=self._session))
        wanted = {"model": model, "source": IMPORTED}
        return sum((total.usage for total in totals if total.group == wanted), CanonicalUsage())


def _count_same(stored: Sequence[Message], read: Sequence[Message]) -> int:
    """How many messages are the same from the first on; fields that providers change do not count."""
    pairs = zip(chains_of(stored), chains_of(read), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _difference(usage: CanonicalUsage, before: CanonicalUsage) -> CanonicalUsage:
    counts = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    return replace(usage, **{name: max(0, getattr(usage, name) - getattr(before, name)) for name in counts})
